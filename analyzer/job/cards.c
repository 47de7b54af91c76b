/* Who holds what of each card, where several processes use one. */
#include "job/parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    uint64_t now_bytes, own_at_most, context_at_most;
};

static uint64_t context_from(const struct user *user)
{
    return user->process->start_ns + user->device->context_ns;
}

static int by_context(const void *left, const void *right)
{
    uint64_t a = context_from(left), b = context_from(right);

    return (a > b) - (a < b);
}

static uint64_t own_bytes_at(const struct user *user, uint64_t t_ns)
{
    const struct vt_job_device *device = user->device;
    uint64_t bytes = 0;

    for (size_t i = 0; i < device->level_count && user->process->start_ns + device->levels[i].t_ns <= t_ns; i++)
        bytes = device->levels[i].bytes;
    return user->process->end_ns < t_ns ? 0 : bytes;
}

/* A context is measured as what the whole card had in use: what the others had then is taken off. */
static void correct_contexts(struct user *users, size_t count)
{
    qsort(users, count, sizeof *users, by_context);
    for (size_t i = 0; i < count; i++) {
        uint64_t t_ns = context_from(&users[i]), others = 0;
        struct vt_job_device *device = users[i].device;

        for (size_t k = 0; k < count; k++) {
            if (k == i)
                continue;
            others += own_bytes_at(&users[k], t_ns);
            if (k < i && users[k].process->end_ns >= t_ns)
                others += users[k].device->context_bytes;
        }
        others = others < device->measured_context_bytes ? others : device->measured_context_bytes;
        device->context_bytes -= others < device->context_bytes ? others : device->context_bytes;
    }
}

/* The next time at which some user's bytes change, as an event of all users together. */
static uint64_t next_time(const struct user *users, size_t count)
{
    uint64_t next = UINT64_MAX;

    for (size_t i = 0; i < count; i++) {
        const struct vt_job_device *device = users[i].device;
        uint64_t t_ns = users[i].at < device->level_count
                            ? users[i].process->start_ns + device->levels[users[i].at].t_ns
                        : users[i].at == device->level_count ? users[i].process->end_ns + 1
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
    for (; user->at < device->level_count &&
           user->process->start_ns + device->levels[user->at].t_ns <= t_ns;
         user->at++)
        user->now_bytes = device->levels[user->at].bytes;
    if (user->at == device->level_count && user->process->end_ns < t_ns) {
        user->at++;
        user->now_bytes = 0;
    }
}

static uint64_t context_at(const struct user *user, uint64_t t_ns)
{
    return t_ns >= context_from(user) && t_ns <= user->process->end_ns ? user->device->context_bytes : 0;
}

/* Walks through all changes of all users. */
static void find_most(struct vt_job_card *card, struct user *users, size_t count)
{
    for (uint64_t t_ns; (t_ns = next_time(users, count)) != UINT64_MAX;) {
        uint64_t sum = 0;

        for (size_t i = 0; i < count; i++) {
            advance(&users[i], t_ns);
            sum += users[i].now_bytes + context_at(&users[i], t_ns);
        }
        if (sum <= card->most_bytes)
            continue;
        card->most_bytes = sum;
        card->most_ns = t_ns;
        for (size_t i = 0; i < count; i++) {
            users[i].own_at_most = users[i].now_bytes;
            users[i].context_at_most = context_at(&users[i], t_ns);
        }
    }
}

static int by_bytes(const void *left, const void *right)
{
    const struct vt_job_holder *a = left, *b = right;

    return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes)
                                : (a->process > b->process) - (a->process < b->process);
}

static int fill_card(struct vt_job_maker *maker, uint32_t index, struct user *users)
{
    struct vt_job *job = &maker->job;
    struct vt_job_card *card = &job->cards[index];
    size_t count = 0;

    for (size_t i = 0; i < job->process_count; i++)
        for (size_t k = 0; k < job->processes[i].device_count; k++)
            if (job->processes[i].devices[k].card == index) {
                users[count++] = (struct user){.process = &job->processes[i], .device = &job->processes[i].devices[k]};
                card->is_coarse |= job->processes[i].devices[k].levels_are_coarse;
            }
    correct_contexts(users, count);
    find_most(card, users, count);
    card->holders = vt_job_take(&maker->arena, count, sizeof *card->holders);
    if (!card->holders)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        card->holders[i] = (struct vt_job_holder){.process = (uint32_t)(users[i].process - job->processes),
                                                  .device_index = users[i].device->index,
                                                  .label = users[i].process->label,
                                                  .path = users[i].process->path,
                                                  .bytes = users[i].own_at_most + users[i].context_at_most,
                                                  .context_bytes = users[i].context_at_most};
    card->holder_count = count;
    qsort(card->holders, count, sizeof *card->holders, by_bytes);
    job->nodes[card->node].card_count++;
    return 0;
}

int vt_job_find_cards(struct vt_job_maker *maker)
{
    struct vt_job *job = &maker->job;
    size_t devices = 0;
    struct user *users;
    int result = 0;

    for (size_t i = 0; i < job->process_count; i++)
        devices += job->processes[i].device_count;
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
