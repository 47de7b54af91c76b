/* Which trace is meant (the newest of a folder where none is named), and opening it. */
#include "attribute/stack_kinds.h"
#include "command/command.h"
#include "diagnose/diagnose.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "vramtrace/format.h"

#define TRACE_NAMES "*.vrt"

struct search {
    const char *folder;
    bool (*matches)(const struct search *search, const char *name);
    const char *base;           /* of siblings: the name before the number */
    const struct stat *without; /* a file to ignore; NULL = none */
    char *path;                 /* the newest, NULL = none; the caller frees it */
    uint64_t start_ns;          /* its start, CLOCK_REALTIME */
    time_t written; /* a process's trace and its snapshots start together: the last one written counts */
    unsigned count; /* traces that match */
};

uint64_t vt_trace_start(const char *path, struct stat *status)
{
    struct vt_file_header header;

    return vt_read_start(path, status, &header);
}

uint64_t vt_read_start(const char *path, struct stat *status, struct vt_file_header *header)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t bytes = -1;

    memset(header, 0, sizeof *header);
    if (file >= 0 && !fstat(file, status) && S_ISREG(status->st_mode))
        bytes = pread(file, header, sizeof *header, 0);
    if (file >= 0)
        close(file);
    if (bytes < 0)
        return 0;
    if (!memcmp(header->magic, VT_MAGIC, sizeof header->magic))
        return header->start_realtime_ns;
    for (size_t i = 0; i < sizeof header->magic; i++)
        if (header->magic[i])
            return 0;
    return (uint64_t)status->st_mtim.tv_sec * 1000000000u + (uint64_t)status->st_mtim.tv_nsec;
}

static void consider(struct search *search, const char *name)
{
    struct stat status;
    uint64_t start_ns;
    char *path;

    if (!search->matches(search, name))
        return;
    path = vt_print_text("%s%s%s", search->folder, search->folder[0] ? "/" : "", name);
    start_ns = vt_trace_start(path, &status);
    if (!start_ns || (search->without && status.st_dev == search->without->st_dev &&
                      status.st_ino == search->without->st_ino)) {
        free(path);
        return;
    }
    search->count++;
    if (search->path && (start_ns != search->start_ns         ? start_ns < search->start_ns
                         : status.st_mtime != search->written ? status.st_mtime < search->written
                                                              : strcmp(path, search->path) < 0)) {
        free(path);
        return;
    }
    free(search->path);
    search->path = path;
    search->start_ns = start_ns;
    search->written = status.st_mtime;
}

static void find(struct search *search)
{
    DIR *folder = opendir(search->folder[0] ? search->folder : ".");
    struct dirent *entry;

    while (folder && (entry = readdir(folder)))
        consider(search, entry->d_name);
    if (folder)
        closedir(folder);
}

static bool exists(const char *path)
{
    struct stat status;

    return !stat(path, &status);
}

char *vt_split_moment(const char *operand, const char **moment)
{
    const char *at = operand + strlen(operand);
    char *path = vt_copy_text(operand);

    *moment = NULL;
    while (!exists(path)) {
        do
            at--;
        while (at > operand && *at != '@');
        if (at <= operand) {
            strcpy(path, operand);
            path[strcspn(path, "@")] = '\0';
            *moment = NULL;
            break;
        }
        path[at - operand] = '\0';
        *moment = at + 1;
    }
    return path;
}

static bool is_called_trace(const struct search *search, const char *name)
{
    (void)search;
    return !fnmatch(TRACE_NAMES, name, FNM_PERIOD);
}

/* A lone operand that is a source file, not a trace. */
static bool is_lone_file(const struct vt_command *command, const struct vt_arguments *arguments)
{
    bool one = command->takes == VT_TAKES_FILE && arguments->operand_count == 1;
    const char *name = one ? arguments->operands[0] : "", *dot = strrchr(name, '.');
    struct stat status;

    return dot && strcmp(dot, ".vrt") != 0 && !vt_trace_start(name, &status);
}

