#include "view/html/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "base/utf8.h"

#define VARINT_BYTES 10

void vt_bytes_free(struct vt_bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct vt_bytes){0};
}

char *vt_bytes_reserve(struct vt_bytes *bytes, size_t more)
{
    vt_reserve(&bytes->data, &bytes->capacity, bytes->count + more, 1);
    return bytes->data + bytes->count;
}

void vt_bytes_add(struct vt_bytes *bytes, const void *data, size_t count)
{
    if (!count)
        return;
    memcpy(vt_bytes_reserve(bytes, count), data, count);
    bytes->count += count;
}

void vt_bytes_print(struct vt_bytes *bytes, const char *format, ...)
{
    va_list arguments;
    char text[256], *longer;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof text) {
        longer = vt_bytes_reserve(bytes, (size_t)length + 1);
        va_start(arguments, format);
        vsnprintf(longer, (size_t)length + 1, format, arguments);
        va_end(arguments);
        bytes->count += (size_t)length;
    } else {
        vt_bytes_add(bytes, text, (size_t)length);
    }
}

void vt_bytes_varint(struct vt_bytes *bytes, uint64_t number)
{
    char *end = vt_bytes_reserve(bytes, VARINT_BYTES);

    for (; number > 0x7f; number >>= 7)
        *end++ = (char)(number | 0x80);
    *end++ = (char)number;
    bytes->count = (size_t)(end - bytes->data);
}

static void add_escaped(struct vt_bytes *bytes, uint32_t code)
{
    if (code == VT_REPLACEMENT)
        vt_bytes_add(bytes, VT_REPLACEMENT_TEXT, strlen(VT_REPLACEMENT_TEXT));
    else
        vt_bytes_print(bytes, "\\u%04x", (unsigned)code);
}

void vt_bytes_string(struct vt_bytes *bytes, const char *text)
{
    const char *start = text ? text : "", *at = start;
    uint32_t code;

    vt_bytes_add(bytes, "\"", 1);
    for (size_t length; (length = vt_utf8_next(at, &code)) > 0; at += length) {
        if (code != '"' && code != '\\' && code != '<' && code != '\n' && !vt_is_unsafe(code))
            continue;
        vt_bytes_add(bytes, start, (size_t)(at - start));
        add_escaped(bytes, code);
        start = at + length;
    }
    vt_bytes_add(bytes, start, (size_t)(at - start));
    vt_bytes_add(bytes, "\"", 1);
}
