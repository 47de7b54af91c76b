/* Fragmentation: the framework's segments as a map, and what keeps each from being given back. */
#include "view/text/text.h"
#include "view/text/views.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAP_ROWS 16
#define PIN_ROWS 8
#define MAP_SIDE 39 /* columns beside a row's map */

struct picture {
    struct vt_print *print;
    const struct vt_report *report;
    const struct vt_device_report *device;
    const struct vt_instant *instant;
    const struct vt_fragmentation *found;
    uint32_t *order; /* of segments: most bytes kept first */
};

static int by_kept(const void *left, const void *right, void *segments)
{
    const struct vt_segment *a = (const struct vt_segment *)segments + *(const uint32_t *)left,
                            *b = (const struct vt_segment *)segments + *(const uint32_t *)right;

    if (a->free_bytes != b->free_bytes)
        return a->free_bytes > b->free_bytes ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->address < b->address ? -1 : a->address > b->address;
}

/* The category that holds most of [start, end) of a segment; VT_CATEGORY_CACHED for holes. */
static unsigned category_in(const struct vt_segment *segment, uint64_t start, uint64_t end)
{
    uint64_t held[VT_CATEGORY_COUNT] = {0}, all = 0;

    for (uint32_t i = 0; i < segment->block_count; i++) {
        const struct vt_block *block = &segment->blocks[i];
        uint64_t low = block->address > start ? block->address : start;
        uint64_t high = block->address + block->bytes < end ? block->address + block->bytes : end;

        if (high > low) {
            held[block->category] += high - low;
            all += high - low;
        }
    }
    held[VT_CATEGORY_CACHED] = end - start > all ? end - start - all : 0;
    return held[VT_CATEGORY_CACHED] * 2 > end - start ? VT_CATEGORY_CACHED : vt_largest_category(held);
}

static void put_cell(FILE *stream, const struct vt_view_style *style, unsigned category)
{
    const struct vt_category_style *drawn = vt_category_style(category);

    if (category == VT_CATEGORY_CACHED) {
        fputs(style->unicode ? VT_DIM "╌" VT_RESET : "-", stream);
        return;
    }
    fprintf(stream, "\x0e%c", VT_MARK_INK + (int)category);
    if (!style->unicode)
        fputc(drawn->ascii_fill, stream);
    else
        fputs(style->colour && drawn->fill[0] != ' ' ? "█" : drawn->fill, stream);
    fputs(VT_RESET, stream);
}

/* A row is as long as its part of the largest shown, but never so short that it shows nothing. NULL without
 * memory. */
static char *map_row(const struct picture *picture, const struct vt_segment *segment, uint64_t largest,
                     int columns, bool used[VT_CATEGORY_COUNT])
{
    const struct vt_view_style *style = picture->print->style;
    int cells = (int)((double)segment->bytes / (double)largest * columns + 0.5);
    char *row = NULL, bytes[32], kept[32];
    size_t length;
    FILE *stream = open_memstream(&row, &length);

    if (!stream)
        return NULL;
    cells = cells < 4 ? 4 : cells > columns ? columns : cells;
    fprintf(stream, "%11s %s", vt_format_bytes(segment->bytes, bytes), style->unicode ? "▕" : "|");
    for (int i = 0; i < cells; i++) {
        uint64_t start = segment->address + (uint64_t)((double)segment->bytes * i / cells);
        uint64_t end = i + 1 < cells ? segment->address + (uint64_t)((double)segment->bytes * (i + 1) / cells)
                                     : segment->address + segment->bytes;
        unsigned category = category_in(segment, start, end > start ? end : start + 1);

        used[category] = true;
        put_cell(stream, style, category);
    }
    fprintf(stream, "%s%*s %11s free", style->unicode ? "▏" : "|", columns - cells, "",
            vt_format_bytes(segment->free_bytes, kept));
    return fclose(stream) ? NULL : row;
}

