/* Inspections of live objects, from text (format.h, struct vt_inspection_part) to tables. Lines that do not
 * have that format are left out, and the inspection's `failure` says so. */
#include "trace/inspections.h"

#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "trace/compiled_sources.h"
#include "trace/launch.h"
#include "trace/redact.h"
#include "trace/tables.h"

#define FIELDS 13

struct field {
    char *text;
    size_t bytes;
};

struct reading {
    struct vt_trace *trace;
    struct vt_index root_numbers[2]; /* of roots, of optimizers: as in the lines → index */
    size_t root_capacity[2];
    char *text; /* of the inspection being read */
    size_t text_bytes, text_capacity;
    bool whole;
    struct vt_inspection *inspection;
    size_t module_capacity, tensor_capacity, holder_capacity; /* of the inspection */
};

int vt_inspection_add(struct vt_trace *trace, const void *part)
{
    struct vt_trace_tables *tables = trace->tables;
    VT_APPEND(tables->inspection_parts, tables->inspection_part_count, tables->inspection_part_capacity,
              part);
    return 0;
}

static int by_inspection_and_part(const void *a, const void *b)
{
    const struct vt_inspection_part *left = *(const struct vt_inspection_part *const *)a;
    const struct vt_inspection_part *right = *(const struct vt_inspection_part *const *)b;
    return 2 * vt_order(left->inspection_id, right->inspection_id) + vt_order(left->part, right->part);
}

/* ---- Text ---- */

/* Undoes escapes in place. */
static void unescape(struct field *field)
{
    size_t out = 0;
    for (size_t i = 0; i < field->bytes; i++) {
        char c = field->text[i];
        if (c == '\\' && i + 1 < field->bytes) {
            c = field->text[++i];
            c = c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c;
        }
        field->text[out++] = c;
    }
    field->bytes = out;
}

static const char *take_text(struct reading *reading, struct field *field)
{
    struct vt_strings *texts = &reading->trace->tables->texts;
    unescape(field);
    const uint32_t number =
        vt_strings_find_bytes(texts, field->text, field->bytes, NULL); /* may move items */
    return texts->items[number];
}

/* A decimal number; an empty field is 0 and means not known. */
static bool take_number(const struct field *field, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < field->bytes; i++) {
        unsigned digit = (unsigned)(field->text[i] - '0');
        if (digit > 9 || *number > (UINT64_MAX - digit) / 10)
            return false;
        *number = *number * 10 + digit;
    }
    return true;
}

static bool take_numbers(const struct field *fields, size_t count, uint64_t *numbers)
{
    for (size_t i = 0; i < count; i++)
        if (!take_number(&fields[i], &numbers[i]))
            return false;
    return true;
}

/* ---- Lines: each reader returns whether the line is sound ---- */

/* The index of the root or optimizer whose number is in the field. Adds it if no line has described it: that
 * line may be lost. */
static bool find_root(struct reading *reading, bool optimizer, const struct field *field, int32_t *found)
{
    struct vt_trace *trace = reading->trace;
    struct vt_index *numbers = &reading->root_numbers[optimizer];
    struct vt_inspection_root **roots = optimizer ? &trace->optimizers : &trace->roots;
    size_t *count = optimizer ? &trace->optimizer_count : &trace->root_count;
    uint64_t number;
    if (field->bytes == 0 || !take_number(field, &number))
        return false;
    uint32_t at = vt_index_get(numbers, number);
    if (at == VT_INDEX_NONE) {
        at = (uint32_t)*count;
        VT_APPEND(*roots, *count, reading->root_capacity[optimizer],
                  (struct vt_inspection_root){.class_name = "", .holder = ""});
        vt_index_put(numbers, number, at);
    }
    *found = (int32_t)at;
    return true;
}

