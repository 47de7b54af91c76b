#include "view/prometheus/prometheus.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"

enum of { MACHINE, PROCESS, USE, CARD };
enum type { GAUGE, COUNTER };

static size_t live_processes(const struct vt_top *top)
{
    size_t count = 0;
    for (size_t i = 0; i < top->process_count; i++)
        count += top->processes[i].state != VT_TOP_ENDED;
    return count;
}

/* `separator`: what stands before it, "{" or ",". */
static void put_label(const char *separator, const char *name, const char *text, FILE *out)
{
    uint32_t code;
    fprintf(out, "%s%s=\"", separator, name);
    for (size_t bytes; (bytes = vt_utf8_next(text, &code)) > 0; text += bytes) {
        if (code == '\n')
            fputs("\\n", out);
        else if (code < 0x20 || (code >= 0x7f && code < 0xa0) || code == VT_REPLACEMENT)
            fputs(VT_REPLACEMENT_TEXT, out);
        else
            fprintf(out, "%s%.*s", code == '"' || code == '\\' ? "\\" : "", (int)bytes, text);
    }
    fputc('"', out);
}

static void put_process_labels(const struct vt_top_process *process, bool all, FILE *out)
{
    fprintf(out, "{pid=\"%" PRIu32 "\"", process->pid);
    put_label(",", "rank", process->rank, out);
    if (all) {
        put_label(",", "command", process->command, out);
        put_label(",", "trace", process->trace, out);
    }
}

static void put_gpu_labels(const char *separator, const char *device, const char *uuid, FILE *out)
{
    put_label(separator, "device", device, out);
    put_label(",", "uuid", uuid, out);
}

/* Whole numbers digit by digit, fractions with all that a double has. */
#define VALUE(value) _Generic((value), double : put_real, default : put_whole)(out, value)

static void put_real(FILE *out, double value)
{
    fprintf(out, " %.15g\n", value);
}

static void put_whole(FILE *out, uint64_t value)
{
    fprintf(out, " %" PRIu64 "\n", value);
}

/* Where we are among what a metric is of. */
struct place {
    const struct vt_top *t; /* NULL = at the end */
    const struct vt_top_process *p;
    const struct vt_top_use *u;
    const struct vt_top_card *c;
    size_t process, item;
};

/* From `place` on, itself included. */
static struct place find_place(enum of of, struct place place)
{
    const struct vt_top *top = place.t;
    if (of == MACHINE && !place.item)
        return place;
    if (of == CARD && place.item < top->card_count) {
        place.c = &top->cards[place.item];
        return place;
    }
    for (; (of == PROCESS || of == USE) && place.process < top->process_count; place.process++) {
        place.p = &top->processes[place.process];
        if (place.p->state != VT_TOP_ENDED && place.item < (of == USE ? place.p->use_count : 1)) {
            place.u = of == USE ? &place.p->uses[place.item] : NULL;
            return place;
        }
        place.item = 0;
    }
    return (struct place){.t = NULL};
}

static struct place next_place(enum of of, struct place place)
{
    place.item++;
    return find_place(of, place);
}

static void put_labels(enum of of, const struct place *place, bool all, FILE *out)
{
    if (of == PROCESS || of == USE)
        put_process_labels(place->p, all, out);
    if (of == USE) {
        char device[16];
        snprintf(device, sizeof device, "%" PRId32, place->u->device);
        put_gpu_labels(",", device, place->u->uuid, out);
    }
    if (of == CARD)
        put_gpu_labels("{", place->c->label, place->c->uuid, out);
    fputs(of == MACHINE ? "" : "}", out);
}

void vt_prometheus_write(const struct vt_top *top, FILE *out)
{
    static const char *const types[] = {"gauge", "counter"};
#define X(of, name, type, help, value, known)                                                                \
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, types[type]);                             \
    for (struct place at = find_place(of, (struct place){.t = top}); at.t; at = next_place(of, at)) {        \
        const struct vt_top *t = at.t;                                                                       \
        const struct vt_top_process *p = at.p;                                                               \
        const struct vt_top_use *u = at.u;                                                                   \
        const struct vt_top_card *c = at.c;                                                                  \
        (void)t, (void)p, (void)u, (void)c;                                                                  \
        if (!(known))                                                                                        \
            continue;                                                                                        \
        fputs(name, out);                                                                                    \
        put_labels(of, &at, !strcmp(name, "vramtrace_process_info"), out);                                   \
        VALUE(value);                                                                                        \
    }
#include "view/prometheus/metrics.def"
#undef X
}
