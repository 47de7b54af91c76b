#include "record/digest.h"

#include <string.h>

#include "hash.h"
#include "memory.h"

enum { FIRST_EVENTS = 1 << 12, LEAST_LEFT_OUT = 1 << 14 };

static bool is_block(const struct vt_event *event)
{
    return event->layer == VT_LAYER_FRAMEWORK;
}

static bool has_device(const struct vt_event *event)
{
    return event->device_index >= 0 && event->device_index < (int)VT_MAX_DEVICES;
}

/* ---- places: by what an event is of ---- */

/* What a later event is compared by: of the same class and address. 0: nothing undoes it. */
static uint64_t class_of(const struct vt_event *event)
{
    enum { BLOCK = 1, MEMORY, POOL, INFORMATION, RANGE, EXPORT };
    switch (event->kind) {
    case VT_EVENT_ALLOC:
    case VT_EVENT_FREE:
    case VT_EVENT_FREE_FAILED:
        return is_block(event) ? BLOCK : MEMORY + ((uint64_t)event->layer << 8);
    case VT_EVENT_POOL:
        return POOL;
    case VT_EVENT_EXPORT:
        return EXPORT;
    case VT_EVENT_MEMORY_INFO:
        return INFORMATION + ((uint64_t)(uint8_t)event->device_index << 8);
    case VT_EVENT_RANGE_PUSH:
    case VT_EVENT_RANGE_POP:
        return RANGE + ((uint64_t)event->thread_id << 8);
    default:
        return 0;
    }
}

/* Of a range `address` is where the one around it is, while it is here. */
static uint64_t address_of(const struct vt_event *event)
{
    return event->kind == VT_EVENT_RANGE_PUSH || event->kind == VT_EVENT_RANGE_POP ? 0 : event->address;
}

static size_t home_of(const struct vt_digest *digest, const struct vt_event *event)
{
    return vt_hash(address_of(event) ^ class_of(event) << 48) >> 32 & (digest->place_count - 1);
}

/* Where the event that this one may undo is, or an empty place. */
static size_t find(const struct vt_digest *digest, const struct vt_event *event)
{
    size_t at = home_of(digest, event);
    for (; digest->places[at]; at = (at + 1) & (digest->place_count - 1)) {
        const struct vt_event *there = &digest->events[digest->places[at] - 1];
        if (address_of(there) == address_of(event) && class_of(there) == class_of(event))
            break;
    }
    return at;
}

static void remove_place(struct vt_digest *digest, size_t at)
{
    const size_t mask = digest->place_count - 1;
    digest->used--;
    for (size_t next = (at + 1) & mask; digest->places[next]; next = (next + 1) & mask) {
        const size_t home = home_of(digest, &digest->events[digest->places[next] - 1]);
        if (((next - home) & mask) >= ((next - at) & mask)) { /* it may lie further to the front */
            digest->places[at] = digest->places[next];
            at = next;
        }
    }
    digest->places[at] = 0;
}

static void put_place(struct vt_digest *digest, size_t at, size_t position)
{
    digest->used += digest->places[at] == 0;
    digest->places[at] = (uint32_t)position + 1;
}

static bool make_places(struct vt_digest *digest, size_t count)
{
    uint32_t *before = digest->places;
    const size_t before_count = digest->place_count;
    uint32_t *places = vt_memory_make(count * sizeof *places);
    if (!places)
        return false;
    digest->places = places;
    digest->place_count = count;
    digest->used = 0;
    for (size_t i = 0; i < before_count; i++)
        if (before[i])
            put_place(digest, find(digest, &digest->events[before[i] - 1]), before[i] - 1);
    vt_memory_free(before, before_count * sizeof *before);
    return true;
}

/* ---- events ---- */

static bool make_room(struct vt_digest *digest)
{
    const size_t capacity = digest->capacity ? digest->capacity * 2 : FIRST_EVENTS,
                 bytes = sizeof *digest->events;
    struct vt_event *events = capacity <= VT_DIGEST_EVENTS_MAXIMUM
                                  ? vt_memory_grow(digest->events, digest->capacity * bytes, capacity * bytes)
                                  : NULL;
    if (!events)
        return false;
    digest->events = events;
    digest->capacity = capacity;
    return true;
}

