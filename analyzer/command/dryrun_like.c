#include "command/dryrun_like.h"
#include "command/load.h"
#include "command/output.h"
#include "command/run.h"

#include "findings/findings.h"

#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "report/launch_info.h"

#define MOST_STEPS 50

/* How its memory was managed. */
static void set_environment(const struct vt_trace *trace)
{
    static const char *const names[] = {
#define VT_ALLOCATOR(name) name,
#include "command/dryrun_environment.def"
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (vt_launch_variable(trace, names[i]))
            vt_run_set(names[i], vt_launch_variable(trace, names[i]), false);
}

/* As many steps as it took to the peak, if they are not too many. */
static void reach_step(uint32_t step)
{
    char text[16];

    snprintf(text, sizeof text, "%u", step + 1);
    if (step < MOST_STEPS)
        vt_run_set("VRAMTRACE_DRYRUN_LEAST", text, false);
}

static void read_device(const struct vt_report *report, struct vt_like *like)
{
    const struct vt_oom *last = report->refusal_count ? &report->refusals[report->refusal_count - 1] : NULL;

    for (size_t i = 0; i < report->device_count; i++) {
        const struct vt_device_report *device = &report->devices[i];

        if (device->peak.state.used_bytes <= like->used_bytes)
            continue;
        like->used_bytes = device->peak.state.used_bytes;
        like->step = device->peak.state.step;
        like->gpu_name = device->name;
        like->total_bytes = device->total_bytes;
    }
    like->ran_out = last && last->ends_run;
}

int vt_like_read(const char *path, struct vt_like *like)
{
    static struct vt_loaded loaded; /* stays: `like` has its text */
    const struct vt_report_options options = {
        .device_index = -1, .groups = VT_NO_GROUPS, .timeline_columns = VT_NO_TIMELINE};
    const struct vt_trace *trace;
    struct vt_launch launch;
    char *error = NULL;
    int result = vt_open(path, &loaded, &error);

    result = result ? result : vt_try_report(&loaded, &options, 0, &loaded.report, &error);
    if (result) {
        vt_say("--like: %s", error);
        free(error);
        return result;
    }
    trace = loaded.trace;
    if (!trace->argument_count)
        return vt_wrong_use("--like %s: its command is not known; give it behind the options", path);
    like->words = vt_allocate_zeros((size_t)trace->argument_count + 1, sizeof *like->words);
    for (int i = 0; i < trace->argument_count; i++)
        like->words[i] = vt_copy_text(trace->arguments[i]);
    read_device(loaded.report, like);
    if (!like->gpu_name)
        return vt_wrong_use("--like %s: no GPU memory was recorded there", path);
    launch = vt_launch_read(trace);
    like->rank = launch.rank;
    like->world = launch.world_size;
    set_environment(trace);
    reach_step(like->step);
    like->folder = trace->working_folder;
    return 0;
}

void vt_like_compare(const struct vt_like *like, uint64_t used_bytes, FILE *out)
{
    const double apart = like->used_bytes ? ((double)used_bytes / (double)like->used_bytes - 1) * 100 : 0;
    char recorded[32], here[32], step[48] = "";

    if (like->step >= MOST_STEPS)
        snprintf(step, sizeof step, " in step %u, which is not played", like->step);
    fprintf(out, "  recorded: %s in use at its peak%s%s; here %s (%+.1f %%)\n",
            vt_format_bytes(like->used_bytes, recorded), like->ran_out ? ", when it ran out of memory" : "",
            step, vt_format_bytes(used_bytes, here), apart);
}
