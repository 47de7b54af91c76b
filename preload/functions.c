#include "functions.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    enum vt_function_kind kind;
} functions[VT_FUNCTION_COUNT] = {
    [VT_FUNCTION_NONE] = {"", VT_KIND_NONE},
#define VT_FUNCTION(kind, symbol) [VT_FUNCTION_##symbol] = {#symbol, VT_KIND_##kind},
#include "hooks/hooks.def"
};

const char *vt_function_name(uint16_t function)
{
    return function < VT_FUNCTION_COUNT ? functions[function].name : "";
}

enum vt_function_kind vt_function_kind(uint16_t function)
{
    return function < VT_FUNCTION_COUNT ? functions[function].kind : VT_KIND_NONE;
}

enum vt_function vt_function_find(const char *name)
{
    /* A quick test first: all our names begin with cu, most names that a program looks up do not. */
    if (name[0] != 'c' || name[1] != 'u')
        return VT_FUNCTION_NONE;
    size_t low = 1, high = VT_FUNCTION_COUNT;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, functions[middle].name);
        if (order == 0)
            return (enum vt_function)middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return VT_FUNCTION_NONE;
}
