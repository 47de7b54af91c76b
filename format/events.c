#include "format/events.h"

#include <string.h>

enum field { FIELD_ADDRESS, FIELD_BYTES, FIELD_DETAIL, FIELD_TOTAL, FIELD_SEQUENCE };
enum number { NUMBER_ADDRESS, NUMBER_BYTES, NUMBER_DETAIL, NUMBER_TOTAL, NUMBER_SEQUENCE, NUMBER_AGE, NUMBER_STACK, NUMBER_TIME, NUMBER_THREAD, NUMBER_DEVICE_BYTES };
enum { TICK_SHIFT = 8, UNMATCHED = 15, TIME_BITS = 4, TIME_ESCAPE = 15, PACE_SHIFT = 4, BLOCK_UNIT = 512 };

/* ---- what is known ---- */

static uint64_t mix(uint64_t value)
{
    value *= UINT64_C(0x9e3779b97f4a7c15);
    return value ^ value >> 32;
}

static uint32_t code_of(const struct vt_event *event)
{
    return event->kind | (uint32_t)event->layer << 8 | (uint32_t)(uint8_t)event->device_index << 16 |
           (uint32_t)event->flags << 24;
}

static void set_code(struct vt_event *event, uint32_t code)
{
    event->kind = (uint8_t)code;
    event->layer = (uint8_t)(code >> 8);
    event->device_index = (int8_t)(uint8_t)(code >> 16);
    event->flags = (uint8_t)(code >> 24);
}

static bool is_block(const struct vt_event *event, enum vt_event_kind kind)
{
    return event->layer == VT_LAYER_FRAMEWORK && event->kind == kind;
}

static struct vt_past_event *past(struct vt_event_codec *codec, uint32_t number)
{
    return &codec->events[number % VT_PAST_EVENTS];
}

/* Whether the event of this number is still known. */
static bool is_known(const struct vt_event_codec *codec, uint32_t number)
{
    return number && codec->number - number < VT_PAST_EVENTS;
}

static struct vt_past_block *find_block(struct vt_event_codec *codec, uint64_t address)
{
    struct vt_past_block *set = codec->blocks[mix(address) % VT_PAST_BLOCKS];
    for (unsigned i = 0; i < VT_PAST_WAYS; i++)
        if (set[i].address == address && set[i].number)
            return &set[i];
    return NULL;
}

static void keep_block(struct vt_event_codec *codec, const struct vt_event *event, uint32_t family)
{
    struct vt_past_block *block = find_block(codec, event->address);
    if (!block) {
        struct vt_past_block *set = codec->blocks[mix(event->address) % VT_PAST_BLOCKS];
        block = set;
        for (unsigned i = 1; i < VT_PAST_WAYS; i++)
            if (set[i].number < block->number)
                block = &set[i];
    }
    *block = (struct vt_past_block){event->address, event->bytes, codec->number, family};
}

static struct vt_past_size *size_of(struct vt_event_codec *codec, uint64_t bytes)
{
    return &codec->sizes[mix(bytes) % VT_PAST_SIZES];
}

static struct vt_past_kind *kind_of(struct vt_event_codec *codec, const struct vt_event *event)
{
    return &codec->kinds[(event->kind ^ (unsigned)event->layer << 6) % VT_PAST_KINDS];
}

static struct vt_past_stack *stack_of(struct vt_event_codec *codec, uint32_t stack_id)
{
    return &codec->stacks[stack_id % VT_PAST_STACKS];
}

/* ---- what is expected ---- */

static const struct vt_past_event nothing;

/* What the framework's allocator says after this event. */
static void expect_totals(const struct vt_event_codec *codec, struct vt_event *event)
{
    unsigned device = (uint8_t)event->device_index % VT_MAX_DEVICES;
    event->detail = codec->devices[device].reserved;
    event->total_bytes = codec->devices[device].allocated;
    event->total_bytes += event->kind == VT_EVENT_ALLOC ? event->bytes : 0 - event->bytes;
}

static void expect_bytes(struct vt_event_codec *codec, const struct vt_past_event *like, struct vt_event *event,
                         uint64_t *asked)
{
    const struct vt_past_size *size = size_of(codec, like->bytes);
    *asked = size->before == like->bytes && size->now ? size->now : like->bytes;
    event->bytes = *asked;
    event->address = vt_placement_guess(&codec->placement, (uint8_t)event->device_index, &event->bytes);
}

