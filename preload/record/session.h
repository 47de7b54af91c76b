/* One process's recording: its file, ring, tables and writer thread; made at the first event, ended at exit.
 *
 * All pointers to a session are in one page that the kernel wipes in a forked child (MADV_WIPEONFORK): the
 * child finds no session, however it was forked, and starts its own at its own first event. Threads: any,
 * unless said otherwise. */
#ifndef VT_SESSION_H
#define VT_SESSION_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "options.h"
#include "record/inspector.h"
#include "record/intern.h"
#include "record/live_blocks.h"
#include "record/ring.h"
#include "record/trace_file.h"
#include "stacks/native.h"
#include "stacks/python.h"

/* What a thread remembers of its latest walks. */
struct vt_recent {
    struct vt_recent_walks walks;
    struct vt_recent_frames frames;
};

enum {
    VT_PYTHON_DEPTH = 1024,
    VT_DEEP_BUFFERS = 32,
    VT_DEEP_BYTES = VT_DEEP_BUFFERS * VT_PYTHON_DEPTH * sizeof(struct vt_raw_python_frame),
    VT_RECENT_THREADS = 64
};

struct vt_session;

/* What a session runs without knowing it: passed in at the first event. */
struct vt_session_helpers {
    int (*start_writer)(struct vt_session *session);   /* returns 0 or -errno */
    void (*finish_writer)(struct vt_session *session); /* makes the writer write the rest, and waits for it */
    const struct vt_inspector *inspector;
};

struct vt_session {
    const struct vt_session_helpers *helpers;
    struct vt_options options;
    struct vt_ring ring;
    struct vt_trace_file file; /* the writer's */
    uint64_t process_start_ns; /* CLOCK_BOOTTIME */
    struct vt_intern stacks, codes, strings;
    struct vt_live_table live;            /* driver memory; under its lock: */
    struct vt_live_table contexts;        /* how many are alive by address: one, for a moment two */
    uint64_t graph_bytes[VT_MAX_DEVICES]; /* that devices hold for graphs' own nodes, as recorded last */
    struct vt_live_table blocks;          /* of frameworks that do not count; under its lock: */
    struct vt_live_table handles;         /* address by handle */
    struct vt_live_table holders;         /* handle by address: of several at one, the latest */
    struct vt_live_table parts;           /* by handle: that of the next part of the array */
    uint64_t block_bytes[VT_MAX_DEVICES];
    _Atomic uint64_t framework_bytes[VT_MAX_DEVICES][2]; /* in blocks, as recorded last: of frameworks that do
                                                            not count, and that do */
    /* VT_DEEP_BUFFERS of VT_PYTHON_DEPTH frames, for walks too deep for the caller's stack; NULL until the
     * first of them. */
    _Atomic(struct vt_raw_python_frame *) deep_buffers;
    _Atomic uint32_t free_deep; /* bit per deep buffer */
    /* A thread's each, for as long as it runs; made at the first use, NULL before. The owner stores it. */
    struct vt_recent *recent[VT_RECENT_THREADS];
    _Atomic uint32_t recent_owners[VT_RECENT_THREADS]; /* kernel's thread ids, 0 = free */
    _Atomic bool recent_wanted;                        /* a thread found none free */
    _Atomic uint64_t known_devices;                    /* bit per device index */
    _Atomic bool paused;                               /* events get no stacks (record.h, vt_pause) */
    _Atomic uint64_t step_marks, passes;               /* while it waits for its first step */
    _Atomic int next_graph_task;
    _Atomic int stopping;    /* the writer must write what there is and end */
    _Atomic int writer_done; /* futex */
    _Atomic int
        writer_left; /* as the process's last thread: the thread that ends the process writes the rest */
    _Atomic int writer_thread_id; /* the kernel's, 0 = not yet */
    struct writer *writer;        /* the writer thread's own; NULL until it is ready */
    int maker_thread_id;          /* the kernel's, of the thread that made the session */
    char maker_name[16];          /* and its name, "" if it has none */
    sigset_t host_signals;        /* the mask of the thread that made the session */
    _Atomic int stop_error;       /* errno of what stopped it */
    bool handed_over;             /* `vramtrace run` prints the last line */
    const int *first_thread_id;   /* where the C library keeps the kernel's id of main's thread; *it is 0 once
                                     that has ended */
    uint32_t generation;          /* so that thread-local caches of an older session are noticed */
};

/* Where the process's session is, NULL before its first event; the place is NULL before that of any process.
 */
extern _Atomic(struct vt_session *) *_Atomic vt_session_place __attribute__((visibility("hidden")));

/* The session if the process records, else NULL. Two loads. */
static inline struct vt_session *vt_session_active(void)
{
    _Atomic(struct vt_session *) *place = atomic_load_explicit(&vt_session_place, memory_order_acquire);
    return place ? atomic_load_explicit(place, memory_order_acquire) : NULL;
}

/* For when there is none: makes it, with these helpers, if this is the process's first event. NULL if it
 * cannot be made, or was stopped. */
struct vt_session *vt_session_begin(const struct vt_session_helpers *helpers);

static inline bool vt_is_paused(const struct vt_session *session)
{
    return __builtin_expect(atomic_load_explicit(&session->paused, memory_order_relaxed), 0);
}

/* Counts an event that is not recorded: as dropped if it came while the session was being made, or within
 * another event of its thread (a signal handler's); else as too late. */
void vt_session_missed(void);

/* At a thread's first event: memory for its recent walks, NULL if none is left. free: in the writer thread,
 * takes back what threads had that have ended, if it is wanted. */
struct vt_recent *vt_session_recent(struct vt_session *session, uint32_t thread_id);
void vt_session_free_recent(struct vt_session *session);

/* For the writer thread. open: makes file, ring and tables; returns 0 or -errno, with a message on stderr.
 * publish: lets the host's threads record (they may have begun by themselves). discard: frees it all after a
 * failure. */
int vt_session_open(struct vt_session *session);
void vt_session_publish(struct vt_session *session);
void vt_session_discard(struct vt_session *session);

/* Prints the last line on stderr, if nobody else does. Memory ran out: for a framework; for the driver. */
void vt_session_say_goodbye(const struct vt_session *session, bool ran_out, bool driver_ran_out);

/* True if the session has ended or stopped: then it counts the event as too late. */
bool vt_session_too_late(void);

/* Where the C library keeps the kernel's id of main's thread, which the kernel clears when that thread ends.
 * Not for that thread to call. NULL if not found. */
const int *vt_session_first_thread_id(void);

/* Stops recording for good; the trace's header is to be written then. */
void vt_session_fail(struct vt_session *session, enum vt_stop_reason reason, int error_number);

#endif
