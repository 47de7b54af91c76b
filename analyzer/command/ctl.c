/* ctl: what the recorder of a running process shall do. */
#include "command/command.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/format.h"
#include "trace/rings.h"
#include "view/text/print.h"

enum { ANSWER_MS = 3000 };

/* Texts follow the word; "" where there is none to give. */
static const struct action {
    const char *word, *default_text, *done;
    enum vt_control_command command;
    bool takes_text;
} actions[] = {
    {"start", "", "recorded with stacks", VT_CONTROL_START, false},
    {"stop", "", "recorded without stacks; vramtrace ctl PID start ends that", VT_CONTROL_STOP, false},
    {"mark", "mark", "marked", VT_CONTROL_MARK, true},
    {"inspect", "inspect", "marked; objects are inspected when the main thread reaches a safe point",
     VT_CONTROL_INSPECT, true},
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

static int list(const struct vt_command *command, struct vt_output *output)
{
    struct vt_recorder *recorders;
    size_t count;

    if (vt_recorders_find(&recorders, &count)) {
        vt_say(command, "out of memory");
        return VT_EXIT_UNREADABLE;
    }
    if (count)
        fprintf(output->stream, "%8s  %-9s%12s  %s\n", "PID", "STATE", "ALLOCATED", "TRACE");
    else
        fputs("No process here records at this moment.\n", output->stream);
    for (size_t i = 0; i < count; i++)
        put_recorder(&recorders[i], output->stream);
    free(recorders);
    return vt_written(command, output, 0);
}

static bool is_meant(const struct vt_recorder *recorder, const char *word)
{
    char pid[16], path[PATH_MAX];

    snprintf(pid, sizeof pid, "%" PRIu32, recorder->header.process.pid);
    return !strcmp(word, pid) || (realpath(word, path) && !strcmp(path, recorder->header.trace_path));
}

static const struct action *find_action(const struct vt_command *command, const char *word)
{
    const char *words[ACTION_COUNT + 1] = {0}, *nearest;

    for (size_t i = 0; i < ACTION_COUNT; i++) {
        words[i] = actions[i].word;
        if (!strcmp(word, words[i]))
            return &actions[i];
    }
    nearest = vt_nearest(word, words);
    vt_wrong_use(command, "'%s' is not start, stop, mark or inspect%s%s%s", word,
                 nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
    return NULL;
}

static int ask(const struct vt_command *command, const struct action *action, const char *text,
               const struct vt_recorder *recorder, FILE *out)
{
    const uint32_t pid = recorder->header.process.pid;
    bool recorded = false;
    int result = vt_recorder_ask(recorder, action->command, text, ANSWER_MS, &recorded);

    if (result == -ETIMEDOUT)
        vt_say(command,
               "process %" PRIu32
               " does not answer: it is stopped, very busy, or ends; what was asked is done once it goes on",
               pid);
    else if (result)
        vt_say(command, "process %" PRIu32 ": %s: %s", pid, recorder->path, strerror(-result));
    else if (!recorded)
        vt_say(command,
               "process %" PRIu32 ": not done: recording has ended, or its buffer was full; try again", pid);
    if (result || !recorded)
        return VT_EXIT_UNREADABLE;
    fprintf(out, "%" PRIu32 ": %s\n", pid, action->done);
    if (action->takes_text) {
        fputs("next: vramtrace report --at 'mark:", out);
        vt_put_clean(text, out);
        fputs("' ", out);
        vt_put_clean(recorder->header.trace_path, out);
        fputc('\n', out);
    }
    return 0;
}

int vt_command_ctl(const struct vt_command *command, struct vt_arguments *arguments, struct vt_output *output)
{
    const int words = arguments->operand_count;
    char *const *const operands = arguments->operands;
    const struct action *action;
    struct vt_recorder *recorders;
    size_t count, meant = 0;
    int status = 0;

    if (!words)
        return list(command, output);
    if (words == 1)
        return vt_wrong_use(command, "what shall it do? vramtrace ctl %s start|stop|mark|inspect",
                            operands[0]);
    action = find_action(command, operands[1]);
    if (!action)
        return VT_EXIT_WRONG_USE;
    if (words > (action->takes_text ? 3 : 2))
        return vt_wrong_use(command, "'%s' is too much: vramtrace ctl PID %s%s", operands[words - 1],
                            action->word, action->takes_text ? " 'TEXT'" : "");
    if (vt_recorders_find(&recorders, &count)) {
        vt_say(command, "out of memory");
        return VT_EXIT_UNREADABLE;
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_meant(&recorders[i], operands[0]))
            continue;
        const int result = ask(command, action, words > 2 ? operands[2] : action->default_text, &recorders[i],
                               output->stream);
        status = result > status ? result : status;
        meant++;
    }
    free(recorders);
    if (!meant) {
        vt_say(command,
               "no process %s records here, or it has no ring in memory; vramtrace ctl lists those that do. "
               "(In a container: run it there.)",
               operands[0]);
        return VT_EXIT_UNREADABLE;
    }
    status = vt_written(command, output, 0) ? VT_EXIT_NOT_WRITTEN : status;
    return status;
}