static uint32_t moved(const uint32_t *positions, uint64_t place)
{
    return place ? positions[place - 1] : 0;
}

/* Takes what was left out away. */
static bool close_up(struct vt_digest *digest)
{
    const size_t bytes = digest->count * sizeof(uint32_t) + 1;
    uint32_t *positions = vt_memory_make(bytes); /* 1 + where each goes */
    size_t kept = 0;
    if (!positions)
        return false;
    for (size_t i = 0; i < digest->count; i++)
        positions[i] = digest->events[i].kind == VT_EVENT_NONE ? 0 : (uint32_t)++kept;
    for (size_t i = 0; i < digest->count; i++) {
        if (!positions[i])
            continue;
        struct vt_event *event = &digest->events[positions[i] - 1];
        *event = digest->events[i];
        event->head_start = moved(positions, event->head_start);
        if (event->kind == VT_EVENT_RANGE_PUSH)
            event->address = moved(positions, event->address);
    }
    for (size_t i = 0; i < digest->place_count; i++)
        digest->places[i] = moved(positions, digest->places[i]);
    digest->driver_position = moved(positions, digest->driver_position);
    for (size_t i = 0; i < VT_DIGEST_FREES; i++) {
        digest->frees[i].made = moved(positions, digest->frees[i].made);
        digest->frees[i].freed = moved(positions, digest->frees[i].freed);
    }
    digest->count = kept;
    digest->left_out = 0;
    vt_memory_free(positions, bytes);
    return true;
}

static struct vt_event *keep(struct vt_digest *digest, const struct vt_event *event)
{
    if (digest->count == digest->capacity && !make_room(digest))
        digest->failed = true;
    if (digest->failed)
        return NULL;
    digest->events[digest->count] = *event;
    digest->events[digest->count].head_start = 0;
    return &digest->events[digest->count++];
}

static void leave_out(struct vt_digest *digest, size_t position)
{
    struct vt_event *event = &digest->events[position];
    if (event->kind == VT_EVENT_NONE)
        return;
    if (event->kind == VT_EVENT_ALLOC) {
        digest->omitted_blocks++;
        digest->omitted_bytes += event->bytes;
    }
    /* A landmark's block is counted already. */
    digest->omitted_events += event->kind != VT_EVENT_RAN && event->kind != VT_EVENT_CALL;
    event->kind = VT_EVENT_NONE;
    digest->left_out++;
}

static void omit(struct vt_digest *digest)
{
    digest->omitted_events++;
}

/* ---- landmarks: so that steps remain recognisable ---- */

static bool show(struct vt_digest *digest, enum vt_event_kind kind, const struct vt_event *event,
                 uint64_t t_ns, uint64_t number)
{
    struct vt_event landmark = *event;
    landmark.kind = (uint8_t)kind;
    landmark.t_ns = t_ns;
    landmark.bytes = number;
    landmark.address = 0;
    if (has_device(event)) {
        uint64_t *peak = &digest->past.peak_bytes[event->device_index];
        landmark.address = *peak;
        *peak = 0;
    }
    return keep(digest, &landmark) != NULL;
}

/* Counts one more; true if it is shown. If too many are, every second of them stays. */
static bool count_landmark(struct vt_digest *digest, struct vt_landmarks *landmarks, enum vt_event_kind kind)
{
    landmarks->count++;
    if (landmarks->count % landmarks->stride)
        return false;
    if (++landmarks->shown <= digest->landmarks_maximum)
        return true;
    landmarks->stride *= 2;
    landmarks->shown /= 2;
    for (size_t i = 0; i < digest->count; i++)
        if (digest->events[i].kind == kind && digest->events[i].bytes % landmarks->stride)
            leave_out(digest, i);
    return landmarks->count % landmarks->stride == 0;
}

/* What the thread of a block did just before it was made. */
struct before {
    uint64_t sequence;
    uint32_t node_stack;
};

/* A framework's block is made, or was (VT_EVENT_RAN). The first of a run may come after a pass that is not in
 * it. */