int vt_find_traces(const struct vt_command *command, struct vt_arguments *arguments)
{
    struct search search = {.folder = "", .matches = is_called_trace};
    struct stat given;
    bool compares = command->takes == VT_TAKES_TWO, lone_file = is_lone_file(command, arguments);
    const char *moment;
    char *first;

    if (arguments->operand_count != (compares || lone_file ? 1 : 0) || command->takes == VT_TAKES_NOTHING ||
        command->takes == VT_TAKES_PATHS)
        return 0;
    first = compares ? vt_split_moment(arguments->operands[0], &moment) : NULL;
    if (first && !stat(first, &given))
        search.without = &given;
    free(first);
    find(&search);
    if (!search.path)
        return vt_wrong_use(command,
                            compares ? "no other trace (" TRACE_NAMES
                                       ") in this folder to compare with; name two traces, or two "
                                       "moments of one: vramtrace %s TRACE@step:2 TRACE@step:9"
                                     : "no trace (" TRACE_NAMES
                                       ") in this folder; name one: vramtrace %s TRACE (record one with: "
                                       "vramtrace run COMMAND)",
                            command->name);
    vt_say(command, "%s %s%s", compares ? "comparing with" : "reading", search.path,
           search.count > 1 ? ", the newest trace in this folder" : "");
    if (compares)
        arguments->found[0] = arguments->operands[0];
    if (lone_file)
        arguments->found[1] = arguments->operands[0];
    arguments->found[lone_file ? 0 : arguments->operand_count] = arguments->found_path = search.path;
    arguments->operand_count++;
    arguments->operands = arguments->found;
    return 0;
}

/* "x" of "x.vrt"; NULL for another name. */
static char *stem_of(const char *name)
{
    size_t length = strlen(name);

    return length > 4 && !strcmp(name + length - 4, ".vrt") ? vt_copy_bytes(name, length - 4) : NULL;
}

/* "BASE.2.vrt": what the recorder calls a trace whose name is taken. */
static bool is_sibling(const struct search *search, const char *name)
{
    size_t bytes = strlen(search->base), digits;

    if (strncmp(name, search->base, bytes) || name[bytes] != '.')
        return false;
    digits = strspn(name + bytes + 1, "0123456789");
    return digits && !strcmp(name + bytes + 1 + digits, ".vrt");
}

/* The base of "x.1.vrt" is "x" only where x.vrt is there too; else the number may be a rank. */
static bool cut_number(const char *folder, char *stem)
{
    char *dot = strrchr(stem, '.'), *path;
    bool there;

    if (!dot || dot == stem || !dot[1] || dot[1 + strspn(dot + 1, "0123456789")])
        return false;
    *dot = '\0';
    path = vt_print_text("%s%s%s.vrt", folder, folder[0] ? "/" : "", stem);
    there = !access(path, F_OK);
    free(path);
    return there;
}

/* TRACE, TRACE@MOMENT or the baseline. */
static bool is_named(const struct vt_arguments *arguments, const char *path)
{
    size_t bytes = strlen(path);

    for (int i = 0; i < arguments->operand_count; i++)
        if (!strncmp(arguments->operands[i], path, bytes) &&
            (!arguments->operands[i][bytes] || arguments->operands[i][bytes] == '@'))
            return true;
    return arguments->baseline && !strcmp(arguments->baseline, path);
}

/* A line on stderr if there is a newer trace of that name: a recorder whose "x.vrt" is taken writes
 * "x.1.vrt". */
static void warn_of_newer(const struct vt_command *command, const struct vt_arguments *arguments,
                          const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *folder = vt_copy_bytes(path, !slash          ? 0
                                       : slash == path ? 1
                                                       : (size_t)(slash - path)),
         *stem = stem_of(name);
    struct stat status;
    uint64_t start_ns = stem ? vt_trace_start(path, &status) : 0;
    struct search search = {.folder = folder, .matches = is_sibling, .base = stem};
    char later[32];

    if (start_ns) {
        find(&search);
        if (cut_number(folder, stem))
            find(&search);
    }
    if (search.path && search.start_ns > start_ns && !is_named(arguments, search.path))
        vt_say(command, "note: %s is newer than %s (recorded %s later)", search.path, path,
               vt_format_duration(search.start_ns - start_ns, later));
    free(search.path);
    free(folder);
    free(stem);
}

/* ---- Opening ---- */

/* What to do about a trace that cannot be read. */
static const char *advice(int error)
{
    switch (error) {
    case -ENOENT:
        return " (record one with: vramtrace run COMMAND)";
    case -EACCES:
        return "; only the user who recorded it may read it: chmod +r as that user";
    case -ENODATA:
        return "; run it again and look at its last line";
    default:
        return "";
    }
}

