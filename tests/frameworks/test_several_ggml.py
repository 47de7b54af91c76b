"""Several releases of ggml in one process: each call goes where the caller's calls go without us."""
import subprocess

import pytest

import support  # noqa: F401  (first: helpers are found by it)
from helpers import ENVIRONMENT, LIBRARY

NAME = "ggml_backend_alloc_ctx_tensors_from_buft"
GGML = "void *%s(void *context, void *type) { return (char *)RETURNED; }" % NAME
USER = "void *%s(void *, void *); void *USE(void) { return %s(0, 0); }" % (NAME, NAME)
# `shared` needs a ggml beside it, `inside` has one of its own.
PROGRAM = """
import ctypes, sys
loader, results = ctypes.CDLL(None), []
loader.dlsym.restype, loader.dlerror.restype = ctypes.c_void_p, ctypes.c_char_p


def with_error(use, symbol):
    # What it returns, and what dlerror says then of the search before it.
    loader.dlerror()
    if symbol:
        loader.dlsym(None, symbol)
    return use(), loader.dlerror()


for path in sys.argv[2:]:
    name = path.rpartition("/lib")[2].partition(".")[0]
    library = ctypes.CDLL(path, ctypes.RTLD_GLOBAL if sys.argv[1] == "global" else ctypes.RTLD_LOCAL)
    if name.startswith("use"):
        use = getattr(library, name)
        use.restype = ctypes.c_void_p
        results += [with_error(use, b"no_such_symbol"), with_error(use, None)]
print(results)
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ggml")

    def build(name, *sources_and_options):
        source = folder / f"{name}.c"
        source.write_text("\n".join(text for text in sources_and_options if "{" in text))
        options = [text for text in sources_and_options if "{" not in text]
        subprocess.run(["cc", "-shared", "-fPIC", "-O0", "-o", folder / f"lib{name}.so", source, f"-Wl,-soname,lib{name}.so", f"-L{folder}",
                        f"-Wl,-rpath,{folder}", *options], check=True)
        return str(folder / f"lib{name}.so")

    return {"first": build("first", GGML, "-DRETURNED=1"), "second": build("second", GGML, "-DRETURNED=2"),
            "use_first": build("use_first", USER, "-DUSE=use_first", "-lfirst"),
            "use_second": build("use_second", USER, "-DUSE=use_second", "-lsecond"),
            "use_inside": build("use_inside", GGML, USER, "-DRETURNED=3", "-DUSE=use_inside")}


@pytest.mark.parametrize("scope", ["local", "global"])
@pytest.mark.parametrize("order", [["use_first"], ["use_second", "use_first"], ["use_first", "use_inside", "use_second"],
                                   ["use_inside", "use_second"], ["second", "use_first", "use_inside"]])
def test_each_calls_its_own(libraries, order, scope):
    def run(**environment):
        return subprocess.run(["python3", "-c", PROGRAM, scope, *(libraries[name] for name in order)], check=True, text=True,
                              capture_output=True, env={**ENVIRONMENT, **environment}).stdout

    assert run(LD_PRELOAD=str(LIBRARY)) == run()


# One that finds its ggml by what it needs: so the loader is asked too. `held` holds the loader's lock, as a constructor does, until that
# has returned, or given up. `handlers` counts signals that another thread's handler gets.
HOST = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static void *(*use)(void);
static _Atomic int called, returned, ended, elsewhere;
static _Atomic long user;
int wait_for_user(void) {
    atomic_store(&called, 1);
    for (int turn = 0; turn < 200 && !atomic_load(&returned); turn++) usleep(100000);
    return atomic_load(&returned);
}
static void *call_once(void *unused) {
    while (!atomic_load(&called)) usleep(1000);
    printf("%p\n", use());
    atomic_store(&returned, 1);
    return unused;
}
static void note(int signal) { (void)signal; if (syscall(SYS_gettid) != atomic_load(&user)) atomic_fetch_add(&elsewhere, 1); }
static void *call_often(void *unused) {
    sigset_t one;
    sigemptyset(&one); sigaddset(&one, SIGUSR1);
    atomic_store(&user, syscall(SYS_gettid));
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    for (int i = 0; i < 500; i++) use();
    atomic_store(&ended, 1);
    return unused;
}
int main(int count, char **words) {
    pthread_t thread;
    sigset_t one;
    void *library = dlopen(words[2], RTLD_NOW);
    (void)count;
    use = (void *(*)(void))dlsym(library, "use_first");
    dlopen(words[3], RTLD_NOW);
    if (!strcmp(words[1], "held")) {
        pthread_create(&thread, NULL, call_once, NULL);
        if (!dlopen(words[4], RTLD_NOW)) puts(dlerror());
    } else {
        sigemptyset(&one); sigaddset(&one, SIGUSR1);
        signal(SIGUSR1, note);
        pthread_sigmask(SIG_BLOCK, &one, NULL);
        pthread_create(&thread, NULL, call_often, NULL);
        while (!atomic_load(&ended)) { kill(getpid(), SIGUSR1); usleep(100); }
        printf("%d elsewhere\n", atomic_load(&elsewhere));
    }
    pthread_join(thread, NULL);
    return 0;
}
"""
WAITS = """
#include <stdio.h>
int wait_for_user(void);
__attribute__((constructor)) static void begin(void) { puts(wait_for_user() ? "returned" : "waited in vain"); }
"""


@pytest.fixture(scope="module")
def host(libraries, tmp_path_factory):
    folder = tmp_path_factory.mktemp("host")
    for name, text, options in (("host", HOST, ["-rdynamic", "-pthread"]), ("libwaits.so", WAITS, ["-shared", "-fPIC"])):
        (folder / f"{name}.c").write_text(text)
        subprocess.run(["cc", "-O1", "-o", folder / name, folder / f"{name}.c", *options, "-ldl"], check=True)

    def start(what, **environment):
        return subprocess.run([folder / "host", what, libraries["use_first"], libraries["use_second"], folder / "libwaits.so"], check=True,
                              text=True, capture_output=True, timeout=60, env={**ENVIRONMENT, **environment}).stdout
    return start


def test_beside_a_thread_that_holds_the_loaders_lock(host):
    """It may be waiting for the caller: then we do without the loader."""
    assert host("held", LD_PRELOAD=str(LIBRARY)) == host("held") == "0x1\nreturned\n"


def test_hosts_signals_are_for_its_own_threads(host):
    assert host("handlers", LD_PRELOAD=str(LIBRARY)) == host("handlers") == "0 elsewhere\n"
