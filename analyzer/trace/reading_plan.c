#include "trace/reading_plan.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/allocate.h"
#include "base/read_at.h"
#include "trace/chain.h"

/* ---- what is in the file ---- */

static uint64_t key_of(const struct vt_chunk_header *head)
{
    enum { LEVEL_BITS = 4 };
    return head->chain << LEVEL_BITS | head->level;
}

static void add_kinds(const struct vt_planned_chain *chain, int file, uint64_t (*counts)[VT_DIGEST_LAYERS])
{
    struct vt_digest_kind kind;
    for (uint32_t i = 0; i < chain->kind_count; i++)
        if (!vt_read_at(file, &kind, sizeof kind, chain->kinds_at + i * sizeof kind))
            counts[kind.kind % VT_DIGEST_KINDS][kind.layer % VT_DIGEST_LAYERS] += kind.events;
}

static void add_peak(struct vt_planned_peak *most, uint64_t bytes, size_t digest)
{
    if (bytes > most->bytes)
        *most = (struct vt_planned_peak){bytes, digest};
}

/* Reads what the plan's last digest says of itself. False if it cannot be right. */
static bool read_summary(struct vt_reading_plan *plan, int file, uint64_t offset, size_t bytes)
{
    const size_t digest = plan->chain_count - 1;
    struct vt_planned_chain *chain = &plan->chains[digest];
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
    if (chain->level == 1)
        plan->next_event = summary.first_event + summary.events;
    for (uint32_t i = 0; i < summary.device_count && chain->level == 1; i++) {
        const uint32_t device = devices[i].device_index % VT_MAX_DEVICES;
        add_peak(&plan->blocks[device], devices[i].blocks.bytes, digest);
        add_peak(&plan->driver[device], devices[i].driver.bytes, digest);
    }
    chain->kind_count = summary.kind_count;
    chain->kinds_at = offset + kinds_at;
    uint64_t counts[VT_DIGEST_KINDS][VT_DIGEST_LAYERS] = {0};
    add_kinds(chain, file, counts);
    for (unsigned layer = 0; layer < VT_DIGEST_LAYERS; layer++) {
        chain->failed_request |= counts[VT_EVENT_OOM][layer] || counts[VT_EVENT_ALLOC_FAILED][layer];
        chain->inspected |= counts[VT_EVENT_INSPECTION][layer] > 0;
    }
    return true;
}

static void add_chunk(struct vt_reading_plan *plan, int file, const struct vt_chunk_header *head,
                      uint64_t offset)
{
    struct vt_planned_chain *chain = plan->chain_count ? &plan->chains[plan->chain_count - 1] : NULL;
    const bool continues = chain && chain->id == head->chain && chain->level == head->level;
    if (head->place &&
        !continues) { /* the chunks before it are missing, or it says something else than it is */
        plan->damaged = true;
        return;
    }
    if (!head->place) {
        VT_APPEND(plan->chains, plan->chain_count, plan->chain_capacity,
                  (struct vt_planned_chain){.id = head->chain,
                                            .level = head->level,
                                            .first_event = plan->next_event,
                                            .after_damage = plan->damaged});
        chain = &plan->chains[plan->chain_count - 1];
        if (head->level &&
            !read_summary(plan, file, offset + head->header_bytes, head->packed_definitions_bytes)) {
            plan->chain_count--;
            plan->damaged = true;
            return;
        }
        vt_index_put(&plan->places, key_of(head), (uint32_t)plan->chain_count - 1);
        chain->stored_events = head->events;
    } else {
        chain->stored_events += head->events;
    }
    if (!head->level) {
        chain->events += head->events;
        chain->stored_events = chain->events;
        plan->events += head->events;
        plan->next_event += head->events;
    }
    plan->damaged = false;
}

uint64_t vt_search_chunk(int file, uint64_t offset, uint64_t end)
{
    static const uint32_t magic = VT_CHUNK_MAGIC;
    uint8_t window[65536 + sizeof magic];
    while (offset < end && end - offset >= sizeof(struct vt_chunk_header)) {
        const uint64_t left = end - offset;
        const size_t bytes = left < sizeof window ? (size_t)left : sizeof window;
        if (vt_read_at(file, window, bytes, offset))
            return end;
        const uint8_t *found = memmem(window, bytes, &magic, sizeof magic);
        if (found)
            return offset + (uint64_t)(found - window);
        offset += bytes - (sizeof magic - 1);
    }
    return end;
}

