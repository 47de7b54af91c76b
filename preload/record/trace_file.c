#include "record/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "thread.h"

enum { NAME_ATTEMPTS = 1000 };

/* Hosts that close every descriptor, or expect the lowest free one, seldom reach numbers above this. If the
 * limit is lower: the upper half of what it allows. */
enum { HIGH_DESCRIPTOR = 900 };

int vt_move_descriptor_up(int file)
{
    struct rlimit limit;
    int lowest = HIGH_DESCRIPTOR;
    if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur <= HIGH_DESCRIPTOR)
        lowest = (int)limit.rlim_cur / 2;
    int high = fcntl(file, F_DUPFD_CLOEXEC, lowest);
    if (high < 0)
        return file;
    close(file);
    return high;
}

static int keep_descriptor(struct vt_trace_file *file, int descriptor)
{
    struct stat status;
    if (fstat(descriptor, &status) || !S_ISREG(status.st_mode)) {
        close(descriptor);
        return -EINVAL;
    }
    file->descriptor = descriptor;
    file->device = status.st_dev;
    file->inode = status.st_ino;
    return 0;
}

static bool is_ours(const struct vt_trace_file *file, int descriptor)
{
    struct stat status;
    return descriptor >= 0 && !fstat(descriptor, &status) && status.st_dev == file->device &&
           status.st_ino == file->inode;
}

/* An operation on the file's descriptor. `with` returns 0 or -errno; -EBADF: the host has closed the
 * descriptor. */
struct use {
    struct vt_trace_file *file;
    int (*with)(const struct use *use, int descriptor);
    const void *data; /* to append */
    size_t bytes;
    uint64_t offset, ring_position, to_offset;
    struct vt_trace_region regions[2]; /* old and new */
    int error;
};

