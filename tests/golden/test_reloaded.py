"""A framework's library that is unloaded and comes back elsewhere: our exports call the one that is there."""
import json
import subprocess

import pytest

from harness import ANALYZER, LIBRARIES, environment

# All that we stand in place of, as a framework's library has it and calls it: by name.
LIBRARY = r"""
#include <stddef.h>
static int calls;
struct buffer { void *address; size_t bytes; };
void _ZN3rmm13device_buffer14allocate_asyncEm(struct buffer *buffer, size_t bytes) { calls++; buffer->address = NULL; (void)bytes; }
void _ZN3rmm13device_buffer16deallocate_asyncEv(struct buffer *buffer) { calls++; (void)buffer; }
void *_ZN3tsl12BFCAllocator11AllocateRawEmmRKNS_20AllocationAttributesE(void *self, size_t alignment, size_t bytes, const void *attributes)
{ calls++; (void)self, (void)alignment, (void)bytes, (void)attributes; return NULL; }
void _ZN3tsl12BFCAllocator13DeallocateRawEPv(void *self, void *address) { calls++; (void)self, (void)address; }
void *_ZN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator6mallocEmaP11CUstream_st(void *self, size_t bytes, int device, void *stream)
{ calls++; (void)self, (void)bytes, (void)device, (void)stream; return NULL; }
void _ZN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator10raw_deleteEPv(void *self, void *address) { calls++; (void)self, (void)address; }
void _ZN6paddle8platform14RecordMemEventC1EPKvRKN3phi5PlaceEmNS4_18TracerMemEventTypeE(void *self, const void *address, const char *place,
                                                                                        size_t bytes, int what)
{ calls++; (void)self, (void)address, (void)place, (void)bytes, (void)what; }
int use(void)
{
    struct buffer buffer = {0};
    _ZN3rmm13device_buffer14allocate_asyncEm(&buffer, 1);
    _ZN3rmm13device_buffer16deallocate_asyncEv(&buffer);
    _ZN3tsl12BFCAllocator11AllocateRawEmmRKNS_20AllocationAttributesE(NULL, 1, 1, NULL);
    _ZN3tsl12BFCAllocator13DeallocateRawEPv(NULL, NULL);
    _ZN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator6mallocEmaP11CUstream_st(NULL, 1, 0, NULL);
    _ZN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator10raw_deleteEPv(NULL, NULL);
    _ZN6paddle8platform14RecordMemEventC1EPKvRKN3phi5PlaceEmNS4_18TracerMemEventTypeE(NULL, NULL, "\0\1", 1, 0);
    return calls;
}
"""
# What was is taken by other memory, so that the next one comes elsewhere.
PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int count, char **words)
{
    (void)count;
    for (int round = 0; round < 3; round++) {
        struct link_map *map;
        void *library = dlopen(words[1], RTLD_NOW);
        int (*use)(void) = (int (*)(void))dlsym(library, "use");
        dlinfo(library, RTLD_DI_LINKMAP, &map);
        void *base = (void *)map->l_addr;
        printf("%d\n", use());
        fflush(stdout);
        dlclose(library);
        mmap(base, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        usleep(20000); /* whether something was unloaded is known some milliseconds later */
    }
    return 0;
}
"""


def test_calls_go_to_the_library_that_is_there(tmp_path):
    for name, text, options in (("library.so", LIBRARY, ["-shared", "-fPIC"]), ("program", PROGRAM, [])):
        (tmp_path / f"{name}.c").write_text(text)
        subprocess.run(["cc", "-O1", "-o", tmp_path / name, tmp_path / f"{name}.c", *options, "-ldl"], check=True)

    def run(**environment):
        done = subprocess.run([tmp_path / "program", tmp_path / "library.so"], text=True, capture_output=True, env=environment, timeout=60)
        return done.stdout, done.returncode

    assert run(LD_PRELOAD=str(LIBRARIES["trace"])) == run() == ("7\n7\n7\n", 0)


# ---- Libraries in turn at one address ----

PLUGIN = r"""
#include <stddef.h>
char room[ROOM] = {1};
#define NAMED(name) allocate_##name
#define AS(name) NAMED(name)
__attribute__((noinline)) int AS(NAME)(int (*allocate)(unsigned long long *, size_t), unsigned long long *address, size_t bytes)
{
    int result = allocate(address, bytes);
    __asm__ volatile("");
    return result;
}
"""
# Prints how often a function came to where the one before was.
TURNS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef int allocate(unsigned long long *, size_t);
int main(int count, char **words)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), *context, *last = NULL;
    unsigned long long address;
    int same = 0, rounds = atoi(words[1]), wait_us = atoi(words[2]);
    ((int (*)(int))dlsym(cuda, "cuInit"))(0);
    ((int (*)(void **, int, int))dlsym(cuda, "cuCtxCreate_v2"))(&context, 0, 0);
    for (int i = 0; i < rounds; i++) {
        char name[64] = "allocate_", link[256];
        const char *library = words[3 + i % (count - 3)];
        strcat(name, library);
        snprintf(link, sizeof link, "%s/lib%s.so", words[0], library);
        if (getenv("ONE_PATH")) { /* rebuilt where it was */
            char one[256];
            snprintf(one, sizeof one, "%s/libone.so", words[0]);
            unlink(one);
            if (symlink(link, one))
                return 1;
            strcpy(link, one);
        }
        void *plugin = dlopen(link, RTLD_NOW);
        int (*function)(allocate *, unsigned long long *, size_t) = (int (*)(allocate *, unsigned long long *, size_t))dlsym(plugin, name);
        same += (void *)function == last;
        last = (void *)function;
        function((allocate *)dlsym(cuda, "cuMemAlloc_v2"), &address, 1000000 * (1 + i % (count - 3)));
        usleep(wait_us);
        dlclose(plugin);
    }
    printf("%d\n", same);
    return 0;
}
"""


@pytest.fixture(scope="module")
def turns(tmp_path_factory):
    folder = tmp_path_factory.mktemp("turns")
    (folder / "plugin.c").write_text(PLUGIN)
    (folder / "turns.c").write_text(TURNS)
    subprocess.run(["cc", "-O1", "-o", folder / "turns", folder / "turns.c", "-ldl"], check=True)
    for name, room in (("first", 8), ("other", 8), ("third", 8), ("larger", 1 << 16)):
        subprocess.run(["cc", "-O2", "-fPIC", "-shared", f"-DNAME={name}", f"-DROOM={room}", "-o", folder / f"lib{name}.so",
                        folder / "plugin.c"], check=True)
    return folder


@pytest.mark.parametrize("one_path", [False, True], ids=["", "rebuilt"])
@pytest.mark.parametrize("wait_us", [0, 120000], ids=["at_once", "after_a_poll"])
@pytest.mark.parametrize("names", [("first", "other"), ("first", "other", "third"), ("first", "larger")], ids="_".join)
def test_libraries_in_turn(turns, tmp_path, names, wait_us, one_path):
    """Each has its own bytes and its own stack, also if it was there only between two looks of the recorder at what is loaded."""
    rounds = 120 if wait_us == 0 else 2 * len(names)
    trace = tmp_path / "x.vrt"
    settings = environment(LIBRARIES["trace"], VRAMTRACE_OUT=str(trace), **({"ONE_PATH": "1"} if one_path else {}))
    done = subprocess.run([turns, str(rounds), str(wait_us), *names], executable=turns / "turns", env=settings, text=True,
                          capture_output=True, check=True)
    assert int(done.stdout) > 0 or names[-1] == "larger"
    (device,) = json.loads(subprocess.run([ANALYZER, "report", "--json", trace], capture_output=True, check=True).stdout)["devices"]
    found = {}
    for stack in device["peak"]["stacks"]:
        functions = [frame["function"] for frame in stack["stack"]]
        assert functions[1] == "main" and len(functions) < 8
        found[functions[0]] = found.get(functions[0], 0) + stack["bytes"]
    true = {f"allocate_{name}": rounds // len(names) * 1000000 * (1 + i) for i, name in enumerate(names)}
    if one_path:  # a name that was not found before the file was replaced is not known any more
        assert all(found[name] <= true[name] for name in found if name in true)
        assert sum(found.values()) == sum(true.values())
        assert wait_us == 0 or found == true
    else:
        assert found == true
