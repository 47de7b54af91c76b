#include "base/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/frameworks.h"

static const struct vt_category_style styles[VT_CATEGORY_COUNT] = {
    [VT_CATEGORY_PARAMETER] = {"parameters", "parameter", "░", ':', 33, "#0087ff"},
    [VT_CATEGORY_BUFFER] = {"buffers", "buffer", "┊", 'b', 75, "#5fafff"},
    [VT_CATEGORY_GRADIENT] = {"gradients", "gradient", "▓", '%', 208, "#ff8700"},
    [VT_CATEGORY_OPTIMIZER_STATE] = {"optimizer state", "optimizer", "▒", '=', 134, "#af5fd7"},
    [VT_CATEGORY_ACTIVATION] = {"activations", "activation", "█", '#', 71, "#5faf5f"},
    [VT_CATEGORY_INPUT] = {"inputs", "input", "▤", 'i', 44, "#00d7d7"},
    [VT_CATEGORY_TEMPORARY] = {"temporaries", "temporary", "▚", '~', 248, "#a8a8a8"},
    [VT_CATEGORY_WORKSPACE] = {"workspaces", "workspace", "·", '.', 220, "#ffd700"},
    [VT_CATEGORY_COMMUNICATION] = {"communication buffers", "communication", "▥", 'c', 204, "#ff5f87"},
    [VT_CATEGORY_CONTEXT] = {"CUDA context", "context", " ", ' ', 243, "#767676"},
    [VT_CATEGORY_CACHED] = {"cached memory", "cached", " ", ' ', 243, "#767676"},
    [VT_CATEGORY_HOST_PINNED] = {"pinned host memory", "pinned host", " ", ' ', 243, "#767676"},
    [VT_CATEGORY_UNKNOWN] = {"of unknown use", "unknown", "?", '?', 253, "#dadada"},
};

const uint8_t vt_stacked_categories[] = {
    VT_CATEGORY_PARAMETER,     VT_CATEGORY_BUFFER,     VT_CATEGORY_OPTIMIZER_STATE, VT_CATEGORY_GRADIENT,
    VT_CATEGORY_INPUT,         VT_CATEGORY_ACTIVATION, VT_CATEGORY_TEMPORARY,       VT_CATEGORY_WORKSPACE,
    VT_CATEGORY_COMMUNICATION, VT_CATEGORY_UNKNOWN,
};
const size_t vt_stacked_category_count = sizeof vt_stacked_categories;

const struct vt_category_style *vt_category_style(unsigned category)
{
    return &styles[category < VT_CATEGORY_COUNT ? category : VT_CATEGORY_UNKNOWN];
}

uint64_t vt_used_bytes(const uint64_t categories[VT_CATEGORY_COUNT])
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < vt_stacked_category_count; i++)
        bytes += categories[vt_stacked_categories[i]];
    return bytes;
}

const char *vt_by_name(enum vt_by by)
{
    static const char *const names[VT_BY_CHOICES] = {"category", "module", "kind", "owner",
                                                     "line",     "stack",  "op",   "block"};

    return by < VT_BY_CHOICES ? names[by] : "?";
}

char *vt_format_change(uint64_t before, uint64_t after, char *text)
{
    char bytes[24];

    vt_format_bytes(after > before ? after - before : before - after, bytes);
    snprintf(text, 32, "%s%s", after > before ? "+" : after < before ? "−" : "", bytes);
    return text;
}

char *vt_format_duration(uint64_t t_ns, char *text)
{
    double seconds = (double)t_ns / 1e9;
    uint64_t whole = t_ns / 1000000000u;

    if (t_ns < 1000)
        snprintf(text, 32, "%u ns", (unsigned)t_ns);
    else if (t_ns < 1000000)
        snprintf(text, 32, "%.1f µs", seconds * 1e6);
    else if (t_ns < 999500000)
        snprintf(text, 32, t_ns < 99950000 ? "%.1f ms" : "%.0f ms", seconds * 1e3);
    else if (seconds < 99.95)
        snprintf(text, 32, seconds < 9.995 ? "%.2f s" : "%.1f s", seconds);
    else if (whole < 3600)
        snprintf(text, 32, "%" PRIu64 " min %" PRIu64 " s", whole / 60, whole % 60);
    else if (whole < 172800)
        snprintf(text, 32, "%" PRIu64 " h %" PRIu64 " min", whole / 3600, whole % 3600 / 60);
    else
        snprintf(text, 32, "%" PRIu64 " d %" PRIu64 " h", whole / 86400, whole % 86400 / 3600);
    return text;
}

char *vt_format_percent(uint64_t part, uint64_t whole, char *text)
{
    double percent = whole ? 100.0 * (double)part / (double)whole : 0;

    if (!whole)
        snprintf(text, 16, "–");
    else if (part && percent < 0.05)
        snprintf(text, 16, "<0.1 %%");
    else
        snprintf(text, 16, "%.1f %%", percent);
    return text;
}

char *vt_format_count(uint64_t count, char *text)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, count);
    char *end = text;

    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            *end++ = ',';
        *end++ = digits[i];
    }
    *end = '\0';
    return text;
}

const char *vt_short_path(const struct vt_trace *trace, const char *path)
{
    const char *folder = trace->working_folder ? trace->working_folder : "";
    size_t length = strlen(folder);
    const char *cut = NULL, *in_packages = vt_path_in_packages(path);

    if (in_packages)
        return in_packages;
    if (length > 1 && !strncmp(path, folder, length) && path[length] == '/')
        return path + length + 1;
    if (path[0] != '/')
        return path;
    for (const char *end = path + strlen(path); end > path; end--) {
        if (*end != '/')
            continue;
        if (cut)
            return end + 1;
        cut = end;
    }
    return path;
}
