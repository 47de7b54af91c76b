/* PyTorch's seam. Its caching allocators call c10::reportMemoryUsageToProfiler through the PLT for every block
 * they hand out or take back, and c10::reportOutOfMemoryToProfiler when they give up: a preloaded definition sees
 * them all. We run inside the allocator's lock, mostly without the GIL: no lock, no Python here.
 *
 * The signatures changed in 2.1: int64_t totals before it, size_t after; both names are answered. c10::Device is
 * passed in one register: the type in the low byte, the index in the next. */
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "elf_walk.h"
#include "guard.h"
#include "record.h"

#define EXPORT __attribute__((visibility("default")))

enum { DEVICE_TYPE_CUDA = 1 };

typedef void usage_function(void *, int64_t, uint64_t, uint64_t, uint16_t);
typedef void oom_function(int64_t, uint64_t, uint64_t, uint16_t);

EXPORT usage_function _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE;
EXPORT usage_function _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE;
EXPORT oom_function _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE;
EXPORT oom_function _ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE;

/* A shared_ptr<Node> as the caller of get_current_node gets it, through a hidden pointer. */
struct node_pointer {
    const char *node;
    char *control; /* libstdc++: vtable, then int uses, int weak uses */
};
enum { NODE_SEQUENCE_OFFSET = 24, CONTROL_USES_OFFSET = 8 };

/* Functions of torch that we call. Looked up once their library is there: it is no part of the global scope,
 * so by the library's name, which never loads it. */
static struct {
    _Atomic(usage_function *) usage;
    _Atomic(oom_function *) oom;
    _Atomic(uint64_t (*)(void)) peek_sequence;
    _Atomic(void (*)(struct node_pointer *)) current_node;
    _Atomic(int (*)(void)) current_graph_task;
    _Atomic int looked_up;
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

static void look_up(void)
{
    if (atomic_load_explicit(&torch.looked_up, memory_order_acquire))
        return;
    void *usage = find("libc10.so", "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
    void *oom = find("libc10.so", "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");
    if (!usage)
        usage = find("libc10.so", "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE");
    if (!oom)
        oom = find("libc10.so", "_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE");
    atomic_store(&torch.usage, (usage_function *)usage);
    atomic_store(&torch.oom, (oom_function *)oom);
    atomic_store(&torch.peek_sequence, (uint64_t(*)(void))find("libtorch_cpu.so", "_ZN2at15sequence_number4peekEv"));
    atomic_store(&torch.current_node, (void (*)(struct node_pointer *))find(
                                          "libtorch_cpu.so", "_ZN5torch8autograd16get_current_nodeEv"));
    atomic_store(&torch.current_graph_task,
                 (int (*)(void))find("libtorch_cpu.so", "_ZN5torch8autograd25get_current_graph_task_idEv"));
    atomic_store_explicit(&torch.looked_up, 1, memory_order_release);
}

/* The autograd node of this event (format.h, vt_event.sequence): the running one in backward, else the one that
 * the forward operator made just before it allocates its output. */
static uint64_t autograd_sequence(void)
{
    uint64_t (*peek)(void) = atomic_load_explicit(&torch.peek_sequence, memory_order_relaxed);
    int (*graph_task)(void) = atomic_load_explicit(&torch.current_graph_task, memory_order_relaxed);
    void (*current_node)(struct node_pointer *) = atomic_load_explicit(&torch.current_node, memory_order_relaxed);
    if (graph_task && current_node && graph_task() != -1) {
        struct node_pointer current = {NULL, NULL};
        uint64_t sequence = 0;
        current_node(&current);
        if (current.node)
            sequence = *(const uint64_t *)(const void *)(current.node + NODE_SEQUENCE_OFFSET) * 2 + 3;
        /* Give the count back. The engine holds another, so this is never the last. */
        if (current.control)
            __atomic_fetch_sub((int *)(void *)(current.control + CONTROL_USES_OFFSET), 1, __ATOMIC_ACQ_REL);
        return sequence;
    }
    uint64_t next = peek ? peek() : 0;
    return next ? (next - 1) * 2 + 2 : 0;
}

static bool is_cuda(uint16_t device)
{
    return (device & 0xff) == DEVICE_TYPE_CUDA;
}

static void report_usage(void *address, int64_t bytes, uint64_t allocated, uint64_t reserved, uint16_t device)
{
    int saved_errno;
    if (vt_enter(&saved_errno)) {
        look_up();
        bool made = bytes >= 0;
        /* A free begins no trace: a forked worker may only be dropping what it inherited. */
        if (is_cuda(device) && (made || vt_recording())) {
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