static void map_key(const struct picture *picture, const bool used[VT_CATEGORY_COUNT])
{
    char *key = NULL;
    size_t length;
    FILE *stream = open_memstream(&key, &length);

    if (!stream)
        return;
    for (unsigned c = 0; c < VT_CATEGORY_COUNT; c++) {
        if (!used[c])
            continue;
        put_cell(stream, picture->print->style, c);
        fprintf(stream, " %s  ", c == VT_CATEGORY_CACHED ? "free" : vt_category_label(c));
    }
    if (!fclose(stream))
        vt_print_paragraph(picture->print, 2, 2, "%s", key);
    free(key);
}

/* Rows that look the same share one. Returns how many segments are shown. */
static size_t map_rows(const struct picture *picture, size_t rows, bool used[VT_CATEGORY_COUNT])
{
    const struct vt_fragmentation *found = picture->found;
    int columns = picture->print->style->width - MAP_SIDE;
    uint64_t largest = 1, times = 0;
    char *last = NULL;
    size_t i = 0;

    for (size_t k = 0; k < found->segment_count; k++)
        if (found->segments[k].bytes > largest && (found->segments[k].free_bytes || !found->hole_bytes))
            largest = found->segments[k].bytes;
    for (; i <= found->segment_count; i++) {
        const struct vt_segment *segment =
            i < found->segment_count ? &found->segments[picture->order[i]] : NULL;
        char *row = segment && (segment->free_bytes || !found->hole_bytes)
                        ? map_row(picture, segment, largest, columns < 10 ? 10 : columns, used)
                        : NULL;

        if (row && last && !strcmp(row, last)) {
            times++;
            free(row);
            continue;
        }
        if (last && times > 1)
            fprintf(picture->print->stream, "%4" PRIu64 " × %s\n", times, last);
        else if (last)
            fprintf(picture->print->stream, "       %s\n", last);
        rows -= last != NULL;
        free(last);
        last = rows ? row : NULL;
        times = 1;
        if (!last) {
            free(row);
            break;
        }
    }
    return i < found->segment_count ? i : found->segment_count;
}

static void map(const struct picture *picture)
{
    const struct vt_fragmentation *found = picture->found;
    size_t rows = picture->print->style->top ? (size_t)picture->print->style->top : MAP_ROWS, shown;
    bool used[VT_CATEGORY_COUNT] = {false};
    uint64_t rest = 0, rest_free = 0;
    char bytes[32], other[32];

    fprintf(picture->print->stream, VT_BOLD "Segments, those with most free bytes first" VT_RESET "\n");
    shown = map_rows(picture, rows, used);
    for (size_t i = shown; i < found->segment_count; i++) {
        rest += found->segments[picture->order[i]].bytes;
        rest_free += found->segments[picture->order[i]].free_bytes;
    }
    if (found->segment_count > shown && !rest_free)
        fprintf(picture->print->stream, VT_DIM "  … %zu more without holes, %s" VT_RESET "\n",
                found->segment_count - shown, vt_format_bytes(rest, bytes));
    else if (found->segment_count > shown)
        fprintf(picture->print->stream, VT_DIM "  … %zu more, %s, of which %s free" VT_RESET "\n",
                found->segment_count - shown, vt_format_bytes(rest, bytes),
                vt_format_bytes(rest_free, other));
    map_key(picture, used);
    fputc('\n', picture->print->stream);
}

static void pins(const struct picture *picture)
{
    const struct vt_fragmentation *found = picture->found;
    size_t rows = picture->print->style->top ? (size_t)picture->print->style->top : PIN_ROWS;
    struct vt_table table;
    char bytes[32], title[64];
    const struct vt_column columns[] = {
        {vt_lossy_title(picture->report, "What keeps them, by line", title, sizeof title), false,
         VT_CUT_PARTS, 28, 0},
        {"segments", true, VT_CUT_END, 0, 2},
        {"by blocks of", true, VT_CUT_END, 0, 1},
        {"", false, VT_CUT_END, 0, 3},
        {"kept free", true, VT_CUT_END, 0, 0}};

    vt_table_begin(&table, columns, 5);
    for (size_t i = 0; i < found->pin_count && i < rows; i++) {
        const struct vt_pin *pin = &found->pins[i];

        vt_table_cell(&table, "%s", pin->name[0] ? pin->name : "no line known");
        vt_table_cell(&table, "%s", vt_format_count(pin->segments, bytes));
        vt_table_cell(&table, "%s", vt_format_bytes(pin->bytes, bytes));
        vt_category_cell(&table, pin->categories);
        vt_table_cell(&table, "%s", vt_format_bytes(pin->kept_bytes, bytes));
    }
    vt_table_print(&table, picture->print, picture->print->style->width);
    vt_print_paragraph(
        picture->print, 2, 2,
        "A segment goes back to the driver only when nothing is left in it: each is counted with the "
        "block in it that stays longest.");
}

