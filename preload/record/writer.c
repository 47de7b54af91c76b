#include "record/writer.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "futex.h"
#include "guard.h"
#include "loader/elf_walk.h"
#include "loader/fork_gate.h"
#include "loader/lookup.h"
#include "log.h"
#include "memory.h"
#include "options.h"
#include "record/control.h"
#include "record/definitions.h"
#include "record/drain.h"
#include "record/flight.h"
#include "record/libraries.h"
#include "record/nvml.h"
#include "record/orphan_rings.h"
#include "record/record.h"
#include "record/ring_memory.h"
#include "stacks/native.h"
#include "stacks/python_layout.h"
#include "stacks/unwind_tables.h"
#include "thread.h"

enum {
    POLL_MS = 100, /* no event stays in the ring longer; new addresses get their names within this time, while
                      their code is still loaded */
    FINISH_TURN_NS = 50000000,
    ASK_AFTER_TURNS = 4,
    STUCK_POLLS = 10,
    LAST_TURN_NS = 1000000,
};
#define STUCK_NS UINT64_C(1000000000)
/* Only after a second, so that short-lived processes do not do it. */
#define FIRST_ADOPTION_NS UINT64_C(1000000000)
#define ADOPTION_NS UINT64_C(5000000000)
#define LAST_ADOPTION_NS UINT64_C(20000000) /* the process's exit waits for it */

struct writer {
    struct vt_session *session;
    struct vt_drain drain;
    struct vt_digest_levels digests;
    struct vt_top_ranges ranges;
    struct vt_nvml *nvml;            /* NULL: NVML is not queried */
    uint64_t adoption_ns;            /* when to look next for rings of dead processes */
    struct vt_elf_changes libraries; /* in the last round */
    bool has_interpreter;
    struct {
        uint64_t position, reserved, since_ns;
        unsigned polls;
    } stuck; /* how long the drain has waited at a record that is not committed */
};

/* A thread that died or was stopped in the middle of a record must not hold up all others. */
static void abandon_if_stuck(struct writer *writer)
{
    struct vt_drain *drain = &writer->drain;
    uint64_t now = vt_clock_ns(CLOCK_MONOTONIC),
             reserved = __atomic_load_n(&drain->ring->header->ring_reserved, __ATOMIC_RELAXED);
    if (vt_ring_at(drain->ring, &drain->position) || drain->position == reserved ||
        drain->position != writer->stuck.position || !writer->stuck.since_ns) {
        writer->stuck.position = drain->position;
        writer->stuck.reserved = reserved;
        writer->stuck.since_ns = now;
        writer->stuck.polls = 0;
    } else if (++writer->stuck.polls >= STUCK_POLLS && now - writer->stuck.since_ns >= STUCK_NS) {
        vt_drain_abandon(drain, writer->stuck.reserved);
        writer->stuck.since_ns = 0;
    }
}

static bool defines_interpreter(const struct vt_elf *object, void *unused)
{
    (void)unused;
    return vt_elf_symbol(object, "PyGILState_GetThisThreadState", NULL) != NULL;
}

/* Everything that takes the loader's lock happens here, in the writer thread: the host's threads may hold
 * that lock while they wait for each other. */
static void do_round(struct writer *writer)
{
    const struct vt_elf_changes changes = vt_elf_changes();
    vt_lookup_pin();
    vt_session_free_recent(writer->session);
    vt_libraries_note();
    vt_unwind_answer();
    /* A failed lookup makes the loader allocate an error message, so it is asked only if there is something
     * to find. */
    if (changes.loads != writer->libraries.loads)
        writer->has_interpreter = vt_elf_find(defines_interpreter, NULL);
    writer->libraries = changes;
    if (!writer->has_interpreter)
        return;
    /* Every round, since failed pins are tried again; cheap once done. */
    struct vt_gate gate;
    vt_gate_enter(&gate);
    if (writer->session->options.python)
        vt_python_look_up();
    if (writer->session->options.python && writer->session->options.inspect)
        writer->session->helpers->inspector->look_up();
    if (writer->session->options.python)
        writer->session->helpers->inspector->tend(writer->session);
    vt_native_find_interpreter();
    vt_gate_leave(&gate);
}

