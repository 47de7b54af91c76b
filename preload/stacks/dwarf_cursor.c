#include "stacks/dwarf_cursor.h"

#include <string.h>

void vt_skip_bytes(struct vt_cursor *cursor, uint64_t bytes)
{
    cursor->failed |= bytes > (size_t)(cursor->end - cursor->at);
    if (!cursor->failed)
        cursor->at += bytes;
}

uint64_t vt_read_uint(struct vt_cursor *cursor, size_t bytes)
{
    const uint8_t *at = cursor->at;
    uint64_t value = 0;
    vt_skip_bytes(cursor, bytes);
    if (!cursor->failed)
        memcpy(&value, at, bytes);
    return value;
}

int64_t vt_read_int(struct vt_cursor *cursor, size_t bytes)
{
    const unsigned unused = 64 - 8 * (unsigned)bytes;
    return (int64_t)(vt_read_uint(cursor, bytes) << unused) >> unused;
}

/* Returns the bits, and in *width how many the number had. */
static uint64_t read_leb(struct vt_cursor *cursor, unsigned *width)
{
    uint64_t value = 0, byte = 0x80;
    for (*width = 0; byte & 0x80; *width += 7) {
        byte = vt_read_uint(cursor, 1);
        if (*width < 64)
            value |= (byte & 0x7f) << *width;
    }
    return cursor->failed ? 0 : value;
}

uint64_t vt_read_uleb(struct vt_cursor *cursor)
{
    unsigned width;
    return read_leb(cursor, &width);
}

int64_t vt_read_sleb(struct vt_cursor *cursor)
{
    unsigned width;
    const uint64_t value = read_leb(cursor, &width);
    const bool is_negative = width < 64 && value >> (width - 1) & 1;
    return (int64_t)(is_negative ? value | UINT64_MAX << width : value);
}

uint64_t vt_read_pointer(struct vt_cursor *cursor, uint8_t encoding, const uint8_t *index)
{
    const uint8_t *here = cursor->at;
    uint64_t value = 0;
    switch (encoding & 0x0f) {
    case 0x00: /* a word */
    case 0x04:
    case 0x0c:
        value = vt_read_uint(cursor, 8);
        break;
    case 0x01:
        value = vt_read_uleb(cursor);
        break;
    case 0x02:
        value = vt_read_uint(cursor, 2);
        break;
    case 0x03:
        value = vt_read_uint(cursor, 4);
        break;
    case 0x09:
        value = (uint64_t)vt_read_sleb(cursor);
        break;
    case 0x0a:
        value = (uint64_t)vt_read_int(cursor, 2);
        break;
    case 0x0b:
        value = (uint64_t)vt_read_int(cursor, 4);
        break;
    default:
        cursor->failed = true;
    }
    switch (encoding & 0x70) {
    case VT_ENCODED_ABSOLUTE:
        return value;
    case VT_ENCODED_RELATIVE:
        return value + (uintptr_t)here;
    case VT_ENCODED_TO_INDEX:
        return value + (uintptr_t)index;
    default:
        cursor->failed = true;
        return 0;
    }
}
