/* Landmarks of a digest, so that steps remain recognisable; and its totals. */
#include "record/digest_landmarks.h"

#include "record/digest_store.h"
#include "record/live_blocks.h"

static bool has_device(const struct vt_event *event)
{
    return event->device_index >= 0 && event->device_index < (int)VT_MAX_DEVICES;
}

static void show(struct vt_digest *digest, enum vt_event_kind kind, const struct vt_event *event,
                 uint64_t t_ns, uint64_t number)
{
    struct vt_event landmark = *event;
    landmark.kind = (uint8_t)kind;
    landmark.t_ns = t_ns;
    landmark.bytes = kind == VT_EVENT_CALL ? number : event->bytes;
    landmark.address = 0;
    if (has_device(event)) {
        const uint64_t *bytes = digest->past.block_bytes[event->device_index];
        uint64_t *peak = &digest->past.peak_bytes[event->device_index];
        landmark.address = event->device_index == digest->peak_device ? digest->peak_before : *peak;
        digest->peak_before = 0;
        *peak = bytes[0] + bytes[1];
    }
    struct vt_event *kept = vt_digest_keep(digest, &landmark);
    if (kept)
        kept->head_start = (uint32_t)number;
}

/* The block's event, with what was before it. */
static struct vt_event with_before(const struct vt_digest *digest, const struct vt_event *event,
                                   struct vt_before before)
{
    struct vt_event block = *event;
    block.detail = before.sequence;
    block.total_bytes = event->sequence % 2 == 0 || digest->in_earlier ? before.node_stack
                                                                       : vt_landmarks_forward(digest, event);
    if (!digest->in_earlier && has_device(event)) {
        const uint64_t *bytes = digest->past.block_bytes[event->device_index];
        block.bytes = bytes[0] + bytes[1] - event->bytes;
    }
    return block;
}

/* Each device's most, except for one, since its latest landmark. */
static void show_most(struct vt_digest *digest, int except, uint64_t t_ns)
{
    for (unsigned device = 0; device < digest->past.devices; device++) {
        uint64_t *peak = &digest->past.peak_bytes[device];
        const uint64_t *bytes = digest->past.block_bytes[device];
        if ((int)device == except || !*peak)
            continue;
        vt_digest_keep(digest, &(struct vt_event){.kind = VT_EVENT_MOST,
                                                  .layer = VT_LAYER_FRAMEWORK,
                                                  .device_index = (int8_t)device,
                                                  .t_ns = t_ns,
                                                  .address = *peak});
        *peak = digest->in_earlier ? 0 : bytes[0] + bytes[1];
    }
}

/* Shows a block near a pass. */
static void show_block(struct vt_digest *digest, enum vt_event_kind kind, const struct vt_event *event,
                       struct vt_before before)
{
    const struct vt_event block = with_before(digest, event, before);
    show(digest, kind, &block, event->t_ns, digest->passes.count);
    show_most(digest, event->device_index, event->t_ns);
}

static void show_zeroed(struct vt_digest *digest, const struct vt_event *event)
{
    const struct vt_event landmark = {.kind = VT_EVENT_ZEROED,
                                      .layer = event->layer,
                                      .device_index = -1,
                                      .t_ns = event->t_ns,
                                      .thread_id = event->thread_id};
    struct vt_event *kept = vt_digest_keep(digest, &landmark);
    if (kept)
        kept->head_start = (uint32_t)digest->passes.count;
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
        if ((digest->events[i].kind == kind || (kind == VT_EVENT_RAN && vt_is_landmark(&digest->events[i]) &&
                                                digest->events[i].kind != VT_EVENT_CALL)) &&
            digest->events[i].head_start % landmarks->stride)
            vt_digest_leave_out(digest, i);
    return landmarks->count % landmarks->stride == 0;
}

/* The optimizer, or whatever ran first after a pass, has ended where its thread's first block outside of it
 * is made. */
