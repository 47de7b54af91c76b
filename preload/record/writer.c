/* The writer thread: takes committed records from the ring, adds names, and appends compressed chunks. */
#include "record/record.h"
#include "record/writer.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "loader/elf_walk.h"
#include "loader/fork_gate.h"
#include "guard.h"
#include "log.h"
#include "loader/lookup.h"
#include "memory.h"
#include "options.h"
#include "stacks/python_layout.h"
#include "stacks/native.h"

enum {
    POLL_MS = 100,        /* new addresses are named within this time, while their code is still loaded */
    CHUNK_AGE_POLLS = 30, /* events alone may stay this long in the ring: they are as safe there */
    CHUNK_DEFINITIONS_BYTES =
        3 << 20, /* then the chunk is full: readers limit what it may unpack to (4 MiB, or by its size) */
    LAST_TURNS = 100,
    LAST_TURN_NS = 1000000,
    FINISH_TURNS = 200, /* of FINISH_TURN_MS, counted anew while the writer makes progress */
    FINISH_TURN_MS = 50,
    ASK_AFTER_TURNS = 4,
    STUCK_POLLS = 10,
};
#define STUCK_NS UINT64_C(1000000000)

struct writer {
    struct vt_session *session;
    struct vt_seen *seen;
    struct vt_chunk chunk;           /* what is taken from the ring and not yet in the file */
    uint64_t position;               /* the first slot that is not taken */
    struct vt_elf_changes libraries; /* at the latest round */
    bool has_interpreter;
    struct {
        uint64_t position, reserved, since_ns;
        unsigned polls;
    } stuck; /* at a record that is not committed */
};

/* Takes what is committed, at most a chunk: a part of the ring, since its slots are free again only when the
 * chunk is written, and producers that find none wait for a few milliseconds only. */
static void take_records(struct writer *writer)
{
    const struct vt_ring *ring = &writer->session->ring;
    const struct vt_record_head *head;
    while (writer->chunk.event_count < VT_CHUNK_EVENTS &&
           writer->chunk.definitions.bytes < CHUNK_DEFINITIONS_BYTES &&
           writer->position - ring->header->ring_consumed < ring->slot_count / 4 &&
           (head = vt_ring_at(&writer->session->ring, &writer->position))) {
        writer->position += head->slots;
        if (head->kind == VT_RECORD_EVENT) {
            writer->chunk.events[writer->chunk.event_count++] = (const struct vt_event *)(const void *)head;
            continue;
        }
        if (head->kind == VT_RECORD_THREAD) {
            vt_define_thread(writer->session, ((const struct vt_thread *)(const void *)head)->thread_id,
                             &writer->chunk.definitions);
            continue;
        }
        size_t padded = (head->bytes + 7u) & ~(size_t)7;
        void *copy = vt_buffer_add(&writer->chunk.definitions, padded);
        if (!copy)
            return;
        memset((char *)copy + padded - 8, 0, 8);
        memcpy(copy, head, head->bytes);
        if (head->kind == VT_RECORD_STACK)
            vt_define_for_stack(writer->seen, (const struct vt_stack *)(const void *)head,
                                &writer->chunk.definitions);
    }
}