static inline void watch_passes(struct vt_digest *digest, const struct vt_event *event, struct before before)
{
    struct vt_digest_past *past = &digest->past;
    const bool backward = event->sequence & 1, begins = !past->has_blocks, was_backward = past->backward;
    past->has_blocks = true;
    past->backward = backward;
    if (!backward && (begins || was_backward) && digest->passes.count % digest->passes.stride == 0)
        show(digest, VT_EVENT_RAN, event, event->t_ns, digest->passes.count);
    if (!backward && (event->sequence > before.sequence || before.node_stack)) { /* it made a node: forward */
        digest->last_forward = *event;
        digest->last_forward.detail = before.sequence;
        digest->last_forward.total_bytes = before.node_stack;
    }
    if (!backward || was_backward)
        return;
    past->trains = true;
    if (count_landmark(digest, &digest->passes, VT_EVENT_RAN)) {
        if (digest->last_forward.stack_id)
            show(digest, VT_EVENT_RAN, &digest->last_forward, event->t_ns, digest->passes.count);
        show(digest, VT_EVENT_RAN, event, event->t_ns, digest->passes.count);
    }
    digest->last_forward.stack_id = 0;
}

/* A call of a model begins with the first block in it after one outside of models, or with the stack that the
 * call before began with. */
static inline void watch_calls(struct vt_digest *digest, struct vt_digest_thread *thread,
                               const struct vt_event *event, uint32_t model)
{
    if (digest->past.trains || digest->in_earlier)
        return;
    if (!model) {
        thread->call_stack = 0;
    } else if (!thread->call_stack || thread->call_stack == event->stack_id) {
        thread->call_stack = event->stack_id;
        if (count_landmark(digest, &digest->calls, VT_EVENT_CALL))
            show(digest, VT_EVENT_CALL, event, event->t_ns, digest->calls.count);
    }
}

/* ---- one event ---- */

static inline struct vt_digest_thread *thread_of(struct vt_digest *digest, uint32_t thread_id)
{
    struct vt_digest_thread *thread = digest->past.threads;
    while (thread < digest->past.threads + VT_DIGEST_THREADS - 1 && thread->thread_id &&
           thread->thread_id != thread_id)
        thread++;
    if (thread->thread_id != thread_id) /* the last place is shared by those that are left over */
        *thread = (struct vt_digest_thread){.thread_id = thread_id};
    return thread;
}

/* Numbers of nodes are even outside of backward. True if this is a new one. */
static bool advance(struct vt_digest_thread *thread, uint64_t sequence)
{
    const bool counts = sequence && sequence % 2 == 0, advances = counts && sequence > thread->sequence;
    if (counts)
        thread->sequence = sequence;
    return advances;
}

static void make_node(struct vt_digest *digest, const struct vt_event *event)
{
    struct vt_digest_thread *thread = thread_of(digest, event->thread_id);
    if (advance(thread, event->sequence))
        thread->node_stack = event->stack_id;
    omit(digest);
}

static void note_peak(struct vt_digest_peak *peak, uint64_t bytes, const struct vt_digest *digest,
                      uint64_t t_ns)
{
    if (bytes > peak->bytes)
        *peak = (struct vt_digest_peak){bytes, digest->event_count, t_ns};
}

/* The framework's own count of its blocks. */
static inline void watch_blocks(struct vt_digest *digest, const struct vt_event *event)
{
    struct vt_digest_past *past = &digest->past;
    if (!has_device(event))
        return;
    uint64_t *bytes = past->block_bytes[event->device_index], *peak = &past->peak_bytes[event->device_index];
    bytes[event->flags & VT_FLAG_UNCOUNTED ? 1 : 0] = event->total_bytes;
    if (bytes[0] + bytes[1] <= *peak)
        return;
    *peak = bytes[0] + bytes[1];
    note_peak(&digest->block_peaks[event->device_index], *peak, digest, event->t_ns);
}

