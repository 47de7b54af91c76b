#include "format/events.h"

#include <string.h>

enum field { FIELD_ADDRESS, FIELD_BYTES, FIELD_DETAIL, FIELD_TOTAL, FIELD_SEQUENCE };
enum { TICK_SHIFT = 8, UNMATCHED = 15, PACE_SHIFT = 4, THREAD_BITS = 4, LENGTH_MAXIMUM = 57 };

/* ---- what is known ---- */

static uint64_t mix_bits(uint64_t value)
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

static struct vt_past_event *past_event(struct vt_event_codec *codec, uint32_t number)
{
    return &codec->events[number % VT_PAST_EVENTS];
}

/* Whether the event with this number is still remembered. */
static bool is_known(const struct vt_event_codec *codec, uint32_t number)
{
    return number && codec->number - number < VT_PAST_EVENTS;
}

static struct vt_past_blocks *blocks_of(struct vt_event_codec *codec, uint64_t address)
{
    return &codec->blocks[mix_bits(address) % VT_PAST_BLOCKS];
}

/* The block's way in its set; VT_PAST_WAYS = not there. */
static unsigned find_block(const struct vt_past_blocks *blocks, uint64_t address)
{
    unsigned found = 1u << VT_PAST_WAYS;
    for (unsigned i = 0; i < VT_PAST_WAYS; i++) /* without a branch, which could not be predicted */
        found |= (unsigned)((blocks->addresses[i] == address) & (blocks->numbers[i] != 0)) << i;
    return (unsigned)__builtin_ctz(found);
}

/* Returns the number of the event that made the block which the address had until now, 0 = none. */
static uint32_t keep_block(struct vt_event_codec *codec, const struct vt_event *event, uint32_t family)
{
    struct vt_past_blocks *blocks = blocks_of(codec, event->address);
    unsigned way = find_block(blocks, event->address);
    if (way == VT_PAST_WAYS) {
        way = 0;
        for (unsigned i = 1; i < VT_PAST_WAYS; i++)
            way = blocks->numbers[i] < blocks->numbers[way] ? i : way;
    }
    const uint32_t replaced = blocks->addresses[way] == event->address ? blocks->numbers[way] : 0;
    uint64_t *latest = &codec->families[family % VT_PAST_EVENTS];
    blocks->addresses[way] = event->address;
    blocks->bytes[way] = event->bytes;
    blocks->before[way] = *latest == event->address ? 0 : *latest;
    blocks->numbers[way] = codec->number;
    blocks->families[way] = family;
    *latest = event->address;
    return replaced;
}

/* Removes a block, so that the one before it becomes the family's latest. Returns the family. *made: the
 * number of the event that made it, 0 if that is not known. */
static uint32_t forget_block(struct vt_event_codec *codec, uint64_t address, uint32_t *made)
{
    struct vt_past_blocks *blocks = blocks_of(codec, address);
    const unsigned way = find_block(blocks, address);
    *made = way == VT_PAST_WAYS ? 0 : blocks->numbers[way];
    if (way == VT_PAST_WAYS)
        return 0;
    uint64_t *latest = &codec->families[blocks->families[way] % VT_PAST_EVENTS];
    if (*latest == address)
        *latest = blocks->before[way];
    blocks->numbers[way] = 0;
    return blocks->families[way];
}