void vt_plan_find(struct vt_reading_plan *plan, int file, const struct vt_file_header *header)
{
    struct vt_chunk_header head;
    struct stat status;
    if (fstat(file, &status))
        return;
    uint64_t end = (uint64_t)status.st_size;
    if (header->state != VT_STATE_RECORDING && header->chunks_end < end)
        end = header->chunks_end;
    int tries = VT_SEARCH_TRIES;
    for (uint64_t at = header->chunks_offset; at < end && !vt_read_at(file, &head, sizeof head, at);) {
        if (vt_chain_is_plausible(&head)) {
            add_chunk(plan, file, &head, at);
            at += head.header_bytes + (uint64_t)head.stored_bytes;
        } else if (at < header->chunks_end && tries-- > 0) {
            plan->damaged = true;
            at = vt_search_chunk(file, at + 1, end);
        } else {
            break;
        }
    }
}

/* ---- what is read ---- */

/* The chain's digest, which follows it. A recorder that leaves chains out may keep their definitions, in a
 * chain without events. */
static struct vt_planned_chain *digest_of(const struct vt_reading_plan *plan, size_t chain)
{
    const struct vt_planned_chain *own = &plan->chains[chain];
    struct vt_planned_chain *next = chain + 1 < plan->chain_count ? &plan->chains[chain + 1] : NULL;
    return !own->level && next && next->level == 1 && next->id == own->id && next->events == own->events
               ? next
               : NULL;
}

