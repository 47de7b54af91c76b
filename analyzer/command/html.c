/* html: one page about one trace, the traces of a job, or two to compare. */
#include "command/load.h"
#include "command/output.h"
#include "command/temporary.h"
#include "command/traces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/format.h"
#include "base/open_file.h"
#include "findings/findings.h"
#include "findings/diff.h"
#include "job/job.h"
#include "job/process.h"
#include "view/html/page.h"

#define FOLDER_PAGE "vramtrace.html" /* in a folder of traces */
#define MANY_TRACES 16u              /* then the page has less of each: 200 ranks are at most 8 MB */
#define EVERY_GROUP ((1u << VT_BY_COUNT) - 1)

/* ---- Which traces, and where to ---- */

static int list_traces(const struct vt_arguments *arguments, struct vt_files *files)
{
    int status = vt_files_find(arguments, files);

    if (!status && arguments->diff && files->count != 2)
        status = vt_wrong_use("--diff compares two traces, not %zu: vramtrace html --diff A B", files->count);
    return status;
}

/* "run.html" of "run.vrt"; of a folder, a file in it. The caller frees it. */
static char *usual_output(const char *operand)
{
    if (vt_is_folder(operand))
        return vt_print_text("%s%s" FOLDER_PAGE, operand, operand[strlen(operand) - 1] == '/' ? "" : "/");
    return vt_print_text("%.*s.html", (int)vt_stem_bytes(operand), operand);
}

/* ---- The page ---- */

/* A loaded trace, with the report of the moment when memory ran out, if it did; `count`: of all traces. */
static int load_trace(const struct vt_arguments *arguments, const char *path, size_t count,
                      struct vt_loaded *loaded, struct vt_report **oom)
{
    const bool many = count > MANY_TRACES;
    struct vt_report_options options = {.device_index = arguments->device,
                                        .groups = many ? 1u << VT_BY_MODULE | 1u << VT_BY_LINE : EVERY_GROUP,
                                        .shown_only = true,
                                        .oom = VT_AT_OOM_NEVER,
                                        .timeline_columns = many ? VT_PAGE_COLUMNS / 5 : VT_PAGE_COLUMNS};
    int result = vt_load_report(arguments, path, &options,
                                VT_FIND_LEAKS | VT_FIND_ADVICE | VT_FIND_FRAGMENTATION | VT_FIND_STEPS |
                                    VT_FIND_CARD | VT_FIND_GRAPH_POOLS,
                                loaded);

    *oom = NULL;
    if (result || !loaded->report->refusal_count)
        return result;
    options.oom = VT_AT_OOM_ONLY;
    options.timeline_columns = 1;
    return vt_make_report(path, loaded, &options, VT_FIND_LEAKS | VT_FIND_SHORTAGE, oom);
}

static void add_comparison(const struct vt_loaded sides[2], struct vt_html *page)
{
    struct vt_diff *diff;

    diff = vt_diff_make(sides[0].report, sides[1].report, EVERY_GROUP);
    vt_html_compare(page, diff);
    vt_diff_free(diff);
}

/* Frees the processes. */
static void add_job(const struct vt_arguments *arguments, struct vt_job_process *processes, size_t count,
                    struct vt_html *page)
{
    struct vt_job *job = vt_job_make(arguments->operands[0], processes, count, NULL, 0, false);

    job->operand = arguments->operand_count == 1 ? arguments->operands[0] : NULL;
    if (count > 1)
        vt_html_add_job(page, job);
    vt_job_free(job);
}

/* A comparison needs both traces at once; otherwise each is freed before the next is read. Traces of a folder
 * that cannot be read are left out, and the page says so: a rank that died must not hide the others. */
static int add_traces(const struct vt_arguments *arguments, const struct vt_files *files, size_t *left_out,
                      struct vt_html *page)
{
    struct vt_loaded loaded[2] = {{0}};
    struct vt_job_process *processes = vt_allocate_zeros(files->count, sizeof *processes);
    size_t read = 0;
    int result = 0;