/* The kernel knows no program of a thread that has ended. */
static bool has_first_thread_ended(void)
{
    char path[48], program[8];
    snprintf(path, sizeof path, "/proc/self/task/%d/exe", getpid());
    return vt_sandbox_is_the_first() && readlink(path, program, sizeof program) < 0 && errno == ENOENT &&
           readlink("/proc/thread-self/exe", program, sizeof program) > 0;
}

/* The process ends with its last thread, and the writer must not keep it alive: main may have ended with
 * pthread_exit. The kernel clears the id of a thread that ended; as long as the first thread's id is there,
 * /proc is not read. If the id's place was not found, the first thread may have ended before the first
 * event. */
static bool is_last_thread(const struct writer *writer)
{
    const struct vt_session *session = writer->session;
    const struct vt_flight *flight = writer->drain.flight;
    struct stat status;
    if (session->first_thread_id && __atomic_load_n(session->first_thread_id, __ATOMIC_RELAXED) != 0)
        return false;
    /* Links: the folder itself, its parent, and one for each thread. The first thread counts even after it
     * has ended. */
    return stat("/proc/self/task", &status) == 0 &&
           status.st_nlink == 2 + 2 + (flight ? vt_flight_threads(flight) : 0) +
                                  (writer->nvml ? vt_nvml_threads(writer->nvml) : 0) &&
           (session->first_thread_id || has_first_thread_ended());
}

/* Otherwise another of our threads would be the last one. The host's exit handlers would run in it, and
 * their output would be lost, since its descriptors are not the host's. This may wait for NVML for long: the
 * process lives as long as that thread in any case. */
static void end_other_threads(struct writer *writer)
{
    struct stat status;
    if (writer->drain.flight)
        vt_flight_stop(writer->drain.flight);
    if (writer->nvml)
        vt_nvml_stop(writer->nvml, &writer->drain.chunk.definitions);
    while (!stat("/proc/self/task", &status) && status.st_nlink > 2 + 2)
        vt_nap(LAST_TURN_NS);
}

enum { STOPPED, LAST_THREAD };

static void close_file(struct vt_session *session)
{
    struct vt_file_header *header = &session->file.header;
    header->end_monotonic_ns = vt_clock_ns(CLOCK_MONOTONIC);
    header->counters = vt_counters_now(&session->ring);
    const bool whole = vt_ring_pending(&session->ring) == 0;
    if (session->writer->drain.flight)
        vt_trace_file_trim(&session->file);
    if (whole)
        header->state = VT_STATE_COMPLETE;
    if (!vt_trace_file_write_header(&session->file) && whole)
        vt_ring_release(&session->ring, header->ring_path);
}

/* After recording has failed: a killed process then leaves no ring that has the count. */
static void count_what_comes_after(struct vt_session *session)
{
    struct vt_counters *written = &session->file.header.counters;
    const struct vt_counters *counters = &session->ring.header->counters;
    if (__atomic_load_n(&counters->after_end, __ATOMIC_RELAXED) == written->after_end)
        return;
    *written = vt_counters_now(&session->ring);
    vt_trace_file_write_header(&session->file);
}