static inline void watch_after(struct vt_digest *digest, const struct vt_event *event,
                               const struct vt_models *models, struct vt_before before)
{
    struct vt_digest_past *past = &digest->past;
    if (past->after_thread != event->thread_id)
        return;
    const uint32_t model = vt_model_of(models, event);
    if (past->after_model && model != past->after_model) {
        past->after_thread = 0;
        if (digest->passes.count % digest->passes.stride == 0)
            show_block(digest, VT_EVENT_AFTER, event, before);
    }
    past->after_model = model;
}

/* A framework's block is made, or was (VT_EVENT_RAN). The first of a run may come after a pass that is not in
 * it. */
static inline void watch_passes(struct vt_digest *digest, const struct vt_event *event,
                                const struct vt_models *models, struct vt_before before)
{
    struct vt_digest_past *past = &digest->past;
    const bool backward = event->sequence & 1, begins = !past->has_blocks, was_backward = past->backward;
    past->has_blocks = true;
    past->backward = backward;
    if (backward) {
        past->after_thread = 0;
    } else if (begins || was_backward) {
        past->after_thread = event->thread_id;
        past->after_model = vt_model_of(models, event);
        if (digest->passes.count % digest->passes.stride == 0)
            show_block(digest, VT_EVENT_RAN, event, before);
    } else {
        watch_after(digest, event, models, before);
    }
    if (vt_makes_node(event, before)) {
        digest->last_forward = with_before(digest, event, before);
    }
    if (!backward || was_backward)
        return;
    past->trains = true;
    if (count_landmark(digest, &digest->passes, VT_EVENT_RAN)) {
        if (digest->last_forward.stack_id)
            show(digest, VT_EVENT_RAN, &digest->last_forward, event->t_ns, digest->passes.count);
        show_block(digest, VT_EVENT_RAN, event, before);
    }
    digest->last_forward.stack_id = 0;
}

/* A call of a model begins with the first block in it after one outside of models, or with the stack that the
 * call before began with. */
static inline void watch_calls(struct vt_digest *digest, struct vt_digest_thread *thread,
                               const struct vt_event *event, const struct vt_models *models)
{
    if (digest->past.trains || digest->in_earlier)
        return;
    const uint32_t model = vt_model_of(models, event);
    if (!model) {
        thread->call_stack = 0;
    } else if (!thread->call_stack || thread->call_stack == event->stack_id) {
        thread->call_stack = event->stack_id;
        if (count_landmark(digest, &digest->calls, VT_EVENT_CALL))
            show(digest, VT_EVENT_CALL, event, event->t_ns, digest->calls.count);
    }
}

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
static bool advance(struct vt_digest *digest, struct vt_digest_thread *thread, const struct vt_event *event)
{
    const uint64_t sequence = event->sequence;
    const bool counts = sequence && sequence % 2 == 0, advances = counts && sequence > thread->sequence;
    if (counts) {
        thread->sequence = sequence;
        thread->stack_id = event->stack_id;
    }
    if (advances && digest->nodes)
        digest->nodes[sequence / 2 % VT_DIGEST_NODES] = (struct vt_digest_node){sequence, event->stack_id};
    return advances;
}

uint32_t vt_landmarks_forward(const struct vt_digest *digest, const struct vt_event *event)
{
    const uint64_t sequence = event->sequence & ~UINT64_C(1);
    const struct vt_digest_node *node = digest->nodes ? &digest->nodes[sequence / 2 % VT_DIGEST_NODES] : NULL;
    return node && node->sequence == sequence ? node->stack_id : 0;
}

void vt_landmarks_node(struct vt_digest *digest, const struct vt_event *event)
{
    struct vt_digest_thread *thread = thread_of(digest, event->thread_id);
    if (advance(digest, thread, event))
        thread->node_stack = event->stack_id;
    vt_digest_omit(digest);
}

static void note_peak(struct vt_digest_peak *peak, uint64_t bytes, const struct vt_digest *digest,
                      uint64_t t_ns)
{
    if (bytes > peak->bytes)
        *peak = (struct vt_digest_peak){bytes, digest->event_count, t_ns};
}

