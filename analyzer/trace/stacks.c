/* Frames of stacks with names and lines, and the frame that a person would name. */
#include "trace/stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "trace/compiled_sources.h"
#include "trace/frameworks.h"
#include "trace/python_lines.h"
#include "trace/reloads.h"
#include "trace/symbols.h"
#include "trace/tables.h"

/* NULL if the trace does not have it. */
static const struct vt_trace_code *code_of(const struct vt_trace *trace, uint32_t code_id)
{
    return code_id < trace->code_count && trace->codes[code_id].file ? &trace->codes[code_id] : NULL;
}

/* Kinds of Python functions, as bits. */
enum {
    CODE_KNOWN = 1,
    CODE_LIBRARY = 2, /* not the user's */
    CODE_START = 4,   /* a process of the program's own begins in it */
    CODE_PACKAGE = 8  /* of an installed package, but no framework's */
};

static unsigned kinds_of(const struct vt_trace *trace, uint32_t code_id)
{
    struct vt_trace_tables *tables = trace->tables;
    const struct vt_trace_code *code = code_of(trace, code_id);
    if (!code)
        return CODE_KNOWN | CODE_LIBRARY;
    if (!tables->code_kinds)
        tables->code_kinds = vt_allocate_zeros(trace->code_count, 1);
    uint8_t *known = &tables->code_kinds[code_id];
    if (*known == 0) {
        const bool library = vt_is_library_file(code->file);
        *known = (uint8_t)(CODE_KNOWN | (library ? CODE_LIBRARY : 0) |
                           (library && vt_is_start(code->file, code->name) ? CODE_START : 0) |
                           (library && vt_is_package_file(code->file) ? CODE_PACKAGE : 0));
    }
    return *known;
}

bool vt_trace_code_is_library(const struct vt_trace *trace, uint32_t code_id)
{
    return kinds_of(trace, code_id) & CODE_LIBRARY;
}

int32_t vt_trace_python_line(const struct vt_trace *trace, const struct vt_python_frame *frame)
{
    struct vt_trace_tables *tables = trace->tables;
    const struct vt_trace_code *code = code_of(trace, frame->code_id);
    if (!code)
        return 0;
    uint64_t key = (uint64_t)frame->code_id << 32 | (uint32_t)frame->instruction_offset;
    uint32_t cached = vt_index_get(&tables->lines, key);
    if (cached != VT_INDEX_NONE)
        return (int32_t)cached;
    int32_t line = vt_python_line(code->python_minor, code->line_table, code->line_table_bytes,
                                  code->first_line, frame->instruction_offset);
    if (line < 0)
        line = 0;
    vt_index_put(&tables->lines, key, (uint32_t)line);
    return line;
}

void vt_trace_settle_frames(const struct vt_trace *trace)
{
    for (uint32_t id = 0; id < trace->stack_count; id++)
        for (uint32_t i = 0; i < trace->stacks[id].python_count; i++) {
            vt_trace_code_is_library(trace, trace->stacks[id].python[i].code_id);
            vt_trace_python_line(trace, &trace->stacks[id].python[i]);
        }
}

static void fill_native(const struct vt_trace *trace, uint64_t address, struct vt_frame *frame)
{
    struct vt_trace_tables *tables = trace->tables;
    struct vt_symbol_entry *entry = vt_symbol_entry(trace, address);
    *frame = (struct vt_frame){
        .kind = VT_FRAME_NATIVE, .function = "", .file = "", .module = "", .address = address};
    if (entry) {
        vt_symbol_refine(trace, entry);
        frame->function = entry->symbol.short_name;
        frame->full_function = entry->symbol.name;
        frame->module = entry->symbol.module;
        frame->file = entry->file;
        frame->line = entry->line;
    }
    if (frame->function[0] == '\0') {
        char text[24];
        int bytes = snprintf(text, sizeof text, "0x%llx", (unsigned long long)address);
        frame->function = frame->full_function = vt_arena_text(&tables->arena, text, (size_t)bytes);
        if (entry) /* once per address */
            entry->symbol.name = entry->symbol.short_name = frame->function;
    }
}

/* The user's line behind the frame's code; NULL = no compiler generated it. */
static const struct vt_compiled_line *compiled_line(const struct vt_trace *trace,
                                                    const struct vt_python_frame *python)
{
    const struct vt_trace_code *code = code_of(trace, python->code_id);
    return code ? vt_compiled_source_find(trace, code->file, vt_trace_python_line(trace, python)) : NULL;
}

