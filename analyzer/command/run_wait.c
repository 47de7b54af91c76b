/* The parent of the command: it waits, and is not noticed. It is in the same process group: what the terminal
 * sends reaches the command as well. What is sent to the parent alone is passed on. It stops when the command
 * stops, and ends as the command ends. */

#include "command/run_wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "vramtrace/format.h"

#define GRACE_S 10 /* from SIGTERM to SIGKILL */

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void close_from(unsigned first, unsigned last)
{
    const unsigned most = (unsigned)sysconf(_SC_OPEN_MAX);

    if (first <= last && syscall(SYS_close_range, first, last, 0u)) /* before Linux 5.9 */
        for (; first <= last && first < most; first++)
            close((int)first);
}

/* A reader that waits for the end of a pipe must not wait for us after the command has closed it. Standard
 * error and the two descriptors stay open. */
static void close_others(int one, int other)
{
    const unsigned low = (unsigned)(one < other ? one : other), high = (unsigned)(one < other ? other : one);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int i = 0; null >= 0 && i <= 2; i++)
        if (i < 2 || fcntl(i, F_GETFD) < 0)
            dup2(null, i);
    close_from(3, low - 1);
    close_from(low + 1, high - 1);
    close_from(high + 1, ~0u);
}

/* ---- The witness ---- */

/* A process that only notes which signals it gets. A signal that it also gets was sent to the whole group, or
 * to every process of a service: then the command has it. */
#define WITNESS_NS UINT64_C(50000000)

struct note {
    uint64_t t_ns; /* CLOCK_MONOTONIC */
    int number;
};

static struct {
    pid_t pid;
    int notes; /* -1 = there is none */
    uint64_t seen_ns[NSIG];
} witness = {.notes = -1};

static void bear_witness(int notes, const sigset_t *all)
{
    close_others(notes, notes);
    for (;;) {
        struct note note = {.number = sigwaitinfo(all, NULL)};

        note.t_ns = now_ns(CLOCK_MONOTONIC);
        if (note.number > 0 && write(notes, &note, sizeof note) < 0)
            _exit(0);
    }
}

static void start_witness(const sigset_t *all)
{
    const pid_t parent = getpid();
    int ends[2];

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
        return;
    witness.pid = fork();
    if (witness.pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return;
    }
    if (!witness.pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            bear_witness(ends[1], all);
        _exit(0);
    }
    close(ends[1]);
    witness.notes = ends[0];
}

static bool was_sent_to_all(int number)
{
    const uint64_t begin_ns = now_ns(CLOCK_MONOTONIC);
    struct pollfd ready = {.fd = witness.notes, .events = POLLIN};
    struct note note;

    for (uint64_t t_ns = begin_ns; witness.notes >= 0; t_ns = now_ns(CLOCK_MONOTONIC)) {
        while (read(witness.notes, &note, sizeof note) == sizeof note)
            witness.seen_ns[note.number] = note.t_ns;
        if (witness.seen_ns[number] + WITNESS_NS >= begin_ns) {
            witness.seen_ns[number] = 0;
            return true;
        }
        if (t_ns >= begin_ns + WITNESS_NS ||
            poll(&ready, 1, (int)((begin_ns + WITNESS_NS - t_ns) / 1000000) + 1) < 0 ||
            ready.revents & (POLLHUP | POLLERR))
            break;
    }
    return false;
}

/* ---- Signals ---- */

/* The kernel sends these to the whole group; only a hangup to the first process of the session. */
static bool is_of_terminal(int number)
{
    static const int numbers[] = {SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGWINCH};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (number == numbers[i])
            return true;
    return number == SIGHUP && getsid(0) != getpid();
}

/* False also where the witness was slow to note it. */
static bool has_reached_all(const siginfo_t *signal)
{
    return signal->si_code == SI_KERNEL ? is_of_terminal(signal->si_signo)
                                        : was_sent_to_all(signal->si_signo);
}

/* The command, and how often it has stopped. */
struct child {
    pid_t pid;
    int status;
    unsigned stops;
    bool is_stopped;
};

/* Whether the command has stopped, or gone on, since the signal came. `stops`: the count at that time. */
static bool has_obeyed(const struct child *child, int number, unsigned stops)
{
    if (number == SIGCONT)
        return !child->is_stopped;
    return (number == SIGTSTP || number == SIGTTIN || number == SIGTTOU) && child->stops != stops;
}

