/* What has been used before: a set of 64-bit keys, for kernels and graphs. Threads: any. */
#ifndef VT_FIRST_USES_H
#define VT_FIRST_USES_H

#include <stdbool.h>
#include <stdint.h>

/* Adds the key, which is not 0. True if it was new; false also if there is no place for it. */
bool vt_is_first_use(uint64_t key);
void vt_forget_use(uint64_t key);

#endif
