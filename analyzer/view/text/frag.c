/* Fragmentation: the framework's segments as a map, and the lines that pin them. */
#include "view/text/table.h"
#include "view/text/text.h"
#include "view/text/views.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory_stream.h"

#define MAP_ROWS 16
#define PIN_ROWS 8
#define MAP_SIDE 39 /* columns beside a row's map */

static int by_free(const void *left, const void *right)
{
    const struct vt_segment *a = *(const struct vt_segment *const *)left,
                            *b = *(const struct vt_segment *const *)right;

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
    if (category == VT_CATEGORY_CACHED)
        fputs(style->unicode ? VT_DIM "╌" VT_RESET : "-", stream);
    else
        vt_put_fill(stream, style, category, category);
}

/* A row is as long as its share of the largest segment, at least 4 cells. */
static char *map_row(const struct vt_view_style *style, const struct vt_segment *segment, uint64_t largest,
                     int columns, bool used[VT_CATEGORY_COUNT])
{
    int cells = vt_columns_of((double)segment->bytes / (double)largest + 0.5 / columns, columns);
    char *row;
    size_t length;
    FILE *stream = vt_memory_stream(&row, &length);

    cells = cells < 4 ? 4 : cells;
    fprintf(stream, "%11s %s", VT_BYTES(segment->bytes), style->unicode ? "▕" : "|");
    for (int i = 0; i < cells; i++) {
        uint64_t start = segment->address + (uint64_t)((double)segment->bytes * i / cells);
        uint64_t end = i + 1 < cells ? segment->address + (uint64_t)((double)segment->bytes * (i + 1) / cells)
                                     : segment->address + segment->bytes;
        unsigned category = category_in(segment, start, end > start ? end : start + 1);

        used[category] = true;
        put_cell(stream, style, category);
    }
    fprintf(stream, "%s%*s %11s free", style->unicode ? "▏" : "|", columns - cells, "",
            VT_BYTES(segment->free_bytes));
    fclose(stream);
    return row;
}

static void map_key(struct vt_print *print, const bool used[VT_CATEGORY_COUNT])
{
    for (unsigned c = 0; c < VT_CATEGORY_COUNT; c++) {
        if (!used[c])
            continue;
        put_cell(print->paragraph, print->style, c);
        fprintf(print->paragraph, " %s  ", c == VT_CATEGORY_CACHED ? "free" : vt_category_label(c));
    }
    vt_end_paragraph(print, 2, 2);
}

/* The largest segment with free bytes; if none has any, the largest of all. */
static uint64_t largest_drawn(const struct vt_fragmentation *found)
{
    uint64_t largest = 1;

    for (size_t k = 0; k < found->segment_count; k++)
        if (found->segments[k].bytes > largest && (found->segments[k].free_bytes || !found->hole_bytes))
            largest = found->segments[k].bytes;
    return largest;
}

