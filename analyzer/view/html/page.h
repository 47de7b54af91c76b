/* One HTML file about one or more traces: everything in it, nothing to fetch. docs/page.md describes its
 * data.
 *
 *     vt_html_make, vt_html_add for each trace, vt_html_write, vt_html_free
 *
 * Traces are compressed as they are added; their reports may then be freed. One thread. */
#ifndef VT_PAGE_H
#define VT_PAGE_H

#include <stdio.h>

#include "report/diff.h"
#include "report/job.h"
#include "report/report.h"

/* The overview that the page shows first. */
#define VT_PAGE_COLUMNS 500u

struct vt_html;

struct vt_html *vt_html_make(void);
void vt_html_free(struct vt_html *page);

/* `report` needs VT_PAGE_COLUMNS timeline columns, groups of what is shown, leaks, advice and steps. `oom`:
 * of the moment when memory ran out, with its shortage; NULL = it never did. */
void vt_html_add(struct vt_html *page, const struct vt_report *report, const struct vt_report *oom);
/* Names a trace of the job that is not in the page. */
void vt_html_leave_out(struct vt_html *page, const char *path);
/* What the traces are together. */
void vt_html_add_job(struct vt_html *page, const struct vt_job *job);
/* What trials of a dry run measured: the text of its JSON. `redact`: without those that change an argument or
 * the environment. False: it is none. */
bool vt_html_add_trials(struct vt_html *page, const char *text, size_t bytes, bool redact);
/* Of the first two traces. */
void vt_html_compare(struct vt_html *page, const struct vt_diff *diff);

/* `title` NULL = the command of the first trace. 0 or -errno. */
int vt_html_write(const struct vt_html *page, const char *title, FILE *out);

#endif
