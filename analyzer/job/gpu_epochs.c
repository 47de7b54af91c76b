#include "job/gpu_epochs.h"

#include <stdlib.h>

#include "base/allocate.h"
#include "base/index.h"
#include "base/sort.h"

/* A change, in the order in which those of one time are taken; the last kind is a reading of all. */
enum kind { COMES, HAS, HAS_CONTEXT, OTHER_HAS, LEAVES, ENDS, READS };
struct vt_gpu_moment {
    uint64_t t_ns;
    uint32_t user, index;
    uint8_t kind;
};

uint64_t vt_gpu_user_from(const struct vt_gpu_user *user)
{
    return user->process->start_ns + user->device->context_ns;
}

static uint64_t user_until(const struct vt_gpu_user *user)
{
    const uint64_t end_ns = user->device->context_end_ns;

    return !end_ns || user->process->start_ns + end_ns > user->process->gone_ns
               ? user->process->gone_ns
               : user->process->start_ns + end_ns;
}

static int compare_level(const void *level, const void *t_ns)
{
    return ((const struct vt_level *)level)->t_ns > *(const uint64_t *)t_ns ? 1 : -1;
}

uint64_t vt_gpu_user_bytes(const struct vt_gpu_user *user, uint64_t t_ns)
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

/* ---- All changes in order ---- */

static uint64_t moment_key(const void *item)
{
    return ((const struct vt_gpu_moment *)item)->t_ns;
}

static size_t count_moments(const struct vt_gpu_user *users, size_t count)
{
    size_t moments = 1;

    for (size_t i = 0; i < count; i++)
        moments += 3 + users[i].device->level_count + users[i].device->context_level_count +
                   users[i].device->other_count + users[i].device->card_level_count;
    return moments;
}

static void add_moment(struct vt_gpu_walk *walk, size_t user, enum kind kind, size_t index, uint64_t t_ns)
{
    walk->moments[walk->moment_count++] = (struct vt_gpu_moment){
        .t_ns = t_ns, .user = (uint32_t)user, .index = (uint32_t)index, .kind = (uint8_t)kind};
}

static void add_user(struct vt_gpu_walk *walk, size_t i)
{
    const struct vt_gpu_user *user = &walk->users[i];
    const struct vt_job_device *device = user->device;
    const uint64_t start_ns = user->process->start_ns;

    add_moment(walk, i, COMES, 0, vt_gpu_user_from(user));
    for (size_t k = 0; k < device->level_count; k++)
        add_moment(walk, i, HAS, k, start_ns + device->levels[k].t_ns);
    for (size_t k = 0; walk->told && k < device->context_level_count; k++)
        add_moment(walk, i, HAS_CONTEXT, k, start_ns + device->context_levels[k].t_ns);
    for (size_t k = 0; k < device->other_count; k++)
        add_moment(walk, i, OTHER_HAS, k, start_ns + device->others[k].t_ns);
    for (size_t k = 0; !walk->told && k < device->card_level_count; k++)
        add_moment(walk, i, READS, k, start_ns + device->card_levels[k].t_ns);
    add_moment(walk, i, LEAVES, 0, user_until(user) + 1);
    add_moment(walk, i, ENDS, 0, user->process->gone_ns + 1);
}

/* Drops what NVML reports for the users themselves: their memory is known better. */
static void drop_own(struct vt_gpu_walk *walk)
{
    struct vt_index pids = {0};
    size_t kept = 0;

    for (size_t i = 0; i < walk->count; i++)
        vt_index_put(&pids, walk->users[i].device->nvml_pid, 1);
    for (size_t i = 0; i < walk->moment_count; i++) {
        const struct vt_gpu_moment *moment = &walk->moments[i];

        if (moment->kind != OTHER_HAS ||
            !vt_index_has(&pids, walk->users[moment->user].device->others[moment->index].pid))
            walk->moments[kept++] = *moment;
    }
    walk->moment_count = kept;
    vt_index_free(&pids);
}

static void take_moment(struct vt_gpu_walk *walk, const struct vt_gpu_moment *moment)
{
    struct vt_gpu_user *user = &walk->users[moment->user];
    const struct vt_job_device *device = user->device;
    uint64_t own_bytes = user->now_bytes, context_bytes = user->context_bytes;

    if (moment->kind == COMES && !user->gone) {
        user->alive = true;
        walk->alive++;
        if (device->context_told && !device->context_level_count)
            context_bytes = device->context_bytes;
    } else if (moment->kind == HAS && !user->gone) {
        own_bytes = device->levels[moment->index].bytes;
    } else if (moment->kind == HAS_CONTEXT && !user->gone) {
        context_bytes = device->context_levels[moment->index].bytes;
    } else if (moment->kind == OTHER_HAS && !user->gone) {
        vt_gpu_others_tell(&walk->others, moment->user, device->others[moment->index].pid,
                           device->others[moment->index].bytes);
        return;
    } else if (moment->kind == LEAVES || moment->kind == ENDS) {
        walk->alive -= user->alive;
        user->alive = false;
        context_bytes = 0;
        user->gone |= moment->kind == ENDS;
        own_bytes = user->gone ? 0 : own_bytes;
        vt_gpu_others_leave(&walk->others, moment->user);
    }
    walk->own_bytes += own_bytes - user->now_bytes;
    walk->context_bytes += context_bytes - user->context_bytes;
    user->now_bytes = own_bytes;
    user->context_bytes = context_bytes;
}

