/* Hosts that live by signals: handlers that call CUDA, jump out of it, wait for all, count, block them. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host.h"

static _Atomic int handled;
static sigjmp_buf back;
static volatile sig_atomic_t may_jump;

static void handle(int number)
{
    (void)number;
    atomic_fetch_add(&handled, 1);
}

static void set_handler(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

static void tick_every(int microseconds)
{
    setitimer(ITIMER_REAL, &(struct itimerval){{0, microseconds}, {0, microseconds}}, NULL);
}

static void jump(int number)
{
    (void)number;
    if (may_jump) {
        may_jump = 0;
        siglongjmp(back, 1);
    }
}

/* Jumps out of calls, at any place of them. Those that take the stand-in's lock would keep it, bare as well;
 * so the framework's report is what is jumped out of: without the recorder there is nothing inside. */
static int jumps(int count, char **arguments)
{
    (void)count, (void)arguments;
    volatile int jumped = 0;
    host_begin();
    host_pairs(10);
    set_handler(SIGALRM, jump, SA_NODEFER);
    tick_every(500);
    while (jumped < 500) {
        if (sigsetjmp(back, 1)) {
            jumped++;
            continue;
        }
        may_jump = 1;
        for (int i = 0; i < 2000; i++)
            host_block_pair();
        may_jump = 0;
    }
    tick_every(0);
    for (int i = 0; i < 1000; i++)
        host_block_pair();
    host_pairs(100);
    host_say("jumped %d\n", jumped);
    return 0;
}

static void call_again(int number)
{
    (void)number;
    int saved = errno;
    atomic_fetch_add(&handled, 1);
    host_block_pair();
    errno = saved;
}

/* A handler calls CUDA while its thread is inside CUDA. */
static int calls_in_handler(int count, char **arguments)
{
    (void)count, (void)arguments;
    host_begin();
    host_pairs(10);
    set_handler(SIGALRM, call_again, SA_RESTART);
    tick_every(1000);
    while (atomic_load(&handled) < 300)
        host_pairs(20);
    tick_every(0);
    host_say("fine\n");
    return 0;
}

/* storm RESTART|NONE: a thousand signals a second; slow calls of the host are interrupted as often as without
 * us. */
static int storm(int count, char **arguments)
{
    if (count != 1)
        return 2;
    int interrupted = 0, ends[2];
    char one;
    sigset_t alarm_only;
    bool restart = !strcmp(arguments[0], "restart");
    set_handler(SIGALRM, handle, restart ? SA_RESTART : 0);
    tick_every(1000);
    host_begin();
    host_pairs(20000);
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    if (pipe(ends))
        return 3;
    if (!restart)
        for (int i = 0; i < 50; i++)
            interrupted += read(ends[0], &one, 1) < 0 && errno == EINTR;
    for (int before = atomic_load(&handled); atomic_load(&handled) < before + 200;)
        host_pairs(10);
    tick_every(0);
    host_say("interrupted %d\n", interrupted);
    return 0;
}

static _Atomic int wrong_thread;
static pthread_t own_threads[8];
static int own_count;
static void in_whose_thread(int number)
{
    (void)number;
    for (int i = 0; i < own_count; i++)
        if (pthread_equal(own_threads[i], pthread_self())) {
            atomic_fetch_add(&handled, 1);
            return;
        }
    atomic_fetch_add(&wrong_thread, 1);
}

static _Atomic bool over;
static void *works(void *argument)
{
    (void)argument;
    host_use_context();
    while (!atomic_load(&over))
        host_pair();
    return NULL;
}

