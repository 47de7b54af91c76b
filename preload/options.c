#include "options.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "option_values.h"
#include "text.h"
#include "vramtrace/ring.h"

enum { FLIGHT_BYTES = 1 << 30 };

/* The first setting that is not understood, for a line on stderr later: right now the host may be about to
 * reuse descriptor 2. */
static char complaint[512];

static void note_wrong_value(const char *name, const char *text, const char *wanted, const char *standard)
{
    if (!complaint[0])
        snprintf(complaint, sizeof complaint, "%s=%.200s is not understood (%s); using %s", name, text,
                 wanted, standard);
}

#define X(kind, type, allowed)                                                                               \
    static void read_##kind(const char *name, const char *standard, type *value)                             \
    {                                                                                                        \
        const char *text = getenv(name);                                                                     \
        vt_value_##kind(standard, value);                                                                    \
        if (text && *text && !vt_value_##kind(text, value))                                                  \
            note_wrong_value(name, text, allowed, standard);                                                 \
    }
VT_VALUE_KINDS(X)
#undef X

static void read_PATH(const char *name, const char *standard, char (*value)[4096])
{
    const char *text = getenv(name);
    if (!text || !*text)
        text = standard;
    vt_text_copy(*value, sizeof *value, text); /* if too long: "", which is no file name either */
}

/* The rank, from whichever launcher's variable is set. */
static void read_rank(char rank[16])
{
    static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof *names && !rank[0]; i++) {
        const char *text = getenv(names[i]);
        if (text && strlen(text) < 16 && strspn(text, "0123456789") == strlen(text))
            snprintf(rank, 16, "%s", text);
    }
}

/* A variable that does not fit is left out: no launcher's is that long. */
static void read_launch(struct vt_options *options)
{
    static const char *const names[] = {
#define X(name) #name,
#include "launch.def"
#undef X
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        const size_t left = sizeof options->launch - options->launch_bytes;
        int bytes =
            text ? snprintf(options->launch + options->launch_bytes, left, "%s=%s", names[i], text) : -1;
        if (bytes >= 0 && (size_t)bytes < left)
            options->launch_bytes += (size_t)bytes + 1;
    }
}

static struct vt_options as_loaded;
static _Atomic bool was_read;

static void read_surroundings(void)
{
    const char *folder = getenv("XDG_RUNTIME_DIR"), *ring = getenv("VRAMTRACE_RING"),
               *list = getenv(VT_RUN_VARIABLE);
    if (folder && folder[0] == '/') /* one that is too long is ignored */
        vt_text_copy(as_loaded.runtime_folder, sizeof as_loaded.runtime_folder, folder);
    vt_text_copy(as_loaded.run_list, sizeof as_loaded.run_list, list ? list : "");
    as_loaded.ring_was_set = ring && *ring;
    if (as_loaded.flight && !as_loaded.limit_bytes)
        as_loaded.limit_bytes = FLIGHT_BYTES;
    read_rank(as_loaded.rank);
    read_launch(&as_loaded);
}

/* A set-uid program that /etc/ld.so.preload brings us into: whoever starts it must not choose what it writes. */
static bool is_privileged(void)
{
    return getauxval(AT_SECURE) != 0;
}

static void read_all(void)
{
    if (is_privileged()) { /* nothing is set, and so nothing enabled */
        vt_log_start(true);
        return;
    }
#define X(name, kind, field, standard, help) read_##kind("VRAMTRACE_" #name, standard, &as_loaded.field);
#include "options.def"
#undef X
    read_surroundings();
    vt_log_start(as_loaded.quiet);
}

/* Another library's constructor may use CUDA before ours runs: then the settings are read at that moment. */
__attribute__((constructor)) static void at_load(void)
{
    if (!atomic_exchange(&was_read, true))
        read_all();
}

const struct vt_options *vt_options(void)
{
    at_load();
    return &as_loaded;
}

void vt_options_complain(void)
{
    if (complaint[0])
        vt_log("%s", complaint);
    complaint[0] = 0;
}

static const char *expand_letter(const struct vt_options *options, char letter, const char *host,
                                 char pid[16])
{
    snprintf(pid, 16, "%d", (int)getpid());
    switch (letter) {
    case 'p':
        return pid;
    case 'r':
        return options->rank[0] ? options->rank : pid;
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
    const size_t out_bytes = strlen(options->out);
    const bool exists = stat(options->out, &status) == 0;
    const bool slash = out_bytes && options->out[out_bytes - 1] == '/';
    const bool folder = slash || (exists && S_ISDIR(status.st_mode));
    if (!out_bytes)
        return -ENAMETOOLONG;
    if (exists && !folder && !S_ISREG(status.st_mode)) /* a device or a pipe */
        return -EINVAL;
    if (snprintf(pattern, sizeof pattern, "%s%s%s", options->out, folder && !slash ? "/" : "",
                 folder ? "vramtrace.%h.%r.vrt" : "") >= (int)sizeof pattern)
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
        if (pattern[i] == '%' && (part = expand_letter(options, pattern[i + 1], host, pid)))
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
