#include "record/top_counters.h"

#include <stdbool.h>
#include <string.h>

#include "record/live_blocks.h"
#include "text.h"

static void store(uint64_t *member, uint64_t value)
{
    __atomic_store_n(member, value, __ATOMIC_RELEASE); /* the texts before it, too */
}

static struct vt_top_device *device_of(struct vt_top_counters *top, int device_index)
{
    return device_index >= 0 && device_index < (int)VT_MAX_DEVICES ? &top->devices[device_index] : NULL;
}

void vt_top_begin(struct vt_top_counters *top, const char *rank)
{
    vt_text_copy(top->rank, sizeof top->rank, rank);
    store(&top->kept, 1);
}

static void take_uuid(struct vt_top_counters *top, const struct vt_device_uuid *device)
{
    struct vt_top_device *counters = device_of(top, (int)device->device_index);
    if (counters)
        memcpy(counters->uuid, device->uuid, sizeof counters->uuid);
}

static void take_device(struct vt_top_counters *top, const struct vt_device *device)
{
    struct vt_top_device *counters = device_of(top, (int)device->device_index);
    const size_t bytes = device->head.bytes - sizeof *device;
    if (!counters)
        return;
    memcpy(counters->name, device + 1, bytes < sizeof counters->name ? bytes : sizeof counters->name - 1);
    store(&counters->total_bytes, device->total_bytes);
}

void vt_top_definition(struct vt_top_counters *top, const struct vt_record_head *head)
{
    if (head->kind == VT_RECORD_DEVICE)
        take_device(top, (const struct vt_device *)(const void *)head);
    else if (head->kind == VT_RECORD_DEVICE_UUID)
        take_uuid(top, (const struct vt_device_uuid *)(const void *)head);
}

/* ---- segments ---- */

/* If a range begins at the same address, its end was not seen: replace it. */
static void add_range(struct vt_top_ranges *known, uint64_t start, uint64_t bytes, int8_t device_index)
{
    const struct vt_address_entry range = {start, bytes, (uint8_t)device_index, 0};
    struct vt_address_entry *before = start && bytes ? vt_table_find(&known->table, start) : NULL;
    if (before)
        *before = range;
    else if (start && bytes && known->table.used < VT_TOP_RANGES && vt_table_make_room(&known->table))
        vt_table_insert(&known->table, range);
}

static void set_segments(struct vt_top_device *device, uint64_t bytes)
{
    store(&device->segment_bytes, bytes);
    if (bytes > device->segment_peak_bytes)
        store(&device->segment_peak_bytes, bytes);
}

/* The driver takes back the range at `start`, and those that follow without a gap, up to `bytes`. */
static void end_ranges(struct vt_top_counters *top, struct vt_top_ranges *known, uint64_t start,
                       uint64_t bytes)
{
    for (uint64_t at = start;
         start && (at == start || at - start < bytes) && vt_table_remove(&known->table, at, &known->freed);
         at += known->freed.bytes) {
        struct vt_top_device *device = device_of(top, (int8_t)known->freed.device);
        if (device)
            set_segments(device, device->segment_bytes - known->freed.bytes);
    }
}

static void restore_range(struct vt_top_counters *top, struct vt_top_ranges *known, uint64_t start)
{
    const struct vt_address_entry freed = known->freed;
    struct vt_top_device *device = device_of(top, (int8_t)freed.device);
    if (!start || freed.address != start)
        return;
    add_range(known, start, freed.bytes, (int8_t)freed.device);
    if (device)
        set_segments(device, device->segment_bytes + freed.bytes);
    known->freed.address = 0;
}

/* After this block the framework holds `event->detail` bytes of driver memory. If that is not the total that
 * we know, the block is in a segment that is new to us. A framework without a counter reports no total. */
