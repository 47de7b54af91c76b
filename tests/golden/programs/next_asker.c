/* A library that looks for what comes next, for next_answers.c. LINKED: to libcuda. DEFINES: a function of
 * libcuda's itself, as tools do that stand in front of it. */
#include "next.h"

void asker_ask(const char *who);
void asker_ask(const char *who)
{
    next_ask(who);
}

#ifdef LINKED
int cuInit(unsigned flags);
int (*volatile asker_keeps)(unsigned) = cuInit;
#endif

#ifdef DEFINES
int cuMemAlloc_v2(unsigned long long *address, size_t bytes);
int cuMemAlloc_v2(unsigned long long *address, size_t bytes)
{
    int (*next)(unsigned long long *, size_t) =
        (int (*)(unsigned long long *, size_t))dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    return next != NULL ? next(address, bytes) : 4321;
}
#endif
