/* The source of unwind rules with -Dunwinder=libunwind. The host's threads only read what the writer's thread
 * has asked of libunwind; what it has not been asked yet waits here for it. */
#include "stacks/unwind_tables.h"

#include <stdatomic.h>
#include <string.h>

#include "hash.h"
#include "loader/elf_walk.h"
#include "loader/fork_gate.h"
#include "log.h"
#include "stacks/libunwind_rules.h"
#include "thread.h"

/* A slot belongs to its address for ever. Its answer has the number of the `age` that it is for in the upper
 * half, so that answers of an earlier age count as none. */
enum { SLOT_BITS = 16, SLOTS = 1 << SLOT_BITS, PROBES = 32, ROWS = 1 << 14, LIKELY = 1024, BATCH = 64 };
enum { WAITING = ROWS, NO_TABLE };
static struct slot {
    _Atomic uintptr_t address;
    _Atomic uint64_t answer; /* an index into `rows`, WAITING, or NO_TABLE */
} slots[SLOTS];
static struct vt_unwind_row rows[ROWS];
static uint32_t row_count, likely[LIKELY]; /* the latest row with each hash: most rows are like others */
static _Atomic uint32_t age = 1;           /* raised when libraries were unloaded */
static _Atomic bool any_waiting;
static _Atomic uint64_t unanswered;
static bool is_open;

/* NULL: no slot is free for it. */
static struct slot *slot_of(uintptr_t address)
{
    const size_t first = vt_hash(address) >> (64 - SLOT_BITS);
    for (size_t i = 0; i < PROBES; i++) {
        struct slot *slot = &slots[(first + i) % SLOTS];
        uintptr_t owner = atomic_load_explicit(&slot->address, memory_order_relaxed);
        if (owner == address ||
            (!owner && (atomic_compare_exchange_strong(&slot->address, &owner, address) || owner == address)))
            return slot;
    }
    return NULL;
}

static uint64_t of_age(uint32_t at_age, uint32_t answer)
{
    return (uint64_t)at_age << 32 | answer;
}

bool vt_unwind_find(uintptr_t address, struct vt_unwind_row *row)
{
    const uint32_t now = atomic_load(&age);
    struct slot *slot = slot_of(address);
    uint64_t answer = slot ? atomic_load_explicit(&slot->answer, memory_order_acquire) : 0;
    if (answer >> 32 == now && (uint32_t)answer != WAITING) {
        if ((uint32_t)answer != NO_TABLE)
            *row = rows[(uint32_t)answer];
        return (uint32_t)answer != NO_TABLE;
    }
    if (slot && answer >> 32 != now &&
        atomic_compare_exchange_strong(&slot->answer, &answer, of_age(now, WAITING)))
        atomic_store(&any_waiting, true);
    atomic_fetch_add_explicit(&unanswered, 1, memory_order_relaxed);
    return false;
}

uint64_t vt_unwind_unanswered(void)
{
    return atomic_load_explicit(&unanswered, memory_order_relaxed);
}

void vt_unwind_forget(void)
{
    atomic_fetch_add(&age, 1);
}

/* ---- in the writer's thread ---- */

static void open_library(void *unused)
{
    struct vt_gate gate;
    (void)unused;
    vt_gate_enter(&gate); /* a forked child must not find libunwind's lock taken */
    is_open = vt_libunwind_open();
    vt_gate_leave(&gate);
}

void vt_unwind_tables_start(void)
{
    atomic_store(&any_waiting, true); /* a forked child may have lost its parent's note */
    if (!is_open && !vt_run_apart(open_library, NULL))
        vt_log("no thread with its own descriptors could be made: native stacks are empty");
    else if (!is_open)
        vt_log("libunwind was not found: native stacks are empty");
}

/* The index of an equal row, which is stored if there is none. WAITING: all are taken. */
static uint32_t store_row(const struct vt_unwind_row *row)
{
    uint64_t words[sizeof *row / 8], hash = 0;
    memcpy(words, row, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        hash = vt_hash_add(hash, words[i]);
    uint32_t *same = &likely[vt_hash(hash) >> 32 & (LIKELY - 1)];
    if (row_count && memcmp(&rows[*same], row, sizeof *row) == 0)
        return *same;
    if (row_count == ROWS)
        return WAITING;
    rows[row_count] = *row;
    return *same = row_count++;
}

struct batch {
    uint32_t now;
    size_t count;
    struct slot *slots[BATCH];
    uint32_t answers[BATCH];
};

/* Under the loader's lock, so that no library goes while its tables are read. */
static int answer_in(struct dl_phdr_info *object, size_t bytes, void *context)
{
    struct batch *batch = context;
    const struct vt_elf elf = {
        .base = object->dlpi_addr, .segments = object->dlpi_phdr, .segment_count = object->dlpi_phnum};
    struct vt_unwind_row row;
    (void)bytes;
    for (size_t i = 0; i < batch->count; i++) {
        const uintptr_t address = atomic_load_explicit(&batch->slots[i]->address, memory_order_relaxed);
        if (vt_elf_contains(&elf, (const void *)address) && vt_libunwind_find(object, address, &row))
            batch->answers[i] = store_row(&row);
    }
    return 0;
}

static void answer_batch(struct batch *batch)
{
    vt_elf_iterate(answer_in, batch);
    for (size_t i = 0; i < batch->count; i++) {
        uint64_t waiting = of_age(batch->now, WAITING);
        atomic_compare_exchange_strong(&batch->slots[i]->answer, &waiting,
                                       of_age(batch->now, batch->answers[i]));
    }
    batch->count = 0;
}

void vt_unwind_answer(void)
{
    if (!is_open || !atomic_exchange(&any_waiting, false))
        return;
    struct batch batch = {.now = atomic_load(&age)};
    for (size_t i = 0; i < SLOTS; i++) {
        if (atomic_load(&slots[i].answer) != of_age(batch.now, WAITING))
            continue;
        batch.answers[batch.count] = NO_TABLE;
        batch.slots[batch.count++] = &slots[i];
        if (batch.count == BATCH)
            answer_batch(&batch);
    }
    answer_batch(&batch);
}
