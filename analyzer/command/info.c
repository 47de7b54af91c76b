/* info: what is in a trace, said without judging it; and the checks on our own reading of it. */
#include "command/command.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "view/json/json.h"
#include "view/text/print.h"

#define LAYERS 4
#define KINDS 256

struct counted {
    uint64_t kinds[KINDS][LAYERS];
    uint64_t layers[LAYERS];
    uint64_t file_bytes, chunk_bytes;
    uint64_t disk_bytes; /* without holes, such as the ring of a process that ended in order */
};

static void count_events(const struct vt_trace *trace, struct counted *counted)
{
    struct stat status;

    memset(counted, 0, sizeof *counted);
    for (size_t i = 0; i < trace->event_count; i++) {
        uint8_t layer = trace->events[i].layer < LAYERS ? trace->events[i].layer : 0;
        counted->kinds[trace->events[i].kind][layer]++;
        counted->layers[layer]++;
    }
    if (stat(trace->path, &status))
        return;
    counted->file_bytes = (uint64_t)status.st_size;
    counted->disk_bytes = (uint64_t)status.st_blocks * 512;
    if (counted->file_bytes > trace->header.chunks_offset)
        counted->chunk_bytes = counted->file_bytes - trace->header.chunks_offset;
}

static void put_line(FILE *out, const char *name, const char *text)
{
    fprintf(out, "%-14s", name);
    vt_put_clean(text, out);
    fputc('\n', out);
}

static const char *ended(const struct vt_trace *trace)
{
    static const char *const reasons[] = {"for no known reason", "because the disk was full",
                                          "because of a write error", "for lack of memory",
                                          "because no thread could be started"};
    static char text[128];
    const struct vt_file_header *header = &trace->header;

    if (header->state == VT_STATE_STOPPED) {
        snprintf(text, sizeof text, "no: incomplete, recording stopped before the process ended, %s",
                 reasons[header->stop_reason <= VT_STOP_NO_THREAD ? header->stop_reason : 0]);
        return text;
    }
    if (header->state == VT_STATE_RECORDING)
        return "no: incomplete, the process was killed or still runs";
    if (trace->truncated)
        return "no: incomplete, the file is damaged";
    return trace->complete ? "yes" : "no: incomplete";
}

static void put_size(FILE *out, const struct vt_file_header *header, const struct counted *counted,
                     size_t event_count)
{
    char file[32], disk[64] = "", ring[32], per_event[48] = "", text[256];

    vt_format_bytes(counted->disk_bytes, ring);
    if (counted->disk_bytes < counted->file_bytes)
        snprintf(disk, sizeof disk, ", on the disk %s", ring);
    if (event_count)
        snprintf(per_event, sizeof per_event, " (%.1f bytes per event)",
                 (double)counted->disk_bytes / (double)event_count);
    snprintf(text, sizeof text, "%s%s%s; ring of %s; format %u, written by %.31s",
             vt_format_bytes(counted->file_bytes, file), disk, per_event,
             vt_format_bytes(header->ring_slots * VT_SLOT_BYTES, ring), header->format_version,
             header->program_version[0] ? header->program_version : "an unknown version");
    put_line(out, "size", text);
}

static void print_process(FILE *out, const struct vt_trace *trace, const struct counted *counted)
{
    const struct vt_file_header *header = &trace->header;
    time_t start = (time_t)(header->start_realtime_ns / 1000000000u);
    char bytes[32], when[64] = "", text[160];
    struct tm parts;

    put_line(out, "file", trace->path);
    put_size(out, header, counted, trace->event_count);
    put_line(out, "command", trace->command ? trace->command : "");
    put_line(out, "folder", trace->working_folder ? trace->working_folder : "");
    put_line(out, "executable", trace->executable ? trace->executable : "");
    snprintf(text, sizeof text, "pid %u, parent %u, on %.63s", header->pid, header->parent_pid, header->host);
    put_line(out, "process", text);
    if (localtime_r(&start, &parts))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S %z", &parts);
    put_line(out, "began", when);
    if (trace->python_version)
        snprintf(text, sizeof text, "%u.%u.%u%s", trace->python_version >> 24,
                 trace->python_version >> 16 & 0xff, trace->python_version >> 8 & 0xff,
                 header->python_unsupported_minor ? " (not supported: its frames are not recorded)" : "");
    else
        snprintf(text, sizeof text, "none");
    put_line(out, "python", text);
    for (size_t i = 0; i < trace->device_count; i++) {
        snprintf(text, sizeof text, "%d %.100s, %s", trace->devices[i].index,
                 trace->devices[i].name[0] ? trace->devices[i].name : "unnamed",
                 trace->devices[i].total_bytes ? vt_format_bytes(trace->devices[i].total_bytes, bytes)
                                               : "size unknown");
        put_line(out, "device", text);
    }
}