/* Signals of the process go to threads of the host only. */
static int whose_thread(int count, char **arguments)
{
    (void)count, (void)arguments;
    set_handler(SIGUSR1, in_whose_thread, SA_RESTART);
    host_begin();
    own_threads[own_count++] = pthread_self();
    host_pairs(10);
    for (int i = 0; i < 3; i++) {
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        own_threads[own_count] = host_thread(works, NULL, 0);
        own_count++;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    for (int i = 0; i < 300; i++) {
        kill(getpid(), SIGUSR1);
        host_pair();
    }
    atomic_store(&over, true);
    for (int i = 1; i < own_count; i++)
        pthread_join(own_threads[i], NULL);
    host_say("handled %d, elsewhere %d\n", atomic_load(&handled), atomic_load(&wrong_thread));
    return 0;
}

/* All threads of the host block a signal: it stays pending for sigwait, and nobody else takes it. */
static int wait_for_all(int count, char **arguments)
{
    (void)count, (void)arguments;
    sigset_t all;
    int number = 0, received = 0;
    host_begin();
    host_pairs(10);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_t worker = host_thread(works, NULL, 0);
    const int numbers[] = {SIGUSR1,  SIGTERM,  SIGHUP,  SIGINT, SIGCHLD,
                           SIGRTMIN, SIGRTMAX, SIGPROF, SIGIO,  SIGWINCH};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        kill(getpid(), numbers[i]);
        host_nap_ms(5);
        sigtimedwait(&all, NULL, &(struct timespec){0}) == numbers[i] ? received++ : 0;
    }
    kill(getpid(), SIGUSR2);
    sigwait(&all, &number);
    atomic_store(&over, true);
    pthread_join(worker, NULL);
    host_say("received %d, then %d\n", received, number);
    return 0;
}

/* What is blocked, pending and handled stays as it was, in every thread, at every call. */
static void say_signals(const char *label)
{
    sigset_t blocked, waiting;
    struct sigaction action;
    int changed = 0;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    sigpending(&waiting);
    host_say("%s: blocked", label);
    for (int number = 1; number < 65; number++)
        if (sigismember(&blocked, number) == 1)
            host_say(" %d", number);
    host_say("; pending");
    for (int number = 1; number < 65; number++)
        if (sigismember(&waiting, number) == 1)
            host_say(" %d", number);
    for (int number = 1; number < 65; number++)
        changed += sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL;
    host_say("; handlers %d\n", changed);
}

static void *says_signals(void *argument)
{
    (void)argument;
    host_use_context();
    host_pairs(100);
    say_signals("thread");
    return NULL;
}

static int masks(int count, char **arguments)
{
    (void)count, (void)arguments;
    sigset_t some;
    say_signals("start");
    host_begin();
    host_pairs(10);
    say_signals("calls");
    pthread_join(host_thread(says_signals, NULL, 0), NULL);
    sigemptyset(&some);
    sigaddset(&some, SIGPIPE);
    sigaddset(&some, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &some, NULL);
    raise(SIGPIPE);
    raise(SIGUSR2);
    host_pairs(1000);
    pthread_join(host_thread(says_signals, NULL, 0), NULL);
    say_signals("end");
    return 0;
}

/* SIGPIPE: the host's own still kills it, or is counted, as it said. */
static int broken_pipe(int count, char **arguments)
{
    int ends[2];
    if (count)
        set_handler(SIGPIPE, handle, 0);
    host_begin();
    host_pairs(10);
    if (pipe(ends))
        return 3;
    close(ends[0]);
    ssize_t result = write(ends[1], "x", 1);
    host_pairs(10);
    host_say("write %zd, handled %d%s\n", result, atomic_load(&handled), count ? arguments[0] : "");
    return 0;
}

/* children HOW: counted by SIGCHLD, not waited for (SA_NOCLDWAIT), or by waitpid(-1) until none is left. */
static int children(int count, char **arguments)
{
    if (count != 1)
        return 2;
    int reaped = 0;
    set_handler(SIGCHLD, handle, SA_RESTART | (!strcmp(arguments[0], "nowait") ? SA_NOCLDWAIT : 0));
    host_begin();
    host_pairs(10);
    for (int i = 0; i < 20; i++) {
        int child = fork();
        if (!child) {
            for (int j = 0; j < 5; j++)
                host_block_pair();
            _exit(i);
        }
        host_pairs(50);
        if (!strcmp(arguments[0], "count")) {
            waitpid(child, NULL, 0);
            reaped++;
        }
    }
    while (wait(NULL) > 0)
        reaped++;
    host_say("reaped %d, %s; signals %s\n", reaped, strerror(errno),
             !strcmp(arguments[0], "count") ? atomic_load(&handled) == 20 ? "20" : "another number"
                                            : "not counted");
    return 0;
}

