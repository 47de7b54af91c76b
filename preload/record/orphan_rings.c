#include "record/orphan_rings.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include "clock.h"
#include "format/checksum.h"
#include "format/ring_name.h"
#include "guard.h"
#include "memory.h"
#include "record/drain.h"
#include "record/mounts.h"
#include "record/process_identity.h"
#include "record/ring_memory.h"
#include "thread.h"

enum { LIST_BYTES = 32 << 10, CHUNK_BYTES_LIMIT = 64 << 20 };
#define NOBODY 0u /* no process has this number */

struct candidate {
    char path[VT_RING_PATH_BYTES];
    char without_trace[VT_RING_PATH_BYTES]; /* its path if the trace is gone */
    int file;
    struct vt_ring_header header; /* as the process left it */
};

/* struct linux_dirent64; readdir would allocate. */
struct entry {
    uint64_t inode;
    int64_t offset;
    uint16_t bytes;
    uint8_t type;
    char name[];
};

/* Reads the ring's header, and checks it. */
static bool read_header(struct candidate *ring, const struct vt_process_identity *own)
{
    const struct vt_ring_header *header = &ring->header;
    struct stat status;
    return !fstat(ring->file, &status) && S_ISREG(status.st_mode) && status.st_uid == own->user_id &&
           pread(ring->file, &ring->header, sizeof ring->header, 0) == sizeof ring->header &&
           !memcmp(header->magic, VT_RING_MAGIC, sizeof header->magic) &&
           header->format_version == VT_FORMAT_VERSION && header->header_bytes == VT_RING_HEADER_BYTES &&
           header->slots && !(header->slots & (header->slots - 1)) &&
           header->slots <= UINT64_C(1) << 30 >> 6 &&
           status.st_size == (off_t)(VT_RING_HEADER_BYTES + header->slots * VT_SLOT_BYTES) &&
           header->trace_path[0] == '/' && memchr(header->trace_path, 0, sizeof header->trace_path);
}

static void remove_if_old(const char *path)
{
    enum { KEPT_S = 24 * 3600 };
    struct stat status;
    if (!lstat(path, &status) &&
        status.st_ctime + KEPT_S < (time_t)(vt_clock_ns(CLOCK_REALTIME) / 1000000000))
        unlink(path);
}

/* Whether its process was killed before the ring was complete. */
static bool is_unfinished(int file)
{
    char first = 0;
    return pread(file, &first, sizeof first, 0) >= 0 && !first;
}

/* Who has the lock is the only one that adopts the ring, in any namespace; it ends with its holder. Another
 * may have been here before us: then the ring is no longer at its path. */
