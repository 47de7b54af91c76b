#include "option_values.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { RING_MAXIMUM_BYTES = 1 << 30, LIMIT_MINIMUM_BYTES = 1 << 20 };
#define LIMIT_MAXIMUM_BYTES (UINT64_C(1) << 50)

bool vt_value_SWITCH(const char *text, bool *value)
{
    static const char *const words[][2] = {{"0", "1"}, {"no", "yes"}, {"off", "on"}, {"false", "true"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int truth = 0; truth < 2; truth++)
            if (!strcasecmp(text, words[i][truth])) {
                *value = truth;
                return true;
            }
    return false;
}

static bool parse_bytes(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
    static const struct {
        const char *unit;
        unsigned shift;
    } units[] = {{"", 0},     {"B", 0},  {"K", 10},   {"KiB", 10}, {"M", 20},
                 {"MiB", 20}, {"G", 30}, {"GiB", 30}, {"T", 40},   {"TiB", 40}};
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (end == text || errno || *text == '-')
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const uint64_t bytes = (uint64_t)number << units[i].shift;
        if (!strcasecmp(end, units[i].unit) && number <= UINT64_MAX >> units[i].shift && bytes >= least &&
            bytes <= most) {
            *value = bytes;
            return true;
        }
    }
    return false;
}

bool vt_value_BYTES(const char *text, uint64_t *value)
{
    return parse_bytes(text, VT_RING_MINIMUM_BYTES, RING_MAXIMUM_BYTES, value);
}

/* 0 = none */
bool vt_value_LIMIT(const char *text, uint64_t *value)
{
    if (strcasecmp(text, "none") != 0)
        return parse_bytes(text, LIMIT_MINIMUM_BYTES, LIMIT_MAXIMUM_BYTES, value);
    *value = 0;
    return true;
}

bool vt_value_START(const char *text, uint64_t *step)
{
    char *end;
    if (!strcasecmp(text, "now") || !strcasecmp(text, "manual")) {
        *step = tolower(*text) == 'n' ? 1 : VT_START_MANUAL;
        return true;
    }
    if (strncasecmp(text, "step:", 5) || !isdigit((unsigned char)text[5]))
        return false;
    errno = 0;
    const uint64_t number = strtoull(text + 5, &end, 10);
    if (*end || errno || !number || number == VT_START_MANUAL)
        return false;
    *step = number;
    return true;
}

bool vt_value_MODE(const char *text, bool *flight)
{
    const bool is_flight = !strcasecmp(text, "flight");
    if (!is_flight && strcasecmp(text, "full") != 0)
        return false;
    *flight = is_flight;
    return true;
}

static const char *refuse_PATH(const char *text)
{
    (void)text;
    return NULL;
}

#define X(kind, type, allowed)                                                                               \
    static const char *refuse_##kind(const char *text)                                                       \
    {                                                                                                        \
        type value;                                                                                          \
        return vt_value_##kind(text, &value) ? NULL : allowed;                                               \
    }
VT_VALUE_KINDS(X)
#undef X

const char *vt_value_refused(const char *name, const char *text)
{
#define X(setting, kind, field, standard, help)                                                              \
    if (!strcmp(name, #setting))                                                                             \
        return refuse_##kind(text);
#include "options.def"
#undef X
    return NULL;
}
