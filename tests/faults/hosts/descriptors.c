/* Hosts that count on their descriptors: which numbers are free, what is behind them, what comes out. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

enum { THREADS = 8, PAIRS = 200 };

static void *many_pairs(void *argument)
{
    (void)argument;
    host_use_context();
    host_pairs(PAIRS);
    return NULL;
}

static void threads_of_pairs(void)
{
    pthread_t list[THREADS];
    for (int i = 0; i < THREADS; i++)
        list[i] = host_thread(many_pairs, NULL, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(list[i], NULL);
}

static void close_from(int first)
{
    if (syscall(SYS_close_range, first, ~0u, 0))
        for (int number = first; number < 4096; number++)
            close(number);
}

/* Says what a descriptor is now, and what is in it. */
static void inspection_at(int number)
{
    struct stat status;
    char text[64] = "";
    int waiting = -1;
    if (fstat(number, &status)) {
        host_say("%d: closed (%s)\n", number, strerror(errno));
        return;
    }
    if (S_ISREG(status.st_mode))
        host_say("%d: file, %ld bytes, at %ld\n", number, (long)status.st_size,
                 (long)lseek(number, 0, SEEK_CUR));
    else if (S_ISSOCK(status.st_mode) && recv(number, text, sizeof text - 1, MSG_PEEK | MSG_DONTWAIT) >= 0)
        host_say("%d: socket, “%s” waits\n", number, text);
    else if (!ioctl(number, FIONREAD, &waiting))
        host_say("%d: type %o, %d bytes to read, flags %x\n", number, status.st_mode & S_IFMT, waiting,
                 fcntl(number, F_GETFL));
    else
        host_say("%d: type %o\n", number, status.st_mode & S_IFMT);
}

static void open_files(void)
{
    char letters[1000];
    memset(letters, 'x', sizeof letters);
    for (int i = 0; i < 3; i++) {
        const char *const names[] = {"first", "second", "third"};
        int file = open(names[i], O_RDWR | O_CREAT | O_TRUNC, 0644);
        host_say("%s: %d\n", names[i], file);
        if (write(file, letters, sizeof letters) != sizeof letters)
            exit(3);
        lseek(file, 500, SEEK_SET);
    }
}

static void open_sockets(void)
{
    int ends[2];
    for (int i = 0; i < 2; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || write(ends[0], "hello", 5) != 5 ||
            write(ends[1], "you", 3) != 3)
            exit(3);
        host_say("sockets %d %d\n", ends[0], ends[1]);
    }
}

static void open_pipes(void)
{
    int ends[2];
    for (int i = 0; i < 2; i++) {
        if (pipe2(ends, i ? O_NONBLOCK : 0) || write(ends[1], "hello", 5) != 5)
            exit(3);
        host_say("pipe %d %d\n", ends[0], ends[1]);
    }
}

/* close_all WHEN WHAT: closes all descriptors before or after its first CUDA call, opens its own, works. */
static int close_all(int count, char **arguments)
{
    if (count != 2)
        return 2;
    bool after = !strcmp(arguments[0], "after");
    host_begin();
    if (after)
        host_pairs(10);
    close_from(3);
    if (!strcmp(arguments[1], "files"))
        open_files();
    else if (!strcmp(arguments[1], "sockets"))
        open_sockets();
    else
        open_pipes();
    threads_of_pairs();
    for (int number = 3; number < 7; number++)
        inspection_at(number);
    /* Once more, when all of the recorder is there. */
    threads_of_pairs();
    for (int number = 3; number < 7; number++)
        inspection_at(number);
    if (!strcmp(arguments[1], "pipes"))
        for (int number = 3; number < 7; number += 2) {
            char text[64] = "";
            fcntl(number, F_SETFL, O_NONBLOCK);
            host_say("%d: %zd bytes, “%s”\n", number, read(number, text, sizeof text - 1), text);
        }
    return 0;
}

/* Numbers that open() gives while CUDA is used, and the whole list. */
static int lowest(int count, char **arguments)
{
    (void)count, (void)arguments;
    host_list_descriptors("at start");
    host_begin();
    host_list_descriptors("CUDA is there");
    host_pair();
    host_list_descriptors("one call");
    host_say("next %d\n", open("/dev/null", O_RDONLY));
    threads_of_pairs();
    host_list_descriptors("many calls");
    int ends[2];
    if (!pipe(ends))
        host_say("next %d %d\n", ends[0], ends[1]);
    host_say("next %d\n", socket(AF_UNIX, SOCK_STREAM, 0));
    host_say("above 500: %d\n", fcntl(0, F_DUPFD, 500));
    host_say("above 900: %d\n", fcntl(0, F_DUPFD, 900));
    host_list_descriptors("at the end");
    return 0;
}