/* A chain some of whose chunks are missing, as its digest is of more events. */
static bool is_cut(const struct vt_reading_plan *plan, size_t chain)
{
    const struct vt_planned_chain *own = &plan->chains[chain], *next = own + 1;
    return own->events && chain + 1 < plan->chain_count && next->level == 1 && next->id == own->id &&
           next->events > own->events;
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
    if (!chain || chain->part == VT_PLAN_EVENTS || (chain->events > choice->left && !anyway) ||
        is_cut(choice->plan, choice->chains[place]))
        return;
    chain->part = VT_PLAN_EVENTS;
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

/* The chain of the digest, and as far as the budget goes the one before it, in which the step may begin. */
static void read_peak(struct choice *choice, const struct vt_planned_peak *peak)
{
    size_t place = 0;
    while (place < choice->count && choice->chains[place] + 1 != peak->digest)
        place++;
    if (!peak->bytes || place == choice->count)
        return;
    read_chain(choice, place, true);
    read_chain(choice, place - 1, false);
}

/* The chain of each device's peak. */
static void read_peaks(struct choice *choice)
{
    for (size_t device = 0; device < VT_MAX_DEVICES; device++) {
        read_peak(choice, &choice->plan->blocks[device]);
        read_peak(choice, &choice->plan->driver[device]);
    }
}

/* Those in which a request failed, the latest first and in any case, each with the one before it, in which
 * the failing step may begin. */
static void read_failures(struct choice *choice)
{
    bool latest = true;
    for (size_t place = choice->count; place-- > 0;) {
        const struct vt_planned_chain *digest = digest_of(choice->plan, choice->chains[place]);
        if (!digest || !digest->failed_request)
            continue;
        read_chain(choice, place, latest);
        read_chain(choice, place - 1, false);
        latest = false;
    }
}

/* Those with an inspection, as they say how what steps make is named. */
static void read_inspected(struct choice *choice)
{
    for (size_t place = 0; place < choice->count; place++) {
        const struct vt_planned_chain *digest = digest_of(choice->plan, choice->chains[place]);
        if (digest && digest->inspected)
            read_chain(choice, place, false);
    }
}

/* Some of those that are left, evenly. */
static void read_samples(struct choice *choice)
{
    for (size_t stride = 1; stride; stride *= 2) {
        uint64_t events = 0;
        for (size_t place = 0; place < choice->count; place += stride)
            events += choice->plan->chains[choice->chains[place]].part == VT_PLAN_EVENTS
                          ? 0
                          : choice->plan->chains[choice->chains[place]].events;
        if (events > choice->left)
            continue;
        for (size_t place = 0; place < choice->count; place += stride)
            read_chain(choice, place, false);
        return;
    }
}

/* Those of chains that are not read, or not in the file: the recorder left them out, or they are damaged. */
static void choose_digests(struct vt_reading_plan *plan)
{
    for (size_t i = 0; i < plan->chain_count; i++) {
        struct vt_planned_chain *digest = &plan->chains[i];
        if (digest->level != 1)
            continue;
        const struct vt_planned_chain *before = i > 0 ? digest - 1 : NULL;
        const bool has_chain = before && !before->level && before->events;
        const bool whole = has_chain && before->id == digest->id && before->part == VT_PLAN_EVENTS;
        digest->part = whole ? VT_PLAN_NODES : VT_PLAN_EVENTS;
        plan->in_part |= !whole;
        plan->leaves_out |= has_chain && before->part == VT_PLAN_NOTHING && !is_cut(plan, i - 1);
        digest->alone = !has_chain && !digest->after_damage;
    }
    for (size_t i = 0; i < plan->chain_count && !plan->in_part; i++)
        if (plan->chains[i].level)
            plan->chains[i].part = VT_PLAN_NOTHING;
}

/* Reads this digest instead of those that it is of, if none of their chains is read whole. Returns how many
 * events fewer that are. */
static uint64_t use_digest(struct vt_reading_plan *plan, size_t digest)
{
    struct vt_planned_chain *own = &plan->chains[digest];
    uint64_t parts = 0;
    size_t first = digest;
    while (first > 0 && plan->chains[first - 1].id >= own->id && plan->chains[first - 1].level < own->level &&
           (plan->chains[first - 1].level || plan->chains[first - 1].part == VT_PLAN_NOTHING))
        first--;
    for (size_t i = first; i < digest; i++)
        parts += plan->chains[i].part == VT_PLAN_EVENTS ? plan->chains[i].stored_events : 0;
    const bool all = plan->chains[first].id == own->id && (!first || plan->chains[first - 1].id < own->id);
    if (!all || parts <= own->stored_events)
        return 0;
    for (size_t i = first; i < digest; i++)
        plan->chains[i].part = VT_PLAN_NOTHING;
    own->part = VT_PLAN_EVENTS;
    return parts - own->stored_events;
}

/* What the digests of single chains have. */
static uint64_t digest_events(const struct vt_reading_plan *plan)
{
    uint64_t events = 0;
    for (size_t i = 0; i < plan->chain_count; i++)
        events += plan->chains[i].level == 1 ? plan->chains[i].stored_events : 0;
    return events;
}

/* Where the digests have more events than `most`: some of the next level, and so on. */
static void use_levels(struct vt_reading_plan *plan, uint64_t events, uint64_t most)
{
    for (unsigned level = 2; level < VT_DIGEST_LEVELS; level++)
        for (size_t i = 0; i < plan->chain_count && events > most; i++)
            if (plan->chains[i].level == level)
                events -= use_digest(plan, i);
}

void vt_plan_choose(struct vt_reading_plan *plan, uint64_t budget, const struct vt_window *asked,
                    size_t asked_count)
{
    enum { AT_ENDS = 2 }; /* chains that are read at the begin and at the end */
    const uint64_t digests = digest_events(plan), most = budget / 2;
    struct choice choice = {.plan = plan, .left = budget - (digests < most ? digests : most)};
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
    read_inspected(&choice);
    read_samples(&choice);
    choose_digests(plan);
    use_levels(plan, digests, most);
    free(choice.chains);
}

enum vt_plan_part vt_plan_part(const struct vt_reading_plan *plan, const struct vt_chunk_header *head)
{
    const uint32_t place = vt_index_get(&plan->places, key_of(head));
    if (place == VT_INDEX_NONE)
        return head->level == 0 ? VT_PLAN_EVENTS : VT_PLAN_NOTHING;
    return plan->chains[place].part;
}

bool vt_plan_is_alone(const struct vt_reading_plan *plan, const struct vt_chunk_header *head)
{
    const uint32_t place = vt_index_get(&plan->places, key_of(head));
    return place != VT_INDEX_NONE && plan->chains[place].alone;
}

bool vt_plan_replace(struct vt_reading_plan *plan, uint64_t chain)
{
    const struct vt_chunk_header head = {.chain = chain, .level = 1};
    const uint32_t place = vt_index_get(&plan->places, key_of(&head));
    if (place != VT_INDEX_NONE)
        plan->chains[place].part = VT_PLAN_EVENTS;
    return place != VT_INDEX_NONE;
}

void vt_plan_count_kinds(const struct vt_reading_plan *plan, int file, uint64_t (*counts)[VT_DIGEST_LAYERS])
{
    for (size_t i = 0; i < plan->chain_count; i++)
        if (plan->chains[i].level && plan->chains[i].part == VT_PLAN_EVENTS)
            add_kinds(&plan->chains[i], file, counts);
}

void vt_plan_free(struct vt_reading_plan *plan)
{
    vt_index_free(&plan->places);
    free(plan->chains);
    *plan = (struct vt_reading_plan){0};
}
