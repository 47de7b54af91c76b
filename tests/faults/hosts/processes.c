/* Hosts that make processes, in every way there is. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

extern char **environ;

static int ordinary(int count, char **arguments)
{
    int pairs = count ? atoi(arguments[0]) : 100;
    host_begin();
    host_pairs(pairs);
    host_say("%d pairs\n", pairs);
    return 0;
}

/* No CUDA at all. */
static int bystander(int count, char **arguments)
{
    (void)count, (void)arguments;
    host_list_descriptors("open");
    host_say("tasks %d\n", host_count_tasks());
    return 0;
}

static void blocks_and_exit(int count, int status)
{
    for (int i = 0; i < count; i++)
        host_block_pair();
    _exit(status);
}

/* workers COUNT DEPTH: a tree of children, each of which works. */
static void tree(int width, int depth)
{
    pid_t list[64];
    for (int i = 0; i < width; i++) {
        list[i] = fork();
        if (!list[i]) {
            if (depth > 1)
                tree(width, depth - 1);
            blocks_and_exit(20, 0);
        }
    }
    for (int i = 0; i < width; i++) {
        int status = -1;
        waitpid(list[i], &status, 0);
        if (status)
            host_say("a child ended with %x\n", status);
    }
}

static int workers(int count, char **arguments)
{
    if (count != 2)
        return 2;
    host_begin();
    host_pairs(10);
    tree(atoi(arguments[0]), atoi(arguments[1]));
    host_pairs(10);
    host_say("all are back\n");
    return 0;
}

/* Workers that begin CUDA themselves, each after the fork. */
static int own_cuda(int count, char **arguments)
{
    (void)count, (void)arguments;
    pid_t list[16];
    for (int i = 0; i < 16; i++) {
        list[i] = fork();
        if (!list[i]) {
            host_begin();
            host_pairs(50);
            exit(i);
        }
    }
    for (int i = 0; i < 16; i++)
        host_wait(list[i], "worker");
    return 0;
}

/* vfork HOW: the child has this process's memory until it is another program. */
static int vforks(int count, char **arguments)
{
    (void)arguments;
    host_begin();
    host_pairs(10);
    for (int i = 0; i < 20; i++) {
        pid_t child = vfork();
        if (!child) {
            if (count)
                _exit(3);
            execl("/bin/true", "true", NULL);
            _exit(127);
        }
        int status = -1;
        waitpid(child, &status, 0);
        if (status != (count ? 3 << 8 : 0))
            host_say("child ended with %x\n", status);
        host_pairs(10);
    }
    host_say("fine\n");
    return 0;
}

static int spawns(int count, char **arguments)
{
    (void)arguments;
    host_begin();
    host_pairs(10);
    for (int i = 0; i < 20; i++) {
        pid_t child;
        char *command[] = {"processes", count ? "ordinary" : "bystander", "5", NULL};
        int error = posix_spawn(&child, "/proc/self/exe", NULL, NULL, command, environ);
        if (error)
            host_say("not started: %s\n", strerror(error));
        else
            host_wait(child, "program");
    }
    return 0;
}

/* A child that shares this process's memory, but is a process of its own, and calls CUDA. */
static int shares_memory(void *argument)
{
    host_pairs(*(int *)argument);
    return 5;
}

static int clones(int count, char **arguments)
{
    if (count != 1)
        return 2;
    int some = 50, flags = SIGCHLD | CLONE_VM;
    size_t bytes = 256 << 10;
    if (!strcmp(arguments[0], "files"))
        flags |= CLONE_FILES | CLONE_FS;
    host_begin();
    host_pairs(10);
    char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 5; i++)
        host_wait(clone(shares_memory, stack + bytes, flags, &some), "clone");
    host_pairs(10);
    return 0;
}

static _Atomic int forked;
static volatile sig_atomic_t child_returns, is_child;

/* The child works in the handler; or it returns to the call that the handler interrupted, and goes on from
 * there. */
static void forks_in_handler(int number)
{
    (void)number;
    int saved = errno;
    pid_t child = atomic_load(&forked) < 100 ? fork() : -1;
    if (!child && child_returns) {
        is_child = 1;
        errno = saved;
        return;
    }
    if (!child)
        blocks_and_exit(3, 0);
    if (child > 0) {
        int status = 0;
        waitpid(child, &status, 0);
        if (status)
            host_say("child ended with %x\n", status);
        atomic_fetch_add(&forked, 1);
    }
    errno = saved;
}

/* fork() in a handler, at any place of a call. The driver's own lock would be held in the child, bare as
 * well: so the framework's report it is. */
