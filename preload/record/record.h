/* Recording one event: what every hook calls. Stacks, interning, the ring and the file lie behind it.
 *
 * Threads: any; no lock is held and nothing here calls into the host, except the lazy start at the first
 * event of the process (a file and a thread are made). Call between vt_enter and vt_leave (guard.h).
 * Errors: none are returned; what cannot be recorded is counted in the trace. */
#ifndef VT_RECORD_H
#define VT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramtrace/format.h"

/* What a hook knows. Zero means unknown or not applicable, except device_index (-1). */
struct vt_observation {
    uint8_t kind;  /* enum vt_event_kind */
    uint8_t layer; /* enum vt_layer */
    int8_t device_index;
    uint8_t flags;     /* enum vt_event_flag */
    uint16_t function; /* enum vt_function of hooks.h: the hooked function, 0 = none */
    bool with_stack;   /* capture native and Python frames of the calling thread */
    uint64_t address;
    uint64_t bytes;
    uint64_t detail;
    uint64_t total_bytes;
    uint64_t sequence;
};

void vt_record(const struct vt_observation *seen);

/* An autograd node was made on this thread (`sequence` as in vt_observation): a VT_EVENT_NODE with this
 * moment's Python frames follows, unless the thread's next allocation has the same sequence and frames. With
 * `parent`, the sequence of the node that runs here, it follows at once. Nothing outside of a session. */
void vt_record_node(uint64_t sequence, uint64_t parent);

/* Interns `text` (at most 1023 bytes are kept) and records an event of `kind` (VT_EVENT_MARK,
 * VT_EVENT_RANGE_PUSH) with it. False if it was dropped. */
bool vt_record_named(enum vt_event_kind kind, const char *text);

/* The event that comes next is of the backward pass of this graph task. */
void vt_record_backward(int graph_task);

/* Asks for a look at live objects for that reason (enum vt_inspection_reason). False if nothing is recorded. */
bool vt_record_ask_inspection(unsigned reason);

/* One look's text (format.h, struct vt_inspection_part), in as many parts as it takes, then its event. Main thread of the
 * interpreter. `started_ns`: of the look, CLOCK_MONOTONIC. */
void vt_record_inspection(uint32_t inspection_id, unsigned reason, const char *text, size_t bytes, uint64_t started_ns);

/* Tells device `device_index` to the trace, once per process; later calls return at once. The caller has
 * asked the driver for name and size. */
bool vt_record_device_known(int device_index);
void vt_record_device(int device_index, const char *name, uint64_t total_bytes);

/* The runtime call that the calling thread is in (function id, 0 = none): a label for driver events made
 * inside it. Returns the previous one, to be put back by the caller at the end of the call. */
uint16_t vt_set_runtime_label(uint16_t function);

/* Counts driver events recorded by the calling thread: a runtime hook compares it before and after the real
 * call to see whether the driver layer saw the allocation. */
uint64_t vt_driver_events_of_thread(void);

/* An event that is not recorded, since it came within another one of its thread: a signal handler's. */
void vt_record_missed(void);

/* A free, of which nothing is recorded as long as nothing was allocated: counted if recording has ended. */
void vt_record_missed_free(void);

/* True once recording began in this process (or stopped again): false means that no CUDA event came yet. */
bool vt_recording(void);

#endif
