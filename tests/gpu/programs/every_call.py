"""Builds a libcuda.so.1 that asks cuMemGetInfo around every function of the real one: every_call.py FOLDER

With FOLDER first in LD_LIBRARY_PATH, a program's changes of the bytes in use are lines of $EVERY_CALL_LOG: "FUNCTION BYTES" where a
call made them, "between BYTES" where no call did, "context BYTES" at first. Each exported function is a stub that notes who it is, puts
a return address of ours in place of its caller's, and jumps to the real one; so it needs no types. Needs cc and nm."""
import ctypes
import pathlib
import subprocess
import sys

LOOKUPS = ("cuGetProcAddress", "cuGetProcAddress_v2")
XMM = "\n".join("  movups %xmm{0}, {1}(%rsp)".format(i, 16 * i) for i in range(8))
XMM_BACK = "\n".join("  movups {1}(%rsp), %xmm{0}".format(i, 16 * i) for i in range(8))
WORDS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9", "rax", "r10")
# The stack has the function's number, then the return address.
COMMON = f"""
common:
  pushq %rbp
  movq %rsp, %rbp
{chr(10).join(f"  pushq %{word}" for word in WORDS)}
  subq $128, %rsp
{XMM}
  movq 8(%rbp), %rdi
  leaq 16(%rbp), %rsi
  andq $-16, %rsp
  call before@PLT
  movq %rax, %r11
  leaq -192(%rbp), %rsp
{XMM_BACK}
{chr(10).join(f"  movq -{8 * (i + 1)}(%rbp), %{word}" for i, word in enumerate(WORDS))}
  movq %rbp, %rsp
  popq %rbp
  addq $8, %rsp
  jmp *%r11
.globl after_stub
.hidden after_stub
after_stub:
  subq $8, %rsp
  pushq %rax
  pushq %rbp
  movq %rsp, %rbp
  andq $-16, %rsp
  call after@PLT
  movq %rbp, %rsp
  movq %rax, 16(%rsp)
  popq %rbp
  popq %rax
  ret
.globl missing_stub
.hidden missing_stub
missing_stub:
  movl $801, %eax
  ret
.section .note.GNU-stack,"",@progbits
"""
PROXY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { COUNT = sizeof names / sizeof *names, DEPTH = 64 };
extern void after_stub(void), missing_stub(void);
static void *reals[COUNT];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_file;
static int64_t last;
static int (*info)(size_t *, size_t *), (*exchange)(int *), (*lookup)(const char *, void **, int, uint64_t),
    (*lookup_2)(const char *, void **, int, uint64_t, void *);

static __attribute__((constructor)) void start(void)
{
    const char *path = getenv("EVERY_CALL_LOG");
    void *library = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        abort();
    for (int i = 0; i < COUNT; i++)
        reals[i] = dlsym(library, names[i]);
    info = dlsym(library, "cuMemGetInfo_v2");
    exchange = dlsym(library, "cuThreadExchangeStreamCaptureMode");
    lookup = dlsym(library, "cuGetProcAddress");
    lookup_2 = dlsym(library, "cuGetProcAddress_v2");
    log_file = open(path ? path : "/dev/null", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

/* -1: there is no context. */
static int64_t used_bytes(int number)
{
    size_t left, total;
    int mode = 2; /* relaxed */
    if (strcmp(names[number], "cuInit") == 0)
        return -1;
    const int changed = exchange(&mode) == 0;
    const int64_t used = info(&left, &total) == 0 ? (int64_t)(total - left) : -1;
    if (changed)
        exchange(&mode);
    return used;
}

static void note(const char *who, int64_t used)
{
    pthread_mutex_lock(&lock);
    if (used >= 0 && used != last) /* bytes are known once a context is current */
        dprintf(log_file, "%s %ld\n", last == 0 ? "context" : who, (long)(used - last));
    last = used >= 0 ? used : last;
    pthread_mutex_unlock(&lock);
}

static __thread struct { void *back; int number; } stack[DEPTH];
static __thread int depth;

void *before(long number, void **back)
{
    if (reals[number] == NULL)
        return missing_stub;
    if (depth == DEPTH)
        return reals[number];
    note("between", used_bytes((int)number));
    stack[depth].back = *back;
    stack[depth++].number = (int)number;
    *back = after_stub;
    return reals[number];
}

void *after(void)
{
    depth--;
    note(names[stack[depth].number], used_bytes(stack[depth].number));
    return stack[depth].back;
}

static int ours(int result, void **function)
{
    for (int i = 0; result == 0 && function != NULL && i < COUNT; i++)
        if (*function != NULL && *function == reals[i]) {
            *function = stubs[i];
            break;
        }
    return result;
}
int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
    return ours(lookup(name, function, version, flags), function);
}
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, void *status)
{
    return ours(lookup_2(name, function, version, flags, status), function);
}
"""


def real_library():
    ctypes.CDLL("libcuda.so.1")
    return next(line.split()[-1] for line in open("/proc/self/maps") if "libcuda.so" in line)


def main():
    folder, real = pathlib.Path(sys.argv[1]), real_library()
    folder.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run(["nm", "-D", "--defined-only", real], capture_output=True, text=True, check=True).stdout.splitlines()
    names = sorted({line.split()[-1].split("@")[0] for line in listed if line.split()[-2] in "TtW"})
    names = [name for name in names if name.startswith("cu")]
    (folder / "stubs.S").write_text(".text\n" + "".join(
        f".globl {name}\n.type {name},@function\n{name}: pushq ${number}\njmp common\n"
        for number, name in enumerate(names) if name not in LOOKUPS) + COMMON)
    listed = ", ".join(f'"{name}"' for name in names)
    (folder / "proxy.c").write_text(
        "".join(f"extern char {name}[];\n" for name in names if name not in LOOKUPS)
        + "".join(f"int {name}();\n" for name in LOOKUPS)
        + f"static const char *const names[] = {{{listed}}};\nstatic void *const stubs[] = {{"
        + ", ".join(f"(void *){name}" for name in names) + f"}};\n#define REAL \"{real}\"\n"
        + PROXY)
    subprocess.run(["cc", "-w", "-O1", "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic", "-o", folder / "libcuda.so.1",
                    folder / "proxy.c", folder / "stubs.S", "-ldl", "-lpthread"], check=True)


if __name__ == "__main__":
    main()
