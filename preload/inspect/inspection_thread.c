#include "inspect/inspection_thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "inspect/gc_lists.h"
#include "inspect/python_api.h"
#include "inspect/script_functions.h"
#include "inspect/scripts.h"
#include "signals.h"
#include "stacks/python_layout.h"
#include "stacks/python_locals.h"

enum { FRAMES_MAXIMUM = 200, THREADS_MAXIMUM = 256 };

static const char context_variables[] = "_contextvars";

typedef void object; /* PyObject */

static const struct vt_python_api *const python = &vt_python_api;

bool vt_is_imported(const char *module)
{
    return python->PyDict_GetItemString(python->PyImport_GetModuleDict(), module) != NULL;
}

/* By the interpreter's number of the thread, which no later thread gets. */
static _Atomic uint64_t graph_makers[64];

static _Atomic uint64_t *graph_maker(uint64_t number)
{
    return &graph_makers[number % (sizeof graph_makers / sizeof *graph_makers)];
}

/* Other threads may add thread states without the GIL, but only in front of the first one; states are freed
 * only with the GIL. */
static object *first_thread(object *own)
{
    return python->PyInterpreterState_ThreadHead(python->PyThreadState_GetInterpreter(own));
}

void vt_inspection_note_graph(void)
{
    static __thread uint64_t own_number __attribute__((tls_model("initial-exec")));
    const struct vt_python *interpreter;
    if (!own_number && python->PyThreadState_GetID) {
        const char *thread = vt_python_current_thread(&interpreter);
        own_number = thread ? python->PyThreadState_GetID((void *)(uintptr_t)thread) : 0;
    }
    _Atomic uint64_t *noted = graph_maker(own_number);
    if (own_number && atomic_load_explicit(noted, memory_order_relaxed) != own_number)
        atomic_store_explicit(noted, own_number, memory_order_relaxed);
}

bool vt_inspection_graphs_elsewhere(void)
{
    object *own = python->PyThreadState_Get(), *thread = first_thread(own);
    for (int i = 0; thread && i < THREADS_MAXIMUM; i++, thread = python->PyThreadState_Next(thread)) {
        const uint64_t number = python->PyThreadState_GetID(thread);
        if (thread != own && atomic_load(graph_maker(number)) == number)
            return true;
    }
    return thread != NULL; /* more than were looked at */
}