static bool lock_ring(const struct candidate *ring)
{
    struct stat ours, there;
    return !flock(ring->file, LOCK_EX | LOCK_NB) && !fstat(ring->file, &ours) && !lstat(ring->path, &there) &&
           ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

/* Whether nobody writes to the ring any more. The writer may be dead while its process lives: killed by a
 * sandbox of the host, whose threads go on with the ring; after exec they do not have it. */
static bool is_dead(const struct candidate *ring, const struct vt_process_identity *own)
{
    const struct vt_process_identity *process = &ring->header.process;
    return vt_process_is_gone(process, own) ||
           (ring->header.writer & VT_WRITER_ENDED &&
            (process->pid_namespace != own->pid_namespace || !vt_process_maps(process->pid, ring->path)));
}

/* Opens and locks the ring, and checks that nobody writes to it any more. False if it is no ring, or may
 * still be in use. The header is read again once that is known, since its process may have recorded until
 * then. */
static bool open_dead(struct candidate *ring, const struct vt_process_identity *own)
{
    ring->file = open(ring->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (ring->file < 0)
        return false;
    if (!read_header(ring, own)) {
        if (is_unfinished(ring->file))
            remove_if_old(ring->path);
    } else if (is_dead(ring, own) && lock_ring(ring) && read_header(ring, own)) {
        return true;
    }
    close(ring->file);
    return false;
}

/* Moves past chunks that the process wrote, but was killed before noting in the header. */
static void find_end(struct vt_trace_file *file, uint64_t reserved, struct vt_buffer *buffer)
{
    struct vt_file_header *header = &file->header;
    struct vt_chunk_header head;
    while (pread(file->descriptor, &head, sizeof head, (off_t)header->chunks_end) == sizeof head &&
           head.magic == VT_CHUNK_MAGIC && head.header_bytes == sizeof head &&
           head.stored_bytes <= CHUNK_BYTES_LIMIT && head.ring_position >= header->ring_consumed &&
           head.ring_position <= reserved) {
        buffer->bytes = 0;
        uint8_t *stored = vt_buffer_add(buffer, head.stored_bytes);
        if (!stored ||
            pread(file->descriptor, stored, head.stored_bytes, (off_t)(header->chunks_end + sizeof head)) !=
                (ssize_t)head.stored_bytes ||
            vt_chunk_checksum(&head, stored) != head.checksum)
            return;
        header->counters.events += head.events;
        header->chunks_end += sizeof head + head.stored_bytes;
        header->ring_consumed = head.ring_position;
    }
}

/* Copies the slots to the same positions. Not mapped: if somebody truncated the file, a mapping would kill
 * us. */
static bool copy_slots(const struct candidate *from, struct vt_ring *ring)
{
    const uint64_t end = ring->header->ring_reserved, mask = ring->slot_count - 1;
    for (uint64_t at = ring->header->ring_consumed; at != end;) {
        const uint64_t until_wrap = ring->slot_count - (at & mask), left = end - at;
        const uint64_t slots = left < until_wrap ? left : until_wrap;
        const off_t offset = (off_t)((at & mask) * VT_SLOT_BYTES);
        if (pread(from->file, ring->slots + offset, slots * VT_SLOT_BYTES,
                  (off_t)VT_RING_HEADER_BYTES + offset) != (ssize_t)(slots * VT_SLOT_BYTES))
            return false;
        at += slots;
    }
    return true;
}

/* Appends what the trace does not have yet. */
static int append_rest(const struct candidate *from, struct vt_drain *drain, struct vt_ring *ring)
{
    struct vt_ring_header header = from->header;
    struct vt_file_header *trace = &drain->file->header;
    find_end(drain->file, header.ring_reserved, &drain->chunk.stored);
    header.counters.events = trace->counters.events; /* the ring counts ahead of the file */
    if (header.ring_consumed < trace->ring_consumed)
        header.ring_consumed = trace->ring_consumed;
    if (header.ring_reserved < header.ring_consumed)
        header.ring_reserved = header.ring_consumed;
    if (header.ring_reserved - header.ring_consumed > header.slots) /* producers reserve before they wait */
        header.ring_reserved = header.ring_consumed + header.slots;
    ring->header = &header;
    drain->position = header.ring_consumed;
    int error = copy_slots(from, ring) ? vt_drain_to_the_end(drain) : -EIO;
    if (error)
        return error;
    vt_trace_file_trim(drain->file); /* of what an unfinished compaction left */
    trace->state = VT_STATE_KILLED;
    trace->counters = header.counters;
    return vt_trace_file_write_header(drain->file);
}

/* Opens the ring's trace. -ENOENT: the trace is gone from its path; something else may be there. */
static int open_trace(const struct candidate *ring, struct vt_trace_file *file)
{
    int error = vt_trace_file_open(file, ring->header.trace_path);
    if (error == -EBADMSG || error == -EINVAL || error == -ELOOP || error == -EISDIR || error == -ENOTDIR)
        return -ENOENT;
    if (error)
        return error;
    if (!memcmp(file->header.identity, ring->header.identity, sizeof file->header.identity))
        return 0;
    vt_trace_file_close(file);
    return -ENOENT;
}

/* Frees the slots that are not used. */
static void trim_ring(const struct candidate *ring)
{
    const struct vt_ring_header *header = &ring->header;
    const uint64_t slots = header->slots, pending = header->ring_reserved - header->ring_consumed;
    const uint64_t first = header->ring_consumed & (slots - 1), end = header->ring_reserved & (slots - 1);
    const uint64_t unused[2][2] = {{first <= end ? 0 : end, first}, {end, first <= end ? slots : end}};
    for (size_t i = 0; i < 2 && pending < slots; i++)
        if (unused[i][1] > unused[i][0])
            fallocate(ring->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      (off_t)(VT_RING_HEADER_BYTES + unused[i][0] * VT_SLOT_BYTES),
                      (off_t)((unused[i][1] - unused[i][0]) * VT_SLOT_BYTES));
}

/* The trace was moved, perhaps by someone who wants to read it, or removed. The ring stays for a day with 0
 * as its pid, so that other adopters need not open it. */
static void keep_without_trace(const struct candidate *ring)
{
    trim_ring(ring);
    rename(ring->path, ring->without_trace);
}

/* Its trace is on another file system, or its path means something else here: a process that records there
 * may adopt the ring within a day. */
static void keep_for_others(const struct candidate *ring)
{
    enum { BLOCK_BYTES = 512, UNUSED = 4096 }; /* the header's end */
    struct stat status;
    if (fstat(ring->file, &status))
        return;
    if (status.st_blocks * BLOCK_BYTES < status.st_size) { /* trimmed when it was found */
        remove_if_old(ring->path);
        return;
    }
    trim_ring(ring);
    fallocate(ring->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, VT_RING_HEADER_BYTES - UNUSED, UNUSED);
}

/* Returns 0 if the trace needs nothing more. */
static int append_ring(const struct candidate *from, struct vt_trace_file *file, struct vt_chunk *chunk)
{
    struct vt_ring ring = {.slot_count = from->header.slots, .slots = NULL};
    struct vt_drain drain = {.ring = &ring, .file = file};
    const size_t bytes = ring.slot_count * VT_SLOT_BYTES;
    if (file->header.state != VT_STATE_RECORDING)
        return 0;
    if (!chunk->events && !vt_chunk_start(chunk))
        return -ENOMEM;
    ring.slots = vt_memory_make(bytes);
    if (!ring.slots)
        return -ENOMEM;
    drain.chunk = *chunk;
    vt_chunk_end_chain(&drain.chunk);
    int error = append_rest(from, &drain, &ring);
    if (error)
        vt_trace_file_trim(file); /* a partial chunk would fill the disk */
    vt_memory_free(ring.slots, bytes);
    vt_memory_free(atomic_load(&ring.dead), ring.slot_count);
    drain.chunk.event_count = drain.chunk.definitions.bytes = 0;
    drain.chunk.definitions.failed = drain.chunk.stored.failed = false;
    *chunk = drain.chunk;
    return error;
}

struct adoption {
    const struct vt_trace_file *own;
    const char *path; /* of our own trace, without links */
    uint64_t end_ns;
    struct vt_chunk chunk;
};

/* Takes care of a ring that we have locked. After a failure (a full disk) it stays as it was. */
static void settle_ring(struct adoption *adoption, const struct candidate *ring)
{
    struct vt_trace_file file = {.descriptor = -1};
    /* Another file system may be dead: whoever opens a file there may never end. Ours was just written to. */
    if (!vt_on_same_mount(ring->header.trace_path, adoption->path)) {
        keep_for_others(ring);
        return;
    }
    const int error = open_trace(ring, &file);
    if (!error && !append_ring(ring, &file, &adoption->chunk))
        unlink(ring->path);
    else if (error == -ENOENT &&
             ring->header.process.mount_namespace == adoption->own->header.process.mount_namespace)
        keep_without_trace(ring);
    else if (error == -ENOENT)
        keep_for_others(ring);
    vt_trace_file_close(&file);
}

/* Adopts the file of this name, if it is the ring of a dead process. */
static void adopt_one(struct adoption *adoption, const char *folder, const char *file)
{
    struct candidate ring;
    struct vt_ring_name name;
    unsigned long long own_number;
    memcpy(&own_number, adoption->own->header.identity, sizeof own_number);
    if (!vt_read_ring_name(file, &name) || name.number == own_number)
        return;
    snprintf(ring.path, sizeof ring.path, "%s/%s", folder, file);
    snprintf(ring.without_trace, sizeof ring.without_trace, "%s/" VT_RING_NAME, folder, name.user_id, NOBODY,
             name.number);
    if (name.pid == NOBODY) {
        remove_if_old(ring.path);
    } else if (open_dead(&ring, &adoption->own->header.process)) {
        settle_ring(adoption, &ring);
        close(ring.file);
    }
}

static void adopt_in(struct adoption *adoption, const char *folder)
{
    _Alignas(struct entry) char list[LIST_BYTES];
    int listed = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long bytes = 0;
    bool more = listed >= 0;
    while (more && (bytes = syscall(SYS_getdents64, listed, list, sizeof list)) > 0 &&
           bytes <= (long)sizeof list)
        for (long at = 0; at < bytes && more; at += ((struct entry *)(void *)(list + at))->bytes) {
            const struct entry *entry = (const void *)(list + at);
            more = entry->bytes >= sizeof *entry && vt_clock_ns(CLOCK_MONOTONIC) < adoption->end_ns;
            if (more)
                adopt_one(adoption, folder, entry->name);
        }
    if (listed >= 0)
        close(listed);
}

void vt_adopt_rings(const struct vt_session *own, uint64_t end_ns)
{
    struct adoption adoption = {.own = &own->file, .path = own->ring.header->trace_path, .end_ns = end_ns};
    struct rlimit space; /* the copy of a ring takes address space that the host may need */
    const char *folder;
    /* If our own trace is not at its path (chroot, a mount), other processes' paths may not mean what they
     * meant to them. */
    if (getrlimit(RLIMIT_AS, &space) || space.rlim_cur != RLIM_INFINITY || !vt_part_from_descriptors() ||
        !vt_trace_file_is_at_its_path(&own->file))
        return;
    for (unsigned i = 0; (folder = vt_ring_folder(&own->options, i)); i++)
        adopt_in(&adoption, folder);
    vt_chunk_stop(&adoption.chunk);
}

static void *adopter_main(void *context)
{
    vt_thread_begin();
    vt_adopt_rings(context, UINT64_MAX);
    return NULL;
}

void vt_adopt_rings_beside(struct vt_session *session)
{
    vt_thread_start(adopter_main, session);
}
