/* Codes the events of a chain of chunks, in both directions (format.h, "Events of a chain"). Recorder and
 * analyzer are built from the same code, so that their predictions are the same. Uses no memory, file or
 * clock of its own. Threads: one at a time for each codec. */
#ifndef VT_EVENTS_H
#define VT_EVENTS_H

#include "format/coder.h"
#include "format/holes.h"
#include "vramtrace/format.h"

enum {
    VT_PAST_EVENTS = 16384, /* how far back events are compared; a power of two */
    VT_PAST_HASHES = 16384,
    VT_PAST_BLOCKS = 2048, /* sets of VT_PAST_WAYS */
    VT_PAST_WAYS = 4,
    VT_PAST_STACKS = 8192,
    VT_PAST_SIZES = 1024,
    VT_PAST_THREADS = 15,
    VT_PAST_KINDS = 256,
    VT_TIME_PACES = 64,
    VT_LENGTH_STEPS = 8,
    VT_EVENT_BYTES_MAXIMUM = 512, /* for one event */
};

/* A past event, for later ones that repeat it. */
struct vt_past_event {
    uint32_t stack_id;
    uint32_t code;   /* kind, layer, device_index and flags, one byte each */
    uint32_t next;   /* number of the next event of its thread */
    uint32_t family; /* for blocks: identifies what is made at this place each time, and its frees */
    uint64_t address, detail;
    uint64_t bytes;         /* for blocks: the requested size, as far as known */
    uint64_t sequence_step; /* 0 = no sequence, else 1 + the difference to the thread's last one */
};

struct vt_event_codec {
    struct vt_coder coder;
    uint32_t number; /* of the latest event, from 1 */
    uint64_t tick;   /* its time */
    uint32_t thread_count, thread, next_thread;
    struct vt_past_thread {
        uint32_t thread_id, number; /* of its latest event */
        uint32_t like, matched;     /* the event that its latest one repeated; for how many in a row */
        uint32_t hashes[2];         /* of the thread's latest 11 and latest 4 events */
        uint64_t sequence;
    } threads[VT_PAST_THREADS];
    struct vt_past_event events[VT_PAST_EVENTS]; /* by number % VT_PAST_EVENTS */
    uint32_t hashed[2][VT_PAST_HASHES];
    uint64_t families[VT_PAST_EVENTS]; /* for each family the address of its latest live block */
    struct vt_past_blocks {            /* ordered by use; two cache lines in all */
        uint64_t addresses[VT_PAST_WAYS];
        uint32_t numbers[VT_PAST_WAYS]; /* 0 = no block */
        uint32_t families[VT_PAST_WAYS];
        uint64_t bytes[VT_PAST_WAYS];
        uint64_t before[VT_PAST_WAYS]; /* address of the block of the family before it */
    } blocks[VT_PAST_BLOCKS];
    struct vt_past_size {
        uint64_t before, now;
    } sizes[VT_PAST_SIZES]; /* the size last requested where `before` was requested earlier */
    struct vt_past_stack {
        uint32_t stack_id, number, pace;
    } stacks[VT_PAST_STACKS];
    uint32_t newest_stack;
    struct vt_past_kind {
        uint64_t address, bytes, detail, total_bytes;
    } kinds[VT_PAST_KINDS]; /* the latest event of each kind */
    struct {
        uint64_t reserved, allocated;
    } devices[VT_MAX_DEVICES];
    struct vt_holes holes;
    struct vt_event_chances {
        vt_chance all[16], stack[16]; /* by how often in a row the prediction was right */
        vt_chance is_new_stack, is_same_code, other_stack[VT_NUMBER_CHANCES], code[4][256];
        vt_chance thread[VT_PAST_THREADS][16], new_thread[VT_NUMBER_CHANCES]; /* by the last thread */
        struct vt_field_chances {
            vt_chance expected[5][16], differences[5][VT_NUMBER_CHANCES];
        } fields[2][2];
        vt_chance age[VT_NUMBER_CHANCES], freed[VT_NUMBER_CHANCES];
        vt_chance time[VT_TIME_PACES][2][VT_LENGTH_STEPS],
            back_in_time[VT_NUMBER_CHANCES]; /* by pace; up and down */
    } chances;
};

/* Begins a chain (a codec must be all zero before its first one). Everything is forgotten, except that a
 * writer keeps what it knows of segments and holes. */
void vt_events_begin_chain(struct vt_event_codec *codec);

/* Writes a chunk: begin, events, end. The caller must provide room: vt_events_start_bytes between `out` and
 * `end` if the chunk has the chain's first event (`first`), then VT_EVENT_BYTES_MAXIMUM between
 * codec->coder.out and codec->coder.plain_out before each event; it may move both. vt_events_end joins the
 * two streams and returns their end, which is not before `least`. vt_events_write returns
 * codec->number of the event that made the block which this one frees, or whose place its own block takes
 * without a free, as far as that is remembered, else 0. */
size_t vt_events_start_bytes(const struct vt_event_codec *codec);
void vt_events_write_chunk(struct vt_event_codec *codec, uint8_t *out, uint8_t *end, bool first);
uint32_t vt_events_write(struct vt_event_codec *codec, const struct vt_event *event);
uint8_t *vt_events_end(struct vt_event_codec *codec, const uint8_t *end, const uint8_t *least);

/* Reads a chunk into `events`, with head_start 0. Never fails: bytes that no writer wrote decode to some
 * events too. */
void vt_events_read_chunk(struct vt_event_codec *codec, const uint8_t *bytes, const uint8_t *end, bool first,
                          struct vt_event *events, size_t count);

#endif
