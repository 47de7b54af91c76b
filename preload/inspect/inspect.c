/* Inspections: at a safe point of the host, inspect.py reads the live Python objects that hold tensors.
 *
 * Any thread may request one, in an event: a few atomic words and, if one is due, one Py_AddPendingCall. It
 * runs while the interpreter's main thread waits between two bytecodes, outside of any lock. Its cost is
 * bounded and recorded. Nothing in it can hurt the host: an exception is cleared, and recorded in the trace.
 */
#include "inspect/inspect.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "hash.h"
#include "inspect/budget.h"
#include "inspect/gc_lists.h"
#include "inspect/inspection_thread.h"
#include "inspect/python_api.h"
#include "signals.h"
#include "stacks/python.h"
#include "stacks/python_layout.h"
#include "memory.h"
#include "record/record.h"
#include "record/session.h"

enum { FIRST_INSPECTION_NS = 5 * 1000 * 1000 };    /* assumed cost of the first one */
enum { ASKED_INSPECTION_NS = 2000 * 1000 * 1000 }; /* for the census of a requested inspection */
enum { PEAK_GROWTH = 20, CENSUS_SHARE = 4 };       /* a peak is new if it is higher by 1/PEAK_GROWTH */
enum { FIRST_IN_TIME_NS = 500 * 1000 * 1000 }; /* from the first event; then whenever the time has doubled */
enum { WAITS_NS = 100 * 1000 * 1000 };         /* a main thread that has not run it by then waits in C */
enum { FAILURES_MAXIMUM = 3, SEEN_SELVES = 1024, PEAK_STACKS = 256 };
/* What a step keeps shows some steps later: an inspection before that leaves time for EARLY_ROUNDS in all. */
enum { EARLY_ROUNDS = 4 };
/* Made in any life, since without them nothing has a name: when passes 2, 4, 8, 16 and 32 begin, or one after
 * something was new; without passes the first timed one; and when memory first ran out. */
enum { PROMISED = 5 };

/* What inspect.py returns if its budget runs out: this, and an estimate in nanoseconds. */
static const char expensive[] = "expensive ";

/* Modules that must be imported already, since our import would be noticed. One of the libraries whose
 * tensors and arrays are searched for (inspect.py, arrays.py). */
static const char *const libraries[] = {"torch.nn.modules.module", "jax._src.array", "cupy._core.core",
                                        "paddle.base.framework"};

typedef void object; /* PyObject */
static const struct vt_python_api *const python = &vt_python_api;

enum pending { IDLE, ASKED_FOR, RUNS };

/* In pages that the kernel wipes in a forked child, which so starts afresh (like the session's). */
struct process {
    _Atomic unsigned wanted;   /* enum vt_inspection_reason, bits */
    _Atomic int pending;       /* enum pending */
    _Atomic int queued;        /* our call is in the interpreter's queue */
    _Atomic int beside;        /* a thread of ours waits for the GIL, or is inspecting */
    _Atomic uint64_t asked_ns; /* when the pending one was requested, CLOCK_MONOTONIC */
    _Atomic int failures;
    _Atomic int next_graph_task, passes; /* next_graph_task: higher than any seen */
    _Atomic uint64_t spent_ns, last_ns;  /* vt_budget_cost of all inspections; CPU time of the last one */
    _Atomic uint64_t seen_peak_bytes;
    _Atomic uint64_t census_bytes; /* alive at the last complete census; 0 = there was none */
    _Atomic bool census_unfinished;
    _Atomic uint32_t censuses;
    _Atomic bool has_new;      /* a module or an optimizer since the last pass began */
    _Atomic bool is_promised;  /* the next one */
    _Atomic unsigned promised; /* how many were made */
    _Atomic bool ran_out;      /* of memory, before */
    _Atomic bool works;      /* the program has called a module, or has arrays of a library without modules */
    _Atomic unsigned rounds; /* how often something was repeated: passes, or a peak of the same code */
    _Atomic uint64_t peaks[PEAK_STACKS]; /* by stack: its id, and how often it made a new peak */
    /* Writer thread. */
    uint64_t first_ns, next_ns; /* when it began; when the next is due after that */
    uint32_t tended_censuses;
    int tended_passes;
    _Atomic uint64_t selves[SEEN_SELVES]; /* by hash; a collision costs at most one inspection */
};
static _Atomic(struct process *) process; /* NULL until there is an interpreter to inspect */

