#include "base/utf8.h"

size_t vt_utf8_read(const char *text, size_t left, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)text;
    size_t bytes = s[0] < 0x80   ? 1
                   : s[0] < 0xc0 ? 0
                   : s[0] < 0xe0 ? 2
                   : s[0] < 0xf0 ? 3
                   : s[0] < 0xf8 ? 4
                                 : 0;
    uint32_t value = bytes == 1 ? s[0] : s[0] & (0x7fu >> bytes);

    *code = VT_REPLACEMENT;
    if (!bytes || bytes > left)
        return 0;
    for (size_t i = 1; i < bytes; i++) {
        if ((s[i] & 0xc0) != 0x80) /* the NUL of a text that ends here, too */
            return 0;
        value = value << 6 | (s[i] & 0x3fu);
    }
    if (value < least[bytes] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return 0;
    *code = value;
    return bytes;
}

size_t vt_utf8_next(const char *text, uint32_t *code)
{
    size_t bytes;

    *code = 0;
    if (!text[0])
        return 0;
    bytes = vt_utf8_read(text, SIZE_MAX, code);
    return bytes ? bytes : 1;
}

bool vt_is_unsafe(uint32_t code)
{
    return (code < 0x20 && code != '\n') || (code >= 0x7f && code < 0xa0) ||
           (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0x200e ||
           code == 0x200f || code == 0x2028 || code == 0x2029 || code == 0xfffd;
}