static void fill_python(const struct vt_trace *trace, const struct vt_python_frame *python,
                        struct vt_frame *frame)
{
    const struct vt_trace_code *code = code_of(trace, python->code_id);
    const struct vt_compiled_line *compiled = compiled_line(trace, python);
    *frame = (struct vt_frame){.kind = VT_FRAME_PYTHON,
                               .function = compiled ? compiled->function
                                           : code   ? code->name
                                                    : "?",
                               .file = compiled ? compiled->source_file
                                       : code   ? code->file
                                                : "",
                               .line = compiled ? (int32_t)compiled->source_line
                                                : vt_trace_python_line(trace, python),
                               .module = "",
                               .address = python->self_address};
    frame->full_function = frame->function;
}

static const struct vt_trace_stack *stack_of(const struct vt_trace *trace, uint32_t stack_id)
{
    return &trace->stacks[stack_id < trace->stack_count ? stack_id : 0];
}

size_t vt_trace_frames(const struct vt_trace *trace, uint32_t stack_id, struct vt_frame *frames,
                       size_t capacity)
{
    const struct vt_trace_stack *stack = stack_of(trace, stack_id);
    size_t count = (size_t)stack->native_count + stack->python_count;
    for (size_t i = 0; i < count && i < capacity; i++) {
        if (i < stack->native_count)
            fill_native(trace, stack->native[i], &frames[i]);
        else
            fill_python(trace, &stack->python[i - stack->native_count], &frames[i]);
    }
    return count;
}

/* How likely a person would name a native frame; 0 = never. */
enum { NAMED_NEVER, NAMED_OTHER, NAMED_AUTOGRAD, NAMED_NODE, NAMED_OWN };

static unsigned rank_native(const struct vt_trace_symbol *symbol)
{
    const unsigned kinds = symbol ? vt_object_kinds(symbol->module) : 0;
    const char *name;
    if (!symbol || !symbol->module[0] || (kinds & VT_OBJECT_SYSTEM))
        return NAMED_NEVER;
    if (!(kinds & VT_OBJECT_FRAMEWORK))
        return NAMED_OWN;
    if (vt_node_name(symbol->short_name, &name) > 0)
        return NAMED_NODE;
    if (!symbol->short_name[0] || vt_is_plumbing(symbol->short_name))
        return NAMED_NEVER;
    return vt_is_autograd(symbol->short_name) ? NAMED_AUTOGRAD : NAMED_OTHER;
}

/* The innermost native frame of those that a person would most likely name. */
static uint32_t native_user_frame(const struct vt_trace *trace, const struct vt_trace_stack *stack)
{
    uint32_t found = 0;
    for (uint32_t i = 0, best = NAMED_NEVER; i < stack->native_count && best < NAMED_OWN; i++) {
        const unsigned rank = rank_native(vt_trace_symbol(trace, stack->native[i]));
        found = rank > best ? i : found;
        best = rank > best ? rank : best;
    }
    return found;
}

static void shorten_node(const struct vt_trace *trace, struct vt_frame *frame)
{
    const char *name;
    size_t bytes = vt_node_name(frame->function, &name);
    struct vt_symbol_entry *entry = bytes > 0 ? vt_symbol_entry(trace, frame->address) : NULL;
    if (!entry)
        return;
    if (!entry->node)
        entry->node = vt_arena_text(&trace->tables->arena, name, bytes);
    frame->function = entry->node;
}

/* Whether a compiler generated the frame's code from a line of the user's. */
static bool is_compiled(const struct vt_trace *trace, const struct vt_python_frame *python)
{
    const struct vt_compiled_line *line = compiled_line(trace, python);
    return line && !vt_is_library_file(line->source_file);
}

/* The innermost Python frame of the user's own code, or if `compiled` of code compiled from it; python_count
 * if there is none in this process. */
static uint32_t own_python_frame(const struct vt_trace *trace, const struct vt_trace_stack *stack,
                                 bool compiled)
{
    for (uint32_t at = 0; at < stack->python_count; at++) {
        const unsigned kinds = kinds_of(trace, stack->python[at].code_id);
        if (!(kinds & CODE_LIBRARY) || (compiled && is_compiled(trace, &stack->python[at])))
            return at;
        if (kinds & CODE_START)
            break;
    }
    return stack->python_count;
}

/* The innermost frame in this process of a library that is no framework, else the innermost of all. */
static uint32_t library_python_frame(const struct vt_trace *trace, const struct vt_trace_stack *stack)
{
    for (uint32_t at = 0; at < stack->python_count; at++) {
        const unsigned kinds = kinds_of(trace, stack->python[at].code_id);
        if (kinds & CODE_PACKAGE)
            return at;
        if (kinds & CODE_START)
            break;
    }
    return 0;
}

bool vt_trace_is_compiled(const struct vt_trace *trace, uint32_t stack_id)
{
    const struct vt_trace_stack *stack = stack_of(trace, stack_id);
    uint32_t at =
        trace->tables->compiled_count > 0 ? own_python_frame(trace, stack, true) : stack->python_count;
    return at < stack->python_count && is_compiled(trace, &stack->python[at]);
}

