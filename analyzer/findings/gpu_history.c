#include "findings/gpu_history.h"

#include <stdlib.h>

#include "attribute/attribute.h"
#include "base/index.h"
#include "report/moments.h"
#include "report/report.h"

#define BEST_QUALITY 3u
#define FIRST_READINGS 64u /* steady ones that report a context, and as many others */

struct vt_silents vt_gpu_silents(const struct vt_gpu_history *history, uint32_t era, uint32_t event_index)
{
    return vt_silents_find(history->report->trace, &history->silent_events, history->device_index,
                           history->readings.era_starts[era], event_index);
}

static int64_t silent_bytes(const struct vt_gpu_history *history, const struct vt_gpu_reading *reading)
{
    struct vt_silents silents = vt_gpu_silents(history, reading->era, reading->event_index);

    free(silents.items);
    return silents.bytes;
}

/* ---- The context ---- */

/* What NVML charged this process with beyond what was known at that reading. An allocation is recorded after
 * it was made, and a free before: on a busy machine that may be long, so it is at most too much. */
static int64_t context_by(const struct vt_gpu_history *history, const struct vt_gpu_reading *reading)
{
    const int64_t silent = silent_bytes(history, reading),
                  before_bytes = (int64_t)(reading->context_bytes - vt_nvml_unlisted_bytes(reading)) - silent,
                  bytes = (int64_t)(vt_nvml_self_bytes(reading) - reading->own_bytes) - silent;

    /* what was in use on the GPU before the first allocation, once that was read */
    return before_bytes > 0 && before_bytes < bytes ? before_bytes : bytes;
}

/* How much a reading says about a context: one from before it was made says nothing, and one during a
 * change of this process's memory says too much. */
static unsigned quality_of(const struct vt_gpu_reading *reading)
{
    return 2 * (reading->context_bytes > 0) + reading->steady;
}

/* The least that one of the era's first readings reports, among the best ones. Where pools have free parts
 * it may be too little, so it counts only until a reading without free parts is found. */
static uint64_t find_context(const struct vt_gpu_history *history, uint32_t era)
{
    int64_t least = INT64_MAX, bytes;
    unsigned asked[BEST_QUALITY + 1] = {0}, best = 0;
    bool without_spare = false;

    for (size_t i = 0; i < history->readings.count && asked[BEST_QUALITY] < FIRST_READINGS; i++) {
        const struct vt_gpu_reading *reading = &history->readings.items[i];
        const unsigned quality = quality_of(reading);

        if (reading->era != era || quality < best || !vt_nvml_self_told(&history->own, reading) ||
            (quality == best && without_spare && reading->spare_bytes) || asked[quality]++ >= FIRST_READINGS)
            continue;
        bytes = context_by(history, reading);
        if (bytes < least || quality > best)
            least = bytes;
        without_spare = !reading->spare_bytes || (without_spare && quality == best);
        best = quality;
    }
    return least > 0 && least != INT64_MAX ? (uint64_t)least : 0;
}

uint64_t vt_gpu_context_at(const struct vt_gpu_history *history, const struct vt_measured_moment *moment)
{
    const struct vt_state *state = moment->state;
    uint64_t bytes;

    /* where no context was seen being made, it has one by its memory */
    if (!state->context_bytes && !vt_silents_alive(history->report->trace, &history->silent_events,
                                                   history->device_index, state->event_index))
        return 0;
    bytes = find_context(history, moment->era);
    return bytes || moment->era == moment->reading->era ? bytes : find_context(history, moment->reading->era);
}

uint64_t vt_gpu_returned_bytes(const struct vt_gpu_history *history, const struct vt_measured_moment *moment)
{
    const struct vt_gpu_reading *reading = moment->reading;
    int64_t missing;

    if (!reading->spare_bytes || !reading->context_bytes || !moment->own_known)
        return 0;
    missing =
        (int64_t)(reading->own_bytes + find_context(history, reading->era) - vt_nvml_self_bytes(reading)) +
        silent_bytes(history, reading);
    if (missing <= 0)
        return 0;
    return (uint64_t)missing < reading->spare_bytes ? (uint64_t)missing : reading->spare_bytes;
}

/* ---- The context over time ---- */

struct walk {
    const struct vt_gpu_history *history;
    struct vt_context_levels *levels;
    size_t capacity, next_event, next_era;
    uint64_t bytes; /* of the latest level */
};

static void add_level(struct walk *walk, uint64_t t_ns, uint64_t bytes)
{
    const struct vt_level level = {t_ns, bytes};

    walk->bytes = bytes;
    VT_APPEND(walk->levels->items, walk->levels->count, walk->capacity, level);
}

/* All contexts of the device ended before `last_event`: each time they did. */
static void end_eras(struct walk *walk, uint32_t last_event)
{
    for (; walk->next_era < walk->history->readings.era_count &&
           walk->history->readings.era_starts[walk->next_era] <= last_event;
         walk->next_era++) {
        const uint32_t event = walk->history->readings.era_starts[walk->next_era];

        while (walk->next_event < walk->history->silent_events.count &&
               walk->history->silent_events.items[walk->next_event] <= event)
            walk->next_event++;
        if (walk->bytes)
            add_level(walk, vt_event_time(walk->history->report->trace, event), 0);
    }
}

/* More came with the first call since the reading before that makes or loads something, less with the last
 * one; without one it is as the reading says. */
