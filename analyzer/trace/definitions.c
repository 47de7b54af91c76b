/* Definition records: stacks, code objects, symbols, names. */
#include "trace/definitions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "trace/inspections.h"
#include "trace/launch.h"
#include "trace/places.h"
#include "trace/redact.h"
#include "trace/symbols.h"
#include "trace/tables.h"
#include "vramtrace/places.h"

/* An id is an array's index here, so one hostile record must not make that array huge: the highest id may be
 * this plus one for every so many bytes of definitions read so far. (Lost definitions leave holes among the
 * ids. A stack of a training has hundreds of bytes.) */
#define IDS_AHEAD 65536u
#define BYTES_PER_ID 32u
/* Chunks are made from records of the ring, and none of those is larger. */
#define RECORD_BYTES_LIMIT (UINT16_MAX * VT_SLOT_BYTES)
/* The recorder keeps 64 KiB of a command line. */
#define ARGUMENTS_LIMIT (1u << 16)

static bool id_is_plausible(const struct vt_trace *trace, uint64_t id)
{
    return id > 0 && id <= IDS_AHEAD + trace->tables->definition_bytes / BYTES_PER_ID;
}

/* Grows the array until it holds `id`, with zeros. */
static void reach_id(void *items, size_t *count, size_t *capacity, size_t id, size_t item_bytes)
{
    if (id < *count)
        return;
    vt_reserve(items, capacity, id + 1, item_bytes);
    char *base;
    memcpy(&base, items, sizeof base);
    memset(base + *count * item_bytes, 0, (id + 1 - *count) * item_bytes);
    *count = id + 1;
}

/* Strings, functions and threads: an id, then a text. */
static int add_text(struct vt_trace *trace, const void *record)
{
    struct vt_trace_tables *tables = trace->tables;
    const struct vt_string *string = record;
    struct vt_index *ids = string->head.kind == VT_RECORD_STRING     ? &tables->strings
                           : string->head.kind == VT_RECORD_FUNCTION ? &tables->functions
                                                                     : &tables->threads;
    const char *text = (const char *)(string + 1);
    const size_t bytes = vt_redact_text(text, string->head.bytes - sizeof *string);
    vt_index_put(ids, string->id, vt_strings_find_bytes(&tables->texts, text, bytes, NULL));
    return 0;
}

static const char *join_words(struct vt_arena *arena, const char **words, size_t count)
{
    size_t bytes = 1;
    for (size_t i = 0; i < count; i++)
        bytes += strlen(words[i]) + 1;
    char *joined = vt_arena_take(arena, bytes), *end = joined;
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            *end++ = ' ';
        end = stpcpy(end, words[i]);
    }
    *end = '\0';
    return joined;
}

static int add_process(struct vt_trace *trace, const void *record)
{
    const struct vt_process *process = record;
    struct vt_arena *arena = &trace->tables->arena;
    const char *text = (const char *)(process + 1), *end = (const char *)process + process->head.bytes;
    const size_t most = process->argument_count < ARGUMENTS_LIMIT ? process->argument_count : ARGUMENTS_LIMIT;
    size_t count = 0, shown = 0;
    const char **arguments = vt_arena_take(arena, (most + 1) * sizeof *arguments);
    while (count < most && text < end) {
        arguments[count++] = vt_arena_next_text(arena, &text, end);
        if (arguments[count - 1][0]) /* a program that changed its title may have left the rest empty */
            shown = count;
    }
    arguments[count] = NULL;
    count = vt_redact_arguments(arena, arguments, count);
    shown = shown < count ? shown : count;
    trace->command = join_words(arena, arguments, shown);
    if (trace->tables->process_known) /* later the process has given itself another title */
        return 0;
    trace->argument_count = (int)count;
    trace->arguments = arguments;
    trace->working_folder = vt_redact_folder(arena, vt_arena_next_text(arena, &text, end));
    trace->executable = vt_redact_path(arena, vt_arena_next_text(arena, &text, end));
    trace->python_version = process->python_version;
    trace->tables->process_known = true;
    return 0;
}

/* The device of that index, added if it is new. */
static struct vt_trace_device *device_at(struct vt_trace *trace, uint32_t index)
{
    size_t at = 0;
    while (at < trace->device_count && trace->devices[at].index != (int)index)
        at++;
    if (at == trace->device_count) {
        const struct vt_trace_device device = {.index = (int)index, .name = ""};
        VT_APPEND(trace->devices, trace->device_count, trace->tables->device_capacity, device);
    }
    return &trace->devices[at];
}

