#include "view/html/sources.h"

#include "report/sources.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "view/json/json.h"

#define AROUND 3u       /* lines before and after a place */
#define LINE_BYTES 400u /* of a line; the rest is cut */

static int compare_spots(const void *left, const void *right)
{
    const struct vt_spot *a = left, *b = right;
    int order = strcmp(a->file, b->file);

    return order ? order : vt_order(a->line, b->line);
}

/* Cut, without indentation lost. */
static void put_line(FILE *json, bool first, uint32_t number, const char *text)
{
    size_t length = strnlen(text, LINE_BYTES + 1);
    char line[LINE_BYTES + 1];

    if (length > LINE_BYTES)
        for (length = LINE_BYTES; length && ((unsigned char)text[length] & 0xc0) == 0x80;)
            length--; /* not within a letter */
    memcpy(line, text, length);
    line[length] = '\0';
    fprintf(json, "%s\"%" PRIu32 "\":", first ? "" : ",", number);
    vt_json_text(line, false, json);
}

/* Lines around the spots, which are of one file and ascend. */
static void put_lines(const struct vt_source_text *source, const struct vt_spot *spots, size_t count,
                      FILE *json)
{
    uint32_t next = 1; /* the first line that is not written */
    bool first = true;

    for (size_t i = 0; i < count; i++) {
        uint32_t line = spots[i].line > AROUND + next ? spots[i].line - AROUND : next;

        for (; line <= source->count && line <= (uint64_t)spots[i].line + AROUND; next = ++line) {
            put_line(json, first, line, source->lines[line - 1]);
            first = false;
        }
    }
}

void vt_sources_write(struct vt_spot *spots, size_t count, const struct vt_trace *trace, FILE *json)
{
    bool first = true;

    qsort(spots, count, sizeof *spots, compare_spots);
    fputs("{", json);
    for (size_t i = 0, next; i < count; i = next) {
        struct vt_source_text source = {.count = 0};

        for (next = i + 1; next < count && !strcmp(spots[next].file, spots[i].file);)
            next++;
        vt_source_read(trace, spots[i].file, &source);
        if (source.state == VT_SOURCE_READ) {
            fputs(first ? "" : ",", json);
            vt_json_text(spots[i].file, false, json);
            fputs(":{", json);
            put_lines(&source, spots + i, next - i, json);
            fputs("}", json);
            first = false;
        }
        vt_source_free(&source);
    }
    fputs("}", json);
}
