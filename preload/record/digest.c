#include "record/digest.h"

#include <string.h>

#include "memory.h"
#include "record/digest_landmarks.h"
#include "record/digest_store.h"

static bool has_unmatched_enough(struct vt_digest *digest)
{
    return digest->unmatched_maximum && ++digest->unmatched > digest->unmatched_maximum;
}

static void make(struct vt_digest *digest, const struct vt_event *event, const struct vt_models *models)
{
    struct vt_event told;
    if (vt_digest_is_block(event)) {
        const struct vt_before before = vt_landmarks_block(digest, event, models);
        if (event->sequence % 2 == 0 && !vt_makes_node(event, before))
            vt_landmarks_show_forward(digest, event->t_ns);
        told = *event; /* instead of the framework's counts, which are of all blocks, what ran before */
        told.detail = before.sequence;
        told.total_bytes = event->sequence % 2 == 0 || digest->in_earlier
                               ? before.node_stack
                               : vt_landmarks_forward(digest, event);
        event = &told;
        vt_landmarks_make_gradient(digest, event);
    }
    struct vt_event *kept = vt_digest_keep(digest, event);
    if (!kept)
        return;
    const size_t position = digest->count - 1;
    const size_t at = vt_digest_find(digest, event);
    /* The free of one that is still here was lost: both stay, with the free of this one, as the replay must
     * see that. */
    if (digest->places[at] && vt_digest_is_block(event)) {
        if (has_unmatched_enough(digest))
            vt_digest_leave_out(digest, digest->places[at] - 1);
        else
            kept->head_start = (uint32_t)position + 1;
    }
    vt_digest_put_place(digest, at, position);
    if (!vt_digest_is_block(event)) {
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
        vt_digest_leave_out(digest, freed - 1);
        vt_digest_leave_out(digest, block - 1);
    }
}

/* Driver memory, made here. The oldest of the latest frees did not fail. */
static void unmake_memory(struct vt_digest *digest, size_t position, const struct vt_event *event)
{
    const size_t oldest = digest->free_count++ % VT_DIGEST_FREES;
    if (digest->frees[oldest].made) {
        forget_partner(digest, digest->frees[oldest].made - 1);
        vt_digest_leave_out(digest, digest->frees[oldest].made - 1);
        vt_digest_leave_out(digest, digest->frees[oldest].freed - 1);
    }
    if (digest->driver_position == position + 1)
        digest->driver_position = 0;
    vt_digest_keep(digest, event);
    digest->frees[oldest].made = (uint32_t)position + 1;
    digest->frees[oldest].freed = (uint32_t)digest->count;
}

static void unmake(struct vt_digest *digest, const struct vt_event *event)
{
    const size_t at = vt_digest_find(digest, event), position = digest->places[at] - 1;
    const bool made_here = digest->places[at] != 0;
    if (made_here)
        vt_digest_remove_place(digest, at);
    if (made_here && vt_digest_is_block(event) && vt_is_of_pass(&digest->events[position]))
        vt_landmarks_free_gradient(digest, event);
    if (made_here && !vt_digest_is_block(event)) {
        unmake_memory(digest, position, event);
        return;
    }
    if (made_here && !digest->events[position].head_start) {
        vt_digest_leave_out(digest, position);
        vt_digest_omit(digest);
        return;
    }
    if (!made_here && vt_digest_is_block(event) && has_unmatched_enough(digest)) {
        vt_digest_omit(digest);
        return;
    }
    struct vt_event *kept = vt_digest_keep(digest, event);
    if (!kept || !vt_digest_is_block(event))
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
            vt_digest_class_of(&digest->events[made - 1]) != vt_digest_class_of(event))
            continue;
        vt_digest_leave_out(digest, digest->frees[at].freed - 1);
        vt_digest_omit(digest);
        vt_digest_put_place(digest, vt_digest_find(digest, event), made - 1);
        digest->frees[at].made = digest->frees[at].freed = 0;
        return;
    }
    vt_digest_keep(digest, event);
}

/* Only the latest of its kind tells anything. */
static void replace(struct vt_digest *digest, const struct vt_event *event)
{
    size_t at = vt_digest_find(digest, event);
    if (digest->places[at]) {
        const size_t position = digest->places[at] - 1;
        vt_digest_remove_place(digest, at);
        vt_digest_leave_out(digest, position);
    }
    if (vt_digest_keep(digest, event))
        vt_digest_put_place(digest, vt_digest_find(digest, event), digest->count - 1);
}

static void push(struct vt_digest *digest, const struct vt_event *event)
{
    const size_t at = vt_digest_find(digest, event);
    const uint32_t around = digest->places[at];
    struct vt_event *kept = vt_digest_keep(digest, event);
    if (!kept)
        return;
    kept->address = around;
    vt_digest_put_place(digest, vt_digest_find(digest, event), digest->count - 1);
}

static void pop(struct vt_digest *digest, const struct vt_event *event)
{
    const size_t at = vt_digest_find(digest, event);
    if (!digest->places[at]) { /* pushed before */
        vt_digest_keep(digest, event);
        return;
    }
    const size_t position = digest->places[at] - 1;
    const uint64_t around = digest->events[position].address;
    if (around)
        digest->places[at] = (uint32_t)around;
    else
        vt_digest_remove_place(digest, at);
    vt_digest_leave_out(digest, position);
    vt_digest_omit(digest);
}