static bool read_root(struct reading *reading, struct field *fields, size_t count)
{
    bool optimizer = fields[0].text[0] == 'O';
    uint64_t address;
    int32_t index;
    if (count < 5 || !take_number(&fields[2], &address) || !find_root(reading, optimizer, &fields[1], &index))
        return false;
    struct vt_inspection_root *root =
        optimizer ? &reading->trace->optimizers[index] : &reading->trace->roots[index];
    root->address = address;
    root->class_name = take_text(reading, &fields[3]);
    const char *holder = take_text(reading, &fields[4]);
    if (holder[0])
        root->holder = holder;
    return true;
}

static bool read_module(struct reading *reading, struct field *fields, size_t count)
{
    struct vt_inspection_module module;
    int32_t root;
    if (count < 5 || !take_number(&fields[2], &module.address) || module.address == 0 ||
        !find_root(reading, false, &fields[1], &root))
        return false;
    module.class_name = take_text(reading, &fields[3]);
    module.path = take_text(reading, &fields[4]);
    module.root = (uint32_t)root;
    VT_APPEND(reading->inspection->modules, reading->inspection->module_count, reading->module_capacity,
              module);
    return true;
}

static bool read_role(struct reading *reading, struct field *field, struct vt_inspection_tensor *tensor)
{
    static const char state[] = "optimizer_state", array[] = "array";
    static const char *const roles[] = {[VT_INSPECTION_PARAMETER] = "parameter",
                                        [VT_INSPECTION_BUFFER] = "buffer",
                                        [VT_INSPECTION_GRADIENT] = "gradient",
                                        [VT_INSPECTION_TENSOR] = "tensor"};
    tensor->role = take_text(reading, field);
    for (uint8_t kind = VT_INSPECTION_PARAMETER; kind <= VT_INSPECTION_TENSOR; kind++) {
        tensor->kind = kind;
        if (roles[kind] && strcmp(tensor->role, roles[kind]) == 0)
            return true;
    }
    if (tensor->own_path && !tensor->role[0]) {
        tensor->kind = VT_INSPECTION_TENSOR;
        tensor->role = array;
        return true;
    }
    tensor->kind = VT_INSPECTION_OPTIMIZER_STATE;
    if (strncmp(tensor->role, state, sizeof state - 1) != 0)
        return false;
    if (tensor->role[sizeof state - 1] == ':')
        tensor->role += sizeof state;
    else if (!tensor->own_path || tensor->role[sizeof state - 1])
        return false;
    return true;
}

/* Whether a device could have these addresses. */
static bool is_span(uint64_t address, uint64_t bytes)
{
    return address > 0 && address <= UINT64_MAX - bytes;
}

/* Fields 4 to 7 and 10 of a tensor or a holder. */
static bool take_place(const struct field *fields, size_t count, struct vt_inspection_holder *place)
{
    uint64_t numbers[4], device_index;
    if (count < 12 || !take_numbers(&fields[4], 4, numbers) || fields[10].bytes == 0 ||
        !take_number(&fields[10], &device_index) || device_index >= VT_MAX_DEVICES)
        return false;
    *place = (struct vt_inspection_holder){.data_address = numbers[0],
                                           .bytes = numbers[1],
                                           .storage_address = numbers[2],
                                           .storage_bytes = numbers[3],
                                           .device_index = (int8_t)device_index};
    return is_span(place->data_address, place->bytes) &&
           is_span(place->storage_address, place->storage_bytes) &&
           place->data_address >= place->storage_address;
}

static bool read_holder(struct reading *reading, struct field *fields, size_t count)
{
    struct vt_inspection_holder seen;
    if (count < FIELDS || !take_place(fields, count, &seen))
        return false;
    seen.kind = take_text(reading, &fields[1]);
    seen.holder = take_text(reading, &fields[2]);
    seen.way = take_text(reading, &fields[3]);
    seen.dtype = take_text(reading, &fields[8]);
    seen.shape = take_text(reading, &fields[9]);
    seen.node = take_text(reading, &fields[11]);
    seen.nodes = take_text(reading, &fields[12]);
    VT_APPEND(reading->inspection->holders, reading->inspection->holder_count, reading->holder_capacity,
              seen);
    return true;
}

