#include "record/record.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "clock.h"
#include "guard.h"
#include "hash.h"
#include "memory.h"
#include "record/live.h"
#include "record/pause.h"
#include "record/session.h"
#include "stacks/native.h"
#include "stacks/python.h"

enum { TEXT_MAXIMUM_BYTES = 1023, CODE_TEXT_BYTES = 2048, INSPECTION_PART_BYTES = 256 << 10 };

/* Python frames that a walk can put on the caller's stack, which may be a small one. */
enum { SHALLOW_DEPTH = 128 };
enum { ASKED_TURNS = 500 }; /* of a millisecond: a program that asks for an inspection waits for it anyway */

struct thread_cache {
    uint64_t driver_events;
    uint32_t generation; /* of the session that the rest belongs to */
    uint32_t thread_id;
    uint16_t label;
    struct vt_recent *recent; /* NULL: none was left */
    struct pending_node {
        uint64_t sequence; /* 0 = none */
        uint64_t python_hash;
        uint32_t stack_id;
    } node; /* the latest that this thread made, until it is known whether its operator allocates */
};
static __thread struct thread_cache thread __attribute__((tls_model("initial-exec")));

/* A stack as told by its hash; its frames are read when it is new to the trace. */
struct seen_stack {
    uint64_t hash;
    struct vt_python_stack python;
    bool with_python, with_native;
};

uint64_t (*_Atomic vt_autograd_sequence)(void);

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