/* The framework's own count of its blocks. */
void vt_landmarks_bytes(struct vt_digest *digest, const struct vt_event *event)
{
    struct vt_digest_past *past = &digest->past;
    if (!has_device(event))
        return;
    uint64_t *bytes = past->block_bytes[event->device_index], *peak = &past->peak_bytes[event->device_index];
    past->devices =
        (unsigned)event->device_index >= past->devices ? (unsigned)event->device_index + 1 : past->devices;
    digest->peak_device = event->device_index;
    digest->peak_before = *peak;
    bytes[event->flags & VT_FLAG_UNCOUNTED ? 1 : 0] = event->total_bytes;
    past->several |= event->flags & VT_FLAG_UNCOUNTED;
    if (bytes[0] + bytes[1] <= *peak)
        return;
    *peak = bytes[0] + bytes[1];
    note_peak(&digest->block_peaks[event->device_index], *peak, digest, event->t_ns);
}

/* As live_blocks.c counts, except that a failed free is not undone, which matters little here. */
void vt_landmarks_driver(struct vt_digest *digest, const struct vt_event *event)
{
    struct vt_digest_past *past = &digest->past;
    if (!has_device(event))
        return;
    uint64_t *bytes = &past->driver_bytes[event->device_index];
    if (vt_makes_device_memory(event)) {
        *bytes += event->bytes;
    } else if (vt_ends_memory(event)) {
        *bytes -= event->bytes < *bytes ? event->bytes : *bytes;
    } else if (event->kind == VT_EVENT_POOL && event->flags & VT_FLAG_CAPTURED) {
        *bytes += event->total_bytes - past->graph_bytes[event->device_index];
        past->graph_bytes[event->device_index] = event->total_bytes;
    }
    note_peak(&digest->driver_peaks[event->device_index], *bytes, digest, event->t_ns);
}

void vt_landmarks_count(struct vt_digest *digest, const struct vt_event *event)
{
    if (!digest->first_ns)
        digest->first_ns = event->t_ns;
    digest->last_ns = event->t_ns;
    digest->kinds[event->kind % VT_DIGEST_KINDS][event->layer % VT_DIGEST_LAYERS]++;
    digest->event_count++;
}

/* Watches a framework's block as it is made, and returns what its thread did before. */
struct vt_before vt_landmarks_block(struct vt_digest *digest, const struct vt_event *event,
                                    const struct vt_models *models)
{
    struct vt_digest_thread *thread = thread_of(digest, event->thread_id);
    struct vt_before before = {thread->sequence,
                               event->sequence == thread->sequence ? thread->node_stack : 0};
    if (digest->in_earlier) {
        before.sequence = event->detail ? event->detail : before.sequence;
        before.node_stack = (uint32_t)event->total_bytes;
    }
    advance(digest, thread, event);
    thread->node_stack = 0;
    /* Of frameworks without autograd no block belongs to a pass, or stands between two. */
    if (event->stack_id && (!(event->flags & VT_FLAG_UNCOUNTED) || event->sequence))
        watch_passes(digest, event, models, before);
    if (event->stack_id)
        watch_calls(digest, thread, event, models);
    return before;
}

void vt_landmarks_make_gradient(struct vt_digest *digest, const struct vt_event *event)
{
    if (!vt_is_of_pass(event) || digest->in_earlier)
        return;
    digest->past.gradient_bytes += event->bytes;
    digest->past.pass_thread = event->thread_id;
}

void vt_landmarks_free_gradient(struct vt_digest *digest, const struct vt_event *event)
{
    struct vt_digest_past *past = &digest->past;
    const bool within = past->backward && event->thread_id == past->pass_thread;
    if (digest->in_earlier)
        return;
    if (past->pass_thread && !within) {
        past->left_bytes = past->gradient_bytes;
        past->pass_thread = 0;
    }
    past->gradient_bytes -= event->bytes < past->gradient_bytes ? event->bytes : past->gradient_bytes;
    if (within || !past->left_bytes || past->gradient_bytes * 2 > past->left_bytes)
        return;
    past->left_bytes = 0;
    if (digest->passes.count % digest->passes.stride == 0)
        show_zeroed(digest, event);
}

/* In pairs of a free: a pass made its block. */
#define OF_PASS (UINT32_C(1) << 31)

