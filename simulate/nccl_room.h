/* NCCL of the stand-in: communicators, and where the messages of their ranks lie.
 *
 * All ranks of a communicator are processes of this machine; or ($VRAMTRACE_STANDIN_RANKS) only those whose
 * numbers in the job are given there: then a communicator of several ranks has one slot, of its own, which
 * stands for every rank's: each is taken to hold what this one holds. */
#ifndef STANDIN_NCCL_ROOM_H
#define STANDIN_NCCL_ROOM_H

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "lacks.h"

enum { SLOT_BYTES = 65536, RANKS = 64, LETTERS = 8, DEADLINE_S = 600 };
/* As in nccl.h. */
enum { SUCCESS = 0, SYSTEM_ERROR = 2, REMOTE_ERROR = 6 };

/* What the ranks of a communicator share; slots for each of two rounds follow. A rank may be one round ahead
 * of another, which still reads the slots of the round before. */
struct room {
    _Atomic uint32_t arrived;
    _Atomic uint64_t written[RANKS],
        read[RANKS]; /* rounds that each rank has put its part into, and has read */
    char slots[];
};
/* From one rank to another. */
struct mailbox {
    _Atomic uint32_t opened;
    _Atomic uint64_t sent, received;
    char letters[LETTERS][SLOT_BYTES];
};
struct open_mailbox {
    int from, to;
    struct mailbox *box;
    struct open_mailbox *next;
};
/* How far the file of what an absent root told was read. */
struct told {
    int root;
    off_t at;
    struct told *next;
};
/* The last message of a size that this rank sent, to anyone. */
static struct kept {
    size_t bytes;
    struct kept *next;
    char message[];
} * all_kept;
static atomic_flag kept_is_taken = ATOMIC_FLAG_INIT; /* guards all_kept */
struct communicator {
    int count, rank, slot_count; /* slots: one for each rank, or one for all */
    int *members;                /* their numbers in the job; NULL: not known */
    uint64_t id, round;
    unsigned splits;
    struct room *room;
    size_t room_bytes;
    struct open_mailbox *mailboxes;
    struct told *told;
    bool tells; /* has begun its own file */
    bool noted_letters, noted_read_letters, noted_uneven, noted_root;
};

static uint64_t hash_of(const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    uint64_t hash = UINT64_C(1469598103934665603);
    while (count--)
        hash = (hash ^ *at++) * UINT64_C(1099511628211);
    return hash;
}

/* ---- Who is there ---- */

static bool some_are_absent(void)
{
    return getenv("VRAMTRACE_STANDIN_RANKS") != NULL;
}

/* A rank of the job. */
static bool is_played(int rank)
{
    const char *at = getenv("VRAMTRACE_STANDIN_RANKS");
    while (at && *at) {
        char *end;
        if (strtol(at, &end, 10) == rank && end != at)
            return true;
        at = end + (*end == ',');
        if (end == at)
            break;
    }
    return false;
}

/* Another rank of the communicator, which can be sent a message. */
static bool is_present(const struct communicator *own, int peer)
{
    if (peer == own->rank)
        return false;
    return own->slot_count == own->count || (own->members && is_played(own->members[peer]));
}

/* For whoever plays some of the ranks: a line in a file of this rank's. */
static void note(const char *text)
{
    const char *folder = getenv("VRAMTRACE_STANDIN_ROOMS"), *rank = getenv("RANK");
    char name[PATH_MAX];
    if (!folder || !rank || !some_are_absent())
        return;
    snprintf(name, sizeof name, "%s/rank-%s", folder, rank);
    const int file = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0 || write(file, text, strlen(text)) < 0)
        perror("stand-in NCCL");
    if (file >= 0)
        close(file);
}

static void note_members(const struct communicator *own)
{
    const size_t room = (size_t)own->count * 12 + 16;
    char *text = malloc(room);
    size_t at = text ? (size_t)snprintf(text, room, "group") : 0;
    for (int i = 0; text && i < own->count; i++)
        at += (size_t)snprintf(text + at, room - at, " %d", own->members ? own->members[i] : -1);
    if (text) {
        snprintf(text + at, room - at, "\n");
        note(text);
    }
    free(text);
}

/* ---- Rooms ---- */

static void *map_shared(const char *name, size_t bytes)
{
    const int file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
        return NULL;
    void *memory = ftruncate(file, (off_t)bytes)
                       ? MAP_FAILED
                       : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return memory == MAP_FAILED ? NULL : memory;
}