/* Traces with more events than this are thinned, except with --all-events. */
#define THIN_ABOVE_EVENTS UINT64_C(2000000)
#define BYTES_PER_EVENT 140u /* that an event takes in memory, at least */
/* How often a trace is read again for the moments that are asked for: with the events around a moment known,
 * it may turn out to be another one. */
#define MOST_TRIES 2

/* Commands whose output needs every event; export knows which of its tables and formats do. */
#define OF_EACH_EVENT (1u << VT_COMMAND_ANNOTATE)

/* The variable is for tests. */
uint64_t vt_thin_above(void)
{
    const char *above = getenv("VRAMTRACE_THIN_ABOVE");

    return above && *above ? strtoull(above, NULL, 10) : THIN_ABOVE_EVENTS;
}

int vt_refuse_long(const struct vt_command *command, const struct vt_arguments *arguments, const char *path,
                   const char *what)
{
    struct vt_file_header header = {.start_realtime_ns = 0};
    int file = arguments->all_events ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t bytes = file < 0 ? -1 : pread(file, &header, sizeof header, 0);
    struct stat status;
    const uint64_t file_bytes = file < 0 || fstat(file, &status) ? 0 : (uint64_t)status.st_size;
    char events[32], memory[32];

    if (file >= 0)
        close(file);
    /* What a damaged header says cannot be in the chunks. */
    if (bytes <= 0 || memcmp(header.magic, VT_MAGIC, sizeof header.magic) != 0 ||
        header.feature_bits & VT_FEATURE_FLIGHT || header.counters.events <= vt_thin_above() ||
        header.counters.events / VT_EVENTS_PER_BYTE > file_bytes)
        return 0;
    return vt_wrong_use(command,
                        "%s has %s events, and %s each of them: give --all-events (%s of memory or more)",
                        path, vt_format_count(header.counters.events, events), what,
                        vt_format_bytes(header.counters.events * BYTES_PER_EVENT, memory));
}

static void close_trace(struct vt_loaded *loaded)
{
    vt_attribution_free(loaded->attribution);
    vt_replay_free(loaded->replay);
    vt_trace_close(loaded->trace);
    loaded->attribution = NULL;
    loaded->replay = NULL;
    loaded->trace = NULL;
}

static int analyze(struct vt_loaded *loaded, const char *path, bool thinned, char *reason,
                   size_t reason_bytes)
{
    const struct vt_thinning thinning = {vt_thin_above(), loaded->asked.items, loaded->asked.count,
                                         vt_stack_kinds_find, loaded->head_only};
    int result = vt_trace_open(path, thinned ? &thinning : NULL, &loaded->trace, reason, reason_bytes);

    if (result)
        return result;
    loaded->thinned = loaded->trace->omitted_events > loaded->trace->unkept_events;
    loaded->replay = vt_replay_make(loaded->trace);
    return vt_attribute(loaded->trace, loaded->replay, loaded->rules, &loaded->attribution, reason,
                        reason_bytes);
}

/* Reads a trace, with the events around the moments that are asked for. */
static int open_again(struct vt_loaded *loaded, const char *path, bool thinned, char *error,
                      size_t error_bytes)
{
    char reason[PATH_MAX + 512] = "";
    int result = analyze(loaded, path, thinned, reason, sizeof reason);
    bool unread;

    if (!result && loaded->thinned && !vt_steps_agree(loaded->attribution)) {
        close_trace(loaded);
        result = analyze(loaded, path, false, reason, sizeof reason);
    }
    if (!result)
        return 0;
    if (result == -ENOMEM) /* to map the file */
        vt_end_out_of_memory();
    unread = !loaded->trace;
    if (unread)
        snprintf(error, error_bytes, "%s%s", reason[0] ? reason : strerror(-result), advice(result));
    else
        snprintf(error, error_bytes, "--rules: %s", reason);
    vt_unload(loaded);
    return unread ? VT_EXIT_UNREADABLE : VT_EXIT_WRONG_USE;
}

int vt_open(const char *path, const char *rules, bool thinned, struct vt_loaded *loaded, char *error,
            size_t error_bytes)
{
    *loaded = (struct vt_loaded){.rules = rules};
    return open_again(loaded, path, thinned, error, error_bytes);
}

int vt_open_head(const char *path, struct vt_loaded *loaded, char *error, size_t error_bytes)
{
    *loaded = (struct vt_loaded){.head_only = true};
    return open_again(loaded, path, true, error, error_bytes);
}

