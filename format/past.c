#include "format/past.h"

/* ---- what is known ---- */

static uint64_t mix_bits(uint64_t value)
{
    value *= UINT64_C(0x9e3779b97f4a7c15);
    return value ^ value >> 32;
}

static struct vt_past_blocks *blocks_of(struct vt_past *past, uint64_t address)
{
    return &past->blocks[mix_bits(address) % VT_PAST_BLOCKS];
}

/* The block's way in its set; VT_PAST_WAYS = not there. */
static unsigned find_block(const struct vt_past_blocks *blocks, uint64_t address)
{
    unsigned found = 1u << VT_PAST_WAYS;
    for (unsigned i = 0; i < VT_PAST_WAYS; i++) /* without a branch, which could not be predicted */
        found |= (unsigned)((blocks->addresses[i] == address) & (blocks->numbers[i] != 0)) << i;
    return (unsigned)__builtin_ctz(found);
}

uint32_t vt_past_block(struct vt_past *past, uint64_t address, uint64_t *bytes)
{
    const struct vt_past_blocks *blocks = blocks_of(past, address);
    const unsigned way = find_block(blocks, address);
    if (way == VT_PAST_WAYS)
        return 0;
    *bytes = blocks->bytes[way];
    return blocks->numbers[way];
}

static void keep_block(struct vt_past *past, const struct vt_event *event, uint32_t family)
{
    struct vt_past_blocks *blocks = blocks_of(past, event->address);
    unsigned way = find_block(blocks, event->address);
    if (way == VT_PAST_WAYS) {
        way = 0;
        for (unsigned i = 1; i < VT_PAST_WAYS; i++)
            way = blocks->numbers[i] < blocks->numbers[way] ? i : way;
    }
    uint64_t *latest = &past->families[family % VT_PAST_EVENTS];
    past->other = blocks->addresses[way] == event->address ? blocks->numbers[way] : 0;
    blocks->addresses[way] = event->address;
    blocks->bytes[way] = event->bytes;
    blocks->before[way] = *latest == event->address ? 0 : *latest;
    blocks->numbers[way] = past->number;
    blocks->families[way] = family;
    *latest = event->address;
}

/* Removes a block, so that the one before it becomes the family's latest. Returns the family. */
static uint32_t forget_block(struct vt_past *past, uint64_t address)
{
    struct vt_past_blocks *blocks = blocks_of(past, address);
    const unsigned way = find_block(blocks, address);
    if (way == VT_PAST_WAYS)
        return 0;
    past->other = blocks->numbers[way];
    uint64_t *latest = &past->families[blocks->families[way] % VT_PAST_EVENTS];
    if (*latest == address)
        *latest = blocks->before[way];
    blocks->numbers[way] = 0;
    return blocks->families[way];
}

static struct vt_past_size *size_of(struct vt_past *past, uint64_t bytes)
{
    return &past->sizes[mix_bits(bytes) % VT_PAST_SIZES];
}

/* ---- what is expected ---- */

void vt_past_guess_totals(const struct vt_past *past, struct vt_event *event)
{
    unsigned device = (uint8_t)event->device_index % VT_MAX_DEVICES;
    event->detail = past->devices[device].reserved;
    event->total_bytes = past->devices[device].allocated;
    event->total_bytes += event->kind == VT_EVENT_ALLOC ? event->bytes : 0 - event->bytes;
}

static void guess_alloc(struct vt_past *past, const struct vt_past_event *like, struct vt_guess *guess)
{
    struct vt_event *event = &guess->event;
    const struct vt_past_size *size = size_of(past, like->bytes);
    event->bytes = guess->requested = size->before == like->bytes && size->now ? size->now : like->bytes;
    event->address = vt_holes_guess(&past->holes, (uint8_t)event->device_index, &event->bytes);
}

/* Expects that the latest block of the family is freed. */
static void guess_free(struct vt_past *past, const struct vt_past_event *like, struct vt_event *event)
{
    uint64_t address = past->families[like->family % VT_PAST_EVENTS];
    const struct vt_past_blocks *blocks = blocks_of(past, address);
    unsigned way = find_block(blocks, address);
    if (way == VT_PAST_WAYS || blocks->families[way] != like->family) {
        address = like->address;
        blocks = blocks_of(past, address);
        way = find_block(blocks, address);
    }
    event->address = way == VT_PAST_WAYS ? 0 : address;
    event->bytes = way == VT_PAST_WAYS ? 0 : blocks->bytes[way];
}

void vt_past_guess_fields(struct vt_past *past, const struct vt_past_event *like, struct vt_guess *guess)
{
    static const struct vt_past_event nothing;
    struct vt_event *event = &guess->event;
    like = like ? like : &nothing;
    event->sequence =
        like->sequence_step ? past->threads[past->thread].sequence + like->sequence_step - 1 : 0;
    if (vt_is_block_event(event, VT_EVENT_ALLOC)) {
        guess_alloc(past, like, guess);
        vt_past_guess_totals(past, event);
    } else if (vt_is_block_event(event, VT_EVENT_FREE)) {
        guess_free(past, like, event);
        vt_past_guess_totals(past, event);
    } else {
        event->address = like->address;
        event->bytes = like->bytes;
        event->detail = like->detail;
        event->total_bytes = 0;
    }
}

