#include "record/flight.h"

#include <string.h>

#include "memory.h"
#include "record/flight_compaction.h"
#include "record/session.h"

enum {
    CHAINS_PER_REGION = 64, /* at least so many: a small region has shorter chains */
    SAMPLES = 32,           /* at most so many chains are kept as samples of the run */
    TURN_MS = 100,
    LAST_WAIT_MS = 10000,   /* for the other region, at the process's end */
    LOSSES = 1000000,       /* of events: then many blocks lack their free or their allocation, and … */
    UNMATCHED_BYTES = 4096, /* … a gap shows one of them per so much of the region: all gaps leave room */
    ALIGNMENT = 4096,
};

struct vt_flight {
    struct vt_session *session;
    uint64_t begins[2], ends[2]; /* offsets of the two regions */
    unsigned region;             /* the one being appended to */
    uint64_t trigger_bytes;      /* fill level at which making the other region starts */
    struct vt_chains chains;     /* in the region */
    uint64_t chain_count;        /* in the whole run */
    uint64_t step_mark;          /* string id of VT_STEP_MARK; 0 = not seen yet */
    struct peak {
        uint64_t bytes, chain; /* number of its chain */
    } block_peaks[VT_MAX_DEVICES], driver_peaks[VT_MAX_DEVICES];
    bool compacts;
    struct vt_compaction compaction;
};

size_t vt_flight_chunk_events(const struct vt_flight *flight)
{
    enum { BYTES_EACH = 4 }; /* rough size of an unpredicted event */
    const uint64_t events = (flight->ends[0] - flight->begins[0]) / CHAINS_PER_REGION / BYTES_EACH;
    return events < VT_CHUNK_EVENTS ? (size_t)events : VT_CHUNK_EVENTS;
}

struct vt_flight *vt_flight_make(struct vt_session *session)
{
    const uint64_t limit = session->options.limit_bytes, half = limit / 2 / ALIGNMENT * ALIGNMENT;
    struct vt_flight *flight = session->options.flight ? vt_memory_make(sizeof *flight) : NULL;
    session->file.end_limit = flight ? half : limit;
    if (!flight)
        return NULL;
    flight->session = session;
    session->file.header.feature_bits |= VT_FEATURE_FLIGHT;
    flight->begins[0] = VT_HEADER_BYTES;
    flight->begins[1] = flight->ends[0] = half;
    flight->ends[1] = 2 * half;
    flight->trigger_bytes = half / 10 * 6;
    return flight;
}

/* ---- what is recorded ---- */

void vt_flight_define(struct vt_flight *flight, const struct vt_record_head *head)
{
    const struct vt_string *string = (const void *)head;
    const size_t length = sizeof VT_STEP_MARK - 1;
    if (head->kind == VT_RECORD_STRING && head->bytes == sizeof *string + length &&
        !memcmp(string + 1, VT_STEP_MARK, length))
        flight->step_mark = string->id;
}

static void note_peaks(struct peak *peaks, const struct vt_digest_peak *found, uint64_t chain)
{
    for (size_t d = 0; d < VT_MAX_DEVICES; d++)
        if (found[d].bytes > peaks[d].bytes)
            peaks[d] = (struct peak){found[d].bytes, chain};
}

static uint64_t count_kind(const struct vt_digest *digest, enum vt_event_kind kind)
{
    uint64_t count = 0;
    for (size_t layer = 0; layer < VT_DIGEST_LAYERS; layer++)
        count += digest->kinds[kind][layer];
    return count;
}

void vt_flight_note_digest(struct vt_flight *flight, const struct vt_digest *digest)
{
    struct vt_chains *chains = &flight->chains;
    struct vt_flight_chain *chain = chains->count ? &chains->items[chains->count - 1] : NULL;
    if (!chain)
        return;
    note_peaks(flight->block_peaks, digest->block_peaks, chain->number);
    note_peaks(flight->driver_peaks, digest->driver_peaks, chain->number);
    if (count_kind(digest, VT_EVENT_OOM) + count_kind(digest, VT_EVENT_ALLOC_FAILED))
        chain->flags |= VT_CHAIN_OOM;
    for (size_t i = 0; i < digest->count; i++)
        if (digest->events[i].kind == VT_EVENT_MARK && digest->events[i].detail != flight->step_mark)
            chain->flags |= VT_CHAIN_MARK;
}