/* The host's alarm and timers go off when they should, once each. */
static int timers(int count, char **arguments)
{
    timer_t timer;
    (void)count, (void)arguments;
    set_handler(SIGALRM, handle, SA_RESTART);
    set_handler(SIGUSR1, handle, SA_RESTART);
    timer_create(CLOCK_MONOTONIC, &(struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1},
                 &timer);
    timer_settime(timer, 0, &(struct itimerspec){.it_value = {.tv_nsec = 200000000}}, NULL);
    alarm(1);
    host_begin();
    host_pairs(1000);
    host_nap_ms(500);
    host_pairs(1000);
    host_say("alarm has %s, handled %d\n", alarm(1) ? "time left" : "gone off", atomic_load(&handled));
    host_nap_ms(1300);
    host_say("handled %d\n", atomic_load(&handled));
    return 0;
}

/* Handlers on a stack of their own, which is small. */
static int other_stack(int count, char **arguments)
{
    (void)count, (void)arguments;
    size_t bytes = 16 << 10;
    char *memory = malloc(bytes + 4096);
    memset(memory, 0x5a, bytes + 4096);
    stack_t stack = {.ss_sp = memory + 4096, .ss_size = bytes}, now;
    sigaltstack(&stack, NULL);
    host_begin();
    host_pairs(10);
    set_handler(SIGALRM, call_again, SA_ONSTACK | SA_RESTART);
    tick_every(1000);
    while (atomic_load(&handled) < 300)
        host_pairs(20);
    tick_every(0);
    sigaltstack(NULL, &now);
    int spoiled = 0;
    for (int i = 0; i < 4096; i++)
        spoiled += memory[i] != 0x5a;
    host_say("the same stack: %d, spoiled below it: %d\n",
             now.ss_sp == stack.ss_sp && now.ss_size == stack.ss_size, spoiled);
    return 0;
}

/* dies HOW: by a signal of its own, in the middle. */
static void *kills_process(void *argument)
{
    host_use_context();
    host_pairs(100);
    raise(*(int *)argument);
    return NULL;
}

static int dies(int count, char **arguments)
{
    if (count != 1)
        return 2;
    static int number;
    number = atoi(arguments[0]);
    host_begin();
    host_pairs(100);
    pthread_join(host_thread(kills_process, &number, 0), NULL);
    host_say("lives\n");
    return 0;
}

/* A handler for SIGSEGV that mends the fault and goes on, as collectors and runtimes have. */
static sigjmp_buf fault_back;
static void on_fault(int number)
{
    (void)number;
    siglongjmp(fault_back, 1);
}

static int faults(int count, char **arguments)
{
    (void)count, (void)arguments;
    volatile int seen = 0;
    set_handler(SIGSEGV, on_fault, SA_NODEFER);
    host_begin();
    for (int i = 0; i < 200; i++) {
        if (!sigsetjmp(fault_back, 1))
            *(volatile int *)(uintptr_t)(8 + i) = 1;
        else
            seen = seen + 1;
        host_pairs(5);
    }
    host_say("faults %d\n", seen);
    return 0;
}

static const struct host_way ways[] = {
    {"jumps", jumps},
    {"calls_in_handler", calls_in_handler},
    {"storm", storm},
    {"whose_thread", whose_thread},
    {"wait_for_all", wait_for_all},
    {"masks", masks},
    {"broken_pipe", broken_pipe},
    {"children", children},
    {"timers", timers},
    {"other_stack", other_stack},
    {"dies", dies},
    {"faults", faults},
};
HOST_MAIN(ways)
