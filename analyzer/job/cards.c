/* Who holds what of each card, where several processes use one. */
#include "job/parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/index.h"

/* The entry of CUDA_VISIBLE_DEVICES that a device is, as a number; the device's own index where that does not
 * tell. */
static int32_t card_number(const struct vt_job_process *process, int32_t index)
{
    const char *text = process->visible_devices;

    for (int32_t i = 0; text && *text; i++) {
        size_t digits = strspn(text, "0123456789");

        if (i == index)
            return digits && digits < 4 && (!text[digits] || text[digits] == ',') ? atoi(text) : index;
        text = strchr(text, ',');
        text = text ? text + 1 : NULL;
    }
    return index;
}

static struct vt_job_card *find_card(struct vt_job *job, const struct vt_job_process *process,
                                     const struct vt_job_device *device)
{
    int32_t number = card_number(process, device->index);

    for (size_t i = 0; i < job->card_count; i++) {
        struct vt_job_card *card = &job->cards[i];

        if (card->node != process->node)
            continue;
        if (device->uuid ? card->by_uuid && !strcmp(card->uuid, device->uuid)
                         : !card->by_uuid && card->number == number)
            return card;
    }
    job->cards[job->card_count] = (struct vt_job_card){.node = process->node,
                                                       .number = number,
                                                       .by_uuid = device->uuid != NULL,
                                                       .uuid = device->uuid ? device->uuid : "",
                                                       .name = device->name,
                                                       .total_bytes = device->total_bytes};
    return &job->cards[job->card_count++];
}

static int by_number(const void *left, const void *right)
{
    const struct vt_job_card *a = left, *b = right;

    if (a->node != b->node)
        return (a->node > b->node) - (a->node < b->node);
    if (a->number != b->number)
        return (a->number > b->number) - (a->number < b->number);
    return strcmp(a->uuid, b->uuid);
}

/* A device with its process, among those of one card. */
struct user {
    struct vt_job_process *process;
    struct vt_job_device *device;
    size_t at; /* the next of its levels */
    bool has_context;
    uint64_t now_bytes, most_bytes;
};

static uint64_t context_from(const struct user *user)
{
    return user->process->start_ns + user->device->context_ns;
}

static int compare_level(const void *level, const void *t_ns)
{
    return ((const struct vt_job_level *)level)->t_ns > *(const uint64_t *)t_ns ? 1 : -1;
}

static uint64_t own_bytes_at(const struct user *user, uint64_t t_ns)
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

static bool is_alive(const struct user *user, uint64_t t_ns)
{
    return context_from(user) <= t_ns && t_ns <= user->process->gone_ns;
}

/* ---- Contexts ---- */

/* A time in which no user of a card came or went, and what was in use beside their own memory: their
 * contexts, and what has no trace. */
struct epoch {
    uint64_t from_ns, bytes;
    size_t alive;
};

static int compare_epochs(const void *left, const void *right)
{
    return vt_order(((const struct epoch *)left)->from_ns, ((const struct epoch *)right)->from_ns);
}

/* What the driver told of the card in an epoch, less what the users had then; a call of another process that
 * was under way is in one of the two only, so the median is taken. False if nothing was told. */
static bool measure_epoch(const struct user *users, size_t count, uint64_t to_ns, struct epoch *epoch,
                          uint64_t *values)
{
    size_t told = 0;

    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < users[i].device->card_level_count; k++) {
            const struct vt_job_level *level = &users[i].device->card_levels[k];
            uint64_t t_ns = users[i].process->start_ns + level->t_ns, own = 0;

            if (t_ns < epoch->from_ns || t_ns >= to_ns)
                continue;
            for (size_t other = 0; other < count; other++)
                own += own_bytes_at(&users[other], t_ns);
            values[told++] = level->bytes > own ? level->bytes - own : 0;
        }
    epoch->bytes = vt_job_median(values, told);
    return told > 0;
}

static bool is_user(const struct user *users, size_t count, uint32_t pid)
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

