/* Hosts that lock themselves in: system calls, root folder, user, namespaces. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

static _Atomic int trapped;
static void on_trap(int number, siginfo_t *information, void *context)
{
    (void)number, (void)information, (void)context;
    atomic_fetch_add(&trapped,
                     1); /* the call's result is then what was in its register: the number of the call */
}

/* What a program in a sandbox still needs, of which the stand-in's calls need nothing but futex. All else is
 * forbidden. */
static const int allowed[] = {
    SYS_write,          SYS_futex,        SYS_exit,      SYS_exit_group,      SYS_rt_sigreturn,
    SYS_rt_sigprocmask, SYS_mmap,         SYS_munmap,    SYS_mprotect,        SYS_brk,
    SYS_madvise,        SYS_clone,        SYS_clone3,    SYS_set_robust_list, SYS_rseq,
    SYS_getpid,         SYS_gettid,       SYS_nanosleep, SYS_clock_nanosleep, SYS_sched_yield,
    SYS_tgkill,         SYS_rt_sigaction,
};

/* forbid ACTION: everything but those, for all threads (TSYNC) or for this one. */
static int forbid(unsigned action, bool all_threads)
{
    enum { COUNT = sizeof allowed / sizeof *allowed };
    struct sock_filter code[COUNT * 2 + 2];
    size_t used = 0;
    code[used++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < COUNT; i++) {
        code[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], 0, 1);
        code[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    struct sock_fprog program = {.len = (unsigned short)used, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, all_threads ? SECCOMP_FILTER_FLAG_TSYNC : 0,
                        &program);
}

static void *in_jail(void *argument)
{
    host_use_context();
    host_pairs(*(int *)argument);
    return NULL;
}

/* seccomp WHEN ACTION [alone] */
static int seccomp(int count, char **arguments)
{
    static int some = 500;
    if (count < 2)
        return 2;
    bool first = !strcmp(arguments[0], "first"), all_threads = count < 3;
    const char *name = arguments[1];
    unsigned action = !strcmp(name, "errno")    ? SECCOMP_RET_ERRNO | EPERM
                      : !strcmp(name, "nosys")  ? SECCOMP_RET_ERRNO | ENOSYS
                      : !strcmp(name, "trap")   ? SECCOMP_RET_TRAP
                      : !strcmp(name, "thread") ? SECCOMP_RET_KILL_THREAD
                                                : SECCOMP_RET_KILL_PROCESS;
    struct sigaction handler = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &handler, NULL);
    host_begin();
    if (!first) {
        host_pairs(100);
        host_nap_ms(20);
    }
    host_say("filter: %s\n", forbid(action, all_threads) ? strerror(errno) : "stands");
    host_pairs(100);
    pthread_join(host_thread(in_jail, &some, 0), NULL);
    struct timespec nap = {.tv_nsec = 300000000};
    nanosleep(&nap, NULL);
    host_pairs(20000);
    host_say("trapped %d\n", atomic_load(&trapped));
    /* As a host in a jail ends: its own call, allowed. */
    exit(4);
}

/* chroot into an empty folder after CUDA began; chdir elsewhere too. */
static int change_root(int count, char **arguments)
{
    (void)count, (void)arguments;
    host_begin();
    host_pairs(10);
    mkdir("empty", 0755);
    if (chroot("empty") || chdir("/"))
        return 3;
    host_pairs(50000);
    host_say("fine\n");
    return 0;
}

static int change_folder(int count, char **arguments)
{
    (void)count, (void)arguments;
    host_begin();
    host_pairs(10);
    if (mkdir("inside", 0755) || chdir("inside") || rmdir("../inside"))
        return 3;
    host_pairs(50000);
    host_say("fine\n");
    return 0;
}

/* The host gives up root; a child of it begins CUDA then. */
static int drop_user(int count, char **arguments)
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
    if (first)
        host_begin();
    host_pairs(50000);
    host_say("dumpable %d, user %d\n", prctl(PR_GET_DUMPABLE), (int)getuid());
    return 0;
}

/* namespaces WHICH: newns newpid newnet newuser newipc, after CUDA began or before. Threads forbid some of
 * them. */
