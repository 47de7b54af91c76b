#include "base/read_at.h"
#include "format/ring_name.h"
#include "trace/records.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "trace/chunks.h"
#include "trace/definitions.h"
#include "trace/rings.h"
#include "trace/tables.h"

/* A running process may move records from the ring to a chunk while we read first the one, then the other. */
#define MOVING_TRIES 20
#define ADOPTION_TRIES 3
#define ADOPTION_NS 10000000
#define RING_OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)

struct ring {
    int file; /* -1 = none */
    uint64_t slot_count;
    struct vt_ring_header header; /* as read last */
};

static int read_ring_header(struct ring *ring)
{
    return vt_read_at(ring->file, &ring->header, sizeof ring->header, 0);
}

/* Copies the slots at positions [start, end). If the file has become shorter, the rest stays zero. */
static int copy_slots(const struct ring *ring, uint64_t start, uint64_t end, uint8_t *slots)
{
    while (start < end) {
        uint64_t slot = start & (ring->slot_count - 1);
        uint64_t run = ring->slot_count - slot < end - start ? ring->slot_count - slot : end - start;
        int error =
            vt_read_at(ring->file, slots, run * VT_SLOT_BYTES, VT_RING_HEADER_BYTES + slot * VT_SLOT_BYTES);
        if (error && error != -EBADMSG)
            return error;
        slots += run * VT_SLOT_BYTES;
        start += run;
    }
    return 0;
}

static int take_ring_record(struct vt_trace *trace, const struct vt_record_head *record)
{
    if (record->kind == VT_RECORD_PAD)
        return 0;
    if (record->kind != VT_RECORD_EVENT)
        return vt_definition_add(trace, record);
    struct vt_event *event = vt_raw_events_add(trace, 1);
    memcpy(event, record, sizeof *event);
    event->head_start = 0;
    trace->tables->raw.count++;
    trace->ring_events++;
    return 0;
}

/* Walks the copied slots; the first is at position `start` of the ring. */
static int walk_ring(struct vt_trace *trace, const struct ring *ring, const uint8_t *slots, uint64_t start,
                     uint64_t count)
{
    bool in_hole = false;
    for (uint64_t at = 0; at < count;) {
        const struct vt_record_head *record = (const struct vt_record_head *)(slots + at * VT_SLOT_BYTES);
        uint64_t to_wrap = ring->slot_count - ((start + at) & (ring->slot_count - 1));
        bool whole =
            record->slots > 0 && record->slots <= count - at &&
            (record->slots <= to_wrap || record->kind == VT_RECORD_PAD) &&
            (!record->committed || record->kind == VT_RECORD_PAD || record->kind == VT_RECORD_EVENT ||
             (record->bytes >= sizeof *record && record->bytes <= record->slots * VT_SLOT_BYTES));
        if (!whole) { /* reserved, but its head was never stored; a run of such slots counts as one record */
            trace->unfinished_records += !in_hole;
            in_hole = true;
            at++;
            continue;
        }
        in_hole = false;
        int error = record->committed ? take_ring_record(trace, record) : 0;
        if (error == -E2BIG)
            return error;
        if (!record->committed || error)
            trace->unfinished_records++;
        at += record->slots;
    }
    return 0;
}

/* Whether a recorder in that process would make this path. (The user id may differ: in a user namespace a
 * user has another number.) */
static bool is_ring_path(const struct vt_file_header *header, struct vt_ring_name *name)
{
    const char *slash = strrchr(header->ring_path, '/');
    return header->ring_path[0] == '/' && vt_read_ring_name(slash + 1, name) && name->pid == header->pid;
}

/* Another process did not find the trace at its path, and has given the ring 0 as its process id. */
static int open_kept(const char *path, const struct vt_ring_name *name)
{
    char kept[2 * VT_RING_PATH_BYTES];
    const int folder_bytes = (int)(strrchr(path, '/') + 1 - path);
    snprintf(kept, sizeof kept, "%.*s" VT_RING_NAME, folder_bytes, path, name->user_id, 0U, name->number);
    return open(kept, RING_OPEN_FLAGS);
}

/* Opens the ring of a process that has not ended recording. False if it is gone, or another process's. */
static bool open_ring(struct vt_trace *trace, int trace_file, struct ring *ring)
{
    const struct vt_file_header *header = &trace->header;
    const struct vt_ring_header *found = &ring->header;
    struct stat trace_status, status;
    struct statfs file_system;
    struct vt_ring_name name;
    if (fstat(trace_file, &trace_status) || !is_ring_path(header, &name))
        return false;
    ring->file = open(header->ring_path, RING_OPEN_FLAGS);
    if (ring->file < 0)
        ring->file = open_kept(header->ring_path, &name);
    if (ring->file < 0)
        return false;
    if (!fstat(ring->file, &status) && S_ISREG(status.st_mode) && status.st_uid == trace_status.st_uid &&
        !fstatfs(ring->file, &file_system) &&
        (file_system.f_type == TMPFS_MAGIC || file_system.f_type == RAMFS_MAGIC) && !read_ring_header(ring) &&
        !memcmp(found->magic, VT_RING_MAGIC, sizeof found->magic) &&
        !memcmp(found->identity, header->identity, sizeof found->identity) &&
        found->header_bytes == VT_RING_HEADER_BYTES && found->slots == header->ring_slots &&
        (uint64_t)status.st_size >= VT_RING_HEADER_BYTES + found->slots * VT_SLOT_BYTES)
        return true;
    close(ring->file);
    ring->file = -1;
    return false;
}