static _Atomic bool ended;      /* the interpreter is exiting */
static bool registered_at_exit; /* used under the GIL; kept in a forked child */

/* Without a GIL nothing stops the other threads while objects are read. */
static void look_up(void)
{
    if (atomic_load(&process) || !vt_python_loaded() || vt_python_unsupported_minor() ||
        vt_python_is_free_threaded() || !vt_python_api_find(vt_python_scope()))
        return;
    void *memory = vt_memory_make_wiped(sizeof(struct process));
    if (memory && !pthread_atfork(NULL, NULL, vt_gc_in_child))
        atomic_store(&process, memory);
    else if (memory)
        vt_memory_free(memory, sizeof(struct process));
}

/* ---- asking ---- */

/* NULL if nothing is inspected. In a pause only requested inspections are made. */
static struct process *active_state(const struct vt_session *session)
{
    struct process *state =
        session->options.inspect ? atomic_load_explicit(&process, memory_order_acquire) : NULL;
    return state && vt_is_paused(session) && !(atomic_load(&state->wanted) & VT_INSPECTION_ASKED) ? NULL
                                                                                                  : state;
}

/* In frameworks' blocks now, or at most so far. */
static uint64_t block_bytes(const struct vt_session *session, bool peak)
{
    const struct vt_live_device *live = session->ring.header->counters.live;
    uint64_t bytes = 0;
    for (unsigned i = 0; i < VT_MAX_DEVICES; i++)
        bytes += __atomic_load_n(peak ? &live[i].block_peak_bytes : &live[i].block_bytes, __ATOMIC_RELAXED);
    return bytes;
}

/* What may be spent now. At exit a short life is lent more if more is alive than at the last complete
 * census: another one may find what holds it. */
static struct vt_budget budget_now(const struct process *state, const struct vt_session *session,
                                   unsigned reason)
{
    const uint64_t life_ns = vt_clock_ns(CLOCK_BOOTTIME) - session->process_start_ns;
    bool at_exit = reason & VT_INSPECTION_EXIT,
         has_grown = at_exit && block_bytes(session, false) > atomic_load(&state->census_bytes);
    struct vt_budget budget = vt_budget(life_ns, atomic_load(&state->spent_ns), at_exit, has_grown);
    if (atomic_load(&state->is_promised) && budget.all_ns < VT_BUDGET_LONGEST_NS)
        budget = (struct vt_budget){.all_ns = VT_BUDGET_LONGEST_NS, .census_ns = VT_BUDGET_LENT_NS};
    return budget;
}

static bool is_affordable(const struct process *state, const struct vt_session *session, unsigned reason)
{
    const unsigned later = VT_INSPECTION_EXIT | VT_INSPECTION_TIME | VT_INSPECTION_OUT_OF_MEMORY;
    uint64_t last = atomic_load(&state->last_ns), left = budget_now(state, session, reason).all_ns;
    bool early = last && !(reason & later) && atomic_load(&state->rounds) < EARLY_ROUNDS;
    return (last ? last : FIRST_INSPECTION_NS) * (early ? EARLY_ROUNDS : 1) <= left;
}

/* No more inspections: too many failed, or the interpreter is ending, which frees its queue of calls. */
static bool is_over(struct process *state)
{
    return atomic_load(&state->failures) >= FAILURES_MAXIMUM || atomic_load(&ended) ||
           vt_python_is_finalizing();
}

