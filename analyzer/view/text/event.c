/* One event on one line. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "view/text/print.h"
#include "view/text/views.h"

static void put_frame(const struct vt_frame *frame, FILE *out)
{
    const char *module = strrchr(frame->module, '/');

    vt_put_clean(frame->function, out);
    if (frame->file[0]) {
        fputs(" (", out);
        vt_put_clean(frame->file, out);
        fprintf(out, ":%d)", frame->line);
    } else if (frame->module[0]) {
        fputs(" (", out);
        vt_put_clean(module ? module + 1 : frame->module, out);
        fputc(')', out);
    }
}

static void put_names(const struct vt_event_facts *event, FILE *out)
{
    if (event->name) {
        fputs(" '", out);
        vt_put_clean(event->name, out);
        fputc('\'', out);
    }
    if (event->function) {
        fputc(' ', out);
        vt_put_clean(event->function, out);
    }
    if (event->label) {
        fputs(" in ", out);
        vt_put_clean(event->label, out);
    }
    for (size_t i = 0; i < event->flag_count; i++)
        fprintf(out, " %s", event->flags[i]);
    if (event->thread)
        fprintf(out, " thread %u", event->thread);
}

int vt_text_event(const struct vt_event_facts *event, FILE *out)
{
    fprintf(out, "%u %.6f s %s %s gpu %d", event->index, (double)event->t_ns / 1e9, event->kind, event->layer,
            event->device_index);
    if (event->address)
        fprintf(out, " %s", event->address_text);
    if (event->is_change)
        fprintf(out, " %+" PRId64 " B", event->change_bytes);
    else if (event->bytes)
        fprintf(out, " %" PRIu64 " B", event->bytes);
    put_names(event, out);
    if (event->has_at) {
        fputs(" at ", out);
        put_frame(&event->at, out);
    }
    for (size_t i = 0; i < event->frame_count; i++) {
        fputs("\n    ", out);
        put_frame(&event->frames[i], out);
    }
    fputc('\n', out);
    return ferror(out) ? -EIO : 0;
}
