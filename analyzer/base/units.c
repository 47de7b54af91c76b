#include "base/units.h"

#include <inttypes.h>
#include <stdio.h>

char *vt_format_bytes(uint64_t bytes, char *text)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;

    if (bytes < 1024) {
        snprintf(text, 24, "%" PRIu64 " B", bytes);
        return text;
    }
    /* 1023.996 MiB would print as 1024.00 MiB: it is 1.00 GiB. */
    while (value >= 1023.995 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    snprintf(text, 24, "%.2f %s", value, units[unit]);
    return text;
}