size_t vt_landmarks_pass_over(struct vt_digest *digest, const struct vt_event *const *events, size_t first,
                              size_t count, uint32_t *pairs, const struct vt_models *models)
{
    const uint64_t before = digest->event_count - first;
    uint64_t made = 0, bytes = 0;
    size_t i = first;
    for (; i < count; i++) {
        const size_t other = (pairs[i] & ~OF_PASS) - 1;
        if (other >= count)
            break;
        if (other < i && pairs[i] & OF_PASS)
            vt_landmarks_free_gradient(digest, events[i]);
        /* A free changes no peak, unless another framework's blocks are counted too: then its bytes matter.
         */
        if (other < i && !digest->past.several)
            continue;
        /* The first block of driver memory shows what that is for. */
        if (other > i && digest->driver_position)
            break;
        const struct vt_event *event = events[i];
        digest->event_count = before + i;
        vt_landmarks_bytes(digest, event);
        if (other < i)
            continue;
        vt_landmarks_block(digest, event, models);
        vt_landmarks_make_gradient(digest, event);
        pairs[other] |= vt_is_of_pass(event) ? OF_PASS : 0;
        made++;
        bytes += event->bytes;
    }
    digest->event_count = before + i;
    digest->kinds[VT_EVENT_ALLOC][VT_LAYER_FRAMEWORK] += made;
    digest->kinds[VT_EVENT_FREE][VT_LAYER_FRAMEWORK] += i - first - made;
    digest->omitted_events += i - first;
    digest->omitted_blocks += made;
    digest->omitted_bytes += bytes;
    return i;
}

static void take_last(struct vt_digest *digest, const struct vt_event *event)
{
    struct vt_digest_thread *thread = thread_of(digest, event->thread_id);
    advance(digest, thread, event);
    thread->node_stack = (uint32_t)event->total_bytes;
}

/* A landmark of an earlier digest. */
void vt_landmarks_pass_on(struct vt_digest *digest, const struct vt_event *event)
{
    digest->peak_device = -1;
    if (has_device(event) && (unsigned)event->device_index >= digest->past.devices)
        digest->past.devices = (unsigned)event->device_index + 1;
    if (has_device(event) && event->address > digest->past.peak_bytes[event->device_index])
        digest->past.peak_bytes[event->device_index] = event->address;
    if (event->kind == VT_EVENT_LAST)
        take_last(digest, event);
    else if (event->kind == VT_EVENT_RAN)
        vt_landmarks_block(digest, event, NULL);
    else if (event->kind == VT_EVENT_ZEROED && digest->passes.count % digest->passes.stride == 0)
        show_zeroed(digest, event);
    else if (event->kind == VT_EVENT_AFTER && digest->passes.count % digest->passes.stride == 0)
        show(digest, VT_EVENT_AFTER, event, event->t_ns, digest->passes.count);
    else if (event->kind == VT_EVENT_CALL && count_landmark(digest, &digest->calls, VT_EVENT_CALL))
        show(digest, VT_EVENT_CALL, event, event->t_ns, digest->calls.count);
}

void vt_landmarks_show_forward(struct vt_digest *digest, uint64_t t_ns)
{
    if (digest->last_forward.stack_id && (digest->passes.count + 1) % digest->passes.stride == 0)
        show(digest, VT_EVENT_RAN, &digest->last_forward, t_ns, digest->passes.count + 1);
    digest->last_forward.stack_id = 0;
}

void vt_landmarks_show_most(struct vt_digest *digest)
{
    show_most(digest, -1, digest->last_ns);
}

void vt_landmarks_show_threads(struct vt_digest *digest)
{
    for (size_t i = 0; i < VT_DIGEST_THREADS; i++) {
        const struct vt_digest_thread *thread = &digest->past.threads[i];
        if (thread->stack_id)
            vt_digest_keep(digest, &(struct vt_event){.kind = VT_EVENT_LAST,
                                                      .layer = VT_LAYER_FRAMEWORK,
                                                      .device_index = -1,
                                                      .t_ns = digest->last_ns,
                                                      .thread_id = thread->thread_id,
                                                      .stack_id = thread->stack_id,
                                                      .sequence = thread->sequence,
                                                      .total_bytes = thread->node_stack});
    }
}
