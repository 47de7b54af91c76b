/* What a codec (events.h) remembers of a chain's events so far, and what they make likely for the next one.
 * Writer and reader remember and expect the same; nothing else matters for exactness. Threads: one at a time
 * for each. */
#ifndef VT_PAST_H
#define VT_PAST_H

#include <stdbool.h>
#include <stdint.h>

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
};

/* A past event, for later ones that repeat it. */
struct vt_past_event {
    uint32_t stack_id;
    uint32_t code;   /* vt_event_code */
    uint32_t next;   /* number of the next event of its thread */
    uint32_t family; /* for blocks: identifies what is made at this place each time, and its frees */
    uint64_t address, detail;
    uint64_t bytes;         /* for blocks: the requested size, as far as known */
    uint64_t sequence_step; /* 0 = no sequence, else 1 + the difference to the thread's last one */
};

struct vt_past {
    uint32_t number; /* of the latest event, from 1 */
    uint32_t other;  /* that of the event that made the block which the latest one frees, or whose place its
                        own block takes without a free; 0 = none, or not remembered */
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
    struct vt_holes holes; /* last: a new chain forgets everything before it */
};

/* The prediction of the current thread's next event. */
struct vt_guess {
    uint32_t number;    /* of the event that it repeats, 0 = none */
    unsigned context;   /* length in bits of how often in a row predictions were right; VT_GUESS_NONE = no
                           prediction */
    uint64_t requested; /* the size before rounding, for a block */
    struct vt_event event;
};
enum { VT_GUESS_CONTEXTS = 16, VT_GUESS_NONE = 15 };

/* Kind, layer, device_index and flags of an event, one byte each. */
static inline uint32_t vt_event_code(const struct vt_event *event)
{
    return event->kind | (uint32_t)event->layer << 8 | (uint32_t)(uint8_t)event->device_index << 16 |
           (uint32_t)event->flags << 24;
}

static inline void vt_event_set_code(struct vt_event *event, uint32_t code)
{
    event->kind = (uint8_t)code;
    event->layer = (uint8_t)(code >> 8);
    event->device_index = (int8_t)(uint8_t)(code >> 16);
    event->flags = (uint8_t)(code >> 24);
}

/* Whether it makes (VT_EVENT_ALLOC) or frees (VT_EVENT_FREE) a framework's block. */
static inline bool vt_is_block_event(const struct vt_event *event, enum vt_event_kind kind)
{
    return event->layer == VT_LAYER_FRAMEWORK && event->kind == kind;
}

/* Of a digest: shows what happened at a block that was left out. */
static inline bool vt_is_landmark(const struct vt_event *event)
{
    return event->kind == VT_EVENT_RAN || event->kind == VT_EVENT_CALL || event->kind == VT_EVENT_AFTER ||
           event->kind == VT_EVENT_ZEROED || event->kind == VT_EVENT_MOST || event->kind == VT_EVENT_LAST;
}

static inline struct vt_past_event *vt_past_event(struct vt_past *past, uint32_t number)
{
    return &past->events[number % VT_PAST_EVENTS];
}

/* Whether the event with this number is still remembered. */
static inline bool vt_past_has(const struct vt_past *past, uint32_t number)
{
    return number && past->number - number < VT_PAST_EVENTS;
}

static inline struct vt_past_kind *vt_past_kind(struct vt_past *past, const struct vt_event *event)
{
    return &past->kinds[(event->kind ^ (unsigned)event->layer << 6) % VT_PAST_KINDS];
}

static inline struct vt_past_stack *vt_past_stack(struct vt_past *past, uint32_t stack_id)
{
    return &past->stacks[stack_id % VT_PAST_STACKS];
}

/* The number of the event that made the live block at an address, 0 = not known, and the block's size. */
uint32_t vt_past_block(struct vt_past *past, uint64_t address, uint64_t *bytes);

/* Predicts the next event of the current thread. */
void vt_past_guess(struct vt_past *past, struct vt_guess *guess);
/* Predicts all fields but stack, code, thread and time, for an event with the guess's code that repeats
 * `like`; NULL = it repeats none. */
void vt_past_guess_fields(struct vt_past *past, const struct vt_past_event *like, struct vt_guess *guess);
/* Predicts detail and total_bytes of a block's event: the allocator's own counts after it. */
void vt_past_guess_totals(const struct vt_past *past, struct vt_event *event);

/* Remembers the event with the number past->number, which the guess was for. */
void vt_past_remember(struct vt_past *past, const struct vt_event *event, const struct vt_guess *guess);

#endif
