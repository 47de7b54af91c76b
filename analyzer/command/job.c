/* report and oom for a folder or several traces, merged as one job; report.c does one trace. oom --try is a
 * dry run of one of them. */
#include "command/job_traces.h"
#include "command/pager.h"
#include "command/traces.h"
#include "job/job.h"
#include "view/json/json.h"
#include "view/text/views.h"

#include <signal.h>
#include <stdlib.h>

static bool is_oom(const struct vt_arguments *arguments)
{
    return arguments->command->bit == 1u << VT_COMMAND_OOM;
}

/* ---- Trying ---- */

static bool is_trial(const struct vt_arguments *arguments)
{
    return arguments->tries.count || arguments->advise;
}

static int try_again(const struct vt_arguments *arguments, const char *path, struct vt_output *output)
{
    const struct vt_words *tries = &arguments->tries;
    char **words = vt_allocate_zeros(2 * tries->count + 4, sizeof *words);
    struct vt_arguments run = {.command = &vt_commands[VT_COMMAND_DRYRUN], .operands = words};
    int status;

    words[run.operand_count++] = "--like";
    words[run.operand_count++] = (char *)path;
    for (size_t i = 0; i < tries->count; i++) {
        words[run.operand_count++] = "--try";
        words[run.operand_count++] = (char *)tries->items[i];
    }
    if (arguments->advise)
        words[run.operand_count++] = "--advise";
    signal(SIGPIPE, SIG_DFL); /* the program inherits them */
    signal(SIGXFSZ, SIG_DFL);
    vt_say_as(run.command);
    status = vt_command_dryrun(&run, output);
    free(words);
    return status;
}

/* ---- Printing ---- */

static const char *first_to_fall(const struct vt_job *job)
{
    return job->processes[job->fall_count ? job->falls[0].process : 0].path;
}

/* The page of the process that ran out of memory first. */
static int print_first(const struct vt_arguments *arguments, const struct vt_job *job,
                       struct vt_output *output)
{
    char *path[] = {(char *)first_to_fall(job)};
    struct vt_arguments alone = *arguments;

    alone.operands = path;
    alone.operand_count = 1;
    return vt_command_report(&alone, output);
}

#define BRIEF_ITEMS 8 /* of each list, as data */

static void print_job(const struct vt_arguments *arguments, const struct vt_job *job,
                      struct vt_output *output)
{
    const bool oom = is_oom(arguments);
    const struct vt_view_style style = vt_style(arguments, output);
    const struct vt_json_style json = {.top = arguments->top},
                               brief = {.top = BRIEF_ITEMS, .compact = true, .brief = true};

    if (arguments->json && arguments->brief)
        vt_json_write(oom ? &vt_job_oom_summary_document : &vt_job_summary_document, job, &brief,
                      output->stream);
    else if (arguments->json)
        vt_json_write(oom ? &vt_job_oom_document : &vt_job_document, job, &json, output->stream);
    if (!arguments->json || arguments->brief)
        (oom ? vt_text_job_oom : vt_text_job)(job, &style, output->stream);
}

static int print_pages(const struct vt_arguments *arguments, const struct vt_job *job,
                       struct vt_output *output)
{
    const bool is_page = !arguments->brief && !arguments->json;
    int result;

    if (is_page)
        vt_pager_begin(arguments, output);
    print_job(arguments, job, output);
    result = vt_written(output, 0);
    return !result && is_page && is_oom(arguments) && job->fall_count ? print_first(arguments, job, output)
                                                                      : result;
}

/* ---- The command ---- */

static bool is_job(const struct vt_arguments *arguments)
{
    bool any = arguments->operand_count > 1;

    for (int i = 0; i < arguments->operand_count; i++)
        any |= vt_is_folder(arguments->operands[i]);
    return any;
}

/* Options that mean something for one trace only. */
static const char *option_of_one(const struct vt_arguments *arguments)
{
    return arguments->at            ? "--at"
           : arguments->explain     ? "--explain"
           : arguments->by >= 0     ? "--by"
           : arguments->device >= 0 ? "--device"
           : arguments->depth       ? "--depth"
           : arguments->axis >= 0   ? "--axis"
           : arguments->from        ? "--from"
           : arguments->to          ? "--to"
           : arguments->summary     ? "--summary"
                                    : NULL;
}

static int read_job(const struct vt_arguments *arguments, const struct vt_files *files, struct vt_job **job)
{
    const char *first = arguments->operands[0];
    const bool one = arguments->operand_count == 1;
    char *what = one ? NULL : vt_print_text("%s and %d more", first, arguments->operand_count - 1);
    int status;

    status = vt_job_traces_read(&(struct vt_job_request){.paths = (const char *const *)files->paths,
                                                         .count = files->count,
                                                         .what = one ? first : what,
                                                         .rules = arguments->rules,
                                                         .oom = is_oom(arguments)},
                                job);
    free(what);
    (*job)->operand = one ? first : NULL;
    return status;
}

static int report_merged(struct vt_arguments *arguments, struct vt_output *output,
                         const struct vt_files *files)
{
    struct vt_job *job;
    int status = read_job(arguments, files, &job);

    if (job->process_count) {
        int printed = is_trial(arguments) ? try_again(arguments, first_to_fall(job), output)
                                          : print_pages(arguments, job, output);

        status = printed > status ? printed : status;
    }
    vt_job_free(job);
    return status;
}

int vt_command_job(struct vt_arguments *arguments, struct vt_output *output)
{
    const char *option = arguments->each ? NULL : option_of_one(arguments);
    struct vt_files files = {.once = true};
    int status;

    if (!is_job(arguments))
        return is_trial(arguments) ? try_again(arguments, arguments->operands[0], output)
                                   : vt_command_report(arguments, output);
    if (option)
        return vt_wrong_use("%s works on one trace: name one, or add --each for a %s of each trace", option,
                            arguments->command->name);
    if (arguments->each) {
        files.once = false;
        status = vt_files_to_operands(arguments, &files);
        if (!status)
            status = vt_command_report(arguments, output);
    } else {
        status = vt_files_find(arguments, &files);
        if (!status)
            status = report_merged(arguments, output, &files);
    }
    vt_files_free(&files);
    return status;
}
