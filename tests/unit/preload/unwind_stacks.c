/* Stacks of many kinds, each walked by us and by libgcc (backtrace), who must say the same.
 *
 * unwind_stacks NAME...: runs these kinds, or all. Prints "NAME ok" or what differs; exit status 1 if any
 * does. */
#include <alloca.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { DEPTH = 128, MORE = 400 };
size_t probe(uint64_t addresses[DEPTH], int *truncated, uint64_t *hash);
void probe_forget(void);

static int failures, checks;
static const char *kind;
static bool shorter_allowed; /* libgcc goes on by guessing where no table knows the code */

static void fail(const char *what, const uint64_t *ours, size_t our_count, void **theirs, int their_count)
{
    failures++;
    printf("%s: %s\n", kind, what);
    for (int i = 0; i < (int)our_count || i < their_count; i++)
        printf("  %2d %12" PRIx64 " %12" PRIx64 "\n", i, i < (int)our_count ? ours[i] : 0,
               i < their_count ? (uint64_t)(uintptr_t)theirs[i] : 0);
}

/* The first address is that of the call itself, which differs. */
static __attribute__((noinline)) void check(void)
{
    uint64_t ours[DEPTH], again[DEPTH], hash, hash_again;
    void *theirs[MORE];
    int truncated, truncated_again;
    size_t our_count = probe(ours, &truncated, &hash);
    int their_count = backtrace(theirs, MORE);
    size_t again_count = probe(again, &truncated_again, &hash_again); /* now remembered */
    checks++;
    int wanted = their_count > DEPTH ? DEPTH : their_count;
    if (their_count > 1 && theirs[their_count - 1] == NULL)
        wanted--;
    if (our_count < 2 || our_count != again_count ||
        memcmp(ours + 1, again + 1, (our_count - 1) * sizeof *ours)) {
        fail("two walks differ", ours, our_count, (void **)again, (int)again_count);
        return;
    }
    if (shorter_allowed && (int)our_count < wanted)
        wanted = (int)our_count;
    if ((int)our_count != wanted || truncated != (their_count > DEPTH) ||
        memcmp(ours + 1, theirs + 1, (our_count - 1) * sizeof *ours))
        fail("not what libgcc says", ours, our_count, theirs, their_count);
}

static void simple(void)
{
    check();
}

static __attribute__((noinline)) int no_base(int depth)
{
    int below = 0;
    if (depth == 0)
        check();
    else
        below = no_base(depth - 1);
    __asm__ volatile("" : "+r"(below)); /* no tail call, so that each depth has its frame */
    return below + 1;
}

static void without_base_pointer(void)
{
    no_base(20);
}

static void deep(void)
{
    no_base(300);
}

static __attribute__((noinline)) void variable(size_t bytes)
{
    volatile char *memory = alloca(bytes);
    memory[0] = 1;
    check();
    memory[bytes - 1] = 1;
}

static void variable_frame(void)
{
    for (size_t bytes = 1; bytes < 100000; bytes = bytes * 3 + 7)
        variable(bytes);
}

static __attribute__((noinline)) void aligned(int depth, size_t bytes)
{
    volatile _Alignas(64) char wide[64];
    volatile char *memory = alloca(bytes);
    wide[0] = memory[0] = 1;
    if (depth)
        aligned(depth - 1, bytes + 3);
    else
        check();
    wide[1] = memory[bytes - 1] = 2;
    __asm__ volatile("" : : "r"(wide) : "memory");
}

static void aligned_frame(void)
{
    aligned(6, 33);
}

static __attribute__((noinline)) void huge(void)
{
    volatile char much[600 << 10];
    much[0] = 1;
    check();
    much[sizeof much - 1] = 1;
}

static void huge_frame(void)
{
    huge();
}

static int compare(const void *a, const void *b)
{
    static int calls;
    if (calls++ == 3)
        check();
    return *(const int *)a - *(const int *)b;
}

static void callback_of_libc(void)
{
    int values[] = {5, 3, 8, 1, 9, 2, 7};
    qsort(values, sizeof values / sizeof *values, sizeof *values, compare);
}

static void on_signal(int number)
{
    (void)number;
    check();
}

static void in_handler(void)
{
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    no_base(3);
    kill(getpid(), SIGUSR1);
}

static void on_fault(int number, siginfo_t *information, void *context)
{
    ucontext_t *at = context;
    (void)number;
    (void)information;
    check();
#if defined __aarch64__
    at->uc_mcontext.pc += 4; /* past udf */
#else
    at->uc_mcontext.gregs[REG_RIP] += 2; /* past ud2 */
#endif
}