static int write_all(int file, const uint8_t *data, size_t bytes, uint64_t offset)
{
    while (bytes) {
        ssize_t written = pwrite(file, data, bytes, (off_t)offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -errno;
        if (written == 0 || (size_t)written > bytes) /* a sandbox answered for the kernel */
            return -EPERM;
        data += written;
        bytes -= (size_t)written;
        offset += (uint64_t)written;
    }
    return 0;
}

/* Appends what was taken as one chunk. The file is readable after every step (format.h). */
static int append_chunk(struct writer *writer)
{
    struct vt_file_header *header = writer->session->ring.header;
    if (!writer->chunk.event_count && !writer->chunk.definitions.bytes &&
        writer->position == header->ring_consumed)
        return 0;
    int result = vt_chunk_pack(&writer->chunk, writer->position);
    int file = result ? result : vt_session_file(writer->session);
    result = file < 0
                 ? file
                 : write_all(file, writer->chunk.stored.data, writer->chunk.stored.bytes, header->chunks_end);
    if (result)
        return result;
    header->events += writer->chunk.event_count;
    __atomic_store_n(&header->chunks_end, header->chunks_end + writer->chunk.stored.bytes, __ATOMIC_RELEASE);
    vt_ring_consume(&writer->session->ring, writer->position);
    writer->chunk.event_count = 0;
    writer->chunk.definitions.bytes = 0;
    return 0;
}

static int drain(struct writer *writer)
{
    do {
        take_records(writer);
        int result = append_chunk(writer);
        if (result)
            return result;
    } while (vt_ring_at(&writer->session->ring, &writer->position));
    return 0;
}

/* The record at writer->position will never be committed. */
static void abandon(struct writer *writer, uint64_t end)
{
    struct vt_file_header *header = writer->session->ring.header;
    uint8_t kind = vt_ring_abandon(&writer->session->ring, &writer->position, end);
    __atomic_fetch_add(kind > VT_RECORD_EVENT ? &header->dropped_definitions : &header->dropped, 1,
                       __ATOMIC_RELAXED);
}

/* A thread that was ended, or is stopped, in the middle of a record must not hold up all others. */
static void abandon_if_stuck(struct writer *writer)
{
    const struct vt_file_header *header = writer->session->ring.header;
    uint64_t now = vt_clock_ns(CLOCK_MONOTONIC),
             reserved = __atomic_load_n(&header->ring_reserved, __ATOMIC_RELAXED);
    if (vt_ring_at(&writer->session->ring, &writer->position) || writer->position == reserved ||
        writer->position != writer->stuck.position || !writer->stuck.since_ns) {
        writer->stuck.position = writer->position;
        writer->stuck.reserved = reserved;
        writer->stuck.since_ns = now;
        writer->stuck.polls = 0;
    } else if (++writer->stuck.polls >= STUCK_POLLS && now - writer->stuck.since_ns >= STUCK_NS) {
        abandon(writer, writer->stuck.reserved);
        writer->stuck.since_ns = 0;
    }
}

/* When the process ends, waits briefly for threads that are still writing a record. */
static int drain_to_the_end(struct writer *writer)
{
    struct vt_ring *ring = &writer->session->ring;
    int result = drain(writer);
    for (int turn = 0; !result && vt_ring_pending(ring) && turn < LAST_TURNS; turn++) {
        vt_nap(LAST_TURN_NS);
        result = drain(writer);
    }
    uint64_t end = __atomic_load_n(&ring->header->ring_reserved, __ATOMIC_RELAXED);
    while (!result && (int64_t)(end - writer->position) > 0) {
        if (!vt_ring_at(ring, &writer->position) && (int64_t)(end - writer->position) > 0)
            abandon(writer, end);
        result = drain(writer);
    }
    return result;
}

/* True once the ring should be drained: many slots, new definitions, or old events. */
static bool is_due(const struct writer *writer, unsigned polls, uint32_t *definitions_seen)
{
    struct vt_session *session = writer->session;
    uint32_t definitions = atomic_load(&session->stacks.next_id) + atomic_load(&session->codes.next_id);
    uint64_t pending = vt_ring_pending(&session->ring);
    if (!pending)
        return false;
    if (definitions == *definitions_seen && pending < session->ring.slot_count / 4 && polls < CHUNK_AGE_POLLS)
        return false;
    *definitions_seen = definitions;
    return true;
}

static bool defines_interpreter(const struct vt_elf *object, void *unused)
{
    (void)unused;
    return vt_elf_symbol(object, "PyGILState_GetThisThreadState", NULL) != NULL;
}

/* All that takes the loader's lock, which the host's threads may hold while they wait for each other: in this
 * thread, not in theirs. */
static void do_round(struct writer *writer)
{
    const struct vt_elf_changes changes = vt_elf_changes();
    vt_lookup_pin();
    vt_session_free_recent(writer->session);
    if (changes.unloads != writer->libraries.unloads)
        vt_native_forget();
    /* A failing lookup would allocate an error text: the loader is asked only if there is something to find.
     */
    if (changes.loads != writer->libraries.loads)
        writer->has_interpreter = vt_elf_find(defines_interpreter, NULL);
    writer->libraries = changes;
    if (!writer->has_interpreter)
        return;
    /* Each round, since what could not be pinned is tried again; cheap once done. */
    _Atomic int *gate = vt_gate_enter();
    if (writer->session->options.python)
        vt_python_look_up();
    if (writer->session->options.python && writer->session->options.inspect)
        vt_inspector.look_up();
    if (writer->session->options.python)
        vt_inspector.tend(writer->session);
    vt_native_find_interpreter();
    vt_gate_leave(gate);
}

/* The process ends with its last thread, and this one must not keep it alive: main may have ended by
 * pthread_exit. The kernel clears the id of a thread that ended; while the first thread's is there, /proc is
 * not read. */
static bool is_last_thread(const struct vt_session *session)
{
    struct stat status;
    if (!session->first_thread_id || __atomic_load_n(session->first_thread_id, __ATOMIC_RELAXED) != 0)
        return false;
    /* Links: itself, its parent, and one for each thread; the first thread counts to the end. */
    return stat("/proc/self/task", &status) == 0 && status.st_nlink == 2 + 2;
}

enum { STOPPED, LAST_THREAD };

/* Returns STOPPED, LAST_THREAD, or -errno. With `failed` it only waits for one of the first two. */
static int write_until_stopped(struct writer *writer, bool failed)
{
    struct vt_session *session = writer->session;
    uint32_t definitions_seen = 0;
    for (unsigned polls = 0;; polls++) {
        uint32_t wake = atomic_load(&session->ring.wake);
        if (!failed) {
            do_round(writer);
            abandon_if_stuck(writer);
        }
        if (atomic_load(&session->stopping))
            return STOPPED;
        if (is_last_thread(session))
            return LAST_THREAD;
        if (!failed && is_due(writer, polls, &definitions_seen)) {
            int result = drain(writer);
            if (result)
                return result;
            polls = 0;
        }
        vt_ring_wait(&session->ring, wake, POLL_MS);
    }
}

static void close_file(struct vt_session *session)
{
    struct vt_file_header *header = session->ring.header;
    header->end_monotonic_ns = vt_clock_ns(CLOCK_MONOTONIC);
    header->python_unsupported_minor = (uint64_t)vt_python_unsupported_minor();
    header->python_free_threaded = vt_python_is_free_threaded();
    if (vt_ring_pending(&session->ring) == 0) {
        __atomic_store_n(&header->state, VT_STATE_COMPLETE, __ATOMIC_RELEASE);
        vt_session_release_ring_space(session);
    }
}

/* What can wait must not hold up a host that computes in real time. */
static void be_ordinary(void)
{
    if (sched_getscheduler(0) != SCHED_OTHER)
        sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
}

/* The kernel maps each page of the file at its first store: here, not in the host's threads. */
static void touch_ring(const struct vt_session *session)
{
    enum { POPULATE_WRITE = 23, MAXIMUM_BYTES = 16 << 20 }; /* MADV_POPULATE_WRITE, from Linux 5.14 on */
    size_t bytes = session->mapped_bytes < MAXIMUM_BYTES ? session->mapped_bytes : MAXIMUM_BYTES;
    madvise(session->ring.header, bytes, POPULATE_WRITE);
}

static struct writer *make_writer(struct vt_session *session)
{
    struct writer *writer = vt_memory_grow(NULL, 0, sizeof *writer);
    if (!writer)
        return NULL;
    writer->session = session;
    writer->seen = vt_seen_make();
    return writer->seen && vt_chunk_start(&writer->chunk) ? writer : NULL;
}

static void fail(struct vt_session *session, int result)
{
    vt_session_fail(session,
                    result == -ENOSPC || result == -EDQUOT ? VT_STOP_DISK_FULL
                    : result == -ENOMEM                    ? VT_STOP_NO_MEMORY
                                                           : VT_STOP_WRITE_ERROR,
                    -result);
}

/* Writes what is left. In the writer thread, or in another one after it has left. */
static void finish(struct vt_session *session)
{
    if (session->ring.header->state == VT_STATE_RECORDING) {
        int result = drain_to_the_end(session->writer);
        if (result == 0)
            close_file(session);
        else
            fail(session, result);
    }
    vt_session_say_goodbye(session);
}

static void *writer_main(void *context)
{
    struct vt_session *session = context;
    vt_guard.frame = VT_GUARD_OWN_THREAD;
    prctl(PR_GET_NAME, session->maker_name); /* a thread starts with the name of its maker */
    prctl(PR_SET_NAME, "vramtrace");
    vt_options_complain();
    be_ordinary();
    atomic_store(&session->writer_thread_id, (int)syscall(SYS_gettid));
    session->first_thread_id = vt_session_first_thread_id();
    struct writer *writer = session->writer = make_writer(session);
    if (!writer)
        vt_log("nothing is recorded: %s", strerror(ENOMEM));
    if (!writer || vt_session_open(session)) {
        vt_session_discard(session);
        return NULL;
    }
    vt_native_start(session->options.native);
    do_round(writer);
    vt_define_process(writer->seen, &writer->chunk.definitions);
    vt_session_publish(session);
    touch_ring(session);
    int result = write_until_stopped(writer, false);
    if (result < 0) {
        fail(session, result);
        result = write_until_stopped(writer, true);
    }
    if (result ==
        LAST_THREAD) { /* the C library calls exit() next, in this thread: the host's handlers run here */
        atomic_store(&session->writer_left, 1);
        vt_guard.frame = 0;
        pthread_sigmask(SIG_SETMASK, &session->host_signals, NULL);
        return NULL;
    }
    finish(session);
    atomic_store(&session->writer_done, 1);
    syscall(SYS_futex, &session->writer_done, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return NULL;
}

int vt_writer_start(struct vt_session *session)
{
    sigset_t ours;
    pthread_t thread;
    pthread_attr_t attributes;
    enum { STACK_BYTES = 512 << 10, STACK_MAXIMUM_BYTES = 8 << 20 };
    int error = EINVAL;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&ours);
    sigdelset(&ours, SIGSYS); /* a sandbox of the host may answer our calls by it; blocked, it kills */
    pthread_sigmask(SIG_SETMASK, &ours, &session->host_signals);
    /* glibc puts the host's thread-local variables on the stack: with many of them it refuses a small one. */
    for (size_t bytes = STACK_BYTES; error == EINVAL && bytes <= STACK_MAXIMUM_BYTES; bytes *= 4) {
        pthread_attr_setstacksize(&attributes, bytes);
        error = pthread_create(&thread, &attributes, writer_main, session);
    }
    pthread_sigmask(SIG_SETMASK, &session->host_signals, NULL);
    pthread_attr_destroy(&attributes);
    return -error;
}

/* A sandbox of the host may have ended it. Not asked at once, since some sandboxes end a thread that asks. */
static bool is_gone(const struct vt_session *session, int turn)
{
    int thread_id = atomic_load(&session->writer_thread_id);
    return turn >= ASK_AFTER_TURNS && syscall(SYS_tgkill, getpid(), thread_id, 0) && errno == ESRCH;
}

void vt_writer_finish(struct vt_session *session)
{
    uint64_t consumed = vt_ring_consumed(&session->ring);
    if (atomic_load(&session->writer_left)) {
        finish(session);
        return;
    }
    atomic_store(&session->stopping, 1);
    vt_ring_wake(&session->ring);
    for (int turn = 0; turn < FINISH_TURNS && !atomic_load(&session->writer_done) && !is_gone(session, turn);
         turn++) {
        syscall(SYS_futex, &session->writer_done, FUTEX_WAIT_PRIVATE, 0,
                &(struct timespec){.tv_nsec = FINISH_TURN_MS * 1000000L}, NULL, 0);
        if (vt_ring_consumed(&session->ring) != consumed) {
            consumed = vt_ring_consumed(&session->ring);
            turn = 0;
        }
    }
}
