#include "record/stack_records.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "memory.h"
#include "stacks/python_code.h"

enum { CODE_TEXT_BYTES = 2048 };

/* How many Python frames a walk may put on the caller's stack, which may be small. */
enum { SHALLOW_DEPTH = 128 };

/* The id of a code object's contents; 0 if it cannot be read. */
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
        vt_count_dropped(&session->ring.header->counters.dropped_definitions);
    if (!entry || id)
        return id;
    size_t bytes = sizeof(struct vt_code) + view.file_bytes + view.name_bytes + view.line_table_bytes;
    struct vt_code *record = vt_reserve_definition(session, VT_RECORD_CODE, bytes);
    if (!record)
        return 0;
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
    vt_intern_publish(&session->codes, entry, id);
    return id;
}

static bool write_stack(struct vt_session *session, const struct vt_seen_stack *seen,
                        struct vt_raw_python_frame *frames, size_t capacity, uint32_t id)
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
            session->helpers->inspector->note_self(session, frames[i].self_address);
            break;
        }
    /* Each code address in the frames is replaced by the code's id: a second array would take more of the
     * caller's stack. */
    const void *code_before = NULL;
    uintptr_t code_id = 0;
    for (size_t i = 0; i < python.frames; i++) {
        if (frames[i].code != code_before)
            code_id = intern_code(session, code_before = frames[i].code);
        frames[i].code = (const void *)code_id;
    }
    size_t bytes = sizeof(struct vt_stack) + native_frames * sizeof(uint64_t) +
                   python.frames * sizeof(struct vt_python_frame);
    struct vt_stack *record = vt_reserve_definition(session, VT_RECORD_STACK, bytes);
    if (!record)
        return false;
    record->stack_id = id;
    record->place_id = seen->place_id;
    record->function = seen->function;
    record->label = seen->label;
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

__attribute__((noinline)) static bool write_shallow_stack(struct vt_session *session,
                                                          const struct vt_seen_stack *seen, uint32_t id)
{
    struct vt_raw_python_frame frames[SHALLOW_DEPTH];
    return write_stack(session, seen, frames, SHALLOW_DEPTH, id);
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
        vt_memory_free(memory, VT_DEEP_BYTES);
    return true;
}

/* Returns the index of a free deep buffer, or -1 if there is none: then the stack is recorded truncated. */
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

uint32_t vt_record_stack(struct vt_session *session, struct vt_intern_entry *entry,
                         const struct vt_seen_stack *seen)
{
    uint32_t id = atomic_fetch_add_explicit(&session->stacks.next_id, 1, memory_order_relaxed);
    int buffer = seen->python.frames > SHALLOW_DEPTH ? take_deep_buffer(session) : -1;
    bool written = buffer < 0
                       ? write_shallow_stack(session, seen, id)
                       : write_stack(session, seen,
                                     atomic_load_explicit(&session->deep_buffers, memory_order_relaxed) +
                                         (size_t)buffer * VT_PYTHON_DEPTH,
                                     VT_PYTHON_DEPTH, id);
    if (buffer >= 0)
        atomic_fetch_or_explicit(&session->free_deep, UINT32_C(1) << buffer, memory_order_release);
    if (!written)
        return 0;
    vt_intern_publish(&session->stacks, entry, id);
    return id;
}