/* Returns STOPPED, LAST_THREAD, or -errno. With `failed` it only waits for one of the first two. */
static int write_until_stopped(struct writer *writer, bool failed)
{
    struct vt_session *session = writer->session;
    for (;;) {
        uint32_t wake = atomic_load(&session->ring.wake);
        if (!failed) {
            do_round(writer);
            vt_control_obey(session);
            abandon_if_stuck(writer);
        }
        if (atomic_load(&session->stopping))
            return STOPPED;
        if (is_last_thread(writer))
            return LAST_THREAD;
        if (failed)
            count_what_comes_after(session);
        if (!failed && writer->nvml)
            vt_nvml_tend(writer->nvml, writer->drain.failed_requests, &writer->drain.chunk.definitions);
        /* The first chunk is written at once, since it says whose trace this is. */
        if (!failed && (vt_ring_pending(&session->ring) || writer->drain.chunk.definitions.bytes)) {
            int error = vt_drain(&writer->drain);
            if (error)
                return error;
        }
        if (!failed && writer->drain.flight && vt_flight_is_due(writer->drain.flight)) {
            int error = vt_drain_end_chain(&writer->drain);
            if (error)
                return error;
            vt_flight_tend(writer->drain.flight);
        }
        const uint64_t now = vt_clock_ns(CLOCK_MONOTONIC);
        if (now >= writer->adoption_ns) {
            writer->adoption_ns = now + ADOPTION_NS;
            vt_adopt_rings_beside(session);
        }
        vt_ring_wait(&session->ring, wake, POLL_MS);
    }
}

/* Our work can wait; it must not hold up a host with real-time threads. */
static void be_ordinary(void)
{
    if (sched_getscheduler(0) != SCHED_OTHER)
        sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
}

/* The kernel maps each page at the first store to it: better here than in the host's threads. */
static void touch_ring(const struct vt_ring *ring)
{
    enum { POPULATE_WRITE = 23, MAXIMUM_BYTES = 16 << 20 }; /* MADV_POPULATE_WRITE, from Linux 5.14 on */
    size_t bytes = vt_ring_mapped_bytes(ring);
    madvise(ring->header, bytes < MAXIMUM_BYTES ? bytes : MAXIMUM_BYTES, POPULATE_WRITE);
}

static struct writer *make_writer(struct vt_session *session)
{
    struct writer *writer = vt_memory_grow(NULL, 0, sizeof *writer);
    if (!writer)
        return NULL;
    writer->session = session;
    writer->drain = (struct vt_drain){.ring = &session->ring,
                                      .file = &session->file,
                                      .session = session,
                                      .seen = vt_defined_make(),
                                      .ranges = &writer->ranges};
    return writer->drain.seen && vt_chunk_start(&writer->drain.chunk) ? writer : NULL;
}

/* Recording has failed: what is still in the ring is counted, not written. */
static void stop_recording(struct writer *writer, int error)
{
    struct vt_session *session = writer->session;
    struct vt_file_header *header = &session->file.header;
    if (writer->drain.flight)
        vt_flight_stop(writer->drain.flight);
    vt_session_fail(session,
                    error == -ENOSPC || error == -EDQUOT ? VT_STOP_DISK_FULL
                    : error == -ENOMEM                   ? VT_STOP_NO_MEMORY
                    : error == -EOVERFLOW                ? VT_STOP_LIMIT
                                                         : VT_STOP_WRITE_ERROR,
                    -error);
    __atomic_fetch_add(&session->ring.header->counters.after_end, vt_drain_count_events(&writer->drain),
                       __ATOMIC_RELAXED);
    header->counters = vt_counters_now(&session->ring);
    /* If the header cannot be written, the trace looks like a killed process's, and the ring has the rest. */
    if (!vt_trace_file_write_header(&session->file))
        vt_ring_release(&session->ring, header->ring_path);
}

/* Writes what is left. Runs in the writer thread, or in another thread after the writer has left. */
static void write_rest(struct vt_session *session)
{
    struct vt_file_header *header = &session->file.header;
    if (session->writer->nvml)
        vt_nvml_stop(session->writer->nvml, &session->writer->drain.chunk.definitions);
    if (header->state == VT_STATE_RECORDING) {
        if (session->writer->drain.flight)
            vt_flight_stop(session->writer->drain.flight);
        vt_define_title(session->writer->drain.seen, &session->writer->drain.chunk.definitions);
        int error = vt_drain_to_the_end(&session->writer->drain);
        if (error)
            stop_recording(session->writer, error);
        else
            close_file(session);
    } else {
        header->counters = vt_counters_now(&session->ring); /* they may have grown since */
        if (!vt_trace_file_write_header(&session->file))
            vt_ring_release(&session->ring, header->ring_path);
    }
    vt_session_say_goodbye(session, session->writer->drain.ran_out, session->writer->drain.driver_ran_out);
}

