/* Hosts that end, cancel, freeze, shrink and count their threads. */
#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int cleaned, in_loop;

static void unlock(void *argument)
{
    pthread_mutex_unlock(argument);
    atomic_fetch_add(&cleaned, 1);
}

static void *until_cancelled(void *argument)
{
    (void)argument;
    host_use_context();
    atomic_fetch_add(&in_loop, 1);
    for (;;) {
        pthread_mutex_lock(&lock);
        pthread_cleanup_push(unlock, &lock);
        host_pair();
        pthread_cleanup_pop(1);
        pthread_testcancel();
    }
}

static void count_cleaned(void *argument)
{
    atomic_fetch_add((_Atomic int *)argument, 1);
}

/* At any place of a call. The driver's lock would be left taken, bare as well: so the framework's report it
 * is. */
static void *cancelled_anywhere(void *argument)
{
    int type;
    (void)argument;
    host_block_pair();
    pthread_cleanup_push(count_cleaned, &cleaned);
    atomic_fetch_add(&in_loop, 1);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    for (;;)
        host_block_pair();
    pthread_cleanup_pop(0);
    return NULL;
}

static void *cancelled_at_first_call(void *argument)
{
    (void)argument;
    pthread_mutex_lock(&lock);
    pthread_cleanup_push(unlock, &lock);
    host_use_context();
    atomic_fetch_add(&in_loop, 1);
    host_pair();
    pthread_testcancel();
    pthread_cleanup_pop(1);
    return NULL;
}

static double time_of_forks(int count)
{
    double began = host_seconds();
    for (int i = 0; i < count; i++) {
        int child = fork();
        if (!child)
            _exit(0);
        waitpid(child, NULL, 0);
    }
    return (host_seconds() - began) * 1000 / count;
}

/* cancel KIND COUNT: deferred; asynchronous; or first, which is cancelled at its first call. */
static int cancel(int count, char **arguments)
{
    if (count != 2)
        return 2;
    bool first = !strcmp(arguments[0], "first");
    int threads = atoi(arguments[1]), ended = 0;
    void *(*body)(void *) = first                                  ? cancelled_at_first_call
                            : strcmp(arguments[0], "asynchronous") ? until_cancelled
                                                                   : cancelled_anywhere;
    host_begin();
    if (!first)
        host_pair();
    double before = time_of_forks(5);
    for (int i = 0; i < threads; i++) {
        void *result;
        atomic_store(&in_loop, 0);
        pthread_t thread = host_thread(body, NULL, 0);
        while (!atomic_load(&in_loop))
            sched_yield();
        if (i % 4)
            usleep((useconds_t)(i * 7 % 300));
        pthread_cancel(thread);
        pthread_join(thread, &result);
        ended += result == PTHREAD_CANCELED || first;
    }
    double after = time_of_forks(20);
    pthread_mutex_lock(&lock);
    host_pairs(10);
    host_say("ended %d, lock is free, cleaned up: %s\n", ended,
             atomic_load(&cleaned) >= threads / 2 ? "yes" : "no");
    host_measure("fork_ms_before", before, 40);
    host_measure("fork_ms_after", after, 40);
    return 0;
}

/* A thread whose cancellation is pending, in a state where it may come: the call is no place for it where the
 * bare one is none. The stand-in's calls take a lock only, so they are none. */
static void *pending(void *argument)
{
    host_use_context();
    pthread_mutex_lock(&lock);
    pthread_cleanup_push(unlock, &lock);
    pthread_cancel(pthread_self());
    host_pairs(100);
    *(int *)argument = 1;
    pthread_testcancel();
    *(int *)argument = 2;
    pthread_cleanup_pop(1);
    return NULL;
}

static int cancel_pending(int count, char **arguments)
{
    (void)arguments;
    int reached[200] = {0}, came_through = 0;
    host_begin();
    if (count)
        host_pair();
    for (int i = 0; i < 200; i++) {
        pthread_join(host_thread(pending, &reached[i], 0), NULL);
        came_through += reached[i] == 1;
    }
    host_say("%d of 200 came through the calls, %d cleaned up\n", came_through, atomic_load(&cleaned));
    host_measure("fork_ms", time_of_forks(20), 40);
    return 0;
}

static void *works_on(void *argument)
{
    host_use_context();
    host_nap_ms(*(int *)argument);
    host_pairs(100);
    host_say("last thread ends\n");
    return NULL;
}

