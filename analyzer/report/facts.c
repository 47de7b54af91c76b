/* Facts of a trace, and the one list of what it lacks. */
#include "report/facts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/format.h"
#include "trace/redact.h"
#include "trace/trace.h"

/* By the state of the file: its name; in the report's first line; whether the trace is complete; in a
 * sentence on what is missing. NULL = other facts say. */
static const struct words {
    const char *name, *outcome, *ended, *how;
} states[] =
    {
        [0] = {"unknown", NULL, NULL},
        [VT_STATE_RECORDING] = {"recording", "killed, or still running",
                                "no: incomplete, the process was killed or still runs",
                                "killed or still runs"},
        [VT_STATE_COMPLETE] = {"complete", NULL, NULL},
        [VT_STATE_STOPPED] = {"stopped", NULL, NULL},
        [VT_STATE_KILLED] = {"killed", "killed, or left by _exit",
                             "no: incomplete, the process was killed, or ended without exit handlers",
                             "killed"},
        [VT_STATE_SNAPSHOT] = {"snapshot", "snapshot of a running process",
                               "no: a snapshot, made while the process ran", NULL},
},
  running = {"recording", "still running", "no: the process still runs", "still running"};

/* Those of its process, where its life says more than the file's state. */
static const struct words *words_of(const struct vt_trace *trace)
{
    const uint32_t state = trace->header.state <= VT_STATE_SNAPSHOT ? trace->header.state : 0;

    return trace->life == VT_LIFE_RUNS    ? &running
           : trace->life == VT_LIFE_ENDED ? &states[VT_STATE_KILLED]
                                          : &states[state];
}

/* By enum vt_stop_reason: in the report's first line, in a sentence. */
static const struct {
    const char *outcome, *reason;
} stops[] = {{"incomplete: recording stopped", "for no known reason"},
             {"incomplete: disk full", "because the disk was full"},
             {"incomplete: write error", "because of a write error"},
             {"incomplete: no memory for recording", "for lack of memory"},
             {"incomplete: no thread for recording", "because no thread could be started"},
             {"incomplete: size limit reached", "because the trace had reached VRAMTRACE_LIMIT"}};

/* How the process ended, if not in order and `vramtrace run` has waited for it; "" = not known. */
static const char *known_end(const struct vt_trace *trace)
{
    const uint32_t state = trace->header.state;

    return !trace->truncated && (state == VT_STATE_RECORDING || state == VT_STATE_KILLED) ? trace->end_text
                                                                                          : "";
}

static void set_outcome(const struct vt_trace *trace, struct vt_trace_facts *facts)
{
    const struct words *words = words_of(trace);
    const uint32_t state = trace->header.state <= VT_STATE_SNAPSHOT ? trace->header.state : 0;
    uint32_t reason = trace->header.stop_reason;
    const char *ended = words->ended       ? words->ended
                        : trace->truncated ? "no: incomplete, the file is damaged"
                        : trace->complete  ? "yes"
                                           : "no: incomplete";

    reason = reason < sizeof stops / sizeof *stops ? reason : 0;
    facts->state = states[state].name;
    facts->end_text = known_end(trace);
    facts->outcome = trace->truncated            ? "incomplete: file damaged"
                     : facts->end_text[0]        ? facts->end_text
                     : state == VT_STATE_STOPPED ? stops[reason].outcome
                     : words->outcome            ? words->outcome
                     : trace->complete           ? "complete"
                                                 : "incomplete";
    if (facts->end_text[0])
        snprintf(facts->ended_text, sizeof facts->ended_text, "no: the process was %s", facts->end_text);
    else if (state == VT_STATE_STOPPED)
        snprintf(facts->ended_text, sizeof facts->ended_text,
                 "no: incomplete, recording stopped before the process ended, %s", stops[reason].reason);
    else
        snprintf(facts->ended_text, sizeof facts->ended_text, "%s", ended);
}

/* ---- Losses ---- */

static struct vt_loss *add_loss(struct vt_trace_facts *facts, enum vt_loss_kind kind, uint64_t count,
                                const char *format, ...) __attribute__((format(printf, 4, 5)));
static struct vt_loss *add_loss(struct vt_trace_facts *facts, enum vt_loss_kind kind, uint64_t count,
                                const char *format, ...)
{
    struct vt_loss *loss = &facts->losses[facts->loss_count++];
    va_list arguments;

    *loss = (struct vt_loss){.kind = (uint8_t)kind, .count = count};
    va_start(arguments, format);
    vsnprintf(loss->text, sizeof loss->text, format, arguments);
    va_end(arguments);
    return loss;
}

