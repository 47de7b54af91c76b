/* A program that loads libpython late, with RTLD_LOCAL or RTLD_GLOBAL, as a plugin host does: no frames
 * before, the right ones after, none once the interpreter has ended or on a thread that Python does not know.
 * Usage: host LIBPYTHON local|global */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "trace/python_lines.h"
#include "stacks/python.h"
#include "stacks/python_code.h"

static int passed, failed;
static bool pins_fail; /* what is loaded already cannot be opened again */

void *dlopen(const char *path, int mode)
{
    void *(*next)(const char *, int);
    void *symbol = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&next, &symbol, sizeof next);
    return pins_fail && (mode & RTLD_NOLOAD) != 0 ? NULL : next(path, mode);
}

static void check(const char *what, int good)
{
    if (good) {
        passed++;
    } else {
        failed++;
        printf("FAILED %s\n", what);
    }
}

static size_t count;
static char names[256];
static int lines[16];

static void walk(void)
{
    struct vt_raw_python_frame frames[16];
    struct vt_python_stack stack;
    names[0] = 0;
    vt_python_walk(frames, 16, &stack);
    count = stack.frames;
    for (size_t i = 0; i < count; i++) {
        struct vt_python_code_view view = {0};
        if (!vt_python_describe_code(frames[i].code, &view))
            continue;
        strncat(names, view.name, view.name_bytes < 32 ? view.name_bytes : 32);
        strcat(names, " ");
        lines[i] = vt_python_line(view.python_minor, view.line_table, view.line_table_bytes, view.first_line,
                                  frames[i].instruction_offset);
    }
}

static void *none;

static void *called_from_python(void *self, void *arguments)
{
    (void)self, (void)arguments;
    walk();
    ++*(intptr_t *)none; /* a new reference */
    return none;
}

static void *foreign_thread(void *unused)
{
    (void)unused;
    walk();
    return NULL;
}

struct method {
    const char *name;
    void *(*function)(void *, void *);
    int flags;
    const char *doc;
};

#define LOOK_UP(type, name)                                                                                  \
    type;                                                                                                    \
    *(void **)&name = dlsym(library, #name);                                                                 \
    if (name == NULL) {                                                                                      \
        printf("no %s\n", #name);                                                                            \
        return 1;                                                                                            \
    }

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    for (int i = 0; i < 1000; i++)
        walk();
    check("nothing before", count == 0 && !vt_python_loaded() && vt_python_hex_version() == 0);
    int scope = strcmp(argv[2], "local") == 0 ? RTLD_LOCAL : RTLD_GLOBAL;
    void *library = dlopen(argv[1], RTLD_NOW | scope);
    if (library == NULL) {
        printf("%s\n", dlerror());
        return 1;
    }
    LOOK_UP(void (*Py_InitializeEx)(int), Py_InitializeEx)
    LOOK_UP(void (*Py_FinalizeEx)(void), Py_FinalizeEx)
    LOOK_UP(void *(*PyCFunction_NewEx)(struct method *, void *, void *), PyCFunction_NewEx)
    LOOK_UP(void *(*PyImport_AddModule)(const char *), PyImport_AddModule)
    LOOK_UP(int (*PyObject_SetAttrString)(void *, const char *, void *), PyObject_SetAttrString)
    LOOK_UP(int (*PyRun_SimpleString)(const char *), PyRun_SimpleString)
    LOOK_UP(void *(*PyThreadState_Get)(void), PyThreadState_Get)
    LOOK_UP(void *(*PyThreadState_Swap)(void *), PyThreadState_Swap)
    LOOK_UP(void *(*Py_NewInterpreter)(void), Py_NewInterpreter)
    LOOK_UP(void (*Py_EndInterpreter)(void *), Py_EndInterpreter)
    none = dlsym(library, "_Py_NoneStruct");
    pins_fail = true;
    vt_python_look_up();
    check("not kept where it may be unloaded", !vt_python_loaded() && vt_python_hex_version() == 0);
    pins_fail = false;
    vt_python_look_up();
    check("found", vt_python_loaded() && vt_python_hex_version() >> 24 == 3);
    walk();
    check("no frames before it is initialised", count == 0);
    Py_InitializeEx(0);
    walk();
    check("no frames outside of code", count == 0 && vt_python_unsupported_minor() == 0);

    static struct method method = {"look", called_from_python, 4 /* METH_NOARGS */, NULL};
    PyObject_SetAttrString(PyImport_AddModule("__main__"), "look", PyCFunction_NewEx(&method, NULL, NULL));
    check("script", PyRun_SimpleString(
                        "def f():\n  look()\ndef g():\n  return list(map(lambda _: f(), [1]))\ng()\n") == 0);
    check("frames", count == 4 && (strcmp(names, "f <lambda> g <module> ") == 0 ||
                                   strcmp(names, "f g.<locals>.<lambda> g <module> ") == 0));
    check("lines", lines[0] == 2 && lines[1] == 4 && lines[2] == 4 && lines[3] == 5);

    /* A second interpreter on this thread. Before 3.12 the thread's state stays that of the first one, which
     * runs no code now; then it is the second's. Either is safe to read. */
    void *main_thread = PyThreadState_Get();
    void *other_thread = Py_NewInterpreter();
    check("second interpreter", other_thread != NULL);
    PyObject_SetAttrString(PyImport_AddModule("__main__"), "look", PyCFunction_NewEx(&method, NULL, NULL));
    check("its script", PyRun_SimpleString("def f():\n  look()\nf()\n") == 0);
    check("its frames", count == 0 || (count == 2 && strcmp(names, "f <module> ") == 0));
    Py_EndInterpreter(other_thread);
    PyThreadState_Swap(main_thread);
    walk();
    check("no frames between", count == 0);
    check("script again", PyRun_SimpleString("g()\n") == 0 && count == 4);

    pthread_t thread;
    pthread_create(&thread, NULL, foreign_thread, NULL);
    pthread_join(thread, NULL);
    check("no frames on a foreign thread", count == 0);
    check("finalizers", PyRun_SimpleString("class D:\n  def __del__(self): look()\nd = D()\n") == 0);
    count = 99;
    Py_FinalizeEx();
    check("no frames while it ends", count == 0);
    walk();
    check("no frames after it", count == 0);
    dlclose(library);
    walk();
    check("the library stays", count == 0);
    printf("%-51s %d passed, %d failed\n",
           argv[2][0] == 'l' ? "libpython loaded late, local" : "libpython loaded late, global", passed,
           failed);
    return failed != 0;
}