/* Nothing of an interpreter is read before its layout is proven, which any of its threads can do. */
static bool is_readable(void)
{
    const struct vt_python *interpreter;
    vt_python_current_thread(&interpreter);
    return vt_python_known() != NULL;
}

static int run_pending(void *asked_for);
static bool inspect_now(struct process *state, struct vt_session *session, bool on_own_thread);

static void request_inspection(struct process *state, struct vt_session *session, unsigned reason)
{
    int idle = IDLE;
    atomic_fetch_or(&state->wanted, reason);
    if (!is_readable() || is_over(state) ||
        !((reason & VT_INSPECTION_ASKED) || is_affordable(state, session, reason)))
        return;
    atomic_store(&state->asked_ns, vt_clock_ns(CLOCK_MONOTONIC));
    if (!atomic_compare_exchange_strong(&state->pending, &idle, ASKED_FOR) ||
        atomic_exchange(&state->queued, 1)) /* the last call is still queued */
        return;
    if (python->Py_AddPendingCall(run_pending, session)) { /* the queue is full: the next event tries again */
        atomic_store(&state->queued, 0);
        atomic_store(&state->pending, IDLE);
    }
}

/* Notes that this module or optimizer needs no inspection of its own. Whether that was noted before. */
static bool note_reported(struct process *state, uint64_t self_address)
{
    _Atomic uint64_t *seen = &state->selves[vt_hash(self_address) >> 32 & (SEEN_SELVES - 1)];
    return atomic_exchange_explicit(seen, self_address, memory_order_relaxed) == self_address;
}

static void note_self(struct vt_session *session, uint64_t self_address)
{
    struct process *state = active_state(session);
    if (!state || !self_address)
        return;
    atomic_store_explicit(&state->works, true, memory_order_relaxed);
    if (note_reported(state, self_address))
        return;
    atomic_store(&state->has_new, true);
    request_inspection(state, session, VT_INSPECTION_NEW_OBJECT);
}

static bool promise(struct process *state, unsigned most)
{
    bool more = atomic_load(&state->promised) < most;
    atomic_store(&state->is_promised, more);
    return more;
}

static void note_backward(struct vt_session *session, int graph_task)
{
    struct process *state = active_state(session);
    if (!state || __builtin_expect(!vt_raise_above(&state->next_graph_task, graph_task), 1))
        return;
    unsigned passes = (unsigned)atomic_fetch_add(&state->passes, 1) + 1;
    uint64_t peak = block_bytes(session, true), seen = atomic_load(&state->seen_peak_bytes);
    atomic_store(&state->rounds, passes);
    unsigned reason = (passes & (passes - 1)) == 0 ? VT_INSPECTION_BACKWARD : 0;
    bool has_new = atomic_exchange(&state->has_new, false);
    if (passes == 1)
        atomic_store(&state->promised, 0); /* one was made before anything trained */
    else if ((has_new || reason) && promise(state, PROMISED))
        reason |= VT_INSPECTION_BACKWARD;
    if (peak > seen + seen / PEAK_GROWTH) {
        reason |= VT_INSPECTION_PEAK;
        atomic_store(&state->seen_peak_bytes, peak);
    }
    if (reason || atomic_load_explicit(&state->wanted, memory_order_relaxed))
        request_inspection(state, session, reason);
}

/* In programs without backward passes: code that makes a new peak again and again keeps something in each of
 * its calls. */
static void note_peak(struct vt_session *session, uint32_t stack_id)
{
    struct process *state = active_state(session);
    if (!state || !atomic_load_explicit(&state->works, memory_order_relaxed) || atomic_load(&state->passes))
        return;
    _Atomic uint64_t *known = &state->peaks[stack_id % PEAK_STACKS];
    uint64_t before = atomic_load_explicit(known, memory_order_relaxed);
    unsigned count = before >> 32 == stack_id ? (unsigned)before + 1 : 1, most = atomic_load(&state->rounds);
    atomic_store_explicit(known, (uint64_t)stack_id << 32 | count, memory_order_relaxed);
    if (count <= most || !atomic_compare_exchange_strong(&state->rounds, &most, count))
        return;
    if (count >= EARLY_ROUNDS && (count & (count - 1)) == 0)
        request_inspection(state, session, VT_INSPECTION_PEAK);
}

