/* Reads DWARF's numbers. Threads: any; touches nothing but the bytes given. */
#ifndef VT_DWARF_CURSOR_H
#define VT_DWARF_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The unread bytes of a table or an expression. Reading past the end sets `failed` and returns 0, also from
 * then on. */
struct vt_cursor {
    const uint8_t *at, *end;
    bool failed;
};

void vt_skip_bytes(struct vt_cursor *cursor, uint64_t bytes);

/* A number of 1 to 8 bytes. */
uint64_t vt_read_uint(struct vt_cursor *cursor, size_t bytes);
int64_t vt_read_int(struct vt_cursor *cursor, size_t bytes);

/* A number of variable length (LEB128). */
uint64_t vt_read_uleb(struct vt_cursor *cursor);
int64_t vt_read_sleb(struct vt_cursor *cursor);

/* A pointer in an "eh" encoding: the low four bits say how it is stored, the next three what it is relative
 * to. `index`: the start of .eh_frame_hdr. */
enum {
    VT_ENCODED_ABSOLUTE = 0x00,
    VT_ENCODED_RELATIVE = 0x10, /* to its own address */
    VT_ENCODED_TO_INDEX = 0x30,
    VT_ENCODED_OMITTED = 0xff,
};
uint64_t vt_read_pointer(struct vt_cursor *cursor, uint8_t encoding, const uint8_t *index);

#endif
