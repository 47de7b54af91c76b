#include "record/record.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "clock.h"
#include "guard.h"
#include "hash.h"
#include "record/live_blocks.h"
#include "record/places.h"
#include "record/session.h"
#include "record/stack_records.h"
#include "record/top_counters.h"
#include "stacks/native.h"
#include "stacks/python.h"

enum { TEXT_MAXIMUM_BYTES = 1023, INSPECTION_PART_BYTES = 256 << 10 };
enum { ASKED_TURNS = 500 }; /* milliseconds; who asks for an inspection waits for it anyway */

struct thread_cache {
    uint64_t driver_events;
    uint32_t generation; /* of the session that the other fields belong to */
    uint32_t thread_id;
    uint16_t label;
    uint32_t stack_ids[2];    /* of the latest event without a stack, and with one */
    struct vt_recent *recent; /* NULL: no memory was left for it */
    struct pending_node {
        uint64_t sequence; /* 0 = none */
        uint64_t python_hash;
        uint32_t stack_id;
    } node; /* the latest node made on this thread, until its operator is known to allocate or not */
};
static __thread struct thread_cache thread __attribute__((tls_model("initial-exec")));

uint64_t (*_Atomic vt_autograd_sequence)(void);
const int *_Atomic vt_collecting;

uint16_t vt_set_runtime_label(uint16_t function)
{
    uint16_t before = thread.label;
    thread.label = function;
    return before;
}

uint64_t vt_driver_events_of_thread(void)
{
    return thread.driver_events;
}

static void define_thread(struct vt_session *session)
{
    struct vt_string *record = vt_reserve_definition(session, VT_RECORD_THREAD, sizeof *record);
    if (!record)
        return;
    record->id = thread.thread_id;
    vt_ring_commit(record);
}

static inline void refresh_thread(struct vt_session *session)
{
    if (__builtin_expect(thread.generation == session->generation, 1))
        return;
    thread.generation = session->generation;
    thread.node.sequence = 0;
    thread.thread_id = (uint32_t)syscall(SYS_gettid);
    thread.recent = vt_session_recent(session, thread.thread_id);
    define_thread(session);
}

static bool push_event(struct vt_session *session, const struct vt_event *filled)
{
    struct vt_event *event = vt_ring_reserve_event(&session->ring);
    if (!event) {
        vt_count_dropped(&session->ring.header->counters.dropped);
        return false;
    }
    memcpy((char *)event + sizeof event->head, (const char *)filled + sizeof filled->head,
           sizeof *event - sizeof event->head);
    event->thread_id = thread.thread_id;
    vt_ring_commit(event);
    return true;
}

static void push_node(struct vt_session *session, uint64_t sequence, uint64_t parent, uint32_t stack_id)
{
    push_event(session, &(struct vt_event){.kind = VT_EVENT_NODE,
                                           .device_index = -1,
                                           .sequence = sequence,
                                           .detail = parent,
                                           .stack_id = stack_id,
                                           .t_ns = vt_clock_ns(CLOCK_MONOTONIC)});
}

/* An allocation from the same frames carries all the information of the node. An allocation from other
 * frames belongs to a later operator that made no node. */
static void settle_node(struct vt_session *session, uint64_t sequence, uint64_t python_hash)
{
    if (thread.node.sequence != sequence || thread.node.python_hash != python_hash)
        push_node(session, thread.node.sequence, 0, thread.node.stack_id);
    thread.node.sequence = 0;
}

/* Apart from the path of a known stack. */
__attribute__((noinline)) static uint32_t define_stack(struct vt_session *session,
                                                       struct vt_intern_entry *entry,
                                                       struct vt_seen_stack *seen, uint16_t function)
{
    seen->function = function;
    seen->label = thread.label;
    return vt_record_stack(session, entry, seen);
}

static uint32_t intern_stack(struct vt_session *session, struct vt_seen_stack *seen, uint16_t function)
{
    const uint64_t rest = (uint64_t)seen->place_id << 32 | (uint64_t)function << 16 | thread.label;
    seen->hash = vt_hash_spread(vt_hash_add(seen->hash, rest)) | VT_INTERN_MARK;
    uint32_t *const latest = &thread.stack_ids[seen->with_python];
    if (vt_intern_is(&session->stacks, seen->hash, *latest + seen->with_python))
        return *latest += seen->with_python;
    struct vt_intern_entry *entry = vt_intern_find(&session->stacks, seen->hash);
    uint32_t id = entry ? atomic_load_explicit(&entry->id, memory_order_acquire) : 0;
    if (!entry)
        vt_count_dropped(&session->ring.header->counters.without_stack);
    else if (__builtin_expect(id == 0, 0))
        id = define_stack(session, entry, seen, function);
    return *latest = id;
}

