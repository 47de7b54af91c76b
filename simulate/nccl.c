/* NCCL of the stand-in. Communicators know their size and rank, and messages of up to SLOT_BYTES from each
 * rank really travel, through shared memory (files in VRAMTRACE_STANDIN_ROOMS, else in /dev/shm): sizes,
 * flags and pickled objects that ranks exchange are right. Larger ones move nothing, as kernels compute
 * nothing. Every call is done when it returns, or when its group ends; streams are not looked at.
 *
 * What a rank waits for comes within DEADLINE_S, or the call fails as NCCL's do when a peer is gone.
 * Threads: as NCCL, one at a time for a communicator. */
#define _GNU_SOURCE
#include "nccl_numbers.h"
#include "nccl_room.h"

#include <sys/random.h>

#pragma GCC visibility push(default)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

enum { VERSION = 22809 };
struct unique_id {
    char bytes[128];
};

/* ---- Where only some ranks are played: whose communicators are they? ---- */

/* What a communicator of this id will be. */
static struct foretold {
    struct unique_id unique;
    uint64_t id;
    int count, *members;
    struct foretold *next;
} * foretold, next_split;

static int *copy_of(const int *numbers, int count)
{
    const size_t bytes = (size_t)(count > 0 ? count : 0) * sizeof *numbers;
    int *copy = numbers ? malloc(bytes + 1) : NULL;
    return copy ? memcpy(copy, numbers, bytes) : NULL;
}

/* The communicator that will be made of this id: its number (the same in all processes that play one of its
 * ranks, though each makes up the id for itself), and its ranks' numbers in the job. */
void standin_nccl_tell(const struct unique_id *unique, uint64_t id, int count, const int *members)
{
    struct foretold *one = malloc(sizeof *one);
    if (!one)
        return;
    *one = (struct foretold){*unique, id, count, copy_of(members, count), foretold};
    foretold = one;
}

/* The communicator that the next split makes: ncclCommSplit does not say who is in it. */
void standin_nccl_tell_split(int count, const int *members)
{
    free(next_split.members);
    next_split.count = count;
    next_split.members = copy_of(members, count);
}

static int make_of(struct communicator **out, int count, const struct unique_id *unique, int rank)
{
    const struct foretold *one = foretold;
    while (one && memcmp(&one->unique, unique, sizeof *unique))
        one = one->next;
    if (!one)
        return make(out, count, hash_of(unique, sizeof *unique), rank, NULL);
    return make(out, count, one->id, rank, one->count == count ? copy_of(one->members, count) : NULL);
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
    return make_of(out, count, &id, rank);
}

int ncclCommInitRank(struct communicator **out, int count, struct unique_id id, int rank)
{
    return make_of(out, count, &id, rank);
}

int ncclCommInitRankScalable(struct communicator **out, int count, int rank, int id_count,
                             struct unique_id *ids, void *config)
{
    (void)id_count;
    (void)config;
    return make_of(out, count, ids, rank);
}

