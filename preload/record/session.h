/* One process's recording: its file, ring, tables and writer thread. Made at the process's first event,
 * ended at its exit.
 *
 * Hooks find it only through a page that the kernel wipes in a forked child (MADV_WIPEONFORK). So
 * a child finds no session, however it was forked, and starts its own at its own first event. Threads: any,
 * unless said otherwise. */
#ifndef VT_SESSION_H
#define VT_SESSION_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "options.h"
#include "record/address_table.h"
#include "record/inspector.h"
#include "record/intern.h"
#include "record/live_blocks.h"
#include "record/ring.h"
#include "record/trace_file.h"
#include "stacks/native.h"
#include "stacks/python.h"

/* A thread's latest stack walks, so that the next one can be compared with them. */
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

/* The session calls these without knowing what is behind them. Given at the first event. */
struct vt_session_helpers {
    int (*start_writer)(struct vt_session *session); /* returns 0 or -errno */
    /* Makes the writer write the rest, and waits for it, so many turns of 50 ms without progress. */
    void (*finish_writer)(struct vt_session *session, int turns);
    const struct vt_inspector *inspector;
};

struct vt_session {
    const struct vt_session_helpers *helpers;
    struct vt_options options;
    struct vt_ring ring;
    struct vt_trace_file file; /* the writer's */
    uint64_t process_start_ns; /* CLOCK_BOOTTIME */
    struct vt_intern stacks, codes, strings, places;
    struct vt_live_lock live_lock;        /* of the next three */
    struct vt_address_table live;         /* driver memory */
    struct vt_address_table contexts;     /* how many contexts have this address: one, for a moment two */
    uint64_t graph_bytes[VT_MAX_DEVICES]; /* held by each device for graph nodes, as last recorded */
    struct vt_live_lock blocks_lock;      /* of the next five */
    struct vt_address_table blocks;       /* of frameworks without a counter */
    struct vt_address_table handles;      /* address by handle */
    struct vt_address_table holders;      /* handle by address; if several share an address, the latest */
    struct vt_address_table parts;        /* by handle: the handle of the array's next part */
    uint64_t block_bytes[VT_MAX_DEVICES];
    _Atomic uint64_t framework_bytes[VT_MAX_DEVICES][2]; /* in blocks, as last recorded: [0] frameworks
                                                            without a counter, [1] with one */
    /* VT_DEEP_BUFFERS buffers of VT_PYTHON_DEPTH frames each, for walks too deep for the caller's stack.
     * NULL until the first such walk. */
    _Atomic(struct vt_raw_python_frame *) deep_buffers;
    _Atomic uint32_t free_deep; /* bit per deep buffer */
    /* One for each running thread, made when first used. Only its thread stores there. */
    struct vt_recent *recent[VT_RECENT_THREADS];
    _Atomic uint32_t recent_owners[VT_RECENT_THREADS]; /* kernel's thread ids, 0 = free */
    _Atomic bool recent_wanted;                        /* a thread found no free one */
    _Atomic uint64_t known_devices;                    /* bit per device index */
    _Atomic bool paused;                               /* events get no stacks (record.h, vt_pause) */
    _Atomic uint64_t step_marks, passes; /* counted while recording waits for the step it starts with */
    _Atomic int next_graph_task;
    _Atomic int stopping;         /* tells the writer to write the rest and end */
    _Atomic int writer_done;      /* futex */
    _Atomic int writer_left;      /* the writer left because it was the last thread; whoever ends the process
                                     writes the rest */
    _Atomic int writer_thread_id; /* kernel thread id, 0 = not started yet */
    struct writer *writer;        /* the writer thread's own; NULL until it is ready */
    int maker_thread_id;          /* kernel thread id of the thread that made the session */
    char maker_name[16];          /* and its name; "" = none */
    sigset_t host_signals;        /* the signal mask of the thread that made the session */
    _Atomic int stop_error;       /* the errno that stopped recording */
    bool handed_over;             /* `vramtrace run` prints the last line */
    bool ends_quietly;            /* as a process does that ends without exit handlers: no last line */
    const int *first_thread_id;   /* where the C library keeps the main thread's kernel id; *first_thread_id
                                     becomes 0 when that thread ends */
    uint32_t generation;          /* tells thread-local caches of an older session apart */
};

static inline void vt_count_dropped(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* Like vt_ring_reserve; counts a definition that finds no place as dropped. */
static inline void *vt_reserve_definition(struct vt_session *session, enum vt_record_kind kind, size_t bytes)
{
    void *record =
        bytes <= VT_RECORD_MAXIMUM_BYTES ? vt_ring_reserve(&session->ring, kind, (uint32_t)bytes) : NULL;
    if (!record)
        vt_count_dropped(&session->ring.header->counters.dropped_definitions);
    return record;
}

/* Points to the session's pointer in the wiped page; NULL until the page is made. */
extern _Atomic(struct vt_session *) *_Atomic vt_session_place __attribute__((visibility("hidden")));

/* The session if the process records, else NULL. Two loads. */
static inline struct vt_session *vt_session_active(void)
{
    _Atomic(struct vt_session *) *place = atomic_load_explicit(&vt_session_place, memory_order_acquire);
    return place ? atomic_load_explicit(place, memory_order_acquire) : NULL;
}

/* Called when there is no session: makes one with these helpers if this is the process's first event. NULL
 * if that fails or recording was stopped. */
struct vt_session *vt_session_begin(const struct vt_session_helpers *helpers);

static inline bool vt_is_paused(const struct vt_session *session)
{
    return __builtin_expect(atomic_load_explicit(&session->paused, memory_order_relaxed), 0);
}

/* Counts an event that is not recorded: as too late if recording has ended, else as dropped. Dropped are
 * events while the session is being made, and events inside another event of their thread (in a signal
 * handler). */
void vt_session_missed(void);

/* At a thread's first event: memory for its recent walks; NULL if none is left. The writer calls
 * vt_session_free_recent, which reclaims the memory of ended threads if a thread has asked for some. */
struct vt_recent *vt_session_recent(struct vt_session *session, uint32_t thread_id);
void vt_session_free_recent(struct vt_session *session);

/* For the writer thread. open: makes file, ring and tables; returns 0 or -errno, with a message on stderr.
 * publish: lets the host's threads record; they may have started on their own. discard: frees everything
 * after a failure. */
int vt_session_open(struct vt_session *session);
void vt_session_publish(struct vt_session *session);
void vt_session_discard(struct vt_session *session);

/* Ends recording in a process that ends without exit handlers, and waits a little for the rest to be written;
 * no last line. Any thread; also in a signal handler, and in a child of fork or vfork. */
void vt_session_end_quickly(void);

/* Prints the last line on stderr, unless `vramtrace run` does. `ran_out`: a framework ran out of memory;
 * `driver_ran_out`: the driver did. */
void vt_session_say_goodbye(const struct vt_session *session, bool ran_out, bool driver_ran_out);

/* If recording has ended or stopped: counts the event as too late, and returns true. */
bool vt_session_too_late(void);

/* Where the C library keeps the main thread's kernel id, which the kernel clears when that thread ends. NULL
 * if not found. Must not be called on the main thread. */
const int *vt_session_first_thread_id(void);

/* Stops recording for good. The caller writes the trace's header afterwards. */
void vt_session_fail(struct vt_session *session, enum vt_stop_reason reason, int error_number);

#endif
