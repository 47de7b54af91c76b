#include "format/events.h"

#include <string.h>

enum field { FIELD_ADDRESS, FIELD_BYTES, FIELD_DETAIL, FIELD_TOTAL, FIELD_SEQUENCE };
enum { TICK_SHIFT = 8, PACE_SHIFT = 4, THREAD_BITS = 4, LENGTH_MAXIMUM = 57 };

/* ---- the fields of one event ---- */

/* Codes the thread: one of those known, or a new one. */
static void code_thread(struct vt_event_codec *codec, struct vt_event *event, bool reading)
{
    struct vt_event_chances *chances = &codec->chances;
    struct vt_past *past = &codec->past;
    struct vt_past_thread *threads = past->threads;
    unsigned index = 0;
    if (!reading)
        while (index < past->thread_count && threads[index].thread_id != event->thread_id)
            index++;
    index = vt_code_tree(&codec->coder, chances->thread[past->thread], THREAD_BITS, index, reading);
    if (index >= past->thread_count) { /* a new one replaces the one known longest */
        event->thread_id =
            (uint32_t)vt_code_number(&codec->coder, chances->new_thread, event->thread_id, reading);
        index = past->thread_count < VT_PAST_THREADS ? past->thread_count++
                                                     : past->next_thread++ % VT_PAST_THREADS;
        threads[index] = (struct vt_past_thread){.thread_id = event->thread_id};
    }
    event->thread_id = threads[index].thread_id;
    past->thread = index;
}

static void code_stack(struct vt_event_codec *codec, struct vt_event *event, bool reading)
{
    struct vt_event_chances *chances = &codec->chances;
    const uint32_t newest = codec->past.newest_stack;
    if (vt_code_bit(&codec->coder, &chances->is_new_stack, event->stack_id == newest + 1, reading))
        event->stack_id = newest + 1;
    else
        event->stack_id =
            newest - (uint32_t)vt_code_difference(&codec->coder, chances->other_stack,
                                                  (uint64_t)(int32_t)(newest - event->stack_id), reading);
}

/* Codes kind, layer, device and flags. */
static void code_code(struct vt_event_codec *codec, struct vt_event *event, uint32_t expected, bool reading)
{
    uint32_t code = vt_event_code(event);
    if (vt_code_bit(&codec->coder, &codec->chances.is_same_code, code == expected, reading)) {
        code = expected;
    } else {
        uint32_t made = 0;
        for (unsigned i = 0; i < 4; i++)
            made |= vt_code_tree(&codec->coder, codec->chances.code[i], 8, code >> 8 * i & 255, reading)
                    << 8 * i;
        code = made;
    }
    vt_event_set_code(event, code);
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
    struct vt_past *past = &codec->past;
    uint64_t bytes;
    const uint32_t number = reading ? 0 : vt_past_block(past, address, &bytes);
    uint64_t age = vt_past_has(past, number) && vt_past_event(past, number)->address == address
                       ? past->number - number
                       : 0;
    age = vt_code_number(&codec->coder, codec->chances.age, age, reading);
    if (age)
        return vt_past_event(past, past->number - (uint32_t)age)->address;
    return base + vt_code_difference(&codec->coder, codec->chances.freed, address - base, reading);
}

