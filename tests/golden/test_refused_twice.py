"""A request that a framework makes twice before it gives up ran out of memory once, and its first time is no cause of the second."""
import json
import subprocess
import sys
import pathlib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import BUILD, RUN, events, run, vramtrace  # noqa: E402
from trace_file import ALLOC, CONTEXT_CREATE, DRIVER, TraceFile  # noqa: E402

STANDIN = BUILD / "simulate"
MIB, GIB = 1 << 20, 1 << 30
ALLOC_FAILED, OUT_OF_MEMORY = 18, 2

# ---- Asked of the driver: TensorFlow's asynchronous allocator, which has no segments ----

CUDA, FIRST, SECOND, COMPUTE, PROGRAM = 0x10010, 0x20010, 0x20080, 0x20200, 0x30010
SAME = [(1, 8, 0x5000), (2, 4, 0)]  # Python frames: code, instruction, self


def write(path, *refused, between=()):
    """A card that 12 tensors fill; then REFUSED: native and Python frames of requests that the driver refuses."""
    trace = TraceFile()
    trace.process([b"python", b"train.py"], b"/home/me", b"/usr/bin/python3")
    trace.device(0, 2 * GIB, b"GPU")
    for address, library in ((CUDA, b"libcuda.so.1"), (FIRST, b"libtensorflow_framework.so.2"), (PROGRAM, b"libmine.so")):
        trace.module(address - 0x10, address + 0xff0, b"/usr/lib/" + library)
    trace.code(1, b"/home/me/train.py", b"step")
    trace.code(2, b"/home/me/train.py", b"main")
    trace.code(3, b"/home/me/train.py", b"smaller_step")
    trace.stack(1, native=[CUDA, FIRST, COMPUTE], python=SAME)
    for number, (native, python) in enumerate(refused, 2):
        trace.stack(number, native=[CUDA, *native] if native else [], python=python)
    trace.event(CONTEXT_CREATE, DRIVER, address=1)
    for number in range(12):
        trace.event(ALLOC, DRIVER, address=(1 + number) << 32, size=128 * MIB, stack=1)
    for number, _ in enumerate(refused, 2):
        trace.event(ALLOC_FAILED, DRIVER, size=512 * MIB, detail=OUT_OF_MEMORY, stack=number)
        if number == 2:
            for size in between:
                trace.event(ALLOC, DRIVER, address=1 << 40, size=size, stack=1)
    return trace.write(path)


def refusals(trace):
    found = json.loads(vramtrace("oom", "--json", trace).stdout)
    return [(refusal["requested_bytes"], refusal["driver_tries"]) for refusal in found["out_of_memory"]], \
        {cause["kind"] for cause in found["last"]["causes"]}


def test_by_the_framework(tmp_path):
    trace = write(tmp_path / "run.vrt", ([FIRST, COMPUTE], SAME), ([SECOND, COMPUTE], SAME))
    listed, causes = refusals(trace)
    assert listed == [(512 * MIB, 2)] and "failed_try" not in causes
    assert "times" not in vramtrace("oom", trace).stdout.split("  why ")[0]


@pytest.mark.parametrize("first, second, between", [
    (([FIRST, COMPUTE], SAME), ([FIRST, COMPUTE], SAME), ()),            # from where it was: the program asks again
    (([FIRST, COMPUTE], SAME), ([SECOND, COMPUTE], [(1, 20, 0x5000), (2, 4, 0)]), ()),  # another instruction of the program's
    (([FIRST, PROGRAM], SAME), ([FIRST, PROGRAM + 0x40], SAME), ()),     # another place in the program's own library
    (([FIRST, COMPUTE], SAME), ([FIRST, SECOND, COMPUTE], SAME), ()),    # called in another way
    (([FIRST, COMPUTE], SAME), ([SECOND, COMPUTE], SAME), (4 * MIB,)),   # something was made in between
], ids=["the same place", "another instruction", "the program's library", "another depth", "made between"])
def test_by_the_program(tmp_path, first, second, between):
    """Then it ran out of memory twice."""
    trace = write(tmp_path / "run.vrt", first, second, between=between)
    assert refusals(trace)[0] == [(512 * MIB, 1), (512 * MIB, 1)]


