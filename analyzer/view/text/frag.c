/* Fragmentation: the framework's segments as a map, and what keeps each from being given back. */
#include "diagnose/fragmentation.h"
#include "base/index.h"
#include "report/group_table.h"
#include "report/parts.h"
#include "view/text/text.h"

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
    struct vt_fragmentation found;
    uint32_t *order; /* of segments: most bytes kept first */
};

static uint64_t kept_bytes(const struct vt_segment *segment)
{
    return segment->bytes - segment->block_bytes;
}

static int by_kept(const void *left, const void *right, void *segments)
{
    const struct vt_segment *a = (const struct vt_segment *)segments + *(const uint32_t *)left,
                            *b = (const struct vt_segment *)segments + *(const uint32_t *)right;

    if (kept_bytes(a) != kept_bytes(b))
        return kept_bytes(a) > kept_bytes(b) ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->address < b->address ? -1 : a->address > b->address;
}

/* The category that holds most of [start, end) of a segment; VT_CATEGORY_CACHED for holes. */
static unsigned category_in(const struct picture *picture, const struct vt_segment *segment, uint64_t start,
                            uint64_t end)
{
    const struct vt_attribution *attribution = picture->report->attribution;
    const struct vt_allocation *allocations = attribution->replay->allocations;
    uint64_t held[VT_CATEGORY_COUNT] = {0}, all = 0;

    for (uint32_t i = 0; i < segment->blocks; i++) {
        const struct vt_allocation *block = &allocations[picture->found.blocks[segment->first_block + i]];
        uint64_t low = block->address > start ? block->address : start;
        uint64_t high = block->address + block->bytes < end ? block->address + block->bytes : end;

        if (high > low) {
            held[vt_label_of(attribution, block)->category] += high - low;
            all += high - low;
        }
    }
    held[VT_CATEGORY_CACHED] = end - start > all ? end - start - all : 0;
    return held[VT_CATEGORY_CACHED] * 2 > end - start ? VT_CATEGORY_CACHED : vt_largest_category(held);
}

static void put_cell(FILE *stream, const struct vt_view_style *style, unsigned category)
{
    const struct vt_category_style *inspection = vt_category_style(category);

    if (category == VT_CATEGORY_CACHED) {
        fputs(style->unicode ? VT_DIM "╌" VT_RESET : "-", stream);
        return;
    }
    fprintf(stream, "\x0e%c", VT_MARK_INK + (int)category);
    if (!style->unicode)
        fputc(inspection->ascii_fill, stream);
    else
        fputs(style->colour && inspection->fill[0] != ' ' ? "█" : inspection->fill, stream);
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
        unsigned category = category_in(picture, segment, start, end > start ? end : start + 1);

        used[category] = true;
        put_cell(stream, style, category);
    }
    fprintf(stream, "%s%*s %11s free", style->unicode ? "▏" : "|", columns - cells, "",
            vt_format_bytes(kept_bytes(segment), kept));
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
        fprintf(stream, " %s  ", c == VT_CATEGORY_CACHED ? "free" : vt_category_style(c)->label);
    }
    if (!fclose(stream))
        vt_print_paragraph(picture->print, 2, 2, "%s", key);
    free(key);
}