static void look_at_python(struct vt_session *session, struct vt_seen_stack *seen)
{
    if (session->options.python)
        vt_python_hash(thread.recent ? &thread.recent->frames : NULL, VT_PYTHON_DEPTH, &seen->python);
    seen->hash = seen->python.hash;
}

static uint32_t stack_id_of(struct vt_session *session, const struct vt_observation *observed)
{
    const bool with_stack = observed->with_stack && !vt_is_paused(session);
    struct vt_seen_stack seen = {.with_python = with_stack, .with_native = with_stack};
    if (observed->on_stream)
        seen.place_id = vt_place_id(session, observed->device_index, observed->stream);
    if (with_stack) {
        look_at_python(session, &seen);
        if (thread.node.sequence)
            settle_node(session, observed->sequence, seen.python.hash);
        seen.hash = vt_hash_add(
            seen.hash, vt_native_hash(thread.recent ? &thread.recent->walks : NULL, seen.python.entry_frame));
    }
    return intern_stack(session, &seen, observed->function);
}

/* The collector runs with the GIL, so frees of a thread without Python are never the collector's. Once the
 * interpreter is ending, its memory may be gone. */
static bool frees_for_collector(const struct vt_observation *seen)
{
    const int *collecting = atomic_load_explicit(&vt_collecting, memory_order_acquire);
    const struct vt_python *interpreter;
    return seen->kind == VT_EVENT_FREE && collecting && !vt_python_is_finalizing() &&
           __atomic_load_n(collecting, __ATOMIC_RELAXED) && vt_python_current_thread(&interpreter);
}

void vt_record_event(struct vt_session *session, const struct vt_observation *seen)
{
    refresh_thread(session);
    struct vt_event event = {.address = seen->address,
                             .bytes = seen->bytes,
                             .detail = seen->detail,
                             .total_bytes = seen->total_bytes,
                             .sequence = seen->sequence,
                             .kind = seen->kind,
                             .layer = seen->layer,
                             .device_index = seen->device_index,
                             .flags = seen->flags | (seen->uncounted ? VT_FLAG_UNCOUNTED : 0)};
    if (seen->uncounted &&
        !(seen->kind == VT_EVENT_OOM ? vt_live_oom(session, &event)
                                     : vt_live_block(session, &event, seen->handle, seen->part_of)))
        return;
    event.stack_id = stack_id_of(session, seen);
    if (seen->layer == VT_LAYER_FRAMEWORK) {
        if (seen->sequence && seen->sequence % 2 == 0) /* of a forward operator */
            session->helpers->inspector->note_graph();
        if (frees_for_collector(seen))
            event.flags |= VT_FLAG_COLLECTOR;
        if (vt_live_framework(session, &event))
            session->helpers->inspector->note_peak(session, event.stack_id);
    } else if (seen->layer != VT_LAYER_NONE) {
        vt_live_driver(session, &event);
        thread.driver_events += seen->layer == VT_LAYER_DRIVER;
    }
    /* Last, close to reserving the slot: events are ordered by slot. */
    event.t_ns = vt_clock_ns(CLOCK_MONOTONIC);
    push_event(session, &event);
}

void vt_record_settings(const char *settings)
{
    struct vt_session *session = vt_session_active();
    if (session)
        vt_place_settings(session, settings);
}

void vt_record_node(uint64_t sequence, uint64_t parent)
{
    struct vt_session *session = vt_session_active();
    struct vt_seen_stack seen = {.with_python = true};
    if (!session || !session->options.python || vt_is_paused(session))
        return;
    refresh_thread(session);
    if (thread.node.sequence)
        settle_node(session, 0, 0);
    look_at_python(session, &seen);
    if (parent)
        push_node(session, sequence, parent, intern_stack(session, &seen, 0));
    else if (seen.python.frames)
        thread.node = (struct pending_node){sequence, seen.python.hash, intern_stack(session, &seen, 0)};
}

