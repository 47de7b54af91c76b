/* NCCL of the stand-in. Communicators know their size and rank, and messages of up to SLOT_BYTES from each
 * rank really travel, through shared memory (a file in VRAMTRACE_STANDIN_ROOMS, else in /dev/shm): sizes,
 * flags and pickled objects that ranks exchange are right. Larger ones move nothing, as kernels compute
 * nothing. Every call is done when it returns; streams are not looked at.
 *
 * What a rank waits for comes within DEADLINE_S, or the call fails as NCCL's do when a peer is gone.
 * Threads: as NCCL, one at a time for a communicator. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "lacks.h"
#include "nccl_numbers.h"

#pragma GCC visibility push(default)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

enum { SLOT_BYTES = 65536, RANKS = 64, LETTERS = 8, PENDING = 4096, DEADLINE_S = 120, VERSION = 22809 };
/* As in nccl.h. */
enum { SUCCESS = 0, SYSTEM_ERROR = 2, REMOTE_ERROR = 6 };
struct unique_id {
    char bytes[128];
};

/* What the ranks of a communicator share; n slots for each of two rounds, then n x n mailboxes follow. A rank
 * may be one round ahead of another, which still reads the slots of the round before. */
struct room {
    _Atomic uint32_t arrived;
    _Atomic uint64_t written[RANKS],
        read[RANKS]; /* rounds that each rank has put its part into, and has read */
    char slots[];
};
struct mailbox {
    _Atomic uint64_t sent, received;
    char letters[LETTERS][SLOT_BYTES];
};
struct communicator {
    int count, rank;
    uint64_t id, round;
    unsigned splits;
    struct room *room; /* NULL: nobody else is in it */
    size_t room_bytes;
};

static uint64_t hash_of(const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    uint64_t hash = UINT64_C(1469598103934665603);
    while (count--)
        hash = (hash ^ *at++) * UINT64_C(1099511628211);
    return hash;
}

/* ---- Rooms ---- */

static char *slot_of(const struct communicator *own, uint64_t round, int rank)
{
    return own->room->slots + ((round & 1) * (size_t)own->count + (size_t)rank) * SLOT_BYTES;
}

static struct mailbox *mailbox_of(const struct communicator *own, int from, int to)
{
    struct mailbox *first = (void *)(own->room->slots + 2 * (size_t)own->count * SLOT_BYTES);
    return &first[from * own->count + to];
}

static bool enter_room(struct communicator *own)
{
    char name[PATH_MAX];
    const char *const folder = getenv("VRAMTRACE_STANDIN_ROOMS");
    const size_t count = (size_t)own->count;
    own->room_bytes = sizeof *own->room + 2 * count * SLOT_BYTES + count * count * sizeof(struct mailbox);
    snprintf(name, sizeof name, "%s/standin-nccl-%016llx", folder ? folder : "/dev/shm",
             (unsigned long long)own->id);
    const int file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
        return false;
    void *memory = ftruncate(file, (off_t)own->room_bytes)
                       ? MAP_FAILED
                       : mmap(NULL, own->room_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED)
        return false;
    own->room = memory;
    if (atomic_fetch_add(&own->room->arrived, 1) + 1 == (uint32_t)own->count)
        unlink(name); /* all are in it */
    return true;
}

static int make(struct communicator **out, int count, uint64_t id, int rank)
{
    struct communicator *own = calloc(1, sizeof *own);
    *out = own;
    if (!own || count > RANKS)
        return SYSTEM_ERROR;
    (void)STANDIN_LACKS("NCCL's buffers of a communicator");
    own->count = count;
    own->rank = rank;
    own->id = id;
    return count == 1 || enter_room(own) ? SUCCESS : SYSTEM_ERROR;
}

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
    for (int i = 0; i < own->count && round > 2; i++)
        if (!await(own, &own->room->read[i], round - 2, i))
            return false;
    if (part)
        memcpy(slot_of(own, round, own->rank), part, bytes);
    atomic_store(&own->room->written[own->rank], round);
    for (int i = 0; i < own->count; i++)
        if (!await(own, &own->room->written[i], round, i))
            return false;
    return true;
}

static int done(struct communicator *own)
{
    atomic_store(&own->room->read[own->rank], own->round);
    return SUCCESS;
}

/* ---- Communicators ---- */

int ncclGetVersion(int *version)
{
    *version = VERSION;
    return SUCCESS;
}

