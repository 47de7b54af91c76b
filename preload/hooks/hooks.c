#include "hooks/hooks.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    enum vt_function_kind kind;
} functions[VT_FUNCTION_COUNT] = {
    [VT_FUNCTION_NONE] = {"", VT_KIND_NONE},
#define VT_WRAPPED(symbol) [VT_FUNCTION_##symbol] = {#symbol, VT_KIND_WRAPPED},
#define VT_NEEDED(symbol) [VT_FUNCTION_##symbol] = {#symbol, VT_KIND_NEEDED},
#define VT_UNHOOKED(symbol, why) [VT_FUNCTION_##symbol] = {#symbol, VT_KIND_UNHOOKED},
#define VT_RUNTIME(symbol) [VT_FUNCTION_##symbol] = {#symbol, VT_KIND_RUNTIME},
#define VT_RUNTIME_NEEDED(symbol) [VT_FUNCTION_##symbol] = {#symbol, VT_KIND_RUNTIME_NEEDED},
#include "hooks/hooks.def"
#undef VT_WRAPPED
#undef VT_NEEDED
#undef VT_UNHOOKED
#undef VT_RUNTIME
#undef VT_RUNTIME_NEEDED
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
    /* The table starts with cu… and ends with cuda…; most names that a program looks up are neither. */
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
