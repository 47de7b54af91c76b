#include "signals.h"

#include <stddef.h>

void vt_signals_block(sigset_t *before)
{
    static const int caused[] = {SIGSYS, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    sigset_t others;
    sigfillset(&others);
    for (size_t i = 0; i < sizeof caused / sizeof *caused; i++)
        sigdelset(&others, caused[i]);
    pthread_sigmask(SIG_BLOCK, &others, before);
}

void vt_signals_restore(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}