static void summary(const struct picture *picture)
{
    const struct vt_fragmentation *found = picture->found;
    char when[160], reserved[32], blocks[32], holes[32], other[32], percent[32];

    vt_text_when(picture->report, picture->instant->state.t_ns, picture->instant->state.step,
                 picture->instant->state.phase, when);
    vt_print_paragraph(picture->print, 0, 0,
                       VT_BOLD "%s" VT_RESET " reserved in %zu segments %s%s: %s in blocks, " VT_BOLD
                               "%s" VT_RESET " free (%s).",
                       vt_format_bytes(found->reserved_bytes, reserved), found->segment_count,
                       picture->device->at.state.present ? "" : "at the peak, ", when,
                       vt_format_bytes(found->block_bytes, blocks), vt_format_bytes(found->hole_bytes, holes),
                       vt_format_percent(found->hole_bytes, found->reserved_bytes, percent));
    if (!found->hole_bytes)
        return;
    vt_print_paragraph(
        picture->print, 0, 0,
        "Of the free bytes %s lie in segments without any block, which an emptied cache gives back, and "
        "%s beside blocks in use. The largest hole is %s.",
        vt_format_bytes(found->empty_bytes, reserved), vt_format_bytes(found->kept_bytes, blocks),
        vt_format_bytes(found->largest_hole_bytes, holes));
    if (found->unusable_bytes)
        vt_print_paragraph(
            picture->print, 0, 0,
            "%s (%s of what is reserved) lie in holes too small for any request that was ever made of "
            "their pool, of which the large one's least is %s.",
            vt_format_bytes(found->unusable_bytes, reserved),
            vt_format_percent(found->unusable_bytes, found->reserved_bytes, percent),
            vt_format_bytes(found->least_request_bytes[0], other));
    else
        vt_print_paragraph(picture->print, 0, 0,
                           "No hole is too small for all requests that were ever made of its pool.");
}

static int device_section(struct vt_print *print, const struct vt_report *report,
                          const struct vt_device_report *device)
{
    const struct vt_fragmentation *found = &device->fragmentation;
    struct picture picture = {
        .print = print, .report = report, .device = device, .instant = device->shown, .found = found};
    char name[192];

    if (report->device_count > 1)
        fprintf(print->stream, VT_BOLD "%s" VT_RESET "\n", vt_text_device(device, name));
    if (!found->segment_count) {
        vt_print_paragraph(print, 0, 0, "No framework held segments on GPU %d then.", device->index);
        return 0;
    }
    picture.order = calloc(found->segment_count, sizeof *picture.order);
    if (!picture.order)
        return -ENOMEM;
    for (uint32_t i = 0; i < found->segment_count; i++)
        picture.order[i] = i;
    qsort_r(picture.order, found->segment_count, sizeof *picture.order, by_kept, found->segments);
    summary(&picture);
    fputc('\n', print->stream);
    map(&picture);
    if (found->kept_bytes)
        pins(&picture);
    free(picture.order);
    return 0;
}

int vt_text_frag(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    struct vt_print print;
    int result = vt_print_begin(&print, style), finished;

    if (result)
        return result;
    vt_text_header(&print, report, "frag");
    if (!report->device_count)
        vt_print_paragraph(&print, 0, 0, "No GPU memory was held at any time of this trace.");
    for (size_t i = 0; !result && i < report->device_count; i++) {
        if (i)
            fputc('\n', print.stream);
        result = device_section(&print, report, &report->devices[i]);
    }
    finished = vt_print_finish(&print, out);
    return result ? result : finished;
}
