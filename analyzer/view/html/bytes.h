/* Growing bytes: numbers, text and JSON are appended. */
#ifndef VT_BYTES_H
#define VT_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct vt_bytes {
    char *data; /* NULL while there is nothing */
    size_t count, capacity;
};

void vt_bytes_free(struct vt_bytes *bytes);
/* Space for `more` bytes behind those that are there; the caller adds to `count` what it fills. */
char *vt_bytes_reserve(struct vt_bytes *bytes, size_t more);

void vt_bytes_add(struct vt_bytes *bytes, const void *data, size_t count);
void vt_bytes_print(struct vt_bytes *bytes, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* LEB128: 7 bits a byte, the lowest first; the highest bit says that more follow. */
void vt_bytes_varint(struct vt_bytes *bytes, uint64_t number);

/* A string of JSON with its quotes, also for inside an HTML script: "<" and what would move a cursor or
 * change the direction of text are escaped; bytes that are no UTF-8 become U+FFFD. NULL is "". */
void vt_bytes_string(struct vt_bytes *bytes, const char *text);

#endif
