#include "record/session.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "format/bytes_text.h"
#include "futex.h"
#include "loader/fork_gate.h"
#include "guard.h"
#include "log.h"
#include "memory.h"
#include "record/run_list.h"
#include "record/ring_memory.h"
#include "record/process_identity.h"

/* The process's state. OPENED: the file exists, and the writer now does the lookups that take the loader's
 * lock. */
enum { STATE_NONE = 0, STATE_STARTING, STATE_OPENED, STATE_PUBLISHING, STATE_RUNNING, STATE_ENDED };
enum { WAIT_TURN_NS = 100 * 1000 * 1000 };
/* The first wait is for the file, which may be on a slow disk; the second for everything else. */
#define OPEN_WAIT_NS UINT64_C(5000000000)
#define READY_WAIT_NS UINT64_C(1000000000)
enum { TURNS_AT_EXIT = 200, TURNS_AT_ONCE = 4 }; /* of vt_writer_finish */

/* In its own page, which fork wipes to zero: STATE_NONE. */
struct process_state {
    _Atomic int state; /* futex */
    _Atomic(struct vt_session *) session;
    _Atomic uint64_t missed;           /* events before there was a session */
    _Atomic int waited;                /* a thread waited for the session in vain: no thread waits again */
    _Atomic(struct vt_session *) over; /* the session after it ended, or stopped because of an error */
};

static _Atomic(struct process_state *) process_state;
_Atomic(struct vt_session *) *_Atomic vt_session_place; /* in process_state */
static uint32_t generations;                            /* under STATE_STARTING */
static struct vt_session *latest; /* the last one published; a forked child sees its parent's */

/* Noted when the library is loaded; in a forked child at its first CUDA event. `main_thread`: the thread
 * that runs main, whose descriptor is never freed; 0 if that is not the process's first thread (another
 * thread forked). */
static struct {
    int pid;
    uint64_t boottime_ns;
    pthread_t main_thread;
} at_load;

static void note_process(void)
{
    at_load.pid = getpid();
    at_load.boottime_ns = vt_clock_ns(CLOCK_BOOTTIME);
}

__attribute__((constructor)) static void note_load(void)
{
    note_process();
    at_load.main_thread = syscall(SYS_gettid) == getpid() ? pthread_self() : 0;
}

static struct process_state *publish_page(struct process_state *page)
{
    atomic_store_explicit(&vt_session_place, &page->session, memory_order_release);
    return page;
}

static struct process_state *state_page(void)
{
    struct process_state *page = atomic_load_explicit(&process_state, memory_order_acquire);
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (page)
        return publish_page(page);              /* its maker may have been stopped before that */
    void *memory = vt_memory_make_wiped(bytes); /* else a forked child would write to its parent's ring */
    if (!memory)
        return NULL;
    if (atomic_compare_exchange_strong(&process_state, &page, memory))
        return publish_page(memory);
    vt_memory_free(memory, bytes); /* another thread was first */
    return publish_page(page);
}

/* Up to about 2 million stacks, half a million code objects, 100,000 texts. */
static int make_tables(struct vt_session *session)
{
    int error = vt_intern_make(&session->stacks, 12);
    if (!error)
        error = vt_intern_make(&session->codes, 10);
    if (!error)
        error = vt_intern_make(&session->strings, 8);
    if (!error)
        error = vt_intern_make(&session->places, 6);
    atomic_init(&session->free_deep, UINT32_MAX);
    return error;
}

struct vt_recent *vt_session_recent(struct vt_session *session, uint32_t thread_id)
{
    for (size_t i = 0; i < VT_RECENT_THREADS; i++) {
        uint32_t none = 0;
        if (atomic_load_explicit(&session->recent_owners[i], memory_order_relaxed) != 0 ||
            !atomic_compare_exchange_strong(&session->recent_owners[i], &none, thread_id))
            continue;
        if (!session->recent[i])
            session->recent[i] = vt_memory_make(sizeof **session->recent);
        return session->recent[i];
    }
    atomic_store_explicit(&session->recent_wanted, true, memory_order_relaxed);
    return NULL;
}

static bool is_thread(uint32_t thread_id)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/self/task/%" PRIu32, thread_id);
    return access(path, F_OK) == 0;
}

