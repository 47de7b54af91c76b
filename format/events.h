/* Codes the events of a chain of chunks, in both directions (format.h, "Events of a chain"). Recorder and
 * analyzer are built from the same code, so that their predictions are the same. Uses no memory, file or
 * clock of its own. Threads: one at a time for each codec. */
#ifndef VT_EVENTS_H
#define VT_EVENTS_H

#include "format/coder.h"
#include "format/past.h"
#include "vramtrace/format.h"

enum {
    VT_TIME_PACES = 64,
    VT_LENGTH_STEPS = 8,
    VT_EVENT_BYTES_MAXIMUM = 512, /* for one event */
};

struct vt_event_codec {
    struct vt_coder coder;
    uint64_t tick; /* the time of the latest event */
    struct vt_past past;
    struct vt_event_chances {
        vt_chance all[VT_GUESS_CONTEXTS], stack[VT_GUESS_CONTEXTS]; /* by vt_guess.context */
        vt_chance is_new_stack, is_same_code, other_stack[VT_NUMBER_CHANCES], code[4][256];
        vt_chance thread[VT_PAST_THREADS][16], new_thread[VT_NUMBER_CHANCES]; /* by the last thread */
        struct vt_field_chances {
            vt_chance expected[5][VT_GUESS_CONTEXTS], differences[5][VT_NUMBER_CHANCES];
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
 * two streams and returns their end, which is not before `least`. vt_events_write
 * returns past.other. */
size_t vt_events_start_bytes(const struct vt_event_codec *codec);
void vt_events_write_chunk(struct vt_event_codec *codec, uint8_t *out, uint8_t *end, bool first);
uint32_t vt_events_write(struct vt_event_codec *codec, const struct vt_event *event);
uint8_t *vt_events_end(struct vt_event_codec *codec, const uint8_t *end, const uint8_t *least);

/* Reads a chunk into `events`, with head_start 0. Never fails: bytes that no writer wrote decode to some
 * events too. */
void vt_events_read_chunk(struct vt_event_codec *codec, const uint8_t *bytes, const uint8_t *end, bool first,
                          struct vt_event *events, size_t count);

#endif