static void hear(const struct user *user, struct told *told, uint64_t t_ns)
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
static uint64_t told_before(const struct user *users, const struct told *told, size_t before, uint32_t pid,
                            uint64_t t_ns)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < before; i++)
        for (size_t k = 0; k < told[i].count && is_alive(&users[i], t_ns); k++)
            if (told[i].now[k].pid == pid && told[i].now[k].bytes > bytes)
                bytes = told[i].now[k].bytes;
    return bytes;
}

/* What processes beside the users have, of each the most that a user was told. */
static uint64_t other_bytes(const struct user *users, struct told *told, size_t count, uint64_t t_ns)
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
static bool add_contexts(const struct user *users, struct told *told, size_t count, struct epoch *epoch)
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

/* Begins of epochs: when a context was first seen, when a process had ended, and when another one was told to
 * have more or less. Without memory NULL. */
static struct epoch *find_epochs(const struct user *users, size_t count, size_t *epoch_count)
{
    size_t levels = 1, most = 2 * count;
    struct told *told = calloc(count, sizeof *told);
    struct epoch *epochs;
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
        epochs[(*epoch_count)++].from_ns = context_from(&users[i]);
        epochs[(*epoch_count)++].from_ns = users[i].process->gone_ns + 1;
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

static uint64_t contexts_at(const struct epoch *epochs, size_t count, uint64_t t_ns)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < count && epochs[i].from_ns <= t_ns; i++)
        bytes = epochs[i].bytes;
    return bytes;
}

/* ---- The most of a card ---- */

/* The next time at which some user's bytes change, as an event of all users together. */
static uint64_t next_time(const struct user *users, size_t count)
{
    uint64_t next = UINT64_MAX;

    for (size_t i = 0; i < count; i++) {
        const struct vt_job_device *device = users[i].device;
        uint64_t t_ns = users[i].at < device->level_count
                            ? users[i].process->start_ns + device->levels[users[i].at].t_ns
                        : users[i].at == device->level_count ? users[i].process->gone_ns + 1
                                                             : UINT64_MAX;

        if (!users[i].has_context && context_from(&users[i]) < t_ns)
            t_ns = context_from(&users[i]);
        next = t_ns < next ? t_ns : next;
    }
    return next;
}

static void advance(struct user *user, uint64_t t_ns)
{
    const struct vt_job_device *device = user->device;

    user->has_context |= context_from(user) <= t_ns;
    for (; user->at < device->level_count && user->process->start_ns + device->levels[user->at].t_ns <= t_ns;
         user->at++)
        user->now_bytes = device->levels[user->at].bytes;
    /* as next_time has it, so that a file's absurd times end too */
    if (user->at == device->level_count && user->process->gone_ns + 1 <= t_ns) {
        user->at++;
        user->now_bytes = 0;
    }
}

/* Walks through all changes of all users, and of what is beside them. */
static void find_most(struct vt_job_card *card, struct user *users, size_t count, const struct epoch *epochs,
                      size_t epoch_count)
{
    size_t epoch = 0;

    for (;;) {
        uint64_t t_ns = next_time(users, count), contexts, sum;

        if (epoch < epoch_count && epochs[epoch].from_ns < t_ns)
            t_ns = epochs[epoch].from_ns;
        if (t_ns == UINT64_MAX)
            return;
        while (epoch < epoch_count && epochs[epoch].from_ns <= t_ns)
            epoch++;
        sum = contexts = epoch ? epochs[epoch - 1].bytes : 0;
        for (size_t i = 0; i < count; i++) {
            advance(&users[i], t_ns);
            sum += users[i].now_bytes;
        }
        if (sum <= card->most_bytes)
            continue;
        card->most_bytes = sum;
        card->most_ns = t_ns;
        card->context_bytes = contexts;
        for (size_t i = 0; i < count; i++)
            users[i].most_bytes = users[i].now_bytes;
    }
}

static int by_bytes(const void *left, const void *right)
{
    const struct vt_job_holder *a = left, *b = right;

    return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes)
                                : (a->process > b->process) - (a->process < b->process);
}

