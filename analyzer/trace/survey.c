#include "trace/survey.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/sort.h"

#define FIRST_PART_NS (UINT64_C(1) << 20)
/* Instants of each kind that are kept; more would be all there is. */
#define INSTANTS_MAXIMUM 1024u
/* Steps that are kept on each side of an instant, and of the run's ends; then also in so many windows
 * between. */
#define STEPS_AROUND 4u
#define SAMPLES 24u
/* Events around each of very many refusals: what their thread does next tells what came of them. */
#define FEW_AROUND 64u

/* Parts of the run are fewer where less may be kept; windows too. */
static size_t part_count(const struct vt_survey *survey)
{
    uint64_t count = survey->budget / 1000;
    return count < 16 ? 16 : count > VT_SURVEY_PARTS ? VT_SURVEY_PARTS : (size_t)count;
}

void vt_survey_free(struct vt_survey *survey)
{
    for (size_t i = 0; i < VT_MAX_DEVICES; i++)
        free(survey->devices[i]);
    vt_index_free(&survey->live);
    free(survey->blocks);
    free(survey->shown.items);
    free(survey->growth.items);
    free(survey->stack_events);
    memset(survey, 0, sizeof *survey);
}

/* Halves the number of parts, each of which then covers twice the time. */
static void widen_parts(struct vt_survey *survey)
{
    survey->part_ns *= 2;
    for (size_t d = 0; d < VT_MAX_DEVICES; d++) {
        struct vt_survey_device *device = survey->devices[d];
        for (size_t i = 0; device && i < part_count(survey); i++) {
            size_t left = 2 * i, right = 2 * i + 1;
            bool inside = right < part_count(survey);
            size_t larger = inside && device->part_peaks[right] > device->part_peaks[left] ? right : left;
            device->part_events[i] = inside ? device->part_events[larger] : 0;
            device->part_peaks[i] = inside ? device->part_peaks[larger] : 0;
        }
    }
}

static void note_bytes(struct vt_survey *survey, struct vt_survey_device *device, uint64_t t_ns)
{
    uint64_t after_ns = t_ns > survey->start_ns ? t_ns - survey->start_ns : 0;
    while (after_ns / survey->part_ns >= part_count(survey))
        widen_parts(survey);
    size_t part = (size_t)(after_ns / survey->part_ns);
    if (device->bytes + 1 > device->part_peaks[part]) {
        device->part_peaks[part] = device->bytes + 1;
        device->part_events[part] = survey->events;
    }
    if (device->bytes > device->peak_bytes) {
        device->peak_bytes = device->bytes;
        device->peak_event = survey->events;
    }
}

static void take_block(struct vt_survey *survey, const struct vt_event *event)
{
    uint32_t at = vt_index_get(&survey->live, event->address);
    bool makes = event->kind == VT_EVENT_ALLOC;
    int device_index = event->device_index;
    if (at == VT_INDEX_NONE) {
        at = (uint32_t)survey->block_count;
        if (!makes)
            return;
        VT_APPEND(survey->blocks, survey->block_count, survey->block_capacity, (struct vt_survey_block){0});
        vt_index_put(&survey->live, event->address, at);
    }
    struct vt_survey_block *block = &survey->blocks[at];
    if (block->bytes) {
        survey->devices[block->device_index]->bytes -= block->bytes;
        device_index = block->device_index;
        block->bytes = 0;
    }
    if (makes) {
        device_index = event->device_index;
        if (device_index < 0 || device_index >= (int)VT_MAX_DEVICES || event->bytes >> 48)
            return;
        if (!survey->devices[device_index])
            survey->devices[device_index] = vt_allocate_zeros(1, sizeof *survey->devices[device_index]);
        *block = (struct vt_survey_block){event->bytes, (int8_t)device_index};
        survey->devices[device_index]->bytes += event->bytes;
    }
    if (device_index >= 0 && device_index < (int)VT_MAX_DEVICES && survey->devices[device_index])
        note_bytes(survey, survey->devices[device_index], event->t_ns);
}

static void add_instant(struct vt_instants *instants, uint64_t event)
{
    if (instants->count < INSTANTS_MAXIMUM) {
        VT_APPEND(instants->items, instants->count, instants->capacity, event);
        return;
    }
    instants->items[INSTANTS_MAXIMUM / 2 + event % (INSTANTS_MAXIMUM / 2)] = event;
}

static void take_event(struct vt_survey *survey, const struct vt_event *event)
{
    bool is_refusal = event->kind == VT_EVENT_OOM || event->kind == VT_EVENT_ALLOC_FAILED;
    if (survey->events == 0) {
        survey->start_ns = event->t_ns;
        survey->part_ns = FIRST_PART_NS;
    }
    if (event->layer == VT_LAYER_FRAMEWORK &&
        (event->kind == VT_EVENT_ALLOC || event->kind == VT_EVENT_FREE)) {
        if (event->stack_id < survey->stack_capacity)
            survey->stack_events[event->stack_id]++;
        take_block(survey, event);
        return;
    }
    if (is_refusal)
        survey->last_refusal = survey->events + 1;
    if (is_refusal || event->kind == VT_EVENT_INSPECTION) {
        add_instant(&survey->shown, survey->events);
        return;
    }
    if (event->kind == VT_EVENT_ALLOC || event->kind == VT_EVENT_MAP)
        add_instant(&survey->growth, survey->events);
}