/* A signal that comes late must not undo what the user did since. */
static void pass_on(const siginfo_t *signal, const struct child *child, unsigned stops)
{
    const int number = signal->si_signo;

    if (has_obeyed(child, number, stops))
        return;
    if (signal->si_code == SI_QUEUE)
        sigqueue(child->pid, number, signal->si_value);
    else
        kill(child->pid, number);
}

/* So that the shell has its terminal back. Returns when we are continued. */
static void stop_alike(int number)
{
    sigset_t one;

    if (number == SIGSTOP) /* by somebody who may let the command alone go on */
        return;
    sigemptyset(&one);
    sigaddset(&one, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    sigprocmask(SIG_BLOCK, &one, NULL);
}

/* Reaps what has ended: a shell that became us may have left children. True once the command has ended. */
static bool has_ended(struct child *child)
{
    pid_t changed;
    int how;

    while ((changed = waitpid(-1, &how, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
        if (changed != child->pid)
            continue;
        child->status = how;
        child->is_stopped = WIFSTOPPED(how);
        if (child->is_stopped) {
            child->stops++;
            stop_alike(WSTOPSIG(how));
        } else if (!WIFCONTINUED(how)) {
            return true;
        }
    }
    return false;
}

/* What the command had started and left when its time was up, with what that had started: all of it is ours
 * then. */
static void end_others(void)
{
    char path[64];
    bool any = true;
    int pid;

    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    while (any) {
        FILE *file = fopen(path, "re");

        for (any = false; file && fscanf(file, "%d", &pid) == 1;)
            any |= !kill(pid, SIGKILL);
        if (file)
            fclose(file);
        if (any)
            waitpid(-1, NULL, 0);
    }
}

/* ---- The two processes ---- */

static void wait_for(int keep, const sigset_t *all, struct vt_run_end *end)
{
    bool from_keyboard = false, is_due = false;
    struct child child = {.pid = end->pid};
    unsigned stops = 0;
    siginfo_t signal;

    start_witness(all);
    if (end->limit_s) /* else one that was set before stays */
        alarm(end->limit_s);
    close_others(keep, witness.notes < 0 ? keep : witness.notes);
    while (!has_ended(&child)) {
        if (is_due)
            pass_on(&signal, &child, stops);
        is_due = sigwaitinfo(all, &signal) > 0 && signal.si_signo != SIGCHLD;
        stops = child.stops;
        if (is_due && end->limit_s && signal.si_signo == SIGALRM && signal.si_code == SI_KERNEL) {
            kill(child.pid, end->timed_out ? SIGKILL : SIGTERM);
            end->timed_out = true;
            alarm(GRACE_S);
            is_due = false;
        }
        if (is_due) {
            from_keyboard |= signal.si_signo == SIGINT && signal.si_code == SI_KERNEL;
            is_due = !has_reached_all(&signal);
        }
    }
    end->status = child.status;
    if (witness.notes >= 0) {
        kill(witness.pid, SIGKILL);
        waitpid(witness.pid, NULL, 0);
    }
    if (end->timed_out)
        end_others();
    if (WIFSIGNALED(end->status))
        end->signal = (uint32_t)WTERMSIG(end->status) | (from_keyboard ? VT_END_FROM_KEYBOARD : 0);
}

int vt_run_wait(int keep, struct vt_run_end *end)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    const pid_t parent = getpid();
    struct sigaction children;
    sigset_t all, mask;
    int error;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &mask);
    sigaction(SIGCHLD, &plain, &children); /* where it is ignored there is nothing to wait for */
    if (end->limit_s)
        prctl(PR_SET_CHILD_SUBREAPER, 1);
    end->begin_real_ns = now_ns(CLOCK_REALTIME);
    end->pid = fork();
    error = errno;
    if (end->pid > 0) {
        wait_for(keep, &all, end);
        return 0;
    }
    if (!end->pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* holds after exec, too */
        if (getppid() != parent)
            raise(SIGKILL);
    }
    sigaction(SIGCHLD, &children, NULL);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    return end->pid ? -error : 0;
}

int vt_run_end_alike(const struct vt_run_end *end)
{
    const int number = WTERMSIG(end->status);
    sigset_t one;

    if (!WIFSIGNALED(end->status))
        return WEXITSTATUS(end->status);
    prctl(PR_SET_DUMPABLE, 0); /* one core is enough */
    signal(number, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    return 128 + number; /* the first process of a container lives on */
}
