/* PyTorch. Its caching allocators call c10::reportMemoryUsageToProfiler through the PLT for every block that
 * they hand out or take back, and c10::reportOutOfMemoryToProfiler when they give up: a preloaded definition
 * sees them all. This code runs inside the allocator's lock, mostly without the GIL: no locks, no Python
 * here.
 *
 * c10::Device is passed in one register: the type in the low byte, the index in the next. */
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "guard.h"
#include "loader/elf_walk.h"
#include "hooks/observe.h"
#include "hooks/torch_settings.h"

/* ---- PyTorch's names ---- */

/* Exported by us: X(symbol). The signatures changed in 2.1: totals are size_t since then (m), int64_t before
 * (l). */
#define USAGE_SYMBOLS(X)                                                                                     \
    X(_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE)                                                 \
    X(_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE)
#define OOM_SYMBOLS(X)                                                                                       \
    X(_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE)                                                   \
    X(_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE)
#define NEXT_SEQUENCE_SYMBOL _ZN2at15sequence_number17get_and_incrementEv

/* Called by us: X(field of `torch`, result, parameters, symbol in LIBRARY). */
#define LIBRARY "libtorch_cpu.so"
#define AUTOGRAD_FUNCTIONS(X)                                                                                \
    X(peek_sequence, uint64_t, (void), "_ZN2at15sequence_number4peekEv")                                     \
    X(current_node, struct node_pointer, (void), "_ZN5torch8autograd16get_current_nodeEv")                   \
    X(current_graph_task, int, (void), "_ZN5torch8autograd25get_current_graph_task_idEv")                    \
    X(current_thread, uint64_t, (void), "_ZN2at14RecordFunction15currentThreadIdEv")

/* The calling thread's stream of a device, in CUDA_LIBRARY. The result is a c10::cuda::CUDAStream, which is a
 * c10::Stream and nothing else: a device and an id, in two registers. The id is 0 for the default stream;
 * streams that PyTorch keeps in its pools have the same id whenever they are handed out again. */
#define CUDA_LIBRARY "libc10_cuda.so"
#define CURRENT_STREAM "_ZN3c104cuda20getCurrentCUDAStreamEa"
struct stream {
    uint16_t device;
    uint64_t id;
};

/* The result of get_current_node: a shared_ptr<Node>, or in newer releases an intrusive_ptr<Node>, which is
 * only the first word. C++ returns what has a destructor in memory of the caller's. C does so with structures
 * that are too large for registers, and passes the address in the same register. */
struct node_pointer {
    char *node;
    char *control; /* libstdc++: vtable, then int uses, int weak uses */
    char *never_set;
};

/* The two kinds, told apart by a function that takes one of them as an argument. If neither is found, nodes
 * are not read. */
struct node_layout {
    const char *proof; /* symbol in LIBRARY */
    size_t sequence_offset, thread_offset;
    bool counts_itself; /* the use count is in the node, else in the control block; at USES_OFFSET in both */
};
enum { USES_OFFSET = 8 };
static const struct node_layout node_layouts[] = {
    {"_ZNK5torch8autograd13SavedVariable6unpackESt10shared_ptrINS0_4NodeEE", 24, 48, false},
    {"_ZNK5torch8autograd13SavedVariable6unpackEN3c1013intrusive_ptrINS0_4NodeENS2_6detail34intrusive_"
     "target_default_null_typeIS4_EEEE",
     16, 40, true},
};

enum { DEVICE_TYPE_CUDA = 1 };
#define ACCUMULATES_GRADIENT UINT64_MAX /* the number of all these nodes, which so run first */

/* ---- finding its functions ---- */

typedef void usage_function(void *address, int64_t bytes, uint64_t allocated, uint64_t reserved,
                            uint16_t device);
typedef void oom_function(int64_t bytes, uint64_t allocated, uint64_t reserved, uint16_t device);

/* `usage` and `oom` are what the allocator would call without us. The autograd functions are looked up in
 * the library of that name, without ever loading it. Until all are found, each event checks whether another
 * library was loaded, and then searches again. */
static struct {
    _Atomic(usage_function *) usage;
    _Atomic(oom_function *) oom;
#define X(field, result, parameters, symbol) _Atomic(result(*) parameters) field;
    AUTOGRAD_FUNCTIONS(X)
#undef X
    _Atomic(uint64_t (*)(void)) next_sequence;
    _Atomic(struct stream (*)(int8_t device_index)) current_stream;
    _Atomic(const struct node_layout *) node_layout;
    _Atomic uint64_t loads; /* number of loaded libraries at the latest search, plus one; 0 = no search yet */
    _Atomic int complete;
} torch;

static bool is_library(const struct vt_elf *object, void *unused)
{
    (void)unused;
    return strcmp(object->soname, LIBRARY) == 0;
}

/* Not with dlopen: its lock may be held by a thread that waits for the allocator's lock, which our caller
 * holds. */
static void *find_function(const char *name)
{
    return vt_elf_symbol_in(LIBRARY, name);
}

