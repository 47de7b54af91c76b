#include "record/flight_compaction.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include "format/checksum.h"
#include "format/events.h"
#include "guard.h"
#include "memory.h"
#include "record/digest_levels.h"
#include "record/chunk.h"
#include "thread.h"

enum {
    CHUNK_BYTES_LIMIT = 64 << 20,
    PIECE_BYTES = 1 << 20, /* copied at a time; less than this is left for the writer */
};

bool vt_chains_add(struct vt_chains *chains, const struct vt_flight_chain *chain)
{
    if (chains->count == chains->capacity) {
        const size_t capacity = chains->capacity ? chains->capacity * 2 : 256;
        struct vt_flight_chain *items =
            vt_memory_grow(chains->items, chains->capacity * sizeof *items, capacity * sizeof *items);
        if (!items)
            return false;
        chains->items = items;
        chains->capacity = capacity;
    }
    chains->items[chains->count++] = *chain;
    return true;
}

void vt_chains_free(struct vt_chains *chains)
{
    vt_memory_free(chains->items, chains->capacity * sizeof *chains->items);
    *chains = (struct vt_chains){0};
}

/* The thread's own state. */
struct work {
    struct vt_compaction *compaction;
    int file;
    struct vt_digest_level gap;
    bool in_gap;
    uint64_t gap_position; /* ring_position of the latest chain of the gap */
    struct vt_buffer stored, definitions;
    uint64_t definitions_bytes; /* once unpacked */
    uint64_t definitions_chain;
    struct vt_event *events; /* of a digest; VT_CHUNK_EVENTS */
    struct vt_event_codec *codec;
    struct vt_chunk chunk;
};

/* ---- bytes ---- */

static bool read_all(int file, void *data, size_t bytes, uint64_t offset)
{
    ssize_t got;
    for (size_t at = 0; at < bytes; at += (size_t)got) {
        got = pread(file, (char *)data + at, bytes - at, (off_t)(offset + at));
        if (got < 0 && errno == EINTR)
            got = 0;
        else if (got <= 0)
            return false;
    }
    return true;
}

static bool append_bytes(struct work *work, const void *data, size_t bytes)
{
    struct vt_compaction *compaction = work->compaction;
    if (compaction->to_end + bytes > compaction->to_limit ||
        vt_write_all(work->file, data, bytes, compaction->to_end))
        return false;
    compaction->to_end += bytes;
    return true;
}

static bool copy_bytes(struct work *work, uint64_t from, uint64_t bytes)
{
    while (bytes) {
        const size_t piece = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
        work->stored.bytes = 0;
        uint8_t *data = vt_buffer_add(&work->stored, piece);
        if (!data || !read_all(work->file, data, piece, from) || !append_bytes(work, data, piece))
            return false;
        from += piece;
        bytes -= piece;
    }
    return true;
}

/* ---- chains ---- */

static bool add_chain(struct work *work, uint64_t offset, uint64_t number, uint64_t ring_position,
                      uint32_t flags)
{
    return vt_chains_add(&work->compaction->to,
                         &(struct vt_flight_chain){.number = number,
                                                   .offset = offset,
                                                   .bytes = work->compaction->to_end - offset,
                                                   .ring_position = ring_position,
                                                   .flags = flags});
}

static bool copy_chain(struct work *work, const struct vt_flight_chain *chain)
{
    const uint64_t offset = work->compaction->to_end;
    return copy_bytes(work, chain->offset, chain->bytes) &&
           add_chain(work, offset, chain->number, chain->ring_position,
                     chain->flags & ~(uint32_t)VT_CHAIN_KEPT);
}

/* The definitions of a chain whose events go into a gap: copied as stored, into a chain without events. */
static bool put_definitions(struct work *work, const struct vt_flight_chain *chain)
{
    struct vt_buffer *definitions = &work->definitions;
    struct vt_chunk_header head = {
        .magic = VT_CHUNK_MAGIC,
        .header_bytes = sizeof head,
        .stored_bytes = (uint32_t)definitions->bytes,
        .packed_definitions_bytes = (uint32_t)definitions->bytes,
        .definitions_bytes = (uint32_t)work->definitions_bytes,
        .ring_position = chain->ring_position,
        .chain = work->definitions_chain,
    };
    const uint64_t offset = work->compaction->to_end;
    if (!definitions->bytes)
        return true;
    if (work->definitions_bytes > CHUNK_BYTES_LIMIT)
        return false;
    head.checksum = vt_chunk_checksum(&head, definitions->data);
    return append_bytes(work, &head, sizeof head) &&
           append_bytes(work, definitions->data, definitions->bytes) &&
           add_chain(work, offset, chain->number, chain->ring_position, VT_CHAIN_GAP);
}

