#include "inspect.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "collected.h"
#include "python_api.h"
#include "python_layout.h"
#include "python_locals.h"
#include "record.h"

/* The limit of all looks together, as a part of the process's life; what the first look is taken to cost. */
enum { PART_OF_LIFE = 100, FIRST_LOOK_NS = 5 * 1000 * 1000 };
enum { PEAK_GROWTH = 20 };                   /* a peak is new if it is higher by this part */
enum { ASKED_LOOK_NS = 2000 * 1000 * 1000 }; /* what one that the program asks for may take */
enum { CENSUS_SHARE = 4 };
enum { FRAMES_MAXIMUM = 200, FAILURES_MAXIMUM = 3, SEEN_SELVES = 1024 };

static const char inspect_source[] =
#include "inspect_source.inc" /* inspect.py, made at build time */
    ;

/* How inspect.py says what a look would have taken, in nanoseconds, that did not end within its budget. */
#define DEAR "dear "

typedef void object; /* PyObject */

/* Complete and unchanging once known. */
static struct vt_python_api python;
static _Atomic bool python_known;

/* Of one process's session: a forked child begins anew. */
static struct {
    _Atomic uint32_t generation;
    _Atomic unsigned wanted; /* enum vt_look_reason, bits */
    _Atomic int pending;     /* the call stands in the interpreter's queue, or runs */
    _Atomic int failures;
    _Atomic bool ended; /* the interpreter's exit was seen: what `globals` holds ends with it */
    _Atomic int graph_task, passes;
    _Atomic uint64_t spent_ns, last_ns, seen_peak_bytes;
    _Atomic uint64_t selves[SEEN_SELVES]; /* by hash; one that takes another's place costs a look at most */
    uint32_t looks;                       /* main thread only */
    object *globals; /* of inspect.py, under the GIL, one look at a time; lives on in a forked child */
} state;

void vt_inspect_look_up(void)
{
    if (atomic_load(&python_known) || !vt_python_loaded())
        return;
    if (!vt_python_api_find(&python, vt_python_scope()))
        return;
    vt_collected_set_api(&python);
    atomic_store(&python_known, true);
}

/* ---- asking ---- */

static void begin_anew(const struct vt_session *session)
{
    uint32_t generation = atomic_load_explicit(&state.generation, memory_order_relaxed);
    if (generation == session->generation ||
        !atomic_compare_exchange_strong(&state.generation, &generation, session->generation))
        return;
    atomic_store(&state.wanted, 0);
    atomic_store(&state.pending, 0);
    atomic_store(&state.graph_task, -1);
    atomic_store(&state.passes, 0);
    atomic_store(&state.spent_ns, 0);
    atomic_store(&state.seen_peak_bytes, 0);
    for (size_t i = 0; i < SEEN_SELVES; i++)
        atomic_store_explicit(&state.selves[i], 0, memory_order_relaxed);
}

/* What may be spent now. */
static uint64_t budget_ns(const struct vt_session *session)
{
    uint64_t spent = atomic_load(&state.spent_ns),
             life = vt_clock_ns(CLOCK_BOOTTIME) - session->process_start_ns;
    return life / PART_OF_LIFE > spent ? life / PART_OF_LIFE - spent : 0;
}

static bool is_affordable(const struct vt_session *session)
{
    uint64_t last = atomic_load(&state.last_ns);
    return (last ? last : FIRST_LOOK_NS) <= budget_ns(session);
}

/* Its queue of calls is freed with the interpreter. */
static bool is_over(void)
{
    return atomic_load(&state.failures) >= FAILURES_MAXIMUM || atomic_load(&state.ended) ||
           vt_python_is_finalizing();
}

static int look(void *asked_for);