static struct vt_past_size *size_of(struct vt_event_codec *codec, uint64_t bytes)
{
    return &codec->sizes[mix_bits(bytes) % VT_PAST_SIZES];
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

/* What the allocator's totals should be after this event. */
static void expect_totals(const struct vt_event_codec *codec, struct vt_event *event)
{
    unsigned device = (uint8_t)event->device_index % VT_MAX_DEVICES;
    event->detail = codec->devices[device].reserved;
    event->total_bytes = codec->devices[device].allocated;
    event->total_bytes += event->kind == VT_EVENT_ALLOC ? event->bytes : 0 - event->bytes;
}

static void expect_bytes(struct vt_event_codec *codec, const struct vt_past_event *like,
                         struct vt_event *event, uint64_t *asked)
{
    const struct vt_past_size *size = size_of(codec, like->bytes);
    *asked = size->before == like->bytes && size->now ? size->now : like->bytes;
    event->bytes = *asked;
    event->address = vt_holes_guess(&codec->holes, (uint8_t)event->device_index, &event->bytes);
}

/* Expects that the latest block of the family is freed. */
static void expect_freed(struct vt_event_codec *codec, const struct vt_past_event *like,
                         struct vt_event *event)
{
    uint64_t address = codec->families[like->family % VT_PAST_EVENTS];
    const struct vt_past_blocks *blocks = blocks_of(codec, address);
    unsigned way = find_block(blocks, address);
    if (way == VT_PAST_WAYS || blocks->families[way] != like->family) {
        address = like->address;
        blocks = blocks_of(codec, address);
        way = find_block(blocks, address);
    }
    event->address = way == VT_PAST_WAYS ? 0 : address;
    event->bytes = way == VT_PAST_WAYS ? 0 : blocks->bytes[way];
}

/* Everything except stack, code, thread and time. */
static void expect_fields(struct vt_event_codec *codec, const struct vt_past_thread *thread,
                          const struct vt_past_event *like, struct vt_event *event, uint64_t *asked)
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

/* The prediction of the current thread's next event. */
struct guess {
    uint32_t number;  /* of the event that it repeats, 0 = none */
    unsigned context; /* how often in a row the prediction was right */
    uint64_t asked;
    struct vt_event event;
};

/* ---- the fields of one event ---- */

/* Codes the thread: one of those known, or a new one. */
static void code_thread(struct vt_event_codec *codec, struct vt_event *event, bool reading)
{
    struct vt_event_chances *chances = &codec->chances;
    struct vt_past_thread *threads = codec->threads;
    unsigned index = 0;
    if (!reading)
        while (index < codec->thread_count && threads[index].thread_id != event->thread_id)
            index++;
    index = vt_code_tree(&codec->coder, chances->thread[codec->thread], THREAD_BITS, index, reading);
    if (index >= codec->thread_count) { /* a new one replaces the one known longest */
        event->thread_id =
            (uint32_t)vt_code_number(&codec->coder, chances->new_thread, event->thread_id, reading);
        index = codec->thread_count < VT_PAST_THREADS ? codec->thread_count++
                                                      : codec->next_thread++ % VT_PAST_THREADS;
        threads[index] = (struct vt_past_thread){.thread_id = event->thread_id};
    }
    event->thread_id = threads[index].thread_id;
    codec->thread = index;
}

static void code_stack(struct vt_event_codec *codec, struct vt_event *event, bool reading)
{
    struct vt_event_chances *chances = &codec->chances;
    bool new = vt_code_bit(&codec->coder, &chances->is_new_stack, event->stack_id == codec->newest_stack + 1,
                           reading);
    if (new)
        event->stack_id = codec->newest_stack + 1;
    else
        event->stack_id =
            codec->newest_stack -
            (uint32_t)vt_code_difference(&codec->coder, chances->other_stack,
                                         (uint64_t)(int32_t)(codec->newest_stack - event->stack_id), reading);
}

static void code_code(struct vt_event_codec *codec, struct vt_event *event, uint32_t expected, bool reading)
{
    uint32_t code = code_of(event);
    if (vt_code_bit(&codec->coder, &codec->chances.is_same_code, code == expected, reading)) {
        code = expected;
    } else {
        uint32_t made = 0;
        for (unsigned i = 0; i < 4; i++)
            made |= vt_code_tree(&codec->coder, codec->chances.code[i], 8, code >> 8 * i & 255, reading)
                    << 8 * i;
        code = made;
    }
    set_code(event, code);
}

struct fields {
    struct vt_event_codec *codec;
    struct vt_field_chances *chances;
    unsigned context;
    bool reading;
};

static bool code_is_expected(const struct fields *fields, enum field field, bool is)
{
    return vt_code_bit(&fields->codec->coder, &fields->chances->expected[field][fields->context], is,
                       fields->reading);
}

/* Codes a field: as expected, or else its difference to `base`. */
static uint64_t code_field(const struct fields *fields, enum field field, uint64_t value, uint64_t expected,
                           uint64_t base)
{
    if (code_is_expected(fields, field, value == expected))
        return expected;
    return base + vt_code_difference(&fields->codec->coder, fields->chances->differences[field], value - base,
                                     fields->reading);
}

/* Codes the address of an unexpected free: how many events ago the block was made, or the address itself. */
static uint64_t code_freed(struct vt_event_codec *codec, uint64_t address, uint64_t base, bool reading)
{
    const struct vt_past_blocks *blocks = blocks_of(codec, address);
    const unsigned way = reading ? VT_PAST_WAYS : find_block(blocks, address);
    const uint32_t number = way == VT_PAST_WAYS ? 0 : blocks->numbers[way];
    uint64_t age =
        is_known(codec, number) && past_event(codec, number)->address == address ? codec->number - number : 0;
    age = vt_code_number(&codec->coder, codec->chances.age, age, reading);
    if (age)
        return past_event(codec, codec->number - (uint32_t)age)->address;
    return base + vt_code_difference(&codec->coder, codec->chances.freed, address - base, reading);
}

/* Codes all fields except stack, code, thread and time. */
static void code_fields(struct vt_event_codec *codec, const struct vt_past_thread *thread,
                        struct vt_event *event, struct guess *guess, bool matched, bool reading)
{
    const struct vt_past_kind last = *kind_of(codec, event);
    const bool made = is_block(event, VT_EVENT_ALLOC), freed = is_block(event, VT_EVENT_FREE),
               block = made || freed;
    struct vt_event *expected = &guess->event;
    struct fields fields = {codec, &codec->chances.fields[block][matched], guess->context, reading};
    if (freed) {
        if (code_is_expected(&fields, FIELD_ADDRESS, event->address == expected->address))
            event->address = expected->address;
        else
            event->address = code_freed(codec, event->address, last.address, reading);
        const struct vt_past_blocks *blocks = blocks_of(codec, event->address);
        const unsigned way = find_block(blocks, event->address);
        expected->bytes = way == VT_PAST_WAYS ? last.bytes : blocks->bytes[way];
    }
    event->bytes = code_field(&fields, FIELD_BYTES, event->bytes, expected->bytes, block ? 0 : last.bytes);
    if (made && event->bytes != expected->bytes) {
        uint64_t bytes = guess->asked = event->bytes;
        expected->address = vt_holes_guess(&codec->holes, (uint8_t)event->device_index, &bytes);
    }
    if (!freed)
        event->address = code_field(&fields, FIELD_ADDRESS, event->address, expected->address, last.address);
    expected->bytes = event->bytes;
    if (block)
        expect_totals(codec, expected);
    event->detail = code_field(&fields, FIELD_DETAIL, event->detail, expected->detail,
                               block ? expected->detail : last.detail);
    event->total_bytes = code_field(&fields, FIELD_TOTAL, event->total_bytes, expected->total_bytes,
                                    block ? expected->total_bytes : last.total_bytes);
    event->sequence =
        code_field(&fields, FIELD_SEQUENCE, event->sequence, expected->sequence, thread->sequence);
}

/* Codes the length: 1 + that of the ticks in bits, or 0 for a time before the last event's. It is coded in
 * steps up or down from what this stack makes likely. */
VT_INLINE unsigned code_length(struct vt_event_codec *codec, unsigned pace, unsigned length, bool reading)
{
    vt_chance(*chances)[VT_LENGTH_STEPS] =
        codec->chances.time[pace < VT_TIME_PACES ? pace : VT_TIME_PACES - 1];
    unsigned at = pace / 4 + 1 < LENGTH_MAXIMUM ? pace / 4 + 1 : LENGTH_MAXIMUM - 1, step = 0;
    if (vt_code_bit(&codec->coder, &chances[0][0], length > at, reading)) {
        for (at++; at < LENGTH_MAXIMUM; at++) {
            step += step + 1 < VT_LENGTH_STEPS;
            if (vt_code_bit(&codec->coder, &chances[0][step], length == at, reading))
                break;
        }
    } else {
        for (; at > 0; at--, step += step + 1 < VT_LENGTH_STEPS)
            if (vt_code_bit(&codec->coder, &chances[1][step], length == at, reading))
                break;
    }
    return at;
}

VT_INLINE void code_time(struct vt_event_codec *codec, struct vt_event *event, bool reading)
{
    struct vt_past_stack *stack = stack_of(codec, event->stack_id);
    const uint64_t mask = UINT64_MAX >> TICK_SHIFT;
    uint64_t ticks = ((event->t_ns >> TICK_SHIFT) - codec->tick) & mask;
    unsigned length = ticks > mask / 2 ? 0 : vt_bit_length(ticks) + 1;
    length = code_length(codec, stack->pace >> PACE_SHIFT, length, reading);
    if (length)
        ticks = vt_code_tail(&codec->coder, length - 1, ticks, reading);
    else
        ticks = 0 - vt_code_number(&codec->coder, codec->chances.back_in_time, (0 - ticks) & mask, reading);
    codec->tick = (codec->tick + ticks) & mask;
    event->t_ns = codec->tick << TICK_SHIFT;
    /* About four times the logarithm. */
    length -= length > 0;
    const unsigned now = (length << 2 | (unsigned)(length > 2 ? ticks >> (length - 3) & 3 : 0)) << PACE_SHIFT;
    stack->pace = stack->stack_id == event->stack_id ? (stack->pace * 7 + now) / 8 : now;
    stack->stack_id = event->stack_id;
}

/* ---- one event ---- */

/* The event that the thread's next one probably repeats; 0 = none. */
static uint32_t find_candidate(struct vt_event_codec *codec, struct vt_past_thread *thread)
{
    uint32_t number = thread->like;
    if (is_known(codec, number) && is_known(codec, past_event(codec, number)->next))
        return past_event(codec, number)->next;
    thread->matched = 0;
    for (unsigned i = 0; i < 2; i++) {
        number = codec->hashed[i][thread->hashes[i] / (UINT32_MAX / VT_PAST_HASHES + 1)];
        if (is_known(codec, number) && is_known(codec, past_event(codec, number)->next))
            return past_event(codec, number)->next;
    }
    return 0;
}

/* Returns the number of the event that made the block which this one frees or replaces, 0 = none. */
static uint32_t remember_event(struct vt_event_codec *codec, struct vt_past_thread *thread,
                               const struct vt_event *event, uint32_t like, uint64_t asked)
{
    uint32_t other = 0;
    const uint32_t number = codec->number;
    struct vt_past_event *now = past_event(codec, number);
    uint32_t family = like ? past_event(codec, like)->family : number % VT_PAST_EVENTS;
    const uint64_t like_bytes = like ? past_event(codec, like)->bytes : 0;
    if (is_block(event, VT_EVENT_ALLOC)) {
        if (like)
            *size_of(codec, like_bytes) = (struct vt_past_size){like_bytes, asked};
        codec->families[family % VT_PAST_EVENTS] = number;
        other = keep_block(codec, event, family);
        vt_holes_take(&codec->holes, event->address, event->bytes);
    } else if (is_block(event, VT_EVENT_FREE)) {
        family = forget_block(codec, event->address, &other);
        vt_holes_give(&codec->holes, event->address, event->bytes);
    } else {
        asked = event->bytes;
        if (event->layer == VT_LAYER_DRIVER &&
            (event->kind == VT_EVENT_ALLOC || event->kind == VT_EVENT_MAP) && !event->flags)
            vt_holes_add_segment(&codec->holes, (uint8_t)event->device_index, event->address, event->bytes);
        else if (event->layer == VT_LAYER_DRIVER &&
                 (event->kind == VT_EVENT_FREE || event->kind == VT_EVENT_UNMAP))
            vt_holes_end_segment(&codec->holes, event->address);
    }
    if (event->layer == VT_LAYER_FRAMEWORK &&
        (event->kind == VT_EVENT_ALLOC || event->kind == VT_EVENT_FREE)) {
        unsigned device = (uint8_t)event->device_index % VT_MAX_DEVICES;
        codec->devices[device].reserved = event->detail;
        codec->devices[device].allocated = event->total_bytes;
    }
    *kind_of(codec, event) =
        (struct vt_past_kind){event->address, event->bytes, event->detail, event->total_bytes};
    *now =
        (struct vt_past_event){.stack_id = event->stack_id,
                               .code = code_of(event),
                               .family = family,
                               .address = event->address,
                               .detail = event->detail,
                               .bytes = asked,
                               .sequence_step = event->sequence ? event->sequence - thread->sequence + 1 : 0};
    if (event->sequence)
        thread->sequence = event->sequence;
    stack_of(codec, event->stack_id)->number = number;
    if ((int32_t)(event->stack_id - codec->newest_stack) > 0)
        codec->newest_stack = event->stack_id;
    if (is_known(codec, thread->number))
        past_event(codec, thread->number)->next = number;
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
    return other;
}

static void guess_event(struct vt_event_codec *codec, struct guess *guess)
{
    struct vt_past_thread *thread = &codec->threads[codec->thread];
    guess->number = find_candidate(codec, thread);
    const struct vt_past_event *like = guess->number ? past_event(codec, guess->number) : &nothing;
    const unsigned length = vt_bit_length(thread->matched);
    guess->context = !guess->number ? UNMATCHED : length < UNMATCHED ? length : UNMATCHED - 1;
    guess->asked = 0;
    guess->event.head_start = 0;
    guess->event.t_ns = 0;
    guess->event.thread_id = thread->thread_id;
    guess->event.stack_id = like->stack_id;
    set_code(&guess->event, like->code);
    expect_fields(codec, thread, like, &guess->event, &guess->asked);
}

static bool is_like(const struct vt_event *event, const struct vt_event *other)
{
    return event->stack_id == other->stack_id && code_of(event) == code_of(other);
}

static bool is_same(const struct vt_event *event, const struct vt_event *other)
{
    return is_like(event, other) && event->address == other->address && event->bytes == other->bytes &&
           event->detail == other->detail && event->total_bytes == other->total_bytes &&
           event->sequence == other->sequence && event->thread_id == other->thread_id;
}

/* Codes an event that is not as expected. */
static void code_other(struct vt_event_codec *codec, struct guess *guess, struct vt_event *event,
                       bool reading)
{
    struct vt_event_chances *chances = &codec->chances;
    const unsigned before = codec->thread;
    code_thread(codec, event, reading);
    if (codec->thread != before || guess->event.thread_id != event->thread_id)
        guess_event(codec, guess);
    struct vt_past_thread *thread = &codec->threads[codec->thread];
    const bool matched = vt_code_bit(&codec->coder, &chances->stack[guess->context],
                                     guess->number && is_like(event, &guess->event), reading);
    if (matched) {
        event->stack_id = guess->event.stack_id;
        set_code(event, code_of(&guess->event));
    } else {
        code_stack(codec, event, reading);
        const struct vt_past_stack *stack = stack_of(codec, event->stack_id);
        const struct vt_past_event *like =
            stack->stack_id == event->stack_id && is_known(codec, stack->number)
                ? past_event(codec, stack->number)
                : &nothing;
        code_code(codec, event, like->code, reading);
        if (like->code != code_of(event))
            like = &nothing;
        set_code(&guess->event, code_of(event));
        expect_fields(codec, thread, like, &guess->event, &guess->asked);
        thread->matched = 0;
        guess->number = 0;
    }
    code_fields(codec, thread, event, guess, matched, reading);
}

VT_INLINE uint32_t code_event(struct vt_event_codec *codec, struct vt_event *event, bool reading)
{
    struct guess guess;
    codec->number++;
    past_event(codec, codec->number)->next = 0;
    guess_event(codec, &guess);
    const bool same = !reading && guess.number && is_same(event, &guess.event);
    const bool as_expected = vt_code_bit(&codec->coder, &codec->chances.all[guess.context], same, reading);
    if (reading)
        *event = guess.event;
    if (!as_expected)
        code_other(codec, &guess, event, reading);
    code_time(codec, event, reading);
    struct vt_past_thread *thread = &codec->threads[codec->thread];
    thread->matched += guess.number != 0;
    return remember_event(codec, thread, event, guess.number, guess.asked);
}

/* ---- chains and chunks ---- */

void vt_events_begin_chain(struct vt_event_codec *codec)
{
    const size_t before = offsetof(struct vt_event_codec, holes),
                 chances = offsetof(struct vt_event_codec, chances);
    vt_chance *chance = (vt_chance *)(void *)((char *)codec + chances);
    if (codec->number) /* else it is all zero, and its pages stay untouched */
        memset(codec, 0, before);
    for (size_t i = 0; i < sizeof codec->chances / sizeof *chance; i++)
        chance[i] = VT_CHANCE_EVEN;
}

size_t vt_events_start_bytes(const struct vt_event_codec *codec)
{
    enum { RANGE_BYTES = 48, OTHER_BYTES = 128 };
    const struct vt_holes *holes = &codec->holes;
    return OTHER_BYTES +
           RANGE_BYTES * ((size_t)holes->segments.count + holes->holes[0].count + holes->holes[1].count);
}

void vt_events_write_chunk(struct vt_event_codec *codec, uint8_t *out, uint8_t *end, bool first)
{
    vt_coder_write(&codec->coder, out, end);
    if (first)
        vt_holes_code(&codec->holes, &codec->coder, false);
}

uint32_t vt_events_write(struct vt_event_codec *codec, const struct vt_event *event)
{
    struct vt_event copy = *event;
    return code_event(codec, &copy, false);
}

uint8_t *vt_events_end(struct vt_event_codec *codec, const uint8_t *end, const uint8_t *least)
{
    return vt_coder_end(&codec->coder, end, least);
}

void vt_events_read_chunk(struct vt_event_codec *codec, const uint8_t *bytes, const uint8_t *end, bool first,
                          struct vt_event *events, size_t count)
{
    vt_coder_read(&codec->coder, bytes, end);
    if (first)
        vt_holes_code(&codec->holes, &codec->coder, true);
    for (size_t i = 0; i < count; i++)
        code_event(codec, &events[i], true);
}
