/* Hosts with little of something: address space, descriptors, file size, processes, stack, time. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host.h"

static void set_limit(int which, rlim_t value)
{
    struct rlimit limit = {value, value};
    if (setrlimit((__rlimit_resource_t)which, &limit))
        host_say("the limit cannot be set: %s\n", strerror(errno));
}

static void *one_pair(void *argument)
{
    (void)argument;
    host_use_context();
    host_pair();
    return NULL;
}

/* How many MiB can be allocated, in pieces of malloc's. */
static int fill(void **pieces, int limit)
{
    int count = 0;
    while (count < limit && (pieces[count] = malloc(1 << 20)))
        count++;
    return count;
}

/* address_space MIB WHEN: the limit stands from the start, or when CUDA is there. */
static int address_space(int count, char **arguments)
{
    static void *pieces[4096];
    if (count != 2)
        return 2;
    rlim_t bytes = (rlim_t)atoi(arguments[0]) << 20;
    bool first = !strcmp(arguments[1], "first");
    if (first)
        set_limit(RLIMIT_AS, bytes);
    host_begin();
    host_pairs(10);
    if (!first)
        set_limit(RLIMIT_AS, bytes);
    host_pairs(10);
    int made = fill(pieces, 4096);
    for (int i = made - 1; i >= 0 && i >= made - 2; i--) /* two are left to the calls, which the driver needs memory for */
        free(pieces[i]);
    host_pairs(10);
    for (int i = 0; i < made - 2; i++)
        free(pieces[i]);
    host_say("all calls worked\n");
    host_measure("allocated_mib", made, -12);
    return 0;
}

/* What a program of this size does: takes SIZE of MIB, makes a thread, maps a file. */
static int ordinary(int count, char **arguments)
{
    if (count != 2)
        return 2;
    set_limit(RLIMIT_AS, (rlim_t)atoi(arguments[0]) << 20);
    size_t bytes = (size_t)atoi(arguments[1]) << 20;
    host_begin();
    host_pairs(10);
    char *memory = malloc(bytes);
    host_say("memory %s\n", memory ? "is there" : strerror(errno));
    if (memory)
        memset(memory, 1, bytes);
    pthread_join(host_thread(one_pair, NULL, 0), NULL);
    int file = open("/proc/self/exe", O_RDONLY);
    void *mapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    host_say("file %s\n", mapped == MAP_FAILED ? strerror(errno) : "is mapped");
    host_pairs(10);
    return 0;
}

/* descriptors COUNT WHEN */
static int descriptors(int count, char **arguments)
{
    if (count != 2)
        return 2;
    int number, opened = 0;
    bool first = !strcmp(arguments[1], "first");
    if (first)
        set_limit(RLIMIT_NOFILE, (rlim_t)atoi(arguments[0]));
    host_begin();
    host_pairs(10);
    if (!first)
        set_limit(RLIMIT_NOFILE, (rlim_t)atoi(arguments[0]));
    while ((number = open("/dev/null", O_RDONLY)) >= 0) {
        opened++;
        host_say("%d ", number);
    }
    host_say("then %s\n", strerror(errno));
    host_pairs(10);
    pthread_join(host_thread(one_pair, NULL, 0), NULL);
    return 0;
}

/* file_size KIB WHEN ACTION: going over it is SIGXFSZ, which the host has ignored, or not. */
static int file_size(int count, char **arguments)
{
    if (count != 3)
        return 2;
    bool first = !strcmp(arguments[1], "first");
    if (!strcmp(arguments[2], "ignored"))
        signal(SIGXFSZ, SIG_IGN);
    if (first)
        set_limit(RLIMIT_FSIZE, (rlim_t)atoi(arguments[0]) << 10);
    host_begin();
    host_pairs(10);
    if (!first)
        set_limit(RLIMIT_FSIZE, (rlim_t)atoi(arguments[0]) << 10);
    for (int i = 0; i < 60; i++) {
        host_pairs(500);
        if (i % 20 == 0)
            pthread_join(host_thread(one_pair, NULL, 0), NULL);
    }
    host_say("fine\n");
    return 0;
}

/* No more processes and threads for this user. Root is not bound by it, so another user first. */
static int processes(int count, char **arguments)
{
    if (count != 1)
        return 2;
    bool first = !strcmp(arguments[0], "first");
    if (!first) {
        host_begin();
        host_pairs(10);
    }
    if (setresgid(64321, 64321, 64321) || setresuid(64321, 64321, 64321))
        return 3;
    set_limit(RLIMIT_NPROC, 1);
    if (first)
        host_begin();
    host_pairs(20);
    int child = fork();
    if (!child)
        _exit(0);
    host_say("fork: %s\n", child < 0 ? strerror(errno) : "worked");
    return 0;
}