struct inspections_summary {
    uint64_t failed, duration_ns, tensors;
    const char *failure; /* the first, "" = none */
};

static struct inspections_summary sum_inspections(const struct vt_trace *trace)
{
    struct inspections_summary sum = {.failure = ""};

    for (size_t i = 0; i < trace->inspection_count; i++) {
        const struct vt_inspection *inspection = &trace->inspections[i];
        sum.duration_ns += inspection->duration_ns;
        sum.tensors += inspection->tensor_count;
        sum.failed += inspection->failure[0] != '\0';
        sum.failure = sum.failure[0] ? sum.failure : inspection->failure;
    }
    return sum;
}

/* Looks at live objects, which gave names. */
static void put_inspections(FILE *out, const struct vt_loaded *loaded)
{
    const struct vt_trace *trace = loaded->trace;
    const struct vt_inspection_counts *counts = &loaded->attribution->inspection_counts;
    struct inspections_summary sum = sum_inspections(trace);
    char duration[32], a[32], text[512];
    int used;

    if (!trace->inspection_count && !trace->lost_inspections) {
        put_line(out, "looks", "none");
        return;
    }
    vt_format_duration(sum.duration_ns, duration);
    used =
        snprintf(text, sizeof text, "%zu in %s, %" PRIu64 " not whole%s%.200s, %" PRIu64 " lost; %s tensors",
                 trace->inspection_count, duration, sum.failed, sum.failure[0] ? ": " : "", sum.failure,
                 trace->lost_inspections, vt_format_count(counts->tensors, a));
    if (counts->homeless)
        used +=
            snprintf(text + used, sizeof text - (size_t)used, ", %" PRIu64 " in no block", counts->homeless);
    if (counts->misplaced)
        snprintf(text + used, sizeof text - (size_t)used, ", %" PRIu64 " that fit no block",
                 counts->misplaced);
    put_line(out, "looks", text);
}

static void add_inspections(cJSON *root, const struct vt_loaded *loaded)
{
    const struct vt_trace *trace = loaded->trace;
    const struct vt_inspection_counts *counts = &loaded->attribution->inspection_counts;
    struct inspections_summary sum = sum_inspections(trace);
    cJSON *object = vt_json_object(root, "looks");

    vt_json_number(object, "count", trace->inspection_count);
    vt_json_number(object, "duration_ns", sum.duration_ns);
    vt_json_number(object, "failed", sum.failed);
    vt_json_text(object, "failure", sum.failure);
    vt_json_number(object, "lost", trace->lost_inspections);
    vt_json_number(object, "tensors", counts->tensors);
    vt_json_number(object, "homeless", counts->homeless);
    vt_json_number(object, "misplaced", counts->misplaced);
}