static void add_dropped(struct vt_trace_facts *facts)
{
    char events[32], definitions[32];
    struct vt_loss *loss;

    if (!facts->dropped_events && !facts->dropped_definitions)
        return;
    loss = add_loss(facts, VT_LOSS_EVENTS, facts->dropped_events, "%s events and %s definitions were lost",
                    vt_format_count(facts->dropped_events, events),
                    vt_format_count(facts->dropped_definitions, definitions));
    snprintf(loss->headline, sizeof loss->headline, "%s", loss->text);
    snprintf(loss->detail, sizeof loss->detail,
             " (the buffer was full, or a signal handler interrupted another event). Figures may be off by "
             "that much; "
             "try a larger buffer: vramtrace run --ring.");
}

static void add_damage(struct vt_trace_facts *facts)
{
    char bytes[32];
    struct vt_loss *loss;

    if (!facts->truncated && !facts->damaged_bytes)
        return;
    loss = add_loss(facts, VT_LOSS_DAMAGE, facts->damaged_bytes, "the file is damaged");
    snprintf(loss->headline, sizeof loss->headline, "The file is damaged:");
    snprintf(loss->detail, sizeof loss->detail, " %s could not be read and are missing.",
             facts->damaged_bytes ? vt_format_bytes(facts->damaged_bytes, bytes) : "parts");
}

/* Not lost, but left out by the recorder. */
static void add_unkept(struct vt_trace_facts *facts, const struct vt_trace *trace)
{
    char events[32], recorded[32], moments[32], number[32], steps[96] = "", refusals[128] = "";

    if (!trace->unkept_events)
        return;
    vt_format_count(trace->unkept_events, events);
    vt_format_count(trace->recorded_events, recorded);
    struct vt_loss *loss = add_loss(facts, VT_LOSS_UNKEPT, trace->unkept_events,
                                    "%s of %s events were not kept", events, recorded);
    if (trace->unseen_passes)
        snprintf(steps, sizeof steps, " Step numbers exclude %s omitted backward passes.",
                 vt_format_count(trace->unseen_passes, number));
    if (trace->gap_refusals)
        snprintf(refusals, sizeof refusals,
                 " For %s out-of-memory errors the list of live allocations is incomplete: they fall in "
                 "omitted stretches.",
                 vt_format_count(trace->gap_refusals, number));
    snprintf(loss->detail, sizeof loss->detail,
             "Flight mode kept %s stretches of the run in full; %s of %s events between them (short-lived "
             "allocations) "
             "were dropped. Peaks, leaks and the end are exact; the chart, the steps and the counts by line "
             "are those "
             "of the stretches.%s%s",
             vt_format_count(trace->gap_count + 1, moments), events, recorded, refusals, steps);
}

/* Not lost, but not examined. */
static void add_omitted(struct vt_trace_facts *facts, const struct vt_trace *trace)
{
    const uint64_t omitted_events = trace->omitted_events - trace->unkept_events;
    char events[32], recorded[32], moments[32];

    if (!omitted_events)
        return;
    vt_format_count(omitted_events, events);
    vt_format_count(trace->recorded_events, recorded);
    struct vt_loss *loss = add_loss(facts, VT_LOSS_OMITTED, omitted_events,
                                    "%s of %s events were not read one by one", events, recorded);
    snprintf(loss->detail, sizeof loss->detail,
             "Long trace: %s of %s events were not read one by one, those of allocations alive at none of %s "
             "moments. "
             "Peak, end, out-of-memory errors and leaks are exact; the chart, temporaries and estimates come "
             "from these "
             "moments.",
             events, recorded, vt_format_count(trace->window_count, moments));
}

static void add_end(struct vt_trace_facts *facts, const struct vt_trace *trace)
{
    const uint32_t state = trace->header.state;
    const struct words *words = words_of(trace);
    const bool killed = words == &states[VT_STATE_KILLED] || facts->end_text[0];
    const char *how = facts->end_text[0] ? facts->end_text : words->how;
    char count[32];
    struct vt_loss *loss;

    if (state == VT_STATE_STOPPED) {
        loss = add_loss(facts, VT_LOSS_STOPPED, facts->events_after_end,
                        "recording stopped before the process ended");
        if (facts->events_after_end)
            snprintf(loss->detail, sizeof loss->detail,
                     "Recording stopped before the process ended: %s later events are missing.",
                     vt_format_count(facts->events_after_end, count));
        else
            snprintf(loss->detail, sizeof loss->detail,
                     "Recording stopped before the process ended: later events are missing.");
    } else if (state == VT_STATE_RECORDING && facts->ring_missing) {
        loss = add_loss(facts, VT_LOSS_KILLED, 0, "the process was %s", how);
        snprintf(loss->detail, sizeof loss->detail, "The process was %s. The last 0.1 s may be missing.",
                 how);
    } else if (state == VT_STATE_RECORDING || state == VT_STATE_KILLED) {
        loss = add_loss(facts, VT_LOSS_KILLED, 0, "the process was %s", how);
        snprintf(loss->detail, sizeof loss->detail,
                 "The process was %s. All events up to that point are included%s%s%s.%s", how,
                 killed ? "" : ", ", killed ? "" : vt_format_count(facts->ring_events, count),
                 killed ? "" : " of them recovered from its live buffer",
                 facts->unfinished_records ? " Calls in progress are missing." : "");
    }
}

