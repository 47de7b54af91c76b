#include "record.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "live.h"
#include "python_layout.h"
#include "session.h"
#include "stack_native.h"
#include "stack_python.h"

enum { PYTHON_DEPTH = 1024, TEXT_MAXIMUM_BYTES = 1023, CODE_TEXT_BYTES = 8192 };

struct thread_cache {
    uint64_t driver_events;
    uint32_t generation; /* of the session that the rest belongs to */
    uint32_t thread_id;
    uint16_t label;
};
static __thread struct thread_cache thread __attribute__((tls_model("initial-exec")));

/* One stack as captured, before it is known to the trace. */
struct captured_stack {
    uint64_t hash;
    size_t native_frames, python_frames;
    bool native_truncated, python_truncated, python_unreadable;
    uint64_t native[VT_NATIVE_DEPTH];
    struct vt_raw_python_frame python[PYTHON_DEPTH];
};

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

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

static void refresh_thread(const struct vt_session *session)
{
    if (thread.generation == session->generation)
        return;
    thread.generation = session->generation;
    thread.thread_id = (uint32_t)syscall(SYS_gettid);
}

/* Where the interpreter's evaluation function lies, once Python is there. */
static void find_interpreter(void)
{
    static _Atomic int known;
    Dl_info information;
    ElfW(Sym) *symbol = NULL;
    if (atomic_load_explicit(&known, memory_order_relaxed) || !vt_python_loaded())
        return;
    atomic_store(&known, 1);
    void *evaluate = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
    if (evaluate && dladdr1(evaluate, &information, (void **)&symbol, RTLD_DL_SYMENT) && symbol)
        vt_native_set_interpreter(evaluate, symbol->st_size);
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
    hash = XXH3_64bits_withSeed(view.line_table, view.line_table_bytes, hash) | 1;
    struct vt_intern_entry *entry = vt_intern_find(&session->codes, hash);
    uint32_t id = entry ? atomic_load_explicit(&entry->id, memory_order_acquire) : 0;
    if (!entry || id)
        return id;
    size_t bytes = sizeof(struct vt_code) + view.file_bytes + view.name_bytes + view.line_table_bytes;
    struct vt_code *record = bytes > VT_RECORD_MAXIMUM_BYTES
                                 ? NULL
                                 : vt_ring_reserve(&session->ring, VT_RECORD_CODE, (uint32_t)bytes);
    if (!record) {
        count_dropped(&session->ring.header->dropped_definitions);
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

static bool write_stack(struct vt_session *session, const struct captured_stack *stack, uint32_t id,
                        uint16_t function)
{
    uint32_t code_ids[PYTHON_DEPTH];
    for (size_t i = 0; i < stack->python_frames; i++)
        code_ids[i] = i && stack->python[i].code == stack->python[i - 1].code
                          ? code_ids[i - 1]
                          : intern_code(session, stack->python[i].code);
    size_t bytes = sizeof(struct vt_stack) + stack->native_frames * sizeof(uint64_t) +
                   stack->python_frames * sizeof(struct vt_python_frame);
    struct vt_stack *record = vt_ring_reserve(&session->ring, VT_RECORD_STACK, (uint32_t)bytes);
    if (!record)
        return false;
    record->stack_id = id;
    record->thread_id = thread.thread_id;
    record->function = function;
    record->label = thread.label;
    record->native_frames = (uint16_t)stack->native_frames;
    record->python_frames = (uint16_t)stack->python_frames;
    record->flags = (stack->native_truncated ? VT_STACK_NATIVE_TRUNCATED : 0u) |
                    (stack->python_truncated ? VT_STACK_PYTHON_TRUNCATED : 0u) |
                    (stack->python_unreadable ? VT_STACK_PYTHON_UNREADABLE : 0u);
    uint64_t *native = (uint64_t *)(record + 1);
    memcpy(native, stack->native, stack->native_frames * sizeof *native);
    struct vt_python_frame *python = (struct vt_python_frame *)(native + stack->native_frames);
    for (size_t i = 0; i < stack->python_frames; i++)
        python[i] = (struct vt_python_frame){.code_id = code_ids[i],
                                             .instruction_offset = stack->python[i].instruction_offset,
                                             .self_address = stack->python[i].self_address};
    vt_ring_commit(record);
    return true;
}

/* Cold, and large on the stack: kept out of the path of a stack that is known already. */
__attribute__((noinline)) static uint32_t define_stack(struct vt_session *session, struct vt_intern_entry *entry,
                                                       const struct captured_stack *stack, uint16_t function)
{
    uint32_t id = atomic_fetch_add_explicit(&session->stacks.next_id, 1, memory_order_relaxed);
    if (!write_stack(session, stack, id, function)) {
        count_dropped(&session->ring.header->dropped_definitions);
        return 0;
    }
    atomic_store_explicit(&entry->id, id, memory_order_release);
    return id;
}

static uint32_t stack_id_of(struct vt_session *session, const struct vt_observation *seen)
{
    struct captured_stack stack;
    stack.hash = (uint64_t)thread.thread_id << 32 | (uint64_t)seen->function << 16 | thread.label;
    stack.native_frames = stack.python_frames = 0;
    stack.native_truncated = stack.python_truncated = stack.python_unreadable = false;
    if (seen->with_stack) {
        if (session->options.python) {
            stack.python_frames = vt_python_walk(stack.python, PYTHON_DEPTH, &stack.hash, &stack.python_truncated,
                                                 &stack.python_unreadable);
            find_interpreter();
        }
        stack.native_frames = vt_native_walk(stack.native, stack.python_frames > 0, &stack.hash, &stack.native_truncated);
    }
    stack.hash = (stack.hash ^ stack.hash >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    stack.hash = (stack.hash ^ stack.hash >> 32) | 1;
    struct vt_intern_entry *entry = vt_intern_find(&session->stacks, stack.hash);
    if (!entry) {
        count_dropped(&session->ring.header->dropped_definitions);
        return 0;
    }
    uint32_t id = atomic_load_explicit(&entry->id, memory_order_acquire);
    return __builtin_expect(id != 0, 1) ? id : define_stack(session, entry, &stack, seen->function);
}

static bool push(struct vt_session *session, const struct vt_event *filled)
{
    struct vt_event *event = vt_ring_reserve(&session->ring, VT_RECORD_EVENT, sizeof *event);
    if (!event) {
        count_dropped(&session->ring.header->dropped);
        return false;
    }
    memcpy((char *)event + sizeof event->head, (const char *)filled + sizeof filled->head,
           sizeof *event - sizeof event->head);
    vt_ring_commit(event);
    return true;
}

void vt_record(const struct vt_observation *seen)
{
    struct vt_session *session = vt_session_get();
    if (!session)
        return;
    refresh_thread(session);
    struct vt_event event = {.t_ns = now_ns(),
                             .address = seen->address,
                             .bytes = seen->bytes,
                             .detail = seen->detail,
                             .total_bytes = seen->total_bytes,
                             .sequence = seen->sequence,
                             .kind = seen->kind,
                             .layer = seen->layer,
                             .device_index = seen->device_index,
                             .flags = seen->flags};
    event.stack_id = stack_id_of(session, seen);
    if (seen->layer == VT_LAYER_FRAMEWORK) {
        vt_live_framework(session, &event);
    } else if (seen->layer != VT_LAYER_NONE) {
        vt_live_driver(session, &event);
        thread.driver_events += seen->layer == VT_LAYER_DRIVER;
    }
    push(session, &event);
}

/* The id of a text, 0 if it could not be told to the trace. */
static uint32_t intern_string(struct vt_session *session, const char *text, size_t bytes)
{
    struct vt_intern_entry *entry = vt_intern_find(&session->strings, XXH3_64bits(text, bytes) | 1);
    uint32_t id = entry ? atomic_load_explicit(&entry->id, memory_order_acquire) : 0;
    if (!entry || id)
        return id;
    struct vt_string *record =
        vt_ring_reserve(&session->ring, VT_RECORD_STRING, (uint32_t)(sizeof *record + bytes));
    if (!record) {
        count_dropped(&session->ring.header->dropped_definitions);
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
    struct vt_event event = {.t_ns = now_ns(), .kind = (uint8_t)kind, .device_index = -1};
    event.stack_id = stack_id_of(session, &seen);
    event.detail = text ? intern_string(session, text, strnlen(text, TEXT_MAXIMUM_BYTES)) : 0;
    return push(session, &event);
}

bool vt_record_device_known(int device_index)
{
    struct vt_session *session = vt_session_get();
    return !session || device_index < 0 || device_index >= (int)VT_MAX_DEVICES ||
           (atomic_load_explicit(&session->known_devices, memory_order_relaxed) >> device_index & 1);
}

void vt_record_device(int device_index, const char *name, uint64_t total_bytes)
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
    if (!record) {
        count_dropped(&session->ring.header->dropped_definitions);
        return;
    }
    record->device_index = (uint32_t)device_index;
    record->reserved = 0;
    record->total_bytes = total_bytes;
    memcpy(record + 1, name, bytes);
    vt_ring_commit(record);
}
