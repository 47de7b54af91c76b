/* The last line: how the command ended, what matters in its trace, and what to read next. */
#include "command/run_line.h"
#include "command/load.h"
#include "command/output.h"
#include "command/run_list.h"
#include "command/run_wait.h"
#include "command/traces.h"

#include "findings/findings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vramtrace/format.h"
#include "base/format.h"
#include "base/heap.h"
#include "base/memory_stream.h"
#include "report/report.h"

#define MOST_EVENTS UINT64_C(5000000)
#define PATIENCE_MS 500 /* the variable is for tests */
#define VERDICT_BYTES 512u

/* A trace that began since then is where traces go: its recorder could not reach the list (it has another
 * user, or /proc is not there), and printed a line. */
static bool is_one_there(uint64_t begin_ns)
{
    const char *out = getenv("VRAMTRACE_OUT");
    char path[2 * PATH_MAX], *slash;
    struct stat status;
    bool found = false;
    struct dirent *entry;
    DIR *folder;
    size_t bytes;

    snprintf(path, PATH_MAX, "%s", out && out[0] ? out : ".");
    slash = strrchr(path, '/');
    if (slash && (stat(path, &status) || !S_ISDIR(status.st_mode)))
        slash[1] = '\0';
    folder = opendir(path);
    bytes = strlen(path);
    while (folder && !found && (entry = readdir(folder))) {
        snprintf(path + bytes, sizeof path - bytes, "/%s", entry->d_name);
        found = strstr(entry->d_name, ".vrt") && vt_trace_start(path) >= begin_ns;
    }
    if (folder)
        closedir(folder);
    return found;
}

/* ---- One trace ---- */

/* Its process is gone and waited for: nobody else writes this field. */
static void note_end(const char *path, const struct vt_run_end *end)
{
    struct vt_file_header header;
    int file;

    if (!end->signal || !vt_run_read_header(path, O_RDWR, &file, &header))
        return;
    if (header.pid == (uint32_t)end->pid && header.start_realtime_ns >= end->begin_real_ns &&
        pwrite(file, &end->signal, sizeof end->signal, offsetof(struct vt_file_header, end_signal)) < 0)
        vt_say("%s: %s", path, strerror(errno));
    close(file);
}

/* As the recorder counted. */
static void print_counted_peak(const struct vt_file_header *header, FILE *out)
{
    const char *join = "peak ";
    char bytes[32];

    for (unsigned i = 0; i < VT_MAX_DEVICES; i++) {
        const struct vt_live_device *live = &header->counters.live[i];
        uint64_t peak = live->block_peak_bytes ? live->block_peak_bytes : live->driver_peak_bytes;

        if (peak)
            fprintf(out, "%s%s on GPU %u", join, vt_format_bytes(peak, bytes), i);
        join = peak ? ", " : join;
    }
    fputs(join[0] == 'p' ? "peak 0 B" : "", out);
}

static void print_peak(const struct vt_report *report, FILE *out)
{
    const char *join = "peak ";
    char bytes[32];

    for (size_t i = 0; i < report->device_count; i++) {
        const uint64_t peak = report->devices[i].peak.state.used_bytes;

        if (peak)
            fprintf(out, "%s%s on GPU %d", join, vt_format_bytes(peak, bytes), report->devices[i].index);
        join = peak ? ", " : join;
    }
    fputs(join[0] == 'p' ? "peak 0 B" : "", out);
}

static void print_refusal(const struct vt_report *report, const struct vt_run_end *end, FILE *out)
{
    const struct vt_oom *refusal = &report->refusals[report->shown_refusal];
    const bool failed = end->status != 0;
    const uint64_t tried = refusal->tried_bytes, asked = refusal->asked_bytes;
    char bytes[32], step[32] = "";

    if (refusal->step)
        snprintf(step, sizeof step, " at step %" PRIu32, refusal->step);
    fprintf(out, "%s%s%s: %s needed", failed && refusal->ends_run ? "OUT OF MEMORY" : "out of memory", step,
            failed ? "" : " (caught)", vt_format_bytes(tried > asked ? tried : asked, bytes));
    if (refusal->of_framework && !refusal->driver_tries)
        fputs(", over the framework's own limit", out);
    else if (refusal->free_known)
        fprintf(out, ", %s%s free", refusal->free_told ? "" : "at most ",
                vt_format_bytes(refusal->free_bytes, bytes));
}

/* The device that leaks most; NULL = none does. */
static const struct vt_device_report *largest_leak(const struct vt_report *report)
{
    const struct vt_device_report *largest = NULL;

    for (size_t i = 0; i < report->device_count; i++) {
        const struct vt_leaks *leaks = &report->devices[i].leaks;

        if (leaks->leak_count && (!largest || leaks->bytes_per_step > largest->leaks.bytes_per_step))
            largest = &report->devices[i];
    }
    return largest;
}