/* Codes all fields except stack, code, thread and time. */
static void code_fields(struct vt_event_codec *codec, struct vt_event *event, struct vt_guess *guess,
                        bool matched, bool reading)
{
    struct vt_past *past = &codec->past;
    const struct vt_past_kind last = *vt_past_kind(past, event);
    const bool made = vt_is_block_event(event, VT_EVENT_ALLOC),
               freed = vt_is_block_event(event, VT_EVENT_FREE), block = made || freed;
    struct vt_event *expected = &guess->event;
    struct fields fields = {codec, &codec->chances.fields[block][matched], guess->context, reading};
    if (freed) {
        if (code_is_expected(&fields, FIELD_ADDRESS, event->address == expected->address))
            event->address = expected->address;
        else
            event->address = code_freed(codec, event->address, last.address, reading);
        if (!vt_past_block(past, event->address, &expected->bytes))
            expected->bytes = last.bytes;
    }
    event->bytes = code_field(&fields, FIELD_BYTES, event->bytes, expected->bytes, block ? 0 : last.bytes);
    if (made && event->bytes != expected->bytes) {
        uint64_t bytes = guess->requested = event->bytes;
        expected->address = vt_holes_guess(&past->holes, (uint8_t)event->device_index, &bytes);
    }
    if (!freed)
        event->address = code_field(&fields, FIELD_ADDRESS, event->address, expected->address, last.address);
    expected->bytes = event->bytes;
    if (block)
        vt_past_guess_totals(past, expected);
    event->detail = code_field(&fields, FIELD_DETAIL, event->detail, expected->detail,
                               block ? expected->detail : last.detail);
    event->total_bytes = code_field(&fields, FIELD_TOTAL, event->total_bytes, expected->total_bytes,
                                    block ? expected->total_bytes : last.total_bytes);
    event->sequence = code_field(&fields, FIELD_SEQUENCE, event->sequence, expected->sequence,
                                 past->threads[past->thread].sequence);
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
    struct vt_past_stack *stack = vt_past_stack(&codec->past, event->stack_id);
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

static bool is_like(const struct vt_event *event, const struct vt_event *other)
{
    return event->stack_id == other->stack_id && vt_event_code(event) == vt_event_code(other);
}

static bool is_same(const struct vt_event *event, const struct vt_event *other)
{
    return is_like(event, other) && event->address == other->address && event->bytes == other->bytes &&
           event->detail == other->detail && event->total_bytes == other->total_bytes &&
           event->sequence == other->sequence && event->thread_id == other->thread_id;
}

/* Codes an event that is not as expected. */
static void code_other(struct vt_event_codec *codec, struct vt_guess *guess, struct vt_event *event,
                       bool reading)
{
    struct vt_past *past = &codec->past;
    const unsigned before = past->thread;
    code_thread(codec, event, reading);
    if (past->thread != before || guess->event.thread_id != event->thread_id)
        vt_past_guess(past, guess);
    const bool matched = vt_code_bit(&codec->coder, &codec->chances.stack[guess->context],
                                     guess->number && is_like(event, &guess->event), reading);
    if (matched) {
        event->stack_id = guess->event.stack_id;
        vt_event_set_code(event, vt_event_code(&guess->event));
    } else {
        code_stack(codec, event, reading);
        const struct vt_past_stack *stack = vt_past_stack(past, event->stack_id);
        const bool known = stack->stack_id == event->stack_id && vt_past_has(past, stack->number);
        const struct vt_past_event *like = known ? vt_past_event(past, stack->number) : NULL;
        code_code(codec, event, like ? like->code : 0, reading);
        if (like && like->code != vt_event_code(event))
            like = NULL;
        vt_event_set_code(&guess->event, vt_event_code(event));
        vt_past_guess_fields(past, like, guess);
        past->threads[past->thread].matched = 0;
        guess->number = 0;
    }
    code_fields(codec, event, guess, matched, reading);
}

VT_INLINE void code_event(struct vt_event_codec *codec, struct vt_event *event, bool reading)
{
    struct vt_past *past = &codec->past;
    struct vt_guess guess;
    past->number++;
    vt_past_event(past, past->number)->next = 0;
    vt_past_guess(past, &guess);
    const bool same = !reading && guess.number && is_same(event, &guess.event);
    const bool as_expected = vt_code_bit(&codec->coder, &codec->chances.all[guess.context], same, reading);
    if (reading)
        *event = guess.event;
    if (!as_expected)
        code_other(codec, &guess, event, reading);
    code_time(codec, event, reading);
    past->threads[past->thread].matched += guess.number != 0;
    vt_past_remember(past, event, &guess);
}

/* ---- chains and chunks ---- */

void vt_events_begin_chain(struct vt_event_codec *codec)
{
    vt_chance *chance = (vt_chance *)(void *)((char *)codec + offsetof(struct vt_event_codec, chances));
    codec->tick = 0;
    if (codec->past.number) /* else it is all zero, and its pages stay untouched */
        memset(&codec->past, 0, offsetof(struct vt_past, holes));
    for (size_t i = 0; i < sizeof codec->chances / sizeof *chance; i++)
        chance[i] = VT_CHANCE_EVEN;
}

size_t vt_events_start_bytes(const struct vt_event_codec *codec)
{
    enum { RANGE_BYTES = 48, OTHER_BYTES = 128 };
    const struct vt_holes *holes = &codec->past.holes;
    return OTHER_BYTES +
           RANGE_BYTES * ((size_t)holes->segments.count + holes->holes[0].count + holes->holes[1].count);
}

void vt_events_write_chunk(struct vt_event_codec *codec, uint8_t *out, uint8_t *end, bool first)
{
    vt_coder_write(&codec->coder, out, end);
    if (first)
        vt_holes_code(&codec->past.holes, &codec->coder, false);
}

uint32_t vt_events_write(struct vt_event_codec *codec, const struct vt_event *event)
{
    struct vt_event copy = *event;
    code_event(codec, &copy, false);
    return codec->past.other;
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
        vt_holes_code(&codec->past.holes, &codec->coder, true);
    for (size_t i = 0; i < count; i++)
        code_event(codec, &events[i], true);
}
