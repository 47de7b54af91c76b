#include "trace/settings.h"

#include <string.h>

#include "trace/trace.h"

static const struct variable {
    const char *name;
    bool of_allocator; /* its value is a list: "key:value,key:value" */
} variables[] = {
#define VT_SETTING(name, of_allocator) {name, of_allocator},
#include "trace/frameworks.def"
};

static const struct variable *variable_of(const char *name, size_t bytes)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (strlen(variables[i].name) == bytes && !memcmp(variables[i].name, name, bytes))
            return &variables[i];
    return NULL;
}

const char *vt_setting_next(const struct vt_trace *trace, size_t *at, const char **name)
{
    for (size_t i; (i = (*at)++) < trace->launch_count + trace->setting_count;) {
        if (i >= trace->launch_count) {
            *name = NULL;
            return trace->settings[i - trace->launch_count];
        }
        *name = trace->launch[i].name;
        if (variable_of(*name, strlen(*name)) && trace->launch[i].value[0])
            return trace->launch[i].value;
    }
    --*at;
    return NULL;
}

/* The end of the entry of a list that begins at `text`: lists in brackets are one entry. */
static const char *end_of(const char *text)
{
    int depth = 0;
    for (; *text && (*text != ',' || depth); text++)
        depth += (*text == '[') - (*text == ']');
    return text;
}

/* Whether an entry is "key:…"; if so, *same: whether it is `wanted` as a whole. */
static bool sets_key(const char *entry, const char *end, const char *wanted, bool *same)
{
    const size_t key_bytes = strcspn(wanted, ":") + 1;
    entry += strspn(entry, " ");
    while (end > entry && end[-1] == ' ')
        end--;
    if ((size_t)(end - entry) < key_bytes || memcmp(entry, wanted, key_bytes) != 0)
        return false;
    *same = (size_t)(end - entry) == strlen(wanted) && !memcmp(entry, wanted, strlen(wanted));
    return true;
}

bool vt_setting_in_force(const struct vt_trace *trace, const char *setting)
{
    const size_t name_bytes = strcspn(setting, "=");
    const struct variable *variable = variable_of(setting, name_bytes);
    const char *wanted = setting + name_bytes + 1, *name, *value;
    bool in_force = false;
    if (!variable)
        return false;
    for (size_t at = 0; (value = vt_setting_next(trace, &at, &name));) {
        const struct variable *from = name ? variable_of(name, strlen(name)) : NULL;
        if (!variable->of_allocator) {
            in_force |= from == variable && !strcmp(value, wanted);
            continue;
        }
        if (from && !from->of_allocator)
            continue;
        for (const char *entry = value, *end; *entry; entry = *end ? end + 1 : end) {
            end = end_of(entry);
            sets_key(entry, end, wanted, &in_force);
        }
    }
    return in_force;
}

bool vt_has_allocator_settings(const struct vt_trace *trace)
{
    const char *name;
    for (size_t at = 0; vt_setting_next(trace, &at, &name);)
        if (!name || variable_of(name, strlen(name))->of_allocator)
            return true;
    return false;
}