int ncclGetUniqueId(struct unique_id *id)
{
    return getrandom(id, sizeof *id, 0) == sizeof *id ? SUCCESS : SYSTEM_ERROR;
}

int ncclCommInitRankConfig(struct communicator **out, int count, struct unique_id id, int rank, void *config)
{
    (void)config;
    return make(out, count, hash_of(&id, sizeof id), rank);
}

int ncclCommInitRank(struct communicator **out, int count, struct unique_id id, int rank)
{
    return make(out, count, hash_of(&id, sizeof id), rank);
}

int ncclCommInitRankScalable(struct communicator **out, int count, int rank, int id_count,
                             struct unique_id *ids, void *config)
{
    (void)id_count;
    (void)config;
    return make(out, count, hash_of(ids, sizeof *ids), rank);
}

/* Of one process and several GPUs: messages do not travel. */
int ncclCommInitAll(struct communicator **out, int count, const int *devices)
{
    (void)devices;
    for (int i = 0; i < count; i++) {
        const int error = make(&out[i], 1, 0, 0);
        if (error)
            return error;
        out[i]->count = count;
        out[i]->rank = i;
    }
    return SUCCESS;
}

/* Everyone tells its color and key. */
int ncclCommSplit(struct communicator *own, int color, int key, struct communicator **out, void *config)
{
    (void)config;
    const int told[2] = {color, key};
    const uint64_t parts[3] = {own->id, ++own->splits, (uint64_t)color};
    int count = 1, rank = 0;
    if (own->room) {
        if (!exchange(own, told, sizeof told))
            return REMOTE_ERROR;
        count = 0;
        for (int i = 0; i < own->count; i++) {
            int other[2];
            memcpy(other, slot_of(own, own->round, i), sizeof other);
            count += other[0] == color;
            rank += other[0] == color && (other[1] < key || (other[1] == key && i < own->rank));
        }
        done(own);
    }
    *out = NULL;
    return color < 0 ? SUCCESS : make(out, count, hash_of(parts, sizeof parts), rank);
}

int ncclCommDestroy(struct communicator *own)
{
    if (own && own->room)
        munmap(own->room, own->room_bytes);
    free(own);
    return SUCCESS;
}

int ncclCommAbort(struct communicator *own)
{
    return ncclCommDestroy(own);
}

int ncclCommCount(const struct communicator *own, int *count)
{
    *count = own->count;
    return SUCCESS;
}

int ncclCommUserRank(const struct communicator *own, int *rank)
{
    *rank = own->rank;
    return SUCCESS;
}

int ncclCommGetAsyncError(struct communicator *own, int *error)
{
    (void)own;
    *error = SUCCESS;
    return SUCCESS;
}

/* ---- Collectives ---- */

/* Every rank tells `told` bytes; `bytes` of them, from an offset on, arrive from each of so many ranks. */
static int collect(struct communicator *own, const void *part, size_t told, void *to, size_t bytes, int first,
                   int ranks, size_t offset)
{
    if (told > SLOT_BYTES)
        return SUCCESS;
    if (!own->room) {
        memmove(to, part, bytes);
        return SUCCESS;
    }
    if (!exchange(own, part, told))
        return REMOTE_ERROR;
    for (int i = 0; i < ranks; i++)
        memcpy((char *)to + (size_t)i * bytes, slot_of(own, own->round, first + i) + offset, bytes);
    return done(own);
}

int ncclAllGather(const void *part, void *all, size_t count, int type, struct communicator *own, void *stream)
{
    (void)stream;
    const size_t bytes = count * size_of(type);
    return collect(own, part, bytes, all, bytes, 0, own->count, 0);
}

/* Each rank has `count` for each. */
int ncclAlltoAll(const void *from, void *to, size_t count, int type, struct communicator *own, void *stream)
{
    (void)stream;
    const size_t bytes = count * size_of(type);
    return collect(own, from, bytes * (size_t)own->count, to, bytes, 0, own->count,
                   (size_t)own->rank * bytes);
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, struct communicator *own,
                  void *stream)
{
    (void)stream;
    const size_t bytes = count * size_of(type);
    return collect(own, own->rank == root || !own->room ? from : NULL, bytes, to, bytes, root, 1, 0);
}

int ncclBcast(void *at, size_t count, int type, int root, struct communicator *own, void *stream)
{
    return ncclBroadcast(at, at, count, type, root, own, stream);
}

/* Joins what all ranks have in their slots from a number on. Whole numbers of 64 bits do not fit into a
 * double. */