/* Until the end `bytes` of a mark is its number among them; total_bytes is its place among all events. */
static void mark(struct vt_digest *digest, const struct vt_event *event)
{
    struct vt_event *kept = ++digest->marks % digest->mark_stride ? NULL : vt_digest_keep(digest, event);
    if (!kept) {
        vt_digest_omit(digest);
        return;
    }
    kept->bytes = digest->marks;
    kept->total_bytes = digest->event_count + (digest->in_earlier ? event->total_bytes : 0);
    if (++digest->shown_marks <= VT_DIGEST_NOTES)
        return;
    digest->mark_stride *= 2;
    digest->shown_marks /= 2;
    for (size_t i = 0; i < digest->count; i++)
        if (digest->events[i].kind == VT_EVENT_MARK && digest->events[i].bytes % digest->mark_stride)
            vt_digest_leave_out(digest, i);
}

static void refuse(struct vt_digest *digest, const struct vt_event *event)
{
    if (digest->refusals++ < VT_DIGEST_NOTES)
        vt_digest_keep(digest, event);
    else
        vt_digest_omit(digest);
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

static void take(struct vt_digest *digest, const struct vt_event *event, const struct vt_models *models)
{
    switch (event->kind) {
    case VT_EVENT_ALLOC:
        make(digest, event, models);
        break;
    case VT_EVENT_FREE:
        unmake(digest, event);
        break;
    case VT_EVENT_FREE_FAILED:
        make_again(digest, event);
        break;
    case VT_EVENT_RAN:
    case VT_EVENT_CALL:
    case VT_EVENT_AFTER:
    case VT_EVENT_ZEROED:
    case VT_EVENT_MOST:
    case VT_EVENT_LAST:
        vt_landmarks_pass_on(digest, event);
        break;
    case VT_EVENT_NODE:
        vt_landmarks_node(digest, event);
        break;
    case VT_EVENT_GRAPH_LAUNCH:
        vt_digest_omit(digest);
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
        vt_digest_keep(digest, event);
    }
}

bool vt_digest_take(struct vt_digest *digest, const struct vt_event *event, const struct vt_models *models)
{
    if (!vt_digest_prepare(digest))
        return false;
    if (event->layer == VT_LAYER_FRAMEWORK && (event->kind == VT_EVENT_ALLOC || event->kind == VT_EVENT_FREE))
        vt_landmarks_bytes(digest, event);
    else if (event->layer != VT_LAYER_FRAMEWORK)
        vt_landmarks_driver(digest, event);
    take(digest, event, models);
    vt_landmarks_count(digest, event);
    return !digest->failed;
}

bool vt_digest_take_all(struct vt_digest *digest, const struct vt_event *const *events, size_t count,
                        uint32_t *pairs, const struct vt_models *models)
{
    for (size_t i = 0; i < count && !digest->failed; i++) {
        i = vt_landmarks_pass_over(digest, events, i, count, pairs, models);
        if (i == count)
            break;
        if (events[i]->kind == VT_EVENT_ALLOC && pairs[i] - 1 < count)
            pairs[pairs[i] - 1] = 0;
        vt_digest_take(digest, events[i], models);
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
    for (size_t i = 0; i < count && vt_digest_prepare(digest); i++)
        take(digest, &events[i], NULL);
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
                              .nodes = digest->nodes,
                              .landmarks_maximum = landmarks_maximum,
                              .passes.stride = 1,
                              .calls.stride = 1,
                              .mark_stride = 1};
    if (!fresh)
        begun.past = digest->past;
    memset(begun.past.peak_bytes, 0, sizeof begun.past.peak_bytes);
    begun.past.gradient_bytes = begun.past.left_bytes = 0;
    for (size_t i = 0; i < VT_DIGEST_THREADS; i++)
        begun.past.threads[i].stack_id = 0;
    if (begun.places)
        memset(begun.places, 0, begun.place_count * sizeof *begun.places);
    *digest = begun;
    digest->failed = !digest->places && !vt_digest_make_places(digest, VT_DIGEST_FIRST_PLACES);
    vt_digest_keep(digest, &(struct vt_event){.kind = VT_EVENT_GAP_BEGIN, .device_index = -1});
}

bool vt_digest_end(struct vt_digest *digest)
{
    vt_landmarks_show_forward(digest, digest->last_ns); /* its pass comes after the run */
    vt_landmarks_show_most(digest);
    vt_landmarks_show_threads(digest);
    vt_digest_keep(digest, &(struct vt_event){.kind = VT_EVENT_GAP_END,
                                              .device_index = -1,
                                              .t_ns = digest->last_ns,
                                              .detail = digest->omitted_events,
                                              .bytes = digest->omitted_blocks,
                                              .total_bytes = digest->omitted_bytes,
                                              .sequence = digest->passes.count + digest->passes.hidden,
                                              .address = digest->calls.count + digest->calls.hidden});
    if (digest->failed || !vt_digest_close_up(digest))
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
    vt_memory_free(digest->nodes, VT_DIGEST_NODES * sizeof *digest->nodes);
    vt_memory_free(digest->places, digest->place_count * sizeof *digest->places);
    *digest = (struct vt_digest){0};
}