/* main ends by pthread_exit: the process ends when its last own thread does. */
static int exit_of_main(int count, char **arguments)
{
    (void)count, (void)arguments;
    static int wait_ms = 100;
    host_begin();
    host_pairs(10);
    pthread_detach(host_thread(works_on, &wait_ms, 0));
    pthread_exit(NULL);
}

/* main has gone, its last thread hangs around: SIGTERM ends the process. */
static void *sleeps(void *argument)
{
    (void)argument;
    host_use_context();
    host_pairs(10);
    for (;;)
        pause();
    return NULL;
}

static int terminated_without_main(int count, char **arguments)
{
    (void)count, (void)arguments;
    int child = fork();
    if (!child) {
        host_begin();
        host_pairs(10);
        pthread_detach(host_thread(sleeps, NULL, 0));
        pthread_exit(NULL);
    }
    host_nap_ms(300);
    kill(child, SIGTERM);
    host_wait(child, "child");
    return 0;
}

/* Only main, and it ends as a thread: nothing of the host is left. */
static int exit_of_only_main(int count, char **arguments)
{
    (void)count, (void)arguments;
    host_begin();
    host_pairs(10);
    pthread_exit(NULL);
}

static void *one_pair(void *argument)
{
    (void)argument;
    host_use_context();
    host_pair();
    return NULL;
}

/* short COUNT: threads one after the other. run.py looks at how much of the trace each event takes. */
static int short_threads(int count, char **arguments)
{
    int threads = count ? atoi(arguments[0]) : 800;
    host_begin();
    for (int i = 0; i < threads; i++)
        pthread_join(host_thread(one_pair, NULL, 0), NULL);
    host_say("%d threads\n", threads);
    return 0;
}

static int together(int count, char **arguments)
{
    static pthread_t list[1000];
    int threads = count ? atoi(arguments[0]) : 200;
    host_begin();
    for (int i = 0; i < threads; i++)
        list[i] = host_thread(one_pair, NULL, 64 << 10);
    for (int i = 0; i < threads; i++)
        pthread_join(list[i], NULL);
    host_say("%d threads\n", threads);
    return 0;
}

static int smallest_stacks(int count, char **arguments)
{
    size_t bytes = count ? (size_t)atoi(arguments[0]) << 10 : PTHREAD_STACK_MIN;
    host_begin();
    for (int i = 0; i < 50; i++)
        pthread_join(host_thread(one_pair, NULL, bytes), NULL);
    host_say("50 threads on %zu bytes\n", bytes);
    return 0;
}

static int count_tasks(int count, char **arguments)
{
    (void)count, (void)arguments;
    host_say("at start %d\n", host_count_tasks());
    host_begin();
    host_say("CUDA is there %d\n", host_count_tasks());
    host_pair();
    host_say("one call %d\n", host_count_tasks());
    pthread_join(host_thread(one_pair, NULL, 0), NULL);
    host_nap_ms(50);
    host_say("a thread has been %d\n", host_count_tasks());
    return 0;
}

static void *settings_of_thread(void *argument)
{
    char name[32] = "", line[256];
    cpu_set_t set;
    sigset_t mask;
    struct sched_param parameters;
    int policy;
    host_use_context();
    host_pairs(20);
    pthread_getname_np(pthread_self(), name, sizeof name);
    pthread_getaffinity_np(pthread_self(), sizeof set, &set);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    pthread_getschedparam(pthread_self(), &policy, &parameters);
    int used = snprintf(line, sizeof line, "%s: %s, nice %d, policy %d, processors %s, blocked",
                        (const char *)argument, name, getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid)),
                        policy, CPU_ISSET(0, &set) && CPU_COUNT(&set) == 1 ? "first" : "all");
    for (int number = 1; number < 65; number++)
        if (sigismember(&mask, number) == 1)
            used += snprintf(line + used, sizeof line - (size_t)used, " %d", number);
    host_say("%s\n", line);
    return NULL;
}

/* Name, processors, niceness, signals of each thread stay as the host set them. */
static int settings(int count, char **arguments)
{
    (void)count, (void)arguments;
    cpu_set_t first;
    sigset_t some;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    sigaddset(&some, SIGTERM);
    pthread_setname_np(pthread_self(), "a host's name");
    host_begin();
    settings_of_thread("main");
    pthread_join(host_thread(settings_of_thread, "plain", 0), NULL);
    pthread_sigmask(SIG_BLOCK, &some, NULL);
    pthread_setaffinity_np(pthread_self(), sizeof first, &first);
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 7);
    settings_of_thread("main, bound");
    pthread_join(host_thread(settings_of_thread, "bound", 0), NULL);
    return 0;
}