static void name_of_room(const struct communicator *own, char name[PATH_MAX])
{
    const char *const folder = getenv("VRAMTRACE_STANDIN_ROOMS");
    snprintf(name, PATH_MAX, "%s/standin-nccl-%016llx", folder ? folder : "/dev/shm",
             (unsigned long long)own->id);
}

static char *slot_of(const struct communicator *own, uint64_t round, int rank)
{
    const uint64_t slot = (round & 1) * (uint64_t)own->slot_count + (uint64_t)(rank % own->slot_count);
    return own->room->slots + slot * SLOT_BYTES;
}

static bool enter_room(struct communicator *own)
{
    char name[PATH_MAX];
    own->room_bytes = sizeof *own->room + 2 * (size_t)own->slot_count * SLOT_BYTES;
    if (own->slot_count == 1) {
        own->room = mmap(NULL, own->room_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return own->room != MAP_FAILED;
    }
    name_of_room(own, name);
    own->room = map_shared(name, own->room_bytes);
    if (own->room && atomic_fetch_add(&own->room->arrived, 1) + 1 == (uint32_t)own->count)
        unlink(name); /* all are in it */
    return own->room != NULL;
}

/* NULL: no memory. */
static struct mailbox *mailbox_of(struct communicator *own, int from, int to)
{
    char name[PATH_MAX + 32];
    struct open_mailbox *open;
    for (open = own->mailboxes; open; open = open->next)
        if (open->from == from && open->to == to)
            return open->box;
    name_of_room(own, name);
    snprintf(name + strlen(name), 32, "-%d-%d", from, to);
    open = malloc(sizeof *open);
    struct mailbox *box = open ? map_shared(name, sizeof *box) : NULL;
    if (!box) {
        free(open);
        return NULL;
    }
    if (atomic_fetch_add(&box->opened, 1) == 1)
        unlink(name); /* both have it */
    *open = (struct open_mailbox){from, to, box, own->mailboxes};
    own->mailboxes = open;
    return box;
}

static void leave(struct communicator *own)
{
    munmap(own->room, own->room_bytes);
    for (struct open_mailbox *open = own->mailboxes, *next; open; open = next) {
        next = open->next;
        munmap(open->box, sizeof *open->box);
        free(open);
    }
    for (struct told *told = own->told, *next; told; told = next) {
        next = told->next;
        free(told);
    }
    free(own->members);
    free(own);
}

/* What NCCL takes from the driver by itself depends on channels and topology: it is what the user says a
 * process has, or is missing. False: the GPU is full. */
static bool take_buffers(void)
{
    static atomic_flag taken = ATOMIC_FLAG_INIT;
    const char *bytes = getenv("VRAMTRACE_STANDIN_NCCL");
    void *driver = bytes ? dlopen("libcuda.so.1", RTLD_LAZY) : NULL;
    int (*allocate)(uint64_t *, size_t) =
        driver ? (__typeof__(allocate))dlsym(driver, "cuMemAlloc_v2") : NULL;
    uint64_t address;
    if (!allocate)
        (void)STANDIN_LACKS("NCCL's buffers of a communicator");
    return !allocate || atomic_flag_test_and_set(&taken) || !allocate(&address, strtoull(bytes, NULL, 10));
}

/* `members` becomes the communicator's. */
static int make(struct communicator **out, int count, uint64_t id, int rank, int *members)
{
    struct communicator *own = calloc(1, sizeof *own);
    *out = own;
    if (!own)
        return SYSTEM_ERROR;
    if (!take_buffers())
        return SYSTEM_ERROR;
    *own = (struct communicator){.count = count, .rank = rank, .id = id, .members = members};
    own->slot_count = some_are_absent() ? 1 : count;
    if (own->slot_count > RANKS || !enter_room(own))
        return SYSTEM_ERROR;
    if (count > 1)
        note_members(own);
    return SUCCESS;
}

/* ---- What travels ---- */

/* Waits until the number is at least so high. */
static bool await(const struct communicator *own, _Atomic uint64_t *number, uint64_t least, int peer)
{
    const struct timespec pause = {.tv_nsec = 50000};
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (atomic_load(number) < least) {
        nanosleep(&pause, NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - begin.tv_sec > DEADLINE_S) {
            fprintf(stderr, "stand-in NCCL: rank %d of %d waits for rank %d\n", own->rank, own->count, peer);
            return false;
        }
    }
    return true;
}

/* Every rank puts its part in, and when all have, finds those of all in the slots. False: one is late. */
static bool exchange(struct communicator *own, const void *part, size_t bytes)
{
    const uint64_t round = ++own->round;
    for (int i = 0; i < own->slot_count && round > 2; i++)
        if (!await(own, &own->room->read[i], round - 2, i))
            return false;
    if (part)
        memcpy(slot_of(own, round, own->rank), part, bytes);
    atomic_store(&own->room->written[own->rank % own->slot_count], round);
    for (int i = 0; i < own->slot_count; i++)
        if (!await(own, &own->room->written[i], round, i))
            return false;
    return true;
}

static int done(struct communicator *own)
{
    atomic_store(&own->room->read[own->rank % own->slot_count], own->round);
    return SUCCESS;
}

static int put_letter(struct communicator *own, int peer, const void *message, size_t bytes)
{
    struct mailbox *box = mailbox_of(own, own->rank, peer);
    const uint64_t number = box ? atomic_load(&box->sent) : 0;
    if (!box)
        return SYSTEM_ERROR;
    if (number >= LETTERS && !await(own, &box->received, number + 1 - LETTERS, peer))
        return REMOTE_ERROR;
    memcpy(box->letters[number % LETTERS], message, bytes);
    atomic_store(&box->sent, number + 1);
    return SUCCESS;
}

static int take_letter(struct communicator *own, int peer, void *message, size_t bytes)
{
    struct mailbox *box = mailbox_of(own, peer, own->rank);
    const uint64_t number = box ? atomic_load(&box->received) : 0;
    if (!box)
        return SYSTEM_ERROR;
    if (!await(own, &box->sent, number + 1, peer))
        return REMOTE_ERROR;
    memcpy(message, box->letters[number % LETTERS], bytes);
    atomic_store(&box->received, number + 1);
    return SUCCESS;
}

/* ---- What a rank broadcasts, for ranks that are played after it: a file of the run, each message behind its
 * size ---- */

static int open_told(const struct communicator *own, int root, int flags)
{
    const char *folder = getenv("VRAMTRACE_STANDIN_ROOMS");
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/../told-%016llx-%d", folder ? folder : "", (unsigned long long)own->id,
             root);
    return folder ? open(name, flags | O_CLOEXEC, 0600) : -1;
}

