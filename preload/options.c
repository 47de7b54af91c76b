#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"

enum { RING_MINIMUM_BYTES = 256 << 10, RING_MAXIMUM_BYTES = 1 << 30 };

static bool parse_switch(const char *text, bool *value)
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

static bool parse_bytes(const char *text, uint64_t *value)
{
    static const struct {
        const char *unit;
        unsigned shift;
    } units[] = {{"", 0}, {"B", 0}, {"K", 10}, {"KiB", 10}, {"M", 20}, {"MiB", 20}, {"G", 30}, {"GiB", 30}};
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (end == text || errno || *text == '-')
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcasecmp(end, units[i].unit) && number <= UINT64_MAX >> units[i].shift) {
            *value = (uint64_t)number << units[i].shift;
            return true;
        }
    return false;
}

static void read_SWITCH(const char *name, const char *standard, bool *value)
{
    const char *text = getenv(name);
    parse_switch(standard, value);
    if (text && *text && !parse_switch(text, value))
        vt_log("%s=%s is not understood (0 or 1); using %s", name, text, standard);
}

static void read_TEXT(const char *name, const char *standard, const char **value)
{
    const char *text = getenv(name);
    *value = text && *text ? text : standard;
}

static void read_BYTES(const char *name, const char *standard, uint64_t *value)
{
    const char *text = getenv(name);
    uint64_t bytes;
    parse_bytes(standard, value);
    if (!text || !*text)
        return;
    if (!parse_bytes(text, &bytes) || bytes < RING_MINIMUM_BYTES || bytes > RING_MAXIMUM_BYTES)
        vt_log("%s=%s is not understood (256KiB to 1GiB); using %s", name, text, standard);
    else
        *value = bytes;
}

void vt_options_read(struct vt_options *options)
{
    struct {
        const char *OUT;
        bool QUIET, ENABLE, NATIVE_STACKS, PYTHON_STACKS, INSPECT;
        uint64_t RING;
    } read;
#define X(name, kind, standard, help) read_##kind("VRAMTRACE_" #name, standard, &read.name);
#include "options.def"
#undef X
    *options = (struct vt_options){.out = read.OUT,
                                   .quiet = read.QUIET,
                                   .enable = read.ENABLE,
                                   .native = read.NATIVE_STACKS,
                                   .python = read.PYTHON_STACKS,
                                   .inspect = read.INSPECT,
                                   .ring_bytes = read.RING};
}

/* The launchers' names for the rank of a process among all of a run. */
static const char *rank_text(void)
{
    static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text && *text && strspn(text, "0123456789") == strlen(text))
            return text;
    }
    return NULL;
}

static const char *expand(char letter, const char *host, char pid[16])
{
    const char *rank = rank_text();
    snprintf(pid, 16, "%d", (int)getpid());
    switch (letter) {
    case 'p':
        return pid;
    case 'r':
        return rank ? rank : pid;
    case 'h':
        return host;
    case '%':
        return "%";
    default:
        return NULL;
    }
}

int vt_options_path(const struct vt_options *options, const char *host, int attempt, char *path, size_t bytes)
{
    char pattern[4096], pid[16];
    struct stat status;
    size_t used = 0;
    bool folder = options->out[strlen(options->out) - 1] == '/' ||
                  (stat(options->out, &status) == 0 && S_ISDIR(status.st_mode));
    if (snprintf(pattern, sizeof pattern, "%s%s", options->out, folder ? "/vramtrace.%h.%r.vrt" : "") >=
        (int)sizeof pattern)
        return -ENAMETOOLONG;
    size_t length = strlen(pattern);
    size_t stem = length > 4 && !strcmp(pattern + length - 4, ".vrt") ? length - 4 : length;
    for (size_t i = 0; i <= length; i++) {
        const char *part = NULL;
        char one[16] = {pattern[i], 0};
        if (i == stem && attempt) {
            int written = snprintf(path + used, bytes - used, ".%d", attempt);
            if (written < 0 || (used += (size_t)written) >= bytes)
                return -ENAMETOOLONG;
        }
        if (pattern[i] == '%' && (part = expand(pattern[i + 1], host, pid)))
            i++;
        else
            part = one;
        size_t part_length = strlen(part);
        if (used + part_length >= bytes)
            return -ENAMETOOLONG;
        memcpy(path + used, part, part_length);
        used += part_length;
    }
    path[used] = 0;
    return 0;
}