/* As live_blocks.c counts, except that a failed free is not undone, which matters little here. */
static void watch_driver(struct vt_digest *digest, const struct vt_event *event)
{
    const uint8_t not_device = VT_FLAG_HOST | VT_FLAG_REGISTERED | VT_FLAG_FOREIGN | VT_FLAG_CAPTURED;
    struct vt_digest_past *past = &digest->past;
    if (!has_device(event))
        return;
    uint64_t *bytes = &past->driver_bytes[event->device_index];
    switch (event->kind) {
    case VT_EVENT_ALLOC:
    case VT_EVENT_HANDLE_CREATE:
        *bytes += event->flags & not_device ? 0 : event->bytes;
        break;
    case VT_EVENT_FREE:
    case VT_EVENT_HANDLE_RELEASE:
        *bytes -= event->bytes < *bytes ? event->bytes : *bytes;
        break;
    case VT_EVENT_POOL:
        if (event->flags & VT_FLAG_CAPTURED) {
            *bytes += event->total_bytes - past->graph_bytes[event->device_index];
            past->graph_bytes[event->device_index] = event->total_bytes;
        }
        break;
    default:
        return;
    }
    note_peak(&digest->driver_peaks[event->device_index], *bytes, digest, event->t_ns);
}

static void count_event(struct vt_digest *digest, const struct vt_event *event)
{
    if (!digest->first_ns)
        digest->first_ns = event->t_ns;
    digest->last_ns = event->t_ns;
    digest->kinds[event->kind % VT_DIGEST_KINDS][event->layer % VT_DIGEST_LAYERS]++;
    digest->event_count++;
}

/* Watches a framework's block as it is made, and returns what its thread did before. */
static inline struct before watch_block(struct vt_digest *digest, const struct vt_event *event,
                                        uint32_t model)
{
    struct vt_digest_thread *thread = thread_of(digest, event->thread_id);
    struct before before = {thread->sequence, event->sequence == thread->sequence ? thread->node_stack : 0};
    if (digest->in_earlier && event->detail)
        before = (struct before){event->detail, (uint32_t)event->total_bytes};
    advance(thread, event->sequence);
    thread->node_stack = 0;
    /* Of frameworks without autograd no block belongs to a pass, or stands between two. */
    if (event->stack_id && (!(event->flags & VT_FLAG_UNCOUNTED) || event->sequence))
        watch_passes(digest, event, before);
    if (event->stack_id)
        watch_calls(digest, thread, event, model);
    return before;
}

static void make(struct vt_digest *digest, const struct vt_event *event, uint32_t model)
{
    struct vt_event told;
    if (is_block(event)) {
        const struct before before = watch_block(digest, event, model);
        told = *event; /* instead of the framework's counts, which are of all blocks, what ran before */
        told.detail = before.sequence;
        told.total_bytes = before.node_stack;
        event = &told;
    }
    struct vt_event *kept = keep(digest, event);
    if (!kept)
        return;
    const size_t position = digest->count - 1;
    const size_t at = find(digest, event);
    /* The free of one that is still here was lost: both stay, with the free of this one, as the replay must
     * see that. */
    if (digest->places[at] && is_block(event))
        kept->head_start = (uint32_t)position + 1;
    put_place(digest, at, position);
    if (!is_block(event)) {
        digest->driver_position = digest->count;
        return;
    }
    /* That driver memory holds blocks must show, though it has none of those that stay. */
    if (digest->driver_position) {
        digest->events[digest->driver_position - 1].head_start = kept->head_start = (uint32_t)digest->count;
        digest->driver_position = 0;
    }
}

/* What shows what driver memory is for goes with it. */
static void forget_partner(struct vt_digest *digest, size_t position)
{
    const uint32_t block = digest->events[position].head_start;
    const uint32_t freed = block ? digest->events[block - 1].head_start : 0;
    if (!freed)
        return;
    digest->events[block - 1].head_start = 0;
    if (freed != block) {
        leave_out(digest, freed - 1);
        leave_out(digest, block - 1);
    }
}

/* Driver memory, made here. The oldest of the latest frees did not fail. */
static void unmake_memory(struct vt_digest *digest, size_t position, const struct vt_event *event)
{
    const size_t oldest = digest->free_count++ % VT_DIGEST_FREES;
    if (digest->frees[oldest].made) {
        forget_partner(digest, digest->frees[oldest].made - 1);
        leave_out(digest, digest->frees[oldest].made - 1);
        leave_out(digest, digest->frees[oldest].freed - 1);
    }
    if (digest->driver_position == position + 1)
        digest->driver_position = 0;
    keep(digest, event);
    digest->frees[oldest].made = (uint32_t)position + 1;
    digest->frees[oldest].freed = (uint32_t)digest->count;
}