static int namespaces(int count, char **arguments)
{
    static const struct {
        const char *name;
        int flag;
    } kinds[] = {{"mount", CLONE_NEWNS},  {"pid", CLONE_NEWPID}, {"net", CLONE_NEWNET},
                 {"user", CLONE_NEWUSER}, {"ipc", CLONE_NEWIPC}, {"files", CLONE_FILES},
                 {"fs", CLONE_FS}};
    if (count != 2)
        return 2;
    bool first = !strcmp(arguments[1], "first");
    if (!first) {
        host_begin();
        host_pairs(10);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, arguments[0]))
            host_say("unshare %s: %s\n", kinds[i].name, unshare(kinds[i].flag) ? strerror(errno) : "worked");
    if (first)
        host_begin();
    host_pairs(1000);
    int child = fork();
    if (!child) {
        host_block_pair();
        _exit(0);
    }
    host_wait(child, "child");
    return 0;
}

/* no_proc: /proc is gone before the first call, or later. */
static int no_proc(int count, char **arguments)
{
    if (count != 1)
        return 2;
    bool first = !strcmp(arguments[0], "first");
    if (!first) {
        host_begin();
        host_pairs(10);
    }
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        umount2("/proc", MNT_DETACH)) {
        host_say("/proc stays: %s\n", strerror(errno));
        return 3;
    }
    if (first)
        host_begin();
    host_pairs(20000);
    host_say("tasks %d\n", host_count_tasks());
    return 0;
}

/* Everything is read-only, as in a container without any place to write. */
static int read_only(int count, char **arguments)
{
    (void)arguments;
    if (count)
        host_begin(), host_pairs(10);
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY | MS_BIND, NULL)) {
        host_say("not read-only: %s\n", strerror(errno));
        return 3;
    }
    if (!count)
        host_begin();
    host_pairs(20000);
    host_say("mkdir: %s\n", mkdir("more", 0755) ? strerror(errno) : "worked");
    return 0;
}

static int process_settings(int count, char **arguments)
{
    (void)count, (void)arguments;
    char name[16] = "";
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_PDEATHSIG, SIGHUP);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_TIMERSLACK, 123456);
    prctl(PR_SET_KEEPCAPS, 1);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "own name");
    host_begin();
    host_pairs(1000);
    int signal_number = 0, reaper = 0;
    prctl(PR_GET_PDEATHSIG, &signal_number);
    prctl(PR_GET_CHILD_SUBREAPER, &reaper);
    prctl(PR_GET_NAME, name);
    host_say("dumpable %d, death %d, new privileges %d, slack %d, keep %d, reaper %d, name %s\n",
             prctl(PR_GET_DUMPABLE), signal_number, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0),
             prctl(PR_GET_TIMERSLACK), prctl(PR_GET_KEEPCAPS), reaper, name);
    return 0;
}

/* The parent goes: children that asked for it get their signal. It belongs to the thread that made them. */
static int parent_dies(int count, char **arguments)
{
    (void)count, (void)arguments;
    int ends[2];
    if (pipe(ends))
        return 3;
    if (fork()) {
        char one;
        close(ends[1]);
        host_say("%s\n", read(ends[0], &one, 1) == 0 ? "the grandchild has gone" : "it said something");
        return 0;
    }
    close(ends[0]);
    host_begin();
    host_pairs(10);
    pid_t parent = getpid();
    if (!fork()) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) /* it has gone already */
            _exit(0);
        host_block_pair();
        for (;;)
            pause();
    }
    close(ends[1]);
    host_nap_ms(100);
    exit(0);
}

static int memory_score(int count, char **arguments)
{
    (void)count, (void)arguments;
    char text[64] = "";
    int file = open("/proc/self/oom_score_adj", O_RDWR);
    if (write(file, "321", 3) != 3)
        return 3;
    close(file);
    host_begin();
    host_pairs(1000);
    file = open("/proc/self/oom_score_adj", O_RDONLY);
    if (read(file, text, sizeof text - 1) < 0)
        return 3;
    host_say("oom_score_adj %s", text);
    return 0;
}

static const struct host_way ways[] = {
    {"seccomp", seccomp},         {"chroot", change_root},
    {"chdir", change_folder},     {"drop_user", drop_user},
    {"namespaces", namespaces},   {"no_proc", no_proc},
    {"read_only", read_only},     {"process_settings", process_settings},
    {"parent_dies", parent_dies}, {"memory_score", memory_score},
};
HOST_MAIN(ways)