    for (size_t i = 0; !result && i < files->count; i++) {
        struct vt_loaded *at = &loaded[arguments->diff ? i : 0];
        struct vt_report *oom = NULL;

        vt_unload(at);
        result = load_trace(arguments, files->items[i].path, files->count, at, &oom);
        if (!result)
            vt_html_add(page, at->report, oom);
        if (!result && !arguments->diff)
            vt_job_process_read(at->report, &processes[read++]);
        vt_report_free(oom);
        if (result != VT_EXIT_UNREADABLE || !files->items[i].found || arguments->diff)
            continue;
        vt_html_leave_out(page, files->items[i].path);
        result = ++*left_out < files->count ? 0 : result;
    }
    if (!result && arguments->diff)
        add_comparison(loaded, page);
    add_job(arguments, processes, read, page);
    vt_unload(&loaded[0]);
    vt_unload(&loaded[1]);
    return result;
}

static int add_trials(const char *path, bool redact, struct vt_html *page)
{
    struct stat status;
    const int file = vt_open_regular(path, &status);
    const size_t bytes = file < 0 ? 0 : (size_t)status.st_size;
    char *text = vt_allocate(bytes + 1);
    const ssize_t got = file < 0 ? -1 : read(file, text, bytes);
    const int error = errno;
    const bool good = got >= 0 && vt_html_add_trials(page, text, (size_t)got, redact);

    if (file >= 0)
        close(file);
    free(text);
    if (got < 0)
        return vt_wrong_use("%s: %s", path, strerror(error));
    return good ? 0 : vt_wrong_use("%s: not what vramtrace dryrun --try --json FILE writes", path);
}

/* Shows a page with $BROWSER, which may have arguments, else xdg-open. A browser in the terminal needs the
 * terminal, so this waits for it. */
static void open_page(const char *path)
{
    const char *browser = getenv("BROWSER");
    const char *program = browser && browser[0] ? browser : "xdg-open";
    char *full = realpath(path, NULL);
    char *script =
        vt_print_text("set -- %s \"$1\"; command -v \"$1\" >/dev/null || exit 127; exec \"$@\"", program);
    int ended = -1;

    if (full && (vt_temporary_run((char *[]){"sh", "-c", script, "sh", full, NULL}, &ended) || ended))
        vt_say("%s could not open %s; set BROWSER, or open it yourself", program, path);
    free(script);
    free(full);
}

/* The file is complete before anything is said about it. */
static int finish_page(const struct vt_arguments *arguments, struct vt_output *output, size_t traces,
                       int status)
{
    const char *next = arguments->open ? "" : "; open it in a browser, or add --open";
    const char *path = output->path;
    long bytes = !status && output->stream ? ftell(output->stream) : -1;
    char size[32];

    status = vt_output_end(output, status);
    *output = (struct vt_output){.stream = stdout};
    if (!status && path && traces > 1)
        vt_say("wrote %s (%s, %zu traces)%s", path, vt_format_bytes(bytes > 0 ? (uint64_t)bytes : 0, size),
               traces, next);
    else if (!status && path)
        vt_say("wrote %s (%s)%s", path, vt_format_bytes(bytes > 0 ? (uint64_t)bytes : 0, size), next);
    if (!status && path && arguments->open)
        open_page(path);
    return status;
}

static int write_page(const struct vt_arguments *arguments, const struct vt_files *files,
                      struct vt_output *output)
{
    char *usual = arguments->output ? NULL : usual_output(arguments->operands[0]);
    struct vt_html *page = vt_html_make();
    size_t left_out = 0;
    int status;

    status = arguments->trials ? add_trials(arguments->trials, arguments->redact, page) : 0;
    if (!status)
        status = add_traces(arguments, files, &left_out, page);
    if (!status && usual)
        status = vt_output_begin(usual, output);
    if (!status)
        status = vt_written(output, vt_html_write(page, arguments->title, output->stream));
    vt_html_free(page);
    status = finish_page(arguments, output, files->count - left_out, status);
    if (!status && left_out) {
        vt_say("skipped %zu of %zu traces that could not be read", left_out, files->count);
        status = VT_EXIT_UNREADABLE;
    }
    free(usual);
    return status;
}

int vt_command_html(struct vt_arguments *arguments, struct vt_output *output)
{
    struct vt_files files = {0};
    int status = 0;

    if (!output->path && arguments->output && isatty(fileno(output->stream)))
        status = vt_wrong_use("refusing to write HTML to the terminal; use -o report.html");
    else if (arguments->open && arguments->output && !output->path)
        status = vt_wrong_use("--open needs a file: use -o report.html");
    if (!status)
        status = list_traces(arguments, &files);
    if (!status)
        status = write_page(arguments, &files, output);
    vt_files_free(&files);
    return status;
}
