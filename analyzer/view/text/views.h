/* What prints text: each writes a whole page. A stream that fails remembers it. */
#ifndef VT_VIEWS_H
#define VT_VIEWS_H

#include <stdio.h>

#include "report/annotation.h"
#include "report/diff.h"
#include "report/info.h"
#include "report/job.h"
#include "report/list.h"
#include "view/text/style.h"

typedef void vt_text_view(const struct vt_report *report, const struct vt_view_style *style, FILE *out);
vt_text_view vt_text_summary, vt_text_report, vt_text_timeline, vt_text_leaks_page, vt_text_oom, vt_text_frag,
    vt_text_steps;

/* With style->by >= 0: peaks by phase. */
void vt_text_annotate(const struct vt_annotation *annotation, const struct vt_view_style *style, FILE *out);

void vt_diff_text(const struct vt_diff *diff, const struct vt_view_style *style, FILE *out);

/* Of several traces. */
typedef void vt_text_job_view(const struct vt_job *job, const struct vt_view_style *style, FILE *out);
vt_text_job_view vt_text_job, vt_text_job_oom;
/* What it says before its tables, each paragraph on one line of plain text. */
void vt_text_job_paragraphs(const struct vt_job *job, FILE *out);

void vt_text_list(const struct vt_list *list, const struct vt_view_style *style, FILE *out);

void vt_text_info(const struct vt_info *info, FILE *out);

/* One event on a line; and its frames, each on one, if it has them. */
void vt_text_event(const struct vt_event_facts *event, FILE *out);

#endif
