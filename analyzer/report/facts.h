/* Facts of a trace: who was recorded, how recording ended, and what was lost. */
#ifndef VT_FACTS_H
#define VT_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vt_trace;

enum vt_loss_kind {
    VT_LOSS_EVENTS, /* dropped events or definitions */
    VT_LOSS_DAMAGE,
    VT_LOSS_STOPPED, /* recording ended before the process */
    VT_LOSS_KILLED,  /* or the process still runs */
    VT_LOSS_STACKS,
    VT_LOSS_UNKEPT,  /* by the recorder, in flight mode */
    VT_LOSS_OMITTED, /* by the analysis, of a long trace */
    VT_LOSS_OTHER,
    VT_LOSS_KINDS
};

struct vt_loss {
    uint8_t kind;
    uint64_t count;     /* of what was lost, 0 = not known */
    char text[128];     /* "12 events and 0 definitions were lost" */
    char headline[128]; /* of the paragraph: its alarming beginning, "" = none */
    char detail[640];   /* the rest of the paragraph; "" = no paragraph */
};

/* Text belongs to the trace, or to who copied it; never NULL. */
struct vt_trace_facts {
    const char *path, *command;
    const char *const *arguments;
    size_t argument_count;
    uint32_t pid;
    uint64_t start_realtime_ns, event_count;
    uint64_t unkept_events;  /* of these, left out by the recorder */
    uint64_t omitted_events; /* of these, not examined one by one: blocks that come and go between the moments
                                shown */
    const char *state; /* of the file: "recording", "complete", "stopped", "killed", "snapshot", "unknown" */
    const char *outcome;   /* in a few words: "complete", "incomplete: disk full" */
    const char *simulated; /* a dry run's GPU and what was computed: "NVIDIA L4, values on"; NULL = real */
    const char *ended_by;  /* a dry run's Python exception that ended it: "ValueError: ..."; NULL = none */
    const char *end_text; /* of a process that did not end in order: "interrupted (Ctrl-C)"; "" = not known */
    char ended_text[128]; /* whether it is complete: "yes", "no: incomplete, the file is damaged" */
    bool complete;        /* the process ended in order and all that it committed is here */
    bool truncated;       /* the file is shorter than its header says, or a chunk is damaged */
    bool ended, stopped;  /* the process ended in order; recording stopped before it */
    uint64_t dropped_events, dropped_definitions;
    uint64_t events_after_end, events_without_stack, native_walks_cut;
    uint64_t damaged_bytes;
    uint64_t ring_events; /* taken from the ring of a process that did not end in order */
    bool ring_missing;    /* it did not, and its ring is not there: the last 0.1 s may be missing */
    uint64_t unfinished_records, missing_stacks;
    uint64_t inspection_count;
    uint64_t paused_events, paused_ns;    /* while recording was paused: without stacks */
    char paused_text[256];                /* what that means, a paragraph; "" = it never was */
    struct vt_loss losses[VT_LOSS_KINDS]; /* the worst first */
    size_t loss_count;
};

void vt_trace_facts_read(const struct vt_trace *trace, struct vt_trace_facts *facts);

/* The worst loss, NULL = nothing was lost. Events that were not examined are not lost. */
const struct vt_loss *vt_worst_loss(const struct vt_trace_facts *facts);

/* The command without the folder of its program. */
const char *vt_short_command(const struct vt_trace_facts *facts);

#endif
