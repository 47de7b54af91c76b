/* Shortening of C++ names for people. */
#ifndef VT_SYMBOLS_H
#define VT_SYMBOLS_H

#include <stddef.h>

/* "void at::native::(anonymous namespace)::f<float>(at::Tensor const&)" → "at::native::f". `out` is always
 * terminated. */
void vt_shorten_function(const char *full, char *out, size_t out_bytes);

#endif
