/* Which parts of a long trace are read event by event: the others are read as digests (format.h). */
#ifndef VT_READING_PLAN_H
#define VT_READING_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/index.h"
#include "vramtrace/digests.h"

/* Numbers of events, as recorded: [first, end). */
struct vt_window {
    uint64_t first, end;
};

/* The windows that a reader of the trace needs in full. */
#define VT_NEEDS 8u
struct vt_needs {
    struct vt_window items[VT_NEEDS];
    size_t count;
};

/* What is taken of a chunk's events. */
enum vt_plan_part {
    VT_PLAN_NOTHING,
    VT_PLAN_EVENTS,
    VT_PLAN_NODES, /* of the digest of a whole chain: where nodes were made (vt_digest_nodes_take) */
};

/* A chain, or a digest, in the order of the file. */
struct vt_planned_chain {
    uint64_t id;                  /* of the first chain that it is of */
    uint64_t first_event, events; /* as recorded */
    uint64_t begin_ns, end_ns;    /* of a digest */
    uint64_t stored_events;       /* that reading it yields */
    uint32_t level;
    enum vt_plan_part part;
    uint32_t kind_count; /* that its summary has, from there in the file */
    uint64_t kinds_at;
    bool failed_request; /* a request failed in it (a digest) */
    bool inspected;      /* there was an inspection in it */
    bool alone;          /* a digest of chains that the recorder left out */
    bool after_damage;   /* something before it, after the chain or digest before, is no chunk */
};

struct vt_reading_plan {
    struct vt_planned_chain *chains;
    size_t chain_count, chain_capacity;
    struct vt_index places; /* of chains, by what their chunks' headers say */
    struct vt_planned_peak {
        uint64_t bytes;
        size_t digest;                                /* of the chain that it is in */
    } blocks[VT_MAX_DEVICES], driver[VT_MAX_DEVICES]; /* the largest */
    uint64_t events;                                  /* in chains */
    uint64_t next_event;                              /* the number of the next chain's first event */
    bool in_part;                                     /* some digests are read */
    bool damaged;                                     /* what comes next is after damage */
    bool leaves_out; /* some of them instead of chains that are in the file */
};

/* How many places past a damaged chunk are tried, in search of the next. */
#define VT_SEARCH_TRIES 256
/* The next place from `offset` on at which a chunk may begin, or `end`. */
uint64_t vt_search_chunk(int file, uint64_t offset, uint64_t end);
/* Finds the chains of the open file. */
void vt_plan_find(struct vt_reading_plan *plan, int file, const struct vt_file_header *header);
/* Chooses about `budget` events to read, up to half of them in digests: `asked`, and what every report needs.
 */
void vt_plan_choose(struct vt_reading_plan *plan, uint64_t budget, const struct vt_window *asked,
                    size_t asked_count);
/* What is taken of this chunk's events. */
enum vt_plan_part vt_plan_part(const struct vt_reading_plan *plan, const struct vt_chunk_header *head);
/* True for the digest of chains that are not in the file. */
bool vt_plan_is_alone(const struct vt_reading_plan *plan, const struct vt_chunk_header *head);
/* The chain cannot be read to its end. True if its digest is there: then that one is read. */
bool vt_plan_replace(struct vt_reading_plan *plan, uint64_t chain);
/* Adds what the digests that are read say of their chains: events by kind and layer. */
void vt_plan_count_kinds(const struct vt_reading_plan *plan, int file, uint64_t (*counts)[VT_DIGEST_LAYERS]);
void vt_plan_free(struct vt_reading_plan *plan);

#endif
