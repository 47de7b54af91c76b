#include "trace/rings.h"

#include "base/index.h"
#include "base/open_file.h"
#include "base/read_at.h"
#include "base/sort.h"
#include "format/ring_name.h"
#include "trace/chunks.h"
#include "trace/processes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_TURN_MS = 5 };

/* Another process wrote these texts: ends them. A header of an earlier version has neither top counters nor
 * what follows. */
static void end_texts(struct vt_ring_header *header)
{
    struct vt_top_counters *top = &header->top;
    if (header->header_bytes < VT_RING_HEADER_BYTES)
        memset((char *)header + offsetof(struct vt_ring_header, top), 0,
               sizeof *header - offsetof(struct vt_ring_header, top));
    header->trace_path[sizeof header->trace_path - 1] = 0;
    top->rank[sizeof top->rank - 1] = 0;
    for (size_t i = 0; i < VT_MAX_DEVICES; i++)
        top->devices[i].name[sizeof top->devices[i].name - 1] = 0;
}

/* Anybody can make files where rings are. One counts if it is a regular file of the process's user, or of
 * root, and others have no rights to it. */
static bool belongs_to_process(int file, const struct vt_ring_header *header)
{
    struct stat status;
    return !fstat(file, &status) && S_ISREG(status.st_mode) && !(status.st_mode & (S_IRWXG | S_IRWXO)) &&
           (!status.st_uid || vt_process_has_user(header->process.pid, status.st_uid));
}

static bool read_recorder(int folder, const char *folder_path, const char *name, struct vt_recorder *recorder)
{
    struct vt_ring_header *header = &recorder->header;
    struct vt_ring_name told;
    if (!vt_read_ring_name(name, &told) || !told.pid) /* 0: a ring without a trace */
        return false;
    const int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const bool read =
        file >= 0 && !vt_read_at(file, header, sizeof *header, 0) && belongs_to_process(file, header);
    if (file >= 0)
        close(file);
    end_texts(header);
    return read && !memcmp(header->magic, VT_RING_MAGIC, sizeof header->magic) &&
           header->format_version == VT_FORMAT_VERSION && !(header->writer & VT_WRITER_ENDED) &&
           vt_process_runs(&header->process) &&
           snprintf(recorder->path, sizeof recorder->path, "%s/%s", folder_path, name) <
               (int)sizeof recorder->path;
}

struct list {
    struct vt_recorder *items;
    size_t count, capacity;
};

static void add_folder(struct list *list, const char *path)
{
    struct dirent *entry;
    DIR *folder = path && path[0] == '/' ? opendir(path) : NULL;
    while (folder && (entry = readdir(folder))) {
        vt_reserve(&list->items, &list->capacity, list->count + 1, sizeof *list->items);
        list->count += read_recorder(dirfd(folder), path, entry->d_name, &list->items[list->count]);
    }
    if (folder)
        closedir(folder);
}

static uint64_t process_id(const void *recorder)
{
    return ((const struct vt_recorder *)recorder)->header.process.pid;
}

void vt_recorders_find(struct vt_recorder **recorders, size_t *count)
{
    struct list list = {0};
    char own[48];
    snprintf(own, sizeof own, "/run/user/%u", (unsigned)getuid());
    const char *const runtime = getenv("XDG_RUNTIME_DIR");
    add_folder(&list, "/dev/shm");
    add_folder(&list, own);
    if (runtime && strcmp(runtime, own))
        add_folder(&list, runtime);
    vt_sort_by_key(list.items, list.count, sizeof *list.items, process_id);
    *recorders = list.items;
    *count = list.count;
}

/* Sleeps for one turn; false once the turns have taken `milliseconds`. */
static bool wait_a_turn(int *waited, int milliseconds)
{
    if (*waited >= milliseconds)
        return false;
    *waited += WAIT_TURN_MS;
    nanosleep(&(struct timespec){.tv_nsec = WAIT_TURN_MS * 1000000L}, NULL);
    return true;
}