static void want(struct vt_session *session, unsigned reason)
{
    int idle = 0;
    atomic_fetch_or(&state.wanted, reason);
    if (!atomic_load_explicit(&python_known, memory_order_acquire) || is_over() ||
        !((reason & VT_LOOK_ASKED) || is_affordable(session)) ||
        !atomic_compare_exchange_strong(&state.pending, &idle, 1))
        return;
    if (python.Py_AddPendingCall(look, session)) /* its queue is full: the next event asks again */
        atomic_store(&state.pending, 0);
}

/* Whether it was known; it is from now on. */
static bool know(uint64_t self_address)
{
    _Atomic uint64_t *seen =
        &state.selves[self_address * UINT64_C(0x9E3779B97F4A7C15) >> 32 & (SEEN_SELVES - 1)];
    return atomic_exchange_explicit(seen, self_address, memory_order_relaxed) == self_address;
}

void vt_inspect_note_self(struct vt_session *session, uint64_t self_address)
{
    if (!session->options.inspect || self_address == 0)
        return;
    begin_anew(session);
    if (!know(self_address))
        want(session, VT_LOOK_NEW_OBJECT);
}

static uint64_t peak_bytes(const struct vt_session *session)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < VT_MAX_DEVICES; i++)
        bytes += session->ring.header->live[i].block_peak_bytes;
    return bytes;
}

void vt_inspect_note_backward(struct vt_session *session, int graph_task)
{
    if (!session->options.inspect ||
        __builtin_expect(atomic_load_explicit(&state.graph_task, memory_order_relaxed) == graph_task, 1))
        return;
    begin_anew(session);
    atomic_store_explicit(&state.graph_task, graph_task, memory_order_relaxed);
    unsigned passes = (unsigned)atomic_fetch_add(&state.passes, 1) + 1;
    uint64_t peak = peak_bytes(session), seen = atomic_load(&state.seen_peak_bytes);
    unsigned reason = (passes & (passes - 1)) == 0 ? VT_LOOK_BACKWARD : 0;
    if (peak > seen + seen / PEAK_GROWTH) {
        reason |= VT_LOOK_PEAK;
        atomic_store(&state.seen_peak_bytes, peak);
    }
    if (reason || atomic_load_explicit(&state.wanted, memory_order_relaxed))
        want(session, reason);
}

void vt_inspect_ask(struct vt_session *session, unsigned reason)
{
    if (!session->options.inspect)
        return;
    begin_anew(session);
    want(session, reason);
}

/* ---- looking: the main thread, and the one that it waits for; whoever runs holds the GIL ---- */

static void drop(object *object)
{
    if (object)
        python.Py_DecRef(object);
}

static object *look_at_exit(object *self, object *arguments)
{
    struct vt_session *session = vt_session_active();
    int idle = 0;
    (void)self;
    (void)arguments;
    if (session && !is_over() && is_affordable(session) &&
        atomic_compare_exchange_strong(&state.pending, &idle, 1)) {
        atomic_fetch_or(&state.wanted, VT_LOOK_EXIT);
        look(session);
    }
    atomic_store(&state.ended, true);
    python.Py_IncRef(python.none);
    return python.none;
}

static struct vt_python_method last_look = {"last_look", look_at_exit, VT_PYTHON_NO_ARGUMENTS, NULL};
static struct vt_python_method find_unreached = {"find_unreached", vt_collected_find_unreached,
                                                 VT_PYTHON_ARGUMENTS, NULL};

/* Functions, names and values in turn. */
static bool add_variable(void *variables, const void *function, const void *name, const void *value)
{
    return python.PyList_Append(variables, (object *)function) == 0 &&
           python.PyList_Append(variables, (object *)name) == 0 &&
           python.PyList_Append(variables, (object *)value) == 0;
}

static object *variables_of(object *self, object *frame)
{
    object *variables = python.PyList_New(0);
    (void)self;
    if (variables)
        vt_python_visit_frame(frame, add_variable, variables);
    return variables;
}

static struct vt_python_method frame_variables = {"frame_variables", variables_of, VT_PYTHON_ONE_ARGUMENT,
                                                  NULL};