/* The block that is freed: the latest of the family. */
static void expect_freed(struct vt_event_codec *codec, const struct vt_past_event *like, struct vt_event *event)
{
    uint32_t number = codec->families[like->family % VT_PAST_EVENTS];
    const struct vt_past_block *block = NULL;
    event->address = event->bytes = 0;
    if (is_known(codec, number))
        block = find_block(codec, past(codec, number)->address);
    if (!block || block->number != number)
        block = find_block(codec, like->address);
    if (!block)
        return;
    event->address = block->address;
    event->bytes = block->bytes;
}

/* All but stack, code, thread and time. */
static void expect(struct vt_event_codec *codec, const struct vt_past_thread *thread, const struct vt_past_event *like,
                   struct vt_event *event, uint64_t *asked)
{
    event->sequence = like->sequence_step ? thread->sequence + like->sequence_step - 1 : 0;
    if (is_block(event, VT_EVENT_ALLOC)) {
        expect_bytes(codec, like, event, asked);
        expect_totals(codec, event);
    } else if (is_block(event, VT_EVENT_FREE)) {
        expect_freed(codec, like, event);
        expect_totals(codec, event);
    } else {
        event->address = like->address;
        event->bytes = like->bytes;
        event->detail = like->detail;
        event->total_bytes = 0;
    }
}

/* ---- the fields of one event ---- */

VT_INLINE unsigned code_thread(struct vt_event_codec *codec, struct vt_event *event, bool reading)
{
    struct vt_event_chances *chances = &codec->chances;
    unsigned index = codec->thread;
    struct vt_past_thread *threads = codec->threads;
    bool same = codec->thread_count && threads[index].thread_id == event->thread_id;
    if (vt_code_bit(&codec->coder, &chances->same_thread, same, reading) && codec->thread_count) {
        event->thread_id = threads[index].thread_id;
        return index;
    }
    if (!reading)
        for (index = 0; index < codec->thread_count && threads[index].thread_id != event->thread_id; index++)
            ;
    index = vt_code_tree(&codec->coder, chances->thread, 4, index, reading);
    if (index >= codec->thread_count) { /* one that is not known, in the place of the one that is here for longest */
        event->thread_id = (uint32_t)vt_code_difference(&codec->coder, chances->numbers[NUMBER_THREAD], event->thread_id, reading);
        index = codec->thread_count < VT_PAST_THREADS ? codec->thread_count++ : codec->next_thread++ % VT_PAST_THREADS;
        threads[index] = (struct vt_past_thread){.thread_id = event->thread_id};
    }
    event->thread_id = threads[index].thread_id;
    codec->thread = index;
    return index;
}

static void code_stack(struct vt_event_codec *codec, struct vt_event *event, bool reading)
{
    struct vt_event_chances *chances = &codec->chances;
    bool new = vt_code_bit(&codec->coder, &chances->new_stack[0], event->stack_id == codec->newest_stack + 1, reading);
    if (new)
        event->stack_id = codec->newest_stack + 1;
    else
        event->stack_id = codec->newest_stack - (uint32_t)vt_code_difference(&codec->coder, chances->numbers[NUMBER_STACK], (uint64_t)(int32_t)(codec->newest_stack - event->stack_id), reading);
}

static void code_code(struct vt_event_codec *codec, struct vt_event *event, uint32_t expected, bool reading)
{
    uint32_t code = code_of(event);
    if (vt_code_bit(&codec->coder, &codec->chances.new_stack[1], code == expected, reading)) {
        code = expected;
    } else {
        uint32_t made = 0;
        for (unsigned i = 0; i < 4; i++)
            made |= vt_code_tree(&codec->coder, codec->chances.packed[i], 8, code >> 8 * i & 255, reading) << 8 * i;
        code = made;
    }
    set_code(event, code);
}