/* A server that can only select(): its descriptors have to stay under FD_SETSIZE. */
static int select_all(int count, char **arguments)
{
    (void)count, (void)arguments;
    int ends[2], greatest = 0, ready = 0;
    fd_set readers;
    host_begin();
    host_pairs(10);
    FD_ZERO(&readers);
    for (int made = 0; made < 500 && !pipe(ends); made++) {
        if (ends[0] >= FD_SETSIZE) {
            host_say("pipe %d has number %d\n", made, ends[0]);
            return 1;
        }
        greatest = ends[1] > greatest ? ends[1] : greatest;
        if (made % 5 == 0 && write(ends[1], "x", 1) == 1)
            FD_SET(ends[0], &readers);
    }
    threads_of_pairs();
    ready = select(greatest + 1, &readers, NULL, NULL, &(struct timeval){0});
    host_say("%d ready, greatest %d\n", ready, greatest);
    return 0;
}

/* What a child gets through fork and exec. */
static int inherited(int count, char **arguments)
{
    (void)arguments;
    if (count) {
        host_list_descriptors("after exec");
        return 0;
    }
    host_begin();
    host_pairs(10);
    threads_of_pairs();
    int child = fork();
    if (!child) {
        host_list_descriptors("after fork");
        _exit(0);
    }
    host_wait(child, "child");
    child = fork();
    if (!child)
        execl("/proc/self/exe", "descriptors", "inherited", "again", NULL);
    host_wait(child, "program");
    return 0;
}

/* Every descriptor but the first three is to be closed at exec, or was there before. */
static int close_on_exec(int count, char **arguments)
{
    (void)count, (void)arguments;
    bool before[2048];
    for (int number = 0; number < 2048; number++)
        before[number] = fcntl(number, F_GETFD) >= 0;
    host_begin();
    host_pairs(10);
    threads_of_pairs();
    for (int number = 0; number < 2048; number++) {
        int flags = fcntl(number, F_GETFD);
        if (flags >= 0 && !before[number] && !(flags & FD_CLOEXEC))
            host_say("%d is open and goes on to every child\n", number);
    }
    return 0;
}

/* closed NUMBERS: these of the first three are closed from the start; the host's files take their places. */
static int closed_from_start(int count, char **arguments)
{
    if (count != 1)
        return 2;
    int kept = open("said", O_RDWR | O_CREAT | O_TRUNC, 0644);
    kept = fcntl(kept, F_DUPFD_CLOEXEC, 100);
    close_from(101);
    for (int number = 3; number < 100; number++)
        close(number);
    for (const char *digit = arguments[0]; *digit; digit++)
        close(*digit - '0');
    host_begin();
    host_pairs(10);
    for (const char *digit = arguments[0]; *digit; digit++) {
        char name[] = "file 0";
        name[5] = *digit;
        int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
        dprintf(kept, "%s is %d\n", name, file);
        dprintf(file, "mine\n");
    }
    threads_of_pairs();
    dprintf(kept, "next %d\n", open("/dev/null", O_RDONLY));
    return 0;
}

/* A host that keeps opening, closing and using low descriptors while others call CUDA for the first time. */
static _Atomic bool over;
static void *busy_with_files(void *argument)
{
    uint64_t *wrong = argument, value;
    for (uint64_t round = 0; !atomic_load(&over); round++) {
        int ends[2];
        if (pipe(ends)) {
            ++*wrong;
            continue;
        }
        if (write(ends[1], &round, sizeof round) != sizeof round ||
            read(ends[0], &value, sizeof value) != sizeof value || value != round)
            ++*wrong;
        if (close(ends[0]) || close(ends[1]))
            ++*wrong;
    }
    return NULL;
}

static int busy(int count, char **arguments)
{
    (void)count, (void)arguments;
    uint64_t wrong[4] = {0};
    pthread_t list[4];
    host_begin();
    for (int i = 0; i < 4; i++)
        list[i] = host_thread(busy_with_files, &wrong[i], 0);
    threads_of_pairs();
    threads_of_pairs();
    atomic_store(&over, true);
    for (int i = 0; i < 4; i++)
        pthread_join(list[i], NULL);
    host_say("wrong %lu\n", wrong[0] + wrong[1] + wrong[2] + wrong[3]);
    return 0;
}

/* The host has numbers of its own choice, by dup2, high ones too. */
static int chooses(int count, char **arguments)
{
    (void)count, (void)arguments;
    int file = open("own", O_RDWR | O_CREAT | O_TRUNC, 0644), wrong = 0;
    struct stat status, now;
    host_begin();
    host_pairs(10);
    if (write(file, "mine\n", 5) != 5 || fstat(file, &status))
        return 3;
    for (int number = 3; number < 1020; number++)
        if (number != file)
            dup2(file, number);
    threads_of_pairs();
    host_pairs(20000);
    for (int number = 3; number < 1020; number++)
        wrong += fstat(number, &now) || now.st_ino != status.st_ino || now.st_dev != status.st_dev;
    host_say("%d are another's, at %ld\n", wrong, (long)lseek(file, 0, SEEK_CUR));
    return 0;
}

static const struct host_way ways[] = {
    {"close_all", close_all},
    {"lowest", lowest},
    {"select", select_all},
    {"inherited", inherited},
    {"close_on_exec", close_on_exec},
    {"closed", closed_from_start},
    {"busy", busy},
    {"chooses", chooses},
};
HOST_MAIN(ways)
