/* Parses the values of settings (options.def). No side effects: the recorder reads its settings with these
 * functions, and `vramtrace run` checks them with the same ones before the program starts. */
#ifndef VT_OPTION_VALUES_H
#define VT_OPTION_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#define VT_START_MANUAL UINT64_MAX
enum { VT_RING_MINIMUM_BYTES = 256 << 10 };

/* X(kind, type, what is allowed). PATH may be anything. */
#define VT_VALUE_KINDS(X)                                                                                    \
    X(SWITCH, bool, "0 or 1")                                                                                \
    X(BYTES, uint64_t, "256KiB to 1GiB")                                                                     \
    X(LIMIT, uint64_t, "1MiB or more")                                                                       \
    X(START, uint64_t, "now, manual or step:NUMBER")                                                         \
    X(MODE, bool, "full or flight")

/* False for a value that is not allowed; *value then stays as it was. */
#define X(kind, type, allowed) bool vt_value_##kind(const char *text, type *value);
VT_VALUE_KINDS(X)
#undef X

/* NULL if the setting may have this value, else a text that says what is allowed. `name` is one of
 * options.def. */
const char *vt_value_refused(const char *name, const char *text);

#endif
