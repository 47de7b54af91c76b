/* export: a trace in the formats of other tools. Each output file holds one trace. */
#include "command/export.h"
#include "command/load.h"
#include "command/output.h"
#include "command/python.h"
#include "command/traces.h"
#include "base/format.h"
#include "findings/findings.h"
#include "view/exports.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum target { TO_STREAM, TO_FILE, TO_FOLDER }; /* TO_FILE: not a pipe */

struct format {
    const char *name, *suffix; /* of the file that is made in a folder */
    bool binary;               /* not for a terminal */
    bool one_moment;           /* what is alive at --at; else the whole trace */
    bool each_event;           /* holds every event or allocation */
    unsigned findings;         /* of enum vt_finding */
    vt_export_writer *write;
    enum target output;
    const char *usual_moment; /* without --at; NULL = the peak */
    const char *open;         /* how to open it; %s in it stands for its path, once */
    /* Turns what was written into the format; NULL = it already is. An exit status. */
    int (*finish_folder)(const char *folder, const char *trace);
    int (*finish)(FILE *written, const struct vt_output *output);
};

/* pyarrow writes Parquet: systems have no C library for it. */
static int make_parquet(const char *folder, const char *trace)
{
    const char *arguments[] = {NULL, NULL, "--trace", basename(trace), "--", folder, NULL};

    return vt_python_run(VT_PYTHON_PARQUET, arguments);
}

/* A pickle is Python's own. */
static int make_pickle(FILE *written, const struct vt_output *output)
{
    int from = dup(fileno(written)), to = dup(fileno(output->stream)); /* these stay open in the program */
    char numbers[2][16];
    const char *name = output->path ? output->path : "to the standard output",
               *arguments[] = {NULL, NULL, numbers[0], numbers[1], name, NULL};
    int status;

    snprintf(numbers[0], sizeof numbers[0], "%d", from);
    snprintf(numbers[1], sizeof numbers[1], "%d", to);
    rewind(written);
    status = vt_python_run(VT_PYTHON_MEMORY_VIZ, arguments);
    close(from);
    close(to);
    return status;
}

#define OF_TABLES (VT_FIND_STEPS | VT_FIND_LEAKS | VT_FIND_CARD)
static const struct format formats[] = {
    {"perfetto", ".pftrace", true, true, true, VT_FIND_STEPS, vt_perfetto_write, TO_STREAM, NULL,
     "open it at https://ui.perfetto.dev", NULL, NULL},
    {"pprof", ".pb.gz", true, true, false, 0, vt_pprof_write, TO_STREAM, NULL,
     "open it with: go tool pprof -http=: %s", NULL, NULL},
    {"speedscope", ".speedscope.json", false, true, false, 0, vt_speedscope_write, TO_STREAM, NULL,
     "open it at https://www.speedscope.app", NULL, NULL},
    {"folded", ".folded", false, true, false, 0, vt_folded_write, TO_STREAM, NULL,
     "draw it with: flamegraph.pl --countname bytes %s > flame.svg", NULL, NULL},
    {"memory-viz", ".pickle", true, true, true, VT_FIND_FRAGMENTATION, vt_memory_viz_write, TO_STREAM, "end",
     "open it at https://pytorch.org/memory_viz", NULL, make_pickle},
    {"csv", "-csv", false, false, true, OF_TABLES, vt_csv_write, TO_FOLDER, NULL, "one CSV file per table",
     NULL, NULL},
    {"sqlite", ".sqlite", true, false, true, OF_TABLES, vt_sqlite_write, TO_FILE, NULL,
     "query it with: sqlite3 %s", NULL, NULL},
    {"parquet", "-parquet", true, false, true, OF_TABLES, vt_csv_write, TO_FOLDER, NULL,
     "one Parquet file per table, for DuckDB, pandas or Polars", make_parquet, NULL},
};
_Static_assert(sizeof formats / sizeof *formats == VT_EXPORT_FORMATS, "as many as completions offer");

const char *vt_export_format_name(unsigned format)
{
    return formats[format].name;
}

/* csv with --table. */
static const struct format one_table = {
    "csv",     ".csv", false,       false, false, OF_TABLES, vt_csv_table_write,
    TO_STREAM, NULL,   "one table", NULL,  NULL};