static void request_other(struct vt_session *session, unsigned reason)
{
    struct process *state = atomic_load_explicit(&process, memory_order_acquire);
    if (!state || !session->options.inspect || (vt_is_paused(session) && !(reason & VT_INSPECTION_ASKED)))
        return;
    if (reason & VT_INSPECTION_OUT_OF_MEMORY && !atomic_exchange(&state->ran_out, true))
        atomic_store(&state->is_promised, true);
    request_inspection(state, session, reason);
}

/* ---- inspecting: the main thread, and the one that it waits for; the one that runs holds the GIL ---- */

/* Under the GIL. Waits for a thread of ours: the interpreter must not end while that one runs. */
static void await_beside(struct process *state)
{
    enum { WAIT_US = 1000, WAITS_MAXIMUM = 2000 };
    object *own = python->PyEval_SaveThread();
    for (int i = 0; atomic_load(&state->beside) && i < WAITS_MAXIMUM; i++)
        usleep(WAIT_US);
    python->PyEval_RestoreThread(own);
}

static object *inspection_at_exit(object *self, object *arguments)
{
    struct vt_session *session = vt_session_active();
    struct process *state = session ? active_state(session) : NULL;
    (void)self;
    (void)arguments;
    if (state && !is_over(state) && is_affordable(state, session, VT_INSPECTION_EXIT)) {
        atomic_fetch_or(&state->wanted, VT_INSPECTION_EXIT);
        inspect_now(state, session, false);
    }
    atomic_store(&ended, true);
    if (state)
        await_beside(state);
    vt_gc_end();
    python->Py_IncRef(python->none);
    return python->none;
}

static struct vt_python_method last_inspection = {"last_inspection", inspection_at_exit,
                                                  VT_PYTHON_NO_ARGUMENTS, NULL};

/* Once, and only if the program has imported atexit. */
static void register_at_exit(object *globals)
{
    if (registered_at_exit || !vt_is_imported("atexit"))
        return;
    registered_at_exit = true;
    object *function = python->PyCFunction_NewEx(&last_inspection, NULL, NULL), *done = NULL;
    if (function) {
        done = python->PyObject_CallFunctionObjArgs(python->PyDict_GetItemString(globals, "inspect_at_exit"),
                                                    function, NULL);
        python->PyObject_GC_UnTrack(function); /* never freed: that might untrack it again */
    }
    if (!done)
        python->PyErr_Clear();
    vt_python_drop(done);
}

/* 0 = no census. A part of what is left, so that later ones can follow; all of it if no later one is
 * expected, or if the last one did not finish. */
static uint64_t census_ns(struct process *state, const struct vt_session *session, unsigned reason)
{
    uint64_t left = budget_now(state, session, reason).census_ns;
    if (reason & VT_INSPECTION_ASKED)
        return ASKED_INSPECTION_NS;
    if (reason & (VT_INSPECTION_EXIT | VT_INSPECTION_OUT_OF_MEMORY) || atomic_load(&state->census_unfinished))
        return left;
    return reason & ~(unsigned)VT_INSPECTION_NEW_OBJECT ? left / CENSUS_SHARE : 0;
}