/* Adds a digest to that of the gap. Only its first chunk says what it is of. */
static bool add_digest(struct work *work, const struct vt_chunk_header *head, const uint8_t *stored)
{
    static const struct vt_digest_summary nothing;
    const struct vt_digest_summary *summary = head->place ? &nothing : (const void *)stored;
    if (!head->place) {
        if (!work->gap.chains) {
            work->gap.chain = head->chain;
            work->gap.first_event = summary->first_event;
        }
        work->gap.chains += summary->chains;
        vt_events_begin_chain(work->codec);
    }
    vt_events_read_chunk(work->codec, stored + head->packed_definitions_bytes, stored + head->stored_bytes,
                         !head->place, work->events, head->events);
    return vt_digest_add(&work->gap.digest, work->events, head->events, summary);
}

/* Reads one chunk: definitions of a chain, or its digest. Moves *at past it. */
static bool thin_chunk(struct work *work, uint64_t *at, uint64_t end)
{
    struct vt_chunk_header head;
    if (end - *at < sizeof head || !read_all(work->file, &head, sizeof head, *at) ||
        head.magic != VT_CHUNK_MAGIC || head.header_bytes != sizeof head ||
        head.stored_bytes > end - *at - sizeof head || head.packed_definitions_bytes > head.stored_bytes ||
        head.events > VT_CHUNK_EVENTS)
        return false;
    work->stored.bytes = 0;
    uint8_t *stored = vt_buffer_add(&work->stored, head.stored_bytes);
    if (!stored || !read_all(work->file, stored, head.stored_bytes, *at + sizeof head) ||
        vt_chunk_checksum(&head, stored) != head.checksum)
        return false;
    *at += sizeof head + head.stored_bytes;
    work->definitions_bytes += head.definitions_bytes;
    if (head.level)
        return add_digest(work, &head, stored);
    work->definitions_chain = head.chain;
    const size_t bytes = head.packed_definitions_bytes;
    uint8_t *definitions = bytes ? vt_buffer_add(&work->definitions, bytes) : NULL;
    if (definitions)
        memcpy(definitions, stored, bytes);
    return definitions || !bytes;
}

/* How many backward passes a gap shows: each takes a few bytes. */
static size_t passes_maximum(const struct vt_compaction *compaction)
{
    enum { BYTES = 256, MOST = 1 << 17 };
    const uint64_t count = (compaction->to_limit - compaction->to_offset) / BYTES;
    return count < MOST ? (size_t)count : MOST;
}

static bool thin_chain(struct work *work, const struct vt_flight_chain *chain)
{
    const uint64_t end = chain->offset + chain->bytes;
    if (!work->in_gap) {
        vt_digest_begin(&work->gap.digest, passes_maximum(work->compaction), true);
        work->gap.chains = 0;
        work->gap.digest.unmatched_maximum = work->compaction->unmatched_maximum;
    }
    work->in_gap = true;
    work->gap_position = chain->ring_position;
    work->definitions.bytes = work->definitions_bytes = 0;
    for (uint64_t at = chain->offset; at < end;)
        if (atomic_load(&work->compaction->stopping) || !thin_chunk(work, &at, end))
            return false;
    return put_definitions(work, chain);
}

static int append_digest(void *context, const struct vt_digest_level *level, const struct vt_chunk *chunk,
                         uint64_t ring_position)
{
    struct work *work = context;
    (void)level;
    (void)ring_position;
    return append_bytes(work, chunk->stored.data, chunk->stored.bytes) ? 0 : -EIO;
}

static bool end_gap(struct work *work, uint64_t number)
{
    const uint64_t offset = work->compaction->to_end;
    if (!work->in_gap)
        return true;
    work->in_gap = false;
    return vt_digest_end(&work->gap.digest) &&
           !vt_digest_pack(&work->gap, 1, &work->chunk, work->gap_position, append_digest, work) &&
           add_chain(work, offset, number, work->gap_position, VT_CHAIN_GAP);
}

