#include "stack_native.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fork_gate.h"
#include "python_layout.h"

#if defined __x86_64__
#define UNW_PREFIX "_ULx86_64_"
#elif defined __aarch64__
#define UNW_PREFIX "_ULaarch64_"
#else
#error "native stacks: this architecture's libunwind prefix is not known"
#endif

enum { UNW_CACHE_PER_THREAD = 2, EXPECTED_BITS = 6 };

/* How deep the end lay in this thread's recent walks, by where its stack stood, which tells the way that led
 * there: their maximum, slowly forgotten; 0 = none yet. What lies behind the end is dropped, so a walk goes
 * only so far. */
static __thread uint8_t expected_depths[1 << EXPECTED_BITS] __attribute__((tls_model("initial-exec")));
_Static_assert(VT_NATIVE_DEPTH <= UINT8_MAX, "an expected depth fits");

static _Atomic(int (*)(void **, int)) backtrace_function;
static _Atomic uintptr_t interpreter_start, interpreter_end;
/* Return address in the loop of autograd's engine: what lies behind it is the same for all of backward. */
static _Atomic uintptr_t engine_loop;
#define ENGINE_LOOP "_ZN5torch8autograd6Engine11thread_mainE"

/* libunwind tries addresses that no unwind information vouches for by writing from there to a pipe of its
 * own. A host that closes every descriptor closes that too, and may have a file of its own under the number
 * then. */
struct pipe_ends {
    int descriptors[2];
    ino_t inode;
};
static struct pipe_ends pipe_of_libunwind; /* writer thread only; inode 0: not known */

/* The two that a pipe made now would get. */
static struct pipe_ends next_descriptors(void)
{
    struct pipe_ends next = {{-1, -1}, 0};
    if (!pipe2(next.descriptors, O_CLOEXEC)) {
        close(next.descriptors[0]);
        close(next.descriptors[1]);
    }
    return next;
}

static ino_t pipe_inode(const struct pipe_ends *ends)
{
    struct stat first, second;
    if (fstat(ends->descriptors[0], &first) || fstat(ends->descriptors[1], &second) ||
        !S_ISFIFO(first.st_mode) || first.st_ino != second.st_ino)
        return 0;
    return first.st_ino;
}

static void remember_pipe(struct pipe_ends ends)
{
    ends.inode = pipe_inode(&ends);
    pipe_of_libunwind = ends;
}

void vt_native_check(void)
{
    if (pipe_of_libunwind.inode && pipe_inode(&pipe_of_libunwind) != pipe_of_libunwind.inode)
        atomic_store(&backtrace_function, NULL);
}

void vt_native_start(bool wanted)
{
    if (!wanted)
        atomic_store(&backtrace_function, NULL);
    if (!wanted || atomic_load(&backtrace_function))
        return;
    _Atomic int *gate = vt_gate_enter();
    void *library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    vt_gate_leave(gate);
    if (!library)
        return;
    int (*set_policy)(void *, int) = (int (*)(void *, int))dlsym(library, UNW_PREFIX "set_caching_policy");
    void **space = dlsym(library, UNW_PREFIX "local_addr_space");
    if (set_policy && space) {
        struct pipe_ends next = next_descriptors();
        set_policy(*space, UNW_CACHE_PER_THREAD); /* which initialises it all */
        remember_pipe(next);
    }
    atomic_store(&backtrace_function, (int (*)(void **, int))dlsym(library, "unw_backtrace"));
}

void vt_native_find_interpreter(void)
{
    static bool looked;
    Dl_info information;
    ElfW(Sym) *symbol = NULL;
    if (looked || !vt_python_loaded())
        return;
    looked = true;
    void *evaluate = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
    if (!evaluate || !dladdr1(evaluate, &information, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
        return;
    atomic_store_explicit(&interpreter_end, (uintptr_t)evaluate + symbol->st_size, memory_order_relaxed);
    atomic_store_explicit(&interpreter_start, (uintptr_t)evaluate, memory_order_relaxed);
}

void vt_native_note_symbol(uint64_t return_address, const char *linkage_name)
{
    if (strncmp(linkage_name, ENGINE_LOOP, sizeof ENGINE_LOOP - 1) == 0)
        atomic_store_explicit(&engine_loop, return_address, memory_order_relaxed);
}

/* Our own frames are left out, also those in the middle (a runtime wrapper above a driver's): told by
 * address, since inlining changes their number. */
extern const char __ehdr_start __attribute__((visibility("hidden")));
extern const char _end __attribute__((visibility("hidden")));

size_t vt_native_walk(uint64_t addresses[VT_NATIVE_DEPTH], bool below_python, uint64_t *hash, bool *truncated)
{
    int (*walk)(void **, int) = atomic_load_explicit(&backtrace_function, memory_order_relaxed);
    const uintptr_t start = atomic_load_explicit(&interpreter_start, memory_order_relaxed);
    const uintptr_t end = atomic_load_explicit(&interpreter_end, memory_order_relaxed);
    const uintptr_t loop = atomic_load_explicit(&engine_loop, memory_order_relaxed);
    const uintptr_t own_start = (uintptr_t)&__ehdr_start, own_end = (uintptr_t)&_end;
    uint64_t mixed = *hash;
    int count = 0, end_frame = 0, kept = 0;
    if (!walk)
        return 0;
    const uint64_t place = (uintptr_t)__builtin_frame_address(0) * UINT64_C(0x9E3779B97F4A7C15);
    uint8_t *expected = &expected_depths[place >> (64 - EXPECTED_BITS)];
    const bool may_end = (below_python && start) || loop;
    for (int depth = may_end && *expected ? *expected : VT_NATIVE_DEPTH;; depth = VT_NATIVE_DEPTH) {
        _Atomic int *gate =
            vt_gate_enter(); /* libunwind looks at the libraries for code that it has not met */
        count = walk((void **)addresses, depth);
        vt_gate_leave(gate);
        for (end_frame = 0; end_frame < count; end_frame++)
            if (addresses[end_frame] - start < end - start || addresses[end_frame] == loop)
                break;
        if (end_frame < count || count < depth || depth == VT_NATIVE_DEPTH)
            break;
    }
    if (end_frame >= *expected)
        *expected = (uint8_t)(end_frame < VT_NATIVE_DEPTH ? end_frame + 1 : VT_NATIVE_DEPTH);
    else if (end_frame + 1 < *expected)
        (*expected)--;
    *truncated = end_frame == count && count == VT_NATIVE_DEPTH;
    for (int i = 0; i < end_frame; i++) {
        if (addresses[i] - own_start < own_end - own_start)
            continue;
        addresses[kept++] = addresses[i];
        mixed = (mixed ^ addresses[i]) * UINT64_C(0x9E3779B97F4A7C15);
        mixed ^= mixed >> 29;
    }
    *hash = mixed;
    return (size_t)kept;
}