/* If there are too many, the oldest go. */
static void add_needs(struct vt_needs *asked, const struct vt_needs *more)
{
    for (size_t i = 0; i < more->count; i++) {
        if (asked->count == VT_NEEDS)
            memmove(asked->items, asked->items + 1, --asked->count * sizeof *asked->items);
        asked->items[asked->count++] = more->items[i];
    }
}

int vt_reach(struct vt_loaded *loaded, const struct vt_report_options *options, char *error,
             size_t error_bytes)
{
    int status = 0;

    for (int tries = 0; !status && loaded->thinned; tries++) {
        struct vt_needs needs;
        char *path;

        vt_report_needs(loaded->attribution, options, &needs);
        if (!needs.count)
            break;
        add_needs(&loaded->asked, &needs);
        path = vt_copy_text(loaded->trace->path);
        close_trace(loaded);
        if (open_again(loaded, path, tries < MOST_TRIES, error, error_bytes))
            status = VT_EXIT_UNREADABLE;
        free(path);
    }
    return status;
}

/* Opens it, and with `options` has what they ask for. */
static int load(const struct vt_command *command, const struct vt_arguments *arguments, const char *path,
                const struct vt_report_options *options, struct vt_loaded *loaded)
{
    char error[2 * PATH_MAX];
    struct stat status;
    int result;

    *loaded = (struct vt_loaded){0};
    if (!stat(path, &status) && S_ISDIR(status.st_mode)) {
        vt_say(command, "%s is a folder; name a trace in it", path);
        return VT_EXIT_UNREADABLE;
    }
    warn_of_newer(command, arguments, path);
    vt_progress_begin(true);
    result = vt_open(path, arguments->rules, !arguments->all_events && !(command->bit & OF_EACH_EVENT),
                     loaded, error, sizeof error);
    if (!result && options)
        result = vt_reach(loaded, options, error, sizeof error);
    vt_progress_end();
    if (result)
        vt_say(command, "%s", error);
    return result;
}

int vt_load(const struct vt_command *command, const struct vt_arguments *arguments, const char *path,
            struct vt_loaded *loaded)
{
    return load(command, arguments, path, NULL, loaded);
}

void vt_unload(struct vt_loaded *loaded)
{
    vt_report_free(loaded->report);
    close_trace(loaded);
    *loaded = (struct vt_loaded){0};
}

int vt_try_report(const struct vt_loaded *loaded, const struct vt_report_options *options, unsigned wanted,
                  struct vt_report **report, char *error, size_t error_bytes)
{
    if (vt_report_make(loaded->attribution, options, report, error, error_bytes)) {
        *report = NULL;
        return VT_EXIT_WRONG_USE;
    }
    vt_diagnose(*report, wanted);
    return 0;
}

int vt_make_report(const struct vt_command *command, const char *path, const struct vt_loaded *loaded,
                   const struct vt_report_options *options, unsigned wanted, struct vt_report **report)
{
    char error[512];
    int result;

    vt_progress_begin(false);
    result = vt_try_report(loaded, options, wanted, report, error, sizeof error);
    vt_progress_end();
    if (result)
        vt_say(command, "%s: %s", path, error);
    return result;
}

int vt_load_report(const struct vt_command *command, const struct vt_arguments *arguments, const char *path,
                   const struct vt_report_options *options, unsigned wanted, struct vt_loaded *loaded)
{
    int result = load(command, arguments, path, options, loaded);

    if (!result)
        result = vt_make_report(command, path, loaded, options, wanted, &loaded->report);
    if (result)
        vt_unload(loaded);
    return result;
}

void vt_begin_page(const struct vt_command *command, const struct vt_arguments *arguments,
                   struct vt_output *output)
{
    vt_pager_begin(command, arguments, output);
    if (output->has_page && output->separator)
        fputs(output->separator, output->stream);
    output->has_page = true;
}

int vt_for_each_trace(const struct vt_command *command, const struct vt_arguments *arguments,
                      struct vt_output *output, const char *separator,
                      int (*run)(const struct vt_command *command, const struct vt_arguments *arguments,
                                 const char *path, struct vt_output *output))
{
    int worst = 0;

    output->separator = separator;
    for (int i = 0; i < arguments->operand_count && !output->broken; i++) {
        int result = run(command, arguments, arguments->operands[i], output);

        worst = result > worst ? result : worst;
    }
    return worst;
}
