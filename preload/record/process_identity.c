#include "record/process_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "hash.h"
#include "file_io.h"

enum { STAT_BYTES = 1024, FIELDS_AFTER_NAME = 20 }; /* start time is field 22; the name is field 2 */

/* 0 if there is no such process, or /proc does not say. */
static uint64_t start_ticks(const char *process)
{
    char path[48], text[STAT_BYTES];
    snprintf(path, sizeof path, "/proc/%s/stat", process);
    size_t bytes = vt_read_file(path, text, sizeof text - 1);
    text[bytes] = 0;
    char *at = strrchr(text, ')'); /* the name may contain any character */
    for (int field = 0; at && field < FIELDS_AFTER_NAME; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

static uint64_t inode_of(const char *path)
{
    struct stat status;
    return stat(path, &status) ? 0 : status.st_ino;
}

/* The mount namespace's inode, and in the upper half that of the time namespace, whose offset is part of all
 * start times. */
static uint64_t mount_namespace(void)
{
    const uint64_t inode = inode_of("/proc/self/ns/mnt");
    return inode ? inode | inode_of("/proc/self/ns/time") << 32 : 0;
}

/* False if this process is in another pid namespace than /proc: then its pids mean other processes. */
static bool proc_is_ours(void)
{
    char number[16];
    const ssize_t length = readlink("/proc/self", number, sizeof number - 1);
    number[length < 0 ? 0 : length] = 0;
    return strtol(number, NULL, 10) == getpid();
}

/* 32 hexadecimal digits between dashes. */
static void read_boot_id(uint8_t boot_id[16])
{
    char text[64];
    size_t bytes = vt_read_file("/proc/sys/kernel/random/boot_id", text, sizeof text), digits = 0;
    memset(boot_id, 0, 16);
    for (size_t i = 0; i < bytes && digits < 32; i++) {
        const char c = text[i];
        if (c == '-')
            continue;
        const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 0;
        boot_id[digits / 2] = (uint8_t)(boot_id[digits / 2] << 4 | value);
        digits++;
    }
}

void vt_identify_process(struct vt_process_identity *identity)
{
    *identity = (struct vt_process_identity){
        .start_ticks = start_ticks("self"),
        .pid_namespace = proc_is_ours() ? inode_of("/proc/self/ns/pid") : 0,
        .mount_namespace = mount_namespace(),
        .pid = (uint32_t)getpid(),
        .user_id = (uint32_t)geteuid(),
    };
    read_boot_id(identity->boot_id);
}

/* /proc mounted with hidepid does not show all processes, so the kernel is asked too. */
static bool number_is_free(uint32_t pid, const struct vt_process_identity *own)
{
    char path[48];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%u", pid);
    return own->start_ticks && stat(path, &status) && errno == ENOENT && getpgid((pid_t)pid) < 0 &&
           errno == ESRCH;
}

bool vt_process_is_gone(const struct vt_process_identity *identity, const struct vt_process_identity *own)
{
    static const uint8_t unknown[16];
    char number[16];
    uint64_t started;
    if (!own->start_ticks || !own->pid_namespace || !own->mount_namespace || !identity->start_ticks ||
        !memcmp(own->boot_id, unknown, sizeof unknown) ||
        memcmp(identity->boot_id, own->boot_id, sizeof own->boot_id) ||
        identity->pid_namespace != own->pid_namespace || identity->mount_namespace != own->mount_namespace ||
        identity->user_id != own->user_id)
        return false;
    if (identity->pid == own->pid) /* an earlier program, or an earlier process with this pid */
        return true;
    snprintf(number, sizeof number, "%u", identity->pid);
    /* Who gets the number later began later. An earlier start is the same process's, read by an emulator. */
    started = start_ticks(number);
    return started ? started > identity->start_ticks : number_is_free(identity->pid, own);
}

bool vt_process_maps(uint32_t pid, const char *path)
{
    char name[48], text[4096 + 1];
    size_t kept = 0;
    ssize_t bytes;
    snprintf(name, sizeof name, "/proc/%u/maps", pid);
    const int file = open(name, O_RDONLY | O_CLOEXEC);
    const char *end = strrchr(path, '/');
    bool found = false;
    while (file >= 0 && !found && (bytes = read(file, text + kept, sizeof text - 1 - kept)) > 0) {
        kept += (size_t)bytes;
        text[kept] = 0;
        found = strstr(text, end) != NULL;
        const size_t overlap = strlen(end) < kept ? strlen(end) : kept; /* it may be cut at the end */
        memmove(text, text + kept - overlap, overlap);
        kept = overlap;
    }
    if (file >= 0)
        close(file);
    return found;
}

void vt_make_identity(uint8_t identity[16])
{
    uint64_t words[2] = {vt_clock_ns(CLOCK_MONOTONIC), vt_clock_ns(CLOCK_REALTIME) ^ (uint64_t)getpid()
                                                                                         << 40};
    uint8_t random[16];
    if (getrandom(random, sizeof random, GRND_NONBLOCK) == sizeof random) {
        memcpy(identity, random, sizeof random);
        return;
    }
    for (size_t i = 0; i < 2; i++)
        words[i] = vt_hash_spread(words[i]);
    memcpy(identity, words, sizeof words);
}