static void add_without_stack(struct vt_trace_facts *facts)
{
    char count[32];
    struct vt_loss *loss;

    if (!facts->events_without_stack)
        return;
    loss = add_loss(facts, VT_LOSS_STACKS, facts->events_without_stack, "%s events have no stack",
                    vt_format_count(facts->events_without_stack, count));
    snprintf(loss->headline, sizeof loss->headline, "%s", loss->text);
    snprintf(
        loss->detail, sizeof loss->detail,
        " (the limit of 2 million different stacks was reached): bytes are right, lines and owners unknown.");
}

/* Not a loss: someone wanted it so. */
static void set_paused(struct vt_trace_facts *facts)
{
    char count[32], time[32];

    if (facts->paused_ns || facts->paused_events)
        snprintf(facts->paused_text, sizeof facts->paused_text,
                 "Recording was paused for %s: its %s events have no stacks. All bytes are counted; these "
                 "allocations have no "
                 "line, and no name unless a later inspection saw them.",
                 vt_format_duration(facts->paused_ns, time), vt_format_count(facts->paused_events, count));
}

void vt_trace_facts_read(const struct vt_trace *trace, struct vt_trace_facts *facts)
{
    const struct vt_file_header *header = &trace->header;

    *facts = (struct vt_trace_facts){.path = vt_redact_name(trace->path),
                                     .command = trace->command ? trace->command : "",
                                     .arguments = trace->arguments,
                                     .argument_count = (size_t)trace->argument_count,
                                     .pid = header->pid,
                                     .start_realtime_ns = header->start_realtime_ns,
                                     .event_count = trace->recorded_events,
                                     .unkept_events = trace->unkept_events,
                                     .omitted_events = trace->omitted_events - trace->unkept_events,
                                     .complete = trace->complete,
                                     .truncated = trace->truncated,
                                     .ended = header->state == VT_STATE_COMPLETE,
                                     .stopped = header->state == VT_STATE_STOPPED,
                                     .dropped_events = header->counters.dropped,
                                     .dropped_definitions = header->counters.dropped_definitions,
                                     .events_after_end = header->counters.after_end,
                                     .events_without_stack = header->counters.without_stack,
                                     .native_walks_cut = header->native_walks_cut,
                                     .damaged_bytes = trace->damaged_bytes,
                                     .ring_events = trace->ring_events,
                                     .ring_missing = trace->ring_missing,
                                     .unfinished_records = trace->unfinished_records,
                                     .missing_stacks = trace->missing_stacks,
                                     .paused_events = trace->paused_events,
                                     .paused_ns = trace->paused_ns,
                                     .inspection_count = trace->inspection_count};
    set_outcome(trace, facts);
    set_paused(facts);
    add_dropped(facts);
    add_damage(facts);
    add_end(facts, trace);
    add_without_stack(facts);
    add_unkept(facts, trace);
    add_omitted(facts, trace);
    if (!facts->loss_count && !facts->complete && header->state != VT_STATE_SNAPSHOT)
        add_loss(facts, VT_LOSS_OTHER, 0, "the trace is incomplete");
}

const struct vt_loss *vt_worst_loss(const struct vt_trace_facts *facts)
{
    for (size_t i = 0; i < facts->loss_count; i++)
        if (facts->losses[i].kind != VT_LOSS_OMITTED)
            return &facts->losses[i];
    return NULL;
}

const char *vt_short_command(const struct vt_trace_facts *facts)
{
    const char *program = facts->argument_count ? facts->arguments[0] : "", *slash = strrchr(program, '/');

    if (!facts->command[0])
        return "unknown command";
    return slash && !strncmp(facts->command, program, strlen(program))
               ? facts->command + (slash + 1 - program)
               : facts->command;
}
