#include "view/top/page.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "view/text/print.h"

enum { WIDE = 120, CELL_BYTES = 5120, LEAST = 16, LEVELS = 8 };

/* ---- Numbers of at most five columns ---- */

static void put_short(double value, double step, const char *const *units, char *text)
{
    while (value >= step - 0.5 && units[1]) { /* 1023.7 would print as 1024 */
        value /= step;
        units++;
    }
    snprintf(text, 32, "%.*f%s", !**units || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2, value, *units);
}

static void put_bytes(uint64_t bytes, bool wide, char *text)
{
    static const char *const units[] = {"", "K", "M", "G", "T", "P", "E", NULL};
    if (wide)
        vt_format_bytes(bytes, text);
    else
        put_short((double)bytes, 1024, units, text);
}

static void put_count(double count, char *text)
{
    static const char *const units[] = {"", "k", "M", "G", NULL};
    put_short(count, 1000, units, text);
}

static void put_age(uint64_t age_ns, char *text)
{
    const uint64_t seconds = age_ns / 1000000000u;
    const char unit = seconds < 100 ? 's' : seconds < 6000 ? 'm' : seconds < 172800 ? 'h' : 'd';
    const unsigned divisor = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 86400;
    snprintf(text, 32, "%" PRIu64 "%c", seconds / divisor, unit);
}

/* ---- Tables ---- */

struct column {
    const char *title;
    int width, wide;     /* the last one's is what is left */
    bool left, optional; /* optional: without a column where the cell is empty */
    int key;             /* enum vt_top_key, -1 = none */
};

static void put_line(const struct column *columns, size_t count, char (*cells)[CELL_BYTES], int width,
                     FILE *out)
{
    int left = width;
    for (size_t i = 0; i < count && left > 0; i++) {
        if (!cells[i][0] && columns[i].optional)
            continue;
        int own = i + 1 == count ? left : width >= WIDE ? columns[i].wide : columns[i].width;
        own = own < left ? own : left;
        char *text = vt_shorten(cells[i], own, VT_CUT_END);
        const int pad = own - vt_text_columns(text);
        fprintf(out, "%*s%s", columns[i].left ? 0 : pad, "", text);
        if (left > own + 1)
            fprintf(out, "%*s", (columns[i].left ? pad : 0) + 1, "");
        left -= own + 1;
        free(text);
    }
    fputc('\n', out);
}

static void put_titles(const struct column *columns, size_t count, int marked, bool all, int width, FILE *out)
{
    static char cells[16][CELL_BYTES];
    for (size_t i = 0; i < count; i++)
        snprintf(cells[i], sizeof cells[i], "%s%s", columns[i].optional && !all ? "" : columns[i].title,
                 marked >= 0 && columns[i].key == marked ? "▾" : "");
    fputs(VT_BOLD, out);
    put_line(columns, count, cells, width, out);
    fputs(VT_RESET, out);
}

/* ---- Cards ---- */

static const struct column gpu_columns[] = {
    {"GPU", 4, 4, true, false, -1},      {"PROCS", 5, 5, false, false, -1},
    {"DRIVER", 6, 10, false, false, -1}, {"SEGMENTS", 8, 10, false, false, -1},
    {"BLOCKS", 6, 10, false, false, -1}, {"GPU USED", 9, 10, false, false, -1},
    {"OF", 6, 10, false, false, -1},     {"AGO", 4, 4, false, false, -1},
    {"NAME", 0, 0, true, false, -1},
};
enum { GPU_COLUMNS = sizeof gpu_columns / sizeof *gpu_columns };