static int add_device(struct vt_trace *trace, const void *record)
{
    const struct vt_device *device = record;
    if (device->device_index >= VT_MAX_DEVICES)
        return -EBADMSG;
    struct vt_trace_device *known = device_at(trace, device->device_index);
    known->name = vt_arena_text(&trace->tables->arena, device + 1, device->head.bytes - sizeof *device);
    known->total_bytes = device->total_bytes;
    return 0;
}

static int add_device_uuid(struct vt_trace *trace, const void *record)
{
    const struct vt_device_uuid *uuid = record;
    if (uuid->device_index >= VT_MAX_DEVICES)
        return -EBADMSG;
    struct vt_trace_device *known = device_at(trace, uuid->device_index);
    known->has_uuid = true;
    memcpy(known->uuid, uuid->uuid, sizeof known->uuid);
    return 0;
}

static int add_gpu_use(struct vt_trace *trace, const void *record)
{
    const struct vt_gpu_use *use = record;
    const struct vt_gpu_process *reported = (const struct vt_gpu_process *)(use + 1);
    struct vt_arena *arena = &trace->tables->arena;
    if (use->device_index >= VT_MAX_DEVICES || use->end_ns < use->begin_ns ||
        use->process_count > (use->head.bytes - sizeof *use) / sizeof *reported)
        return -EBADMSG;
    const char *text = (const char *)(reported + use->process_count),
               *end = (const char *)use + use->head.bytes;
    struct vt_trace_gpu_process *processes =
        vt_arena_take(arena, (use->process_count + 1) * sizeof *processes);
    for (uint32_t i = 0; i < use->process_count; i++)
        processes[i] = (struct vt_trace_gpu_process){reported[i].pid, reported[i].bytes,
                                                     vt_arena_next_text(arena, &text, end)};
    const struct vt_trace_gpu_use made = {
        .device_index = (int)use->device_index,
        .begin_ns = use->begin_ns,
        .end_ns = use->end_ns,
        .total_bytes = use->total_bytes,
        .used_bytes = use->used_bytes,
        .reserved_bytes = use->reserved_bytes,
        .flags = use->flags,
        .processes = processes,
        .process_count = use->process_count,
        .own = use->own < use->process_count ? use->own : use->process_count,
    };
    VT_APPEND(trace->gpu_uses, trace->gpu_use_count, trace->tables->gpu_use_capacity, made);
    return 0;
}

static int add_stack(struct vt_trace *trace, const void *record)
{
    const struct vt_stack *stack = record;
    size_t native_bytes = stack->native_frames * sizeof(uint64_t);
    size_t python_bytes = stack->python_frames * sizeof(struct vt_python_frame);
    if (!id_is_plausible(trace, stack->stack_id) ||
        native_bytes + python_bytes > stack->head.bytes - sizeof *stack)
        return -EBADMSG;
    reach_id(&trace->stacks, &trace->stack_count, &trace->tables->stack_capacity, stack->stack_id,
             sizeof *trace->stacks);
    const uint64_t *native = (const uint64_t *)(stack + 1);
    trace->stacks[stack->stack_id] = (struct vt_trace_stack){
        .function = stack->function,
        .label = stack->label,
        .flags = stack->flags,
        .place_id = stack->place_id,
        .native_count = stack->native_frames,
        .python_count = stack->python_frames,
        .native = native,
        .python = (const struct vt_python_frame *)(native + stack->native_frames),
        .recorded = true,
    };
    return 0;
}

static int add_code(struct vt_trace *trace, const void *record)
{
    const struct vt_code *code = record;
    struct vt_arena *arena = &trace->tables->arena;
    uint64_t needed = (uint64_t)code->file_bytes + code->name_bytes + code->line_table_bytes;
    if (!id_is_plausible(trace, code->code_id) || needed > code->head.bytes - sizeof *code)
        return -EBADMSG;
    reach_id(&trace->codes, &trace->code_count, &trace->tables->code_capacity, code->code_id,
             sizeof *trace->codes);
    const uint8_t *file = (const uint8_t *)(code + 1);
    const uint8_t *name = file + code->file_bytes;
    struct vt_trace_code *known = &trace->codes[code->code_id];
    *known = (struct vt_trace_code){
        .file = vt_redact_path(arena, vt_arena_text(arena, file, code->file_bytes)),
        .name = vt_arena_text(arena, name, code->name_bytes),
        .first_line = code->first_line,
        .python_minor = code->python_minor,
        .line_table = name + code->name_bytes,
        .line_table_bytes = code->line_table_bytes,
    };
    return 0;
}

static int add_symbol(struct vt_trace *trace, const void *record)
{
    const struct vt_symbol *symbol = record;
    const char *name = vt_arena_text(&trace->tables->arena, symbol + 1, symbol->head.bytes - sizeof *symbol);
    vt_symbol_add(trace, symbol->address, symbol->symbol_address, symbol->module_base, name);
    return 0;
}