static int fork_in_handler(int count, char **arguments)
{
    (void)arguments;
    child_returns = count == 1;
    struct sigaction action = {.sa_handler = forks_in_handler, .sa_flags = SA_RESTART};
    host_begin();
    host_pairs(10);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 3000}, {0, 3000}}, NULL);
    while (atomic_load(&forked) < 100)
        for (int i = 0; i < 100; i++) {
            host_block_pair();
            if (is_child)
                blocks_and_exit(3, 0);
        }
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    host_say("fine\n");
    return 0;
}

/* The same while much is looked up: at the first blocks after a library was loaded. */
static int fork_in_handler_after_load(int count, char **arguments)
{
    struct sigaction action = {.sa_handler = forks_in_handler, .sa_flags = SA_RESTART};
    (void)count, (void)arguments;
    host_begin();
    host_pairs(10);
    sigaction(SIGALRM, &action, NULL);
    for (int i = 0; i < 12; i++) {
        void *library = dlopen("libBrokenLocale.so.1", RTLD_NOW | RTLD_LOCAL);
        host_nap_ms(220); /* until the recorder knows */
        const int before = atomic_load(&forked);
        setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 10 + 10 * i}}, NULL);
        while (atomic_load(&forked) == before)
            host_block_pair();
        dlclose(library);
    }
    host_say("fine\n");
    return 0;
}

static _Atomic bool over;
static void *works(void *argument)
{
    (void)argument;
    host_use_context();
    while (!atomic_load(&over)) {
        host_pair();
        host_block_pair();
    }
    return NULL;
}

static int fork_while_working(int count, char **arguments)
{
    pthread_t list[4];
    int forks = count ? atoi(arguments[0]) : 100, wrong = 0;
    host_begin();
    for (int i = 0; i < 4; i++)
        list[i] = host_thread(works, NULL, 0);
    for (int i = 0; i < forks; i++) {
        pid_t child = fork();
        int status = 0;
        if (!child)
            blocks_and_exit(5, 0);
        waitpid(child, &status, 0);
        wrong += status != 0;
    }
    atomic_store(&over, true);
    for (int i = 0; i < 4; i++)
        pthread_join(list[i], NULL);
    host_say("wrong %d\n", wrong);
    return 0;
}

static void *forks(void *argument)
{
    (void)argument;
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (!child)
            blocks_and_exit(2, 0);
        int status = 1;
        waitpid(child, &status, 0);
        if (status)
            host_say("child ended with %x\n", status);
        host_block_pair();
    }
    return NULL;
}

static int fork_in_threads(int count, char **arguments)
{
    (void)count, (void)arguments;
    pthread_t list[4];
    host_begin();
    host_pairs(10);
    for (int i = 0; i < 4; i++)
        list[i] = host_thread(forks, NULL, 0);
    for (int i = 0; i < 4; i++)
        pthread_join(list[i], NULL);
    host_say("fine\n");
    return 0;
}

/* Another program takes this process, while threads call CUDA. It is traced too, in a file of its own. */
static int exec_after(int count, char **arguments)
{
    (void)arguments;
    host_begin();
    host_pairs(10);
    if (count)
        for (int i = 0; i < 4; i++)
            pthread_detach(host_thread(works, NULL, 0));
    host_nap_ms(20);
    execl("/proc/self/exe", "processes", "ordinary", "20", NULL);
    return 3;
}

static int exec_bystander(int count, char **arguments)
{
    (void)count, (void)arguments;
    host_begin();
    host_pairs(10);
    execl("/proc/self/exe", "processes", "bystander", NULL);
    return 3;
}

/* exec fails, the process goes on. */
static int exec_fails(int count, char **arguments)
{
    (void)count, (void)arguments;
    host_begin();
    host_pairs(10);
    execl("/no/such/program", "program", NULL);
    host_say("%s\n", strerror(errno));
    host_pairs(10);
    return 0;
}

/* A tracer steps through the stops of its child: as many as without us would be seen at signals and execs. */
static int traced(int count, char **arguments)
{
    (void)count, (void)arguments;
    int status = 0, stops = 0, execs = 0;
    pid_t child = fork();
    if (!child) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        host_begin();
        host_pairs(100);
        raise(SIGUSR1);
        host_pairs(100);
        exit(6);
    }
    waitpid(child, &status, 0);
    ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(intptr_t)(PTRACE_O_TRACEEXEC | PTRACE_O_TRACEFORK));
    ptrace(PTRACE_CONT, child, NULL, NULL);
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        stops++;
        execs += status >> 16 != 0;
        ptrace(PTRACE_CONT, child, NULL, NULL);
    }
    host_say("%d stops, %d events, status %x\n", stops, execs, status);
    return 0;
}