/* Where it is not reported: from here on something else may be in use beside the users' own memory. */
static bool begins_epoch(const struct vt_gpu_moment *moment)
{
    return moment->kind == COMES || moment->kind == LEAVES || moment->kind == OTHER_HAS;
}

uint64_t vt_gpu_walk_next_ns(const struct vt_gpu_walk *walk)
{
    return walk->next < walk->moment_count ? walk->moments[walk->next].t_ns : UINT64_MAX;
}

bool vt_gpu_walk_next(struct vt_gpu_walk *walk)
{
    bool begins = false;

    if (walk->next == walk->moment_count)
        return false;
    walk->t_ns = walk->moments[walk->next].t_ns;
    for (; walk->next < walk->moment_count && walk->moments[walk->next].t_ns == walk->t_ns; walk->next++) {
        begins |= begins_epoch(&walk->moments[walk->next]);
        take_moment(walk, &walk->moments[walk->next]);
    }
    walk->beside_at += begins;
    return true;
}

uint64_t vt_gpu_walk_beside(const struct vt_gpu_walk *walk)
{
    if (walk->told)
        return walk->context_bytes + walk->others.bytes;
    return walk->beside_at && walk->beside_at <= walk->beside_count && walk->alive
               ? walk->beside[walk->beside_at - 1]
               : 0;
}

static void rewind_walk(struct vt_gpu_walk *walk)
{
    for (size_t i = 0; i < walk->count; i++) {
        walk->users[i].now_bytes = walk->users[i].context_bytes = 0;
        walk->users[i].alive = walk->users[i].gone = false;
    }
    vt_gpu_others_free(&walk->others);
    walk->next = walk->beside_at = walk->alive = 0;
    walk->t_ns = walk->own_bytes = walk->context_bytes = 0;
}

/* ---- What was beside the users, by the driver's reports ---- */

/* While it is measured. */
struct epoch {
    size_t told, alive;
};

/* What the driver reported for the GPU in an epoch, minus what the users held then. A call that another
 * process was making is in one of the two only, so the median is taken. Without a report it stays as
 * before, but the users that have ended take equal parts of it with them. */
static void close_epoch(struct vt_gpu_walk *walk, struct epoch *epoch, uint64_t *values, size_t *alive_before)
{
    uint64_t *bytes = &walk->beside[walk->beside_count];

    *bytes = 0;
    if (epoch->told)
        *bytes = vt_median(values, epoch->told);
    else if (walk->beside_count && *alive_before && epoch->alive)
        *bytes = bytes[-1] / *alive_before * (epoch->alive < *alive_before ? epoch->alive : *alive_before);
    *alive_before = epoch->alive;
    walk->beside_count++;
    epoch->told = 0;
}

static void measure_epochs(struct vt_gpu_walk *walk)
{
    uint64_t *values = vt_allocate((walk->moment_count + 1) * sizeof *values);
    struct epoch epoch = {0};
    size_t alive_before = 0, first = 0;

    walk->beside = vt_allocate((walk->moment_count + 1) * sizeof *walk->beside);
    for (size_t at = walk->beside_at; vt_gpu_walk_next(walk); first = walk->next, at = walk->beside_at) {
        if (walk->beside_at != at && at)
            close_epoch(walk, &epoch, values, &alive_before);
        epoch.told = walk->beside_at != at ? 0 : epoch.told;
        epoch.alive = walk->alive;
        for (size_t i = first; i < walk->next; i++) {
            const struct vt_gpu_moment *moment = &walk->moments[i];
            uint64_t bytes;

            if (moment->kind != READS)
                continue;
            bytes = walk->users[moment->user].device->card_levels[moment->index].bytes;
            values[epoch.told++] = bytes > walk->own_bytes ? bytes - walk->own_bytes : 0;
        }
    }
    if (walk->beside_at)
        close_epoch(walk, &epoch, values, &alive_before);
    free(values);
    rewind_walk(walk);
}

void vt_gpu_walk_begin(struct vt_gpu_walk *walk, struct vt_gpu_user *users, size_t count)
{
    *walk = (struct vt_gpu_walk){.users = users, .count = count, .told = true};
    for (size_t i = 0; i < count; i++)
        walk->told &= users[i].device->context_told;
    walk->moments = vt_allocate(count_moments(users, count) * sizeof *walk->moments);
    rewind_walk(walk);
    for (size_t i = 0; i < count; i++)
        add_user(walk, i);
    drop_own(walk);
    vt_sort_by_key(walk->moments, walk->moment_count, sizeof *walk->moments, moment_key);
    if (!walk->told)
        measure_epochs(walk);
}

void vt_gpu_walk_end(struct vt_gpu_walk *walk)
{
    vt_gpu_others_free(&walk->others);
    free(walk->moments);
    free(walk->beside);
    *walk = (struct vt_gpu_walk){0};
}
