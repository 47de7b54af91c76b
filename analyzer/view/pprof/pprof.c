/* pprof's profile.proto, compressed: what is alive as samples of two values, with labels. */
#include "view/samples.h"

#include <errno.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "profile.pb-c.h"
#include "report/places.h"
#include "base/memory_stream.h"
#include "base/strings.h"

#define LEVEL 6
#define LABELS 10

/* Where a stack has a frame: at its inner end, among those between an operator and the allocator, or not. */
enum { INNER = 1, OUTER = 2 };

struct writer {
    const struct vt_export *export;
    struct vt_stack_list stacks;
    struct vt_sample_list samples;
    struct vt_strings strings;
    struct vt_arena arena; /* of all messages */
    Pprof__Profile profile;
    /* Messages of the profile by their id, from 1 on. */
    size_t sample_capacity, mapping_capacity, location_capacity, function_capacity;
    uint64_t *locations;                     /* by frame id: of the frame, 0 = none yet */
    uint8_t *places;                         /* by frame id: where stacks have it, INNER and OUTER */
    uint64_t of_category[VT_CATEGORY_COUNT]; /* of what has no stack */
    struct vt_index mappings, functions;     /* number of the file name, of name and file → id */
};

/* ---- Parts ---- */

static void *take_memory(struct writer *writer, size_t bytes)
{
    return vt_arena_take(&writer->arena, bytes);
}

static int64_t text_number(struct writer *writer, const char *string)
{
    return vt_strings_find(&writer->strings, string, NULL);
}