static void look_up_profiler(void)
{
    void *usage = NULL, *oom = NULL;
#define X(symbol) usage = usage ? usage : vt_elf_next_definition(#symbol);
    USAGE_SYMBOLS(X)
#undef X
#define X(symbol) oom = oom ? oom : vt_elf_next_definition(#symbol);
    OOM_SYMBOLS(X)
#undef X
    atomic_store(&torch.oom, (oom_function *)oom);
    atomic_store(&torch.usage, (usage_function *)usage); /* last: non-NULL means that the search is done */
}

static void look_up_autograd(void)
{
    for (size_t i = 0; i < sizeof node_layouts / sizeof *node_layouts; i++)
        if (find_function(node_layouts[i].proof))
            atomic_store(&torch.node_layout, &node_layouts[i]);
#define X(field, result, parameters, symbol)                                                                 \
    atomic_store(&torch.field, (result(*) parameters)find_function(symbol));
    AUTOGRAD_FUNCTIONS(X)
#undef X
}

static uint64_t autograd_sequence(void);

/* A function missing in the loaded library stays missing. */
static void look_up(void)
{
    if (atomic_load_explicit(&torch.complete, memory_order_acquire))
        return;
    uint64_t loads = vt_elf_loads_seen() + 1;
    if (atomic_load_explicit(&torch.loads, memory_order_relaxed) == loads)
        return;
    if (!atomic_load(&torch.usage))
        look_up_profiler();
    if (!atomic_load(&torch.current_stream))
        atomic_store(&torch.current_stream,
                     (struct stream(*)(int8_t))vt_elf_symbol_in(CUDA_LIBRARY, CURRENT_STREAM));
    bool has_autograd = vt_elf_find(is_library, NULL);
    if (has_autograd)
        look_up_autograd();
    if (has_autograd && atomic_load(&torch.usage)) {
        atomic_store_explicit(&torch.complete, 1, memory_order_release);
        atomic_store_explicit(&vt_autograd_sequence, autograd_sequence, memory_order_release);
    }
    atomic_store_explicit(&torch.loads, loads, memory_order_relaxed);
}

/* ---- nodes ---- */

/* Each thread numbers its nodes from 0, so PyTorch's number of the thread is part of the sequence. */
static uint64_t sequence_of(uint64_t number, uint64_t torch_thread, bool backward)
{
    if (number == ACCUMULATES_GRADIENT)
        return VT_SEQUENCE_NO_NUMBER;
    return torch_thread << VT_SEQUENCE_THREAD_SHIFT | (number * 2 + 2 + backward);
}

static uint64_t own_torch_thread(void)
{
    static __thread uint64_t known;
    uint64_t (*current_thread)(void) = atomic_load_explicit(&torch.current_thread, memory_order_acquire);
    if (!known && current_thread)
        known = current_thread();
    return known;
}

static uint64_t current_node_sequence(const struct node_layout *layout,
                                      struct node_pointer (*current_node)(void))
{
    const struct node_pointer current = current_node();
    uint64_t number, maker = 0;
    const char *counter = layout->counts_itself ? current.node : current.control;
    if (!current.node || !counter)
        return VT_SEQUENCE_NO_NUMBER;
    memcpy(&number, current.node + layout->sequence_offset, sizeof number);
    if (atomic_load_explicit(&torch.current_thread, memory_order_acquire))
        memcpy(&maker, current.node + layout->thread_offset, sizeof maker);
    /* Drop the reference. The engine's task and its guard hold two more, so this is never the last
     * reference, nor, for a node with a Python object, the second to last. */
    __atomic_fetch_sub((int *)(uintptr_t)(counter + USES_OFFSET), 1, __ATOMIC_ACQ_REL);
    return sequence_of(number, maker, true);
}

/* The sequence of the node running on this thread; 0 outside of a backward pass. */
static uint64_t backward_sequence(void)
{
    int (*graph_task)(void) = atomic_load_explicit(&torch.current_graph_task, memory_order_acquire);
    struct node_pointer (*current_node)(void) =
        atomic_load_explicit(&torch.current_node, memory_order_acquire);
    const struct node_layout *layout = atomic_load_explicit(&torch.node_layout, memory_order_acquire);
    int task = graph_task ? graph_task() : -1;
    if (task == -1)
        return 0;
    vt_record_backward(task);
    return layout && current_node ? current_node_sequence(layout, current_node) : VT_SEQUENCE_NO_NUMBER;
}

/* The autograd node of this event (format.h, vt_event.sequence): in a backward pass the running one, else
 * the one that the forward operator made just before allocating its output. */
static uint64_t autograd_sequence(void)
{
    uint64_t backward = backward_sequence();
    if (backward)
        return backward;
    uint64_t (*peek)(void) = atomic_load_explicit(&torch.peek_sequence, memory_order_acquire);
    uint64_t next = peek ? peek() : 0;
    return next ? sequence_of(next - 1, own_torch_thread(), false) : 0;
}