static int add_module(struct vt_trace *trace, const void *record)
{
    struct vt_trace_tables *tables = trace->tables;
    const struct vt_module *module = record;
    uint64_t needed = (uint64_t)module->build_id_bytes + module->path_bytes;
    if (needed > module->head.bytes - sizeof *module || module->end_address < module->start_address)
        return -EBADMSG;
    const uint8_t *build_id = (const uint8_t *)(module + 1);
    const char *path = vt_arena_text(&tables->arena, build_id + module->build_id_bytes, module->path_bytes);
    struct vt_module_entry entry = {
        .base = module->base,
        .start_address = module->start_address,
        .end_address = module->end_address,
        .build_id = build_id,
        .build_id_bytes = module->build_id_bytes,
        .path = path,
    };
    VT_APPEND(tables->modules, tables->module_count, tables->module_capacity, entry);
    return 0;
}

/* By kind: the fewest bytes that a record has, and the function that takes it, which returns 0 or -EBADMSG.
 */
static const struct {
    size_t bytes;
    int (*add)(struct vt_trace *trace, const void *record);
} records[] = {
    [VT_RECORD_PROCESS] = {sizeof(struct vt_process), add_process},
    [VT_RECORD_STRING] = {sizeof(struct vt_string), add_text},
    [VT_RECORD_FUNCTION] = {sizeof(struct vt_string), add_text},
    [VT_RECORD_THREAD] = {sizeof(struct vt_string), add_text},
    [VT_RECORD_DEVICE] = {sizeof(struct vt_device), add_device},
    [VT_RECORD_STACK] = {sizeof(struct vt_stack), add_stack},
    [VT_RECORD_CODE] = {sizeof(struct vt_code), add_code},
    [VT_RECORD_SYMBOL] = {sizeof(struct vt_symbol), add_symbol},
    [VT_RECORD_MODULE] = {sizeof(struct vt_module), add_module},
    [VT_RECORD_INSPECTION] = {sizeof(struct vt_inspection_part), vt_inspection_add},
    [VT_RECORD_LAUNCH] = {sizeof(struct vt_record_head), vt_launch_add},
    [VT_RECORD_DEVICE_UUID] = {sizeof(struct vt_device_uuid), add_device_uuid},
    [VT_RECORD_PLACE] = {sizeof(struct vt_place_record), vt_place_add},
    [VT_RECORD_GPU_USE] = {sizeof(struct vt_gpu_use), add_gpu_use},
};

int vt_definition_add(struct vt_trace *trace, const struct vt_record_head *record)
{
    bool known = record->kind < sizeof records / sizeof *records && records[record->kind].add;
    if (known && record->bytes < records[record->kind].bytes)
        return -EBADMSG;
    trace->tables->definition_bytes += record->bytes;
    return known ? records[record->kind].add(trace, record) : 0; /* a later version has more kinds */
}

int vt_definitions_add(struct vt_trace *trace, const uint8_t *data, size_t bytes)
{
    int result = 0;
    size_t at = 0;
    while (bytes - at >= sizeof(struct vt_record_head)) {
        const struct vt_record_head *record = (const struct vt_record_head *)(data + at);
        if (record->bytes < sizeof *record || record->bytes > bytes - at ||
            record->bytes > RECORD_BYTES_LIMIT)
            return -EBADMSG;
        if (vt_definition_add(trace, record))
            result = -EBADMSG;
        size_t step = ((size_t)record->bytes + 7) & ~(size_t)7;
        at += step < bytes - at ? step : bytes - at;
    }
    return result;
}

static uint64_t start_address(const void *module)
{
    return ((const struct vt_module_entry *)module)->start_address;
}

void vt_definitions_finish(struct vt_trace *trace)
{
    struct vt_trace_tables *tables = trace->tables;
    vt_sort_by_key(tables->modules, tables->module_count, sizeof *tables->modules, start_address);
}

static const char *text_of(const struct vt_trace *trace, const struct vt_index *index, uint64_t id)
{
    uint32_t at = vt_index_get(index, id);
    return at == VT_INDEX_NONE ? NULL : trace->tables->texts.items[at];
}

const char *vt_trace_string(const struct vt_trace *trace, uint64_t id)
{
    return text_of(trace, &trace->tables->strings, id);
}

const char *vt_trace_function(const struct vt_trace *trace, uint16_t id)
{
    return text_of(trace, &trace->tables->functions, id);
}

const char *vt_trace_thread_name(const struct vt_trace *trace, uint32_t thread_id)
{
    const char *name = text_of(trace, &trace->tables->threads, thread_id);
    return name ? name : "";
}