static bool read_tensor(struct reading *reading, struct field *fields, size_t count)
{
    struct vt_inspection_holder place;
    if (!take_place(fields, count, &place))
        return false;
    struct vt_inspection_tensor tensor = {.own_path = fields[0].text[0] == 'A',
                                          .root = -1,
                                          .whole_shape = "",
                                          .optimizer = -1,
                                          .data_address = place.data_address,
                                          .bytes = place.bytes,
                                          .storage_address = place.storage_address,
                                          .storage_bytes = place.storage_bytes,
                                          .device_index = place.device_index};
    const bool has_root = fields[2].bytes != 2 || memcmp(fields[2].text, "-1", 2) != 0;
    if (!read_role(reading, &fields[1], &tensor) ||
        (has_root && !find_root(reading, false, &fields[2], &tensor.root)) ||
        (fields[11].bytes > 0 && !find_root(reading, true, &fields[11], &tensor.optimizer)))
        return false;
    tensor.path = take_text(reading, &fields[3]);
    tensor.dtype = take_text(reading, &fields[8]);
    tensor.shape = take_text(reading, &fields[9]);
    if (count > 12)
        tensor.whole_shape = take_text(reading, &fields[12]);
    VT_APPEND(reading->inspection->tensors, reading->inspection->tensor_count, reading->tensor_capacity,
              tensor);
    return true;
}

static bool read_compiled_line(struct reading *reading, struct field *fields, size_t count)
{
    uint64_t line;
    if (count < 4 || !take_number(&fields[2], &line) || line > UINT32_MAX)
        return false;
    const char *file = take_text(reading, &fields[1]), *where = take_text(reading, &fields[3]);
    return vt_compiled_source_add(reading->trace, file, (uint32_t)line, where);
}

static bool read_failure(struct reading *reading, struct field *fields, size_t count)
{
    static const char unknown[] = "for no known reason";
    struct vt_inspection *inspection = reading->inspection;
    if (inspection->failure[0])
        return true;
    if (count > 1)
        inspection->failure = take_text(reading, &fields[1]);
    if (!inspection->failure[0])
        inspection->failure = unknown;
    return count > 1;
}

static bool read_census(struct reading *reading, struct field *fields, size_t count)
{
    uint64_t numbers[3]; /* objects, ended, cycles */
    struct vt_inspection *inspection = reading->inspection;
    if (count < 4 || !take_numbers(&fields[1], 3, numbers))
        return false;
    inspection->census = true;
    inspection->census_objects = numbers[0];
    inspection->census_ended = numbers[1] == 1;
    inspection->census_cycles = numbers[2] == 1;
    return true;
}

static bool read_collections(struct reading *reading, struct field *fields, size_t count)
{
    struct vt_inspection *inspection = reading->inspection;
    if (count < 4 || !take_numbers(&fields[1], 3, inspection->collections))
        return false;
    inspection->knows_collections = true;
    return true;
}

static bool read_group(struct reading *reading, struct field *fields, size_t count)
{
    struct vt_trace *trace = reading->trace;
    uint64_t numbers[2]; /* rank, size */
    if (count < 4 || !take_numbers(&fields[1], 2, numbers) || numbers[0] >= numbers[1] ||
        numbers[1] > INT32_MAX)
        return false;
    trace->group_rank = (int32_t)numbers[0];
    trace->group_size = (int32_t)numbers[1];
    trace->group_store = vt_redact_value(&trace->tables->arena, take_text(reading, &fields[3]));
    return true;
}