static void unmake(struct vt_digest *digest, const struct vt_event *event)
{
    const size_t at = find(digest, event), position = digest->places[at] - 1;
    const bool made_here = digest->places[at] != 0;
    if (made_here)
        remove_place(digest, at);
    if (made_here && !is_block(event)) {
        unmake_memory(digest, position, event);
        return;
    }
    if (made_here && !digest->events[position].head_start) {
        leave_out(digest, position);
        omit(digest);
        return;
    }
    struct vt_event *kept = keep(digest, event);
    if (!kept || !is_block(event))
        return;
    kept->detail = kept->total_bytes = 0;
    if (made_here)
        digest->events[position].head_start = (uint32_t)digest->count;
}

/* The free logged before for this address did not happen. */
static void make_again(struct vt_digest *digest, const struct vt_event *event)
{
    for (uint64_t i = digest->free_count; i > 0 && digest->free_count - i < VT_DIGEST_FREES; i--) {
        const size_t at = (i - 1) % VT_DIGEST_FREES;
        const uint32_t made = digest->frees[at].made;
        if (!made || digest->events[made - 1].address != event->address ||
            class_of(&digest->events[made - 1]) != class_of(event))
            continue;
        leave_out(digest, digest->frees[at].freed - 1);
        omit(digest);
        put_place(digest, find(digest, event), made - 1);
        digest->frees[at].made = digest->frees[at].freed = 0;
        return;
    }
    keep(digest, event);
}

/* Only the latest of its kind tells anything. */
static void replace(struct vt_digest *digest, const struct vt_event *event)
{
    size_t at = find(digest, event);
    if (digest->places[at]) {
        const size_t position = digest->places[at] - 1;
        remove_place(digest, at);
        leave_out(digest, position);
    }
    if (keep(digest, event))
        put_place(digest, find(digest, event), digest->count - 1);
}

static void push(struct vt_digest *digest, const struct vt_event *event)
{
    const size_t at = find(digest, event);
    const uint32_t around = digest->places[at];
    struct vt_event *kept = keep(digest, event);
    if (!kept)
        return;
    kept->address = around;
    put_place(digest, find(digest, event), digest->count - 1);
}

static void pop(struct vt_digest *digest, const struct vt_event *event)
{
    const size_t at = find(digest, event);
    if (!digest->places[at]) { /* pushed before */
        keep(digest, event);
        return;
    }
    const size_t position = digest->places[at] - 1;
    const uint64_t around = digest->events[position].address;
    if (around)
        digest->places[at] = (uint32_t)around;
    else
        remove_place(digest, at);
    leave_out(digest, position);
    omit(digest);
}

/* Until the end `bytes` of a mark is its number. */
static void mark(struct vt_digest *digest, const struct vt_event *event)
{
    struct vt_event *kept = ++digest->marks % digest->mark_stride ? NULL : keep(digest, event);
    if (!kept) {
        omit(digest);
        return;
    }
    kept->bytes = digest->marks;
    if (++digest->shown_marks <= VT_DIGEST_NOTES)
        return;
    digest->mark_stride *= 2;
    digest->shown_marks /= 2;
    for (size_t i = 0; i < digest->count; i++)
        if (digest->events[i].kind == VT_EVENT_MARK && digest->events[i].bytes % digest->mark_stride)
            leave_out(digest, i);
}

static void refuse(struct vt_digest *digest, const struct vt_event *event)
{
    if (digest->refusals++ < VT_DIGEST_NOTES)
        keep(digest, event);
    else
        omit(digest);
}

static void hide_earlier(struct vt_landmarks *landmarks, uint64_t count)
{
    const uint64_t shown = landmarks->count - landmarks->earlier;
    landmarks->hidden += count > shown ? count - shown : 0;
}

/* An earlier digest, which is of more than it shows. */
static void end_earlier(struct vt_digest *digest, const struct vt_event *event)
{
    digest->in_earlier = false;
    digest->omitted_events += event->detail;
    digest->omitted_blocks += event->bytes;
    digest->omitted_bytes += event->total_bytes;
    hide_earlier(&digest->passes, event->sequence);
    hide_earlier(&digest->calls, event->address);
}

