/* Opens a trace, and finds out everything about it. */
#ifndef VT_COMMAND_LOAD_H
#define VT_COMMAND_LOAD_H

#include "attribute/attribute.h"
#include "command/arguments.h"
#include "report/report.h"
#include "trace/reading_plan.h"

/* A trace with everything found out about it. */
struct vt_loaded {
    /* Given to vt_open: */
    const char *rules; /* NULL = the built-in ones only; as long as this */
    bool each_event;   /* else parts of a long trace are read as digests */
    bool head_only;    /* only who was recorded, and the first events */
    /* Found: */
    struct vt_trace *trace;
    struct vt_replay *replay;
    struct vt_attribution *attribution;
    struct vt_report *report; /* NULL = none was made */
    struct vt_needs asked;    /* events that must be read one by one */
};
void vt_unload(struct vt_loaded *loaded);

/* These return an exit status. If it is not 0, *error has the reason, which the caller frees. */

/* VT_EXIT_WRONG_USE: the rules file is bad. After an error nothing is loaded. */
int vt_open(const char *path, struct vt_loaded *loaded, char **error);
/* Reads a trace again if events around the moments in `options` were read as digests; what was made of it
 * before is then invalid. */
int vt_reach(struct vt_loaded *loaded, const struct vt_report_options *options, char **error);
/* A report of an open trace, with the findings `wanted` (enum vt_finding). */
int vt_try_report(const struct vt_loaded *loaded, const struct vt_report_options *options, unsigned wanted,
                  struct vt_report **report, char **error);

/* These say the reason on stderr, and show progress. */

/* `options` NULL: no moment has to be reached. */
int vt_load(const struct vt_arguments *arguments, const char *path, const struct vt_report_options *options,
            struct vt_loaded *loaded);
int vt_make_report(const char *path, const struct vt_loaded *loaded, const struct vt_report_options *options,
                   unsigned wanted, struct vt_report **report);
/* Both. */
int vt_load_report(const struct vt_arguments *arguments, const char *path,
                   const struct vt_report_options *options, unsigned wanted, struct vt_loaded *loaded);

/* Of a trace with more events, about so many are read one by one. */
uint64_t vt_budget_events(void);

#endif
