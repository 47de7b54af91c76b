/* What a process that is recorded shares with others while it runs: its ring, and the list of `vramtrace run`.
 *
 *     ring:  offset 0        struct vt_ring_header, padded to VT_RING_HEADER_BYTES
 *            then            slots of VT_SLOT_BYTES, with the records of format.h
 *
 * The ring lies in memory (tmpfs), mapped shared, so what is committed there survives the death of the process: a reader
 * takes the chunks of the trace, then the rest from the ring. Where there is no such memory the ring is private, and what a
 * killed process recorded last, at most 100 ms, is lost.
 *
 * Positions count slots and never wrap (slot = position % slots). A record takes whole slots and never wraps around the end
 * of the ring (a VT_RECORD_PAD fills the rest; only one that fills a gap of lost slots may wrap). A producer
 *   1. raises ring_reserved by the record's slots;
 *   2. stores the record's head with committed = 0 (so that a reader can skip a record whose producer
 *      died while filling it; before this store all its slots are zero);
 *   3. fills the record;
 *   4. stores the head again with committed = 1 (release).
 * The writer thread appends the records to the trace, zeroes their slots, then raises ring_consumed. */
#ifndef VRAMTRACE_RING_H
#define VRAMTRACE_RING_H

#include "vramtrace/format.h"

#define VT_RING_MAGIC "VRAMRNG\n"
#define VT_RING_HEADER_BYTES 65536u
/* The ring's name in its folder: user id, process id, 64 random bits. Process id 0: its process is dead, and the trace is no
 * longer at its path. Who appends a dead process's ring to its trace holds flock() on the ring meanwhile. */
#define VT_RING_NAME "vramtrace.%u.%u.%016llx.ring"

/* Commands from the process's user to the running recorder, whose writer thread checks ten times a second. Callers take
 * turns with flock() on the ring. */
enum vt_control_command {
    VT_CONTROL_START = 1,   /* with stacks from now on */
    VT_CONTROL_STOP = 2,    /* VT_EVENT_PAUSE */
    VT_CONTROL_MARK = 3,    /* as vramtrace_mark (api.h) with `text` */
    VT_CONTROL_INSPECT = 4, /* as vramtrace_inspect */
};
struct vt_control {
    uint32_t asked;    /* raised (release) once the rest is filled */
    uint32_t answered; /* the last `asked` that was carried out (release) */
    uint32_t command;
    uint32_t recorded; /* the answer: 1 = done, 0 = recording has ended, or the ring was full */
    uint32_t paused;   /* 1 between VT_EVENT_PAUSE and VT_EVENT_RESUME */
    uint32_t inspections; /* recorded so far */
    char text[1024];   /* NUL-terminated */
};

/* What is known about one device besides the counters. */
struct vt_top_device {
    uint8_t uuid[16]; /* of the GPU or its MIG instance; all 0 = not known */
    char name[64];    /* NUL-terminated, cut off; "" = not known */
    uint64_t total_bytes, free_bytes; /* of the GPU, for all processes, as the driver reported at info_ns */
    uint64_t info_ns;                 /* the event clock; 0 = not reported yet */
    uint64_t segment_bytes;           /* held by a framework's allocator, by its own count */
    uint64_t segment_peak_bytes;
};

/* What `vramtrace top` shows besides the counters. Only the writer thread updates it, with relaxed atomics, from the
 * records that it takes: complete up to ring_consumed. */
struct vt_top_counters {
    uint64_t kept; /* 1; 0 = the rest is not known */
    uint64_t block_made_bytes, driver_made_bytes; /* allocated since the start, including what was freed */
    char rank[16]; /* this process's rank, as the launcher set it; "" = none */
    struct vt_top_device devices[VT_MAX_DEVICES];
};

/* What a server's objects say of its pool of keys and values, as the latest inspection that saw them; its thread updates
 * them, with atomics. 0 = not known. */
struct vt_top_pool {
    uint64_t blocks, block_tokens; /* tokens of a block */
    uint64_t used_blocks, requests; /* being worked on */
    uint64_t seen_ns;               /* the event clock */
};

struct vt_ring_header {
    char magic[8]; /* VT_RING_MAGIC */
    uint32_t format_version;
    uint32_t header_bytes; /* VT_RING_HEADER_BYTES */
    uint64_t slots;        /* a power of two */
    uint8_t identity[16];  /* the trace's */
    struct vt_process_identity process;
    uint64_t ring_reserved; /* positions, in slots */
    uint64_t ring_consumed;
    struct vt_counters counters;
    char trace_path[4096]; /* absolute */
    struct vt_control control;
    struct vt_top_counters top;
    /* A robust futex that the writer thread holds: its thread id. The kernel sets VT_WRITER_ENDED when that thread ends (the
     * process was killed, or became another program by exec), in any namespace, and never for a stopped process. 0 = not
     * known. */
    uint32_t writer, reserved;
    uint64_t writer_list[4]; /* struct robust_list_head, and its only entry; pointers of that process */
    struct vt_top_pool pool;
};
#define VT_WRITER_ENDED 0x40000000u /* FUTEX_OWNER_DIED */

_Static_assert(sizeof(struct vt_ring_header) <= VT_RING_HEADER_BYTES, "the ring's header fits");

/* `vramtrace run` waits for its command and prints the last line itself. It passes on, in this variable, the path under
 * /proc of a memfd with this name. Each recorder appends to it with one write, NUL included: its process id, 1 if the
 * trace is of one rank and its folder should be read, and the trace's path; "" = there is none, and the reason was
 * printed. A recorder that cannot append sets the list's mode to 0; one that cannot reach the list prints its own last
 * line. */
#define VT_RUN_VARIABLE "VRAMTRACE_RUN_LIST"
#define VT_RUN_LIST "vramtrace-run"
#define VT_RUN_LINE "%d %d %s"

#endif