static void tell_later(struct communicator *own, const void *message, uint64_t bytes)
{
    const int file = open_told(own, own->rank, O_WRONLY | O_CREAT | (own->tells ? O_APPEND : O_TRUNC));
    own->tells = true;
    if (file < 0)
        return;
    if (write(file, &bytes, sizeof bytes) < 0 || write(file, message, bytes) < 0)
        perror("stand-in NCCL");
    close(file);
}

/* A rank whose message would be needed. */
static void note_root(struct communicator *own, int root)
{
    char text[32];
    if (own->noted_root || !own->members)
        return;
    own->noted_root = true;
    snprintf(text, sizeof text, "root %d\n", own->members[root]);
    note(text);
}

/* The next message of the root, if it was played before and has one of that size. */
static bool told_before(struct communicator *own, int root, void *to, size_t bytes)
{
    const int file = is_present(own, root) ? -1 : open_told(own, root, O_RDONLY);
    struct told *told = own->told;
    uint64_t found = 0;
    if (file < 0)
        return false;
    while (told && told->root != root)
        told = told->next;
    if (!told && (told = malloc(sizeof *told))) {
        *told = (struct told){root, 0, own->told};
        own->told = told;
    }
    bool known = told && pread(file, &found, sizeof found, told->at) == sizeof found;
    if (known) {
        known = found == bytes && pread(file, to, bytes, told->at + (off_t)sizeof found) == (ssize_t)bytes;
        told->at += (off_t)(sizeof found + found);
    }
    close(file);
    return known;
}

static struct kept *take_kept(size_t bytes)
{
    struct kept *kept;
    while (atomic_flag_test_and_set(&kept_is_taken))
        ;
    for (kept = all_kept; kept && kept->bytes != bytes;)
        kept = kept->next;
    return kept;
}

static void keep_message(const void *message, size_t bytes)
{
    struct kept *kept = take_kept(bytes);
    if (!kept) {
        kept = malloc(sizeof *kept + bytes);
        if (kept) {
            *kept = (struct kept){bytes, all_kept};
            all_kept = kept;
        }
    }
    if (kept)
        memcpy(kept->message, message, bytes);
    atomic_flag_clear(&kept_is_taken);
}

/* What an absent rank sends: what this one sent last of that size, else zeros. */
static void repeat_message(void *message, size_t bytes)
{
    const struct kept *kept = take_kept(bytes);
    if (kept)
        memcpy(message, kept->message, bytes);
    else
        memset(message, 0, bytes);
    atomic_flag_clear(&kept_is_taken);
}

#endif