static void *writer_main(void *context)
{
    struct vt_session *session = context;
    prctl(PR_GET_NAME, session->maker_name); /* a new thread has the name of the thread that made it */
    vt_thread_begin();
    vt_options_complain();
    be_ordinary();
    atomic_store(&session->writer_thread_id, (int)syscall(SYS_gettid));
    session->first_thread_id = vt_session_first_thread_id();
    struct writer *writer = session->writer = make_writer(session);
    if (!writer)
        vt_log("not recording: %s", strerror(ENOMEM));
    if (!writer || vt_session_open(session)) {
        vt_session_discard(session);
        return NULL;
    }
    writer->drain.flight = vt_flight_make(session);
    writer->digests.level_count = writer->drain.flight ? 1 : VT_DIGEST_LEVELS;
    writer->drain.digests = &writer->digests;
    writer->nvml = vt_nvml_make(session);
    vt_native_start(session->options.native);
    vt_libraries_begin();
    vt_top_begin(&session->ring.header->top, session->options.rank);
    do_round(writer);
    vt_define_process(writer->drain.seen, &writer->drain.chunk.definitions);
    vt_define_launch(&session->options, &writer->drain.chunk.definitions);
    if (session->options.start_step > 1)
        vt_pause(session, true);
    writer->adoption_ns = vt_clock_ns(CLOCK_MONOTONIC) + FIRST_ADOPTION_NS;
    vt_session_publish(session);
    touch_ring(&session->ring);
    int result = write_until_stopped(writer, false);
    if (result < 0) {
        stop_recording(writer, result);
        result = write_until_stopped(writer, true);
    }
    if (result == LAST_THREAD) { /* the C library now calls exit() here, with the host's handlers */
        end_other_threads(writer);
        atomic_store(&session->writer_left, 1);
        vt_guard.frame = 0;
        pthread_sigmask(SIG_SETMASK, &session->host_signals, NULL);
        return NULL;
    }
    write_rest(session);
    /* For instance the rings of its own children, which may have died without exit handlers. */
    vt_adopt_rings(session, vt_clock_ns(CLOCK_MONOTONIC) + LAST_ADOPTION_NS);
    vt_futex_set(&session->writer_done, 1);
    return NULL;
}

int vt_writer_start(struct vt_session *session)
{
    sigset_t ours;
    sigfillset(&ours);
    sigdelset(&ours, SIGSYS); /* a host's sandbox may answer our calls with it; blocked, it kills */
    pthread_sigmask(SIG_SETMASK, &ours, &session->host_signals);
    const int error = vt_thread_start(writer_main, session);
    pthread_sigmask(SIG_SETMASK, &session->host_signals, NULL);
    return -error;
}

/* Whether a sandbox of the host has killed the writer. Not asked at once, since some sandboxes kill a thread
 * that asks. */
static bool is_gone(const struct vt_session *session, int turn)
{
    int thread_id = atomic_load(&session->writer_thread_id);
    return turn >= ASK_AFTER_TURNS && syscall(SYS_tgkill, getpid(), thread_id, 0) && errno == ESRCH;
}

void vt_writer_finish(struct vt_session *session, int turns)
{
    uint64_t consumed = vt_ring_consumed(&session->ring);
    if (atomic_load(&session->writer_left)) {
        write_rest(session);
        return;
    }
    atomic_store(&session->stopping, 1);
    vt_ring_wake(&session->ring);
    for (int turn = 0; turn < turns && !atomic_load(&session->writer_done) && !is_gone(session, turn);
         turn++) {
        vt_futex_wait(&session->writer_done, 0, FINISH_TURN_NS);
        if (vt_ring_consumed(&session->ring) != consumed) {
            consumed = vt_ring_consumed(&session->ring);
            turn = 0;
        }
    }
}
