#include "base/amount.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    double bytes;
} units[] = {{"", 1},       {"B", 1},        {"K", 0x1p10},   {"KiB", 0x1p10}, {"kB", 1e3},
             {"M", 0x1p20}, {"MiB", 0x1p20}, {"MB", 1e6},     {"G", 0x1p30},   {"GiB", 0x1p30},
             {"GB", 1e9},   {"T", 0x1p40},   {"TiB", 0x1p40}, {"TB", 1e12}};

/* Digits with at most one point: not what strtod also takes (signs, infinity, hexadecimal). */
static bool parse_number(const char **text, double *number)
{
    size_t digits = strspn(*text, "0123456789"), length = digits;

    if ((*text)[length] == '.') {
        size_t more = strspn(*text + length + 1, "0123456789");
        length += 1 + more;
        digits += more;
    }
    if (!digits || length > 32)
        return false;
    *number = strtod(*text, NULL);
    *text += length;
    return true;
}

bool vt_amount_parse(const char *text, unsigned forms, struct vt_amount *amount)
{
    const char *slash;
    double number;
    size_t length;

    *amount = (struct vt_amount){0};
    if (!parse_number(&text, &number))
        return false;
    text += strspn(text, " ");
    if (!strcmp(text, "%")) {
        *amount = (struct vt_amount){.given = true, .form = VT_AMOUNT_PERCENT, .part = number / 100};
        return forms & VT_AMOUNT_PERCENT;
    }
    slash = strchr(text, '/');
    if (slash && (!(forms & VT_AMOUNT_PER_STEP) || strcmp(slash, "/step") != 0))
        return false;
    length = slash ? (size_t)(slash - text) : strlen(text);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strlen(units[i].name) != length || strncasecmp(units[i].name, text, length) != 0)
            continue;
        number = round(number * units[i].bytes);
        if (!(number < 0x1p63))
            return false;
        *amount = (struct vt_amount){
            .given = true, .form = slash ? VT_AMOUNT_PER_STEP : VT_AMOUNT_SIZE, .bytes = (uint64_t)number};
        return true;
    }
    return false;
}

uint64_t vt_amount_bytes(const struct vt_amount *amount, uint64_t whole)
{
    double bytes = amount->part * (double)whole;

    if (amount->form != VT_AMOUNT_PERCENT)
        return amount->bytes;
    return bytes < 0x1p63 ? (uint64_t)bytes : UINT64_MAX;
}
