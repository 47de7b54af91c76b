/* Text in the caller's buffers. Pure functions. */
#ifndef VT_TEXT_H
#define VT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Copies `from` with its NUL. False if it does not fit into `bytes`; then nothing is written. */
static inline bool vt_text_copy(char *to, size_t bytes, const char *from)
{
    size_t length = strlen(from);
    if (length >= bytes)
        return false;
    memcpy(to, from, length + 1);
    return true;
}

/* The name after the last slash. */
static inline const char *vt_text_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Surrogates are not characters. */
static inline bool vt_utf8_is_character(uint32_t c)
{
    return c < 0xd800 || (c >= 0xe000 && c < 0x110000);
}

enum { VT_UTF8_MAXIMUM_BYTES = 4 };

/* Returns how many bytes were written, 1 to 4. `c` must be a character. */
static inline size_t vt_utf8_encode(uint32_t c, char encoded[VT_UTF8_MAXIMUM_BYTES])
{
    if (c < 0x80) {
        encoded[0] = (char)c;
        return 1;
    }
    const size_t bytes = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = bytes - 1; i > 0; i--, c >>= 6)
        encoded[i] = (char)(0x80 | (c & 0x3f));
    encoded[0] = (char)(0xf00 >> bytes | c);
    return bytes;
}

#endif