/* ---- new nodes ---- */

static uint64_t count_alone(void)
{
    static __thread uint64_t next;
    return next++;
}

/* Our caller was linked against a definition, so one exists, whatever its library's name. If there were
 * none, counting here would give the same numbers. */
__attribute__((noinline)) static uint64_t (*find_next_sequence(void))(void)
{
    uint64_t (*none)(void) = NULL;
    uint64_t (*found)(void) = (uint64_t(*)(void))vt_elf_next_definition(VT_SYMBOL_NAME(NEXT_SEQUENCE_SYMBOL));
    if (!found)
        found = count_alone;
    return atomic_compare_exchange_strong(&torch.next_sequence, &none, found) ? found : none;
}

static void node_made(uint64_t number)
{
    int saved_errno;
    if (!vt_enter(&saved_errno))
        return;
    look_up();
    if (atomic_load_explicit(&torch.complete, memory_order_acquire))
        vt_record_node(sequence_of(number, own_torch_thread(), false), backward_sequence());
    vt_leave(saved_errno);
}

/* at::sequence_number::get_and_increment(): every node takes its number here, except those that accumulate
 * gradients. */
__attribute__((visibility("default"))) uint64_t NEXT_SEQUENCE_SYMBOL(void);
uint64_t NEXT_SEQUENCE_SYMBOL(void)
{
    uint64_t (*next)(void) = atomic_load_explicit(&torch.next_sequence, memory_order_acquire);
    uint64_t number = __builtin_expect(next != NULL, 1) ? next() : find_next_sequence()();
    if (vt_recording())
        node_made(number);
    return number;
}

/* ---- memory ---- */

static bool is_cuda(uint16_t device)
{
    return (device & 0xff) == DEVICE_TYPE_CUDA;
}

/* PyTorch's allocator has just asked the same for this block, so nothing is initialized here. */
static void see_stream(struct vt_observation *seen)
{
    struct stream (*current)(int8_t) = atomic_load_explicit(&torch.current_stream, memory_order_acquire);
    seen->on_stream = current != NULL;
    if (current)
        seen->stream = current(seen->device_index).id;
    if (atomic_load_explicit(&vt_torch_settings_new, memory_order_relaxed) && vt_recording())
        vt_torch_settings_record();
}

static void report_usage(void *address, int64_t bytes, uint64_t allocated, uint64_t reserved, uint16_t device)
{
    int saved_errno;
    const bool made = bytes >= 0;
    /* A free starts no trace: a forked worker may only be freeing what it inherited. */
    const bool wanted = is_cuda(device) && (made || vt_recording());
    if (!wanted && is_cuda(device))
        vt_record_missed_free();
    const bool searching = !atomic_load_explicit(&torch.complete, memory_order_acquire);
    if (wanted ? vt_enter_event(&saved_errno) : searching && vt_enter(&saved_errno)) {
        look_up();
        if (wanted) {
            struct vt_observation seen = {.kind = made ? VT_EVENT_ALLOC : VT_EVENT_FREE,
                                          .layer = VT_LAYER_FRAMEWORK,
                                          .device_index = (int8_t)(device >> 8),
                                          .with_stack = made,
                                          .address = (uintptr_t)address,
                                          .bytes = made ? (uint64_t)bytes : -(uint64_t)bytes,
                                          .detail = reserved,
                                          .total_bytes = allocated,
                                          .sequence = made ? autograd_sequence() : 0};
            if (made)
                see_stream(&seen);
            vt_record(&seen);
        }
        vt_leave(saved_errno);
    }
    usage_function *real = atomic_load_explicit(&torch.usage, memory_order_acquire);
    if (real)
        real(address, bytes, allocated, reserved, device);
}

static void report_oom(int64_t bytes, uint64_t allocated, uint64_t reserved, uint16_t device)
{
    int saved_errno;
    if (vt_enter(&saved_errno)) {
        look_up();
        if (is_cuda(device)) {
            struct vt_observation seen = {.kind = VT_EVENT_OOM,
                                          .layer = VT_LAYER_FRAMEWORK,
                                          .device_index = (int8_t)(device >> 8),
                                          .with_stack = true,
                                          .bytes = (uint64_t)bytes,
                                          .detail = reserved,
                                          .total_bytes = allocated,
                                          .sequence = autograd_sequence()};
            see_stream(&seen);
            vt_record(&seen);
        }
        vt_record_ask_inspection(VT_INSPECTION_OUT_OF_MEMORY);
        vt_leave(saved_errno);
    }
    oom_function *real = atomic_load_explicit(&torch.oom, memory_order_acquire);
    if (real)
        real(bytes, allocated, reserved, device);
}

/* ---- exports ---- */

#define X(symbol) extern usage_function symbol __attribute__((alias("report_usage"), visibility("default")));
USAGE_SYMBOLS(X)
#undef X
#define X(symbol) extern oom_function symbol __attribute__((alias("report_oom"), visibility("default")));
OOM_SYMBOLS(X)
#undef X
