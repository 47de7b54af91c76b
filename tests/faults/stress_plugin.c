/* Loaded and unloaded by stress.c. */
#include <stdint.h>

void plugin_call(void (*pair)(uint64_t), uint64_t address);
void plugin_call(void (*pair)(uint64_t), uint64_t address)
{
    pair(address);
    __asm__ volatile("" ::: "memory");
}

extern void stress_constructor(void) __attribute__((weak));
__attribute__((constructor)) static void construct(void)
{
    if (stress_constructor)
        stress_constructor();
}
