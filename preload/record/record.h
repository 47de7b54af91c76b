/* Recording in a session that has begun: events with their stacks, marks, devices, the text of inspections.
 * Between vt_enter and vt_leave (guard.h), unless said otherwise.
 *
 * Threads: any; no lock is held and nothing here calls into the host. Errors: none are returned; what cannot
 * be recorded is counted in the trace. */
#ifndef VT_RECORD_H
#define VT_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guard.h"
#include "vramtrace/format.h"

struct vt_session;

/* What a hook knows about an event. Zero means unknown or not applicable, except for device_index (-1). */
struct vt_observation {
    uint8_t kind;  /* enum vt_event_kind */
    uint8_t layer; /* enum vt_layer */
    int8_t device_index;
    uint8_t flags;     /* enum vt_event_flag */
    uint16_t function; /* enum vt_function of functions.h: the hooked function, 0 = none */
    bool with_stack;   /* capture native and Python frames of the calling thread */
    bool uncounted;    /* a block of a framework without a counter of its own: we count, and fill in the bytes
                          and device of a free. A free of an unknown block is not recorded */
    uint64_t handle;  /* of an uncounted block that its framework identifies by this instead of its address: a
                         free then needs no address */
    uint64_t part_of; /* if the block is a part of an array on several devices: the handle of the part before
                         it. 0 = first or only part, or not known */
    bool on_stream;   /* of a framework whose current stream is known */
    uint64_t stream;  /* its id; 0 = the default stream */
    uint64_t address;
    uint64_t bytes;
    uint64_t detail;
    uint64_t total_bytes;
    uint64_t sequence;
};

/* True while this process records. Also outside of the guard. */
bool vt_recording(void);

/* Records an event with its stack. */
void vt_record_event(struct vt_session *session, const struct vt_observation *seen);

/* An autograd node was made on this thread (`sequence` as in vt_observation). Records a VT_EVENT_NODE with
 * the current Python frames, unless the thread's next allocation has the same sequence and frames. If
 * `parent` is not 0, it is the sequence of the node running now, and the event is recorded at once. Does
 * nothing without a session. */
void vt_record_node(uint64_t sequence, uint64_t parent);

/* Records settings that the program gave its framework's allocator while it ran. Does nothing without a
 * session. */
void vt_record_settings(const char *settings);

/* Interns `text` (at most 1023 bytes are kept) and records an event of `kind` (VT_EVENT_MARK,
 * VT_EVENT_RANGE_PUSH) with it; NULL: without a text (VT_EVENT_RANGE_POP). False if it was dropped. */
bool vt_record_named(enum vt_event_kind kind, const char *text);

/* The same for callers outside of the guard. Nothing is recorded without a session. */
static inline bool vt_record_mark(enum vt_event_kind kind, const char *text)
{
    int saved_errno;
    if (!vt_recording() || !vt_enter(&saved_errno))
        return false;
    const bool recorded = vt_record_named(kind, text);
    vt_leave(saved_errno);
    return recorded;
}

/* The thread's next event belongs to the backward pass of this graph task. */
void vt_record_backward(int graph_task);

/* Requests an inspection for this reason (enum vt_inspection_reason). False if the process is not being
 * recorded. */
bool vt_record_ask_inspection(unsigned reason);

/* A pause: events get no stacks, so they cost next to nothing while every byte is still counted. Requested
 * by the setting START, by the program (api.h), or from outside (control.h).
 *
 * Begins or ends a pause; does nothing if that has already happened. False if its event was dropped: then
 * nothing has changed. */
bool vt_pause(struct vt_session *session, bool begin);

/* Raises *next above `number`; true for the thread that does. */
static inline bool vt_raise_above(_Atomic int *next, int number)
{
    int known = atomic_load_explicit(next, memory_order_relaxed);
    while (number >= known)
        if (atomic_compare_exchange_weak_explicit(next, &known, number + 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

/* Records the text of an inspection (format.h, struct vt_inspection_part) in as many parts as it needs, then
 * its event. Must be called outside of the guard. `started_ns`: when the inspection began, CLOCK_MONOTONIC.
 */
void vt_record_inspection(unsigned reason, const char *text, size_t bytes, uint64_t started_ns);

/* The device of the live driver allocation that begins at `address`; -1 = not known. */
int8_t vt_record_device_of(uint64_t address);

/* As in hooks/observe.h. */
bool vt_device_is_recorded(const struct vt_session *session, int device_index);
void vt_record_new_device(struct vt_session *session, int device_index, const char *name,
                          uint64_t total_bytes, const void *uuid);

/* Sets the runtime call that the calling thread is in (function id, 0 = none), which labels driver events
 * inside it. Returns the previous one; the caller restores it when the call ends. */
uint16_t vt_set_runtime_label(uint16_t function);

/* Returns the autograd node that an allocation of this thread belongs to (format.h, vt_event.sequence).
 * Called within the guard. NULL until PyTorch has been found (hooks/torch.c). */
extern uint64_t (*_Atomic vt_autograd_sequence)(void) __attribute__((visibility("hidden")));
static inline uint64_t vt_current_sequence(void)
{
    uint64_t (*ask)(void) = atomic_load_explicit(&vt_autograd_sequence, memory_order_acquire);
    return ask ? ask() : 0;
}

/* How many driver events the calling thread has recorded. A runtime hook compares it before and after the
 * real call to see whether the driver layer saw the allocation. */
uint64_t vt_driver_events_of_thread(void);

/* Like vt_enter, for an event of the host. An event inside another event of its thread (in a signal handler)
 * cannot be recorded, so it is counted. */
void vt_record_missed(void);
static inline bool vt_enter_event(int *saved_errno)
{
    if (vt_enter(saved_errno))
        return true;
    vt_record_missed();
    return false;
}

/* A free before the first allocation is not recorded; it is counted if recording has ended. */
void vt_record_missed_free(void);

/* Points to the interpreter's flag that its garbage collector is running; NULL until inspect/gc_lists.c has
 * found it. */
extern const int *_Atomic vt_collecting __attribute__((visibility("hidden")));

#endif