/* A landmark of an earlier digest. */
static void pass_on(struct vt_digest *digest, const struct vt_event *event)
{
    if (has_device(event) && event->address > digest->past.peak_bytes[event->device_index])
        digest->past.peak_bytes[event->device_index] = event->address;
    if (event->kind == VT_EVENT_RAN)
        watch_block(digest, event, 0);
    else if (count_landmark(digest, &digest->calls, VT_EVENT_CALL))
        show(digest, VT_EVENT_CALL, event, event->t_ns, digest->calls.count);
}

static void take(struct vt_digest *digest, const struct vt_event *event, uint32_t model)
{
    switch (event->kind) {
    case VT_EVENT_ALLOC:
        make(digest, event, model);
        break;
    case VT_EVENT_FREE:
        unmake(digest, event);
        break;
    case VT_EVENT_FREE_FAILED:
        make_again(digest, event);
        break;
    case VT_EVENT_RAN:
    case VT_EVENT_CALL:
        pass_on(digest, event);
        break;
    case VT_EVENT_NODE:
        make_node(digest, event);
        break;
    case VT_EVENT_GRAPH_LAUNCH:
        omit(digest);
        break;
    case VT_EVENT_POOL:
    case VT_EVENT_MEMORY_INFO:
    case VT_EVENT_EXPORT:
        replace(digest, event);
        break;
    case VT_EVENT_RANGE_PUSH:
        push(digest, event);
        break;
    case VT_EVENT_RANGE_POP:
        pop(digest, event);
        break;
    case VT_EVENT_MARK:
        mark(digest, event);
        break;
    case VT_EVENT_OOM:
    case VT_EVENT_ALLOC_FAILED:
        refuse(digest, event);
        break;
    case VT_EVENT_GAP_BEGIN:
        digest->in_earlier = true;
        digest->passes.earlier = digest->passes.count;
        digest->calls.earlier = digest->calls.count;
        break;
    case VT_EVENT_GAP_END:
        end_earlier(digest, event);
        break;
    default:
        keep(digest, event);
    }
}

/* Makes room for one more. */
static bool prepare(struct vt_digest *digest)
{
    digest->failed |=
        digest->used * 2 >= digest->place_count && !make_places(digest, digest->place_count * 2);
    digest->failed |=
        digest->left_out >= LEAST_LEFT_OUT && digest->left_out * 2 >= digest->count && !close_up(digest);
    return !digest->failed;
}

bool vt_digest_take(struct vt_digest *digest, const struct vt_event *event, uint32_t model)
{
    if (!prepare(digest))
        return false;
    if (event->layer == VT_LAYER_FRAMEWORK && (event->kind == VT_EVENT_ALLOC || event->kind == VT_EVENT_FREE))
        watch_blocks(digest, event);
    else if (event->layer != VT_LAYER_FRAMEWORK)
        watch_driver(digest, event);
    take(digest, event, model);
    count_event(digest, event);
    return !digest->failed;
}

/* Of a block that goes again before the digest ends, and of its free, only this is of interest. */
static inline void pass_over(struct vt_digest *digest, const struct vt_event *event, uint32_t model)
{
    watch_blocks(digest, event);
    if (event->kind == VT_EVENT_ALLOC) {
        watch_block(digest, event, model);
        digest->omitted_blocks++;
        digest->omitted_bytes += event->bytes;
    }
    digest->omitted_events++;
    digest->kinds[event->kind][VT_LAYER_FRAMEWORK]++;
    digest->event_count++;
}

bool vt_digest_take_all(struct vt_digest *digest, const struct vt_event *const *events, size_t count,
                        uint32_t *pairs, const uint32_t *models, size_t model_count)
{
    for (size_t i = 0; i < count && !digest->failed; i++) {
        const struct vt_event *event = events[i];
        const uint32_t model = event->stack_id < model_count ? models[event->stack_id] : 0;
        const bool makes = event->kind == VT_EVENT_ALLOC, paired = pairs[i] - 1 < count;
        /* The first block of driver memory shows what that is for. */
        if (paired && !(makes && digest->driver_position)) {
            pass_over(digest, event, model);
            continue;
        }
        if (event->kind == VT_EVENT_NODE) {
            make_node(digest, event);
            count_event(digest, event);
            continue;
        }
        if (paired && makes)
            pairs[pairs[i] - 1] = 0;
        vt_digest_take(digest, event, model);
    }
    if (count && !digest->first_ns)
        digest->first_ns = events[0]->t_ns;
    if (count)
        digest->last_ns = events[count - 1]->t_ns;
    return !digest->failed;
}