/* A field that is or is not as expected; then the difference. */
static uint64_t code_field(struct vt_event_codec *codec, enum field field, bool matched, unsigned context, uint64_t value, uint64_t expected, uint64_t base, unsigned number, bool reading)
{
    if (vt_code_bit(&codec->coder, &codec->chances.field[field][matched][context], value == expected, reading))
        return expected;
    return base + vt_code_difference(&codec->coder, codec->chances.numbers[number], value - base, reading);
}

/* The address of a freed block that was not expected: by the age of what made it, or as it is. */
static uint64_t code_freed(struct vt_event_codec *codec, uint64_t address, uint64_t base, bool reading)
{
    const struct vt_past_block *block = reading ? NULL : find_block(codec, address);
    uint64_t age = block && is_known(codec, block->number) && past(codec, block->number)->address == address ? codec->number - block->number : 0;
    age = vt_code_number(&codec->coder, codec->chances.numbers[NUMBER_AGE], age, reading);
    if (age)
        return past(codec, codec->number - (uint32_t)age)->address;
    return base + vt_code_difference(&codec->coder, codec->chances.numbers[NUMBER_ADDRESS], address - base, reading);
}

/* What is not as expected: `expected` in `wanted` (what is coded; when reading, where it comes). */
static void code_fields(struct vt_event_codec *codec, const struct vt_past_thread *thread, struct vt_event *event, struct vt_event *expected, uint64_t *asked, bool matched, unsigned context, bool reading)
{
    const struct vt_past_kind *last = kind_of(codec, event);
    struct vt_coder *coder = &codec->coder;
    bool freed = is_block(event, VT_EVENT_FREE), made = is_block(event, VT_EVENT_ALLOC);
    if (freed) {
        if (vt_code_bit(coder, &codec->chances.field[FIELD_ADDRESS][matched][context], event->address == expected->address, reading))
            event->address = expected->address;
        else
            event->address = code_freed(codec, event->address, last->address, reading);
        const struct vt_past_block *block = find_block(codec, event->address);
        expected->bytes = block ? block->bytes : last->bytes;
    }
    event->bytes = code_field(codec, FIELD_BYTES, matched, context, event->bytes, expected->bytes, made || freed ? 0 : last->bytes, made || freed ? NUMBER_BYTES : NUMBER_DEVICE_BYTES, reading);
    if (made && event->bytes != expected->bytes) {
        uint64_t bytes = *asked = event->bytes;
        expected->address = vt_placement_guess(&codec->placement, (uint8_t)event->device_index, &bytes);
    }
    if (!freed)
        event->address = code_field(codec, FIELD_ADDRESS, matched, context, event->address, expected->address, last->address, NUMBER_ADDRESS, reading);
    expected->bytes = event->bytes;
    if (made || freed)
        expect_totals(codec, expected);
    event->detail = code_field(codec, FIELD_DETAIL, matched, context, event->detail, expected->detail, made || freed ? expected->detail : last->detail, NUMBER_DETAIL, reading);
    event->total_bytes = code_field(codec, FIELD_TOTAL, matched, context, event->total_bytes, expected->total_bytes, made || freed ? expected->total_bytes : last->total_bytes, NUMBER_TOTAL, reading);
    event->sequence = code_field(codec, FIELD_SEQUENCE, matched, context, event->sequence, expected->sequence, thread->sequence, NUMBER_SEQUENCE, reading);
}

VT_INLINE void code_time(struct vt_event_codec *codec, struct vt_event *event, bool reading)
{
    struct vt_event_chances *chances = &codec->chances;
    struct vt_past_stack *stack = stack_of(codec, event->stack_id);
    const uint64_t mask = UINT64_MAX >> TICK_SHIFT;
    uint64_t ticks = ((event->t_ns >> TICK_SHIFT) - codec->tick) & mask;
    unsigned length = vt_bit_length(ticks), pace = stack->pace >> PACE_SHIFT;
    length = vt_code_tree(&codec->coder, chances->time[pace < 64 ? pace : 63], TIME_BITS, length < TIME_ESCAPE ? length : TIME_ESCAPE, reading);
    if (length < TIME_ESCAPE) {
        ticks = vt_code_tail(&codec->coder, chances->tails[length], length, ticks, reading);
    } else {
        ticks = ticks << TICK_SHIFT; /* to where its sign is */
        ticks = (uint64_t)((int64_t)ticks >> TICK_SHIFT);
        ticks = vt_code_difference(&codec->coder, chances->numbers[NUMBER_TIME], ticks, reading);
    }
    codec->tick = (codec->tick + ticks) & mask;
    event->t_ns = codec->tick << TICK_SHIFT;
    /* Twice the logarithm, about. */
    length = vt_bit_length(ticks & mask);
    unsigned now = (length << 2 | (unsigned)(length > 2 ? ticks >> (length - 3) & 3 : ticks & 1)) << PACE_SHIFT;
    stack->pace = stack->stack_id == event->stack_id ? (stack->pace * 7 + now) / 8 : now;
    stack->stack_id = event->stack_id;
}

