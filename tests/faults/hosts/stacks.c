/* Hosts whose stacks are not what a walk expects: coroutines, stacks made by hand, code without unwind
 * information. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "host.h"

enum { COROUTINES = 50, TURNS = 20 };

static ucontext_t main_context, contexts[COROUTINES];
static int turns[COROUTINES];

static void coroutine(int number)
{
    for (int turn = 0; turn < TURNS; turn++) {
        host_pair();
        turns[number]++;
        swapcontext(&contexts[number], &main_context);
    }
}

/* Stacks with a page below them that may not be touched. */
static char *guarded_stack(size_t bytes)
{
    char *memory = mmap(NULL, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + 4096, bytes, PROT_READ | PROT_WRITE))
        exit(3);
    return memory + 4096;
}

/* coroutines KIB: each runs on a stack of its own, by turns. */
static int coroutines(int count, char **arguments)
{
    size_t bytes = (size_t)atoi(count ? arguments[0] : "64") << 10;
    volatile int all = 0;
    host_begin();
    for (int i = 0; i < COROUTINES; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = guarded_stack(bytes);
        contexts[i].uc_stack.ss_size = bytes;
        contexts[i].uc_link = &main_context;
        makecontext(&contexts[i], (void (*)(void))coroutine, 1, i);
    }
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < COROUTINES; i++)
            swapcontext(&main_context, &contexts[i]);
    for (int i = 0; i < COROUTINES; i++)
        all = all + turns[i];
    host_say("turns %d\n", all);
    return 0;
}

/* Calls function on a stack of its own, with nothing above it to return to but this. */
__attribute__((naked, noinline)) static void call_on(void *top __attribute__((unused)),
                                                  void (*function)(void) __attribute__((unused)))
{
    __asm__("push %rbp\n\t"
            "push %rbx\n\t"
            "mov %rsp, %rbx\n\t"
            "mov %rdi, %rsp\n\t"
            "xor %ebp, %ebp\n\t"
            "call *%rsi\n\t"
            "mov %rbx, %rsp\n\t"
            "pop %rbx\n\t"
            "pop %rbp\n\t"
            "ret");
}

/* handmade KIB: as in Go's runtime, a small stack by hand, of which little is left when CUDA is called. */
static int handmade(int count, char **arguments)
{
    size_t bytes = (size_t)(count ? atoi(arguments[0]) : 16) << 10;
    host_begin();
    char *memory = guarded_stack(bytes);
    for (int i = 0; i < 1000; i++)
        call_on(memory + bytes, host_pair);
    host_say("fine\n");
    return 0;
}

/* Code made at run time, without a word of how to unwind it: sub rsp, 0x28; call *rdi; add rsp, 0x28; ret. */
static const unsigned char machine_code[] = {0x48, 0x83, 0xec, 0x28, 0xff, 0xd7,
                                             0x48, 0x83, 0xc4, 0x28, 0xc3};
/* The same with a frame pointer that points nowhere. */
static const unsigned char spoiled_code[] = {0x55, 0x48, 0xc7, 0xc5, 0x01, 0x00, 0x00, 0x00, 0x48, 0x83,
                                             0xec, 0x20, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x20, 0x5d, 0xc3};

static int jit(int count, char **arguments)
{
    (void)arguments;
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return 3;
    memcpy(page, count ? spoiled_code : machine_code, count ? sizeof spoiled_code : sizeof machine_code);
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    host_begin();
    for (int i = 0; i < 1000; i++)
        ((void (*)(void (*)(void)))(uintptr_t)page)(host_pair);
    host_say("fine\n");
    return 0;
}

/* Such code goes while its frames are being told of, and another takes its place. */
static int jit_goes(int count, char **arguments)
{
    (void)count, (void)arguments;
    host_begin();
    for (int i = 0; i < 1000; i++) {
        char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(page + i % 32 * 16, machine_code, sizeof machine_code);
        ((void (*)(void (*)(void)))(uintptr_t)(page + i % 32 * 16))(host_pair);
        munmap(page, 4096);
    }
    host_say("fine\n");
    return 0;
}

/* Ten thousand frames deep. */
static volatile int depth_seen;
__attribute__((noinline)) static void deep(int depth)
{
    volatile char some[64];
    some[0] = (char)depth;
    if (depth == 0)
        host_pair();
    else
        deep(depth - 1);
    depth_seen += some[0];
}

static int recursion(int count, char **arguments)
{
    (void)count, (void)arguments;
    host_begin();
    for (int i = 0; i < 100; i++)
        deep(100 * i);
    host_say("fine\n");
    return 0;
}

/* How far below its caller's frame a call writes: the pages below are told by their residence. */
static int stack_used(int count, char **arguments)
{
    (void)count, (void)arguments;
    size_t bytes = 256 << 10, untouched = 0;
    host_begin();
    host_pairs(2);
    char *memory = guarded_stack(bytes);
    memset(memory, 0x5a, bytes);
    call_on(memory + bytes, host_pair);
    while (untouched < bytes && memory[untouched] == 0x5a)
        untouched++;
    host_measure("stack_bytes", (double)(bytes - untouched), 16 << 10);
    return 0;
}

/* A signal's handler runs on its own stack, calls CUDA there, and jumps out of it. */
static sigjmp_buf back;
static void on_signal(int number)
{
    (void)number;
    host_block_pair();
    siglongjmp(back, 1);
}

static int handler_stack(int count, char **arguments)
{
    (void)count, (void)arguments;
    volatile int jumped = 0;
    stack_t stack = {.ss_sp = guarded_stack(32 << 10), .ss_size = 32 << 10};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_NODEFER};
    sigaltstack(&stack, NULL);
    sigaction(SIGUSR1, &action, NULL);
    host_begin();
    host_pairs(10);
    for (int i = 0; i < 500; i++)
        if (!sigsetjmp(back, 1))
            raise(SIGUSR1);
        else
            jumped = jumped + 1;
    host_say("jumped %d\n", jumped);
    return 0;
}

static const struct host_way ways[] = {
    {"coroutines", coroutines},       {"handmade", handmade},   {"jit", jit},
    {"jit_goes", jit_goes},           {"recursion", recursion}, {"stack_used", stack_used},
    {"handler_stack", handler_stack},
};
HOST_MAIN(ways)
