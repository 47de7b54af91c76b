/* PyTorch's seam. Its caching allocators call c10::reportMemoryUsageToProfiler through the PLT for every
 * block they hand out or take back, and c10::reportOutOfMemoryToProfiler when they give up: a preloaded
 * definition sees them all. We run inside the allocator's lock, mostly without the GIL: no lock, no Python
 * here.
 *
 * The signatures changed in 2.1: int64_t totals before it, size_t after; both names are answered. c10::Device
 * is passed in one register: the type in the low byte, the index in the next. */
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "loader/elf_walk.h"
#include "guard.h"
#include "record/record.h"

#define EXPORT __attribute__((visibility("default")))

enum { DEVICE_TYPE_CUDA = 1 };

typedef void usage_function(void *, int64_t, uint64_t, uint64_t, uint16_t);
typedef void oom_function(int64_t, uint64_t, uint64_t, uint16_t);

EXPORT usage_function _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE;
EXPORT usage_function _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE;
EXPORT oom_function _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE;
EXPORT oom_function _ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE;
EXPORT uint64_t _ZN2at15sequence_number17get_and_incrementEv(void);

/* What get_current_node gives, through a hidden pointer: a shared_ptr<Node>, or a newer intrusive_ptr<Node>,
 * which is its first word alone. */
struct node_pointer {
    char *node;
    char *control; /* libstdc++: vtable, then int uses, int weak uses */
};

/* The two kinds of it, told apart by a function that has one as an argument. With none of the two, nothing is
 * known of nodes. */
struct node_layout {
    const char *proof;
    size_t sequence_offset, thread_offset;
    bool counts_itself; /* uses are counted in the node, else in the control block; both at USES_OFFSET */
};
enum { USES_OFFSET = 8 };
static const struct node_layout node_layouts[] = {
    {"_ZNK5torch8autograd13SavedVariable6unpackESt10shared_ptrINS0_4NodeEE", 24, 48, false},
    {"_ZNK5torch8autograd13SavedVariable6unpackEN3c1013intrusive_ptrINS0_4NodeENS2_6detail34intrusive_"
     "target_default_null_typeIS4_EEEE",
     16, 40, true},
};

#define ACCUMULATES_GRADIENT UINT64_MAX /* all such nodes have this number: the engine takes them first */

/* Functions of torch that we call. The profiler's are those that the allocator would call if we were not
 * there; the rest is looked up by the library's name, which never loads it. Until all is there, each event
 * sees whether another library was loaded, and then looks again. */
static struct {
    _Atomic(usage_function *) usage;
    _Atomic(oom_function *) oom;
    _Atomic(uint64_t (*)(void)) peek_sequence;
    _Atomic(void (*)(struct node_pointer *)) current_node;
    _Atomic(const struct node_layout *) node_layout;
    _Atomic(int (*)(void)) current_graph_task;
    _Atomic(uint64_t (*)(void)) current_thread;
    _Atomic(uint64_t (*)(void)) next_sequence;
    _Atomic uint64_t loads; /* of libraries when we looked last, plus one; 0: never */
    _Atomic int complete;
} torch;

struct search {
    const char *library, *name;
    void *address;
};

static bool visit_object(const struct vt_elf *object, void *context)
{
    struct search *search = context;
    if (strcmp(object->soname, search->library))
        return false;
    search->address = vt_elf_symbol(object, search->name, NULL);
    return true;
}

/* Not by dlopen: its lock may be held by a thread that waits for the allocator's, which our caller holds. */
static void *find(const char *library, const char *name)
{
    struct search search = {library, name, NULL};
    vt_elf_find(visit_object, &search);
    return search.address;
}