/* Rows that look the same share one. Returns how many segments are shown. */
static size_t map_rows(const struct picture *picture, size_t rows, bool used[VT_CATEGORY_COUNT])
{
    const struct vt_fragmentation *found = &picture->found;
    int columns = picture->print->style->width - MAP_SIDE;
    uint64_t largest = 1, times = 0;
    char *last = NULL;
    size_t i = 0;

    for (size_t k = 0; k < found->segment_count; k++)
        if (found->segments[k].bytes > largest && (kept_bytes(&found->segments[k]) || !found->hole_bytes))
            largest = found->segments[k].bytes;
    for (; i <= found->segment_count; i++) {
        const struct vt_segment *segment =
            i < found->segment_count ? &found->segments[picture->order[i]] : NULL;
        char *row = segment && (kept_bytes(segment) || !found->hole_bytes)
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
    const struct vt_fragmentation *found = &picture->found;
    size_t rows = picture->print->style->top ? (size_t)picture->print->style->top : MAP_ROWS, shown;
    bool used[VT_CATEGORY_COUNT] = {false};
    uint64_t rest = 0, rest_free = 0;
    char bytes[32], other[32];

    fprintf(picture->print->stream, VT_BOLD "Segments, those with most free bytes first" VT_RESET "\n");
    shown = map_rows(picture, rows, used);
    for (size_t i = shown; i < found->segment_count; i++) {
        rest += found->segments[picture->order[i]].bytes;
        rest_free += kept_bytes(&found->segments[picture->order[i]]);
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

/* What one line keeps. */
struct pins {
    char name[256];
    uint64_t segments, pin_bytes, kept;
    uint64_t categories[VT_CATEGORY_COUNT];
};

static int by_pins(const void *left, const void *right)
{
    const struct pins *a = left, *b = right;

    if (a->kept != b->kept)
        return a->kept > b->kept ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Groups the pins of segments that have holes, by what a person calls them. */
static int group_pins(const struct picture *picture, struct pins *groups, size_t *count)
{
    struct vt_index names = {0}; /* hash of a name → group */
    int result = 0;

    *count = 0;
    for (size_t i = 0; !result && i < picture->found.segment_count; i++) {
        const struct vt_segment *segment = &picture->found.segments[i];
        const struct vt_allocation *block;
        char name[256] = "no line known";
        struct vt_frame frame;
        uint64_t hash;
        uint32_t k;

        if (segment->pin == VT_NEVER || !segment->holes)
            continue;
        block = &picture->report->attribution->replay->allocations[segment->pin];
        if (vt_trace_user_frame(picture->report->trace, vt_telling_stack(picture->report->attribution, block),
                                &frame))
            vt_name_frame(picture->report->trace, &frame, name, sizeof name);
        hash = vt_hash_bytes(name, strlen(name), VT_HASH_START);
        k = vt_index_get(&names, hash);
        if (k == VT_INDEX_NONE) {
            k = (uint32_t)(*count)++;
            snprintf(groups[k].name, sizeof groups[k].name, "%s", name);
            result = vt_index_put(&names, hash, k);
        }
        groups[k].segments++;
        groups[k].pin_bytes += block->bytes;
        groups[k].kept += kept_bytes(segment);
        groups[k].categories[vt_label_of(picture->report->attribution, block)->category] += block->bytes;
    }
    vt_index_free(&names);
    qsort(groups, *count, sizeof *groups, by_pins);
    return result;
}

static int pins(const struct picture *picture)
{
    struct pins *groups = calloc(picture->found.segment_count + 1, sizeof *groups);
    size_t rows = picture->print->style->top ? (size_t)picture->print->style->top : PIN_ROWS, count;
    int result;
    struct vt_table table;
    char bytes[32], title[64];
    const struct vt_column columns[] = {
        {vt_lossy_title(picture->report, "What keeps them, by line", title, sizeof title), false,
         VT_CUT_PARTS, 28, 0},
        {"segments", true, VT_CUT_END, 0, 2},
        {"by blocks of", true, VT_CUT_END, 0, 1},
        {"", false, VT_CUT_END, 0, 3},
        {"kept free", true, VT_CUT_END, 0, 0}};

    if (!groups)
        return -ENOMEM;
    result = group_pins(picture, groups, &count);
    if (result) {
        free(groups);
        return result;
    }
    vt_table_begin(&table, columns, 5);
    for (size_t i = 0; i < count && i < rows; i++) {
        vt_table_cell(&table, "%s", groups[i].name);
        vt_table_cell(&table, "%s", vt_format_count(groups[i].segments, bytes));
        vt_table_cell(&table, "%s", vt_format_bytes(groups[i].pin_bytes, bytes));
        vt_category_cell(&table, groups[i].categories);
        vt_table_cell(&table, "%s", vt_format_bytes(groups[i].kept, bytes));
    }
    vt_table_print(&table, picture->print, picture->print->style->width);
    vt_print_paragraph(
        picture->print, 2, 2,
        "A segment goes back to the driver only when nothing is left in it: each is counted with the "
        "block in it that stays longest.");
    free(groups);
    return 0;
}

static void summary(const struct picture *picture)
{
    const struct vt_fragmentation *found = &picture->found;
    char when[160], reserved[32], blocks[32], holes[32], other[32], percent[32];

    vt_text_when(picture->report, picture->instant->t_ns, picture->instant->step, picture->instant->phase,
                 when);
    vt_print_paragraph(picture->print, 0, 0,
                       VT_BOLD "%s" VT_RESET " reserved in %zu segments %s%s: %s in blocks, " VT_BOLD
                               "%s" VT_RESET " free (%s).",
                       vt_format_bytes(found->reserved_bytes, reserved), found->segment_count,
                       picture->device->at.present ? "" : "at the peak, ", when,
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
    struct picture picture = {.print = print, .report = report, .device = device};
    char name[192];
    int result;

    picture.instant = vt_shown_instant(device);
    result = vt_fragmentation_find(report->attribution->replay, device->index, picture.instant->event_index,
                                   &picture.found);
    if (result)
        return result;
    if (report->device_count > 1)
        fprintf(print->stream, VT_BOLD "%s" VT_RESET "\n", vt_text_device(device, name));
    picture.order = calloc(picture.found.segment_count + 1, sizeof *picture.order);
    if (!picture.order) {
        vt_fragmentation_free(&picture.found);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < picture.found.segment_count; i++)
        picture.order[i] = i;
    qsort_r(picture.order, picture.found.segment_count, sizeof *picture.order, by_kept,
            picture.found.segments);
    if (!picture.found.segment_count) {
        vt_print_paragraph(print, 0, 0, "No framework held segments on GPU %d then.", device->index);
    } else {
        summary(&picture);
        fputc('\n', print->stream);
        map(&picture);
        if (picture.found.kept_bytes)
            result = pins(&picture);
    }
    free(picture.order);
    vt_fragmentation_free(&picture.found);
    return result;
}

static int write_frag(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
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

const struct vt_view vt_view_frag = {"frag", write_frag};
