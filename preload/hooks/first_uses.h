/* What was used before: a set of 64-bit keys, of kernels and graphs. Threads: any. */
#ifndef VT_FIRST_USES_H
#define VT_FIRST_USES_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the key is new; then it is known from here on. False too where its places are taken. Not 0. */
bool vt_is_first_use(uint64_t key);
void vt_forget_use(uint64_t key);

#endif
