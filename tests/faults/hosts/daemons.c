/* Daemons: nothing that they write or keep at descriptor 2 is ours to write to. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"

static int peer = -1; /* the other end of what became descriptor 2 */

static void take_second(const char *what)
{
    int ends[2];
    for (int number = 0; number < 3; number++)
        close(number);
    if (!strcmp(what, "closed"))
        return;
    if (open("/dev/null", O_RDWR) != 0 || open("log", O_RDWR | O_CREAT | O_TRUNC, 0644) != 1)
        exit(3);
    if (!strcmp(what, "file")) {
        if (open("data", O_RDWR | O_CREAT | O_TRUNC, 0644) != 2)
            exit(3);
    } else if (!strcmp(what, "socket")) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || ends[0] != 2)
            exit(3);
        peer = ends[1];
    } else if (!strcmp(what, "pipe")) {
        if (pipe(ends) || dup2(ends[1], 100) != 100)
            exit(3);
        close(ends[1]);
        if (dup2(ends[0], 101) != 101 || dup2(100, 2) != 2)
            exit(3);
        close(100);
        peer = 101;
    } else { /* a pipe that nobody reads any more */
        if (pipe(ends) || dup2(ends[1], 2) != 2)
            exit(3);
        close(3);
        close(ends[1]);
        signal(SIGPIPE, SIG_DFL);
    }
}

static void at_exit(void)
{
    int waiting = -1;
    host_say("exits\n");
    if (peer >= 0 && !ioctl(peer, FIONREAD, &waiting))
        host_say("%d bytes at the other end\n", waiting);
}

/* fork, setsid, fork; descriptor 2 is WHAT: file, socket, pipe, nobody, closed. CUDA begins BEFORE or AFTER
 * that. */
static int daemonize(int count, char **arguments)
{
    if (count != 2)
        return 2;
    bool before = !strcmp(arguments[1], "before");
    if (fork())
        _exit(0);
    setsid();
    if (fork())
        _exit(0);
    umask(0);
    if (before) {
        host_begin();
        host_pairs(5);
    }
    take_second(arguments[0]);
    if (!before)
        host_begin();
    host_pairs(10);
    atexit(at_exit);
    if (peer < 0) {
        host_nap_ms(20);
        return 0;
    }
    /* The goodbye comes after every handler of ours: a child of this one sees what came through. */
    int end = peer;
    int watcher = fork();
    if (!watcher) {
        char text[4096];
        size_t got = 0;
        close(2);
        peer = -1;
        for (ssize_t part; got < sizeof text && (part = read(end, text + got, sizeof text - got)) > 0;)
            got += (size_t)part;
        host_say("received %zu: %.*s\n", got, (int)got, text);
        _exit(0);
    }
    close(end);
    peer = -1;
    return 0;
}

/* The parent used CUDA, the daemon goes on by itself with what a forked child can do. */
static int after_cuda(int count, char **arguments)
{
    (void)count, (void)arguments;
    host_begin();
    host_pairs(10);
    if (fork())
        _exit(0);
    setsid();
    for (int number = 0; number < 1100; number++)
        close(number);
    if (chdir("/") || open("/dev/null", O_RDWR) != 0)
        exit(3);
    for (int i = 0; i < 10; i++)
        host_block_pair();
    return 0;
}

/* nohup, setsid and what terminals' multiplexers do: a session of its own, no terminal, hangups ignored. */
static int detached(int count, char **arguments)
{
    (void)count, (void)arguments;
    signal(SIGHUP, SIG_IGN);
    int child = fork();
    if (!child) {
        setsid();
        host_begin();
        host_pairs(10);
        kill(getpid(), SIGHUP);
        host_pairs(10);
        host_say("still here\n");
        exit(0);
    }
    host_wait(child, "child");
    return 0;
}

/* CUDA works, then stderr becomes the host's data. */
static int stderr_given_away(int count, char **arguments)
{
    (void)count, (void)arguments;
    host_begin();
    host_pairs(10);
    int data = open("data", O_RDWR | O_CREAT | O_TRUNC, 0644);
    dup2(data, 2);
    close(data);
    host_pairs(10);
    dprintf(2, "mine\n");
    return 0;
}

static const struct host_way ways[] = {
    {"daemonize", daemonize},
    {"after_cuda", after_cuda},
    {"detached", detached},
    {"stderr_given_away", stderr_given_away},
};
HOST_MAIN(ways)