/* Appends a new message to a list of the profile. */
#define ADD(writer, type, init, list, capacity)                                                              \
    ((type *)add_message(writer, &(type)init, sizeof(type), &(writer)->profile.list,                         \
                         &(writer)->profile.n_##list, &(writer)->capacity))

static void *add_message(struct writer *writer, const void *initial, size_t bytes, void *list, size_t *count,
                         size_t *capacity)
{
    void *message = take_memory(writer, bytes);

    vt_reserve(list, capacity, *count + 1, sizeof message);
    (*(void ***)list)[(*count)++] = memcpy(message, initial, bytes);
    return message;
}

static uint64_t mapping_of(struct writer *writer, const char *path)
{
    int64_t name = text_number(writer, path);
    uint32_t known = vt_index_get(&writer->mappings, (uint64_t)name);
    Pprof__Mapping *mapping;

    if (known != VT_INDEX_NONE)
        return known;
    mapping = ADD(writer, Pprof__Mapping, PPROF__MAPPING__INIT, mapping, mapping_capacity);
    mapping->id = writer->profile.n_mapping;
    mapping->filename = name;
    /* so that nobody looks for symbols again */
    mapping->has_functions = mapping->has_filenames = mapping->has_line_numbers = true;
    vt_index_put(&writer->mappings, (uint64_t)name, (uint32_t)mapping->id);
    return mapping->id;
}

static uint64_t function_of(struct writer *writer, const char *name, const char *full, const char *file)
{
    /* pprof takes a name that is the system's for C++, and cuts "<module>" from it */
    int64_t numbers[] = {text_number(writer, name), text_number(writer, strcmp(name, full) ? full : ""),
                         text_number(writer, file)};
    Pprof__Function *function;
    uint64_t key = vt_hash_bytes(numbers, sizeof numbers, VT_HASH_START);

    for (uint32_t known; (known = vt_index_get(&writer->functions, key)) != VT_INDEX_NONE; key++) {
        function = writer->profile.function[known - 1];
        if (function->name == numbers[0] && function->system_name == numbers[1] &&
            function->filename == numbers[2])
            return known;
    }
    function = ADD(writer, Pprof__Function, PPROF__FUNCTION__INIT, function, function_capacity);
    function->id = writer->profile.n_function;
    function->name = numbers[0];
    function->system_name = numbers[1];
    function->filename = numbers[2];
    vt_index_put(&writer->functions, key, (uint32_t)function->id);
    return function->id;
}

static uint64_t add_location(struct writer *writer, uint64_t mapping_id, uint64_t address,
                             uint64_t function_id, int32_t line_number)
{
    Pprof__Location *location =
        ADD(writer, Pprof__Location, PPROF__LOCATION__INIT, location, location_capacity);
    Pprof__Line *line = take_memory(writer, sizeof *line), **lines = take_memory(writer, sizeof *lines);

    *line = (Pprof__Line)PPROF__LINE__INIT;
    line->function_id = function_id;
    line->line = line_number;
    lines[0] = line;
    location->id = writer->profile.n_location;
    location->mapping_id = mapping_id;
    location->address = address;
    location->line = lines;
    location->n_line = 1;
    return location->id;
}

/* Python code belongs to the program: mapping 1. */
static uint64_t location_of(struct writer *writer, uint32_t frame_id)
{
    const struct vt_frame *frame = &writer->stacks.frames[frame_id].frame;
    bool native = frame->kind == VT_FRAME_NATIVE;

    if (!writer->locations[frame_id])
        writer->locations[frame_id] = add_location(
            writer, native && frame->module[0] ? mapping_of(writer, frame->module) : 1,
            native ? frame->address : 0,
            function_of(writer, frame->function, frame->full_function, frame->file), frame->line);
    return writer->locations[frame_id];
}

/* "[cached]": pprof does not show samples without any location. */
static uint64_t location_of_category(struct writer *writer, unsigned category)
{
    char name[64];

    snprintf(name, sizeof name, "[%s]", vt_category_name(category));
    if (!writer->of_category[category])
        writer->of_category[category] = add_location(writer, 1, 0, function_of(writer, name, name, ""), 0);
    return writer->of_category[category];
}

/* ---- Samples ---- */

static void add_labels(struct writer *writer, const struct vt_sample *from, Pprof__Sample *sample)
{
    char device[32];
    const struct {
        const char *key, *value;
    } labels[LABELS] = {
        {"device", device},
        {"category", vt_category_name(from->category)},
        {"evidence", from->evidence < VT_EVIDENCE_COUNT ? vt_evidence_name(from->evidence) : NULL},
        {"kind", from->kind},
        {"phase", from->phase < VT_PHASE_COUNT ? vt_phase_name(from->phase) : NULL},
        {"owner", from->owner},
        {"module", from->module},
        {"class", from->module_class},
        {"operator", from->operator_name},
        {"dtype", from->dtype},
    };

    snprintf(device, sizeof device, "GPU %d", from->device_index);
    sample->label = take_memory(writer, (LABELS + 1) * sizeof *sample->label);
    for (size_t i = 0; i <= LABELS; i++) {
        bool is_step = i == LABELS;
        Pprof__Label *label;

        if (is_step ? !from->count : !labels[i].value || !labels[i].value[0])
            continue;
        label = take_memory(writer, sizeof *label);
        *label = (Pprof__Label)PPROF__LABEL__INIT;
        label->key = text_number(writer, is_step ? "step" : labels[i].key);
        if (is_step)
            label->num = from->step;
        else
            label->str = text_number(writer, labels[i].value);
        sample->label[sample->n_label++] = label;
    }
}

static void add_sample(struct writer *writer, const struct vt_sample *from)
{
    uint32_t ids[VT_CHAIN_FRAMES];
    size_t count = vt_stack_chain(&writer->stacks, from->stack_id, from->forward_stack_id, ids);
    Pprof__Sample *sample = ADD(writer, Pprof__Sample, PPROF__SAMPLE__INIT, sample, sample_capacity);
    uint64_t *locations = take_memory(writer, (count + 1) * sizeof *locations);
    int64_t *values = take_memory(writer, 2 * sizeof *values);
    bool inner = true;

    for (size_t i = 0; i < count; i++) {
        locations[i] = location_of(writer, ids[i]);
        inner = inner && vt_frame_is_plumbing(&writer->stacks.frames[ids[i]].frame);
        writer->places[ids[i]] |= inner ? INNER : OUTER;
    }
    if (!count)
        locations[count++] = location_of_category(writer, from->category);
    values[0] = (int64_t)from->count;
    values[1] = (int64_t)from->bytes;
    sample->location_id = locations;
    sample->n_location_id = count;
    sample->value = values;
    sample->n_value = 2;
    add_labels(writer, from, sample);
}

/* ---- Frames between an operator and the allocator ---- */

/* Names as pprof matches them: without what follows the first bracket. */
static void put_pattern(const char *name, FILE *out)
{
    for (; *name && *name != '('; name++) {
        if (strchr("\\.+*?()|[]{}^$", *name))
            fputc('\\', out);
        fputc(*name, out);
    }
}

/* pprof leaves out a function with all that it calls: only those that no other stack has further out. */
static void set_dropped(struct writer *writer)
{
    Pprof__Profile *profile = &writer->profile;
    uint8_t *places = vt_allocate_zeros(profile->n_function + 1, 1); /* by id of the function */
    char *pattern;
    size_t bytes, count = 0;
    FILE *out = vt_memory_stream(&pattern, &bytes);

    for (size_t i = 0; i < writer->stacks.frame_count; i++)
        if (writer->places[i])
            places[profile->location[writer->locations[i] - 1]->line[0]->function_id] |= writer->places[i];
    for (size_t i = 0; i < profile->n_function; i++)
        if (places[i + 1] == INNER) {
            fputs(count++ ? "|" : "", out);
            put_pattern(writer->strings.items[profile->function[i]->name], out);
        }
    fclose(out);
    profile->drop_frames = text_number(writer, pattern);
    free(pattern);
    free(places);
}

/* ---- The file ---- */

static Pprof__ValueType *value_type(struct writer *writer, const char *type, const char *unit)
{
    Pprof__ValueType *value = take_memory(writer, sizeof *value);

    *value = (Pprof__ValueType)PPROF__VALUE_TYPE__INIT;
    value->type = text_number(writer, type);
    value->unit = text_number(writer, unit);
    return value;
}

static void set_header(struct writer *writer)
{
    const struct vt_report *report = writer->export->report;
    Pprof__Profile *profile = &writer->profile;
    char moment[sizeof report->at_label + 64];

    snprintf(moment, sizeof moment, "vramtrace: GPU memory in use at %s",
             report->has_at ? report->at_label : "the peak of each device");
    profile->sample_type = take_memory(writer, 2 * sizeof *profile->sample_type);
    profile->comment = take_memory(writer, 2 * sizeof *profile->comment);
    text_number(writer, "");
    profile->sample_type[0] = value_type(writer, "inuse_objects", "count");
    profile->sample_type[1] = value_type(writer, "inuse_space", "bytes");
    profile->n_sample_type = 2;
    profile->default_sample_type = text_number(writer, "inuse_space");
    profile->period_type = value_type(writer, "space", "bytes");
    profile->period = 1;
    profile->comment[0] = text_number(writer, moment);
    profile->comment[1] = text_number(writer, report->facts.command);
    profile->n_comment = 2;
    profile->time_nanos = (int64_t)report->facts.start_realtime_ns;
    if (report->device_count)
        profile->time_nanos =
            (int64_t)(report->facts.start_realtime_ns + report->devices[0].shown->state.t_ns);
    mapping_of(writer, report->facts.argument_count ? report->facts.arguments[0] : report->facts.command);
}

static int put_compressed(const struct writer *writer)
{
    size_t bytes = pprof__profile__get_packed_size(&writer->profile), packed_bytes;
    struct libdeflate_compressor *compressor = libdeflate_alloc_compressor(LEVEL);
    uint8_t *plain = vt_allocate(bytes), *packed;
    size_t bound;

    if (!compressor)
        vt_end_out_of_memory();
    bound = libdeflate_gzip_compress_bound(compressor, bytes);
    packed = vt_allocate(bound);
    pprof__profile__pack(&writer->profile, plain);
    packed_bytes = libdeflate_gzip_compress(compressor, plain, bytes, packed, bound);
    fwrite(packed, 1, packed_bytes, writer->export->stream);
    free(packed);
    free(plain);
    libdeflate_free_compressor(compressor);
    return packed_bytes ? 0 : -EIO;
}

static void free_writer(struct writer *writer)
{
    free(writer->profile.sample);
    free(writer->profile.mapping);
    free(writer->profile.location);
    free(writer->profile.function);
    free(writer->locations);
    free(writer->places);
    vt_index_free(&writer->mappings);
    vt_index_free(&writer->functions);
    vt_strings_free(&writer->strings);
    vt_arena_free(&writer->arena);
    vt_samples_free(&writer->samples);
    vt_stacks_free(&writer->stacks);
}

int vt_pprof_write(const struct vt_export *export)
{
    struct writer writer = {.export = export, .profile = PPROF__PROFILE__INIT};
    int result;

    vt_stacks_read(export->tables, &writer.stacks);
    vt_samples_read(export, &writer.samples);
    writer.locations = vt_allocate_zeros(writer.stacks.frame_count, sizeof *writer.locations);
    writer.places = vt_allocate_zeros(writer.stacks.frame_count, sizeof *writer.places);
    set_header(&writer);
    for (size_t i = 0; i < writer.samples.count; i++)
        add_sample(&writer, &writer.samples.items[i]);
    set_dropped(&writer);
    writer.profile.string_table = (char **)writer.strings.items;
    writer.profile.n_string_table = writer.strings.count;
    result = put_compressed(&writer);
    free_writer(&writer);
    return result;
}