/* Of one process and several GPUs: messages do not travel. */
int ncclCommInitAll(struct communicator **out, int count, const int *devices)
{
    (void)devices;
    for (int i = 0; i < count; i++) {
        const int error = make(&out[i], 1, 0, 0, NULL);
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
    int count = 0, rank = 0, *members = NULL;
    if (!exchange(own, told, sizeof told))
        return REMOTE_ERROR;
    for (int i = 0; i < own->count; i++) {
        int other[2];
        memcpy(other, slot_of(own, own->round, i), sizeof other);
        count += other[0] == color;
        rank += other[0] == color && (other[1] < key || (other[1] == key && i < own->rank));
    }
    done(own);
    *out = NULL;
    if (color < 0)
        return SUCCESS;
    if (next_split.count && some_are_absent()) {
        count = next_split.count;
        rank = key;
        members = next_split.members;
        next_split = (struct foretold){.count = 0};
    }
    return make(out, count, hash_of(parts, sizeof parts), rank, members);
}

int ncclCommDestroy(struct communicator *own)
{
    if (own)
        leave(own);
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
    if (!exchange(own, part, told))
        return REMOTE_ERROR;
    for (int i = 0; i < ranks; i++)
        memcpy((char *)to + (size_t)i * bytes, slot_of(own, own->round, first + i) + offset, bytes);
    return done(own);
}

/* Messages of bytes, objects perhaps, are exchanged whole, if all ranks are there. */
static bool is_whole(const struct communicator *own, int type)
{
    return own->slot_count == own->count && type <= UINT8;
}

int ncclAllGather(const void *part, void *all, size_t count, int type, struct communicator *own, void *stream)
{
    (void)stream;
    const size_t bytes = count * size_of(type);
    if (bytes <= SLOT_BYTES || !is_whole(own, type))
        return collect(own, part, bytes, all, bytes, 0, own->count, 0);
    for (size_t first = 0; first < bytes; first += SLOT_BYTES) {
        const size_t here = bytes - first < SLOT_BYTES ? bytes - first : SLOT_BYTES;
        if (!exchange(own, (const char *)part + first, here))
            return REMOTE_ERROR;
        for (int i = 0; i < own->count; i++)
            memcpy((char *)all + (size_t)i * bytes + first, slot_of(own, own->round, i), here);
        done(own);
    }
    return SUCCESS;
}

/* Each rank has `count` for each. */
int ncclAlltoAll(const void *from, void *to, size_t count, int type, struct communicator *own, void *stream)
{
    (void)stream;
    const size_t bytes = count * size_of(type);
    const char *parts = from;
    size_t part = (size_t)own->rank;
    for (size_t i = 0; i < (size_t)own->count && own->slot_count < own->count && takes_most(type); i++)
        if (sum_of(parts + i * bytes, bytes) > sum_of(parts + part * bytes, bytes))
            part = i;
    return collect(own, from, bytes * (size_t)own->count, to, bytes, 0, own->count, part * bytes);
}

/* Joins what all ranks have in their slots from a number on. Whole numbers of 64 bits do not fit into a
 * double. Where one slot stands for all, a sum is so many times it, and a product only itself. */
static void reduce(const struct communicator *own, void *out, size_t first, size_t count, int type,
                   int operation)
{
    const size_t size = size_of(type);
    const int times = operation == SUM ? own->count / own->slot_count : 1;
    for (size_t i = 0; i < count; i++) {
        const size_t at = (first + i) * size;
        char *to = (char *)out + i * size;
        if (type == FLOAT16 || type > BFLOAT16) {
            memcpy(to, slot_of(own, own->round, 0) + at, size);
            continue;
        }
        uint64_t whole = 0;
        double number = 0;
        for (int rank = 0; rank < own->slot_count; rank++) {
            const char *from = slot_of(own, own->round, rank) + at;
            if (type == INT64 || type == UINT64) {
                uint64_t other;
                memcpy(&other, from, sizeof other);
                whole = rank ? joined_whole(whole, other, operation, type == INT64) : other;
            } else {
                number = rank ? joined(number, number_at(from, type), operation) : number_at(from, type);
            }
        }
        whole *= (uint64_t)times;
        if (type == INT64 || type == UINT64)
            memcpy(to, &whole, sizeof whole);
        else
            put_number(to, type, operation == AVERAGE ? number / own->slot_count : number * times);
    }
}

static int reduce_part(const void *from, void *to, size_t sent, size_t first, size_t count, int type,
                       int operation, struct communicator *own)
{
    const size_t size = size_of(type);
    if (sent * size > SLOT_BYTES)
        return SUCCESS;
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

/* A broadcast is a letter, too: an all_gather into tensors of several sizes comes as a group of broadcasts,
 * one from each rank. */
static _Thread_local struct letter {
    struct communicator *own;
    enum { SENT, RECEIVED, BROADCAST } kind;
    const void *from;
    void *to;
    size_t bytes;
    int peer; /* to whom, from whom, or the root */
    int type;
} * letters; /* of the group that is open */
static _Thread_local size_t letter_count, letter_room;
static _Thread_local int depth;

/* What this rank has in this group for itself, or for whom it has most: an absent rank is taken to have the
 * same for it. */
static const void *own_part(const struct letter *like)
{
    const void *part = NULL;
    int64_t most = 0;
    for (size_t i = 0; i < letter_count; i++) {
        const struct letter *letter = &letters[i];
        if (letter->own != like->own || !letter->from || letter->bytes != like->bytes)
            continue;
        const int64_t sum = takes_most(letter->type) ? sum_of(letter->from, letter->bytes) : 0;
        if (sum > most || (!most && letter->peer == like->own->rank)) {
            part = letter->from;
            most = sum;
        }
    }
    return part;
}

static int broadcast(const struct letter *letter)
{
    const bool is_root = letter->peer == letter->own->rank;
    const void *from = is_root ? letter->from : own_part(letter);
    if (letter->own->slot_count == letter->own->count)
        return collect(letter->own, is_root ? from : NULL, letter->bytes, letter->to, letter->bytes,
                       letter->peer, 1, 0);
    if (is_root)
        tell_later(letter->own, from, letter->bytes);
    else if (told_before(letter->own, letter->peer, letter->to, letter->bytes))
        return SUCCESS;
    if (!is_root && letter->type < FLOAT16 && letter->bytes <= SLOT_BYTES)
        note_root(letter->own, letter->peer);
    if (from) /* else what this rank has there stays */
        memmove(letter->to, from, letter->bytes);
    return SUCCESS;
}

static int send_letter(const struct letter *letter)
{
    keep_message(letter->from, letter->bytes);
    return is_present(letter->own, letter->peer)
               ? put_letter(letter->own, letter->peer, letter->from, letter->bytes)
               : SUCCESS;
}

static int receive_letter(const struct letter *letter)
{
    const void *from;
    if (is_present(letter->own, letter->peer))
        return take_letter(letter->own, letter->peer, letter->to, letter->bytes);
    from = own_part(letter);
    if (from)
        memcpy(letter->to, from, letter->bytes);
    else
        repeat_message(letter->to, letter->bytes);
    return SUCCESS;
}

/* Of one communicator in a group, whose first letter this is: letters of neighbors, or parts that everyone
 * has for everyone. */
static void note_letters(const struct letter *first)
{
    struct communicator *own = first->own;
    int second = first->peer;
    bool to_itself = false, uneven = false, to_many = false;
    for (const struct letter *letter = first; letter < letters + letter_count; letter++) {
        if (letter->own != own || letter->kind == BROADCAST || !letter->bytes)
            continue;
        if (second == first->peer)
            second = letter->peer;
        to_many |= letter->peer != first->peer && letter->peer != second;
        to_itself |= letter->peer == own->rank;
        uneven |= letter->kind == SENT && letter->bytes != first->bytes;
    }
    if (to_itself || to_many) {
        if (uneven && !own->noted_uneven)
            note("uneven\n");
        own->noted_uneven |= uneven;
        return;
    }
    for (const struct letter *letter = first; letter < letters + letter_count; letter++) {
        const bool is_read = letter->kind == RECEIVED && letter->bytes <= SLOT_BYTES &&
                             letter->type < FLOAT16; /* sizes, perhaps */
        bool *noted = is_read ? &own->noted_read_letters : &own->noted_letters;
        char text[64];
        if (letter->own != own || letter->kind == BROADCAST || !letter->bytes || *noted || !own->members)
            continue;
        *noted = true;
        snprintf(text, sizeof text, "letters %d %d\n", own->members[letter->peer], is_read);
        note(text);
    }
}

static bool is_first(size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (letters[i].own == letters[index].own && letters[i].kind != BROADCAST && letters[i].bytes)
            return false;
    return true;
}

/* Of a letter of bytes, an object perhaps, as many as a slot has from `first` on; of others all, or nothing
 * of those that are larger. All ranks put in their first parts before any takes a second one. */
static struct letter part_of(const struct letter *whole, size_t first)
{
    struct letter part = *whole;
    if (whole->bytes <= SLOT_BYTES || !is_whole(whole->own, whole->type)) {
        part.bytes = first ? 0 : whole->bytes;
        return part;
    }
    part.bytes = first > whole->bytes                ? 0
                 : whole->bytes - first < SLOT_BYTES ? whole->bytes - first
                                                     : SLOT_BYTES;
    part.from = whole->from ? (const char *)whole->from + first : NULL;
    part.to = whole->to ? (char *)whole->to + first : NULL;
    return part;
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
    if (some_are_absent())
        for (size_t i = 0; i < letter_count; i++)
            if (letters[i].kind != BROADCAST && letters[i].bytes && is_first(i))
                note_letters(&letters[i]);
    bool any = true;
    for (size_t first = 0; any && !result; first += SLOT_BYTES) {
        any = false;
        for (int pass = SENT; pass <= BROADCAST; pass++)
            for (size_t i = 0; i < letter_count && !result; i++) {
                const struct letter part = part_of(&letters[i], first);
                if (letters[i].kind != pass || (first && !part.bytes) || part.bytes > SLOT_BYTES)
                    continue;
                any = true;
                result = pass == SENT       ? send_letter(&part)
                         : pass == RECEIVED ? receive_letter(&part)
                                            : broadcast(&part);
            }
    }
    letter_count = 0;
    return result;
}

/* Alone, it is a group of one. */
static int add_letter(struct letter letter)
{
    ncclGroupStart();
    if (letter_count == letter_room) {
        const size_t room = letter_room ? 2 * letter_room : 64;
        struct letter *larger = realloc(letters, room * sizeof *letters);
        if (!larger) {
            depth--;
            return SYSTEM_ERROR;
        }
        letters = larger;
        letter_room = room;
    }
    letters[letter_count++] = letter;
    return ncclGroupEnd();
}

int ncclSend(const void *from, size_t count, int type, int peer, struct communicator *own, void *stream)
{
    (void)stream;
    return add_letter((struct letter){own, SENT, from, NULL, count * size_of(type), peer, type});
}

int ncclRecv(void *to, size_t count, int type, int peer, struct communicator *own, void *stream)
{
    (void)stream;
    return add_letter((struct letter){own, RECEIVED, NULL, to, count * size_of(type), peer, type});
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, struct communicator *own,
                  void *stream)
{
    (void)stream;
    return add_letter((struct letter){own, BROADCAST, own->rank == root ? from : NULL, to,
                                      count * size_of(type), root, type});
}

int ncclBcast(void *at, size_t count, int type, int root, struct communicator *own, void *stream)
{
    return ncclBroadcast(at, at, count, type, root, own, stream);
}