static void print_counts(FILE *out, const struct vt_loaded *loaded, const struct counted *counted)
{
    const struct vt_trace *trace = loaded->trace;
    const struct vt_replay *replay = loaded->replay;
    char a[32], b[32], text[160];

    put_line(out, "complete", ended(trace));
    snprintf(text, sizeof text, "%s events and %s definitions dropped, %s of chunks unreadable",
             vt_format_count(trace->header.dropped, a), vt_format_count(trace->header.dropped_definitions, b),
             trace->damaged_bytes ? "some bytes" : "none");
    if (trace->damaged_bytes)
        snprintf(text, sizeof text,
                 "%s events and %s definitions dropped, %" PRIu64 " bytes of chunks unreadable", a, b,
                 trace->damaged_bytes);
    put_line(out, "lost", text);
    snprintf(text, sizeof text, "%s events, %s records unfinished, %" PRIu64 " stacks missing",
             vt_format_count(trace->ring_events, a), vt_format_count(trace->unfinished_records, b),
             trace->missing_stacks);
    put_line(out, "from the ring", text);
    if (trace->header.after_end) {
        snprintf(text, sizeof text, "%s events came once recording had %s, and are not here",
                 vt_format_count(trace->header.after_end, a),
                 trace->header.state == VT_STATE_STOPPED ? "stopped" : "ended");
        put_line(out, "after the end", text);
    }
    if (trace->header.without_stack) {
        snprintf(text, sizeof text, "%s events: more different stacks came than are kept",
                 vt_format_count(trace->header.without_stack, a));
        put_line(out, "without stack", text);
    }
    snprintf(text, sizeof text,
             "%" PRIu64 " unknown frees, %" PRIu64 " doubled allocations, %" PRIu64 " totals that differ",
             replay->unknown_frees, replay->doubled_allocations, replay->total_mismatches);
    put_line(out, "disagreements", text);
    put_inspections(out, loaded);
    snprintf(text, sizeof text, "%u", loaded->attribution->step_count);
    put_line(out, "steps", text);
    fprintf(out, "%-14s%s\n", "events", vt_format_count(trace->event_count, a));
    if (!trace->event_count)
        return;
    fprintf(out, "\n%-18s%12s%12s%12s%12s\n", "", "driver", "runtime", "framework", "other");
    for (int kind = 0; kind < KINDS; kind++) {
        const uint64_t *layers = counted->kinds[kind];
        if (layers[0] + layers[1] + layers[2] + layers[3])
            fprintf(out, "  %-16s%12" PRIu64 "%12" PRIu64 "%12" PRIu64 "%12" PRIu64 "\n",
                    vt_event_kind_name((uint8_t)kind), layers[VT_LAYER_DRIVER], layers[VT_LAYER_RUNTIME],
                    layers[VT_LAYER_FRAMEWORK], layers[VT_LAYER_NONE]);
    }
}

static void add_layers(cJSON *object, const uint64_t layers[LAYERS])
{
    for (int i = 0; i < LAYERS; i++)
        if (layers[i])
            vt_json_number(object, vt_layer_name((uint8_t)i), layers[i]);
}

static int print_json(FILE *out, const struct vt_loaded *loaded, const struct counted *counted, bool compact)
{
    const struct vt_trace *trace = loaded->trace;
    cJSON *root = vt_json_begin("vramtrace.info/1"), *object, *array;

    object = vt_json_object(root, "trace");
    vt_json_trace(object, trace);
    vt_json_number(object, "file_bytes", counted->file_bytes);
    vt_json_number(object, "chunk_bytes", counted->chunk_bytes);
    vt_json_number(object, "disk_bytes", counted->disk_bytes);
    vt_json_number(object, "format_version", trace->header.format_version);
    vt_json_text(object, "program_version", trace->header.program_version);
    vt_json_text(object, "host", trace->header.host);
    vt_json_number(object, "parent_pid", trace->header.parent_pid);
    vt_json_number(object, "stop_reason", trace->header.stop_reason);
    vt_json_text(object, "working_folder", trace->working_folder ? trace->working_folder : "");
    vt_json_text(object, "executable", trace->executable ? trace->executable : "");
    vt_json_number(object, "python_version", trace->python_version);
    vt_json_number(object, "python_unsupported_minor", trace->header.python_unsupported_minor);
    array = vt_json_array(root, "devices");
    for (size_t i = 0; i < trace->device_count; i++) {
        cJSON *device = vt_json_item();
        vt_json_integer(device, "index", trace->devices[i].index);
        vt_json_text(device, "name", trace->devices[i].name);
        vt_json_number(device, "total_bytes", trace->devices[i].total_bytes);
        vt_json_append(array, device);
    }
    object = vt_json_object(root, "counts");
    add_layers(vt_json_object(object, "layers"), counted->layers);
    object = vt_json_object(object, "kinds");
    for (int kind = 0; kind < KINDS; kind++) {
        const uint64_t *layers = counted->kinds[kind];
        if (layers[0] + layers[1] + layers[2] + layers[3])
            add_layers(vt_json_object(object, vt_event_kind_name((uint8_t)kind)), layers);
    }
    object = vt_json_object(root, "disagreements");
    vt_json_number(object, "unknown_frees", loaded->replay->unknown_frees);
    vt_json_number(object, "doubled_allocations", loaded->replay->doubled_allocations);
    vt_json_number(object, "total_mismatches", loaded->replay->total_mismatches);
    add_inspections(root, loaded);
    vt_json_number(root, "steps", loaded->attribution->step_count);
    return vt_json_end(root, 0, compact, out);
}

