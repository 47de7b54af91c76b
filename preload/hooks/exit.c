/* A process may end without its exit handlers: a child of Python's multiprocessing that was forked always
 * does. Its trace is ended all the same, if that is quick. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loader/elf_walk.h"
#include "record/session.h"

static void (*real)(int);

/* Not at the call: a forked child may not take the loader's lock, nor may a signal handler. */
__attribute__((constructor)) static void find_real(void)
{
    *(void **)&real = vt_elf_next_definition("_exit");
}

__attribute__((visibility("default"), noreturn)) void _exit(int status)
{
    vt_session_end_quickly();
    if (real)
        real(status);
    for (;;)
        syscall(SYS_exit_group, status);
}

__attribute__((visibility("default"), noreturn)) void _Exit(int status)
{
    _exit(status);
}