/* ---- pauses ---- */

static bool record_pause(struct vt_session *session, bool begin)
{
    refresh_thread(session);
    thread.node.sequence = 0;
    return push_event(session, &(struct vt_event){.kind = begin ? VT_EVENT_PAUSE : VT_EVENT_RESUME,
                                                  .device_index = -1,
                                                  .t_ns = vt_clock_ns(CLOCK_MONOTONIC)});
}

bool vt_pause(struct vt_session *session, bool begin)
{
    bool before = !begin;
    if (!atomic_compare_exchange_strong(&session->paused, &before, begin))
        return true;
    if (!record_pause(session, begin)) {
        atomic_store(&session->paused, !begin);
        return false;
    }
    __atomic_store_n(&session->ring.header->control.paused, begin, __ATOMIC_RELAXED);
    /* Blocks made during the pause have no stack; an inspection gives them names. */
    if (!begin)
        session->helpers->inspector->ask(session, VT_INSPECTION_NEW_OBJECT);
    return true;
}

/* A step mark of the program, in a pause. It may end the pause. */
static void count_step(struct vt_session *session)
{
    if (atomic_fetch_add(&session->step_marks, 1) + 2 == session->options.start_step)
        vt_pause(session, false);
}

/* A backward pass, in a pause. The pass before the wanted step ends the pause, so that the step is complete.
 * Marks count steps more reliably, so they win. */
static void count_pass(struct vt_session *session, int graph_task)
{
    if (vt_raise_above(&session->next_graph_task, graph_task) &&
        atomic_fetch_add(&session->passes, 1) + 2 == session->options.start_step &&
        !atomic_load(&session->step_marks))
        vt_pause(session, false);
}

/* ---- marks ---- */

/* The id of a text, 0 if it could not be stored. */
static uint32_t intern_string(struct vt_session *session, const char *text, size_t bytes)
{
    struct vt_intern_entry *entry =
        vt_intern_find(&session->strings, XXH3_64bits(text, bytes) | VT_INTERN_MARK);
    uint32_t id = entry ? atomic_load_explicit(&entry->id, memory_order_acquire) : 0;
    if (!entry)
        vt_count_dropped(&session->ring.header->counters.dropped_definitions);
    if (!entry || id)
        return id;
    struct vt_string *record = vt_reserve_definition(session, VT_RECORD_STRING, sizeof *record + bytes);
    if (!record)
        return 0;
    id = atomic_fetch_add_explicit(&session->strings.next_id, 1, memory_order_relaxed);
    record->id = id;
    memcpy(record + 1, text, bytes);
    vt_ring_commit(record);
    vt_intern_publish(&session->strings, entry, id);
    return id;
}

bool vt_record_named(enum vt_event_kind kind, const char *text)
{
    struct vt_session *session = vt_session_active();
    if (!session)
        return false;
    refresh_thread(session);
    const struct vt_observation seen = {.kind = (uint8_t)kind, .device_index = -1};
    struct vt_event event = {.kind = (uint8_t)kind, .device_index = -1};
    event.stack_id = stack_id_of(session, &seen);
    event.detail = text ? intern_string(session, text, strnlen(text, TEXT_MAXIMUM_BYTES)) : 0;
    event.t_ns = vt_clock_ns(CLOCK_MONOTONIC);
    const bool recorded = push_event(session, &event);
    if (vt_is_paused(session) && kind == VT_EVENT_MARK && text && !strcmp(text, VT_STEP_MARK))
        count_step(session);
    return recorded;
}

bool vt_recording(void)
{
    return vt_session_active() != NULL;
}

void vt_record_missed(void)
{
    if (vt_guard.frame != VT_GUARD_OWN_THREAD)
        vt_session_missed();
}

void vt_record_missed_free(void)
{
    vt_session_too_late();
}

void vt_record_backward(int graph_task)
{
    struct vt_session *session = vt_session_active();
    if (session && vt_is_paused(session))
        count_pass(session, graph_task);
    else if (session)
        session->helpers->inspector->note_backward(session, graph_task);
}

bool vt_record_ask_inspection(unsigned reason)
{
    struct vt_session *session = vt_session_active();
    if (session)
        session->helpers->inspector->ask(session, reason);
    return session != NULL;
}