/* Equal rows share one. Returns how many segments are shown. */
static size_t map_rows(struct vt_print *print, const struct vt_fragmentation *found,
                       const struct vt_segment *const *order, size_t rows, bool used[VT_CATEGORY_COUNT])
{
    int columns = print->style->width - MAP_SIDE;
    uint64_t largest = largest_drawn(found), times = 0;
    char *last = NULL;
    size_t i = 0;

    for (; i <= found->segment_count; i++) {
        const struct vt_segment *segment = i < found->segment_count ? order[i] : NULL;
        bool drawn = segment && (segment->free_bytes || !found->hole_bytes);
        char *row = drawn ? map_row(print->style, segment, largest, columns < 10 ? 10 : columns, used) : NULL;

        if (row && last && !strcmp(row, last)) {
            times++;
            free(row);
            continue;
        }
        if (last && times > 1)
            fprintf(print->stream, "%4" PRIu64 " × %s\n", times, last);
        else if (last)
            fprintf(print->stream, "       %s\n", last);
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

static void print_map(struct vt_print *print, const struct vt_fragmentation *found,
                      const struct vt_segment *const *order)
{
    size_t rows = vt_text_rows(print, 3, MAP_ROWS), shown;
    bool used[VT_CATEGORY_COUNT] = {false};
    uint64_t rest = 0, rest_free = 0;

    fprintf(print->stream, VT_BOLD "Segments (most free first)" VT_RESET "\n");
    shown = map_rows(print, found, order, rows, used);
    for (size_t i = shown; i < found->segment_count; i++) {
        rest += order[i]->bytes;
        rest_free += order[i]->free_bytes;
    }
    if (found->segment_count > shown && !rest_free)
        fprintf(print->stream, VT_DIM "  … %zu more without gaps, %s" VT_RESET "\n",
                found->segment_count - shown, VT_BYTES(rest));
    else if (found->segment_count > shown)
        fprintf(print->stream, VT_DIM "  … %zu more, %s, of which %s free" VT_RESET "\n",
                found->segment_count - shown, VT_BYTES(rest), VT_BYTES(rest_free));
    map_key(print, used);
    fputc('\n', print->stream);
}

static void pin_table(struct vt_print *print, const struct vt_fragmentation *found)
{
    size_t rows = vt_text_rows(print, 2, PIN_ROWS);
    struct vt_table table;
    const struct vt_print_column columns[] = {
        {VT_TITLE(print, "What pins segments, by line"), .cut = VT_CUT_PARTS, .minimum = 28},
        {"segments", .right = true, .drop = 2},
        {"by", .right = true, .drop = 1},
        {"", .drop = 3},
        {"unused", .right = true}};

    vt_table_begin(&table, columns, 5);
    for (size_t i = 0; i < found->pin_count && i < rows; i++) {
        const struct vt_pin *pin = &found->pins[i];

        vt_table_cells(&table, pin->name[0] ? pin->name : "no line known", VT_COUNT(pin->segments),
                       VT_BYTES(pin->bytes));
        vt_table_category(&table, pin->categories);
        vt_table_cells(&table, VT_BYTES(pin->kept_bytes));
    }
    vt_table_print(&table, print);
    vt_print_paragraph(print, 2, 2,
                       "A segment returns to the driver only when it is empty. It is attributed to its "
                       "longest-lived allocation.");
}

/* The request that failed at the moment that is shown; NULL = none. */
static const struct vt_oom *refusal_then(const struct vt_report *report,
                                         const struct vt_device_report *device)
{
    const struct vt_oom *refusal = &report->refusals[report->shown_refusal];

    return report->refusal_count && device->at.state.present && refusal->device_index == device->index &&
                   refusal->event_index == device->at.state.event_index
               ? refusal
               : NULL;
}

static void print_summary(struct vt_print *print, const struct vt_device_report *device)
{
    const struct vt_fragmentation *found = &device->fragmentation;
    const struct vt_oom *refusal = refusal_then(print->report, device);

    vt_print_paragraph(print, 0, 0,
                       VT_BOLD "%s" VT_RESET " reserved in %zu segments at %s, %s: %s used, " VT_BOLD
                               "%s" VT_RESET " free (%s).",
                       VT_BYTES(found->reserved_bytes), found->segment_count, print->report->at_label,
                       VT_WHEN(print->report, &device->shown->state), VT_BYTES(found->block_bytes),
                       VT_BYTES(found->hole_bytes), VT_PERCENT(found->hole_bytes, found->reserved_bytes));
    if (!found->hole_bytes)
        return;
    if (found->empty_bytes)
        fprintf(print->paragraph, "%s of it is in empty segments", VT_BYTES(found->empty_bytes));
    if (found->release)
        fprintf(print->paragraph, " (%s would return %s)", found->release,
                found->returnable_bytes == found->empty_bytes ? "it" : VT_BYTES(found->returnable_bytes));
    if (found->empty_bytes)
        fputs(". ", print->paragraph);
    if (found->kept_bytes)
        fprintf(print->paragraph, "%s is in gaps beside memory in use. ", VT_BYTES(found->kept_bytes));
    if (found->idle_stream_count)
        fprintf(print->paragraph,
                "%s is reserved for %" PRIu32 " of %" PRIu32 " streams, which hold no tensor. ",
                VT_BYTES(found->idle_stream_bytes), found->idle_stream_count, found->stream_count);
    if (refusal)
        fprintf(print->paragraph, VT_BOLD "%s" VT_RESET " was requested; the largest gap was %s.",
                VT_BYTES(refusal->asked_bytes), VT_BYTES(found->largest_hole_bytes));
    else
        fprintf(print->paragraph, "The largest gap is %s.", VT_BYTES(found->largest_hole_bytes));
    vt_end_paragraph(print, 0, 0);
    if (found->unusable_bytes)
        vt_print_paragraph(
            print, 0, 0,
            "%s (%s of the reserved bytes) is in gaps too small for any request ever made%s; the smallest "
            "request%s is %s.",
            VT_BYTES(found->unusable_bytes), VT_PERCENT(found->unusable_bytes, found->reserved_bytes),
            found->has_pools ? " of their pool" : "", found->has_pools ? " of the large pool" : "",
            VT_BYTES(found->least_request_bytes[0]));
    else if (!refusal)
        vt_print_paragraph(print, 0, 0, "No gap is unusably small: some request%s fits in each.",
                           found->has_pools ? " of its pool" : "");
}

static void device_section(struct vt_print *print, const struct vt_device_report *device)
{
    const struct vt_fragmentation *found = &device->fragmentation;
    const struct vt_segment **order;

    if (!found->segment_count) {
        vt_print_paragraph(print, 0, 0, "No caching allocator was in use on GPU %d.", device->index);
        return;
    }
    order = vt_allocate_zeros(found->segment_count, sizeof *order);
    for (size_t i = 0; i < found->segment_count; i++)
        order[i] = &found->segments[i];
    qsort(order, found->segment_count, sizeof *order, by_free);
    print_summary(print, device);
    fputc('\n', print->stream);
    print_map(print, found, order);
    if (found->kept_bytes)
        pin_table(print, found);
    for (uint32_t i = 0; i < found->advice_count; i++)
        vt_print_paragraph(print, 0, 0, VT_BOLD "fix" VT_RESET "  %s", found->advice[i]);
    free(order);
}

void vt_text_frag(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    vt_text_page(report, style, out, "frag", NULL, device_section);
}