static void add_peaks(struct vt_digest_peak *sum, const struct vt_digest_peak *peak, uint64_t first_event)
{
    if (peak->bytes > sum->bytes)
        *sum = (struct vt_digest_peak){peak->bytes, first_event + peak->event, peak->t_ns};
}

bool vt_digest_add(struct vt_digest *digest, const struct vt_event *events, size_t count,
                   const struct vt_digest_summary *summary)
{
    const struct vt_digest_device *devices = (const void *)(summary + 1);
    const struct vt_digest_kind *kinds = (const void *)(devices + summary->device_count);
    for (uint32_t i = 0; i < summary->device_count; i++) {
        const uint32_t device = devices[i].device_index % VT_MAX_DEVICES;
        add_peaks(&digest->block_peaks[device], &devices[i].blocks, digest->event_count);
        add_peaks(&digest->driver_peaks[device], &devices[i].driver, digest->event_count);
    }
    for (uint32_t i = 0; i < summary->kind_count; i++)
        digest->kinds[kinds[i].kind % VT_DIGEST_KINDS][kinds[i].layer % VT_DIGEST_LAYERS] += kinds[i].events;
    for (size_t i = 0; i < count && prepare(digest); i++)
        take(digest, &events[i], 0);
    if (!digest->first_ns)
        digest->first_ns = summary->begin_ns;
    if (summary->end_ns)
        digest->last_ns = summary->end_ns;
    digest->event_count += summary->events;
    return !digest->failed;
}

void vt_digest_begin(struct vt_digest *digest, size_t landmarks_maximum, bool fresh)
{
    struct vt_digest begun = {.events = digest->events,
                              .capacity = digest->capacity,
                              .places = digest->places,
                              .place_count = digest->place_count,
                              .landmarks_maximum = landmarks_maximum,
                              .passes.stride = 1,
                              .calls.stride = 1,
                              .mark_stride = 1};
    if (!fresh)
        begun.past = digest->past;
    if (begun.places)
        memset(begun.places, 0, begun.place_count * sizeof *begun.places);
    *digest = begun;
    digest->failed = !digest->places && !make_places(digest, FIRST_EVENTS);
    keep(digest, &(struct vt_event){.kind = VT_EVENT_GAP_BEGIN, .device_index = -1});
}

bool vt_digest_end(struct vt_digest *digest)
{
    if (digest->last_forward.stack_id) /* its pass comes after the gap */
        show(digest, VT_EVENT_RAN, &digest->last_forward, digest->last_ns, digest->passes.count);
    keep(digest, &(struct vt_event){.kind = VT_EVENT_GAP_END,
                                    .device_index = -1,
                                    .t_ns = digest->last_ns,
                                    .detail = digest->omitted_events,
                                    .bytes = digest->omitted_blocks,
                                    .total_bytes = digest->omitted_bytes,
                                    .sequence = digest->passes.count + digest->passes.hidden,
                                    .address = digest->calls.count + digest->calls.hidden});
    if (digest->failed || !close_up(digest))
        return false;
    digest->events[0].t_ns = digest->first_ns;
    for (size_t i = 0; i < digest->count; i++) {
        struct vt_event *event = &digest->events[i];
        event->head_start = 0;
        if (event->kind == VT_EVENT_RANGE_PUSH)
            event->address = 0;
        if (event->kind == VT_EVENT_MARK)
            event->bytes = 0;
    }
    return true;
}

void vt_digest_free(struct vt_digest *digest)
{
    vt_memory_free(digest->events, digest->capacity * sizeof *digest->events);
    vt_memory_free(digest->places, digest->place_count * sizeof *digest->places);
    *digest = (struct vt_digest){0};
}
