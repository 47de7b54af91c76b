/* ctl: controls the recorder of a running process. */
#include "command/ctl.h"
#include "command/output.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allocate.h"
#include "base/format.h"
#include "trace/processes.h"
#include "trace/rings.h"
#include "view/text/print.h"

enum { ANSWER_MS = 3000 };

static const struct action {
    const char *word, *default_text, *done;
    enum vt_control_command command;
    const char *takes; /* a name for the word that may follow, NULL = none does */
} actions[] = {
    {"start", "", "recording resumed, with stacks", VT_CONTROL_START, NULL},
    {"stop", "", "paused: bytes are still counted, without stacks", VT_CONTROL_STOP, NULL},
    {"mark", "mark", "mark set", VT_CONTROL_MARK, "TEXT"},
    {"inspect", "inspect", "mark set; an inspection runs at the next safe point of the main thread",
     VT_CONTROL_INSPECT, "TEXT"},
    {"snapshot", "snapshot", "", VT_CONTROL_INSPECT, "FILE"},
};
#define ACTION_COUNT (sizeof actions / sizeof *actions)

static void put_recorder(const struct vt_recorder *recorder, FILE *out)
{
    const struct vt_ring_header *header = &recorder->header;
    uint64_t blocks = 0, driver = 0;
    char bytes[32];

    for (size_t i = 0; i < VT_MAX_DEVICES; i++) {
        blocks += header->counters.live[i].block_bytes;
        driver += header->counters.live[i].driver_bytes;
    }
    fprintf(out, "%8" PRIu32 "  %-9s%12s  ", header->process.pid,
            header->control.paused ? "paused" : "recording",
            vt_format_bytes(blocks ? blocks : driver, bytes));
    vt_put_clean(header->trace_path, out);
    fputc('\n', out);
}

static int list_recorders(struct vt_output *output)
{
    struct vt_recorder *recorders;
    size_t count;

    vt_recorders_find(&recorders, &count);
    if (count)
        fprintf(output->stream, "%8s  %-9s%12s  %s\n", "PID", "STATE", "ALLOCATED", "TRACE");
    else
        fputs("No process is being recorded.\n", output->stream);
    for (size_t i = 0; i < count; i++)
        put_recorder(&recorders[i], output->stream);
    free(recorders);
    return vt_written(output, 0);
}

static bool is_meant(const struct vt_recorder *recorder, const char *word)
{
    char path[PATH_MAX];

    return vt_process_is_meant(word, recorder->header.process.pid) ||
           (realpath(word, path) && !strcmp(path, recorder->header.trace_path));
}