static void in_fault_handler(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, NULL);
#if defined __aarch64__
    __asm__ volatile(".inst 0"); /* udf #0 */
#else
    __asm__ volatile("ud2");
#endif
}

enum { STACK_BYTES = 1 << 20 };

static void handle_on(void *memory)
{
    stack_t stack = {.ss_sp = memory, .ss_size = STACK_BYTES};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaltstack(&stack, NULL);
    sigaction(SIGUSR2, &action, NULL);
    raise(SIGUSR2);
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
}

static void *in_thread_between(void *middle)
{
    handle_on((char *)middle - STACK_BYTES);
    handle_on((char *)middle + STACK_BYTES);
    return NULL;
}

/* Handlers with a stack of their own, below and above the thread's. */
static void on_other_stack(void)
{
    char *memory = mmap(NULL, 3 * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attributes;
    pthread_t thread;
    handle_on(memory);
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, memory + STACK_BYTES, STACK_BYTES);
    if (pthread_create(&thread, &attributes, in_thread_between, memory + STACK_BYTES))
        fail("no thread", NULL, 0, NULL, 0);
    else
        pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    munmap(memory, 3 * STACK_BYTES);
}

static void *in_thread(void *unused)
{
    (void)unused;
    for (int i = 0; i < 30; i++)
        no_base(i);
    aligned_frame();
    return NULL;
}

static void threads(void)
{
    pthread_t made[8];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 8; i++)
            pthread_create(&made[i], NULL, in_thread, NULL);
        probe_forget();
        for (int i = 0; i < 8; i++)
            pthread_join(made[i], NULL);
    }
}

static ucontext_t main_context, other_context;

static void in_context(void)
{
    check();
    no_base(5);
}

/* A coroutine, whose stack ends where unreadable memory begins. */
static void coroutine_of(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    bytes = (bytes + page - 1) & -page;
    char *memory = mmap(NULL, bytes + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(memory + page, bytes, PROT_READ | PROT_WRITE);
    getcontext(&other_context);
    other_context.uc_stack.ss_sp = memory + page;
    other_context.uc_stack.ss_size = bytes;
    other_context.uc_link = &main_context;
    makecontext(&other_context, in_context, 0);
    swapcontext(&main_context, &other_context);
    munmap(memory, bytes + 2 * page);
}

static void coroutines(void)
{
    for (int i = 0; i < 50; i++)
        coroutine_of((size_t)(16 + i % 3 * 16) << 10);
}

/* Code without any table: what it returns to is not looked for, and nothing past the stack's end is read. */
static void generated_code(void)
{
#if defined __aarch64__
    static const uint32_t code[] = {0xa9bf7bfd, 0x910003fd, 0xd63f0000, 0xa8c17bfd,
                                    0xd65f03c0}; /* stp, mov, blr x0, ldp, ret */
#else
    static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5,
                                   0xff, 0xd7, 0x5d, 0xc3}; /* push, mov, call *rdi, pop, ret */
#endif
    uint8_t *memory =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(memory, code, sizeof code);
    __builtin___clear_cache((char *)memory, (char *)memory + sizeof code);
    void (*call)(void (*)(void));
    memcpy(&call, &memory, sizeof call);
    shorter_allowed = true;
    call(check);
    shorter_allowed = false;
    munmap(memory, 4096);
}

static const struct {
    const char *name;
    void (*run)(void);
} kinds[] = {
    {"simple", simple},
    {"without_base_pointer", without_base_pointer},
    {"deep", deep},
    {"variable_frame", variable_frame},
    {"aligned_frame", aligned_frame},
    {"huge_frame", huge_frame},
    {"callback_of_libc", callback_of_libc},
    {"in_handler", in_handler},
    {"in_fault_handler", in_fault_handler},
    {"on_other_stack", on_other_stack},
    {"threads", threads},
    {"coroutines", coroutines},
    {"generated_code", generated_code},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bool wanted = argc == 1;
        for (int a = 1; a < argc; a++)
            wanted |= strcmp(argv[a], kinds[i].name) == 0;
        if (!wanted)
            continue;
        int before = failures;
        checks = 0;
        kind = kinds[i].name;
        kinds[i].run();
        if (failures == before)
            printf("%s ok, %d walks\n", kind, checks);
    }
    return failures != 0;
}