void vt_session_free_recent(struct vt_session *session)
{
    /* The writer is certainly running: if /proc does not show it, /proc shows nothing. */
    if (!atomic_exchange(&session->recent_wanted, false) ||
        !is_thread((uint32_t)atomic_load(&session->writer_thread_id)))
        return;
    for (size_t i = 0; i < VT_RECENT_THREADS; i++) {
        uint32_t owner = atomic_load(&session->recent_owners[i]);
        if (owner && !is_thread(owner))
            atomic_store(&session->recent_owners[i], 0);
    }
}

/* Undoes a failed start, and removes the file, which holds nothing yet. The session struct stays: the thread
 * that made it may be reading it. */
static void discard_files(struct vt_session *session)
{
    vt_intern_free(&session->stacks);
    vt_intern_free(&session->codes);
    vt_intern_free(&session->strings);
    vt_intern_free(&session->places);
    vt_ring_discard(&session->ring, session->file.header.ring_path);
    if (session->file.descriptor >= 0) {
        vt_trace_file_close(&session->file);
        unlink(session->file.path);
    }
}

/* glibc's struct pthread is private, so the offset of the thread id is searched for: it is where both
 * threads' ids are found. */
const int *vt_session_first_thread_id(void)
{
    enum { SEARCHED_BYTES = 1024 };
    const int own_id = (int)syscall(SYS_gettid);
    if (at_load.pid != getpid() || !at_load.main_thread || at_load.main_thread == pthread_self())
        return NULL;
    for (size_t offset = 0; offset < SEARCHED_BYTES; offset += sizeof(int)) {
        const int *own = (const int *)(uintptr_t)(pthread_self() + offset);
        const int *first = (const int *)(uintptr_t)(at_load.main_thread + offset);
        if (*own == own_id && *first == at_load.pid)
            return first;
    }
    return NULL;
}

/* For a signal handler that interrupted a hook and forked. In the child it may return into that hook, which
 * goes on with the parent's session. None of that memory is mapped in the child, so empty memory is mapped
 * at the same addresses. */
static void go_on_in_child(void)
{
    struct vt_session *session = latest;
    if (!vt_guard.frame || !session)
        return;
    vt_guard.frame = 0; /* from here on the handler's events are recorded by the child */
    vt_replace_memory(session->ring.header, vt_ring_mapped_bytes(&session->ring));
    vt_intern_replace_memory(&session->stacks);
    vt_intern_replace_memory(&session->codes);
    vt_intern_replace_memory(&session->strings);
    vt_intern_replace_memory(&session->places);
    vt_table_replace_memory(&session->live);
    vt_table_replace_memory(&session->contexts);
    vt_table_replace_memory(&session->blocks);
    vt_table_replace_memory(&session->handles);
    vt_table_replace_memory(&session->holders);
    vt_table_replace_memory(&session->parts);
    if (session->deep_buffers)
        vt_replace_memory(session->deep_buffers, VT_DEEP_BYTES);
    for (size_t i = 0; i < VT_RECENT_THREADS; i++)
        vt_replace_memory(session->recent[i], sizeof **session->recent);
}

/* The header is written last: only then is the file a trace. */
static int open_files(struct vt_session *session)
{
    struct vt_trace_file *file = &session->file;
    struct vt_file_header *header = &file->header;
    int error = vt_trace_file_create(file, &session->options);
    if (error)
        return error;
    vt_make_identity(header->identity);
    vt_identify_process(&header->process);
    error = vt_ring_make(&session->ring, &session->options, &header->process, header->identity,
                         header->ring_path);
    if (error)
        return error;
    header->ring_slots = session->ring.slot_count;
    vt_trace_file_real_path(file, session->ring.header->trace_path, sizeof session->ring.header->trace_path);
    return vt_trace_file_write_header(file);
}

/* Length of the folder in the trace's name, slash included; 0 = none. */
static int folder_bytes(const struct vt_session *session)
{
    const char *slash = strrchr(session->file.name, '/');
    return slash ? (int)(slash + 1 - session->file.name) : 0;
}

/* Whether the last line should name the folder: this process is one rank of a job whose traces all go there.
 */
static bool names_folder(const struct vt_session *session)
{
    const char *out = session->options.out;
    const int bytes = folder_bytes(session) - 1;
    return session->options.rank[0] && bytes > 0 && !strncmp(out, session->file.name, (size_t)bytes) &&
           (!out[bytes] || !strcmp(out + bytes, "/"));
}