static void see_block(struct vt_top_counters *top, struct vt_top_ranges *known, const struct vt_event *event)
{
    struct vt_top_device *device = device_of(top, event->device_index);
    if (!device || event->flags & VT_FLAG_UNCOUNTED || device->segment_bytes == event->detail)
        return;
    struct vt_address_entry *ranges = event->kind == VT_EVENT_ALLOC ? known->table.entries : NULL;
    for (size_t i = 0; ranges && i < (size_t)1 << known->table.bits; i++)
        if (ranges[i].address < event->address + event->bytes &&
            event->address < ranges[i].address + ranges[i].bytes)
            ranges[i].device = (uint8_t)event->device_index;
    set_segments(device, event->detail);
}

static void see_driver(struct vt_top_counters *top, struct vt_top_ranges *known, const struct vt_event *event)
{
    struct vt_top_device *device = device_of(top, event->device_index);
    switch (event->kind) {
    case VT_EVENT_ALLOC:
    case VT_EVENT_MAP:
        if (!(event->flags & VT_NO_DEVICE_MEMORY))
            add_range(known, event->address, event->bytes, -1);
        break;
    case VT_EVENT_FREE:
    case VT_EVENT_UNMAP:
        end_ranges(top, known, event->address, event->kind == VT_EVENT_UNMAP ? event->bytes : 0);
        break;
    case VT_EVENT_FREE_FAILED:
        restore_range(top, known, event->address);
        break;
    case VT_EVENT_MEMORY_INFO:
        if (device) {
            store(&device->free_bytes, event->bytes);
            store(&device->total_bytes, event->total_bytes);
            store(&device->info_ns, event->t_ns);
        }
        break;
    }
    if (vt_makes_device_memory(event))
        store(&top->driver_made_bytes, top->driver_made_bytes + event->bytes);
}

void vt_top_event(struct vt_top_counters *top, struct vt_top_ranges *known, const struct vt_event *event)
{
    if (event->layer != VT_LAYER_FRAMEWORK) {
        if (event->layer != VT_LAYER_NONE)
            see_driver(top, known, event);
        return;
    }
    see_block(top, known, event);
    if (event->kind == VT_EVENT_ALLOC)
        store(&top->block_made_bytes, top->block_made_bytes + event->bytes);
}

/* Decimal; 0 for anything else. `*at` is behind the next tab then, or at the end. */
static uint64_t take_number(const char **at, const char *end)
{
    uint64_t number = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at)
        number = number * 10 + (uint64_t)(**at - '0');
    const char *tab = memchr(*at, '\t', (size_t)(end - *at));
    *at = tab ? tab + 1 : end;
    return number;
}

/* "K", blocks, tokens of a block, of all, free blocks, requests: each object of the server knows some of
 * them. */
void vt_top_inspection(struct vt_top_pool *pool, const char *text, size_t bytes, uint64_t t_ns)
{
    enum { BLOCKS, BLOCK_TOKENS, TOKENS, FREE, REQUESTS, NUMBERS };
    const char *end = text + bytes, *next;
    for (const char *line = text; line < end; line = next + 1) {
        next = memchr(line, '\n', (size_t)(end - line));
        next = next ? next : end;
        if (next - line < 2 || line[0] != 'K' || line[1] != '\t')
            continue;
        uint64_t numbers[NUMBERS];
        bool known[NUMBERS];
        const char *at = line + 2;
        for (int i = 0; i < NUMBERS; i++) {
            known[i] = at < next && *at != '\t';
            numbers[i] = take_number(&at, next);
        }
        if (numbers[BLOCKS])
            store(&pool->blocks, numbers[BLOCKS]);
        if (numbers[BLOCK_TOKENS])
            store(&pool->block_tokens, numbers[BLOCK_TOKENS]);
        if (known[FREE] && numbers[BLOCKS] >= numbers[FREE])
            store(&pool->used_blocks, numbers[BLOCKS] - numbers[FREE]);
        if (known[REQUESTS])
            store(&pool->requests, numbers[REQUESTS]);
        store(&pool->seen_ns, t_ns);
    }
}
