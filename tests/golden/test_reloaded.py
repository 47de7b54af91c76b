"""A framework's library that is unloaded and comes back elsewhere: our exports call the one that is there."""
import subprocess

from harness import LIBRARIES

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
