/* Folded stacks, as flame graph tools read them: "category;outermost;…;innermost bytes", one line per stack.
 */
#include "view/samples.h"

#include "base/utf8.h"

/* A semicolon ends a frame, a line break the stack. */
static void put_frame(const char *text, FILE *out)
{
    uint32_t code;

    for (size_t bytes; (bytes = vt_utf8_next(text, &code)); text += bytes) {
        if (code == ';')
            fputc(',', out);
        else if (code == '\n' || code == '\t')
            fputc(' ', out);
        else if (vt_is_unsafe(code))
            fputs(VT_REPLACEMENT_TEXT, out);
        else
            fwrite(text, 1, bytes, out);
    }
}

static void put_sample(const struct vt_export *export, const struct vt_stack_list *stacks,
                       const struct vt_sample *sample)
{
    uint32_t ids[VT_CHAIN_FRAMES];
    size_t count = vt_stack_chain(stacks, sample->stack_id, sample->forward_stack_id, ids);

    if (export->report->device_count > 1)
        fprintf(export->stream, "GPU %d;", sample->device_index);
    fputs(vt_category_name(sample->category), export->stream);
    while (count--) {
        fputc(';', export->stream);
        put_frame(stacks->frames[ids[count]].name, export->stream);
    }
    fprintf(export->stream, " %llu\n", (unsigned long long)sample->bytes);
}

int vt_folded_write(const struct vt_export *export)
{
    struct vt_stack_list stacks;
    struct vt_sample_list samples;

    vt_stacks_read(export->tables, &stacks);
    vt_samples_read(export, &samples);
    vt_samples_merge(&samples);
    for (size_t i = 0; i < samples.count && !ferror(export->stream); i++)
        put_sample(export, &stacks, &samples.items[i]);
    vt_samples_free(&samples);
    vt_stacks_free(&stacks);
    return 0;
}