/* Cuts at line ends unless a line is too long. A small ring takes only small records. */
static size_t inspection_part_bytes(const struct vt_session *session, const char *text, size_t bytes)
{
    const size_t ring_part = session->ring.slot_count * VT_SLOT_BYTES / 8;
    const size_t limit = ring_part < INSPECTION_PART_BYTES ? ring_part : INSPECTION_PART_BYTES;
    if (bytes <= limit)
        return bytes;
    const char *end = memrchr(text, '\n', limit);
    return end ? (size_t)(end + 1 - text) : limit;
}

void vt_record_inspection(unsigned reason, const char *text, size_t bytes, uint64_t started_ns)
{
    static _Atomic uint32_t inspections; /* counted across forks */
    struct vt_session *session = vt_session_active();
    uint32_t parts = 0;
    int saved_errno;
    if (!session || !vt_enter(&saved_errno))
        return;
    const uint32_t inspection_id = atomic_fetch_add(&inspections, 1) + 1;
    refresh_thread(session);
    vt_top_inspection(&session->ring.header->pool, text, bytes, vt_clock_ns(CLOCK_MONOTONIC));
    for (size_t at = 0; at < bytes || !parts; parts++)
        at += inspection_part_bytes(session, text + at, bytes - at);
    for (uint32_t part = 0; part < parts; part++) {
        size_t length = inspection_part_bytes(session, text, bytes);
        struct vt_inspection_part *record = NULL;
        for (int turn = 0; !record && turn < (reason & VT_INSPECTION_ASKED ? ASKED_TURNS : 1); turn++) {
            if (turn)
                vt_nap(1000 * 1000);
            record =
                vt_ring_reserve(&session->ring, VT_RECORD_INSPECTION, (uint32_t)(sizeof *record + length));
        }
        if (!record) {
            vt_count_dropped(&session->ring.header->counters.dropped_definitions);
            break;
        }
        record->inspection_id = inspection_id;
        record->reason = reason;
        record->part = part;
        record->parts = parts;
        record->duration_ns = vt_clock_ns(CLOCK_MONOTONIC) - started_ns;
        memcpy(record + 1, text, length);
        vt_ring_commit(record);
        text += length;
        bytes -= length;
    }
    struct vt_event event = {.kind = VT_EVENT_INSPECTION, .device_index = -1, .detail = inspection_id};
    event.t_ns = vt_clock_ns(CLOCK_MONOTONIC);
    push_event(session, &event);
    __atomic_fetch_add(&session->ring.header->control.inspections, 1, __ATOMIC_RELEASE);
    vt_leave(saved_errno);
}

int8_t vt_record_device_of(uint64_t address)
{
    struct vt_session *session = vt_session_active();
    return session ? vt_live_device(session, address) : -1;
}

bool vt_device_is_recorded(const struct vt_session *session, int device_index)
{
    return device_index < 0 || device_index >= (int)VT_MAX_DEVICES ||
           (atomic_load_explicit(&session->known_devices, memory_order_relaxed) >> device_index & 1);
}

static void record_uuid(struct vt_session *session, int device_index, const void *uuid)
{
    struct vt_device_uuid *record = vt_reserve_definition(session, VT_RECORD_DEVICE_UUID, sizeof *record);
    if (!record)
        return;
    record->device_index = (uint32_t)device_index;
    record->reserved = 0;
    memcpy(record->uuid, uuid, sizeof record->uuid);
    vt_ring_commit(record);
}

void vt_record_new_device(struct vt_session *session, int device_index, const char *name,
                          uint64_t total_bytes, const void *uuid)
{
    size_t bytes = strnlen(name, TEXT_MAXIMUM_BYTES);
    if (device_index < 0 || device_index >= (int)VT_MAX_DEVICES)
        return;
    uint64_t bit = UINT64_C(1) << device_index;
    if (atomic_fetch_or(&session->known_devices, bit) & bit)
        return;
    struct vt_device *record = vt_reserve_definition(session, VT_RECORD_DEVICE, sizeof *record + bytes);
    if (!record) { /* the device's next event tries again */
        atomic_fetch_and(&session->known_devices, ~bit);
        return;
    }
    record->device_index = (uint32_t)device_index;
    record->reserved = 0;
    record->total_bytes = total_bytes;
    memcpy(record + 1, name, bytes);
    vt_ring_commit(record);
    if (uuid)
        record_uuid(session, device_index, uuid);
}
