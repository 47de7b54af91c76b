/* Reads from a place in a file. */
#ifndef VT_READ_AT_H
#define VT_READ_AT_H

#include <stddef.h>
#include <stdint.h>

/* Reads exactly `bytes`, or returns -errno (-EBADMSG at the end of the file). */
int vt_read_at(int file, void *buffer, size_t bytes, uint64_t offset);

#endif