static void give_function(object *globals, struct vt_python_method *method)
{
    object *function = python.PyCFunction_NewEx(method, NULL, NULL);
    if (function)
        python.PyDict_SetItemString(globals, method->name, function);
    drop(function);
}

/* The functions of inspect.py; made at the first look. */
static object *look_function(void)
{
    if (!state.globals) {
        object *globals = python.PyDict_New(), *code, *result = NULL;
        if (!globals || python.PyDict_SetItemString(globals, "__builtins__", python.PyEval_GetBuiltins())) {
            drop(globals);
            return NULL;
        }
        code = python.Py_CompileString(inspect_source, "<vramtrace>", VT_PYTHON_FILE_INPUT);
        if (code)
            result = python.PyEval_EvalCode(code, globals, globals);
        drop(code);
        if (!result) {
            drop(globals);
            return NULL;
        }
        drop(result);
        state.globals = globals;
        object *start = python.PyDict_GetItemString(globals, "start");
        object *last = python.PyCFunction_NewEx(&last_look, NULL, NULL);
        give_function(globals, &find_unreached);
        give_function(globals, &frame_variables);
        drop(start && last ? python.PyObject_CallFunctionObjArgs(start, last, NULL) : NULL);
        drop(last);
    }
    return python.PyDict_GetItemString(state.globals, "look");
}

/* What the census may take, 0 = there is none: a part of what is left, so that others can follow, unless
 * there will be none. */
static uint64_t census_ns(const struct vt_session *session, unsigned reason)
{
    uint64_t left = budget_ns(session);
    if (reason & VT_LOOK_ASKED)
        return ASKED_LOOK_NS;
    if (reason & (VT_LOOK_EXIT | VT_LOOK_OUT_OF_MEMORY))
        return left;
    return reason & VT_LOOK_BACKWARD ? left / CENSUS_SHARE : 0;
}

/* What a look is given and what it gives. */
struct errand {
    object *variables;             /* of the frames that run: function, name, value in turn */
    object *handled;               /* an exception that the host deals with, or None */
    object *context;               /* the main thread's context variables */
    uint64_t census_ns, budget_ns; /* 0 = none, no limit */
    object *result;
    const char *text; /* of the result, or why there is none */
    intptr_t bytes;
    uint64_t spent_ns;
    char failure[256];
};

/* The exception that stands, as a line of the look, and clears it. */
static void tell_failure(struct errand *errand)
{
    object *type, *value, *traceback;
    python.PyErr_Fetch(&type, &value, &traceback);
    object *words = value ? python.PyObject_Str(value) : type ? python.PyObject_Str(type) : NULL;
    const char *told = words ? python.PyUnicode_AsUTF8AndSize(words, NULL) : NULL;
    snprintf(errand->failure, sizeof errand->failure, "E\t%s", told ? told : "");
    for (char *c = errand->failure + 2; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    drop(words);
    drop(type);
    drop(value);
    drop(traceback);
    python.PyErr_Clear();
}

static void *run(void *context)
{
    struct errand *errand = context;
    int gil = python.PyGILState_Ensure();
    object *thread = python.PyThreadState_Get ? python.PyThreadState_Get() : NULL;
    if (thread) /* who watches all threads (sys.monitoring) does not see the look */
        python.PyThreadState_EnterTracing(thread);
    object *function = look_function(), *census = python.PyLong_FromUnsignedLong(errand->census_ns),
           *budget = python.PyLong_FromUnsignedLong(errand->budget_ns);
    if (function && census && budget)
        errand->result = python.PyObject_CallFunctionObjArgs(function, errand->variables, census,
                                                             errand->handled, budget, errand->context, NULL);
    drop(census);
    drop(budget);
    if (errand->result)
        errand->text = python.PyUnicode_AsUTF8AndSize(errand->result, &errand->bytes);
    if (!errand->text)
        tell_failure(errand);
    if (thread)
        python.PyThreadState_LeaveTracing(thread);
    python.PyGILState_Release(gil);
    errand->spent_ns = vt_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

/* On a thread that lives for this look, while this one waits: what belongs to a thread of the host, so
 * handlers of signals (and what they raise), tracing, the depth of recursion, torch's modes and its compiler,
 * is not there. */
static void run_beside(struct errand *errand)
{
    sigset_t all, before;
    pthread_t thread;
    int cancel_state;
    sigfillset(&all);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, run, errand);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error) {
        object *own = python.PyEval_SaveThread();
        pthread_join(thread, NULL);
        python.PyEval_RestoreThread(own);
    } else {
        snprintf(errand->failure, sizeof errand->failure, "E\tno thread: %s", strerror(error));
    }
    pthread_setcancelstate(cancel_state, NULL);
    if (errand->text)
        return;
    atomic_fetch_add(&state.failures, 1);
    errand->text = errand->failure;
    errand->bytes = (intptr_t)strlen(errand->failure);
}