/* Whether the chains [first, end) are one existing gap. */
static bool is_gap(const struct vt_chains *chains, size_t first, size_t end)
{
    bool all = true;
    for (size_t i = first; i < end; i++)
        all &= (chains->items[i].flags & VT_CHAIN_GAP) != 0;
    return all;
}

static bool write_region(struct work *work)
{
    const struct vt_chains *from = &work->compaction->from;
    for (size_t first = 0, end; first < from->count; first = end) {
        const uint32_t kept = from->items[first].flags & VT_CHAIN_KEPT;
        for (end = first + 1; end < from->count && (from->items[end].flags & VT_CHAIN_KEPT) == kept; end++)
            ;
        const bool as_is = kept || is_gap(from, first, end);
        for (size_t i = first; i < end; i++)
            if (atomic_load(&work->compaction->stopping) ||
                !(as_is ? copy_chain(work, &from->items[i]) : thin_chain(work, &from->items[i])))
                return false;
        if (!end_gap(work, from->items[first].number))
            return false;
    }
    return true;
}

/* Copies what the writer has appended meanwhile, except for the last part. */
static bool copy_appended(struct work *work)
{
    struct vt_compaction *compaction = work->compaction;
    for (uint64_t left; (left = atomic_load(&compaction->from_end) - compaction->copied_to) > PIECE_BYTES;) {
        if (atomic_load(&compaction->stopping) || !copy_bytes(work, compaction->copied_to, left))
            return false;
        compaction->copied_to += left;
    }
    return true;
}

static bool open_trace(struct work *work)
{
    const struct vt_trace_file *file = work->compaction->file;
    struct stat status;
    const bool apart = vt_part_from_descriptors();
    work->file = open(file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (!apart && work->file >= 0)
        work->file = vt_move_descriptor_up(work->file);
    return work->file >= 0 && !fstat(work->file, &status) && status.st_dev == file->device &&
           status.st_ino == file->inode;
}

static void *compactor_main(void *context)
{
    struct vt_compaction *compaction = context;
    vt_guard.frame = VT_GUARD_OWN_THREAD;
    prctl(PR_SET_NAME, "vramtrace");
    struct work work = {.compaction = compaction, .file = -1};
    work.events = vt_memory_make(VT_CHUNK_EVENTS * sizeof *work.events);
    work.codec = vt_memory_make(sizeof *work.codec);
    const bool done = work.events && work.codec && vt_chunk_start(&work.chunk) && open_trace(&work) &&
                      write_region(&work) && copy_appended(&work);
    if (work.file >= 0)
        close(work.file);
    vt_digest_free(&work.gap.digest);
    vt_chunk_stop(&work.chunk);
    vt_memory_free(work.events, VT_CHUNK_EVENTS * sizeof *work.events);
    vt_memory_free(work.codec, sizeof *work.codec);
    vt_memory_free(work.stored.data, work.stored.capacity);
    vt_memory_free(work.definitions.data, work.definitions.capacity);
    atomic_store(&compaction->state, done ? VT_COMPACTION_READY : VT_COMPACTION_FAILED);
    syscall(SYS_futex, &compaction->state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    return NULL;
}

bool vt_compaction_start(struct vt_compaction *compaction)
{
    atomic_store(&compaction->stopping, false);
    atomic_store(&compaction->state, VT_COMPACTION_RUNS);
    compaction->to_end = compaction->to_offset;
    compaction->copied_to = compaction->from_tail;
    if (!vt_thread_start(compactor_main, compaction))
        return true;
    atomic_store(&compaction->state, VT_COMPACTION_FAILED);
    return false;
}

void vt_compaction_wait(struct vt_compaction *compaction, int milliseconds)
{
    enum { TURN_MS = 50 };
    for (int waited = 0;
         atomic_load(&compaction->state) == VT_COMPACTION_RUNS && (milliseconds < 0 || waited < milliseconds);
         waited += TURN_MS)
        syscall(SYS_futex, &compaction->state, FUTEX_WAIT_PRIVATE, VT_COMPACTION_RUNS,
                &(struct timespec){.tv_nsec = TURN_MS * 1000000L}, NULL, 0);
}

void vt_compaction_stop(struct vt_compaction *compaction)
{
    atomic_store(&compaction->stopping, true);
    vt_compaction_wait(compaction, -1);
}