/* The event that the thread's next one probably repeats; 0 = none. */
static uint32_t find_candidate(struct vt_past *past, struct vt_past_thread *thread)
{
    uint32_t number = thread->like;
    if (vt_past_has(past, number) && vt_past_has(past, vt_past_event(past, number)->next))
        return vt_past_event(past, number)->next;
    thread->matched = 0;
    for (unsigned i = 0; i < 2; i++) {
        number = past->hashed[i][thread->hashes[i] / (UINT32_MAX / VT_PAST_HASHES + 1)];
        if (vt_past_has(past, number) && vt_past_has(past, vt_past_event(past, number)->next))
            return vt_past_event(past, number)->next;
    }
    return 0;
}

void vt_past_guess(struct vt_past *past, struct vt_guess *guess)
{
    struct vt_past_thread *thread = &past->threads[past->thread];
    guess->number = find_candidate(past, thread);
    const struct vt_past_event *like = guess->number ? vt_past_event(past, guess->number) : NULL;
    const unsigned length = vt_bit_length(thread->matched);
    guess->context = !like ? VT_GUESS_NONE : length < VT_GUESS_NONE ? length : VT_GUESS_NONE - 1;
    guess->requested = 0;
    guess->event.head_start = 0;
    guess->event.t_ns = 0;
    guess->event.thread_id = thread->thread_id;
    guess->event.stack_id = like ? like->stack_id : 0;
    vt_event_set_code(&guess->event, like ? like->code : 0);
    vt_past_guess_fields(past, like, guess);
}

/* ---- what is remembered ---- */

/* What the event changes among blocks, segments and holes. Returns its family. */
static uint32_t remember_memory(struct vt_past *past, const struct vt_event *event, uint32_t family)
{
    past->other = 0;
    if (vt_is_block_event(event, VT_EVENT_ALLOC)) {
        past->families[family % VT_PAST_EVENTS] = past->number;
        keep_block(past, event, family);
        vt_holes_take(&past->holes, event->address, event->bytes);
    } else if (vt_is_block_event(event, VT_EVENT_FREE)) {
        family = forget_block(past, event->address);
        vt_holes_give(&past->holes, event->address, event->bytes);
    } else if (event->layer == VT_LAYER_DRIVER) {
        if ((event->kind == VT_EVENT_ALLOC || event->kind == VT_EVENT_MAP) && !event->flags)
            vt_holes_add_segment(&past->holes, (uint8_t)event->device_index, event->address, event->bytes);
        else if (event->kind == VT_EVENT_FREE || event->kind == VT_EVENT_UNMAP)
            vt_holes_end_segment(&past->holes, event->address);
    }
    return family;
}

/* Appends the event to those of its thread, which will repeat the events after `like`. */
static void remember_place(struct vt_past *past, struct vt_past_thread *thread,
                           const struct vt_past_event *now, uint32_t like)
{
    if (vt_past_has(past, thread->number))
        vt_past_event(past, thread->number)->next = past->number;
    thread->number = past->number;
    const uint32_t sign = (now->stack_id + 1) * UINT32_C(0x9e3779b1) ^ now->code * UINT32_C(0x85ebca6b);
    thread->hashes[0] = thread->hashes[0] * (5 << 3) + sign * UINT32_C(0xc2b2ae35);
    thread->hashes[1] = thread->hashes[1] * (5 << 8) + sign * UINT32_C(0xc2b2ae35);
    for (unsigned i = 0; i < 2; i++) {
        uint32_t *hashed = &past->hashed[i][thread->hashes[i] / (UINT32_MAX / VT_PAST_HASHES + 1)];
        if (!like && vt_past_has(past, *hashed))
            like = *hashed;
        *hashed = past->number;
    }
    thread->like = like;
}

void vt_past_remember(struct vt_past *past, const struct vt_event *event, const struct vt_guess *guess)
{
    struct vt_past_thread *thread = &past->threads[past->thread];
    struct vt_past_event *now = vt_past_event(past, past->number);
    const struct vt_past_event *like = guess->number ? vt_past_event(past, guess->number) : NULL;
    const bool made = vt_is_block_event(event, VT_EVENT_ALLOC),
               freed = vt_is_block_event(event, VT_EVENT_FREE);
    uint32_t family = like ? like->family : past->number % VT_PAST_EVENTS;
    if (made && like)
        *size_of(past, like->bytes) = (struct vt_past_size){like->bytes, guess->requested};
    family = remember_memory(past, event, family);
    if (made || freed) {
        unsigned device = (uint8_t)event->device_index % VT_MAX_DEVICES;
        past->devices[device].reserved = event->detail;
        past->devices[device].allocated = event->total_bytes;
    }
    *vt_past_kind(past, event) =
        (struct vt_past_kind){event->address, event->bytes, event->detail, event->total_bytes};
    *now =
        (struct vt_past_event){.stack_id = event->stack_id,
                               .code = vt_event_code(event),
                               .family = family,
                               .address = event->address,
                               .detail = event->detail,
                               .bytes = made || freed ? guess->requested : event->bytes,
                               .sequence_step = event->sequence ? event->sequence - thread->sequence + 1 : 0};
    if (event->sequence)
        thread->sequence = event->sequence;
    vt_past_stack(past, event->stack_id)->number = past->number;
    if ((int32_t)(event->stack_id - past->newest_stack) > 0)
        past->newest_stack = event->stack_id;
    remember_place(past, thread, now, guess->number);
}