static void look_up_profiler(void)
{
    void *usage = vt_elf_next_definition("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
    void *oom = vt_elf_next_definition("_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");
    if (!usage)
        usage = vt_elf_next_definition("_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE");
    if (!oom)
        oom = vt_elf_next_definition("_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE");
    atomic_store(&torch.oom, (oom_function *)oom);
    atomic_store(&torch.usage, (usage_function *)usage); /* the last: it tells that this has been done */
}

static void look_up_autograd(void)
{
    atomic_store(&torch.peek_sequence,
                 (uint64_t(*)(void))find("libtorch_cpu.so", "_ZN2at15sequence_number4peekEv"));
    for (size_t i = 0; i < sizeof node_layouts / sizeof *node_layouts; i++)
        if (find("libtorch_cpu.so", node_layouts[i].proof))
            atomic_store(&torch.node_layout, &node_layouts[i]);
    atomic_store(&torch.current_node, (void (*)(struct node_pointer *))find(
                                          "libtorch_cpu.so", "_ZN5torch8autograd16get_current_nodeEv"));
    atomic_store(&torch.current_graph_task,
                 (int (*)(void))find("libtorch_cpu.so", "_ZN5torch8autograd25get_current_graph_task_idEv"));
    atomic_store(&torch.current_thread,
                 (uint64_t(*)(void))find("libtorch_cpu.so", "_ZN2at14RecordFunction15currentThreadIdEv"));
}

static bool is_there(const struct vt_elf *object, void *library)
{
    return strcmp(object->soname, library) == 0;
}

/* What a library that is there lacks, it lacks for good. */
static void look_up(void)
{
    if (atomic_load_explicit(&torch.complete, memory_order_acquire))
        return;
    uint64_t loads = vt_elf_loads_seen() + 1;
    if (atomic_load_explicit(&torch.loads, memory_order_relaxed) == loads)
        return;
    if (!atomic_load(&torch.usage))
        look_up_profiler();
    bool has_autograd = vt_elf_find(is_there, "libtorch_cpu.so");
    if (has_autograd)
        look_up_autograd();
    if (has_autograd && atomic_load(&torch.usage))
        atomic_store_explicit(&torch.complete, 1, memory_order_release);
    atomic_store_explicit(&torch.loads, loads, memory_order_relaxed);
}

/* Each thread counts its nodes for itself, so a number needs its thread, as PyTorch numbers them. */
static uint64_t sequence_of(uint64_t number, uint64_t torch_thread, bool backward)
{
    if (number == ACCUMULATES_GRADIENT)
        return VT_SEQUENCE_NO_NUMBER;
    return torch_thread << VT_SEQUENCE_THREAD_SHIFT | (number * 2 + 2 + backward);
}

static uint64_t own_torch_thread(void)
{
    static __thread uint64_t known;
    uint64_t (*current_thread)(void) = atomic_load_explicit(&torch.current_thread, memory_order_relaxed);
    if (!known && current_thread)
        known = current_thread();
    return known;
}

static uint64_t current_node_sequence(const struct node_layout *layout,
                                      void (*current_node)(struct node_pointer *))
{
    struct node_pointer current = {NULL, NULL};
    uint64_t number, maker = 0;
    current_node(&current);
    const char *counter = layout->counts_itself ? current.node : current.control;
    if (!current.node || !counter)
        return VT_SEQUENCE_NO_NUMBER;
    memcpy(&number, current.node + layout->sequence_offset, sizeof number);
    if (atomic_load_explicit(&torch.current_thread, memory_order_relaxed))
        memcpy(&maker, current.node + layout->thread_offset, sizeof maker);
    /* Give the count back. The engine's task and its guard hold two, so this is never the last, nor, of a
     * node that a Python object stands for, the last but one. */
    __atomic_fetch_sub((int *)(uintptr_t)(counter + USES_OFFSET), 1, __ATOMIC_ACQ_REL);
    return sequence_of(number, maker, true);
}

/* Of the node that runs on this thread; 0 outside of backward. */
static uint64_t backward_sequence(void)
{
    int (*graph_task)(void) = atomic_load_explicit(&torch.current_graph_task, memory_order_relaxed);
    void (*current_node)(struct node_pointer *) =
        atomic_load_explicit(&torch.current_node, memory_order_relaxed);
    const struct node_layout *layout = atomic_load_explicit(&torch.node_layout, memory_order_relaxed);
    int task = graph_task ? graph_task() : -1;
    if (task == -1)
        return 0;
    vt_record_backward(task);
    return layout && current_node ? current_node_sequence(layout, current_node) : VT_SEQUENCE_NO_NUMBER;
}

/* The autograd node of this event (format.h, vt_event.sequence): the running one in backward, else the one
 * that the forward operator made just before it allocates its output. */
static uint64_t autograd_sequence(void)
{
    uint64_t backward = backward_sequence();
    if (backward)
        return backward;
    uint64_t (*peek)(void) = atomic_load_explicit(&torch.peek_sequence, memory_order_relaxed);
    uint64_t next = peek ? peek() : 0;
    return next ? sequence_of(next - 1, own_torch_thread(), false) : 0;
}

/* ---- Nodes as they are made ---- */

static uint64_t count_alone(void)
{
    static __thread uint64_t next;
    return next++;
}

/* Whoever calls us was linked against a definition, so there is one, whatever its library is called. Were
 * there none, counting here gives the same numbers. */
__attribute__((noinline)) static uint64_t (*find_next_sequence(void))(void)
{
    uint64_t (*none)(void) = NULL;
    uint64_t (*found)(void) =
        (uint64_t(*)(void))vt_elf_next_definition("_ZN2at15sequence_number17get_and_incrementEv");
    if (!found)
        found = count_alone;
    return atomic_compare_exchange_strong(&torch.next_sequence, &none, found) ? found : none;
}

static void node_made(uint64_t number)
{
    int saved_errno;
    if (!vt_enter(&saved_errno))
        return;
    if (atomic_load_explicit(&torch.complete, memory_order_acquire))
        vt_record_node(sequence_of(number, own_torch_thread(), false), backward_sequence());
    vt_leave(saved_errno);
}

/* at::sequence_number::get_and_increment(): every node but those that accumulate gradients takes its number
 * here. */
uint64_t _ZN2at15sequence_number17get_and_incrementEv(void)
{
    uint64_t (*next)(void) = atomic_load_explicit(&torch.next_sequence, memory_order_relaxed);
    uint64_t number = __builtin_expect(next != NULL, 1) ? next() : find_next_sequence()();
    if (vt_recording())
        node_made(number);
    return number;
}

/* ---- Memory ---- */

static bool is_cuda(uint16_t device)
{
    return (device & 0xff) == DEVICE_TYPE_CUDA;
}

static void report_usage(void *address, int64_t bytes, uint64_t allocated, uint64_t reserved, uint16_t device)
{
    int saved_errno;
    const bool made = bytes >= 0;
    /* A free begins no trace: a forked worker may only be dropping what it inherited. */
    const bool wanted = is_cuda(device) && (made || vt_recording());
    if (!wanted && is_cuda(device))
        vt_record_missed_free();
    if (wanted ? vt_enter_event(&saved_errno) : vt_enter(&saved_errno)) {
        look_up();
        if (wanted) {
            vt_record(&(struct vt_observation){.kind = made ? VT_EVENT_ALLOC : VT_EVENT_FREE,
                                               .layer = VT_LAYER_FRAMEWORK,
                                               .device_index = (int8_t)(device >> 8),
                                               .with_stack = made,
                                               .address = (uintptr_t)address,
                                               .bytes = made ? (uint64_t)bytes : -(uint64_t)bytes,
                                               .detail = reserved,
                                               .total_bytes = allocated,
                                               .sequence = made ? autograd_sequence() : 0});
        }
        vt_leave(saved_errno);
    }
    usage_function *real = atomic_load_explicit(&torch.usage, memory_order_relaxed);
    if (real)
        real(address, bytes, allocated, reserved, device);
}

static void report_oom(int64_t bytes, uint64_t allocated, uint64_t reserved, uint16_t device)
{
    int saved_errno;
    if (vt_enter(&saved_errno)) {
        look_up();
        if (is_cuda(device))
            vt_record(&(struct vt_observation){.kind = VT_EVENT_OOM,
                                               .layer = VT_LAYER_FRAMEWORK,
                                               .device_index = (int8_t)(device >> 8),
                                               .with_stack = true,
                                               .bytes = (uint64_t)bytes,
                                               .detail = reserved,
                                               .total_bytes = allocated,
                                               .sequence = autograd_sequence()});
        vt_record_ask_inspection(VT_INSPECTION_OUT_OF_MEMORY);
        vt_leave(saved_errno);
    }
    oom_function *real = atomic_load_explicit(&torch.oom, memory_order_relaxed);
    if (real)
        real(bytes, allocated, reserved, device);
}

void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *address, int64_t bytes, uint64_t allocated,
                                                           uint64_t reserved, uint16_t device)
{
    report_usage(address, bytes, allocated, reserved, device);
}

void _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE(void *address, int64_t bytes, uint64_t allocated,
                                                           uint64_t reserved, uint16_t device)
{
    report_usage(address, bytes, allocated, reserved, device);
}

void _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(int64_t bytes, uint64_t allocated, uint64_t reserved,
                                                         uint16_t device)
{
    report_oom(bytes, allocated, reserved, device);
}

void _ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE(int64_t bytes, uint64_t allocated, uint64_t reserved,
                                                         uint16_t device)
{
    report_oom(bytes, allocated, reserved, device);
}