static void reduce(const struct communicator *own, void *out, size_t first, size_t count, int type,
                   int operation)
{
    const size_t size = size_of(type);
    for (size_t i = 0; i < count; i++) {
        const size_t at = (first + i) * size;
        char *to = (char *)out + i * size;
        if (type == FLOAT16 || type > BFLOAT16) {
            memcpy(to, slot_of(own, own->round, 0) + at, size);
            continue;
        }
        uint64_t whole = 0;
        double number = 0;
        for (int rank = 0; rank < own->count; rank++) {
            const char *from = slot_of(own, own->round, rank) + at;
            if (type == INT64 || type == UINT64) {
                uint64_t other;
                memcpy(&other, from, sizeof other);
                whole = rank ? joined_whole(whole, other, operation, type == INT64) : other;
            } else {
                number = rank ? joined(number, number_at(from, type), operation) : number_at(from, type);
            }
        }
        if (type == INT64 || type == UINT64)
            memcpy(to, &whole, sizeof whole);
        else
            put_number(to, type, operation == AVERAGE ? number / own->count : number);
    }
}

static int reduce_part(const void *from, void *to, size_t sent, size_t first, size_t count, int type,
                       int operation, struct communicator *own)
{
    const size_t size = size_of(type);
    if (sent * size > SLOT_BYTES)
        return SUCCESS;
    if (!own->room) {
        memmove(to, (const char *)from + first * size, count * size);
        return SUCCESS;
    }
    if (!exchange(own, from, sent * size))
        return REMOTE_ERROR;
    reduce(own, to, first, count, type, operation);
    return done(own);
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, struct communicator *own,
                  void *stream)
{
    (void)stream;
    return reduce_part(from, to, count, 0, count, type, operation, own);
}

int ncclReduce(const void *from, void *to, size_t count, int type, int operation, int root,
               struct communicator *own, void *stream)
{
    (void)stream;
    return reduce_part(from, to, count, 0, own->rank == root ? count : 0, type, operation, own);
}

int ncclReduceScatter(const void *from, void *to, size_t count, int type, int operation,
                      struct communicator *own, void *stream)
{
    (void)stream;
    return reduce_part(from, to, count * (size_t)own->count, count * (size_t)own->rank, count, type,
                       operation, own);
}

/* ---- From one to another ---- */

static _Thread_local struct letter {
    struct communicator *own;
    void *to;
    size_t bytes;
    int peer;
} awaited[PENDING]; /* in a group: what is received when it ends */
static _Thread_local int awaited_count, depth;

static int receive(struct letter letter)
{
    struct mailbox *box = mailbox_of(letter.own, letter.peer, letter.own->rank);
    const uint64_t number = atomic_load(&box->received);
    if (!await(letter.own, &box->sent, number + 1, letter.peer))
        return REMOTE_ERROR;
    memcpy(letter.to, box->letters[number % LETTERS], letter.bytes);
    atomic_store(&box->received, number + 1);
    return SUCCESS;
}

int ncclSend(const void *from, size_t count, int type, int peer, struct communicator *own, void *stream)
{
    (void)stream;
    const size_t bytes = count * size_of(type);
    if (bytes > SLOT_BYTES || !own->room)
        return SUCCESS;
    struct mailbox *box = mailbox_of(own, own->rank, peer);
    const uint64_t number = atomic_load(&box->sent);
    if (number >= LETTERS && !await(own, &box->received, number + 1 - LETTERS, peer))
        return REMOTE_ERROR;
    memcpy(box->letters[number % LETTERS], from, bytes);
    atomic_store(&box->sent, number + 1);
    return SUCCESS;
}

int ncclRecv(void *to, size_t count, int type, int peer, struct communicator *own, void *stream)
{
    (void)stream;
    const struct letter letter = {own, to, count * size_of(type), peer};
    if (letter.bytes > SLOT_BYTES || !own->room)
        return SUCCESS;
    if (!depth)
        return receive(letter);
    if (awaited_count == PENDING)
        return SYSTEM_ERROR;
    awaited[awaited_count++] = letter;
    return SUCCESS;
}

int ncclGroupStart(void)
{
    depth++;
    return SUCCESS;
}

int ncclGroupEnd(void)
{
    int result = SUCCESS;
    if (--depth > 0)
        return SUCCESS;
    for (int i = 0; i < awaited_count && !result; i++)
        result = receive(awaited[i]);
    awaited_count = 0;
    return result;
}
