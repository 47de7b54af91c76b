/* Digests: summaries of a trace's chains, for readers that do not read their events. A part of the trace file, format.h. */
#ifndef VRAMTRACE_DIGESTS_H
#define VRAMTRACE_DIGESTS_H

#include "vramtrace/format.h"

#define VT_DIGESTS_IN_ONE 64u      /* digests of one level that a digest of the next level sums up */
#define VT_DIGEST_LEVELS 8u

/* Each chain is followed by a digest of level 1, whose events are those between VT_EVENT_GAP_BEGIN and VT_EVENT_GAP_END. A
 * reader may read it instead of the chain: it has the allocations made in the chain that are alive at its end, the frees of
 * those that were alive at its begin, and the chain's rare events. VT_DIGESTS_IN_ONE digests of a level are followed by one
 * of the next level, which replaces them. So any moment is at most VT_DIGESTS_IN_ONE digests of each level and one chain
 * away. The last chain has no digest, nor have those of a process that was adopted.
 *
 * A digest is a chain of its own (place 0, and more if it has more than VT_CHUNK_EVENTS). In its chunks' headers
 * `chain` is that of the first chain which it is of, and ring_position that of the last one's last chunk. Their
 * stored bytes begin with packed_definitions_bytes of a struct vt_digest_summary, unpacked; they have no definitions.
 *
 * Its events are allocations, frees and rare events as recorded, and landmarks, which keep steps recognisable. A landmark
 * shows that a block was allocated here (thread, stack, sequence) and left out. Its bytes are those of the device's blocks
 * before it, its address their peak since the device's previous landmark:
 *   VT_EVENT_RAN     of a backward pass the last node before it, its first block, and the first block after it; at the ends those
 *                    that belong to a pass outside
 *   VT_EVENT_AFTER   the first block outside of the optimizer, or whatever module ran first after a pass: a step may begin
 *   VT_EVENT_CALL    in programs without passes: a call of a model began; bytes = number of the call
 *   VT_EVENT_ZEROED  no block: by now most of what the pass before made and left, in this run of events, was freed
 *   VT_EVENT_MOST    no block: address only; at the end, and for other devices at a landmark
 *   VT_EVENT_LAST    no block: at the end, of each thread that made blocks or nodes here: its stack, its latest sequence outside
 *                    of passes, and total_bytes = stack of a VT_EVENT_NODE that had it, after which no block came
 * If there are many, every second, fourth … pass or call is shown. Of VT_EVENT_RAN and of a framework's alloc: detail = sequence
 * of the thread's event before it, 0 = not known; total_bytes = stack of a VT_EVENT_NODE before it that had its sequence, or, made
 * in a backward pass, the stack with which the node that made it was made itself. */

/* What a digest covers. */
struct vt_digest_summary {
    uint64_t first_event; /* how many events the trace has before it */
    uint64_t events;      /* that it covers */
    uint64_t begin_ns, end_ns;
    uint32_t chains;
    uint32_t device_count, kind_count;
    uint32_t reserved;
    /* device_count struct vt_digest_device, then kind_count struct vt_digest_kind */
};
struct vt_digest_peak {
    uint64_t bytes, event, t_ns; /* the first event with the most bytes, counted from first_event */
};
struct vt_digest_device {
    uint32_t device_index, reserved;
    struct vt_digest_peak blocks, driver; /* of frameworks' blocks; of the driver's memory without contexts */
};
#define VT_DIGEST_KINDS 64u
#define VT_DIGEST_LAYERS 4u
struct vt_digest_kind { /* each below these limits */
    uint8_t kind, layer; /* of events */
    uint8_t reserved[6];
    uint64_t events;
};

#endif