static void put_gpu(const struct vt_top_card *gpu, int width, FILE *out)
{
    static char cells[GPU_COLUMNS][CELL_BYTES];
    const bool wide = width >= WIDE;
    memset(cells, 0, sizeof cells);
    snprintf(cells[0], CELL_BYTES, "%s", gpu->label);
    snprintf(cells[1], CELL_BYTES, "%" PRIu32, gpu->process_count);
    put_bytes(gpu->driver_bytes, wide, cells[2]);
    put_bytes(gpu->segment_bytes, wide, cells[3]);
    put_bytes(gpu->block_bytes, wide, cells[4]);
    snprintf(cells[5], CELL_BYTES, "–");
    snprintf(cells[6], CELL_BYTES, "–");
    if (gpu->told.total_bytes)
        put_bytes(gpu->told.total_bytes, wide, cells[6]);
    if (gpu->told.info_ns && gpu->told.free_bytes <= gpu->told.total_bytes) {
        put_bytes(gpu->told.total_bytes - gpu->told.free_bytes, wide, cells[5]);
        put_age(gpu->info_age_ns, cells[7]);
    }
    snprintf(cells[8], CELL_BYTES, "%s%s%s", gpu->name, gpu->name[0] && gpu->uuid[0] ? "  " : "", gpu->uuid);
    put_line(gpu_columns, GPU_COLUMNS, cells, width, out);
}

/* ---- Processes ---- */

enum { PID, RANK, GPU, DRIVER, SEGMENTS, BLOCKS, PEAK, EVENTS, MADE, HISTORY, COMMAND, ROW_COLUMNS };
static const struct column row_columns[ROW_COLUMNS] = {
    [PID] = {"PID", 7, 7, false, false, VT_TOP_BY_PID},
    [RANK] = {"RANK", 5, 5, false, true, VT_TOP_BY_RANK},
    [GPU] = {"GPU", 4, 4, true, false, VT_TOP_BY_DEVICE},
    [DRIVER] = {"DRIVER", 7, 10, false, false, VT_TOP_BY_DRIVER},
    [SEGMENTS] = {"SEGM", 5, 10, false, false, VT_TOP_BY_SEGMENTS},
    [BLOCKS] = {"BLOCKS", 7, 10, false, false, VT_TOP_BY_BLOCKS},
    [PEAK] = {"PEAK", 5, 10, false, false, VT_TOP_BY_PEAK},
    [EVENTS] = {"EV/s", 5, 6, false, false, VT_TOP_BY_EVENTS},
    [MADE] = {"ALLOC/s", 8, 11, false, false, VT_TOP_BY_MADE},
    [HISTORY] = {"HISTORY", 8, 24, true, false, -1},
    [COMMAND] = {"COMMAND", 0, 0, true, false, VT_TOP_BY_COMMAND},
};

/* The maximum of each part of the history, compared with the peak. */
static void put_history(const struct vt_top_use *use, int cells, bool unicode, char *text)
{
    static const char *const blocks[LEVELS + 1] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const letters[LEVELS + 1] = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};
    const uint32_t count = use->history_count, each = (count + (uint32_t)cells - 1) / (uint32_t)cells;
    for (uint32_t i = 0; i < count; i += each) {
        uint64_t most = 0;
        for (uint32_t k = i; k < count && k < i + each; k++) {
            const uint64_t bytes = use->history[VT_TOP_HISTORY - count + k];
            most = bytes > most ? bytes : most;
        }
        const double part = most < use->used_peak_bytes ? (double)most / (double)use->used_peak_bytes : 1;
        const int level = most ? 1 + (int)(part * (LEVELS - 1) + 0.5) : 0;
        text = stpcpy(text, (unicode ? blocks : letters)[level]);
    }
}

static void put_command(const struct vt_top_process *process, char *text)
{
    char lost[32] = "", pool[96] = "", count[32], used[32], age[32];
    const uint64_t missing = process->lost_events + process->lost_definitions;
    if (missing)
        snprintf(lost, sizeof lost, "lost %s ", vt_format_count(missing, count));
    put_age(process->pool_age_ns, age);
    if (process->pool_tokens)
        snprintf(pool, sizeof pool, "KV %s of %s tokens, %" PRIu64 " running (%s ago) ",
                 vt_format_count(process->used_tokens, used), vt_format_count(process->pool_tokens, count),
                 process->pool.requests, age);
    snprintf(text, CELL_BYTES, "%s%s%s%s%s",
             process->state == VT_TOP_RECORDING ? "" : vt_top_state_name((unsigned)process->state),
             process->state == VT_TOP_RECORDING ? "" : " ", lost, pool, vt_without_folder(process->command));
}