static size_t count_devices(const struct vt_job *job)
{
    size_t devices = 0;

    for (size_t i = 0; i < job->process_count; i++)
        devices += job->processes[i].device_count;
    return devices;
}

static size_t find_users(struct vt_job *job, uint32_t card, struct user *users)
{
    size_t count = 0;

    for (size_t i = 0; i < job->process_count; i++)
        for (size_t k = 0; k < job->processes[i].device_count; k++)
            if (job->processes[i].devices[k].card == card)
                users[count++] =
                    (struct user){.process = &job->processes[i], .device = &job->processes[i].devices[k]};
    return count;
}

/* Of what each user's most_bytes is. */
static int fill_holders(struct vt_job_maker *maker, struct vt_job_card *card, const struct user *users,
                        size_t count)
{
    const struct vt_job *job = &maker->job;

    card->holders = vt_job_take(&maker->arena, count, sizeof *card->holders);
    if (!card->holders)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        card->holders[i] = (struct vt_job_holder){.process = (uint32_t)(users[i].process - job->processes),
                                                  .device_index = users[i].device->index,
                                                  .label = users[i].process->label,
                                                  .path = users[i].process->path,
                                                  .bytes = users[i].most_bytes};
    card->holder_count = count;
    qsort(card->holders, count, sizeof *card->holders, by_bytes);
    return 0;
}

static int fill_card(struct vt_job_maker *maker, uint32_t index, struct user *users)
{
    struct vt_job *job = &maker->job;
    struct vt_job_card *card = &job->cards[index];
    size_t count = find_users(job, index, users), epoch_count = 0;
    struct epoch *epochs = find_epochs(users, count, &epoch_count);

    if (!epochs)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        card->is_coarse |= users[i].device->levels_are_coarse;
    find_most(card, users, count, epochs, epoch_count);
    free(epochs);
    users[0].device->context_known |= count == 1;
    job->nodes[card->node].card_count++;
    return fill_holders(maker, card, users, count);
}

int vt_job_card_at(struct vt_job_maker *maker, uint32_t card_index, uint64_t t_ns, struct vt_job_card *card)
{
    struct vt_job *job = &maker->job;
    struct user *users = vt_job_take(&maker->arena, count_devices(job), sizeof *users);
    size_t count = users ? find_users(job, card_index, users) : 0, epoch_count = 0;
    struct epoch *epochs = count ? find_epochs(users, count, &epoch_count) : NULL;

    if (!epochs)
        return -ENOMEM;
    *card = job->cards[card_index];
    card->most_ns = t_ns;
    card->most_bytes = card->context_bytes = contexts_at(epochs, epoch_count, t_ns);
    free(epochs);
    for (size_t i = 0; i < count; i++) {
        users[i].most_bytes = own_bytes_at(&users[i], t_ns);
        card->most_bytes += users[i].most_bytes;
    }
    return fill_holders(maker, card, users, count);
}

int vt_job_find_cards(struct vt_job_maker *maker)
{
    struct vt_job *job = &maker->job;
    size_t devices = count_devices(job);
    struct user *users;
    int result = 0;

    job->cards = vt_job_take(&maker->arena, devices, sizeof *job->cards);
    users = vt_job_take(&maker->arena, devices, sizeof *users);
    if (!job->cards || !users)
        return -ENOMEM;
    for (size_t i = 0; i < job->process_count; i++)
        for (size_t k = 0; k < job->processes[i].device_count; k++)
            find_card(job, &job->processes[i], &job->processes[i].devices[k]);
    if (job->card_count)
        qsort(job->cards, job->card_count, sizeof *job->cards, by_number);
    for (size_t i = 0; i < job->process_count; i++)
        for (size_t k = 0; k < job->processes[i].device_count; k++) {
            struct vt_job_device *device = &job->processes[i].devices[k];

            device->card = (uint32_t)(find_card(job, &job->processes[i], device) - job->cards);
        }
    for (uint32_t i = 0; !result && i < job->card_count; i++)
        result = fill_card(maker, i, users);
    return result;
}