static void open_and_use(void *context)
{
    struct use *use = context;
    int descriptor = open(use->file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    use->error = is_ours(use->file, descriptor) ? use->with(use, descriptor) : -EBADF;
    if (descriptor >= 0)
        close(descriptor);
}

/* If the host has closed the descriptor, the file is opened by its path each time, in a thread whose
 * descriptors the host does not see. Where that is not possible, it is opened once more among the host's
 * descriptors. */
static int use_descriptor(struct use *use)
{
    struct vt_trace_file *file = use->file;
    use->error = is_ours(file, file->descriptor) ? use->with(use, file->descriptor) : -EBADF;
    if (use->error != -EBADF || vt_run_apart(open_and_use, use))
        return use->error;
    int descriptor = open(file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor >= 0)
        descriptor = vt_move_descriptor_up(descriptor);
    if (is_ours(file, descriptor)) {
        file->descriptor = descriptor; /* the old number now belongs to the host */
        return use->with(use, descriptor);
    }
    if (descriptor >= 0)
        close(descriptor);
    return -EBADF;
}

static void set_path(struct vt_trace_file *file)
{
    char folder[sizeof file->path];
    if (file->name[0] == '/' || !getcwd(folder, sizeof folder) ||
        snprintf(file->path, sizeof file->path, "%s/%s", folder, file->name) >= (int)sizeof file->path)
        memcpy(file->path, file->name, sizeof file->path);
}

void vt_trace_file_real_path(const struct vt_trace_file *file, char *path, size_t bytes)
{
    char link[48];
    snprintf(link, sizeof link, "/proc/thread-self/fd/%d", file->descriptor);
    const ssize_t length = readlink(link, path, bytes - 1);
    if (length > 0 && path[0] == '/')
        path[length] = 0;
    else
        snprintf(path, bytes, "%s", file->path);
}

static void fill_header(struct vt_file_header *header, const char *host)
{
    *header = (struct vt_file_header){
        .magic = VT_MAGIC,
        .format_version = VT_FORMAT_VERSION,
        .minimum_readable = VT_FORMAT_MINIMUM_READABLE,
        .header_bytes = VT_HEADER_BYTES,
        .slot_bytes = VT_SLOT_BYTES,
        .chunks_offset = VT_HEADER_BYTES,
        .chunks_end = VT_HEADER_BYTES,
        .pid = (uint32_t)getpid(),
        .parent_pid = (uint32_t)getppid(),
        .start_realtime_ns = vt_clock_ns(CLOCK_REALTIME),
        .start_monotonic_ns = vt_clock_ns(CLOCK_MONOTONIC),
        .program_version = VRAMTRACE_VERSION,
        .feature_bits = VT_FEATURE_EVENT_THREADS,
        .state = VT_STATE_RECORDING,
    };
    snprintf(header->host, sizeof header->host, "%s", host);
}

int vt_trace_file_create(struct vt_trace_file *file, const struct vt_options *options)
{
    char host[64] = "localhost";
    gethostname(host, sizeof host - 1);
    for (int attempt = 0; attempt < NAME_ATTEMPTS; attempt++) {
        int error = vt_options_path(options, host, attempt, file->name, sizeof file->name);
        if (error)
            return error;
        int descriptor = open(file->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (descriptor < 0 && errno == EEXIST)
            continue;
        if (descriptor < 0)
            return -errno;
        set_path(file);
        fill_header(&file->header, host);
        return keep_descriptor(file, vt_move_descriptor_up(descriptor));
    }
    return -EEXIST;
}

int vt_trace_file_open(struct vt_trace_file *file, const char *path)
{
    const struct vt_file_header *header = &file->header;
    snprintf(file->path, sizeof file->path, "%s", path);
    int descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int error = descriptor < 0 ? -errno : keep_descriptor(file, descriptor);
    if (!error && (pread(descriptor, &file->header, sizeof file->header, 0) != sizeof file->header ||
                   memcmp(header->magic, VT_MAGIC, sizeof header->magic) ||
                   header->format_version != VT_FORMAT_VERSION || header->header_bytes != VT_HEADER_BYTES ||
                   header->chunks_end < VT_HEADER_BYTES || header->chunks_end > INT64_MAX)) {
        close(descriptor);
        error = -EBADMSG;
    }
    return error;
}

static int write_header(const struct use *use, int descriptor)
{
    uint8_t page[VT_HEADER_BYTES] = {0}; /* the whole page: the file may have been truncated */
    memcpy(page, &use->file->header, sizeof use->file->header);
    return vt_write_all(descriptor, page, sizeof page, 0);
}

int vt_trace_file_write_header(struct vt_trace_file *file)
{
    return use_descriptor(&(struct use){.file = file, .with = write_header});
}

bool vt_trace_file_was_cut(const struct vt_trace_file *file)
{
    struct stat status;
    return (is_ours(file, file->descriptor) ? !fstat(file->descriptor, &status)
                                            : !stat(file->path, &status)) &&
           status.st_size < (off_t)file->header.chunks_end;
}

bool vt_trace_file_is_at_its_path(const struct vt_trace_file *file)
{
    struct stat status;
    return !stat(file->path, &status) && status.st_dev == file->device && status.st_ino == file->inode;
}

/* May run twice. */
static int append_chunk(const struct use *use, int descriptor)
{
    struct vt_file_header *header = &use->file->header;
    int error = vt_write_all(descriptor, use->data, use->bytes, use->offset);
    if (error)
        return error;
    header->chunks_end = use->offset + use->bytes;
    header->ring_consumed = use->ring_position;
    return write_header(use, descriptor);
}

int vt_trace_file_append(struct vt_trace_file *file, const void *chunk, size_t bytes, uint64_t ring_position)
{
    if (file->end_limit && file->header.chunks_end + bytes > file->end_limit)
        return -EOVERFLOW;
    return use_descriptor(&(struct use){.file = file,
                                        .with = append_chunk,
                                        .data = chunk,
                                        .bytes = bytes,
                                        .offset = file->header.chunks_end,
                                        .ring_position = ring_position});
}

/* Copies chunks unchanged: [use->offset, use->regions[0].end) to use->to_offset. */
static int copy_rest(const struct use *use, int descriptor)
{
    uint8_t bytes[16384];
    const uint64_t end = use->regions[0].end;
    int error = 0;
    for (uint64_t at = use->offset; at < end && !error; at += sizeof bytes) {
        const size_t part = end - at < sizeof bytes ? end - at : sizeof bytes;
        if (pread(descriptor, bytes, part, (off_t)at) != (ssize_t)part)
            return -EIO;
        error = vt_write_all(descriptor, bytes, part, use->to_offset + (at - use->offset));
    }
    return error;
}

static int switch_region(const struct use *use, int descriptor)
{
    struct vt_file_header *header = &use->file->header;
    const struct vt_trace_region *old = &use->regions[0], *new = &use->regions[1];
    int error = copy_rest(use, descriptor);
    if (error)
        return error;
    header->chunks_offset = new->begin;
    header->chunks_end = new->end;
    header->moves++;
    error = write_header(use, descriptor);
    if (error) {
        header->moves--;
        header->chunks_offset = old->begin;
        header->chunks_end = old->end;
        return error;
    }
    if (old->begin > new->begin)
        error = ftruncate(descriptor, (off_t) new->end);
    else
        error = fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)old->begin,
                          (off_t)(old->end - old->begin));
    return 0; /* if that failed, the file only takes more space than it needs */
}

int vt_trace_file_go_over(struct vt_trace_file *file, const struct vt_trace_region *old,
                          const struct vt_trace_region *new, uint64_t rest_offset, uint64_t to_offset)
{
    return use_descriptor(&(struct use){.file = file,
                                        .with = switch_region,
                                        .regions = {*old, *new},
                                        .offset = rest_offset,
                                        .to_offset = to_offset});
}

static int trim_file(const struct use *use, int descriptor)
{
    return ftruncate(descriptor, (off_t)use->file->header.chunks_end) ? -errno : 0;
}

void vt_trace_file_trim(struct vt_trace_file *file)
{
    use_descriptor(&(struct use){.file = file, .with = trim_file});
}

void vt_trace_file_close(struct vt_trace_file *file)
{
    if (file->descriptor >= 0)
        close(file->descriptor);
    file->descriptor = -1;
}