static int thread_allowed(int count, char **arguments)
{
    pthread_t thread;
    (void)count, (void)arguments;
    if (setresgid(64322, 64322, 64322) || setresuid(64322, 64322, 64322))
        return 3;
    set_limit(RLIMIT_NPROC, 2);
    host_begin();
    host_pairs(20);
    /* One thread more than main is what the host needs, and what the limit gives. */
    int error = pthread_create(&thread, NULL, one_pair, NULL);
    host_say("thread: %s\n", error ? strerror(error) : "worked");
    if (!error)
        pthread_join(thread, NULL);
    return 0;
}

static int stack(int count, char **arguments)
{
    if (count != 1)
        return 2;
    set_limit(RLIMIT_STACK, (rlim_t)atoi(arguments[0]) << 10);
    host_begin();
    host_pairs(100);
    pthread_join(host_thread(one_pair, NULL, 0), NULL);
    host_say("fine\n");
    return 0;
}

/* A second of the processor's time, then SIGXCPU: the host does not come near it, and sleeps. */
static int processor_time(int count, char **arguments)
{
    (void)count, (void)arguments;
    host_begin();
    host_pairs(10);
    set_limit(RLIMIT_CPU, 1);
    host_nap_ms(1500);
    host_pairs(10);
    host_say("fine\n");
    return 0;
}

/* How much the process takes while the host sleeps. */
static int idle(int count, char **arguments)
{
    struct timespec before, after;
    (void)count, (void)arguments;
    host_begin();
    host_pairs(10);
    host_nap_ms(200);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    host_nap_ms(1000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    host_measure(
        "idle_cpu_ms",
        (double)(after.tv_sec - before.tv_sec) * 1e3 + (double)(after.tv_nsec - before.tv_nsec) / 1e6, 20);
    return 0;
}

/* How much memory the process has at the end of its work. */
static int resident(int count, char **arguments)
{
    (void)count, (void)arguments;
    struct rusage usage;
    host_begin();
    for (int i = 0; i < 20; i++) {
        host_pairs(5000);
        pthread_join(host_thread(one_pair, NULL, 0), NULL);
    }
    getrusage(RUSAGE_SELF, &usage);
    host_measure("resident_mib", (double)usage.ru_maxrss / 1024, 16);
    return 0;
}

/* All memory is locked, before the first call or after it. */
static int lock_memory(int count, char **arguments)
{
    if (count != 1)
        return 2;
    bool first = !strcmp(arguments[0], "first");
    if (first)
        host_say("mlockall: %s\n", mlockall(MCL_CURRENT | MCL_FUTURE) ? strerror(errno) : "worked");
    host_begin();
    host_pairs(10);
    if (!first)
        host_say("mlockall: %s\n", mlockall(MCL_CURRENT | MCL_FUTURE) ? strerror(errno) : "worked");
    pthread_join(host_thread(one_pair, NULL, 0), NULL);
    host_pairs(100);
    return 0;
}

/* A limit on locked memory, and everything of the future is to be locked. Root is not bound by it. */
static int lock_little(int count, char **arguments)
{
    (void)count, (void)arguments;
    if (setresgid(64323, 64323, 64323) || setresuid(64323, 64323, 64323))
        return 3;
    set_limit(RLIMIT_MEMLOCK, 64 << 20);
    host_say("mlockall: %s\n", mlockall(MCL_CURRENT | MCL_FUTURE) ? strerror(errno) : "worked");
    host_begin();
    host_pairs(20);
    pthread_join(host_thread(one_pair, NULL, 64 << 10), NULL);
    void *memory = malloc(16 << 20);
    host_say("memory %s\n", memory ? "is there" : strerror(errno));
    return 0;
}

/* Queues of signals are a limit too: timers need one place each. */
static int pending_signals(int count, char **arguments)
{
    timer_t timer;
    int made = 0;
    (void)count, (void)arguments;
    if (setresgid(64324, 64324, 64324) || setresuid(64324, 64324, 64324))
        return 3;
    set_limit(RLIMIT_SIGPENDING, 16);
    host_begin();
    host_pairs(20);
    while (made < 100 &&
           !timer_create(CLOCK_MONOTONIC,
                         &(struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1}, &timer))
        made++;
    host_say("%d timers\n", made);
    return 0;
}

static const struct host_way ways[] = {
    {"address_space", address_space},
    {"ordinary", ordinary},
    {"descriptors", descriptors},
    {"file_size", file_size},
    {"processes", processes},
    {"thread_allowed", thread_allowed},
    {"stack", stack},
    {"processor_time", processor_time},
    {"idle", idle},
    {"resident", resident},
    {"lock_memory", lock_memory},
    {"lock_little", lock_little},
    {"pending_signals", pending_signals},
};
HOST_MAIN(ways)