uint64_t vt_trace_own_line_key(const struct vt_trace *trace, uint32_t stack_id)
{
    const struct vt_trace_stack *stack = stack_of(trace, stack_id);
    const uint32_t at = own_python_frame(trace, stack, false);
    return at < stack->python_count ? vt_trace_line_key(trace, &stack->python[at]) : 0;
}

bool vt_trace_user_frame(const struct vt_trace *trace, uint32_t stack_id, struct vt_frame *frame)
{
    const struct vt_trace_stack *stack = stack_of(trace, stack_id);
    const uint32_t at = own_python_frame(trace, stack, true);
    if (stack->python_count > 0) {
        fill_python(trace, &stack->python[at < stack->python_count ? at : library_python_frame(trace, stack)],
                    frame);
    } else if (stack->native_count > 0) {
        fill_native(trace, stack->native[native_user_frame(trace, stack)], frame);
        shorten_node(trace, frame);
    }
    return stack->python_count > 0 || stack->native_count > 0;
}

/* ---- Stacks that differ only in what the recorder did not know, or in their place ---- */

/* Uses only names in the trace: the recorder knew no others. */
static bool is_named(const struct vt_trace *trace, uint64_t address, const char *beginning)
{
    uint32_t at = vt_index_get(&trace->tables->symbols, address);
    return at != VT_INDEX_NONE &&
           strncmp(trace->tables->entries[at]->symbol.linkage_name, beginning, strlen(beginning)) == 0;
}

/* How many native frames the recorder would have kept: those inside the loop. */
static uint32_t native_before_loop(const struct vt_trace *trace, const struct vt_trace_stack *stack)
{
    static const struct {
        const char *outer, *inner;
    } loops[] = {
#define VT_ENGINE_LOOP(outer, inner) {outer, inner},
#include "trace/frameworks.def"
    };
    for (uint32_t i = 1; i < stack->native_count; i++)
        for (size_t k = 0; k < sizeof loops / sizeof *loops; k++)
            if (is_named(trace, stack->native[i], loops[k].outer) &&
                is_named(trace, stack->native[i - 1], loops[k].inner))
                return i;
    return stack->native_count;
}

static uint64_t hash_stack(const struct vt_trace_stack *stack)
{
    uint64_t parts[] = {
        (uint64_t)stack->thread_id << 32 | stack->flags, (uint64_t)stack->function << 32 | stack->label,
        vt_hash_bytes(stack->native, stack->native_count * sizeof *stack->native, VT_HASH_START),
        vt_hash_bytes(stack->python, stack->python_count * sizeof *stack->python, VT_HASH_START)};
    return vt_hash_bytes(parts, sizeof parts, VT_HASH_START);
}

static bool is_same_stack(const struct vt_trace_stack *a, const struct vt_trace_stack *b)
{
    return a->thread_id == b->thread_id && a->flags == b->flags && a->function == b->function &&
           a->label == b->label && a->native_count == b->native_count && a->python_count == b->python_count &&
           !memcmp(a->native, b->native, a->native_count * sizeof *a->native) &&
           !memcmp(a->python, b->python, a->python_count * sizeof *a->python);
}

/* Sets first[id] to the first stack that is equal to this one. */
static void find_same_stacks(const struct vt_trace *trace, uint32_t *first)
{
    struct vt_index index = {0};
    for (uint32_t id = 1; id < trace->stack_count; id++) {
        const struct vt_trace_stack *stack = &trace->stacks[id];
        first[id] = id;
        if (!stack->recorded)
            continue;
        uint64_t key = hash_stack(stack);
        uint32_t other = vt_index_get(&index, key);
        if (other == VT_INDEX_NONE)
            vt_index_put(&index, key, id);
        else if (is_same_stack(stack, &trace->stacks[other]))
            first[id] = other;
    }
    vt_index_free(&index);
}

void vt_stacks_join(struct vt_trace *trace)
{
    bool any = vt_reloads_join(trace) || trace->event_places != NULL;
    for (size_t id = 1; id < trace->stack_count; id++) {
        struct vt_trace_stack *stack = &trace->stacks[id];
        uint32_t native_count = native_before_loop(trace, stack);
        any |= native_count < stack->native_count;
        stack->native_count = native_count;
    }
    if (!any)
        return;
    uint32_t *first = vt_allocate_zeros(trace->stack_count, sizeof *first);
    find_same_stacks(trace, first);
    for (size_t i = 0; i < trace->event_count; i++)
        trace->events[i].stack_id = first[trace->events[i].stack_id];
    free(first);
}
