#include "view/html/base64.h"

#include <stdint.h>

#define GROUPS 4096u /* of three bytes, at once */

void vt_base64_write(const char *data, size_t bytes, FILE *out)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *in = (const uint8_t *)data;
    char text[GROUPS * 4];

    while (bytes) {
        size_t used = 0;

        for (; bytes && used < sizeof text; used += 4) {
            size_t taken = bytes < 3 ? bytes : 3;
            uint32_t group = (uint32_t)in[0] << 16 | (taken > 1 ? in[1] << 8 : 0) | (taken > 2 ? in[2] : 0);

            text[used] = letters[group >> 18];
            text[used + 1] = letters[group >> 12 & 63];
            text[used + 2] = taken > 1 ? letters[group >> 6 & 63] : '=';
            text[used + 3] = taken > 2 ? letters[group & 63] : '=';
            in += taken;
            bytes -= taken;
        }
        fwrite(text, 1, used, out);
    }
}