static void count_dropped(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* The writer adds the name. */
static void define_thread(struct vt_session *session)
{
    struct vt_thread *record = vt_ring_reserve(&session->ring, VT_RECORD_THREAD, sizeof *record);
    if (!record) {
        count_dropped(&session->ring.header->counters.dropped_definitions);
        return;
    }
    record->thread_id = thread.thread_id;
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

/* The id of a code object's content; a code object that cannot be read is 0. */
static uint32_t intern_code(struct vt_session *session, const void *code)
{
    char text[CODE_TEXT_BYTES];
    struct vt_python_code_view view = {.buffer = text, .buffer_bytes = sizeof text};
    if (!vt_python_describe_code(code, &view))
        return 0;
    uint64_t hash = XXH3_64bits_withSeed(view.file, view.file_bytes, (uint64_t)(uint32_t)view.first_line);
    hash = XXH3_64bits_withSeed(view.name, view.name_bytes, hash);
    hash = XXH3_64bits_withSeed(view.line_table, view.line_table_bytes, hash) | VT_INTERN_MARK;
    struct vt_intern_entry *entry = vt_intern_find(&session->codes, hash);
    uint32_t id = entry ? atomic_load_explicit(&entry->id, memory_order_acquire) : 0;
    if (!entry)
        count_dropped(&session->ring.header->counters.dropped_definitions);
    if (!entry || id)
        return id;
    size_t bytes = sizeof(struct vt_code) + view.file_bytes + view.name_bytes + view.line_table_bytes;
    struct vt_code *record = bytes > VT_RECORD_MAXIMUM_BYTES
                                 ? NULL
                                 : vt_ring_reserve(&session->ring, VT_RECORD_CODE, (uint32_t)bytes);
    if (!record) {
        count_dropped(&session->ring.header->counters.dropped_definitions);
        return 0;
    }
    id = atomic_fetch_add_explicit(&session->codes.next_id, 1, memory_order_relaxed);
    record->code_id = id;
    record->first_line = view.first_line;
    record->python_minor = view.python_minor;
    record->file_bytes = (uint32_t)view.file_bytes;
    record->name_bytes = (uint32_t)view.name_bytes;
    record->line_table_bytes = (uint32_t)view.line_table_bytes;
    char *body = (char *)(record + 1);
    memcpy(body, view.file, view.file_bytes);
    memcpy(body + view.file_bytes, view.name, view.name_bytes);
    memcpy(body + view.file_bytes + view.name_bytes, view.line_table, view.line_table_bytes);
    vt_ring_commit(record);
    atomic_store_explicit(&entry->id, id, memory_order_release);
    return id;
}

static bool write_stack(struct vt_session *session, const struct seen_stack *seen,
                        struct vt_raw_python_frame *frames, size_t capacity, uint32_t id, uint16_t function)
{
    uint64_t addresses[VT_NATIVE_DEPTH];
    struct vt_python_stack python = {0};
    size_t native_frames = 0;
    bool native_truncated = false;
    if (seen->with_python && session->options.python)
        vt_python_walk(frames, capacity, &python);
    if (seen->with_native)
        native_frames = vt_native_walk(addresses, python.entry_frame, &native_truncated);
    for (size_t i = python.frames; i-- > 0;)
        if (frames[i].self_address) {
            vt_inspector.note_self(session, frames[i].self_address);
            break;
        }
    /* Each code's address in the frames is replaced by its id: a second list would need the caller's stack.
     */
    const void *code_before = NULL;
    uintptr_t code_id = 0;
    for (size_t i = 0; i < python.frames; i++) {
        if (frames[i].code != code_before)
            code_id = intern_code(session, code_before = frames[i].code);
        frames[i].code = (const void *)code_id;
    }
    size_t bytes = sizeof(struct vt_stack) + native_frames * sizeof(uint64_t) +
                   python.frames * sizeof(struct vt_python_frame);
    struct vt_stack *record = vt_ring_reserve(&session->ring, VT_RECORD_STACK, (uint32_t)bytes);
    if (!record)
        return false;
    record->stack_id = id;
    record->unused = 0;
    record->function = function;
    record->label = thread.label;
    record->native_frames = (uint16_t)native_frames;
    record->python_frames = (uint16_t)python.frames;
    record->flags = (native_truncated ? VT_STACK_NATIVE_TRUNCATED : 0u) |
                    (python.truncated ? VT_STACK_PYTHON_TRUNCATED : 0u) |
                    (python.unreadable ? VT_STACK_PYTHON_UNREADABLE : 0u);
    uint64_t *native = (uint64_t *)(record + 1);
    memcpy(native, addresses, native_frames * sizeof *native);
    struct vt_python_frame *stored = (struct vt_python_frame *)(native + native_frames);
    for (size_t i = 0; i < python.frames; i++)
        stored[i] = (struct vt_python_frame){.code_id = (uint32_t)(uintptr_t)frames[i].code,
                                             .instruction_offset = frames[i].instruction_offset,
                                             .self_address = frames[i].self_address};
    vt_ring_commit(record);
    return true;
}

__attribute__((noinline)) static bool
write_shallow_stack(struct vt_session *session, const struct seen_stack *seen, uint32_t id, uint16_t function)
{
    struct vt_raw_python_frame frames[SHALLOW_DEPTH];
    return write_stack(session, seen, frames, SHALLOW_DEPTH, id, function);
}

static bool make_deep_buffers(struct vt_session *session)
{
    struct vt_raw_python_frame *none = NULL;
    if (atomic_load_explicit(&session->deep_buffers, memory_order_acquire))
        return true;
    void *memory = vt_memory_make(VT_DEEP_BYTES);
    if (!memory)
        return false;
    if (!atomic_compare_exchange_strong(&session->deep_buffers, &none, memory))
        vt_memory_free(memory, VT_DEEP_BYTES); /* another thread was first */
    return true;
}

/* Returns the index of a deep buffer, or -1 if all are taken: then the stack is recorded as truncated. */
static int take_deep_buffer(struct vt_session *session)
{
    if (!make_deep_buffers(session))
        return -1;
    uint32_t free_deep = atomic_load_explicit(&session->free_deep, memory_order_relaxed);
    while (free_deep) {
        int buffer = __builtin_ctz(free_deep);
        if (atomic_compare_exchange_weak_explicit(&session->free_deep, &free_deep,
                                                  free_deep & (free_deep - 1), memory_order_acquire,
                                                  memory_order_relaxed))
            return buffer;
    }
    return -1;
}

/* Cold, and large on the stack: kept out of the path of a known stack. */
__attribute__((noinline)) static uint32_t define_stack(struct vt_session *session,
                                                       struct vt_intern_entry *entry,
                                                       const struct seen_stack *seen, uint16_t function)
{
    uint32_t id = atomic_fetch_add_explicit(&session->stacks.next_id, 1, memory_order_relaxed);
    int buffer = seen->python.frames > SHALLOW_DEPTH ? take_deep_buffer(session) : -1;
    bool written = buffer < 0
                       ? write_shallow_stack(session, seen, id, function)
                       : write_stack(session, seen,
                                     atomic_load_explicit(&session->deep_buffers, memory_order_relaxed) +
                                         (size_t)buffer * VT_PYTHON_DEPTH,
                                     VT_PYTHON_DEPTH, id, function);
    if (buffer >= 0)
        atomic_fetch_or_explicit(&session->free_deep, UINT32_C(1) << buffer, memory_order_release);
    if (!written) {
        count_dropped(&session->ring.header->counters.dropped_definitions);
        return 0;
    }
    atomic_store_explicit(&entry->id, id, memory_order_release);
    return id;
}

static bool push(struct vt_session *session, const struct vt_event *filled)
{
    struct vt_event *event = vt_ring_reserve(&session->ring, VT_RECORD_EVENT, sizeof *event);
    if (!event) {
        count_dropped(&session->ring.header->counters.dropped);
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
    push(session, &(struct vt_event){.kind = VT_EVENT_NODE,
                                     .device_index = -1,
                                     .sequence = sequence,
                                     .detail = parent,
                                     .stack_id = stack_id,
                                     .t_ns = vt_clock_ns(CLOCK_MONOTONIC)});
}

/* An allocation from the same frames says all that the node would. From other frames, it belongs to a later
 * operator that made no node. */
static void settle_node(struct vt_session *session, uint64_t sequence, uint64_t python_hash)
{
    if (thread.node.sequence != sequence || thread.node.python_hash != python_hash)
        push_node(session, thread.node.sequence, 0, thread.node.stack_id);
    thread.node.sequence = 0;
}

static uint32_t intern_stack(struct vt_session *session, struct seen_stack *seen, uint16_t function)
{
    seen->hash =
        vt_hash_spread(vt_hash_add(seen->hash, (uint64_t)function << 16 | thread.label)) | VT_INTERN_MARK;
    struct vt_intern_entry *entry = vt_intern_find(&session->stacks, seen->hash);
    uint32_t id = entry ? atomic_load_explicit(&entry->id, memory_order_acquire) : 0;
    if (!entry)
        count_dropped(&session->ring.header->counters.without_stack);
    else if (__builtin_expect(id == 0, 0))
        id = define_stack(session, entry, seen, function);
    return id;
}

static void look_at_python(struct vt_session *session, struct seen_stack *seen)
{
    if (session->options.python)
        vt_python_hash(thread.recent ? &thread.recent->frames : NULL, VT_PYTHON_DEPTH, &seen->python);
    seen->hash = seen->python.hash;
}

static uint32_t stack_id_of(struct vt_session *session, const struct vt_observation *observed)
{
    const bool with_stack = observed->with_stack && !vt_is_paused(session);
    struct seen_stack seen = {.with_python = with_stack, .with_native = with_stack};
    if (with_stack) {
        look_at_python(session, &seen);
        if (thread.node.sequence)
            settle_node(session, observed->sequence, seen.python.hash);
        seen.hash = vt_hash_add(
            seen.hash, vt_native_hash(thread.recent ? &thread.recent->walks : NULL, seen.python.entry_frame));
    }
    return intern_stack(session, &seen, observed->function);
}

/* It runs with the GIL, so a thread without Python frees for itself. Once the interpreter ends, its memory
 * may be gone. */
static bool frees_for_collector(const struct vt_observation *seen)
{
    const int *collecting = atomic_load_explicit(&vt_collecting, memory_order_acquire);
    const struct vt_python *interpreter;
    return seen->kind == VT_EVENT_FREE && collecting && !vt_python_is_finalizing() &&
           __atomic_load_n(collecting, __ATOMIC_RELAXED) && vt_python_current_thread(&interpreter);
}

void vt_record(const struct vt_observation *seen)
{
    struct vt_session *session = vt_session_get();
    if (!session) {
        vt_session_missed();
        return;
    }
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
        !(seen->kind == VT_EVENT_OOM ? vt_live_refusal(session, &event)
                                     : vt_live_block(session, &event, seen->handle, seen->part_of)))
        return;
    event.stack_id = stack_id_of(session, seen);
    if (seen->layer == VT_LAYER_FRAMEWORK) {
        if (frees_for_collector(seen))
            event.flags |= VT_FLAG_COLLECTOR;
        if (vt_live_framework(session, &event))
            vt_inspector.note_peak(session, event.stack_id);
    } else if (seen->layer != VT_LAYER_NONE) {
        vt_live_driver(session, &event);
        thread.driver_events += seen->layer == VT_LAYER_DRIVER;
    }
    /* Last, close to taking a slot: events are ordered by their slots. */
    event.t_ns = vt_clock_ns(CLOCK_MONOTONIC);
    push(session, &event);
}

void vt_record_node(uint64_t sequence, uint64_t parent)
{
    struct vt_session *session = vt_session_active();
    struct seen_stack seen = {.with_python = true};
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

/* The id of a text, 0 if it could not be stored. */
static uint32_t intern_string(struct vt_session *session, const char *text, size_t bytes)
{
    struct vt_intern_entry *entry =
        vt_intern_find(&session->strings, XXH3_64bits(text, bytes) | VT_INTERN_MARK);
    uint32_t id = entry ? atomic_load_explicit(&entry->id, memory_order_acquire) : 0;
    if (!entry)
        count_dropped(&session->ring.header->counters.dropped_definitions);
    if (!entry || id)
        return id;
    struct vt_string *record =
        vt_ring_reserve(&session->ring, VT_RECORD_STRING, (uint32_t)(sizeof *record + bytes));
    if (!record) {
        count_dropped(&session->ring.header->counters.dropped_definitions);
        return 0;
    }
    id = atomic_fetch_add_explicit(&session->strings.next_id, 1, memory_order_relaxed);
    record->id = id;
    memcpy(record + 1, text, bytes);
    vt_ring_commit(record);
    atomic_store_explicit(&entry->id, id, memory_order_release);
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
    const bool recorded = push(session, &event);
    if (vt_is_paused(session) && kind == VT_EVENT_MARK && text && !strcmp(text, VT_STEP_MARK))
        vt_pause_note_step(session);
    return recorded;
}

bool vt_record_pause(struct vt_session *session, bool begin)
{
    refresh_thread(session);
    thread.node.sequence = 0;
    return push(session, &(struct vt_event){.kind = begin ? VT_EVENT_PAUSE : VT_EVENT_RESUME,
                                            .device_index = -1,
                                            .t_ns = vt_clock_ns(CLOCK_MONOTONIC)});
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
        vt_pause_note_pass(session, graph_task);
    else if (session)
        vt_inspector.note_backward(session, graph_task);
}

bool vt_record_ask_inspection(unsigned reason)
{
    struct vt_session *session = vt_session_active();
    if (session)
        vt_inspector.ask(session, reason);
    return session != NULL;
}

/* Whole lines, if they are not too long. A small ring takes small records. */
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
    static _Atomic uint32_t inspections; /* of the process and those that it was forked from */
    struct vt_session *session = vt_session_active();
    uint32_t parts = 0;
    int saved_errno;
    if (!session || !vt_enter(&saved_errno))
        return;
    const uint32_t inspection_id = atomic_fetch_add(&inspections, 1) + 1;
    refresh_thread(session);
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
            count_dropped(&session->ring.header->counters.dropped_definitions);
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
    push(session, &event);
    __atomic_fetch_add(&session->ring.header->control.inspections, 1, __ATOMIC_RELEASE);
    vt_leave(saved_errno);
}

int8_t vt_record_device_of(uint64_t address)
{
    struct vt_session *session = vt_session_active();
    return session ? vt_live_device(session, address) : -1;
}

bool vt_record_device_known(int device_index)
{
    struct vt_session *session = vt_session_get();
    return !session || device_index < 0 || device_index >= (int)VT_MAX_DEVICES ||
           (atomic_load_explicit(&session->known_devices, memory_order_relaxed) >> device_index & 1);
}

static void record_uuid(struct vt_session *session, int device_index, const void *uuid)
{
    struct vt_device_uuid *record = vt_ring_reserve(&session->ring, VT_RECORD_DEVICE_UUID, sizeof *record);
    if (!record) {
        count_dropped(&session->ring.header->counters.dropped_definitions);
        return;
    }
    record->device_index = (uint32_t)device_index;
    record->reserved = 0;
    memcpy(record->uuid, uuid, sizeof record->uuid);
    vt_ring_commit(record);
}

void vt_record_device(int device_index, const char *name, uint64_t total_bytes, const void *uuid)
{
    struct vt_session *session = vt_session_get();
    size_t bytes = strnlen(name, TEXT_MAXIMUM_BYTES);
    if (!session || device_index < 0 || device_index >= (int)VT_MAX_DEVICES)
        return;
    uint64_t bit = UINT64_C(1) << device_index;
    if (atomic_fetch_or(&session->known_devices, bit) & bit)
        return;
    struct vt_device *record =
        vt_ring_reserve(&session->ring, VT_RECORD_DEVICE, (uint32_t)(sizeof *record + bytes));
    if (!record) { /* the next event of this device tries again */
        count_dropped(&session->ring.header->counters.dropped_definitions);
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