static const struct action *find_action(const char *word)
{
    const char *words[ACTION_COUNT + 1] = {0}, *nearest;

    for (size_t i = 0; i < ACTION_COUNT; i++) {
        words[i] = actions[i].word;
        if (!strcmp(word, words[i]))
            return &actions[i];
    }
    nearest = vt_nearest(word, words);
    vt_say("'%s' is not start, stop, mark, inspect or snapshot%s%s%s", word,
           nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
    return NULL;
}

char *vt_control_ask(enum vt_control_command what, const char *text, const struct vt_recorder *recorder)
{
    const uint32_t pid = recorder->header.process.pid;
    bool recorded = false;
    int result = vt_recorder_ask(recorder, what, text, ANSWER_MS, &recorded);

    if (result == -ETIMEDOUT)
        return vt_print_text("process %" PRIu32
                             ": no answer (it is stopped, very busy or exiting); the request stays queued",
                             pid);
    if (result)
        return vt_print_text("process %" PRIu32 ": %s: %s", pid, recorder->path, strerror(-result));
    return recorded ? NULL
                    : vt_print_text("process %" PRIu32
                                    ": not done: recording has ended, or its buffer is full; try again",
                                    pid);
}

static int ask_recorder(enum vt_control_command what, const char *text, const struct vt_recorder *recorder)
{
    char *error = vt_control_ask(what, text, recorder);

    if (!error)
        return 0;
    vt_say_text(error);
    return VT_EXIT_UNREADABLE;
}

static void put_next(const char *mark, const char *trace, FILE *out)
{
    char *moment = vt_print_text("mark:%s", mark);

    fputs("next: vramtrace report --at ", out);
    vt_put_word(moment, out);
    fputc(' ', out);
    vt_put_word(trace, out);
    fputc('\n', out);
    free(moment);
}

/* A copy of the trace, with an inspection if the process gets to one. */
static int copy_trace(const char *path, const struct vt_recorder *recorder, FILE *out)
{
    const uint32_t pid = recorder->header.process.pid;
    struct vt_output copy = {.stream = NULL};
    char name[64];
    bool missing = false;
    int status = ask_recorder(VT_CONTROL_INSPECT, "snapshot", recorder), result = 0;

    if (status)
        return status;
    if (!path) {
        snprintf(name, sizeof name, "vramtrace.%" PRIu32 ".snapshot.vrt", pid);
        path = name;
    }
    if (!vt_recorder_await_inspections(recorder, recorder->header.control.inspections + 1, ANSWER_MS))
        vt_say("process %" PRIu32
               " did not inspect within %d s: recent tensors may lack names in the snapshot",
               pid, ANSWER_MS / 1000);
    status = vt_output_begin(path, &copy);
    if (!status && copy.temporary)
        fchmod(fileno(copy.stream), S_IRUSR | S_IWUSR); /* as the trace */
    if (!status)
        result = vt_recorder_copy(recorder, ANSWER_MS, copy.stream, &missing);
    if (!status && result) {
        copy.broken = true;
        vt_say("%s: %s", recorder->header.trace_path,
               result == -ESTALE ? "the trace file was moved or deleted" : strerror(-result));
        status = VT_EXIT_UNREADABLE;
    }
    status = vt_output_end(&copy, status);
    if (status)
        return status;
    if (missing)
        vt_say("process %" PRIu32 " did not respond: its most recent events are missing from the snapshot",
               pid);
    fprintf(out, "%" PRIu32 ": ", pid);
    vt_put_clean(path, out);
    fputc('\n', out);
    put_next("snapshot", path, out);
    return 0;
}

static int do_one(const struct action *action, const char *word, const struct vt_recorder *recorder,
                  FILE *out)
{
    const char *text = word ? word : action->default_text;
    int status;

    if (!strcmp(action->word, "snapshot"))
        return copy_trace(word, recorder, out);
    status = ask_recorder(action->command, text, recorder);
    if (status)
        return status;
    fprintf(out, "%" PRIu32 ": %s\n", recorder->header.process.pid, action->done);
    if (action->command == VT_CONTROL_STOP)
        fprintf(out, "resume: vramtrace ctl %" PRIu32 " start\n", recorder->header.process.pid);
    if (action->takes)
        put_next(text, recorder->header.trace_path, out);
    return 0;
}

int vt_command_ctl(struct vt_arguments *arguments, struct vt_output *output)
{
    const int words = arguments->operand_count;
    char *const *const operands = arguments->operands;
    const struct action *action;
    struct vt_recorder *recorders;
    size_t count, meant = 0;
    int status = 0;

    if (!words)
        return list_recorders(output);
    if (words == 1)
        return vt_wrong_use("missing action: vramtrace ctl %s start|stop|mark|inspect|snapshot", operands[0]);
    action = find_action(operands[1]);
    if (!action)
        return VT_EXIT_WRONG_USE;
    if (words > (action->takes ? 3 : 2))
        return vt_wrong_use("unexpected argument '%s': vramtrace ctl PID %s%s%s", operands[words - 1],
                            action->word, action->takes ? " " : "", action->takes ? action->takes : "");
    vt_recorders_find(&recorders, &count);
    for (size_t i = 0; i < count; i++) {
        if (!is_meant(&recorders[i], operands[0]))
            continue;
        const int result = do_one(action, words > 2 ? operands[2] : NULL, &recorders[i], output->stream);
        status = result > status ? result : status;
        meant++;
    }
    free(recorders);
    if (!meant) {
        vt_say("process %s is not being recorded (vramtrace ctl lists those that are; in a container, run it "
               "there)",
               operands[0]);
        return VT_EXIT_UNREADABLE;
    }
    status = vt_written(output, 0) ? VT_EXIT_NOT_WRITTEN : status;
    return status;
}
