#include "trace/reading_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "trace/chunks.h"

/* ---- what is in the file ---- */

static uint64_t key_of(const struct vt_chunk_header *head)
{
    enum { LEVEL_BITS = 4 };
    return head->chain << LEVEL_BITS | head->level;
}

static struct vt_planned_chain *add_chain(struct vt_reading_plan *plan, const struct vt_chunk_header *head)
{
    VT_APPEND(plan->chains, plan->chain_count, plan->chain_capacity,
              (struct vt_planned_chain){.id = head->chain, .level = head->level});
    vt_index_put(&plan->places, key_of(head), (uint32_t)plan->chain_count - 1);
    return &plan->chains[plan->chain_count - 1];
}

/* Reads what a digest says of itself. False if it cannot be right. */
static bool read_summary(struct vt_planned_chain *chain, int file, uint64_t offset, size_t bytes)
{
    struct vt_digest_summary summary;
    struct vt_digest_device devices[VT_MAX_DEVICES];
    if (bytes < sizeof summary || vt_read_at(file, &summary, sizeof summary, offset) ||
        summary.device_count > VT_MAX_DEVICES)
        return false;
    const size_t device_bytes = summary.device_count * sizeof *devices;
    const uint64_t kinds_at = sizeof summary + device_bytes;
    if (summary.kind_count > (bytes - sizeof summary) / sizeof(struct vt_digest_kind) ||
        kinds_at + summary.kind_count * sizeof(struct vt_digest_kind) > bytes ||
        vt_read_at(file, devices, device_bytes, offset + sizeof summary))
        return false;
    chain->first_event = summary.first_event;
    chain->events = summary.events;
    chain->begin_ns = summary.begin_ns;
    chain->end_ns = summary.end_ns;
    for (uint32_t i = 0; i < summary.device_count; i++) {
        const uint32_t device = devices[i].device_index % VT_MAX_DEVICES;
        chain->blocks[device] = devices[i].blocks;
        chain->driver[device] = devices[i].driver;
    }
    for (uint32_t i = 0; i < summary.kind_count; i++) {
        struct vt_digest_kind kind;
        if (vt_read_at(file, &kind, sizeof kind, offset + kinds_at + i * sizeof kind))
            return false;
        chain->failed_request |= kind.kind == VT_EVENT_OOM || kind.kind == VT_EVENT_ALLOC_FAILED;
    }
    return true;
}

static void add_chunk(struct vt_reading_plan *plan, int file, const struct vt_chunk_header *head,
                      uint64_t offset)
{
    struct vt_planned_chain *chain = plan->chain_count ? &plan->chains[plan->chain_count - 1] : NULL;
    if (head->place == 0 || !chain || chain->id != head->chain || chain->level != head->level) {
        chain = add_chain(plan, head);
        chain->first_event = plan->events;
        if (head->level &&
            !read_summary(chain, file, offset + head->header_bytes, head->packed_definitions_bytes))
            plan->chain_count--;
        if (head->level)
            chain->stored_events = head->events;
    } else {
        chain->stored_events += head->events;
    }
    if (!head->level) {
        chain->events += head->events;
        chain->stored_events = chain->events;
        plan->events += head->events;
    }
}

void vt_plan_find(struct vt_reading_plan *plan, int file, const struct vt_file_header *header)
{
    struct vt_chunk_header head;
    for (uint64_t at = header->chunks_offset;
         !vt_read_at(file, &head, sizeof head, at) && head.magic == VT_CHUNK_MAGIC &&
         head.header_bytes >= sizeof head && head.packed_definitions_bytes <= head.stored_bytes;
         at += head.header_bytes + (uint64_t)head.stored_bytes)
        add_chunk(plan, file, &head, at);
}

/* ---- what is read ---- */

/* A chain with its digest, which follows it. */
static struct vt_planned_chain *digest_of(const struct vt_reading_plan *plan, size_t chain)
{
    struct vt_planned_chain *next = chain + 1 < plan->chain_count ? &plan->chains[chain + 1] : NULL;
    return next && next->level == 1 && next->id == plan->chains[chain].id ? next : NULL;
}

struct choice {
    struct vt_reading_plan *plan;
    size_t *chains, count; /* of level 0 */
    uint64_t left;
};

/* Reads the chain with this place among the chains, if it is there and the budget allows. */
static void read_chain(struct choice *choice, size_t place, bool anyway)
{
    struct vt_planned_chain *chain =
        place < choice->count ? &choice->plan->chains[choice->chains[place]] : NULL;
    if (!chain || chain->read || (chain->events > choice->left && !anyway))
        return;
    chain->read = true;
    choice->left -= chain->events < choice->left ? chain->events : choice->left;
}