static void put_row(const struct vt_top_row *row, bool ranks, const struct vt_view_style *style, FILE *out)
{
    static char cells[ROW_COLUMNS][CELL_BYTES];
    const struct vt_top_process *process = row->process;
    const struct vt_top_use *use = row->use;
    const bool wide = style->width >= WIDE;
    memset(cells, 0, sizeof cells);
    snprintf(cells[PID], CELL_BYTES, "%" PRIu32, process->pid);
    snprintf(cells[RANK], CELL_BYTES, "%s", process->rank[0] ? process->rank : ranks ? "–" : "");
    snprintf(cells[GPU], CELL_BYTES, "%s", use ? use->label : "–");
    for (int i = DRIVER; i <= MADE; i++)
        snprintf(cells[i], CELL_BYTES, "–");
    if (use) {
        put_bytes(use->driver_bytes, wide, cells[DRIVER]);
        if (use->tallied)
            put_bytes(use->segment_bytes, wide, cells[SEGMENTS]);
        put_bytes(use->block_bytes, wide, cells[BLOCKS]);
        put_bytes(use->used_peak_bytes, wide, cells[PEAK]);
        put_history(use, wide ? row_columns[HISTORY].wide : row_columns[HISTORY].width, style->unicode,
                    cells[HISTORY]);
    }
    if (process->has_rates) {
        put_count(process->events_per_second, cells[EVENTS]);
        put_bytes((uint64_t)process->made_per_second, wide, cells[MADE]);
    }
    put_command(process, cells[COMMAND]);
    put_line(row_columns, ROW_COLUMNS, cells, style->width, out);
}

/* ---- The page ---- */

static void put_head(const struct vt_top *top, int width, FILE *out)
{
    const time_t seconds = (time_t)(top->unix_ns / 1000000000u);
    struct tm parts;
    char now[32] = "";
    if (localtime_r(&seconds, &parts))
        strftime(now, sizeof now, "%H:%M:%S", &parts);
    char *line = vt_print_text("vramtrace top · %s · %s · %zu process%s, %zu GPU%s", top->host, now,
                               top->process_count, top->process_count == 1 ? "" : "es", top->card_count,
                               top->card_count == 1 ? "" : "s");
    char *cut = vt_shorten(line, width, VT_CUT_END);
    fprintf(out, VT_BOLD "%s" VT_RESET "\n", cut);
    free(cut);
    free(line);
}

void vt_top_text(const struct vt_top *top, const struct vt_view_style *style, enum vt_top_key marked,
                 int *title_line, FILE *out)
{
    struct vt_print print;
    /* On a screen the rows come first. */
    const int most = !style->height ? INT_MAX : style->height < LEAST + 1 ? 0 : style->height - LEAST;
    const size_t cards = top->card_count > (size_t)most ? (size_t)most : top->card_count;
    int lines = 1;
    bool ranks = false;
    for (size_t i = 0; i < top->process_count; i++)
        ranks = ranks || top->processes[i].rank[0];
    vt_print_begin(&print, style, NULL);
    put_head(top, style->width, print.stream);
    if (cards) {
        put_titles(gpu_columns, GPU_COLUMNS, -1, true, style->width, print.stream);
        lines += 1 + (int)cards + 1;
    }
    for (size_t i = 0; i < cards; i++)
        put_gpu(&top->cards[i], style->width, print.stream);
    if (cards && cards < top->card_count) {
        fprintf(print.stream, "… %zu more\n", top->card_count - cards);
        lines++;
    }
    if (cards)
        fputc('\n', print.stream);
    if (title_line)
        *title_line = lines;
    if (top->row_count)
        put_titles(row_columns, ROW_COLUMNS, (int)marked, ranks, style->width, print.stream);
    else
        fputs("No process is being recorded. Start one with: vramtrace run COMMAND\n", print.stream);
    for (size_t i = 0; i < top->row_count; i++)
        put_row(&top->rows[i], ranks, style, print.stream);
    vt_print_finish(&print, out);
}