/* The command that shows more, and after a NUL what it says in a few words. */
static void print_verdict(const struct vt_report *report, const struct vt_run_end *end, FILE *out)
{
    const struct vt_device_report *leaking = largest_leak(report);
    const bool ran_out = report->refusal_count && (!leaking || end->status != 0);
    char bytes[32];

    fprintf(out, "%s%c", ran_out ? "oom" : leaking ? "leaks" : "report", 0);
    if (report->facts.stopped)
        fprintf(out, "%s; ", report->facts.outcome);
    if (ran_out) {
        print_refusal(report, end, out);
    } else if (leaking) {
        fprintf(out, "leak: +%s per step", vt_format_bytes(leaking->leaks.bytes_per_step, bytes));
        if (report->device_count > 1)
            fprintf(out, " on GPU %d", leaking->index);
    } else {
        print_peak(report, out);
    }
}

static void judge_trace(const char *path, const struct vt_run_end *end, FILE *out)
{
    const struct vt_report_options options = {
        .device_index = -1, .groups = VT_NO_GROUPS, .timeline_columns = VT_NO_TIMELINE};
    struct vt_loaded loaded = {.rules = NULL};
    char *error;

    vt_heap_prepare();
    if (vt_open(path, &loaded, &error))
        return;
    if (!vt_try_report(&loaded, &options, VT_FIND_LEAKS, &loaded.report, &error))
        print_verdict(loaded.report, end, out);
    fflush(out);
}

/* In a process of its own, which can be stopped when it takes too long. Bytes of `verdict`, 0 = none. */
static size_t ask_judge(const char *path, const struct vt_run_end *end, char verdict[VERDICT_BYTES])
{
    const char *patience = getenv("VRAMTRACE_LAST_LINE_MS");
    int ends[2], milliseconds = patience ? atoi(patience) : PATIENCE_MS;
    pid_t judge_pid;
    ssize_t bytes = 0;

    if (pipe2(ends, O_CLOEXEC))
        return 0;
    judge_pid = fork();
    if (!judge_pid) {
        FILE *out = fdopen(ends[1], "w");

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (out)
            judge_trace(path, end, out);
        _exit(0);
    }
    close(ends[1]);
    if (judge_pid > 0) {
        if (poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, milliseconds) > 0)
            bytes = read(ends[0], verdict, VERDICT_BYTES - 1);
        kill(judge_pid, SIGKILL);
        waitpid(judge_pid, NULL, 0);
    }
    close(ends[0]);
    verdict[bytes > 0 ? bytes : 0] = '\0';
    return bytes > 0 ? (size_t)bytes : 0;
}

/* ---- The line ---- */

/* As the user would name it from here. */
static const char *from_here(const char *path)
{
    static char folder[PATH_MAX];
    size_t bytes = getcwd(folder, sizeof folder) ? strlen(folder) : 0;

    return bytes > 1 && !strncmp(path, folder, bytes) && path[bytes] == '/' ? path + bytes + 1 : path;
}

void vt_run_put_place(const char *path, bool folder, FILE *out)
{
    const char *name = from_here(path), *slash = strrchr(name, '/');

    if (!folder)
        fputs(name, out);
    else if (slash)
        fprintf(out, "%.*s", (int)(slash + 1 - name), name);
    else
        fputs(".", out);
}

static void put_one(const struct vt_run_trace *trace, const struct vt_run_end *end, const char *dot,
                    FILE *out)
{
    struct vt_file_header header = {.counters.events = 0};
    char verdict[VERDICT_BYTES] = "report";
    size_t bytes = 0;
    int file;

    if (trace->pid == end->pid)
        note_end(trace->path, end);
    if (vt_run_read_header(trace->path, O_RDONLY, &file, &header))
        close(file);
    if (header.counters.events <= MOST_EVENTS)
        bytes = ask_judge(trace->path, end, verdict);
    if (bytes > strlen(verdict) + 1) {
        fputs(verdict + strlen(verdict) + 1, out);
    } else {
        strcpy(verdict, "report");
        print_counted_peak(&header, out);
    }
    fprintf(out, "%svramtrace %s ", dot, verdict);
    vt_run_put_place(trace->path, trace->of_job, out);
}

static void put_several(const struct vt_run_traces *traces, const char *dot, FILE *out)
{
    const char *path = traces->items[traces->count - 1].path;

    fprintf(out, "%zu traces in ", traces->count);
    vt_run_put_place(path, true, out);
    fprintf(out, "%svramtrace report ", dot);
    vt_run_put_place(path, true, out);
}

void vt_run_say(int list, const struct vt_run_end *end, vt_run_sayer *say)
{
    const char *dot = strcmp(nl_langinfo(CODESET), "UTF-8") ? "; " : " · ";
    struct vt_run_traces traces;
    char *line, ended[32];
    size_t bytes;
    FILE *out = vt_memory_stream(&line, &bytes);

    vt_say_as(NULL);
    vt_run_read_list(list, 0, &traces);
    if (!traces.count && !traces.incomplete)
        traces.incomplete = is_one_there(end->begin_real_ns);
    if (end->signal)
        fprintf(out, "%s%s", vt_format_end(end->signal, ended), dot);
    if (!traces.count)
        fputs("no CUDA call was seen: no trace", out);
    else if (traces.count == 1 && !say)
        put_one(traces.items, end, dot, out);
    else
        put_several(&traces, dot, out);
    fclose(out);
    if (say && traces.count)
        say(traces.items, traces.count, end);
    else if (traces.count || !traces.incomplete)
        vt_say("%s", line);
    free(line);
    vt_run_traces_free(&traces);
}