/* ---- one event ---- */

/* The event that the thread's next one is likely to repeat, 0 = none. */
static uint32_t candidate(struct vt_event_codec *codec, struct vt_past_thread *thread)
{
    uint32_t number = thread->like;
    if (is_known(codec, number) && is_known(codec, past(codec, number)->next))
        return past(codec, number)->next;
    thread->matched = 0;
    for (unsigned i = 0; i < 2; i++) {
        number = codec->hashed[i][thread->hashes[i] / (UINT32_MAX / VT_PAST_HASHES + 1)];
        if (is_known(codec, number) && is_known(codec, past(codec, number)->next))
            return past(codec, number)->next;
    }
    return 0;
}

static void remember(struct vt_event_codec *codec, struct vt_past_thread *thread, const struct vt_event *event, uint32_t like, uint64_t asked)
{
    const uint32_t number = codec->number;
    struct vt_past_event *now = past(codec, number);
    uint32_t family = like ? past(codec, like)->family : number % VT_PAST_EVENTS;
    const uint64_t like_bytes = like ? past(codec, like)->bytes : 0;
    if (is_block(event, VT_EVENT_ALLOC)) {
        if (like)
            *size_of(codec, like_bytes) = (struct vt_past_size){like_bytes, asked};
        codec->families[family % VT_PAST_EVENTS] = number;
        keep_block(codec, event, family);
        vt_placement_take(&codec->placement, event->address, event->bytes);
    } else if (is_block(event, VT_EVENT_FREE)) {
        struct vt_past_block *block = find_block(codec, event->address);
        family = block ? block->family : 0;
        if (block)
            block->number = 0;
        vt_placement_give(&codec->placement, event->address, event->bytes);
    } else {
        asked = event->bytes;
        if (event->layer == VT_LAYER_DRIVER && (event->kind == VT_EVENT_ALLOC || event->kind == VT_EVENT_MAP) && !event->flags)
            vt_placement_add_segment(&codec->placement, (uint8_t)event->device_index, event->address, event->bytes);
        else if (event->layer == VT_LAYER_DRIVER && (event->kind == VT_EVENT_FREE || event->kind == VT_EVENT_UNMAP))
            vt_placement_end_segment(&codec->placement, event->address);
    }
    if (event->layer == VT_LAYER_FRAMEWORK && (event->kind == VT_EVENT_ALLOC || event->kind == VT_EVENT_FREE)) {
        unsigned device = (uint8_t)event->device_index % VT_MAX_DEVICES;
        codec->devices[device].reserved = event->detail;
        codec->devices[device].allocated = event->total_bytes;
    }
    *kind_of(codec, event) = (struct vt_past_kind){event->address, event->bytes, event->detail, event->total_bytes};
    *now = (struct vt_past_event){.stack_id = event->stack_id, .code = code_of(event), .family = family, .address = event->address, .detail = event->detail, .bytes = asked,
        .sequence_step = event->sequence ? event->sequence - thread->sequence + 1 : 0};
    if (event->sequence)
        thread->sequence = event->sequence;
    stack_of(codec, event->stack_id)->number = number;
    if ((int32_t)(event->stack_id - codec->newest_stack) > 0)
        codec->newest_stack = event->stack_id;
    if (is_known(codec, thread->number))
        past(codec, thread->number)->next = number;
    thread->number = number;
    const uint32_t sign = (event->stack_id + 1) * UINT32_C(0x9e3779b1) ^ now->code * UINT32_C(0x85ebca6b);
    thread->hashes[0] = thread->hashes[0] * (5 << 3) + sign * UINT32_C(0xc2b2ae35);
    thread->hashes[1] = thread->hashes[1] * (5 << 8) + sign * UINT32_C(0xc2b2ae35);
    for (unsigned i = 0; i < 2; i++) {
        uint32_t *hashed = &codec->hashed[i][thread->hashes[i] / (UINT32_MAX / VT_PAST_HASHES + 1)];
        if (!like && is_known(codec, *hashed))
            like = *hashed;
        *hashed = number;
    }
    thread->like = like;
}

