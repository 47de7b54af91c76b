/* Opens a trace: the header, then the records (records.c), then what follows from all of them. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allocate.h"
#include "base/format.h"
#include "base/read_at.h"
#include "trace/chunks.h"
#include "trace/debug_info.h"
#include "trace/definitions.h"
#include "trace/inspections.h"
#include "trace/places.h"
#include "trace/records.h"
#include "trace/redact.h"
#include "trace/stacks.h"
#include "trace/tables.h"

#define RING_BYTES_LIMIT (UINT64_C(1) << 30)
/* The process may end while we read, or another process adopt its ring. */
#define LIVE_TRIES 20

struct message {
    char *text;
    size_t bytes;
    const char *path;
};

__attribute__((format(printf, 3, 4))) static int fail(const struct message *message, int error,
                                                      const char *format, ...)
{
    char why[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    if (message->bytes > 0)
        snprintf(message->text, message->bytes, "%s: %s", message->path, why);
    return error;
}

static int check_header(const struct vt_file_header *header, const struct message *message)
{
    if (memcmp(header->magic, VT_MAGIC, sizeof header->magic) != 0)
        return fail(message, -EBADMSG, "not a vramtrace trace (record one with: vramtrace run COMMAND)");
    if (header->format_version < VT_FORMAT_VERSION || !(header->feature_bits & VT_FEATURE_EVENT_THREADS)) {
        const size_t known_bytes =
            strspn(header->program_version, "0123456789abcdefghijklmnopqrstuvwxyz.+~-");
        return fail(
            message, -EPROTO,
            "written%s%.*s in format %u, and this vramtrace reads format %u: read it with the version that "
            "wrote it, or record it again",
            known_bytes ? " by vramtrace " : "", (int)known_bytes, header->program_version,
            header->format_version, VT_FORMAT_VERSION);
    }
    if (header->minimum_readable > VT_FORMAT_VERSION)
        return fail(message, -EPROTO, "written in format %u, this vramtrace reads up to %u: use a newer one",
                    header->format_version, VT_FORMAT_VERSION);
    const uint64_t known = VT_FEATURE_EVENT_THREADS | VT_FEATURE_FLIGHT;
    const uint64_t unknown_features = header->feature_bits & UINT32_MAX & ~known;
    if (unknown_features)
        return fail(message, -EPROTO,
                    "uses format features (0x%llx) that this vramtrace does not know: use a newer one",
                    (unsigned long long)unknown_features);
    if (header->header_bytes < sizeof *header || header->slot_bytes != VT_SLOT_BYTES)
        return fail(message, -EBADMSG, "damaged header (%u bytes, slots of %u bytes); copy it again",
                    header->header_bytes, header->slot_bytes);
    uint64_t slots = header->ring_slots;
    if (slots == 0 || (slots & (slots - 1)) || slots > RING_BYTES_LIMIT / VT_SLOT_BYTES)
        return fail(message, -EBADMSG, "damaged header (a ring of %llu slots); copy it again",
                    (unsigned long long)slots);
    if (header->chunks_offset < sizeof *header || header->chunks_offset > INT64_MAX ||
        header->chunks_end > INT64_MAX)
        return fail(message, -EBADMSG, "damaged header (chunks from %llu to %llu); copy it again",
                    (unsigned long long)header->chunks_offset, (unsigned long long)header->chunks_end);
    return 0;
}

/* True for a file of zeros, or without any byte. */
static bool is_empty(int file)
{
    char bytes[65536];
    off_t offset = 0;
    struct stat status;
    if (fstat(file, &status) || status.st_size > (off_t)(VT_HEADER_BYTES + RING_BYTES_LIMIT))
        return false; /* longer than any file that got its space and nothing else */
    for (ssize_t got; (got = pread(file, bytes, sizeof bytes, offset)) != 0; offset += got) {
        if (got < 0)
            return false;
        for (ssize_t i = 0; i < got; i++)
            if (bytes[i])
                return false;
    }
    return true;
}

static int read_header(struct vt_trace *trace, int file, const struct message *message)
{
    struct vt_file_header *header = &trace->header;
    int error = vt_read_at(file, header, sizeof *header, 0);
    if ((!error || error == -EBADMSG) && !header->magic[0] && is_empty(file)) {
        snprintf(message->text, message->bytes, "%s is empty: the process ended before anything was recorded",
                 message->path);
        return -ENODATA;
    }
    if (error == -EBADMSG && !memcmp(header->magic, VT_MAGIC, sizeof header->magic))
        return fail(message, error, "cut off within its header; copy it again");
    if (error == -EBADMSG)
        return fail(message, error,
                    "too short to be a vramtrace trace (record one with: vramtrace run COMMAND)");
    if (error)
        return fail(message, error, "%s", strerror(-error));
    if (header->end_signal)
        vt_format_end(header->end_signal, trace->end_text);
    header->host[sizeof header->host - 1] = '\0';
    vt_redact_host(header->host, sizeof header->host);
    header->ring_path[sizeof header->ring_path - 1] = '\0';
    header->program_version[sizeof header->program_version - 1] = '\0';
    return check_header(header, message);
}

static bool is_rare(const struct vt_event *event)
{
    return event->kind != VT_EVENT_ALLOC && event->kind != VT_EVENT_FREE && event->kind != VT_EVENT_NODE;
}

/* Brings stack ids and device numbers into range, so that they are safe indices. Lists the rare events. */
static void settle_events(struct vt_trace *trace)
{
    const struct vt_event *pause = NULL;
    for (size_t i = 0; i < trace->event_count; i++) {
        struct vt_event *event = &trace->events[i];
        if (event->stack_id >= trace->stack_count ||
            (event->stack_id && !trace->stacks[event->stack_id].recorded)) {
            trace->missing_stacks++;
            event->stack_id = 0;
        }
        trace->gap_refusals += event->head_start && event->kind == VT_EVENT_OOM;
        if (event->device_index < -1 || event->device_index >= (int)VT_MAX_DEVICES)
            event->device_index = -1;
        if (is_rare(event))
            VT_APPEND(trace->rare_events, trace->rare_event_count, trace->tables->rare_event_capacity,
                      (uint32_t)i);
        if (event->kind == VT_EVENT_PAUSE && !pause)
            pause = event;
        if (pause && (event->kind == VT_EVENT_RESUME || i + 1 == trace->event_count)) {
            const size_t begun = (size_t)(pause - trace->events);
            trace->paused_events +=
                trace->event_numbers ? trace->event_numbers[i] - trace->event_numbers[begun] : i - begun;
            trace->paused_ns += event->t_ns > pause->t_ns ? event->t_ns - pause->t_ns : 0;
            pause = NULL;
        }
    }
}

/* Gives each stack one thread: phases and autograd's engines belong to threads. A stack of several threads
 * gets a copy for each; the copies share the frames. */
static void split_by_thread(struct vt_trace *trace)
{
    struct vt_index known = {0}; /* (thread, stack) → stack of that thread */
    for (size_t i = 0; i < trace->event_count; i++) {
        struct vt_event *event = &trace->events[i];
        const uint64_t key = (uint64_t)event->thread_id << 32 | event->stack_id;
        struct vt_trace_stack *stack = &trace->stacks[event->stack_id];
        if (event->stack_id && !stack->thread_id) {
            stack->thread_id = event->thread_id; /* that of its first event */
            vt_index_put(&known, key, event->stack_id);
        } else if (event->stack_id && stack->thread_id != event->thread_id) {
            uint32_t own = vt_index_get(&known, key);
            if (own == VT_INDEX_NONE) {
                own = (uint32_t)trace->stack_count;
                struct vt_trace_stack copy = *stack;
                copy.thread_id = event->thread_id;
                VT_APPEND(trace->stacks, trace->stack_count, trace->tables->stack_capacity, copy);
                vt_index_put(&known, key, own);
            }
            event->stack_id = own;
        }
    }
    vt_index_free(&known);
}

static struct vt_trace *new_trace(const char *path)
{
    struct vt_trace *trace = vt_allocate_zeros(1, sizeof *trace);
    static const char *no_arguments[1];
    trace->tables = vt_allocate_zeros(1, sizeof *trace->tables);
    trace->arguments = no_arguments;
    trace->command = trace->working_folder = trace->executable = trace->group_store = "";
    trace->group_rank = trace->group_size = -1;
    trace->path = vt_copy_text(path);
    trace->stacks = vt_allocate_zeros(1, sizeof *trace->stacks); /* 0 = the empty stack */
    trace->codes = vt_allocate_zeros(1, sizeof *trace->codes);
    trace->stack_count = trace->tables->stack_capacity = 1;
    trace->code_count = trace->tables->code_capacity = 1;
    return trace;
}

/* Reads chains whole as far as the budget goes, and the digests of the others. */
static int read_events(struct vt_trace *trace, int file, const struct vt_reading *reading)
{
    struct vt_trace_tables *tables = trace->tables;
    struct vt_reading_plan plan = {0};
    tables->head_only = reading && reading->head_only;
    tables->raw.reader.trace = trace;
    tables->plan = &plan;
    if (!tables->head_only) {
        vt_plan_find(&plan, file, &trace->header);
        vt_plan_choose(&plan, reading ? reading->budget_events : UINT64_MAX, reading ? reading->asked : NULL,
                       reading ? reading->asked_count : 0);
    }
    int error = vt_records_read(trace, file);
    trace->recorded_events = tables->raw.reader.number;
    trace->window_count = trace->gap_count + 1;
    trace->leaves_out = plan.leaves_out;
    if (plan.in_part) {
        trace->digest_kinds = vt_allocate_zeros(VT_DIGEST_KINDS, sizeof *trace->digest_kinds);
        vt_plan_count_kinds(&plan, file, trace->digest_kinds);
    }
    tables->plan = NULL;
    vt_plan_free(&plan);
    free(tables->raw.items);
    tables->raw = (struct vt_raw_events){0};
    return error;
}

static int read_once(const char *path, int file, const struct vt_reading *reading, struct vt_trace **made,
                     const struct message *message)
{
    struct stat status;
    if (fstat(file, &status) < 0)
        return fail(message, -errno, "%s", strerror(errno));
    if (!S_ISREG(status.st_mode))
        return fail(message, -EBADMSG, "not a regular file; give the path of a trace (.vrt)");
    struct vt_trace *trace = *made = new_trace(path);
    int error = read_header(trace, file, message);
    if (error)
        return error;
    error = read_events(trace, file, reading);
    if (error)
        return fail(message, error, "%s",
                    error == -E2BIG ? "too many events (over 4,294,967,294); record with --mode flight"
                                    : strerror(-error));
    vt_definitions_finish(trace);
    settle_events(trace);
    vt_places_settle(trace);
    split_by_thread(trace);
    vt_stacks_join(trace);
    vt_inspections_read(trace);
    trace->complete =
        trace->header.state == VT_STATE_COMPLETE && !trace->truncated && trace->unfinished_records == 0;
    return 0;
}

int vt_trace_open(const char *path, const struct vt_reading *reading, struct vt_trace **trace,
                  char *error_text, size_t error_bytes)
{
    struct message message = {.text = error_text, .bytes = error_bytes, .path = path};
    *trace = NULL;
    /* O_NONBLOCK: opening a FIFO must not hang */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return fail(&message, -errno, "%s", strerror(errno));
    int error = 0;
    bool moved = true;
    for (int tries = 0; tries < LIVE_TRIES; tries++) {
        struct vt_file_header after;
        vt_trace_close(*trace);
        *trace = NULL;
        error = read_once(path, file, reading, trace, &message);
        if (!*trace || vt_read_at(file, &after, sizeof after, 0)) {
            moved = false;
            break;
        }
        const struct vt_file_header *before = &(*trace)->header;
        moved = after.moves != before->moves || after.chunks_offset != before->chunks_offset;
        if (!moved && (error || before->state != VT_STATE_RECORDING || after.state == VT_STATE_RECORDING))
            break;
    }
    if (moved)
        error = fail(&message, -EAGAIN,
                     "it is being rewritten (flight mode): take a copy with vramtrace ctl %u snapshot",
                     (*trace)->header.pid);
    close(file);
    if (error) {
        vt_trace_close(*trace);
        *trace = NULL;
    }
    return error;
}

void vt_trace_close(struct vt_trace *trace)
{
    if (!trace)
        return;
    struct vt_trace_tables *tables = trace->tables;
    for (size_t i = 0; i < tables->module_count; i++)
        vt_debug_close(tables->modules[i].debug);
    free(tables->modules);
    free(tables->inspection_parts);
    vt_strings_free(&tables->texts);
    free(tables->entries);
    free(tables->code_kinds);
    free(tables->compiled);
    vt_index_free(&tables->places);
    vt_index_free(&tables->strings);
    vt_index_free(&tables->functions);
    vt_index_free(&tables->symbols);
    vt_index_free(&tables->threads);
    vt_index_free(&tables->lines);
    vt_arena_free(&tables->arena);
    free(tables);
    free(trace->events);
    free(trace->rare_events);
    free(trace->event_numbers);
    free(trace->gaps);
    vt_index_free(&trace->node_stacks);
    free(trace->digest_kinds);
    free(trace->stacks);
    free(trace->codes);
    free(trace->devices);
    free(trace->places);
    free(trace->event_places);
    free(trace->settings);
    free(trace->gpu_uses);
    for (size_t i = 0; i < trace->inspection_count; i++) {
        free(trace->inspections[i].modules);
        free(trace->inspections[i].tensors);
        free(trace->inspections[i].holders);
    }
    free(trace->inspections);
    free(trace->roots);
    free(trace->optimizers);
    free(trace->path);
    free(trace);
}