/* Objects know different parts of it. */
static bool read_pool(struct reading *reading, struct field *fields, size_t count)
{
    struct vt_trace_pool *pool = &reading->trace->pool;
    enum { BLOCKS, BLOCK_TOKENS, TOKENS, FREE, REQUESTS, LONGEST, NUMBERS };
    uint64_t numbers[NUMBERS] = {0};
    for (size_t i = 0; i < NUMBERS && i + 1 < count; i++)
        if (fields[i + 1].bytes && !take_number(&fields[i + 1], &numbers[i]))
            return false;
    pool->blocks = numbers[BLOCKS] ? numbers[BLOCKS] : pool->blocks;
    pool->block_tokens = numbers[BLOCK_TOKENS] ? numbers[BLOCK_TOKENS] : pool->block_tokens;
    pool->tokens = numbers[TOKENS] ? numbers[TOKENS] : pool->tokens;
    pool->requests = numbers[REQUESTS] > pool->requests ? numbers[REQUESTS] : pool->requests;
    pool->longest = numbers[LONGEST] ? numbers[LONGEST] : pool->longest;
    if (count > FREE + 1 && fields[FREE + 1].bytes && numbers[BLOCKS] > numbers[FREE] &&
        numbers[BLOCKS] - numbers[FREE] > pool->used_blocks)
        pool->used_blocks = numbers[BLOCKS] - numbers[FREE];
    return true;
}

static bool read_processor_time(struct reading *reading, struct field *fields, size_t count)
{
    return count >= 2 && take_numbers(&fields[1], 1, &reading->inspection->processor_ns);
}

static bool read_variable(struct reading *reading, struct field *fields, size_t count)
{
    if (count < 3 || !fields[1].bytes)
        return false;
    const char *name = take_text(reading, &fields[1]), *value = take_text(reading, &fields[2]);
    vt_launch_change(reading->trace, name, value);
    return true;
}

static bool read_line(struct reading *reading, char *line, char *end)
{
    static bool (*const readers[])(struct reading * reading, struct field * fields, size_t count) = {
        ['A'] = read_tensor,      ['C'] = read_census,         ['D'] = read_group, ['E'] = read_failure,
        ['G'] = read_collections, ['H'] = read_holder,         ['K'] = read_pool,  ['M'] = read_module,
        ['O'] = read_root,        ['P'] = read_processor_time, ['R'] = read_root,  ['T'] = read_tensor,
        ['V'] = read_variable,    ['W'] = read_compiled_line,
    };
    struct field fields[FIELDS] = {{0}};
    size_t count = 0;
    for (;;) {
        char *tab = memchr(line, '\t', (size_t)(end - line));
        fields[count++] = (struct field){.text = line, .bytes = (size_t)((tab ? tab : end) - line)};
        if (!tab || count == FIELDS)
            break;
        line = tab + 1;
    }
    const unsigned kind = fields[0].bytes == 1 ? (unsigned char)fields[0].text[0] : 0;
    /* a later version has more kinds */
    return kind < sizeof readers / sizeof *readers && readers[kind] ? readers[kind](reading, fields, count)
                                                                    : true;
}

/* ---- Inspections ---- */

/* Removes an unfinished last line. */
static void cut_to_line(struct reading *reading)
{
    while (reading->text_bytes > 0 && reading->text[reading->text_bytes - 1] != '\n')
        reading->text_bytes--;
    reading->whole = false;
}

/* Appends a part's text, without lines that a missing part cut. */
static void append_part(struct reading *reading, const struct vt_inspection_part *part, bool after_gap)
{
    const char *text = (const char *)(part + 1), *end = (const char *)part + part->head.bytes;
    if (after_gap) {
        cut_to_line(reading);
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        text = line_end ? line_end + 1 : end;
    }
    size_t bytes = (size_t)(end - text);
    vt_reserve(&reading->text, &reading->text_capacity, reading->text_bytes + bytes + 1, 1);
    memcpy(reading->text + reading->text_bytes, text, bytes);
    reading->text_bytes += bytes;
}