@pytest.mark.parametrize("code, causes", [(1, {"unknown_use"}), (3, {"failed_try"})], ids=["the same line", "another line"])
def test_the_cause_without_native_stacks(tmp_path, code, causes):
    """That the framework asks twice is not seen then; the first time is no try that failed, whose exception holds what it made."""
    trace = write(tmp_path / "run.vrt", ([], SAME), ([], [(code, *SAME[0][1:]), SAME[1]]))
    listed, found = refusals(trace)
    assert len(listed) == 2 and found == causes


# ---- Asked of the framework: a library with the names of TensorFlow's allocator, which has 64 MiB ----

LIBRARY = r"""
#include <stddef.h>
struct string { char *text; size_t bytes; char inside[16]; };
static size_t taken, sizes[64];
extern unsigned long long bottom;
void *_ZN3tsl12BFCAllocator11AllocateRawEmmRKNS_20AllocationAttributesE(void *self, size_t alignment, size_t bytes, const void *attributes)
{
    (void)self, (void)alignment, (void)attributes;
    if (taken + bytes > 64 << 20)
        return NULL;
    sizes[taken >> 20] = bytes;
    taken += bytes;
    return (char *)bottom + taken - bytes;
}
void _ZN3tsl12BFCAllocator13DeallocateRawEPv(void *self, void *address) { (void)self, (void)address; }
size_t _ZNK3tsl12BFCAllocator13AllocatedSizeEPKv(const void *self, const char *address)
{
    (void)self;
    return sizes[(address - (char *)bottom) >> 20];
}
int _ZNK3tsl12BFCAllocator13GetMemoryTypeEv(const void *self) { return (void)self, 1; }
struct string _ZN3tsl12BFCAllocator4NameB5cxx11Ev(void *self)
{
    (void)self;
    return (struct string){.bytes = 9, .inside = "GPU_0_bfc"};
}
"""
PROGRAM_TEXT = r"""
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuMemAlloc_v2(unsigned long long *, size_t);
void *_ZN3tsl12BFCAllocator11AllocateRawEmmRKNS_20AllocationAttributesE(void *, size_t, size_t, const void *);
unsigned long long bottom;
static void *ask(size_t mib, const bool *retries)
{
    return _ZN3tsl12BFCAllocator11AllocateRawEmmRKNS_20AllocationAttributesE(NULL, 256, mib << 20, retries);
}
int main(void)
{
    static const bool can_do_without = false, needs_it = true;
    void *context, *address;
    int refused = 0;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuMemAlloc_v2(&bottom, 64 << 20))
        return 1;
    if (!ask(40, &needs_it) || ask(48, NULL))
        return 2;
    address = ask(32, &can_do_without); /* as kernels ask first that would be faster with more */
    if (!address)
        address = ask(32, &needs_it);
    refused += !address;
    if (!ask(8, &can_do_without))
        return 3;
    return printf("%d\n", refused) < 0;
}
"""


@pytest.mark.skipif(not RUN, reason="a program for the stand-in")
def test_by_an_allocator_that_can_do_without(tmp_path):
    """Only what it refuses for good is out of memory."""
    (tmp_path / "library.c").write_text(LIBRARY)
    (tmp_path / "program.c").write_text(PROGRAM_TEXT)
    library = tmp_path / "libtensorflow_framework.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, tmp_path / "library.c"], check=True)
    subprocess.run(["cc", "-O1", "-rdynamic", "-o", tmp_path / "program", tmp_path / "program.c", library, f"-Wl,-rpath,{tmp_path}",
                    f"-L{STANDIN}", "-l:libcuda.so.1"], check=True)
    done = run([tmp_path / "program"], tmp_path / "run.vrt")
    assert done.stdout == "1\n"
    blocks = [event["bytes"] // MIB for event in events(tmp_path / "run.vrt") if event["layer"] == "framework" and event["kind"] == "alloc"]
    assert blocks == [40, 8]
    assert refusals(tmp_path / "run.vrt")[0] == [(32 * MIB, 0)]
