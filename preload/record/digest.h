/* The digest of a run of events: what stays of it when its events are left out. Blocks that were made and
 * freed within it go, in the driver as in a framework, and what else does not matter later. So whatever is
 * alive after the run is there, each with its own time and stack; and landmarks, from which steps remain
 * recognisable. The digest of several digests in a row is that of all their events. Knows nothing of files.
 *
 * Threads: one. Memory: what stays, at most VT_DIGEST_EVENTS_MAXIMUM events, from the kernel. */
#ifndef VT_DIGEST_H
#define VT_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramtrace/digests.h"

enum {
    VT_DIGEST_EVENTS_MAXIMUM = 1 << 21,
    VT_DIGEST_NOTES =
        4096, /* marks that it keeps, of more every second, fourth …; refusals: the first ones */
    VT_DIGEST_THREADS = 32,
    VT_DIGEST_NODES = 1 << 14,
    VT_DIGEST_FREES =
        64, /* the latest frees of driver memory, which may still turn out to have failed: they stay */
};

/* Landmarks of one kind: how often what they show happened so far, of which one in `stride` is shown. */
struct vt_landmarks {
    uint64_t count, stride, shown;
    uint64_t hidden, earlier; /* that earlier digests do not show; `count` when the latest of those began */
};

struct vt_digest {
    /* In order, VT_EVENT_NONE = left out; after vt_digest_end without those. Until then head_start is 1 + the
     * position of another: of driver memory the block that shows what it is for, of that block its free or
     * itself; of a landmark, the number of what it shows. */
    struct vt_event *events;
    size_t count, capacity;
    size_t left_out; /* of the events at hand */
    uint32_t
        *places; /* 1 + positions in events, 0 = none: what may still be left out, found by what it is of */
    size_t place_count, used;
    struct vt_digest_node { /* the latest of autograd's nodes, by number: where they were made */
        uint64_t sequence;
        uint32_t stack_id;
    } * nodes;
    uint64_t first_ns, last_ns;
    uint64_t omitted_events, omitted_blocks, omitted_bytes;
    size_t landmarks_maximum, refusals;
    struct vt_landmarks passes, calls; /* backward passes; without any, calls of a model */
    uint64_t marks, mark_stride;
    size_t shown_marks;
    struct vt_event
        last_forward; /* the last block that made a node, since the last pass; stack_id 0 = none */
    int peak_device;  /* of the latest block that was made; before it, its device's past.peak_bytes: */
    uint64_t peak_before;
    bool in_earlier;          /* digest: its events say that themselves */
    uint32_t driver_position; /* 1 + of the latest driver memory of which no block was kept yet; 0 = none */
    struct {
        uint32_t made, freed; /* 1 + positions, 0 = none */
    } frees[VT_DIGEST_FREES]; /* a ring */
    uint64_t free_count;
    bool failed; /* no memory, or more than the maximum stays */
    /* Blocks freed that are not here, and made where one is; how many of them are kept, 0 = all. */
    size_t unmatched, unmatched_maximum;
    uint64_t event_count; /* taken, those that earlier digests are of included */
    uint64_t kinds[VT_DIGEST_KINDS][VT_DIGEST_LAYERS];
    struct vt_digest_peak block_peaks[VT_MAX_DEVICES], driver_peaks[VT_MAX_DEVICES];
    /* What the next run goes on with: */
    struct vt_digest_past {
        bool has_blocks;
        bool backward; /* the latest framework's block was made in a backward pass */
        bool trains;   /* there was such a pass */
        bool several;  /* frameworks, one of which does not count its blocks */
        struct vt_digest_thread {
            uint32_t thread_id,
                node_stack;    /* the stack of a node for which no block was made yet; 0 = none */
            uint64_t sequence; /* of its latest node */
            uint32_t
                stack_id; /* of its latest event that says how many nodes there are; 0 = none in this run */
            uint32_t call_stack; /* of the block that began the call of a model it is in; 0 = it is in none */
        } threads[VT_DIGEST_THREADS]; /* as far as they were seen */
        uint32_t after_thread,
            after_model; /* of the latest block after the latest pass, until VT_EVENT_AFTER; 0 = none */
        /* Of blocks that passes made in this run: alive now, and when the latest pass had ended. */
        uint64_t gradient_bytes, left_bytes;
        uint32_t pass_thread;                    /* of the latest pass, until left_bytes is known; else 0 */
        uint64_t block_bytes[VT_MAX_DEVICES][2]; /* of frameworks that count: [0], and that do not */
        unsigned devices;                        /* 1 + the highest with blocks */
        uint64_t peak_bytes[VT_MAX_DEVICES];     /* of their sum, since the device's latest landmark */
        uint64_t driver_bytes[VT_MAX_DEVICES],
            graph_bytes[VT_MAX_DEVICES]; /* those of graphs' nodes included */
    } past;
};

/* Which model each stack is in: identifies the outermost module whose call it is in, 0 = none. */
struct vt_models {
    uint32_t *by_stack;
    size_t count;
};

static inline uint32_t vt_model_of(const struct vt_models *models, const struct vt_event *event)
{
    return models && event->stack_id < models->count ? models->by_stack[event->stack_id] : 0;
}

/* Begins a run: the one that follows the digest's last run, or any other (`fresh`). It shows so many
 * landmarks of a kind; of more every second, fourth … What the struct has of memory is used again. */
void vt_digest_begin(struct vt_digest *digest, size_t landmarks_maximum, bool fresh);
/* Takes the next event. `models`: NULL = not known. False if it failed. */
bool vt_digest_take(struct vt_digest *digest, const struct vt_event *event, const struct vt_models *models);
/* Takes events in a row. `pairs`: as in struct vt_chunk; blocks that come and go among these events cost
 * little. */
bool vt_digest_take_all(struct vt_digest *digest, const struct vt_event *const *events, size_t count,
                        uint32_t *pairs, const struct vt_models *models);
/* Takes an earlier digest, of the events that come next; if in parts, the later ones with an empty summary.
 */
bool vt_digest_add(struct vt_digest *digest, const struct vt_event *events, size_t count,
                   const struct vt_digest_summary *summary);
/* Ends the run: `events` are what stays, VT_EVENT_GAP_BEGIN first and VT_EVENT_GAP_END last. False if it
 * failed. */
bool vt_digest_end(struct vt_digest *digest);
void vt_digest_free(struct vt_digest *digest);

#endif