struct verification {
    const struct vt_command *command;
    const struct vt_trace *trace;
    int device_index;
    uint64_t breaches;
};

/* At an event, or of the trace as a whole (VT_NEVER). */
static void say_breach(void *context, uint32_t event_index, const char *what)
{
    struct verification *verification = context;
    char event[64] = "";

    if (++verification->breaches > 10)
        return;
    if (event_index != VT_NEVER)
        snprintf(event, sizeof event, "event %" PRIu32 " (%s), ", event_index,
                 vt_event_kind_name(verification->trace->events[event_index].kind));
    vt_say(verification->command, "%s: %sdevice %d: %s", verification->trace->path, event,
           verification->device_index, what);
}

static int verify(const struct vt_command *command, const struct vt_loaded *loaded, struct vt_output *output)
{
    struct verification verification = {.command = command, .trace = loaded->trace};
    struct vt_category_check check = {.breach = say_breach, .context = &verification};
    char count[32], wrong[256];

    for (int i = 0; i < loaded->replay->device_count; i++) {
        int result = vt_replay_verify(loaded->replay, i, wrong, sizeof wrong);

        verification.device_index = i;
        if (result == -EINVAL) {
            say_breach(&verification, VT_NEVER, wrong);
        } else if (result) {
            vt_say(command, "%s: %s", loaded->trace->path, strerror(-result));
            return VT_EXIT_UNREADABLE;
        }
        vt_category_verify(loaded->attribution, i, &check);
    }
    vt_put_clean(loaded->trace->path, output->stream);
    fprintf(output->stream,
            ": %s events checked, %" PRIu64 " breaches: the categories %s to the driver's bytes%s\n",
            vt_format_count(check.events, count), verification.breaches,
            check.breaches ? "do not sum" : "sum", check.breaches ? "" : " at every one");
    return verification.breaches ? VT_EXIT_CHECK_FAILED : VT_EXIT_GOOD;
}

static int print_events(FILE *out, const struct vt_trace *trace, const struct vt_arguments *arguments)
{
    int result = 0;

    for (uint32_t i = 0; !result && i < trace->event_count; i++)
        result = arguments->json ? vt_view_event_json(trace, i, arguments->stacks, out)
                                 : vt_view_event_text(trace, i, arguments->stacks, out);
    return result;
}

static int info_one(const struct vt_command *command, const struct vt_arguments *arguments, const char *path,
                    struct vt_output *output)
{
    static struct counted counted;
    struct vt_loaded loaded;
    int result = vt_load(command, arguments, path, &loaded);

    if (result)
        return result;
    if (arguments->verify) {
        result = verify(command, &loaded, output);
    } else if (arguments->events) {
        result = vt_written(command, output, print_events(output->stream, loaded.trace, arguments));
    } else {
        count_events(loaded.trace, &counted);
        if (arguments->json) {
            result = print_json(output->stream, &loaded, &counted, arguments->operand_count > 1);
        } else {
            print_process(output->stream, loaded.trace, &counted);
            print_counts(output->stream, &loaded, &counted);
        }
        result = vt_written(command, output, result);
    }
    vt_unload(&loaded);
    return result;
}

int vt_command_info(const struct vt_command *command, struct vt_arguments *arguments,
                    struct vt_output *output)
{
    int worst = 0;

    for (int i = 0; i < arguments->operand_count && !output->broken; i++) {
        int result;

        if (i && !arguments->json && !arguments->verify && !arguments->events)
            fputc('\n', output->stream);
        result = info_one(command, arguments, arguments->operands[i], output);
        worst = result > worst ? result : worst;
    }
    return worst;
}