VT_INLINE void code_event(struct vt_event_codec *codec, struct vt_event *event, bool reading)
{
    struct vt_event_chances *chances = &codec->chances;
    codec->number++;
    past(codec, codec->number)->next = 0;
    struct vt_past_thread *thread = &codec->threads[code_thread(codec, event, reading)];
    uint32_t number = candidate(codec, thread), like_number = number;
    const struct vt_past_event *like = number ? past(codec, number) : &nothing;
    const unsigned length = vt_bit_length(thread->matched), context = !number ? UNMATCHED : length < 14 ? length : 14;
    struct vt_event expected = {.thread_id = event->thread_id, .stack_id = like->stack_id};
    uint64_t asked = 0;
    set_code(&expected, like->code);
    expect(codec, thread, like, &expected, &asked);
    const bool same = number && event->stack_id == expected.stack_id && code_of(event) == like->code;
    const bool all = same && event->address == expected.address && event->bytes == expected.bytes && event->detail == expected.detail && event->total_bytes == expected.total_bytes && event->sequence == expected.sequence;
    if (vt_code_bit(&codec->coder, &chances->all[context], all, reading)) {
        if (reading)
            *event = expected;
    } else {
        bool matched = vt_code_bit(&codec->coder, &chances->stack[context], same, reading);
        if (matched) {
            event->stack_id = expected.stack_id;
            set_code(event, like->code);
        } else {
            code_stack(codec, event, reading);
            const struct vt_past_stack *stack = stack_of(codec, event->stack_id);
            bool known = stack->stack_id == event->stack_id && is_known(codec, stack->number);
            like = known ? past(codec, stack->number) : &nothing;
            code_code(codec, event, like->code, reading);
            like_number = known && like->code == code_of(event) ? stack->number : 0;
            if (!like_number)
                like = &nothing;
            set_code(&expected, code_of(event));
            expect(codec, thread, like, &expected, &asked);
            thread->matched = 0;
        }
        code_fields(codec, thread, event, &expected, &asked, matched, context, reading);
        number = matched ? number : 0;
    }
    code_time(codec, event, reading);
    thread->matched += number != 0;
    remember(codec, thread, event, number, asked);
}

/* ---- chains and chunks ---- */

void vt_events_begin_chain(struct vt_event_codec *codec)
{
    const size_t before = offsetof(struct vt_event_codec, placement), chances = offsetof(struct vt_event_codec, chances);
    vt_chance *chance = (vt_chance *)(void *)((char *)codec + chances);
    memset(codec, 0, before);
    for (size_t i = 0; i < sizeof codec->chances / sizeof *chance; i++)
        chance[i] = VT_CHANCE_EVEN;
}

void vt_events_write_chunk(struct vt_event_codec *codec, uint8_t *out, bool first)
{
    vt_coder_write(&codec->coder, out);
    if (first)
        vt_placement_code(&codec->placement, &codec->coder, false);
}

void vt_events_write(struct vt_event_codec *codec, const struct vt_event *event)
{
    struct vt_event copy = *event;
    code_event(codec, &copy, false);
}

uint8_t *vt_events_end(struct vt_event_codec *codec)
{
    return vt_coder_end(&codec->coder);
}

void vt_events_read_chunk(struct vt_event_codec *codec, const uint8_t *bytes, const uint8_t *end, bool first, struct vt_event *events, size_t count)
{
    vt_coder_read(&codec->coder, bytes, end);
    if (first)
        vt_placement_code(&codec->placement, &codec->coder, true);
    memset(events, 0, count * sizeof *events);
    for (size_t i = 0; i < count; i++)
        code_event(codec, &events[i], true);
}