/* The recorder's ring again, or -errno. It is read and written, not mapped: its maker may cut it off. */
static int open_ring(const struct vt_recorder *recorder, int flags)
{
    struct vt_ring_header header;
    const int file = open(recorder->path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int error = file < 0 ? -errno : vt_read_at(file, &header, sizeof header, 0);
    if (!error && (!belongs_to_process(file, &recorder->header) ||
                   memcmp(header.identity, recorder->header.identity, sizeof header.identity)))
        error = -ESRCH;
    if (error && file >= 0)
        close(file);
    return error ? error : file;
}

#define MEMBER(member) offsetof(struct vt_ring_header, member)

static uint64_t read_number(int ring, size_t member, size_t bytes)
{
    uint64_t number = 0; /* little-endian */
    return vt_read_at(ring, &number, bytes, member) ? 0 : number;
}

static uint32_t read_control(int ring, size_t member)
{
    return (uint32_t)read_number(ring, member, sizeof(uint32_t));
}

static int ask_open(int ring, enum vt_control_command command, const char *text, int milliseconds,
                    bool *recorded)
{
    struct vt_control control = {.command = command};
    const uint32_t number = read_control(ring, MEMBER(control.asked)) + 1;
    snprintf(control.text, sizeof control.text, "%s", text);
    /* The number last: it announces the rest. */
    if (pwrite(ring, &control.command, sizeof control.command, MEMBER(control.command)) < 0 ||
        pwrite(ring, control.text, sizeof control.text, MEMBER(control.text)) < 0 ||
        pwrite(ring, &number, sizeof number, MEMBER(control.asked)) < 0)
        return -errno;
    for (int waited = 0; read_control(ring, MEMBER(control.answered)) != number;)
        if (!wait_a_turn(&waited, milliseconds))
            return -ETIMEDOUT;
    *recorded = read_number(ring, MEMBER(control.recorded), sizeof control.recorded) != 0;
    return 0;
}

int vt_recorder_ask(const struct vt_recorder *recorder, enum vt_control_command command, const char *text,
                    int milliseconds, bool *recorded)
{
    const int ring = open_ring(recorder, O_RDWR);
    if (ring < 0)
        return ring;
    /* Other callers wait here until this one has its answer; one that was stopped holds up nobody. */
    for (int waited = 0; flock(ring, LOCK_EX | LOCK_NB) && wait_a_turn(&waited, milliseconds);)
        ;
    const int result = ask_open(ring, command, text, milliseconds, recorded);
    close(ring);
    return result;
}

bool vt_recorder_await_inspections(const struct vt_recorder *recorder, uint32_t inspections, int milliseconds)
{
    const int ring = open_ring(recorder, O_RDONLY);
    int waited = 0;
    bool made = false;
    while (ring >= 0 && !made && wait_a_turn(&waited, milliseconds))
        made = read_control(ring, MEMBER(control.inspections)) >= inspections;
    if (ring >= 0)
        close(ring);
    return made;
}

/* Waits until the writer has taken all records before position `end`. */
static bool await_drained(int ring, uint64_t end, int milliseconds)
{
    for (int waited = 0; read_number(ring, MEMBER(ring_consumed), sizeof end) < end;)
        if (!wait_a_turn(&waited, milliseconds))
            return false;
    return true;
}

bool vt_recorder_settle(struct vt_recorder *recorder, int milliseconds)
{
    const int ring = open_ring(recorder, O_RDONLY);
    if (ring < 0)
        return false;
    const bool settled = await_drained(ring, recorder->header.ring_reserved, milliseconds) &&
                         !vt_read_at(ring, &recorder->header, sizeof recorder->header, 0);
    end_texts(&recorder->header);
    close(ring);
    return settled;
}

/* Copies the header, then the chunks right behind it. -ESTALE: it is another process's trace. */
static int copy_trace(int trace, const struct vt_recorder *recorder, FILE *out)
{
    struct vt_file_header header;
    char bytes[65536] = {0};
    int error = vt_read_at(trace, &header, sizeof header, 0);
    if (error || memcmp(header.magic, VT_MAGIC, sizeof header.magic) ||
        header.chunks_offset < VT_HEADER_BYTES || header.chunks_end < header.chunks_offset)
        return error ? error : -EBADMSG;
    if (memcmp(header.identity, recorder->header.identity, sizeof header.identity))
        return -ESTALE;
    const uint64_t begin = header.chunks_offset, end = header.chunks_end, moves = header.moves;
    if (header.state == VT_STATE_RECORDING)
        header.state = VT_STATE_SNAPSHOT;
    memset(header.ring_path, 0, sizeof header.ring_path);
    header.chunks_offset = VT_HEADER_BYTES;
    header.chunks_end = VT_HEADER_BYTES + (end - begin);
    fwrite(&header, sizeof header, 1, out);
    fwrite(bytes, VT_HEADER_BYTES - sizeof header, 1, out);
    for (uint64_t at = begin; at < end && !error && !ferror(out);) {
        const size_t part = end - at < sizeof bytes ? (size_t)(end - at) : sizeof bytes;
        error = vt_read_at(trace, bytes, part, at);
        if (!error)
            fwrite(bytes, part, 1, out);
        at += part;
    }
    if (!error)
        error = vt_read_at(trace, &header, sizeof header, 0);
    return error ? error : header.moves == moves ? 0 : -EAGAIN;
}

/* In flight mode the chunks may move during the copy: then it starts over. */
static int copy_unmoved(int trace, const struct vt_recorder *recorder, FILE *out)
{
    enum { TRIES = 5 };
    int error = -EAGAIN;
    for (int tries = 0; tries < TRIES && error == -EAGAIN; tries++) {
        if (fseeko(out, 0, SEEK_SET) || ftruncate(fileno(out), 0))
            return -errno;
        error = copy_trace(trace, recorder, out);
    }
    return error;
}

int vt_recorder_copy(const struct vt_recorder *recorder, int milliseconds, FILE *out, bool *missing)
{
    struct stat status;
    const int ring = open_ring(recorder, O_RDONLY);
    if (ring < 0)
        return ring;
    const int trace = vt_open_regular(recorder->header.trace_path, &status);
    int result = trace < 0 ? -errno : 0;
    *missing = !result &&
               !await_drained(ring, read_number(ring, MEMBER(ring_reserved), sizeof(uint64_t)), milliseconds);
    if (!result)
        result = copy_unmoved(trace, recorder, out);
    if (trace >= 0)
        close(trace);
    close(ring);
    return result;
}