static pthread_key_t key;
static _Atomic int destroyed;

static void calls_cuda(void *argument)
{
    (void)argument;
    host_pairs(3);
    atomic_fetch_add(&destroyed, 1);
}

static void *with_destructor(void *argument)
{
    host_use_context();
    pthread_setspecific(key, &key);
    if (argument)
        host_pair();
    return NULL;
}

/* Destructors of a thread's data call CUDA when all else of the thread has gone. */
static int thread_destructors(int count, char **arguments)
{
    (void)count, (void)arguments;
    host_begin();
    pthread_key_create(&key, calls_cuda);
    for (int i = 0; i < 100; i++)
        pthread_join(host_thread(with_destructor, i % 2 ? &key : NULL, 0), NULL);
    host_say("destroyed %d\n", atomic_load(&destroyed));
    return 0;
}

/* All the keys for a thread's data are the host's. */
static int all_keys(int count, char **arguments)
{
    (void)arguments;
    pthread_key_t made;
    int keys = 0;
    if (count)
        host_begin(), host_pairs(10);
    while (!pthread_key_create(&made, NULL))
        keys++;
    if (!count)
        host_begin();
    host_pairs(10);
    host_say("%d keys\n", keys);
    return 0;
}

static _Atomic int frozen, thaw;
static void freeze(int number)
{
    (void)number;
    int saved = errno;
    atomic_fetch_add(&frozen, 1);
    while (!atomic_load(&thaw))
        syscall(SYS_futex, &thaw, FUTEX_WAIT, 0, NULL, NULL, 0);
    errno = saved;
}

/* The driver's lock would be held by who is frozen, bare as well: so the framework's report it is. */
static _Atomic bool over;
static void *blocks_until_over(void *argument)
{
    (void)argument;
    while (!atomic_load(&over))
        host_block_pair();
    return NULL;
}

static void *pairs_until_over(void *argument)
{
    (void)argument;
    host_use_context();
    while (!atomic_load(&over))
        host_pair();
    return NULL;
}

static void *many_pairs(void *argument)
{
    host_use_context();
    host_pairs(*(int *)argument);
    return NULL;
}

/* Threads stand still in the middle of their calls, for a second; the others go on, and their events are
 * recorded. */
static int freeze_one(int count, char **arguments)
{
    (void)count, (void)arguments;
    static int each = 20000;
    pthread_t slow[4], quick[2];
    struct sigaction action = {.sa_handler = freeze, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    host_begin();
    for (int i = 0; i < 4; i++)
        slow[i] = host_thread(blocks_until_over, NULL, 0);
    for (int i = 0; i < 4; i++) {
        host_nap_ms(11);
        pthread_kill(slow[i], SIGUSR1);
    }
    while (atomic_load(&frozen) < 4)
        host_nap_ms(1);
    for (int i = 0; i < 2; i++)
        quick[i] = host_thread(many_pairs, &each, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(quick[i], NULL);
    host_nap_ms(300);
    host_say("others went on\n");
    atomic_store(&over, true);
    atomic_store(&thaw, 1);
    syscall(SYS_futex, &thaw, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    for (int i = 0; i < 4; i++)
        pthread_join(slow[i], NULL);
    return 0;
}

/* exit() while other threads are in their calls. */
static int exit_while_working(int count, char **arguments)
{
    (void)count;
    host_begin();
    for (int i = 0; i < 4; i++)
        pthread_detach(host_thread(pairs_until_over, NULL, 0));
    host_nap_ms(50);
    host_say("exits\n");
    if (arguments[0])
        quick_exit(9);
    exit(9);
}

static const struct host_way ways[] = {
    {"cancel", cancel},
    {"cancel_pending", cancel_pending},
    {"exit_of_main", exit_of_main},
    {"exit_of_only_main", exit_of_only_main},
    {"terminated_without_main", terminated_without_main},
    {"short", short_threads},
    {"together", together},
    {"smallest_stacks", smallest_stacks},
    {"count_tasks", count_tasks},
    {"settings", settings},
    {"thread_destructors", thread_destructors},
    {"all_keys", all_keys},
    {"freeze", freeze_one},
    {"exit_while_working", exit_while_working},
};
HOST_MAIN(ways)
