/* speedscope's file format: for each device a profile of all that is alive, whose outermost frames are the
 * categories, and one of each category. Weights are bytes. */
#include "view/samples.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/allocate.h"
#include "view/json/json.h"

struct writer {
    const struct vt_export *export;
    FILE *out;
    struct vt_stack_list stacks;
    struct vt_sample_list samples;
    uint32_t *places; /* by frame id: its index in the file, 0 = not used. The first are the categories. */
    uint32_t *used;   /* frame ids, in the order of the file */
    uint32_t used_count;
};

/* ---- Frames ---- */

static void choose_frames(struct writer *writer)
{
    uint32_t ids[VT_CHAIN_FRAMES];

    writer->places = vt_allocate_zeros(writer->stacks.frame_count, sizeof *writer->places);
    writer->used = vt_allocate_zeros(writer->stacks.frame_count, sizeof *writer->used);
    for (size_t i = 0; i < writer->samples.count; i++) {
        const struct vt_sample *sample = &writer->samples.items[i];
        size_t count = vt_stack_chain(&writer->stacks, sample->stack_id, sample->forward_stack_id, ids);

        for (size_t k = 0; k < count; k++)
            if (!writer->places[ids[k]]) {
                writer->places[ids[k]] = VT_CATEGORY_COUNT + writer->used_count;
                writer->used[writer->used_count++] = ids[k];
            }
    }
}

static void put_member(FILE *out, const char *name, const char *text)
{
    fprintf(out, "\"%s\":", name);
    vt_json_text(text, false, out);
}

static void put_frames(struct writer *writer)
{
    fputs("\"shared\":{\"frames\":[", writer->out);
    for (unsigned c = 0; c < VT_CATEGORY_COUNT; c++) {
        fputs(c ? ",{" : "{", writer->out);
        put_member(writer->out, "name", vt_category_name(c));
        fputc('}', writer->out);
    }
    for (uint32_t i = 0; i < writer->used_count; i++) {
        const struct vt_frame *frame = &writer->stacks.frames[writer->used[i]].frame;
        const char *file = frame->file[0] ? frame->file : frame->module;

        fputs(",\n{", writer->out);
        put_member(writer->out, "name", frame->function);
        if (file[0]) {
            fputc(',', writer->out);
            put_member(writer->out, "file", file);
        }
        if (frame->line)
            fprintf(writer->out, ",\"line\":%" PRId32, frame->line);
        fputc('}', writer->out);
    }
    fputs("]},\n", writer->out);
}

/* ---- Profiles ---- */

static bool is_in(const struct vt_sample *sample, int device_index, unsigned category)
{
    return sample->device_index == device_index &&
           (category == VT_CATEGORY_COUNT || sample->category == category);
}

static void put_stack(struct writer *writer, const struct vt_sample *sample, bool with_category)
{
    uint32_t ids[VT_CHAIN_FRAMES];
    size_t count = vt_stack_chain(&writer->stacks, sample->stack_id, sample->forward_stack_id, ids);
    const char *comma = "";

    fputc('[', writer->out);
    if (with_category || !count) { /* a stack has at least one frame */
        fprintf(writer->out, "%u", sample->category);
        comma = ",";
    }
    while (count--) {
        fprintf(writer->out, "%s%" PRIu32, comma, writer->places[ids[count]]);
        comma = ",";
    }
    fputc(']', writer->out);
}

/* Category VT_CATEGORY_COUNT = all. */
static void put_profile(struct writer *writer, int device_index, unsigned category, const char *comma)
{
    const struct vt_sample_list *samples = &writer->samples;
    bool all = category == VT_CATEGORY_COUNT;
    char name[128];
    uint64_t bytes = 0;

    for (size_t i = 0; i < samples->count; i++)
        bytes += is_in(&samples->items[i], device_index, category) ? samples->items[i].bytes : 0;
    snprintf(name, sizeof name, "GPU %d: %s", device_index, all ? "all" : vt_category_name(category));
    fprintf(writer->out, "%s\n{\"type\":\"sampled\",", comma);
    put_member(writer->out, "name", name);
    fprintf(writer->out, ",\"unit\":\"bytes\",\"startValue\":0,\"endValue\":%" PRIu64 ",\n\"samples\":[",
            bytes);
    comma = "";
    for (size_t i = 0; i < samples->count; i++)
        if (is_in(&samples->items[i], device_index, category)) {
            fputs(comma, writer->out);
            put_stack(writer, &samples->items[i], all);
            comma = ",\n";
        }
    fputs("],\n\"weights\":[", writer->out);
    comma = "";
    for (size_t i = 0; i < samples->count; i++)
        if (is_in(&samples->items[i], device_index, category)) {
            fprintf(writer->out, "%s%" PRIu64, comma, samples->items[i].bytes);
            comma = ",";
        }
    fputs("]}", writer->out);
}

static void put_profiles(struct writer *writer)
{
    const struct vt_report *report = writer->export->report;
    const char *comma = "";

    fputs("\"profiles\":[", writer->out);
    for (size_t i = 0; i < report->device_count; i++) {
        const struct vt_state *state = &report->devices[i].shown->state;

        put_profile(writer, report->devices[i].index, VT_CATEGORY_COUNT, comma);
        comma = ",";
        for (unsigned c = 0; c < VT_CATEGORY_COUNT; c++)
            if (state->categories[c] && c != VT_CATEGORY_HOST_PINNED)
                put_profile(writer, report->devices[i].index, c, comma);
    }
    fputs("]", writer->out);
}

static void put_file(struct writer *writer)
{
    const struct vt_report *report = writer->export->report;

    fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
          "\"exporter\":\"vramtrace\",\n",
          writer->out);
    put_member(writer->out, "name", report->facts.command);
    fputs(",\n\"activeProfileIndex\":0,\n", writer->out);
    put_frames(writer);
    put_profiles(writer);
    fputs("}\n", writer->out);
}

int vt_speedscope_write(const struct vt_export *export)
{
    struct writer writer = {.export = export, .out = export->stream};

    vt_stacks_read(export->tables, &writer.stacks);
    vt_samples_read(export, &writer.samples);
    vt_samples_merge(&writer.samples);
    choose_frames(&writer);
    put_file(&writer);
    free(writer.places);
    free(writer.used);
    vt_samples_free(&writer.samples);
    vt_stacks_free(&writer.stacks);
    return 0;
}