/* Turns the current exception into a line, and clears it. */
static void take_failure(struct vt_inspection_run *run)
{
    object *type, *value, *traceback;
    python->PyErr_Fetch(&type, &value, &traceback);
    object *words = value ? python->PyObject_Str(value) : type ? python->PyObject_Str(type) : NULL;
    const char *message = words ? python->PyUnicode_AsUTF8AndSize(words, NULL) : NULL;
    snprintf(run->failure, sizeof run->failure, "E\t%s", message ? message : "");
    for (char *c = run->failure + 2; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    vt_python_drop(words);
    vt_python_drop(type);
    vt_python_drop(value);
    vt_python_drop(traceback);
    python->PyErr_Clear();
}

static object *call_inspection(struct vt_inspection_run *run, object *globals, uint64_t began_ns)
{
    object *started = python->PyLong_FromUnsignedLong(began_ns),
           *budget = python->PyLong_FromUnsignedLong(run->budget_ns),
           *census = python->PyLong_FromUnsignedLong(run->census_ns), *result = NULL;
    if (started && budget && census)
        result = python->PyObject_CallFunctionObjArgs(python->PyDict_GetItemString(globals, "inspect"),
                                                      run->variables, started, budget, census, run->handled,
                                                      run->context, NULL);
    vt_python_drop(started);
    vt_python_drop(budget);
    vt_python_drop(census);
    return result;
}

/* Variables of the running functions: first those of other threads, which wait for the GIL or in C, then
 * those of the stopped host thread (inspect.py reads them in reverse). */
static void list_variables(object *variables, object *own)
{
    object *thread = first_thread(own);
    for (int i = 0; thread && i < THREADS_MAXIMUM; i++, thread = python->PyThreadState_Next(thread))
        if (thread != own)
            vt_python_visit_locals(thread, FRAMES_MAXIMUM, vt_script_add_variable, variables);
    vt_python_visit_locals(own, FRAMES_MAXIMUM, vt_script_add_variable, variables);
    python->PyErr_Clear(); /* no memory for all */
}

static void leave_graphs(const struct vt_inspection_run *run, object *globals)
{
    object *reads = python->PyBool_FromLong(!run->leaves_graphs);
    python->PyDict_SetItemString(globals, "reads_gradients", reads);
    vt_python_drop(reads);
}

/* The variables are held as long as this thread has the GIL: what other threads of the host release in that
 * time lives that much longer. */
static void *run_scripts(void *context)
{
    struct vt_inspection_run *run = context;
    int gil = python->PyGILState_Ensure();
    const uint64_t began_ns = vt_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    object *thread = python->PyThreadState_EnterTracing ? python->PyThreadState_Get() : NULL;
    if (thread) /* so that sys.monitoring, which watches all threads, does not see the inspection */
        python->PyThreadState_EnterTracing(thread);
    object *globals = python->PyDict_New();
    if (globals && vt_scripts_run(globals, &run->is_refused) && (run->variables = python->PyList_New(0))) {
        run->once_ns = vt_clock_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
        list_variables(run->variables, run->stopped);
        leave_graphs(run, globals);
        run->prepare(globals);
        run->result = call_inspection(run, globals, began_ns);
    }
    if (run->result)
        run->text = python->PyUnicode_AsUTF8AndSize(run->result, &run->bytes);
    if (!run->text)
        take_failure(run);
    vt_python_drop(run->variables);
    vt_scripts_end(globals);
    if (thread)
        python->PyThreadState_LeaveTracing(thread);
    run->processor_ns = vt_clock_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
    python->PyGILState_Release(gil);
    return NULL;
}

/* Runs the scripts on a new thread, while this one waits with the host's signals unblocked. The new thread
 * has nothing that belongs to the host's threads: signal handlers (and what they raise), tracing, recursion
 * depth, torch's modes and its compiler. */
static void run_beside(struct vt_inspection_run *run)
{
    sigset_t before;
    pthread_t thread;
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    vt_signals_block(&before); /* for the new thread */
    int error = pthread_create(&thread, NULL, run_scripts, run);
    vt_signals_restore(&before);
    if (!error) {
        object *own = python->PyEval_SaveThread();
        pthread_join(thread, NULL);
        python->PyEval_RestoreThread(own);
    } else {
        snprintf(run->failure, sizeof run->failure, "E\tno thread: %s", strerror(error));
    }
    pthread_setcancelstate(cancel_state, NULL);
}

/* If _contextvars is not imported, reading the context would create one. */
static object *copy_context(void)
{
    if (vt_is_imported(context_variables))
        return python->PyContext_CopyCurrent();
    python->Py_IncRef(python->none);
    return python->none;
}

void vt_inspection_run(struct vt_inspection_run *run)
{
    object *type = NULL, *value = NULL, *traceback = NULL;
    if (!vt_gc_find()) {
        snprintf(run->failure, sizeof run->failure, "E\tthe collector's lists are not where they should be");
    } else {
        vt_gc_pause();
        run->stopped = python->PyThreadState_Get();
        python->PyErr_GetExcInfo(&type, &value, &traceback);
        run->handled = value ? value : python->none;
        run->context = copy_context();
        if (run->context)
            run->on_own_thread ? run_scripts(run) : run_beside(run);
        vt_python_drop(run->context);
        vt_python_drop(type);
        vt_python_drop(value);
        vt_python_drop(traceback);
        vt_gc_resume();
    }
    if (run->text)
        return;
    run->has_failed = true;
    run->text = run->failure;
    run->bytes = (intptr_t)strlen(run->failure);
}
