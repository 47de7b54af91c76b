/* What a card held beside its users' own memory, from one arrival or departure to the next. */
#include "job/epochs.h"

#include <stdlib.h>
#include <string.h>

#include "base/index.h"

uint64_t vt_card_user_from(const struct vt_card_user *user)
{
    return user->process->start_ns + user->device->context_ns;
}

uint64_t vt_card_user_until(const struct vt_card_user *user)
{
    const uint64_t end_ns = user->device->context_end_ns;

    return !end_ns || user->process->start_ns + end_ns > user->process->gone_ns
               ? user->process->gone_ns
               : user->process->start_ns + end_ns;
}

static int compare_level(const void *level, const void *t_ns)
{
    return ((const struct vt_job_level *)level)->t_ns > *(const uint64_t *)t_ns ? 1 : -1;
}

uint64_t vt_card_user_bytes(const struct vt_card_user *user, uint64_t t_ns)
{
    const struct vt_job_device *device = user->device;
    uint64_t own_ns = t_ns - user->process->start_ns;
    size_t after;

    if (t_ns < user->process->start_ns || t_ns > user->process->gone_ns)
        return 0;
    after =
        vt_lower_bound(device->levels, device->level_count, sizeof *device->levels, &own_ns, compare_level);
    return after ? device->levels[after - 1].bytes : 0;
}

static bool is_alive(const struct vt_card_user *user, uint64_t t_ns)
{
    return vt_card_user_from(user) <= t_ns && t_ns <= vt_card_user_until(user);
}

static int compare_epochs(const void *left, const void *right)
{
    return vt_order(((const struct vt_card_epoch *)left)->from_ns,
                    ((const struct vt_card_epoch *)right)->from_ns);
}

/* What the driver told of the card in an epoch, less what the users had then; a call of another process that
 * was under way is in one of the two only, so the median is taken. False if nothing was told. */
static bool measure_epoch(const struct vt_card_user *users, size_t count, uint64_t to_ns,
                          struct vt_card_epoch *epoch, uint64_t *values)
{
    size_t told = 0;

    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < users[i].device->card_level_count; k++) {
            const struct vt_job_level *level = &users[i].device->card_levels[k];
            uint64_t t_ns = users[i].process->start_ns + level->t_ns, own = 0;

            if (t_ns < epoch->from_ns || t_ns >= to_ns)
                continue;
            for (size_t other = 0; other < count; other++)
                own += vt_card_user_bytes(&users[other], t_ns);
            values[told++] = level->bytes > own ? level->bytes - own : 0;
        }
    epoch->bytes = vt_job_median(values, told);
    return told > 0;
}

static bool is_user(const struct vt_card_user *users, size_t count, uint32_t pid)
{
    for (size_t i = 0; i < count; i++)
        if (users[i].process->pid == pid)
            return true;
    return false;
}

/* What NVML told one user last of the other processes on the card. */
struct told {
    size_t next; /* of its device's others */
    size_t count;
    struct vt_job_other now[VT_JOB_MOST_OTHERS];
};

static void hear(const struct vt_card_user *user, struct told *told, uint64_t t_ns)
{
    const struct vt_job_device *device = user->device;

    for (; told->next < device->other_count; told->next++) {
        const struct vt_job_other *other = &device->others[told->next];
        const size_t at = vt_job_place_of(told->now, told->count, other->pid);

        if (user->process->start_ns + other->t_ns > t_ns)
            return;
        told->now[at] = *other;
        told->count += at == told->count;
    }
}

/* What one user was told of a process: the most of those before it. */
static uint64_t told_before(const struct vt_card_user *users, const struct told *told, size_t before,
                            uint32_t pid, uint64_t t_ns)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < before; i++)
        for (size_t k = 0; k < told[i].count && is_alive(&users[i], t_ns); k++)
            if (told[i].now[k].pid == pid && told[i].now[k].bytes > bytes)
                bytes = told[i].now[k].bytes;
    return bytes;
}

/* What processes beside the users have, of each the most that a user was told. */
static uint64_t other_bytes(const struct vt_card_user *users, struct told *told, size_t count, uint64_t t_ns)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < count; i++) {
        hear(&users[i], &told[i], t_ns);
        for (size_t k = 0; k < told[i].count && is_alive(&users[i], t_ns); k++) {
            const struct vt_job_other *other = &told[i].now[k];
            uint64_t before = told_before(users, told, i, other->pid, t_ns);

            bytes += !is_user(users, count, other->pid) && other->bytes > before ? other->bytes - before : 0;
        }
    }
    return bytes;
}

/* What the users' contexts have together, and who is there beside them, as NVML told; false if it did not
 * tell that of each user. */
static bool add_contexts(const struct vt_card_user *users, struct told *told, size_t count,
                         struct vt_card_epoch *epoch)
{
    uint64_t bytes = other_bytes(users, told, count, epoch->from_ns);

    for (size_t i = 0; i < count; i++) {
        if (!users[i].device->context_told)
            return false;
        bytes += is_alive(&users[i], epoch->from_ns) ? users[i].device->context_bytes : 0;
    }
    epoch->bytes = bytes;
    return true;
}

struct vt_card_epoch *vt_card_epochs(const struct vt_card_user *users, size_t count, size_t *epoch_count)
{
    size_t levels = 1, most = 2 * count;
    struct told *told = calloc(count, sizeof *told);
    struct vt_card_epoch *epochs;
    uint64_t *values;

    for (size_t i = 0; i < count; i++) {
        levels += users[i].device->card_level_count;
        most += users[i].device->other_count;
    }
    epochs = calloc(most, sizeof *epochs);
    values = calloc(levels, sizeof *values);
    if (!told || !epochs || !values) {
        free(told);
        free(epochs);
        free(values);
        return NULL;
    }
    *epoch_count = 0;
    for (size_t i = 0; i < count; i++) {
        epochs[(*epoch_count)++].from_ns = vt_card_user_from(&users[i]);
        epochs[(*epoch_count)++].from_ns = vt_card_user_until(&users[i]) + 1;
        for (size_t k = 0; k < users[i].device->other_count; k++)
            epochs[(*epoch_count)++].from_ns = users[i].process->start_ns + users[i].device->others[k].t_ns;
    }
    qsort(epochs, *epoch_count, sizeof *epochs, compare_epochs);
    for (size_t e = 0; e < *epoch_count; e++) {
        uint64_t to_ns = e + 1 < *epoch_count ? epochs[e + 1].from_ns : UINT64_MAX;

        for (size_t i = 0; i < count; i++)
            epochs[e].alive += is_alive(&users[i], epochs[e].from_ns);
        if (!epochs[e].alive || add_contexts(users, told, count, &epochs[e]))
            continue;
        if (!measure_epoch(users, count, to_ns, &epochs[e], values) && e && epochs[e - 1].alive)
            /* as before; of those that have ended, an equal part each is gone */
            epochs[e].bytes = epochs[e - 1].bytes / epochs[e - 1].alive *
                              (epochs[e].alive < epochs[e - 1].alive ? epochs[e].alive : epochs[e - 1].alive);
    }
    free(told);
    free(values);
    return epochs;
}
