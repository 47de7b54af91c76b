/* Who holds what on each GPU, where several processes use one. */
#include "job/gpus.h"

#include "base/index.h"
#include "base/sort.h"
#include "job/gpu_epochs.h"
#include "job/job_maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The entry of CUDA_VISIBLE_DEVICES for a device, as a number; the device's own index if that is not a
 * number. */
static int32_t gpu_number(const struct vt_job_process *process, int32_t index)
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

static struct vt_job_card *find_gpu(struct vt_job *job, const struct vt_job_process *process,
                                    const struct vt_job_device *device)
{
    int32_t number = gpu_number(process, device->index);

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
    int order = 2 * vt_order(a->node, b->node) + vt_order_signed(a->number, b->number);

    return order ? order : strcmp(a->uuid, b->uuid);
}

/* ---- The peak of a GPU ---- */

/* Walks through all changes of all users, and of what is beside them. */
static void find_most(struct vt_job_card *card, struct vt_gpu_user *users, size_t count)
{
    struct vt_gpu_walk walk;

    vt_gpu_walk_begin(&walk, users, count);
    while (vt_gpu_walk_next(&walk)) {
        const uint64_t beside = vt_gpu_walk_beside(&walk);

        if (walk.own_bytes + beside <= card->most_bytes)
            continue;
        card->most_bytes = walk.own_bytes + beside;
        card->most_ns = walk.t_ns;
        card->context_bytes = beside;
    }
    vt_gpu_walk_end(&walk);
    for (size_t i = 0; i < count; i++)
        users[i].most_bytes = card->most_bytes ? vt_gpu_user_bytes(&users[i], card->most_ns) : 0;
}

/* What is beside the users' own memory at a time. */
static uint64_t find_beside(struct vt_gpu_user *users, size_t count, uint64_t t_ns)
{
    struct vt_gpu_walk walk;
    uint64_t bytes;

    vt_gpu_walk_begin(&walk, users, count);
    while (vt_gpu_walk_next_ns(&walk) <= t_ns && vt_gpu_walk_next(&walk))
        ;
    bytes = vt_gpu_walk_beside(&walk);
    vt_gpu_walk_end(&walk);
    return bytes;
}

static int by_bytes(const void *left, const void *right)
{
    const struct vt_job_holder *a = left, *b = right;

    return 2 * vt_order(b->bytes, a->bytes) + vt_order(a->process, b->process);
}

/* With those that have only a context. */
static size_t count_devices(const struct vt_job *job)
{
    size_t devices = 0;

    for (size_t i = 0; i < job->process_count; i++)
        devices += job->processes[i].device_count + job->processes[i].bare_context_count;
    return devices;
}

static bool is_bare(const struct vt_gpu_user *user)
{
    return user->device >= user->process->devices + user->process->device_count;
}

static size_t find_users(struct vt_job *job, uint32_t gpu, struct vt_gpu_user *users)
{
    size_t count = 0;

    for (struct vt_job_process *process = job->processes; process < job->processes + job->process_count;
         process++)
        for (size_t k = 0; k < process->device_count + process->bare_context_count; k++)
            if (process->devices[k].card == gpu)
                users[count++] = (struct vt_gpu_user){.process = process, .device = &process->devices[k]};
    return count;
}

/* The holders are those of each user's most_bytes. */
static void fill_holders(struct vt_job_maker *maker, struct vt_job_card *card,
                         const struct vt_gpu_user *users, size_t count)
{
    const struct vt_job *job = &maker->job;

    card->holders = vt_job_take(&maker->arena, count, sizeof *card->holders);
    card->bare_contexts = vt_job_take(&maker->arena, count, sizeof *card->bare_contexts);
    card->holder_count = card->bare_context_count = 0;
    for (const struct vt_gpu_user *user = users; user < users + count; user++) {
        const uint32_t process = (uint32_t)(user->process - job->processes);

        if (is_bare(user))
            card->bare_contexts[card->bare_context_count++] =
                (struct vt_job_bare_context){.process = process,
                                             .device_index = user->device->index,
                                             .label = user->process->label,
                                             .t_ns = vt_gpu_user_from(user),
                                             .bytes_known = user->device->context_told,
                                             .bytes = user->device->context_bytes,
                                             .line = user->device->context_line};
        else
            card->holders[card->holder_count++] = (struct vt_job_holder){.process = process,
                                                                         .device_index = user->device->index,
                                                                         .label = user->process->label,
                                                                         .path = user->process->path,
                                                                         .bytes = user->most_bytes};
    }
    vt_sort(card->holders, card->holder_count, sizeof *card->holders, by_bytes);
}

static void fill_gpu(struct vt_job_maker *maker, uint32_t index, struct vt_gpu_user *users)
{
    struct vt_job *job = &maker->job;
    struct vt_job_card *card = &job->cards[index];
    size_t count = find_users(job, index, users);

    for (size_t i = 0; i < count; i++)
        card->is_coarse |= users[i].device->levels_are_coarse;
    find_most(card, users, count);
    users[0].device->context_known |= count == 1;
    fill_holders(maker, card, users, count);
    job->nodes[card->node].card_count += card->holder_count > 0;
}

void vt_job_gpu_at(struct vt_job_maker *maker, uint32_t gpu_index, uint64_t t_ns, struct vt_job_card *card)
{
    struct vt_job *job = &maker->job;
    struct vt_gpu_user *users = vt_job_take(&maker->arena, count_devices(job), sizeof *users);
    size_t count = find_users(job, gpu_index, users);

    *card = job->cards[gpu_index];
    card->most_ns = t_ns;
    card->most_bytes = card->context_bytes = find_beside(users, count, t_ns);
    for (size_t i = 0; i < count; i++) {
        users[i].most_bytes = vt_gpu_user_bytes(&users[i], t_ns);
        card->most_bytes += users[i].most_bytes;
    }
    fill_holders(maker, card, users, count);
}

/* Finds the GPU of each device, or adds it. */
static void number_gpus(struct vt_job *job)
{
    for (struct vt_job_process *process = job->processes; process < job->processes + job->process_count;
         process++)
        for (size_t k = 0; k < process->device_count + process->bare_context_count; k++)
            process->devices[k].card = (uint32_t)(find_gpu(job, process, &process->devices[k]) - job->cards);
}

void vt_job_find_gpus(struct vt_job_maker *maker)
{
    struct vt_job *job = &maker->job;
    size_t devices = count_devices(job);
    struct vt_gpu_user *users = vt_job_take(&maker->arena, devices, sizeof *users);

    job->cards = vt_job_take(&maker->arena, devices, sizeof *job->cards);
    number_gpus(job);
    vt_sort(job->cards, job->card_count, sizeof *job->cards, by_number);
    number_gpus(job); /* as they are sorted */
    for (uint32_t i = 0; i < job->card_count; i++)
        fill_gpu(maker, i, users);
}