static void read_one(struct walk *walk, const struct vt_gpu_reading *reading)
{
    const uint64_t used_bytes = vt_nvml_self_bytes(reading),
                   bytes = used_bytes > reading->own_bytes ? used_bytes - reading->own_bytes : 0;
    uint64_t first_ns = reading->begin_ns, last_ns = first_ns;
    bool any = false;

    end_eras(walk, reading->event_index);
    for (; walk->next_event < walk->history->silent_events.count &&
           walk->history->silent_events.items[walk->next_event] <= reading->event_index;
         walk->next_event++) {
        const uint32_t event = walk->history->silent_events.items[walk->next_event];
        const int device = walk->history->report->trace->events[event].device_index;

        if (device >= 0 && device != walk->history->device_index)
            continue;
        last_ns = vt_event_time(walk->history->report->trace, event);
        first_ns = any ? first_ns : last_ns;
        any = true;
    }
    /* what pools returned is not part of the context */
    if (bytes > walk->bytes || (bytes < walk->bytes && !reading->spare_bytes))
        add_level(walk, bytes > walk->bytes ? first_ns : last_ns, bytes);
}

struct vt_context_levels vt_gpu_context_levels(const struct vt_gpu_history *history)
{
    struct vt_context_levels levels = {0};
    struct walk walk = {.history = history, .levels = &levels, .next_era = 1};

    for (size_t i = 0; i < history->readings.count; i++) {
        const struct vt_gpu_reading *reading = &history->readings.items[i];

        if (reading->steady && vt_nvml_self_told(&history->own, reading))
            read_one(&walk, reading);
    }
    if (levels.count)
        end_eras(&walk, UINT32_MAX);
    return levels;
}

/* ---- The reading of a moment ---- */

bool vt_gpu_contexts_differ(const struct vt_measured_moment *moment)
{
    return !moment->reading->context_bytes != !moment->state->context_bytes ||
           moment->reading->era != moment->era;
}

static bool has_as_much(const struct vt_measured_moment *moment, const struct vt_gpu_reading *reading)
{
    return reading->own_bytes == moment->state->driver_bytes - moment->state->context_bytes &&
           reading->context_bytes == moment->state->context_bytes &&
           reading->spare_bytes == moment->spare_bytes;
}

bool vt_gpu_same_own(const struct vt_measured_moment *moment)
{
    return has_as_much(moment, moment->reading);
}

static uint64_t time_apart(const struct vt_gpu_reading *reading, uint64_t t_ns)
{
    return t_ns < reading->begin_ns  ? reading->begin_ns - t_ns
           : t_ns > reading->held_ns ? t_ns - reading->held_ns
                                     : 0;
}

/* 0 = the best: steady, this process had as much, and which process it is was known. */
static unsigned rank_of(const struct vt_gpu_history *history, const struct vt_measured_moment *moment,
                        const struct vt_gpu_reading *reading)
{
    const bool equal = has_as_much(moment, reading);

    return (reading->steady && equal ? 0
            : reading->steady        ? 2
                                     : 4) +
           !vt_nvml_self_told(&history->own, reading);
}

/* Moved to the moment, more would be in use than the GPU has: then the reading already had memory whose
 * allocation was not yet recorded, and does not belong to the events before it. */
static bool is_too_much(const struct vt_gpu_reading *reading, const struct vt_state *state)
{
    const uint64_t own_bytes = reading->own_bytes + reading->context_bytes;

    return reading->total_bytes && state->driver_bytes > own_bytes &&
           reading->used_bytes + (state->driver_bytes - own_bytes) > reading->total_bytes;
}

static const struct vt_gpu_reading *choose_reading(const struct vt_gpu_history *history,
                                                   const struct vt_measured_moment *moment, bool last)
{
    const struct vt_gpu_reading *best = NULL;
    const uint64_t t_ns = moment->state->t_ns;
    unsigned best_rank = 0;

    for (size_t i = 0; i < history->readings.count; i++) {
        const struct vt_gpu_reading *reading = &history->readings.items[i];
        const unsigned rank = rank_of(history, moment, reading);

        if (is_too_much(reading, moment->state) || (best && rank > best_rank) ||
            (best && rank == best_rank && !last && time_apart(reading, t_ns) >= time_apart(best, t_ns)))
            continue;
        best = reading;
        best_rank = rank;
    }
    return best;
}

/* Free parts of pools after an event. */
static uint64_t spare_at(const struct vt_gpu_history *history, uint32_t event_index)
{
    const struct vt_replay *replay = history->report->attribution->replay;
    int64_t bytes = 0;

    for (size_t i = 0; i < replay->allocation_count; i++)
        if (replay->allocations[i].device_index == history->device_index &&
            vt_alive_at(&replay->allocations[i], event_index))
            bytes += vt_spare_change(&replay->allocations[i]);
    return bytes > 0 ? (uint64_t)bytes : 0;
}

struct vt_measured_moment vt_gpu_measure_moment(const struct vt_gpu_history *history,
                                                const struct vt_state *state, bool last)
{
    const struct vt_gpu_readings *readings = &history->readings;
    struct vt_measured_moment moment = {.state = state, .spare_bytes = spare_at(history, state->event_index)};

    while (moment.era + 1 < readings->era_count && readings->era_starts[moment.era + 1] <= state->event_index)
        moment.era++;
    moment.reading = choose_reading(history, &moment, last);
    moment.own_known = moment.reading && vt_nvml_self_told(&history->own, moment.reading);
    return moment;
}

struct vt_gpu_history vt_gpu_history_read(const struct vt_report *report, int device_index)
{
    struct vt_gpu_history history = {.report = report,
                                     .device_index = device_index,
                                     .readings = vt_gpu_readings_find(report, device_index),
                                     .silent_events = vt_silent_events_find(report->trace)};

    history.own = vt_nvml_self_find(&history.readings);
    return history;
}

void vt_gpu_history_free(struct vt_gpu_history *history)
{
    vt_gpu_readings_free(&history->readings);
    free(history->silent_events.items);
}