/* Roots and optimizers that a look has told of need no look of their own when they are called. */
static void know_what_was_told(const char *text, size_t bytes)
{
    for (const char *line = text, *end = text + bytes; line && line < end;
         line = memchr(line, '\n', (size_t)(end - line))) {
        line += *line == '\n';
        const char *address =
            line + 2 < end && (*line == 'R' || *line == 'O') ? strchr(line + 2, '\t') : NULL;
        if (address)
            know(strtoull(address + 1, NULL, 10));
    }
}

static void run_errand(struct errand *errand)
{
    object *type = NULL, *value = NULL, *traceback = NULL;
    errand->variables = python.PyList_New(0);
    python.PyErr_GetExcInfo(&type, &value, &traceback);
    errand->handled = value ? value : python.none;
    errand->context = python.PyContext_CopyCurrent();
    if (errand->variables && errand->context) {
        vt_python_visit_locals(FRAMES_MAXIMUM, add_variable, errand->variables);
        python.PyErr_Clear(); /* no room for all of them */
        run_beside(errand);
    }
    drop(errand->variables);
    drop(errand->context);
    drop(type);
    drop(value);
    drop(traceback);
}

static int look(void *asked_for)
{
    struct vt_session *session = vt_session_active();
    struct errand errand = {0};
    object *type, *value, *traceback;
    int idle = 1, saved_errno = errno;
    if (!session || session != asked_for ||
        atomic_load(&state.pending) != 1) /* another process's, or ended */
        return 0;
    uint64_t started = vt_clock_ns(CLOCK_MONOTONIC), used = vt_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    unsigned reason = atomic_exchange(&state.wanted, 0);
    errand.census_ns = census_ns(session, reason);
    errand.budget_ns = reason & VT_LOOK_ASKED ? 0 : budget_ns(session) + 1;
    python.PyErr_Fetch(&type, &value, &traceback);
    run_errand(&errand);
    uint64_t needed = 0;
    if (errand.bytes > (intptr_t)sizeof DEAR && memcmp(errand.text, DEAR, sizeof DEAR - 1) == 0) {
        needed = strtoull(errand.text + sizeof DEAR - 1, NULL, 10);
        atomic_fetch_or(&state.wanted, reason); /* when that much is left */
    } else if (errand.bytes > 0) {
        state.looks++;
        know_what_was_told(errand.text, (size_t)errand.bytes);
        vt_record_look(state.looks, reason, errand.text, (size_t)errand.bytes, started);
    }
    drop(errand.result);
    python.PyErr_Restore(type, value, traceback);
    /* Not while others ran instead. */
    uint64_t spent = vt_clock_ns(CLOCK_THREAD_CPUTIME_ID) - used + errand.spent_ns;
    atomic_fetch_add(&state.spent_ns, spent);
    atomic_store(&state.last_ns, needed ? needed : spent);
    atomic_compare_exchange_strong(&state.pending, &idle, 0);
    errno = saved_errno;
    return 0;
}