bool vt_flight_note(struct vt_flight *flight, const struct vt_chunk *chunk, uint64_t offset)
{
    const struct vt_chunk_header *head = (const void *)chunk->stored.data;
    struct vt_chains *chains = &flight->chains;
    if (head->place == 0 && head->level == 0)
        vt_chains_add(chains, &(struct vt_flight_chain){.number = ++flight->chain_count, .offset = offset});
    if (!chains->count)
        return false;
    struct vt_flight_chain *chain = &chains->items[chains->count - 1];
    chain->bytes += chunk->stored.bytes;
    chain->ring_position = head->ring_position;
    chain->flags |= head->level ? VT_CHAIN_DIGEST : 0;
    atomic_store(&flight->compaction.from_end, offset + chunk->stored.bytes);
    return head->level == 0 && chain->bytes >= (flight->ends[0] - flight->begins[0]) / CHAINS_PER_REGION;
}

/* ---- what is kept ---- */

struct plan {
    struct vt_chains *chains;
    uint64_t left_bytes;
};

static bool keep_chain(struct plan *plan, size_t index)
{
    struct vt_flight_chain *chain = index < plan->chains->count ? &plan->chains->items[index] : NULL;
    if (!chain || chain->flags & (VT_CHAIN_GAP | VT_CHAIN_KEPT))
        return true;
    if (chain->bytes > plan->left_bytes)
        return false;
    plan->left_bytes -= chain->bytes;
    chain->flags |= VT_CHAIN_KEPT;
    return true;
}

static void keep_latest(struct plan *plan, uint64_t bytes)
{
    const uint64_t least = plan->left_bytes > bytes ? plan->left_bytes - bytes : 0;
    for (size_t i = plan->chains->count; i > 0 && plan->left_bytes > least && keep_chain(plan, i - 1); i--)
        ;
}

/* Keeps each peak's chain, and `around` chains before and after it. */
static void keep_peaks(struct plan *plan, const struct peak *peaks, uint64_t around)
{
    for (size_t d = 0; d < VT_MAX_DEVICES; d++)
        for (size_t i = 0; i < plan->chains->count && peaks[d].bytes; i++)
            if (plan->chains->items[i].number + around >= peaks[d].chain &&
                plan->chains->items[i].number <= peaks[d].chain + around)
                keep_chain(plan, i);
}

/* Keeps flagged chains, the latest first; with `before`, the chains before them instead. */
static void keep_flagged(struct plan *plan, uint32_t flag, bool before)
{
    for (size_t i = plan->chains->count; i > before; i--)
        if (plan->chains->items[i - 1].flags & flag && !keep_chain(plan, i - 1 - before))
            return;
}

static void keep_samples(struct plan *plan, uint64_t chain_count)
{
    uint64_t stride = 1;
    while (chain_count / stride > SAMPLES)
        stride *= 2;
    for (size_t i = 0; i < plan->chains->count; i++)
        if (plan->chains->items[i].number % stride == 0)
            keep_chain(plan, i);
}

static void make_plan(const struct vt_flight *flight, struct vt_chains *chains)
{
    const uint64_t region = flight->ends[0] - flight->begins[0];
    struct plan plan = {.chains = chains, .left_bytes = region / 10 * 4};
    for (size_t i = 0; i < chains->count; i++) {
        uint32_t *flags = &chains->items[i].flags;
        *flags &= ~(uint32_t)VT_CHAIN_KEPT;
        *flags |= *flags & (VT_CHAIN_DIGEST | VT_CHAIN_GAP) ? 0 : VT_CHAIN_KEPT;
    }
    keep_peaks(&plan, flight->block_peaks, 0);
    keep_peaks(&plan, flight->driver_peaks, 0);
    keep_flagged(&plan, VT_CHAIN_OOM, false);
    keep_chain(&plan, 0);
    keep_latest(&plan, region / 10);
    keep_peaks(&plan, flight->block_peaks, 1);
    keep_peaks(&plan, flight->driver_peaks, 1);
    keep_flagged(&plan, VT_CHAIN_OOM, true);
    keep_flagged(&plan, VT_CHAIN_MARK, false);
    keep_samples(&plan, flight->chain_count);
}

/* ---- from region to region ---- */

static uint64_t used_bytes(const struct vt_flight *flight)
{
    const struct vt_file_header *header = &flight->session->file.header;
    return header->chunks_end - header->chunks_offset;
}