void vt_survey_reach(struct vt_survey *survey, size_t stacks)
{
    size_t old = survey->stack_capacity;
    if (stacks <= old)
        return;
    vt_reserve(&survey->stack_events, &survey->stack_capacity, stacks, sizeof *survey->stack_events);
    memset(survey->stack_events + old, 0, (survey->stack_capacity - old) * sizeof *survey->stack_events);
}

void vt_survey_take(struct vt_survey *survey, const struct vt_event *events, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        survey->kinds[events[i].kind][events[i].layer < VT_SURVEY_LAYERS ? events[i].layer : 0]++;
        take_event(survey, &events[i]);
        survey->events++;
    }
}

static uint64_t number_of(const void *number)
{
    return *(const uint32_t *)number;
}

/* Events of a step, about: an eighth of all events are on stacks that a step uses once at most. */
static uint64_t events_of_step(const struct vt_survey *survey)
{
    uint64_t all = 0, seen = 0;
    size_t count = survey->stack_capacity;
    uint32_t *numbers = vt_allocate((count + 1) * sizeof *numbers), uses = 1;
    for (size_t i = 0; i < count; i++)
        all += numbers[i] = survey->stack_events[i];
    vt_sort_by_key(numbers, count, sizeof *numbers, number_of);
    for (size_t i = 0; i < count && seen * 8 < all; i++) {
        seen += numbers[i];
        uses = numbers[i] ? numbers[i] : 1;
    }
    free(numbers);
    return survey->events / uses + 1;
}

struct windows {
    struct vt_window *items;
    size_t count, capacity;
    uint64_t events;
};

static void add_window(struct windows *windows, uint64_t event, uint64_t before, uint64_t after)
{
    uint64_t end = event + after + 1 < windows->events ? event + after + 1 : windows->events;
    if (event < windows->events)
        VT_APPEND(windows->items, windows->count, windows->capacity,
                  (struct vt_window){event > before ? event - before : 0, end});
}

static uint64_t first_of(const void *window)
{
    return ((const struct vt_window *)window)->first;
}

static void join_windows(struct windows *windows)
{
    vt_sort_by_key(windows->items, windows->count, sizeof *windows->items, first_of);
    size_t kept = 0;
    for (size_t i = 1; i < windows->count; i++) {
        struct vt_window *last = &windows->items[kept], *next = &windows->items[i];
        if (next->first <= last->end)
            last->end = next->end > last->end ? next->end : last->end;
        else
            windows->items[++kept] = *next;
    }
    windows->count = windows->count ? kept + 1 : 0;
}

size_t vt_survey_windows(const struct vt_survey *survey, const struct vt_window *asked, size_t asked_count,
                         struct vt_window **made)
{
    struct windows windows = {.events = survey->events};
    const uint64_t step = events_of_step(survey);
    uint64_t around = STEPS_AROUND * step;
    uint64_t least = survey->budget / 1024 + 1, most = survey->budget / 16 + 1;
    around = around < least ? least : around > most ? most : around;
    /* What is shown has its whole step, if there are steps: names of gradients come from the code before. */
    const uint64_t shown = 2 * step > around && 2 * step <= survey->budget ? 2 * step : around;
    uint64_t samples = survey->budget < SAMPLES * 1000 ? 0 : survey->budget / 4 / around;
    samples = samples > SAMPLES ? SAMPLES : samples;
    add_window(&windows, 0, 0, 2 * around);
    if (survey->events)
        add_window(&windows, survey->events - 1, shown, 0);
    for (uint64_t i = 1; i < samples; i++)
        add_window(&windows, survey->events / samples * i, around / 2, around);
    if (survey->last_refusal)
        add_window(&windows, survey->last_refusal - 1, shown, shown);
    for (size_t i = 0; i < survey->shown.count; i++)
        add_window(&windows, survey->shown.items[i], i < SAMPLES ? around / 2 : FEW_AROUND,
                   i < SAMPLES ? around / 2 : FEW_AROUND);
    for (size_t i = 0; i < survey->growth.count; i++)
        add_window(&windows, survey->growth.items[i], 1, 0);
    for (size_t i = 0; i < asked_count; i++)
        if (asked[i].end > asked[i].first)
            add_window(&windows, asked[i].first, shown, asked[i].end - asked[i].first + shown);
    for (size_t d = 0; d < VT_MAX_DEVICES; d++) {
        const struct vt_survey_device *device = survey->devices[d];
        if (!device)
            continue;
        add_window(&windows, device->peak_event, shown, shown);
        for (size_t i = 0; i < part_count(survey); i++)
            if (device->part_peaks[i])
                add_window(&windows, device->part_events[i], 0, 0);
    }
    join_windows(&windows);
    *made = windows.items;
    return windows.count;
}