/* The place of the chain with this event; `count` if there is none. */
static size_t chain_with(const struct choice *choice, uint64_t event)
{
    size_t place = 0;
    while (place < choice->count && choice->plan->chains[choice->chains[place]].first_event +
                                            choice->plan->chains[choice->chains[place]].events <=
                                        event)
        place++;
    return place;
}

static void read_asked(struct choice *choice, const struct vt_window *asked, size_t asked_count)
{
    for (size_t i = 0; i < asked_count; i++)
        for (size_t place = chain_with(choice, asked[i].first);
             place < choice->count && choice->plan->chains[choice->chains[place]].first_event < asked[i].end;
             place++)
            read_chain(choice, place, true);
}

/* The chain of each device's peak. Its peak of blocks, or without blocks that of the driver's memory. */
static void read_peaks(struct choice *choice)
{
    for (size_t device = 0; device < VT_MAX_DEVICES; device++) {
        size_t most[2] = {choice->count, choice->count};
        uint64_t bytes[2] = {0, 0};
        for (size_t place = 0; place < choice->count; place++) {
            const struct vt_planned_chain *digest = digest_of(choice->plan, choice->chains[place]);
            for (size_t kind = 0; digest && kind < 2; kind++) {
                const struct vt_digest_peak *peak = kind ? &digest->driver[device] : &digest->blocks[device];
                if (peak->bytes <= bytes[kind])
                    continue;
                bytes[kind] = peak->bytes;
                most[kind] = place;
            }
        }
        for (size_t kind = 0; kind < 2; kind++)
            read_chain(choice, most[kind], true);
    }
}

/* The latest in which a request failed, each with the one before it, in which the failing step may begin. */
static void read_failures(struct choice *choice)
{
    for (size_t place = choice->count; place-- > 0;) {
        const struct vt_planned_chain *digest = digest_of(choice->plan, choice->chains[place]);
        if (!digest || !digest->failed_request)
            continue;
        read_chain(choice, place, false);
        read_chain(choice, place - 1, false);
    }
}

/* Some of those that are left, evenly. */
static void read_samples(struct choice *choice)
{
    for (size_t stride = 1; stride; stride *= 2) {
        uint64_t events = 0;
        for (size_t place = 0; place < choice->count; place += stride)
            events += choice->plan->chains[choice->chains[place]].read
                          ? 0
                          : choice->plan->chains[choice->chains[place]].events;
        if (events > choice->left)
            continue;
        for (size_t place = 0; place < choice->count; place += stride)
            read_chain(choice, place, false);
        return;
    }
}

void vt_plan_choose(struct vt_reading_plan *plan, uint64_t budget, const struct vt_window *asked,
                    size_t asked_count)
{
    enum { AT_ENDS = 2 }; /* chains that are read at the begin and at the end */
    struct choice choice = {.plan = plan, .left = budget};
    choice.chains = vt_allocate((plan->chain_count + 1) * sizeof *choice.chains);
    for (size_t i = 0; i < plan->chain_count; i++)
        if (!plan->chains[i].level)
            choice.chains[choice.count++] = i;
    for (size_t place = 0; place < choice.count; place++)
        if (!digest_of(plan, choice.chains[place]) || plan->events <= budget)
            read_chain(&choice, place, true);
    read_asked(&choice, asked, asked_count);
    for (size_t i = 0; i < AT_ENDS; i++) {
        read_chain(&choice, i, true);
        read_chain(&choice, choice.count - 1 - i, true);
    }
    read_peaks(&choice);
    read_failures(&choice);
    read_samples(&choice);
    for (size_t i = 0; i < choice.count; i++) {
        struct vt_planned_chain *digest = digest_of(plan, choice.chains[i]);
        if (digest)
            digest->read = !plan->chains[choice.chains[i]].read;
        plan->in_part |= digest && digest->read;
    }
    free(choice.chains);
}

enum vt_plan_part vt_plan_part(const struct vt_reading_plan *plan, const struct vt_chunk_header *head)
{
    const uint32_t place = vt_index_get(&plan->places, key_of(head));
    if (place == VT_INDEX_NONE)
        return head->level == 0 ? VT_PLAN_EVENTS : VT_PLAN_NOTHING;
    return plan->chains[place].read            ? VT_PLAN_EVENTS
           : head->level == 1 && plan->in_part ? VT_PLAN_NODES
                                               : VT_PLAN_NOTHING;
}

bool vt_plan_replace(struct vt_reading_plan *plan, uint64_t chain)
{
    const struct vt_chunk_header head = {.chain = chain, .level = 1};
    const uint32_t place = vt_index_get(&plan->places, key_of(&head));
    if (place != VT_INDEX_NONE)
        plan->chains[place].read = true;
    return place != VT_INDEX_NONE;
}

void vt_plan_free(struct vt_reading_plan *plan)
{
    vt_index_free(&plan->places);
    free(plan->chains);
    *plan = (struct vt_reading_plan){0};
}
