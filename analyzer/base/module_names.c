#include "base/module_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"

#define DIGITS "0123456789"
#define CLASSES_BYTES (sizeof VT_MODULE_CLASSES - 1)

/* Bytes of the separator at `at`, 0 = none. */
static size_t separator_bytes(const char *at)
{
    if (*at == '.')
        return 1;
    return strncmp(at, VT_MODULE_CLASSES, CLASSES_BYTES) == 0 ? CLASSES_BYTES : 0;
}

static bool is_boundary(const char *at)
{
    return *at == '\0' || separator_bytes(at) > 0;
}

static bool is_role(const char *at)
{
    return strncmp(at, VT_MODULE_ROLE, sizeof VT_MODULE_ROLE - 1) == 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool vt_module_next(const char *name, struct vt_module_level *level)
{
    const char *begin = name, *end;
    bool is_class = level->ends_class;
    if (level->begin) {
        begin = level->begin + level->bytes;
        if (separator_bytes(begin) == 0)
            return false;
        begin += separator_bytes(begin);
    }
    for (end = begin; !is_boundary(end) && !is_role(end);)
        end++;
    *level = (struct vt_module_level){.begin = begin,
                                      .bytes = (size_t)(end - begin),
                                      .is_class = is_class,
                                      .ends_class = separator_bytes(end) == CLASSES_BYTES};
    while (level->digits < level->bytes && is_digit(end[-1 - (long)level->digits]))
        level->digits++;
    level->has_mark = level->digits && level->digits < level->bytes && end[-1 - (long)level->digits] == '#';
    return true;
}

unsigned vt_module_levels(const char *name)
{
    struct vt_module_level level = {0};
    unsigned count = 0;
    while (name[0] && vt_module_next(name, &level))
        count++;
    return count;
}

size_t vt_module_prefix(const char *name, unsigned depth)
{
    struct vt_module_level level = {0};
    for (unsigned i = 0; i < depth; i++)
        if (!vt_module_next(name, &level))
            break;
    return depth ? (size_t)(level.begin - name) + level.bytes : strlen(name);
}

size_t vt_module_common(const char *name, size_t bytes, const char *other)
{
    struct vt_module_level level = {0};
    size_t common = 0;
    while (vt_module_next(name, &level)) {
        size_t end = (size_t)(level.begin - name) + level.bytes;
        if (end > bytes || strncmp(name, other, end) != 0 || !is_boundary(other + end))
            break;
        common = end;
    }
    return common;
}

bool vt_module_is_inside(const char *name, const char *outer)
{
    size_t bytes = strlen(outer);
    return strncmp(name, outer, bytes) == 0 && is_boundary(name + bytes);
}

char *vt_module_plain_name(const char *name)
{
    char *plain = vt_allocate(strlen(name) + 1), *out = plain;
    const char *rest = name;
    struct vt_module_level level = {0};
    while (vt_module_next(name, &level)) {
        const char *end = level.begin + level.bytes;
        bool first =
            level.has_mark && level.digits == 1 && end[-1] == '1' && (*end == '\0' || level.ends_class);
        size_t bytes = (size_t)(end - rest) - (first ? 2 : 0);
        memcpy(out, rest, bytes);
        out += bytes;
        rest = end;
    }
    strcpy(out, rest);
    return plain;
}

bool vt_module_pattern(const char *name, size_t bytes, char *pattern, size_t pattern_bytes)
{
    struct vt_module_level level = {0};
    size_t used = 0;
    while (vt_module_next(name, &level)) {
        const char *end = level.begin + level.bytes;
        size_t text = level.bytes - level.digits, star = level.digits > 0;
        size_t separator = end < name + bytes ? separator_bytes(end) : 0;
        if (used + text + star + separator >= pattern_bytes)
            return false;
        memcpy(pattern + used, level.begin, text);
        memset(pattern + used + text, '*', star);
        memcpy(pattern + used + text + star, end, separator);
        used += text + star + separator;
        if (end >= name + bytes)
            break;
    }
    pattern[used] = '\0';
    return used > 0;
}

size_t vt_module_match(const char *pattern, const char *name)
{
    const char *at = name;
    for (; *pattern; pattern++) {
        size_t digits = strspn(at, DIGITS);
        if (*pattern == '*' ? digits == 0 : *pattern != *at)
            return 0;
        at += *pattern == '*' ? digits : 1;
    }
    return is_boundary(at) ? (size_t)(at - name) : 0;
}
