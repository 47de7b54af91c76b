#include "report/top.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/allocate.h"
#include "base/format.h"
#include "base/index.h"
#include "base/sort.h"
#include "trace/processes.h"
#include "trace/rings.h"

const char *vt_top_state_name(unsigned state)
{
    static const char *const names[] = {"recording", "paused", "ended"};
    return names[state];
}

const char *vt_top_key_name(unsigned key)
{
    static const char *const names[VT_TOP_KEYS] = {"pid",    "rank", "device", "driver",    "segments",
                                                   "blocks", "peak", "events", "allocated", "command"};
    return names[key];
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- Processes ---- */

static struct vt_top_process *find_process(struct vt_top *top, const struct vt_ring_header *header)
{
    for (size_t i = 0; i < top->process_count; i++)
        if (!memcmp(top->processes[i].identity, header->identity, sizeof header->identity))
            return &top->processes[i];
    return NULL;
}

static struct vt_top_process *add_process(struct vt_top *top, const struct vt_ring_header *header)
{
    struct vt_top_process process = {.pid = header->process.pid};
    memcpy(process.identity, header->identity, sizeof process.identity);
    memcpy(process.rank_text, header->top.rank, sizeof process.rank_text);
    if (vt_process_user(process.pid, &process.user_id))
        process.user_id = header->process.user_id;
    process.command = vt_process_command(process.pid);
    process.trace = vt_copy_text(header->trace_path);
    VT_APPEND(top->processes, top->process_count, top->process_capacity, process);
    return &top->processes[top->process_count - 1];
}

/* Frees come before what they free was counted, if another thread is quick: for a moment less than nothing is
 * there. */
static uint64_t not_negative(uint64_t bytes)
{
    return (int64_t)bytes < 0 ? 0 : bytes;
}

static struct vt_top_use *use_of(struct vt_top_process *process, int32_t device)
{
    for (size_t i = 0; i < process->use_count; i++)
        if (process->uses[i].device == device)
            return &process->uses[i];
    struct vt_top_use *uses = process->uses = vt_resize(process->uses, process->use_count + 1, sizeof *uses);
    size_t at = process->use_count++;
    for (; at && uses[at - 1].device > device; at--)
        uses[at] = uses[at - 1];
    uses[at] = (struct vt_top_use){.device = device};
    return &uses[at];
}

static void add_to_history(struct vt_top_use *use)
{
    memmove(use->history, use->history + 1, sizeof use->history - sizeof *use->history);
    use->history[VT_TOP_HISTORY - 1] = use->used_bytes;
    use->history_count += use->history_count < VT_TOP_HISTORY;
}

static void take_uses(struct vt_top_process *process, const struct vt_ring_header *header)
{
    for (int32_t i = 0; i < (int32_t)VT_MAX_DEVICES; i++) {
        const struct vt_live_device *live = &header->counters.live[i];
        const struct vt_top_device *told = &header->top.devices[i];
        if (!live->driver_peak_bytes && !live->block_peak_bytes)
            continue;
        struct vt_top_use *use = use_of(process, i);
        const bool has_blocks = live->block_peak_bytes > 0;
        use->driver_bytes = not_negative(live->driver_bytes);
        use->driver_peak_bytes = live->driver_peak_bytes;
        use->tallied = process->tallied;
        use->told = *told;
        use->segment_bytes = told->segment_bytes;
        use->segment_peak_bytes = told->segment_peak_bytes;
        use->block_bytes = live->block_bytes;
        use->block_peak_bytes = live->block_peak_bytes;
        use->used_bytes = has_blocks ? use->block_bytes : use->driver_bytes;
        use->used_peak_bytes = has_blocks ? use->block_peak_bytes : use->driver_peak_bytes;
        add_to_history(use);
    }
}

static double per_second(uint64_t before, uint64_t now, double seconds)
{
    const double most = 1e18, value = now > before ? (double)(now - before) / seconds : 0;
    return value < most ? value : most; /* another process may have written anything */
}

static void take_process(struct vt_top_process *process, const struct vt_ring_header *header, bool settled,
                         uint64_t t_ns)
{
    const struct vt_counters *counters = &header->counters;
    const struct vt_top_counters *top = &header->top;
    const double seconds = (double)(t_ns - process->t_ns) / 1e9;
    process->has_rates = process->t_ns && t_ns > process->t_ns && top->kept;
    if (process->has_rates) {
        process->events_per_second = per_second(process->event_count, counters->events, seconds);
        process->made_per_second =
            top->block_made_bytes ? per_second(process->block_made_bytes, top->block_made_bytes, seconds)
                                  : per_second(process->driver_made_bytes, top->driver_made_bytes, seconds);
    }
    process->t_ns = t_ns;
    process->seen = true;
    process->settled = settled;
    process->state = header->control.paused ? VT_TOP_PAUSED : VT_TOP_RECORDING;
    process->tallied = top->kept;
    process->event_count = counters->events;
    process->lost_events = counters->dropped;
    process->lost_definitions = counters->dropped_definitions + counters->without_stack;
    process->block_made_bytes = top->block_made_bytes;
    process->driver_made_bytes = top->driver_made_bytes;
    process->pool = header->pool;
    process->pool_tokens = header->pool.blocks * header->pool.block_tokens;
    process->used_tokens = header->pool.used_blocks * header->pool.block_tokens;
    process->pool_age_ns = t_ns > header->pool.seen_ns ? t_ns - header->pool.seen_ns : 0;
    take_uses(process, header);
}

static void free_process(struct vt_top_process *process)
{
    free(process->uses);
    free(process->command);
    free(process->trace);
}

/* What is in no ring any more has ended; what had ended before is left out. */
static void end_processes(struct vt_top *top)
{
    size_t kept = 0;
    for (size_t i = 0; i < top->process_count; i++) {
        struct vt_top_process *process = &top->processes[i];
        if (!process->seen && process->state == VT_TOP_ENDED) {
            free_process(process);
            continue;
        }
        if (!process->seen) {
            process->state = VT_TOP_ENDED;
            process->has_rates = false;
        }
        top->processes[kept++] = *process;
    }
    top->process_count = kept;
}

/* ---- GPUs ---- */

static bool is_known(const uint8_t uuid[16])
{
    static const uint8_t unknown[sizeof(((struct vt_top_device *)0)->uuid)];
    return memcmp(uuid, unknown, sizeof unknown) != 0;
}

/* By UUID; where one of the two is not known, the same number counts as the same GPU, unless the names
 * differ. */
static bool is_same_gpu(const struct vt_top_card *card, const struct vt_top_use *use)
{
    const struct vt_top_device *left = &card->told, *right = &use->told;
    if (is_known(left->uuid) && is_known(right->uuid))
        return !memcmp(left->uuid, right->uuid, sizeof left->uuid);
    return card->device == use->device &&
           (!left->name[0] || !right->name[0] || !strcmp(left->name, right->name));
}

static struct vt_top_card *gpu_of(struct vt_top *top, const struct vt_top_use *use)
{
    for (size_t i = 0; i < top->card_count; i++)
        if (is_same_gpu(&top->cards[i], use))
            return &top->cards[i];
    const struct vt_top_card card = {.device = use->device, .told = use->told};
    VT_APPEND(top->cards, top->card_count, top->card_capacity, card);
    return &top->cards[top->card_count - 1];
}

static void add_to_gpu(struct vt_top *top, const struct vt_top_use *use)
{
    struct vt_top_card *card = gpu_of(top, use);
    if (use->told.info_ns > card->told.info_ns || !card->told.name[0])
        card->told = use->told;
    card->device = use->device < card->device ? use->device : card->device;
    card->info_age_ns = top->t_ns > card->told.info_ns ? top->t_ns - card->told.info_ns : 0;
    card->process_count++;
    card->driver_bytes += use->driver_bytes;
    card->segment_bytes += use->segment_bytes;
    card->block_bytes += use->block_bytes;
}

static int by_number(const void *a, const void *b)
{
    const struct vt_top_card *left = a, *right = b;
    return 2 * vt_order((uint64_t)left->device, (uint64_t)right->device) +
           (memcmp(left->told.uuid, right->told.uuid, sizeof left->told.uuid) > 0 ? 1 : -1);
}

/* 0, 1, …; 0a, 0b where two GPUs have the same number. */
static void label_gpus(struct vt_top *top)
{
    vt_sort(top->cards, top->card_count, sizeof *top->cards, by_number);
    for (size_t i = 0; i < top->card_count; i++) {
        struct vt_top_card *card = &top->cards[i];
        size_t first = i, end = i + 1;
        while (first && top->cards[first - 1].device == card->device)
            first--;
        while (end < top->card_count && top->cards[end].device == card->device)
            end++;
        int length = snprintf(card->label, sizeof card->label, "%" PRId32, card->device);
        if (end - first > 1)
            snprintf(card->label + length, 2, "%c", (char)('a' + (i - first) % 26));
        card->uuid_text[0] = '\0';
        if (is_known(card->told.uuid))
            vt_format_uuid(card->told.uuid, card->uuid_text);
        card->uuid = card->uuid_text;
        card->name = card->told.name;
    }
}

static void take_gpus(struct vt_top *top)
{
    top->card_count = 0;
    for (size_t i = 0; i < top->process_count; i++)
        for (size_t u = 0; u < top->processes[i].use_count; u++)
            if (top->processes[i].state != VT_TOP_ENDED)
                add_to_gpu(top, &top->processes[i].uses[u]);
    label_gpus(top);
}

/* ---- The sample ---- */

static void add_row(struct vt_top *top, const struct vt_top_process *process, struct vt_top_use *use)
{
    const struct vt_top_card *card = use && process->state != VT_TOP_ENDED ? gpu_of(top, use) : NULL;
    if (card) {
        memcpy(use->label, card->label, sizeof use->label);
        memcpy(use->uuid_text, card->uuid_text, sizeof use->uuid_text);
    }
    if (use)
        use->uuid = use->uuid_text;
    VT_APPEND(top->rows, top->row_count, top->row_capacity, (struct vt_top_row){process, use});
}

static void add_rows(struct vt_top *top)
{
    top->row_count = 0;
    for (size_t i = 0; i < top->process_count; i++) {
        struct vt_top_process *process = &top->processes[i];
        process->rank = process->rank_text;
        for (size_t u = 0; u < process->use_count; u++)
            add_row(top, process, &process->uses[u]);
        if (!process->use_count)
            add_row(top, process, NULL);
    }
}

void vt_top_take(struct vt_top *top, const struct vt_recorder *recorders, const bool *settled, size_t count)
{
    top->t_ns = clock_ns(CLOCK_MONOTONIC);
    top->unix_ns = clock_ns(CLOCK_REALTIME);
    if (gethostname(top->host, sizeof top->host - 1))
        top->host[0] = 0;
    for (size_t i = 0; i < top->process_count; i++)
        top->processes[i].seen = false;
    for (size_t i = 0; i < count; i++) {
        const struct vt_ring_header *header = &recorders[i].header;
        struct vt_top_process *process = find_process(top, header);
        process = process ? process : add_process(top, header);
        take_process(process, header, settled && settled[i], top->t_ns);
    }
    end_processes(top);
    take_gpus(top);
    add_rows(top);
}

void vt_top_free(struct vt_top *top)
{
    for (size_t i = 0; i < top->process_count; i++)
        free_process(&top->processes[i]);
    free(top->processes);
    free(top->cards);
    free(top->rows);
    *top = (struct vt_top){.host = ""};
}

/* ---- Order ---- */

/* What a row is sorted by; of ranks, which are texts, their number. */
static uint64_t value_of(const struct vt_top_row *row, enum vt_top_key key)
{
    const struct vt_top_process *process = row->process;
    const struct vt_top_use *use = row->use;
    switch (key) {
    case VT_TOP_BY_PID:
        return process->pid;
    case VT_TOP_BY_RANK:
        return process->rank[0] ? strtoull(process->rank, NULL, 10) : UINT64_MAX;
    case VT_TOP_BY_DEVICE:
        return use ? (uint64_t)use->device : UINT64_MAX;
    case VT_TOP_BY_EVENTS:
        return process->has_rates ? (uint64_t)process->events_per_second : 0;
    case VT_TOP_BY_MADE:
        return process->has_rates ? (uint64_t)process->made_per_second : 0;
    case VT_TOP_BY_DRIVER:
        return use ? use->driver_bytes : 0;
    case VT_TOP_BY_SEGMENTS:
        return use ? use->segment_bytes : 0;
    case VT_TOP_BY_BLOCKS:
        return use ? use->block_bytes : 0;
    case VT_TOP_BY_PEAK:
        return use ? use->used_peak_bytes : 0;
    default:
        return 0;
    }
}

struct order {
    enum vt_top_key key;
    bool reverse;
};

static int compare_rows(const void *a, const void *b, void *context)
{
    const struct vt_top_row *left = a, *right = b;
    const struct order *by = context;
    const bool is_text = by->key == VT_TOP_BY_COMMAND,
               smallest_first = by->key <= VT_TOP_BY_DEVICE || is_text;
    const int order = is_text ? strcmp(left->process->command, right->process->command)
                              : vt_order(value_of(left, by->key), value_of(right, by->key));
    if (order)
        return smallest_first != by->reverse ? order : -order;
    return 2 * vt_order(left->process->pid, right->process->pid) +
           vt_order(left->use ? (uint64_t)left->use->device : 0,
                    right->use ? (uint64_t)right->use->device : 0);
}

void vt_top_sort(struct vt_top *top, enum vt_top_key key, bool reverse)
{
    struct order order = {key, reverse};
    if (top->row_count)
        qsort_r(top->rows, top->row_count, sizeof *top->rows, compare_rows, &order);
}