/* Tables with a row for each event or allocation, or that refer to any event. */
#define OF_EACH_EVENT                                                                                        \
    (1u << VT_TABLE_EVENTS | 1u << VT_TABLE_ALLOCATIONS | 1u << VT_TABLE_TENSORS | 1u << VT_TABLE_INSTANTS | \
     1u << VT_TABLE_STEPS | 1u << VT_TABLE_PHASES | 1u << VT_TABLE_MARKS | 1u << VT_TABLE_REQUESTS)

static const struct format *find_format(const char *name)
{
    const char *names[VT_EXPORT_FORMATS + 1] = {0}, *nearest;
    char list[256] = "";

    for (size_t i = 0; i < VT_EXPORT_FORMATS; i++) {
        if (name && !strcmp(formats[i].name, name))
            return &formats[i];
        names[i] = formats[i].name;
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", names[i]);
    }
    nearest = name ? vt_nearest(name, names) : NULL;
    if (!name)
        vt_say("--format is required: %s", list);
    else if (nearest)
        vt_say("unknown format '%s'; did you mean %s?", name, nearest);
    else
        vt_say("unknown format '%s'; --format takes %s", name, list);
    return NULL;
}

/* ---- Where to ---- */

/* The output of a trace: -o, or in the folder -o a file named after the trace. The caller frees it. */
static char *target_of(const char *output, const char *trace, const struct format *format)
{
    const char *name = basename(trace);
    size_t folder = strlen(output);

    if (!vt_is_folder(output))
        return vt_copy_text(output);
    while (folder > 1 && output[folder - 1] == '/')
        folder--;
    return vt_print_text("%.*s/%.*s%s", (int)folder, output, (int)vt_stem_bytes(name), name, format->suffix);
}

/* Two traces with the same name, in different folders, would get the same output file. */
static int check_names(const struct vt_arguments *arguments, const struct format *format)
{
    int result = 0;

    for (int i = 0; i < arguments->operand_count && !result; i++) {
        char *one = target_of(arguments->export_path, arguments->operands[i], format);
        for (int k = 0; k < i && !result; k++) {
            char *last = target_of(arguments->export_path, arguments->operands[k], format);
            if (!strcmp(last, one))
                result = vt_wrong_use("%s and %s would both become %s: export them into different folders",
                                      arguments->operands[k], arguments->operands[i], one);
            free(last);
        }
        free(one);
    }
    return result;
}

static int check_target(const struct vt_arguments *arguments, const struct format *format)
{
    const char *output = arguments->export_path;
    bool to_stream = !output || !strcmp(output, "-");

    if (arguments->summary && (format->one_moment || arguments->table >= 0))
        return vt_wrong_use("--summary chooses tables of csv, sqlite and parquet; %s",
                            format->one_moment ? "other formats have none" : "so does --table");
    if (arguments->at && !format->one_moment)
        return vt_wrong_use("no --at with --format %s, which holds the whole trace", format->name);
    if (arguments->operand_count > 1 && !vt_is_folder(output))
        return vt_wrong_use("a file holds one trace; for %d, give a folder that exists: -o FOLDER",
                            arguments->operand_count);
    if (arguments->table >= 0 && format != &one_table)
        return vt_wrong_use("--table chooses one table of --format csv; %s %s", format->name,
                            format->one_moment ? "has no tables" : "always has all of them");
    if (to_stream && format->output == TO_FOLDER)
        return vt_wrong_use("%s writes one file per table: use -o FOLDER%s", format->name,
                            format->finish_folder ? "" : ", or --table TABLE");
    if (to_stream && format->output == TO_FILE)
        return vt_wrong_use("%s cannot be written to a pipe: use -o x%s", format->name, format->suffix);
    if (to_stream && format->binary && isatty(STDOUT_FILENO))
        return vt_wrong_use("refusing to write binary data to the terminal; use -o x%s", format->suffix);
    return vt_is_folder(output) ? check_names(arguments, format) : 0;
}

/* ---- Writing ---- */

static int write_export(const struct vt_report *report, const struct vt_arguments *arguments,
                        const struct format *format, FILE *stream, const char *path)
{
    struct vt_export export = {
        .report = report, .stream = stream, .path = path, .table = (unsigned)arguments->table};
    int result;

    export.tables = vt_tables_make(report, arguments->summary ? VT_SUMMARY_TABLES : VT_ALL_TABLES);
    result = format->write(&export);
    vt_tables_free(export.tables);
    return result;
}

