/* info: what a trace contains, without judgement; and checks of our own reading of it. */
#include "command/load.h"
#include "command/pager.h"

#include <inttypes.h>

#include "attribute/sums.h"
#include "base/format.h"
#include "replay/walk.h"
#include "report/info.h"
#include "trace/redact.h"
#include "view/json/json.h"
#include "view/text/print.h"
#include "view/text/views.h"

struct verification {
    const struct vt_trace *trace;
    int device_index;
    uint64_t breaches;
};

/* `event_index` VT_NEVER = the whole trace. */
static void say_breach(void *context, uint32_t event_index, const char *what)
{
    struct verification *verification = context;
    char event[64] = "";

    if (++verification->breaches > 10)
        return;
    if (event_index != VT_NEVER)
        snprintf(event, sizeof event, "event %" PRIu32 " (%s), ", event_index,
                 vt_event_kind_name(verification->trace->events[event_index].kind));
    vt_say("%s: %sdevice %d: %s", verification->trace->path, event, verification->device_index, what);
}

static int verify_trace(const struct vt_loaded *loaded, struct vt_output *output)
{
    struct verification verification = {.trace = loaded->trace};
    struct vt_category_check check = {.breach = say_breach, .context = &verification};
    char count[32], wrong[256];

    for (int i = 0; i < loaded->replay->device_count; i++) {
        verification.device_index = i;
        if (vt_replay_verify(loaded->replay, i, wrong, sizeof wrong))
            say_breach(&verification, VT_NEVER, wrong);
        vt_category_verify(loaded->attribution, i, &check);
    }
    vt_put_clean(vt_redact_name(loaded->trace->path), output->stream);
    fprintf(output->stream,
            ": %s events checked, %" PRIu64 " errors: the categories %s to the driver's bytes%s",
            vt_format_count(check.events, count), verification.breaches,
            check.breaches ? "do not sum" : "sum", check.breaches ? "" : " at every one");
    if (loaded->trace->omitted_events)
        fprintf(output->stream, "; %s events were not read one by one",
                vt_format_count(loaded->trace->omitted_events, count));
    fputc('\n', output->stream);
    return verification.breaches ? VT_EXIT_CHECK_FAILED : VT_EXIT_GOOD;
}

static void print_events(FILE *out, const struct vt_trace *trace, const struct vt_arguments *arguments)
{
    static struct vt_frame frames[VT_EVENT_FRAMES];
    const struct vt_json_style style = {.compact = true};
    struct vt_event_facts event;

    for (uint32_t i = 0; !ferror(out) && i < trace->event_count; i++) {
        vt_event_facts_read(trace, i, &event);
        vt_event_frames_read(trace, arguments->stacks ? frames : NULL, &event);
        if (arguments->json)
            vt_json_write(&vt_event_document, &event, &style, out);
        else
            vt_text_event(&event, out);
    }
}

static void print_info(FILE *out, const struct vt_loaded *loaded, const struct vt_arguments *arguments)
{
    const struct vt_json_style style = {.compact = arguments->operand_count > 1};
    struct vt_info info;

    vt_info_make(loaded->attribution, &info);
    if (arguments->json)
        vt_json_write(&vt_info_document, &info, &style, out);
    else
        vt_text_info(&info, out);
    vt_info_free(&info);
}

static int info_one(const struct vt_arguments *arguments, const char *path, struct vt_output *output)
{
    struct vt_loaded loaded;
    int result = vt_load(arguments, path, NULL, &loaded);

    if (result)
        return result;
    if (!arguments->verify)
        vt_begin_page(arguments, output);
    if (arguments->verify)
        result = verify_trace(&loaded, output);
    else if (arguments->events)
        print_events(output->stream, loaded.trace, arguments);
    else
        print_info(output->stream, &loaded, arguments);
    if (!arguments->verify)
        result = vt_written(output, 0);
    vt_unload(&loaded);
    return result;
}

int vt_command_info(struct vt_arguments *arguments, struct vt_output *output)
{
    bool is_text = !arguments->json && !arguments->verify && !arguments->events;

    arguments->each_event = arguments->events;
    return vt_for_each_trace(arguments, output, is_text ? "\n" : NULL, info_one);
}
