#include "stack_bounds.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OWN_STACK_MAXIMUM_BYTES = 16 << 20, EXTEND_MAXIMUM_BYTES = 1 << 20 };

/* The kernel reads the mask before it notices that ~0 is no valid action: EFAULT if the mask is not
 * readable, else EINVAL, and nothing happens. Every sandbox allows this call. */
static bool is_readable(uintptr_t address)
{
    return syscall(SYS_rt_sigprocmask, ~0, address, NULL, sizeof(uint64_t)) == -1 && errno == EINVAL;
}

static _Atomic bool under_valgrind;

void vt_stack_bounds_start(bool is_under_valgrind)
{
    atomic_store(&under_valgrind, is_under_valgrind);
}

static uintptr_t page_bytes(void)
{
    return (uintptr_t)sysconf(_SC_PAGESIZE);
}

bool vt_stack_is_readable(uintptr_t low, uintptr_t high)
{
    const uintptr_t bytes = page_bytes();
    if (atomic_load_explicit(&under_valgrind, memory_order_relaxed))
        return true;
    for (uintptr_t page = low & -bytes; page < high; page += bytes)
        if (!is_readable(page))
            return false;
    return true;
}

/* The calling thread's own stack, as far down as it was checked; low 0 = not checked yet. It stays as long
 * as the thread. */
static __thread struct vt_stack_bounds own __attribute__((tls_model("initial-exec")));

/* Where another kind of stack was seen last, so that a coroutine's walks do not check every time again. */
static __thread uintptr_t foreign __attribute__((tls_model("initial-exec")));
enum { FOREIGN_SHIFT = 16 };

/* glibc keeps a thread's descriptor at the top of its stack; the kernel keeps AT_RANDOM's bytes at the top
 * of the first thread's. If neither is close above, with only readable memory in between, this is another
 * kind of stack. */
static bool find_own(uintptr_t stack_pointer)
{
    if (stack_pointer >> FOREIGN_SHIFT == foreign)
        return false;
    const uintptr_t tops[] = {(uintptr_t)pthread_self(), getauxval(AT_RANDOM)};
    for (unsigned i = 0; i < sizeof tops / sizeof *tops; i++)
        if (tops[i] - stack_pointer < OWN_STACK_MAXIMUM_BYTES &&
            vt_stack_is_readable(stack_pointer,
                                 own.high == tops[i] && own.low > stack_pointer ? own.low : tops[i])) {
            own = (struct vt_stack_bounds){stack_pointer & -page_bytes(), tops[i], true};
            return true;
        }
    foreign = stack_pointer >> FOREIGN_SHIFT;
    return false;
}

struct vt_stack_bounds vt_stack_bounds_of(uintptr_t stack_pointer)
{
    if (__builtin_expect(stack_pointer - own.low < own.high - own.low, 1))
        return (struct vt_stack_bounds){stack_pointer, own.high, true};
    if (find_own(stack_pointer))
        return (struct vt_stack_bounds){stack_pointer, own.high, true};
    return (struct vt_stack_bounds){stack_pointer, stack_pointer, false};
}

bool vt_stack_extend(struct vt_stack_bounds *bounds, uintptr_t address)
{
    if (atomic_load_explicit(&under_valgrind, memory_order_relaxed))
        return false;
    if (bounds->end_known || address < bounds->low || address - bounds->low > EXTEND_MAXIMUM_BYTES)
        return false;
    const uintptr_t page = page_bytes(), end = (address + sizeof(uint64_t) + page - 1) & -page;
    if (!vt_stack_is_readable(bounds->high, end))
        return false;
    bounds->high = end;
    return true;
}