/* Another process may be adopting the ring now: it is gone once the trace has all of it. */
static bool find_ring(struct vt_trace *trace, int trace_file, struct ring *ring)
{
    const struct vt_file_header *header = &trace->header;
    uint32_t state = header->state;
    bool found = header->ring_path[0] && open_ring(trace, trace_file, ring);
    for (int tries = 0; !found && header->ring_path[0] && state == header->state && tries < ADOPTION_TRIES;
         tries++) {
        nanosleep(&(struct timespec){.tv_nsec = ADOPTION_NS}, NULL);
        found = open_ring(trace, trace_file, ring);
        if (!found && vt_read_at(trace_file, &state, sizeof state, offsetof(struct vt_file_header, state)))
            break;
    }
    return found;
}

/* Moves *end to the end of the first chunk. */
static void end_with_first_chunk(const struct vt_trace *trace, int file, uint64_t *end)
{
    const uint64_t start = trace->header.chunks_offset;
    struct vt_chunk_header head;
    if (start < *end && !vt_read_at(file, &head, sizeof head, start) && head.magic == VT_CHUNK_MAGIC &&
        (uint64_t)head.header_bytes + head.stored_bytes < *end - start)
        *end = start + head.header_bytes + head.stored_bytes;
}

/* Where the chunks end at the latest. */
static int chunks_end(struct vt_trace *trace, int file, bool last, uint64_t *end)
{
    const struct vt_file_header *header = &trace->header;
    struct stat status;
    if (fstat(file, &status))
        return -errno;
    const uint64_t file_bytes = (uint64_t)status.st_size;
    if (last && header->chunks_end > file_bytes)
        trace->truncated = true;
    *end = header->chunks_end;
    if (file_bytes < *end || header->state == VT_STATE_RECORDING)
        *end = file_bytes;
    if (trace->tables->head_only)
        end_with_first_chunk(trace, file, end);
    return 0;
}

/* Copies the ring from `position` on to *slots, which live as long as the trace, since definitions point
 * there. *start is the position of the first. */
static int copy_rest(struct vt_trace *trace, const struct ring *ring, uint64_t position, uint8_t **slots,
                     uint64_t *start, uint64_t *count)
{
    const uint64_t reserved = ring->header.ring_reserved, consumed = ring->header.ring_consumed;
    *start = position <= reserved ? position : 0; /* else the chunks' positions are wrong */
    if (consumed > *start && consumed <= reserved)
        *start = consumed;
    *count = reserved > *start ? reserved - *start : 0;
    if (*count > ring->slot_count) /* producers reserve before they wait for space */
        *count = ring->slot_count;
    if (!*count)
        return 0;
    *slots = vt_arena_take(&trace->tables->arena, *count * VT_SLOT_BYTES);
    memset(*slots, 0, *count * VT_SLOT_BYTES);
    return copy_slots(ring, *start, *start + *count, *slots);
}

/* Reads chunks, then the ring, again until no record moved from one to the other in between. If that never
 * happens, it takes only the chunks: they are whole, and only lack the newest events. */
static int read_both(struct vt_trace *trace, int file, struct vt_chunk_reader *chunks, struct ring *ring)
{
    uint64_t offset = trace->header.chunks_offset, position = 0, end = 0, start = 0, count = 0;
    uint64_t consumed_before = UINT64_MAX;
    uint8_t *slots = NULL;
    for (int tries = 0; tries < MOVING_TRIES; tries++) {
        int error = chunks_end(trace, file, tries == 0, &end);
        if (!error)
            error = vt_chunks_read(chunks, end, &offset, &position);
        if (error || ring->file < 0)
            return error;
        error = read_ring_header(ring);
        if (!error)
            error = copy_rest(trace, ring, position, &slots, &start, &count);
        const uint64_t consumed = ring->header.ring_consumed;
        if (!error)
            error = read_ring_header(ring);
        if (error)
            return error;
        /* Records consumed before we read the chunks are in them, or lost. */
        if (ring->header.ring_consumed == consumed && (consumed <= position || consumed == consumed_before))
            return walk_ring(trace, ring, slots, start, count);
        consumed_before = consumed;
    }
    return 0;
}

/* The ring knows more than the process's number: of other containers, too, and after exec. */
static enum vt_life find_life(const struct vt_file_header *header, const struct ring *ring)
{
    const uint32_t writer = ring->file >= 0 ? ring->header.writer : 0;
    if (header->state != VT_STATE_RECORDING)
        return VT_LIFE_UNKNOWN;
    if (writer && !(writer & VT_WRITER_ENDED))
        return VT_LIFE_RUNS;
    const enum vt_life life = vt_process_life(&header->process);
    if (!writer)
        return life;
    return life == VT_LIFE_RUNS ? VT_LIFE_UNKNOWN
                                : VT_LIFE_ENDED; /* became another program, or lost its writer */
}

int vt_records_read(struct vt_trace *trace, int file)
{
    const struct vt_file_header *header = &trace->header;
    struct ring ring = {.file = -1, .slot_count = header->ring_slots};
    trace->unfinished_records = header->unfinished_records;
    if (!trace->tables->head_only && header->state == VT_STATE_RECORDING)
        trace->ring_missing = !find_ring(trace, file, &ring);
    trace->life = find_life(header, &ring);
    struct vt_chunk_reader *chunks = vt_chunks_begin(trace, file);
    int error = read_both(trace, file, chunks, &ring);
    vt_chunks_end(chunks);
    if (!error)
        error = vt_raw_events_take(trace, trace->tables->raw.count);
    if (ring.file >= 0) {
        trace->header.counters = ring.header.counters;
        close(ring.file);
    }
    return error;
}
