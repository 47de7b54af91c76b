/* What the processes that record at this moment hold: samples of their counters, one after the other. */
#ifndef VT_TOP_H
#define VT_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramtrace/ring.h"

struct vt_recorder;

enum { VT_TOP_HISTORY = 240 }; /* samples */

/* One device of one process. Bytes. */
struct vt_top_use {
    int32_t device;                /* as the process numbers it */
    char label[16], uuid_text[48]; /* of its GPU */
    const char *uuid;              /* "" = not known */
    struct vt_top_device told;
    uint64_t driver_bytes, driver_peak_bytes;
    bool tallied; /* whether the recorder reports the two numbers of segments */
    uint64_t segment_bytes, segment_peak_bytes;
    uint64_t block_bytes, block_peak_bytes;
    uint64_t used_bytes, used_peak_bytes; /* of blocks, or without a framework the driver's */
    uint64_t history[VT_TOP_HISTORY];     /* used_bytes, the latest last */
    uint32_t history_count;
};

enum vt_top_state { VT_TOP_RECORDING, VT_TOP_PAUSED, VT_TOP_ENDED };
const char *vt_top_state_name(unsigned state);

struct vt_top_process {
    uint8_t identity[16]; /* of its trace */
    uint32_t pid, user_id;
    const char *rank; /* the launcher's number, "" = none */
    char rank_text[16];
    char *command, *trace;
    int state;    /* enum vt_top_state */
    bool settled; /* everything that it had recorded by then is counted */
    bool tallied, has_rates;
    uint64_t event_count, lost_events, lost_definitions;
    uint64_t block_made_bytes, driver_made_bytes; /* allocated since the start */
    double events_per_second,
        made_per_second; /* made: bytes of blocks, or without a framework the driver's */
    uint64_t t_ns;
    struct vt_top_pool pool;           /* of a server */
    uint64_t pool_tokens, used_tokens; /* 0 = not known */
    uint64_t pool_age_ns;              /* since an inspection saw it */
    struct vt_top_use *uses;           /* by device */
    size_t use_count;
    bool seen;
};

/* A GPU with all the processes that use it. Processes may number GPUs differently, so two can have the same
 * number: then their labels have letters. */
struct vt_top_card {
    char label[16];
    int32_t device;            /* the lowest number that a process knows it by */
    struct vt_top_device told; /* by the process with the latest report */
    char uuid_text[48];
    const char *uuid, *name; /* "" = not known */
    uint64_t info_age_ns;    /* how long ago the driver said what is free */
    uint32_t process_count;
    uint64_t driver_bytes, segment_bytes, block_bytes; /* of these processes */
};

enum vt_top_key {
    VT_TOP_BY_PID,
    VT_TOP_BY_RANK,
    VT_TOP_BY_DEVICE,
    VT_TOP_BY_DRIVER,
    VT_TOP_BY_SEGMENTS,
    VT_TOP_BY_BLOCKS,
    VT_TOP_BY_PEAK,
    VT_TOP_BY_EVENTS,
    VT_TOP_BY_MADE,
    VT_TOP_BY_COMMAND,
    VT_TOP_KEYS
};
const char *vt_top_key_name(unsigned key);

/* A line of the list: a process and one of its devices; NULL = it has none yet. */
struct vt_top_row {
    const struct vt_top_process *process;
    const struct vt_top_use *use;
};

struct vt_top {
    char host[65];
    uint64_t unix_ns, t_ns; /* of the latest sample: the clock of the day, and the one of events */
    struct vt_top_process *processes;
    size_t process_count, process_capacity;
    struct vt_top_card *cards;
    size_t card_count, card_capacity;
    struct vt_top_row *rows;
    size_t row_count, row_capacity;
};

/* Takes a sample. `settled`: of each recorder, NULL = none was waited for. What was in the sample before and
 * is not in this one has ended; it goes with the next. */
void vt_top_take(struct vt_top *top, const struct vt_recorder *recorders, const bool *settled, size_t count);
/* Largest first, but number, rank, device and command smallest first; `reverse`: the other way round. */
void vt_top_sort(struct vt_top *top, enum vt_top_key key, bool reverse);
void vt_top_free(struct vt_top *top);

#endif