static int load_trace(const struct vt_arguments *arguments, const char *path, const struct format *format,
                      struct vt_loaded *loaded)
{
    struct vt_report_options options = {.device_index = arguments->device,
                                        .at = arguments->at ? arguments->at : format->usual_moment,
                                        .groups = VT_NO_GROUPS,
                                        .timeline_columns = 1};

    return vt_load_report(arguments, path, &options, arguments->summary ? VT_FIND_LEAKS : format->findings,
                          loaded);
}

/* Writes to a nameless file first, from which the format is made. */
static int write_and_finish(const struct vt_arguments *arguments, const struct format *format,
                            struct vt_loaded *loaded, struct vt_output *output)
{
    FILE *written = tmpfile();
    int result = written ? write_export(loaded->report, arguments, format, written, NULL) : -errno, status;

    if (written && (fflush(written) || ferror(written)) && (!result || result == -EIO))
        result = write(fileno(written), "", 1) < 0 ? -errno : -EIO; /* the stream has forgotten why */
    vt_unload(loaded);                                              /* Python needs the memory */
    status = vt_written(output, result);
    if (!status && !output->broken)
        status = format->finish(written, output);
    output->broken |= status != 0;
    if (written)
        fclose(written);
    return status;
}

/* One line on stderr: what was written, and what to do with it. */
static void say_written(const struct format *format, const char *path)
{
    struct stat status;
    char size[32] = "", *open;

    if (stat(path, &status) || !(S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)))
        return;
    open = vt_print_text(format->open, path);
    if (S_ISREG(status.st_mode))
        vt_say("wrote %s (%s) · %s", path, vt_format_bytes((uint64_t)status.st_size, size), open);
    else
        vt_say("wrote %s · %s", path, open);
    free(open);
}

static int export_to_file(const struct vt_arguments *arguments, const char *path, const struct format *format,
                          const char *target)
{
    struct vt_output output;
    struct vt_loaded loaded;
    int status = vt_output_begin(target, &output);

    if (!status && format->output == TO_FILE && !output.temporary) {
        output.broken = true;
        status = vt_wrong_use("%s needs a regular file, and %s is not one", format->name, target);
    }
    if (!status)
        status = load_trace(arguments, path, format, &loaded);
    if (!status && format->finish) {
        status = write_and_finish(arguments, format, &loaded, &output);
    } else if (!status) {
        status = vt_written(&output,
                            write_export(loaded.report, arguments, format, output.stream, output.temporary));
        vt_unload(&loaded);
    }
    return vt_output_end(&output, status);
}

static int export_to_folder(const struct vt_arguments *arguments, const char *path,
                            const struct format *format, const char *target)
{
    struct vt_folder folder;
    struct vt_loaded loaded;
    int status = vt_folder_begin(target, &folder), result = 0;

    if (status)
        return status;
    status = load_trace(arguments, path, format, &loaded);
    if (!status) {
        result = write_export(loaded.report, arguments, format, NULL, folder.temporary);
        vt_unload(&loaded);
        if (!result && format->finish_folder)
            status = format->finish_folder(folder.temporary, path);
    }
    return vt_folder_end(&folder, status, result);
}

static int export_one(const struct vt_arguments *arguments, const char *path, const struct format *format)
{
    char *target = arguments->export_path ? target_of(arguments->export_path, path, format) : NULL;
    int status =
        (format->output == TO_FOLDER ? export_to_folder : export_to_file)(arguments, path, format, target);

    if (!status && target && strcmp(target, "-") != 0)
        say_written(format, target);
    free(target);
    return status;
}

int vt_command_export(struct vt_arguments *arguments, struct vt_output *output)
{
    const struct format *format = find_format(arguments->format);
    int worst;

    if (format && arguments->table >= 0 && !strcmp(format->name, one_table.name))
        format = &one_table;
    worst = format ? check_target(arguments, format) : VT_EXIT_WRONG_USE;

    if (worst)
        return worst;
    arguments->each_event = (format->each_event && !arguments->summary) ||
                            (format == &one_table && OF_EACH_EVENT >> arguments->table & 1);
    for (int i = 0; i < arguments->operand_count; i++) {
        int result = export_one(arguments, arguments->operands[i], format);
        worst = result > worst ? result : worst;
    }
    output->broken = worst != 0; /* it has been said why */
    return worst;
}