int vt_session_open(struct vt_session *session)
{
    int error = open_files(session);
    if (!error)
        error = make_tables(session);
    if (error)
        vt_log("not recording: cannot write %s: %s",
               session->file.name[0] ? session->file.name : session->options.out,
               error == -EINVAL ? "neither a folder nor a regular file" : strerror(-error));
    session->handed_over =
        vt_run_list_add(session->options.run_list, error ? "" : session->file.path, names_folder(session));
    if (!error)
        vt_futex_set(&atomic_load(&process_state)->state, STATE_OPENED);
    return error;
}

static void count_missed(struct process_state *process, struct vt_session *session)
{
    uint64_t missed = session ? atomic_exchange(&process->missed, 0) : 0;
    if (missed)
        __atomic_fetch_add(&session->ring.header->counters.dropped, missed, __ATOMIC_RELAXED);
}

void vt_session_publish(struct vt_session *session)
{
    struct process_state *process = atomic_load(&process_state);
    int opened = STATE_OPENED;
    if (!atomic_compare_exchange_strong(&process->state, &opened, STATE_PUBLISHING))
        return; /* not opened yet, already published, or the process is ending */
    latest = session;
    atomic_store(&process->session, session);
    vt_futex_set(&process->state, STATE_RUNNING);
    count_missed(process, session);
}

void vt_session_discard(struct vt_session *session)
{
    discard_files(session); /* before the host goes on, since it may be about to exit */
    vt_futex_set(&atomic_load(&process_state)->state, STATE_ENDED);
}

