/* A host that embeds an interpreter: embed LIBPYTHON WAY. No header of Python's: the names are looked up. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

static void *python;

static void *name(const char *symbol)
{
    void *found = dlsym(python, symbol);
    if (!found) {
        host_say("no %s\n", symbol);
        exit(3);
    }
    return found;
}

static int run(const char *code)
{
    return ((int (*)(const char *, void *))name("PyRun_SimpleStringFlags"))(code, NULL);
}

static const char work[] = "import ctypes, os\n"
                           "library = ctypes.CDLL(os.environ['HOST_LIBRARY'])\n"
                           "library.host_begin()\n"
                           "library.host_pairs(50)\n";

/* It starts and ends several times; CUDA is used inside, and by this program itself. */
static int rounds(int count)
{
    for (int i = 0; i < count; i++) {
        ((void (*)(int))name("Py_InitializeEx"))(0);
        host_say("round %d\n", i);
        if (run(work))
            return 4;
        host_pairs(10);
        host_say("ended %d\n", ((int (*)(void))name("Py_FinalizeEx"))());
        host_pairs(10);
    }
    return 0;
}

/* A thread that Python did not make takes the GIL, calls CUDA with it, and ends. */
static void *with_gil(void *argument)
{
    (void)argument;
    int state = ((int (*)(void))name("PyGILState_Ensure"))();
    host_use_context();
    host_pairs(10);
    run("library.host_use_context(); library.host_pairs(5)");
    ((void (*)(int))name("PyGILState_Release"))(state);
    host_pairs(10);
    return NULL;
}

static int other_threads(void)
{
    ((void (*)(int))name("Py_InitializeEx"))(0);
    if (run(work))
        return 4;
    void *saved = ((void *(*)(void))name("PyEval_SaveThread"))();
    pthread_t list[4];
    for (int i = 0; i < 4; i++)
        list[i] = host_thread(with_gil, NULL, 0);
    for (int i = 0; i < 4; i++)
        pthread_join(list[i], NULL);
    ((void (*)(void *))name("PyEval_RestoreThread"))(saved);
    host_say("ended %d\n", ((int (*)(void))name("Py_FinalizeEx"))());
    return 0;
}

int main(int count, char **arguments)
{
    if (count != 3 || !(python = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL)))
        return 2;
    host_begin();
    return strcmp(arguments[2], "threads") ? rounds(3) : other_threads();
}
