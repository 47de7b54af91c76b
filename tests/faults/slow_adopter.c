/* Preloaded into a process that adopts: its first reading of the ring SLOW_RING is followed by a rest until the process
 * SLOW_UNTIL is gone. The file SLOW_READ says that it rests. */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

typedef ssize_t pread64_function(int file, void *to, size_t bytes, off_t offset);

ssize_t pread64(int file, void *to, size_t bytes, off_t offset);
ssize_t pread64(int file, void *to, size_t bytes, off_t offset)
{
    static _Atomic int rested;
    char link[64], path[512] = "";
    void *found = dlsym(RTLD_NEXT, "pread64");
    pread64_function *next;
    memcpy(&next, &found, sizeof next);
    const ssize_t got = next(file, to, bytes, offset);
    snprintf(link, sizeof link, "/proc/thread-self/fd/%d", file);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length > 0 && !strcmp(path, getenv("SLOW_RING")) && !atomic_exchange(&rested, 1)) {
        close(open(getenv("SLOW_READ"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        while (!kill(atoi(getenv("SLOW_UNTIL")), 0))
            usleep(1000);
    }
    return got;
}