/* Makes the session and its writer thread. The writer makes file, ring and tables. */
static int start_session(const struct vt_session_helpers *helpers, struct vt_session **made)
{
    struct vt_session *session =
        mmap(NULL, sizeof *session, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *made = NULL;
    if (session == MAP_FAILED)
        return -ENOMEM;
    session->helpers = helpers;
    session->file.descriptor = -1;
    session->options = *vt_options();
    if (at_load.pid != getpid()) { /* a forked child, whose first thread is the one that forked */
        note_process();
        if (syscall(SYS_gettid) != at_load.pid || pthread_self() != at_load.main_thread)
            at_load.main_thread = 0;
    }
    session->process_start_ns = at_load.boottime_ns;
    session->maker_thread_id = (int)syscall(SYS_gettid);
    session->generation = ++generations;
    int error = -ECANCELED; /* switched off */
    if (session->options.enable) {
        vt_gate_start(go_on_in_child);
        *made = session;
        error = helpers->start_writer(session);
        if (error) {
            vt_log("not recording: cannot start a thread: %s", strerror(-error));
            vt_run_list_add(session->options.run_list, "", false);
        }
    }
    if (error)
        munmap(session, sizeof *session);
    return error;
}

/* Called by every thread that has an event while the session is being made. Once a wait has failed, no
 * thread waits again. */
static void wait_for_session(struct process_state *process)
{
    uint64_t since = vt_clock_ns(CLOCK_MONOTONIC);
    bool opened = false;
    for (int state;
         !atomic_load(&process->waited) && (state = atomic_load(&process->state)) < STATE_RUNNING;) {
        uint64_t now = vt_clock_ns(CLOCK_MONOTONIC);
        if (!opened && state >= STATE_OPENED) {
            opened = true;
            since = now;
        }
        if (now - since >= (opened ? READY_WAIT_NS : OPEN_WAIT_NS))
            atomic_store(&process->waited, 1);
        else
            vt_futex_wait(&process->state, (uint32_t)state, WAIT_TURN_NS);
    }
}

bool vt_session_too_late(void)
{
    struct process_state *process = atomic_load(&process_state);
    struct vt_session *over = process ? atomic_load(&process->over) : NULL;
    if (over)
        __atomic_fetch_add(&over->ring.header->counters.after_end, 1, __ATOMIC_RELAXED);
    return over != NULL;
}

void vt_session_missed(void)
{
    struct process_state *process = state_page();
    if (!process || vt_session_too_late() || atomic_load(&process->state) == STATE_ENDED)
        return;
    atomic_fetch_add(&process->missed, 1);
    count_missed(process, atomic_load(&process->session)); /* there may be one by now */
}

struct vt_session *vt_session_begin(const struct vt_session_helpers *helpers)
{
    struct vt_session *session;
    struct process_state *process = state_page();
    if (!process)
        return NULL;
    int state = STATE_NONE;
    if (atomic_compare_exchange_strong(&process->state, &state, STATE_STARTING)) {
        if (start_session(helpers, &session)) {
            vt_futex_set(&process->state, STATE_ENDED);
            return NULL;
        }
        wait_for_session(process);
        /* The writer may be blocked: it looks for the interpreter under the loader's lock. The lock's holder
         * may be our caller, or may be running a constructor that waits for a lock of our caller. So start
         * without the lookup instead of waiting for it. */
        vt_session_publish(session);
    } else if (state < STATE_RUNNING) {
        wait_for_session(process);
    }
    return atomic_load(&process->session);
}

void vt_session_fail(struct vt_session *session, enum vt_stop_reason reason, int error_number)
{
    struct process_state *process = atomic_load(&process_state);
    struct vt_session *expected = session;
    session->stop_error = error_number;
    atomic_store(&process->over, session);
    if (atomic_compare_exchange_strong(&process->session, &expected, NULL)) /* else it is ending */
        atomic_store(&process->state, STATE_ENDED);
    struct vt_file_header *header = &session->file.header;
    header->stop_reason = reason;
    header->end_monotonic_ns = vt_clock_ns(CLOCK_MONOTONIC);
    header->state = VT_STATE_STOPPED;
}

void vt_session_say_goodbye(const struct vt_session *session, bool ran_out, bool driver_ran_out)
{
    const char *name = session->file.name;
    if (session->handed_over || session->ends_quietly)
        return;
    if (session->file.header.stop_reason == VT_STOP_LIMIT) {
        vt_log("recording stopped: %s reached its size limit (VRAMTRACE_LIMIT). Events up to here are kept. "
               "VRAMTRACE_MODE=flight keeps recording.",
               name);
        return;
    }
    if (session->file.header.state == VT_STATE_STOPPED) {
        vt_log("recording stopped: cannot write %s: %s. Events up to here are kept.", name,
               strerror(atomic_load(&session->stop_error)));
        return;
    }
    char peaks[1024] = "", bytes[32];
    size_t used = 0;
    bool has_blocks = false;
    for (unsigned i = 0; i < VT_MAX_DEVICES && used < sizeof peaks - 64; i++) {
        const struct vt_live_device *live = &session->ring.header->counters.live[i];
        uint64_t peak = live->block_peak_bytes ? live->block_peak_bytes : live->driver_peak_bytes;
        has_blocks |= live->block_peak_bytes > 0;
        if (!peak)
            continue;
        vt_format_bytes(peak, bytes);
        used +=
            (size_t)snprintf(peaks + used, sizeof peaks - used, "%s%s on GPU %u", used ? ", " : "", bytes, i);
    }
    ran_out |= driver_ran_out && !has_blocks; /* a framework frees its cache and tries again */
    vt_log("peak %s%s · vramtrace %s %.*s", used ? peaks : "0 B", ran_out ? " · out of memory seen" : "",
           ran_out ? "oom" : "report", names_folder(session) ? folder_bytes(session) : (int)strlen(name),
           name);
}

/* The mappings stay, since other threads may still be inside a record. */
static void end_process(struct process_state *process, int turns)
{
    int saved_errno = errno;
    /* Fails to enter if a signal handler that interrupted a hook calls exit. That hook's record is lost. */
    const bool entered = vt_enter(&saved_errno);
    struct vt_session *session = atomic_load(&process->session);
    if (session) {
        atomic_store(&process->over, session);
        atomic_store(&process->session, NULL);
    }
    atomic_store(&process->state, STATE_ENDED);
    session = atomic_load(&process->over);
    if (session)
        session->helpers->finish_writer(session, turns);
    if (entered)
        vt_leave(saved_errno);
}

/* Runs at exit, after main's atexit handlers. */
__attribute__((destructor)) static void end_at_exit(void)
{
    struct process_state *process = atomic_load(&process_state);
    if (process && vt_guard.frame != VT_GUARD_OWN_THREAD)
        end_process(process, TURNS_AT_EXIT);
}

void vt_session_end_quickly(void)
{
    struct process_state *process = atomic_load(&process_state);
    struct vt_session *session = process ? atomic_load(&process->session) : NULL;
    /* A child of vfork has its parent's memory. */
    if (!session || at_load.pid != getpid() || vt_guard.frame == VT_GUARD_OWN_THREAD)
        return;
    session->ends_quietly = true;
    end_process(process, TURNS_AT_ONCE);
}
