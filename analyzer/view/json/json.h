/* JSON of any structure that report/schema.def describes. */
#ifndef VT_JSON_H
#define VT_JSON_H

#include <stdio.h>

#include "report/places.h"
#include "report/report.h"
#include "report/schema.h"

struct vt_json_style {
    struct vt_places *places;       /* that stacks are of; NULL = the document has no stacks */
    int top;                        /* > 0: items of each limited list */
    const struct vt_report *report; /* that events are of; NULL = their numbers are their indices */
    bool compact;                   /* on one line */
    bool brief;                     /* `top` limits every list, and stacks are left out */
    bool in_html;                   /* also safe inside an HTML script: "<" is escaped */
};

/* Prints a document and a line break: all of it or nothing. What is printed is valid JSON and UTF-8, and
 * nothing in it moves a terminal's cursor. `root` is the document's structure. One document at a time, by one
 * thread. */
void vt_json_write(const struct vt_document *document, const void *root, const struct vt_json_style *style,
                   FILE *out);

/* Its fields alone, on one line, without the braces. */
void vt_json_fields(const struct vt_document *document, const void *root, const struct vt_json_style *style,
                    FILE *out);

/* Prints a text as a JSON string, as safely, with its quotes. */
void vt_json_text(const char *text, bool in_html, FILE *out);

#endif