/* Roots and optimizers that an inspection reported need none when called; and how the census went. */
static void note_results(struct process *state, const struct vt_session *session, const char *text,
                         size_t bytes)
{
    for (const char *line = text, *end = text + bytes; line && line < end;
         line = memchr(line, '\n', (size_t)(end - line))) {
        line += *line == '\n';
        if (line + 2 < end && *line == 'C') { /* its last field */
            const char *ends = strchr(line + 2, '\t');
            bool ended = ends && ends[1] == '1';
            atomic_store(&state->census_unfinished, !ended);
            atomic_fetch_add(&state->censuses, 1);
            if (ended)
                atomic_store(&state->census_bytes, block_bytes(session, false));
        }
        const char *address =
            line + 2 < end && (*line == 'R' || *line == 'O') ? strchr(line + 2, '\t') : NULL;
        if (address)
            note_reported(state, strtoull(address + 1, NULL, 10));
    }
}

/* Runs the inspection. One of the libraries is imported. */
static void inspection_at_modules(struct process *state, const struct vt_session *session, unsigned reason,
                                  bool on_own_thread)
{
    const uint64_t started_ns = vt_clock_ns(CLOCK_MONOTONIC);
    uint64_t needed_ns = 0;
    object *type, *value, *traceback;
    const bool graphs_elsewhere = atomic_load(&state->passes) && vt_inspection_graphs_elsewhere();
    struct vt_inspection_run run = {
        .census_ns = graphs_elsewhere ? 0 : census_ns(state, session, reason),
        .leaves_graphs = graphs_elsewhere,
        .budget_ns = reason & VT_INSPECTION_ASKED ? 0 : budget_now(state, session, reason).all_ns + 1,
        .on_own_thread = on_own_thread,
        .prepare = register_at_exit};
    python->PyErr_Fetch(&type, &value, &traceback);
    vt_inspection_run(&run);
    if (run.has_failed)
        atomic_fetch_add(&state->failures, run.is_refused ? FAILURES_MAXIMUM : 1);
    if (run.bytes > (intptr_t)sizeof expensive && memcmp(run.text, expensive, sizeof expensive - 1) == 0) {
        needed_ns = strtoull(run.text + sizeof expensive - 1, NULL, 10);
        atomic_fetch_or(&state->wanted, reason); /* try again when that much is left */
    } else if (run.bytes > 0) {
        note_results(state, session, run.text, (size_t)run.bytes);
        vt_record_inspection(reason, run.text, (size_t)run.bytes, started_ns);
    }
    vt_python_drop(run.result);
    python->PyErr_Restore(type, value, traceback);
    const uint64_t waited_ns = vt_clock_ns(CLOCK_MONOTONIC) - started_ns;
    atomic_fetch_add(&state->spent_ns, vt_budget_cost(run.processor_ns, waited_ns));
    if (!needed_ns) /* after a census that did not finish, the next one gets twice as long */
        needed_ns = (run.processor_ns - run.once_ns) * (atomic_load(&state->census_unfinished) ? 2 : 1);
    atomic_store(&state->last_ns, needed_ns);
}

static bool has_library(void)
{
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (vt_is_imported(libraries[i]))
            return true;
    return false;
}

/* False if another thread is running the inspection. */
static bool inspect_now(struct process *state, struct vt_session *session, bool on_own_thread)
{
    if (atomic_exchange(&state->pending, RUNS) == RUNS)
        return false;
    unsigned reason = atomic_exchange(&state->wanted, 0);
    if (has_library())
        inspection_at_modules(state, session, reason, on_own_thread);
    if (atomic_exchange(&state->is_promised, false))
        atomic_fetch_add(&state->promised, 1);
    atomic_store(&state->pending, IDLE);
    if (atomic_load(&state->wanted) & VT_INSPECTION_ASKED) /* requested meanwhile by another thread */
        request_inspection(state, session, VT_INSPECTION_ASKED);
    return true;
}

static int run_pending(void *asked_for)
{
    struct vt_session *session = vt_session_active();
    struct process *state = session ? active_state(session) : NULL;
    int saved_errno = errno;
    if (!state || session != asked_for) /* of another process, or it has ended */
        return 0;
    atomic_store(&state->queued, 0);
    if (atomic_load(&state->pending) == ASKED_FOR)
        inspect_now(state, session, false);
    errno = saved_errno;
    return 0;
}

