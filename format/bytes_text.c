#include "format/bytes_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

char *vt_format_bytes(uint64_t bytes, char *text)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    bool whole = true;
    size_t unit = 0;

    /* 1023.6 MiB would print as 1024 MiB: it is 1.00 GiB. */
    while (value >= (unit ? 1023.5 : 1024) && unit + 1 < sizeof units / sizeof *units) {
        whole = bytes >> 10 * unit & 1023 ? false : whole;
        value /= 1024;
        unit++;
    }
    snprintf(text, 24, "%.*f %s", whole || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2, value, units[unit]);
    return text;
}