/* Joins the parts of one inspection, from index `first` on. Returns their number. */
static size_t join_parts(struct reading *reading, size_t first)
{
    const struct vt_trace_tables *tables = reading->trace->tables;
    const struct vt_inspection_part *const *parts = tables->inspection_parts + first;
    uint32_t expected = 0, all = 0;
    size_t at = 0;
    reading->text_bytes = 0;
    reading->whole = true;
    for (; first + at < tables->inspection_part_count && parts[at]->inspection_id == parts[0]->inspection_id;
         at++) {
        if (at > 0 && parts[at]->part == parts[at - 1]->part)
            continue;
        append_part(reading, parts[at], parts[at]->part != expected);
        expected = parts[at]->part + 1;
        all = parts[at]->parts > all ? parts[at]->parts : all;
        reading->inspection->reason |= parts[at]->reason;
        if (parts[at]->duration_ns > reading->inspection->duration_ns)
            reading->inspection->duration_ns = parts[at]->duration_ns;
    }
    if (expected < all) /* the last parts are lost */
        cut_to_line(reading);
    return at;
}

static void read_inspection(struct reading *reading)
{
    char *line = reading->text, *end = line + reading->text_bytes;
    bool sound = true;
    reading->module_capacity = reading->tensor_capacity = reading->holder_capacity = 0;
    while (line < end) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        sound &= read_line(reading, line, stop ? stop : end);
        line = stop ? stop + 1 : end;
    }
    if (!reading->inspection->failure[0] && !reading->whole)
        reading->inspection->failure = "a part of it was lost";
    else if (!reading->inspection->failure[0] && !sound)
        reading->inspection->failure = "some of its lines make no sense";
}

/* Maps each inspection's id to its first event: what it saw was there at that time. */
static void find_events(const struct vt_trace *trace, struct vt_index *events)
{
    for (size_t i = 0; i < trace->rare_event_count; i++) {
        const struct vt_event *event = &trace->events[trace->rare_events[i]];
        if (event->kind == VT_EVENT_INSPECTION && vt_index_get(events, event->detail) == VT_INDEX_NONE)
            vt_index_put(events, event->detail, trace->rare_events[i]);
    }
}

static uint64_t event_index(const void *inspection)
{
    return ((const struct vt_inspection *)inspection)->event_index;
}

static void read_inspections(struct reading *reading, const struct vt_index *events)
{
    struct vt_trace *trace = reading->trace;
    const struct vt_trace_tables *tables = trace->tables;
    size_t count, capacity = 0;
    for (size_t first = 0; first < tables->inspection_part_count; first += count) {
        uint32_t event = vt_index_get(events, tables->inspection_parts[first]->inspection_id);
        vt_reserve(&trace->inspections, &capacity, trace->inspection_count + 1, sizeof *trace->inspections);
        reading->inspection = &trace->inspections[trace->inspection_count];
        *reading->inspection = (struct vt_inspection){.event_index = event, .failure = ""};
        count = join_parts(reading, first);
        if (event == VT_INDEX_NONE) {
            trace->lost_inspections++;
            continue;
        }
        read_inspection(reading);
        trace->inspection_count++;
    }
    trace->lost_inspections += events->count - trace->inspection_count; /* events without parts */
    vt_sort_by_key(trace->inspections, trace->inspection_count, sizeof *trace->inspections, event_index);
}

void vt_inspections_read(struct vt_trace *trace)
{
    struct vt_trace_tables *tables = trace->tables;
    struct reading reading = {.trace = trace};
    struct vt_index events = {0};
    if (tables->inspection_part_count > 1)
        qsort(tables->inspection_parts, tables->inspection_part_count, sizeof *tables->inspection_parts,
              by_inspection_and_part);
    find_events(trace, &events);
    read_inspections(&reading, &events);
    vt_compiled_source_finish(trace);
    vt_index_free(&events);
    vt_index_free(&reading.root_numbers[false]);
    vt_index_free(&reading.root_numbers[true]);
    free(reading.text);
}
