/* A hand-made trace, replay and attribution: the interfaces of the analyzer's other halves over plain arrays,
 * so that the views are tested by themselves. */
#ifndef VT_FAKE_H
#define VT_FAKE_H

#include "attribute/stack_traits.h"
#include "attribute/sums.h"
#include "findings/findings.h"

#define MIB ((uint64_t)1 << 20)
#define FAKE_EVENTS 4096
#define FAKE_STACKS 64
#define FAKE_FRAMES 8
#define FAKE_REPORTS 32

struct fake {
    struct vt_trace trace;
    struct vt_replay replay;
    struct vt_attribution attribution;
    struct vt_event events[FAKE_EVENTS];
    uint32_t rare_events[FAKE_EVENTS];
    struct vt_allocation allocations[FAKE_EVENTS];
    struct vt_label labels[FAKE_EVENTS];
    struct vt_span spans[FAKE_EVENTS];
    struct vt_trace_stack stacks[FAKE_STACKS];
    struct vt_frame frames[FAKE_STACKS][FAKE_FRAMES];
    size_t frame_counts[FAKE_STACKS];
    struct vt_stack_traits sites[FAKE_STACKS];
    struct vt_trace_device devices[VT_MAX_DEVICES];
    const char *strings[16]; /* by id */
    struct vt_report *reports[FAKE_REPORTS];
    size_t report_count;
};

/* An empty trace of a process that ended in order after `seconds`. */
struct fake *fake_make(double seconds);
void fake_free(struct fake *fake);

/* Adds an event and returns its index; it belongs to the last span. */
uint32_t fake_event(struct fake *fake, double seconds, uint8_t kind, uint8_t layer, uint64_t bytes);
/* From the next event on. */
void fake_span(struct fake *fake, uint32_t step, uint8_t phase);
/* An event that makes an allocation; the pointer holds until fake_free. */
struct vt_allocation *fake_alloc(struct fake *fake, double seconds, uint8_t kind, uint8_t category,
                                 uint64_t bytes);
struct vt_label *fake_label(struct fake *fake, const struct vt_allocation *allocation);
void fake_release(struct fake *fake, double seconds, struct vt_allocation *allocation);
/* Adds a stack of one Python frame and returns its id. */
uint32_t fake_stack(struct fake *fake, const char *file, int32_t line, const char *function);
/* A report with these findings (enum vt_finding), until fake_free; fails the test without one. */
struct vt_report *fake_report(struct fake *fake, const struct vt_report_options *options, unsigned wanted);
void fake_frame(struct fake *fake, uint32_t stack_id, enum vt_frame_kind kind, const char *file, int32_t line,
                const char *function);

#endif