static void begin_compaction(struct vt_flight *flight)
{
    struct vt_compaction *compaction = &flight->compaction;
    const struct vt_file_header *header = &flight->session->file.header;
    *compaction = (struct vt_compaction){.file = &flight->session->file,
                                         .to_offset = flight->begins[!flight->region],
                                         .to_limit = flight->ends[!flight->region],
                                         .from_tail = header->chunks_end,
                                         .from_end = header->chunks_end};
    if (header->counters.dropped >= LOSSES)
        compaction->unmatched_maximum = (flight->ends[0] - flight->begins[0]) / UNMATCHED_BYTES;
    bool planned = true;
    for (size_t i = 0; i < flight->chains.count && planned; i++)
        planned = vt_chains_add(&compaction->from, &flight->chains.items[i]);
    if (planned)
        make_plan(flight, &compaction->from);
    flight->compacts = planned && vt_compaction_start(compaction);
    if (!flight->compacts)
        vt_chains_free(&compaction->from);
}

/* Adds the chains that were appended meanwhile, at their new offsets. */
static bool add_new_chains(struct vt_flight *flight)
{
    struct vt_compaction *compaction = &flight->compaction;
    bool added = true;
    for (size_t i = compaction->from.count; i < flight->chains.count && added; i++) {
        struct vt_flight_chain chain = flight->chains.items[i];
        chain.offset = compaction->to_end - compaction->copied_to + chain.offset;
        added = vt_chains_add(&compaction->to, &chain);
    }
    return added;
}

/* Switches to the other region. False if that failed. */
static bool switch_region(struct vt_flight *flight)
{
    struct vt_compaction *compaction = &flight->compaction;
    struct vt_trace_file *file = &flight->session->file;
    const uint64_t rest = file->header.chunks_end - compaction->copied_to;
    const struct vt_trace_region old = {file->header.chunks_offset, file->header.chunks_end},
                                 new = {compaction->to_offset, compaction->to_end + rest};
    if (new.end > compaction->to_limit || !add_new_chains(flight))
        return false;
    file->end_limit = compaction->to_limit;
    if (vt_trace_file_go_over(file, &old, &new, compaction->copied_to, compaction->to_end))
        return false;
    flight->region = !flight->region;
    struct vt_chains before = flight->chains;
    flight->chains = compaction->to;
    compaction->to = before;
    return true;
}

static void end_compaction(struct vt_flight *flight)
{
    struct vt_compaction *compaction = &flight->compaction;
    const uint64_t region = flight->ends[0] - flight->begins[0];
    const bool ready = atomic_load(&compaction->state) == VT_COMPACTION_READY;
    flight->compacts = false;
    if (!ready || !switch_region(flight))
        flight->session->file.end_limit = flight->ends[flight->region];
    vt_chains_free(&compaction->from);
    vt_chains_free(&compaction->to);
    flight->trigger_bytes = region / 10 * 6;
    if (used_bytes(flight) >= flight->trigger_bytes)
        flight->trigger_bytes = used_bytes(flight) + region / 16;
}

bool vt_flight_is_due(const struct vt_flight *flight)
{
    return flight->compacts ? atomic_load(&flight->compaction.state) != VT_COMPACTION_RUNS
                            : flight->chains.count && used_bytes(flight) >= flight->trigger_bytes;
}

void vt_flight_tend(struct vt_flight *flight)
{
    if (flight->compacts)
        end_compaction(flight);
    else
        begin_compaction(flight);
}

bool vt_flight_wait(struct vt_flight *flight)
{
    const unsigned region = flight->region;
    if (!flight->compacts)
        begin_compaction(flight);
    /* However long a busy machine takes: the ring fills meanwhile, and what does not fit is counted. */
    for (int waited = 0; flight->compacts && waited < LAST_WAIT_MS &&
                         atomic_load(&flight->compaction.state) == VT_COMPACTION_RUNS;
         waited += atomic_load(&flight->session->stopping) ? TURN_MS : 0)
        vt_compaction_wait(&flight->compaction, TURN_MS);
    if (flight->compacts && atomic_load(&flight->compaction.state) == VT_COMPACTION_RUNS)
        vt_compaction_stop(&flight->compaction);
    if (flight->compacts)
        end_compaction(flight);
    return flight->region != region;
}

void vt_flight_stop(struct vt_flight *flight)
{
    if (flight->compacts)
        vt_compaction_stop(&flight->compaction);
    if (flight->compacts)
        end_compaction(flight);
}

unsigned vt_flight_threads(const struct vt_flight *flight)
{
    return flight->compacts && atomic_load(&flight->compaction.state) == VT_COMPACTION_RUNS;
}