/* ---- beside a main thread that waits in C ---- */

/* Runs in a thread of ours. PyGILState_Ensure takes only the main interpreter's lock. */
static void *inspect_beside(void *context)
{
    struct vt_session *session = context;
    struct process *state = active_state(session);
    if (state && !is_over(state)) {
        int gil = python->PyGILState_Ensure();
        if (!is_over(state) && atomic_load(&state->pending) == ASKED_FOR && !atomic_load(&state->passes) &&
            !vt_is_imported("paddle") /* its C++ changes tensors without the GIL */ &&
            !python->PyInterpreterState_Next(python->PyInterpreterState_Head()))
            inspect_now(state, session, true);
        python->PyGILState_Release(gil);
    }
    if (state)
        atomic_store(&state->beside, 0);
    return NULL;
}

/* Only in programs without backward passes, which a main thread that waits in C may be running: autograd's
 * threads change gradients without the GIL, and these must not be read meanwhile. */
static bool waits_in_c(struct process *state, uint64_t now_ns)
{
    return atomic_load(&state->pending) == ASKED_FOR && atomic_load(&state->passes) == 0 &&
           now_ns > atomic_load(&state->asked_ns) + WAITS_NS && !is_over(state);
}

static void begin_beside(struct process *state, struct vt_session *session)
{
    sigset_t before;
    pthread_t thread;
    if (atomic_exchange(&state->beside, 1))
        return;
    vt_signals_block(&before);
    if (pthread_create(&thread, NULL, inspect_beside, session))
        atomic_store(&state->beside, 0);
    else
        pthread_detach(thread);
    vt_signals_restore(&before);
}

/* Of a library without modules. Blocks identified by handles are arrays. Driver memory without any block may
 * be a pool of arrays: programs with PyTorch modules have blocks soon after their first segment. */
static bool has_arrays(const struct vt_session *session)
{
    uint64_t driver_bytes = 0;
    for (unsigned i = 0; i < VT_MAX_DEVICES; i++)
        driver_bytes +=
            __atomic_load_n(&session->ring.header->counters.live[i].driver_bytes, __ATOMIC_RELAXED);
    return __atomic_load_n(&session->handles.used, __ATOMIC_RELAXED) ||
           (driver_bytes > 0 && block_bytes(session, true) == 0);
}

/* Timed inspections, for programs where no pass and nothing else has led to a census since the last one. */
static void tend_inspections(struct vt_session *session)
{
    struct process *state = active_state(session);
    if (!state || !vt_python_known())
        return;
    uint64_t now_ns = vt_clock_ns(CLOCK_MONOTONIC);
    if (!atomic_load(&state->works) && has_arrays(session))
        atomic_store(&state->works, true);
    if (!atomic_load(&state->works)) {
        state->first_ns = 0;
    } else if (!state->first_ns) {
        state->first_ns = now_ns;
        state->next_ns = FIRST_IN_TIME_NS;
    }
    if (state->first_ns && now_ns - state->first_ns > state->next_ns) {
        state->next_ns = 2 * (now_ns - state->first_ns);
        const int passes = atomic_load(&state->passes);
        const uint32_t censuses = atomic_load(&state->censuses);
        if (state->tended_passes == passes && state->tended_censuses == censuses) {
            if (passes == 0)
                promise(state, 1); /* the program may wait long for each */
            request_inspection(state, session, VT_INSPECTION_TIME);
        }
        state->tended_passes = passes;
        state->tended_censuses = censuses;
    }
    if (waits_in_c(state, now_ns))
        begin_beside(state, session);
}

const struct vt_inspector vt_inspector = {.look_up = look_up,
                                          .tend = tend_inspections,
                                          .note_self = note_self,
                                          .note_graph = vt_inspection_note_graph,
                                          .note_backward = note_backward,
                                          .note_peak = note_peak,
                                          .ask = request_other};
