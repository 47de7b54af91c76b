#include "view/html/sources.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AROUND 3u           /* lines before and after a place */
#define LINE_BYTES 400u     /* of a line; the rest is cut */
#define FILE_LINES 1000000u /* lines further down are not read */

struct spot {
    uint32_t file, line;
};

static int compare_spots(const void *left, const void *right)
{
    const struct spot *a = left, *b = right;

    return 2 * vt_order(a->file, b->file) + vt_order(a->line, b->line);
}

/* Cut, without indentation lost and without the line's end. */
static void put_line(struct vt_bytes *json, bool first, uint32_t number, char *text)
{
    size_t length = strcspn(text, "\r\n");

    if (length > LINE_BYTES)
        for (length = LINE_BYTES; length && ((unsigned char)text[length] & 0xc0) == 0x80;)
            length--; /* not within a letter */
    text[length] = '\0';
    vt_bytes_print(json, "%s\"%" PRIu32 "\":", first ? "" : ",", number);
    vt_bytes_string(json, text);
}

/* Lines around the spots, which are of one file and ascend. */
static void put_lines(FILE *file, const struct spot *spots, size_t count, struct vt_bytes *json)
{
    char *text = NULL;
    size_t capacity = 0;
    bool first = true;

    for (uint32_t line = 1; count && line < FILE_LINES && getline(&text, &capacity, file) >= 0; line++) {
        while (count && spots->line + AROUND < line) {
            spots++;
            count--;
        }
        if (!count || line + AROUND < spots->line)
            continue;
        put_line(json, first, line, text);
        first = false;
    }
    free(text);
}

static void put_files(const struct spot *spots, size_t count, const struct vt_texts *texts,
                      const struct vt_trace *trace, struct vt_bytes *json)
{
    bool first = true;

    for (size_t i = 0, next; i < count; i = next) {
        FILE *file;
        uint8_t state;

        for (next = i + 1; next < count && spots[next].file == spots[i].file;)
            next++;
        file = vt_source_open(trace, texts->items[spots[i].file], &state);
        if (!file)
            continue;
        vt_bytes_print(json, "%s\"%" PRIu32 "\":{", first ? "" : ",", spots[i].file);
        put_lines(file, spots + i, next - i, json);
        vt_bytes_add(json, "}", 1);
        fclose(file);
        first = false;
    }
}

void vt_sources_write(const struct vt_word_rows *rows, const struct vt_texts *texts,
                      const struct vt_trace *trace, struct vt_bytes *json)
{
    struct spot *spots = malloc((rows->count + 1) * sizeof *spots);
    size_t count = 0;

    if (!spots) {
        json->failed = true;
        return;
    }
    for (size_t i = 0; i < rows->count; i++) {
        const uint64_t *words = vt_row_words(rows, i);

        if (words[1] && words[2])
            spots[count++] = (struct spot){(uint32_t)words[1], (uint32_t)words[2]};
    }
    qsort(spots, count, sizeof *spots, compare_spots);
    vt_bytes_add(json, "{", 1);
    put_files(spots, count, texts, trace, json);
    vt_bytes_add(json, "}", 1);
    free(spots);
}