/* Every system call of the host's main thread is watched. How many there are is ours to keep small. */
static int watched(int count, char **arguments)
{
    (void)count, (void)arguments;
    int status = 0;
    pid_t child = fork();
    if (!child) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        host_begin();
        host_pairs(1000);
        _exit(6);
    }
    waitpid(child, &status, 0);
    ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(intptr_t)PTRACE_O_TRACESYSGOOD);
    do
        ptrace(PTRACE_SYSCALL, child, NULL, NULL);
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    host_say("status %x\n", status);
    return 0;
}

/* killed COUNT: programs that begin CUDA are killed at a random time after their start, from 0 to 50 ms. */
static int killed(int count, char **arguments)
{
    unsigned seed = 20261122;
    int programs = count ? atoi(arguments[0]) : 50, other = 0;
    for (int i = 0; i < programs; i++) {
        int status = 0;
        pid_t child = fork();
        if (!child) {
            execl("/proc/self/exe", "processes", "ordinary", "100000000", NULL);
            _exit(127);
        }
        usleep((useconds_t)(rand_r(&seed) % 50000));
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        other += !WIFSIGNALED(status);
    }
    host_say("%d ended in another way\n", other);
    return 0;
}

/* meddles HOW: something of the host tidies up the folder of the traces while they are written. */
static int meddles(int count, char **arguments)
{
    if (count != 1)
        return 2;
    host_begin();
    host_pairs(1000);
    DIR *folder = opendir("../trace");
    if (!folder || chdir("../trace"))
        return 3;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        if (!strcmp(arguments[0], "truncate") ? truncate(entry->d_name, 0)
            : !strcmp(arguments[0], "remove") ? unlink(entry->d_name)
                                              : rename(entry->d_name, "moved.vrt"))
            host_say("could not: %s\n", strerror(errno));
    }
    closedir(folder);
    for (int i = 0; i < 20; i++) {
        host_pairs(2000);
        host_nap_ms(5);
    }
    host_say("fine\n");
    return 0;
}

/* Stopped and continued, as by a shell's jobs, while it works. */
static int stopped(int count, char **arguments)
{
    (void)count, (void)arguments;
    int status = 0, stops = 0;
    pid_t child = fork();
    if (!child) {
        host_begin();
        for (int i = 0; i < 60; i++) {
            host_pairs(100);
            host_nap_ms(10);
        }
        exit(8);
    }
    for (int i = 0; i < 5; i++) {
        host_nap_ms(60);
        kill(child, SIGSTOP);
        stops += waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status);
        host_nap_ms(60);
        kill(child, SIGCONT);
    }
    host_wait(child, "child");
    host_say("%d stops\n", stops);
    return 0;
}

/* What the host does around each fork calls CUDA too. */
static int handlers_of_fork(int count, char **arguments)
{
    (void)count, (void)arguments;
    host_begin();
    host_pairs(10);
    pthread_atfork(host_block_pair, host_block_pair, host_block_pair);
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (!child)
            blocks_and_exit(3, i);
        host_wait(child, "child");
    }
    return 0;
}

static void *exits(void *argument)
{
    host_use_context();
    host_pairs(10);
    if (!strcmp(argument, "thread"))
        exit(11);
    _exit(11);
}

static void on_alarm(int number)
{
    (void)number;
    _exit(11);
}

static void aborts(void)
{
    host_pair();
    abort();
}

/* ends HOW: in a way that is not a return from main. */
static int ends(int count, char **arguments)
{
    if (count != 1)
        return 2;
    host_begin();
    host_pairs(10);
    if (!strcmp(arguments[0], "handler")) {
        signal(SIGALRM, on_alarm);
        setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 20000}}, NULL);
        for (;;)
            host_pair();
    }
    if (!strcmp(arguments[0], "atexit")) {
        atexit(aborts);
        return 0;
    }
    pthread_join(host_thread(exits, arguments[0], 0), NULL);
    return 0;
}

static const struct host_way ways[] = {
    {"ordinary", ordinary},
    {"bystander", bystander},
    {"workers", workers},
    {"own_cuda", own_cuda},
    {"vfork", vforks},
    {"spawn", spawns},
    {"clone", clones},
    {"fork_in_handler", fork_in_handler},
    {"fork_in_handler_after_load", fork_in_handler_after_load},
    {"fork_while_working", fork_while_working},
    {"fork_in_threads", fork_in_threads},
    {"exec_after", exec_after},
    {"exec_bystander", exec_bystander},
    {"exec_fails", exec_fails},
    {"traced", traced},
    {"watched", watched},
    {"killed", killed},
    {"meddles", meddles},
    {"stopped", stopped},
    {"handlers_of_fork", handlers_of_fork},
    {"ends", ends},
};
HOST_MAIN(ways)
