/* Merging processes into a job: from processes that are made here, and from traces. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "attribute/attribute.h"
#include "base/arena.h"
#include "findings/findings.h"
#include "job/job.h"
#include "job/oom_order.h"
#include "job/process.h"
#include "trace_builder.h"

#define MIB (UINT64_C(1) << 20)
#define SECOND UINT64_C(1000000000)
#define START (1000 * SECOND)

/* Up to so many processes, each with one device and what is given of it. */
struct made {
    struct vt_job_process *processes;
    size_t count;
};

static void *take(struct vt_job_process *process, size_t count, size_t bytes)
{
    void *taken = vt_arena_take(process->owner, count * bytes);

    cr_assert(taken);
    memset(taken, 0, count * bytes);
    return taken;
}

static struct vt_job_process *add(struct made *made, int32_t rank, uint64_t used_bytes)
{
    struct vt_job_process *process;
    struct vt_job_device *device;
    char text[64];

    made->processes = realloc(made->processes, (made->count + 1) * sizeof *made->processes);
    process = &made->processes[made->count];
    *process = (struct vt_job_process){.owner = calloc(1, sizeof(struct vt_arena))};
    snprintf(text, sizeof text, "trace.%zu.vrt", made->count);
    process->path = vt_arena_text(process->owner, text, strlen(text));
    snprintf(text, sizeof text, rank < 0 ? "pid %zu" : "rank %zu",
             rank < 0 ? 100 + made->count : (size_t)rank);
    process->label = vt_arena_text(process->owner, text, strlen(text));
    process->command = "python train.py";
    process->host = "node0";
    process->outcome = "complete";
    process->complete = process->ended = true;
    process->pid = (uint32_t)(100 + made->count);
    process->parent_pid = 50;
    process->start_realtime_ns = START;
    process->end_ns = 10 * SECOND;
    process->rank = rank;
    process->local_rank = process->world_size = process->local_world_size = process->node_rank =
        process->attempt = -1;
    process->launcher = rank < 0 ? NULL : "torchrun";
    process->launch_key = rank < 0 ? "" : "torchrun\n";
    device = process->devices = take(process, 1, sizeof *device);
    process->device_count = 1;
    device->name = device->leak_line = "";
    device->total_bytes = 1000 * MIB;
    device->peak.used_bytes = device->shown.used_bytes = used_bytes;
    device->shown.categories[VT_CATEGORY_ACTIVATION] = used_bytes;
    made->count++;
    return process;
}

static void add_line(struct vt_job_process *process, const char *name, uint64_t bytes)
{
    struct vt_job_parts *lines = &process->devices[0].lines;

    if (!lines->items)
        lines->items = take(process, 8, sizeof *lines->items);
    lines->items[lines->count++] = (struct vt_job_part){
        .name = name, .file = "train.py", .line = 7, .bytes = bytes, .category = VT_CATEGORY_ACTIVATION};
}

static void add_module(struct vt_job_process *process, const char *name, uint64_t bytes, uint64_t state_bytes)
{
    struct vt_job_parts *modules = &process->devices[0].modules;

    if (!modules->items)
        modules->items = take(process, 8, sizeof *modules->items);
    modules->items[modules->count++] =
        (struct vt_job_part){.name = name, .file = "", .bytes = bytes, .named_bytes = {0, 0, state_bytes}};
}

static void add_parameter(struct vt_job_process *process, const char *name, const char *shape,
                          const char *whole)
{
    if (!process->parameters)
        process->parameters = take(process, 8, sizeof *process->parameters);
    process->parameters[process->parameter_count++] =
        (struct vt_job_parameter){.name = name, .shape = shape, .whole_shape = whole, .bytes = 4};
}

static void add_level(struct vt_job_process *process, uint64_t t_ns, uint64_t bytes)
{
    struct vt_job_device *device = process->devices;

    if (!device->levels)
        device->levels = take(process, 8, sizeof *device->levels);
    device->levels[device->level_count++] = (struct vt_level){t_ns, bytes};
}

static void add_card_level(struct vt_job_process *process, uint64_t t_ns, uint64_t bytes)
{
    struct vt_job_device *device = process->devices;

    if (!device->card_levels)
        device->card_levels = take(process, 8, sizeof *device->card_levels);
    device->card_levels[device->card_level_count++] = (struct vt_level){t_ns, bytes};
}

static struct vt_job *merge(struct made *made)
{
    struct vt_job *job;

    job = vt_job_make("job", made->processes, made->count, NULL, 0, false);
    return job;
}

/* ---- Runs ---- */

Test(job, ranks_come_in_order_and_missing_ones_are_named)
{
    struct made made = {0};
    struct vt_job *job;

    for (int32_t rank = 3; rank > 0; rank--) {
        struct vt_job_process *process = add(&made, rank, 10 * MIB);
        process->world_size = 6;
    }
    job = merge(&made);
    cr_assert_eq(job->run_count, 1);
    cr_assert_eq(job->runs[0].member_count, 3);
    for (uint32_t i = 0; i < 3; i++)
        cr_assert_eq(job->processes[job->runs[0].members[i]].rank, (int32_t)i + 1);
    cr_assert_eq(job->runs[0].missing_count, 3);
    cr_assert_eq(job->runs[0].missing[0], 0);
    cr_assert_eq(job->runs[0].missing[1], 4);
    cr_assert_eq(job->runs[0].missing[2], 5);
    vt_job_free(job);
}

Test(job, a_second_run_of_the_same_name_is_another_run)
{
    struct made made = {0};
    struct vt_job *job;

    for (int32_t run = 0; run < 2; run++)
        for (int32_t rank = 0; rank < 2; rank++) {
            struct vt_job_process *process = add(&made, rank, 10 * MIB);
            process->start_realtime_ns = START + (uint64_t)run * 20 * SECOND;
            process->parent_pid = 50 + (uint32_t)run;
        }
    job = merge(&made);
    cr_assert_eq(job->run_count, 2);
    for (size_t run = 0; run < 2; run++) {
        cr_assert_eq(job->runs[run].member_count, 2);
        for (size_t i = 0; i < 2; i++)
            cr_assert_eq(job->processes[job->runs[run].members[i]].parent_pid, 50 + run);
    }
    vt_job_free(job);
}

Test(job, a_helper_that_inherited_a_rank_is_no_rank)
{
    struct made made = {0};
    struct vt_job *job;
    struct vt_job_process *helper;

    add(&made, 0, 10 * MIB);
    add(&made, 1, 10 * MIB);
    helper = add(&made, 1, 500 * MIB);
    helper->parent_pid = made.processes[1].pid;
    helper->start_realtime_ns += SECOND;
    job = merge(&made);
    cr_assert_eq(job->run_count, 1);
    cr_assert_eq(job->runs[0].member_count, 2);
    cr_assert_eq(job->runs[0].groups[0].odd_count, 0, "a helper is compared with nobody");
    cr_assert(job->processes[2].is_helper);
    cr_assert(job->processes[2].is_child);
    cr_assert_eq(job->processes[2].parent, 1);
    cr_assert_str_eq(job->processes[2].label, "rank 1, pid 102");
    vt_job_free(job);
}

/* Of a killed parent only the last event is known: it waited for its child. */
Test(job, a_helper_of_one_that_was_killed)
{
    struct made made = {0};
    struct vt_job *job;
    struct vt_job_process *helper;

    add(&made, 0, 10 * MIB);
    add(&made, 1, 10 * MIB);
    made.processes[1].ended = made.processes[1].complete = false;
    made.processes[1].end_ns = 2 * SECOND;
    helper = add(&made, 1, 500 * MIB);
    helper->parent_pid = made.processes[1].pid;
    helper->start_realtime_ns += 5 * SECOND;
    job = merge(&made);
    cr_assert_eq(job->run_count, 1);
    cr_assert(job->processes[2].is_helper);
    cr_assert_eq(job->processes[2].parent, 1);
    vt_job_free(job);
}

Test(job, processes_without_a_launcher_belong_together_by_parent_and_command)
{
    struct made made = {0};
    struct vt_job *job;

    for (int i = 0; i < 4; i++)
        add(&made, -1, 10 * MIB);
    made.processes[1].command = "python train10.py";
    made.processes[2].command = "python other.py";
    made.processes[3].parent_pid = 77;
    job = merge(&made);
    cr_assert_eq(job->run_count, 3);
    cr_assert_eq(job->runs[0].member_count, 2);
    cr_assert(strstr(job->runs[0].basis, "process 50"));
    vt_job_free(job);
}

Test(job, nodes_are_told_apart_and_their_clocks_are_not_trusted)
{
    struct made made = {0};
    struct vt_job *job;

    add(&made, 0, 10 * MIB);
    add(&made, 1, 10 * MIB)->host = "node1";
    add(&made, 2, 10 * MIB)->boot_id[0] = 1; /* another machine of that name */
    job = merge(&made);
    cr_assert_eq(job->node_count, 3);
    cr_assert_eq(job->card_count, 3);
    cr_assert(strstr(job->clock, "differ"));
    vt_job_free(job);
}

/* ---- Cards ---- */

Test(job, a_card_is_known_by_its_uuid_whatever_its_index)
{
    struct made made = {0};
    struct vt_job *job;

    add(&made, 0, 10 * MIB)->devices[0].uuid = "GPU-a";
    add(&made, 1, 10 * MIB)->devices[0].uuid = "GPU-b"; /* CUDA_VISIBLE_DEVICES=1 */
    add(&made, 2, 10 * MIB)->devices[0].uuid = "GPU-b";
    made.processes[1].visible_devices = "1";
    made.processes[2].devices[0].index = 1;
    job = merge(&made);
    cr_assert_eq(job->card_count, 2);
    cr_assert_str_eq(job->cards[1].uuid, "GPU-b");
    cr_assert_eq(job->cards[1].number, 1);
    cr_assert_eq(job->cards[1].holder_count, 2);
    vt_job_free(job);
}

Test(job, without_a_uuid_the_list_of_visible_devices_tells)
{
    struct made made = {0};
    struct vt_job *job;

    for (int i = 0; i < 3; i++)
        add(&made, i, 10 * MIB);
    made.processes[1].visible_devices = "3,1";
    made.processes[2].visible_devices = "2,3";
    made.processes[2].devices[0].index = 1;
    job = merge(&made);
    cr_assert_eq(job->card_count, 2);
    cr_assert_eq(job->cards[0].number, 0);
    cr_assert_eq(job->cards[1].number, 3);
    cr_assert_eq(job->cards[1].holder_count, 2);
    cr_assert(!job->cards[1].by_uuid);
    vt_job_free(job);
}

Test(job, the_most_of_a_card_is_of_all_its_processes_at_one_time)
{
    struct made made = {0};
    struct vt_job *job;
    struct vt_job_process *a = add(&made, -1, 0), *b;

    add_level(a, 1 * SECOND, 300 * MIB);
    add_level(a, 3 * SECOND, 10 * MIB);
    add_card_level(a, 0, 20 * MIB); /* its context alone */
    b = add(&made, -1, 0);
    b->command = "another";
    b->start_realtime_ns = START + 2 * SECOND;
    add_level(b, 2 * SECOND, 200 * MIB); /* at 4 s, when the first has less */
    add_level(b, 3 * SECOND, 310 * MIB);
    add_card_level(b, 0, 340 * MIB); /* 300 of the first, two contexts */
    add_card_level(b, 2 * SECOND + 1, 250 * MIB);
    add_card_level(b, 2 * SECOND + 2, 250 * MIB);
    add_card_level(b, 2 * SECOND + 3, 252 * MIB); /* with a call of the first that was under way */
    job = merge(&made);
    cr_assert_eq(job->card_count, 1);
    cr_assert_eq(job->cards[0].context_bytes, 40 * MIB);
    cr_assert_eq(job->cards[0].most_bytes, (310 + 10 + 40) * MIB);
    cr_assert_eq(job->cards[0].most_ns, 5 * SECOND);
    cr_assert_eq(job->cards[0].holders[0].bytes, 310 * MIB);
    cr_assert_eq(job->cards[0].holders[1].bytes, 10 * MIB);
    vt_job_free(job);
}

Test(job, memory_of_a_process_that_has_ended_is_gone)
{
    struct made made = {0};
    struct vt_job *job;
    struct vt_job_process *a = add(&made, -1, 0), *b;

    add_level(a, SECOND, 300 * MIB);
    a->end_ns = 2 * SECOND;
    b = add(&made, -1, 0);
    b->start_realtime_ns = START + 5 * SECOND;
    add_level(b, SECOND, 200 * MIB);
    job = merge(&made);
    cr_assert_eq(job->cards[0].most_bytes, 300 * MIB);
    cr_assert_eq(job->cards[0].most_ns, SECOND);
    vt_job_free(job);
}

/* Of a killed process the last event is no end: NVML told another one of it. */
Test(job, memory_of_a_killed_process_is_there_as_long_as_it_is_seen)
{
    struct made made = {0};
    struct vt_job_process *processes;
    struct vt_job_other *others;
    struct vt_job *job;

    add(&made, -1, 40 * MIB);
    add(&made, -1, 50 * MIB);
    processes = made.processes;
    processes[0].ended = processes[0].complete = false;
    processes[0].end_ns = 2 * SECOND;
    processes[0].devices[0].nvml_pid = processes[0].pid;
    add_level(&processes[0], SECOND, 40 * MIB);
    add_level(&processes[1], SECOND, 5 * MIB);
    add_level(&processes[1], 4 * SECOND, 20 * MIB);
    add_level(&processes[1], 5 * SECOND, 10 * MIB);
    add_level(&processes[1], 7 * SECOND, 50 * MIB);
    others = processes[1].devices[0].others = take(&processes[1], 2, sizeof *others);
    others[0] = (struct vt_job_other){.t_ns = 3 * SECOND, .bytes = 340 * MIB, .pid = processes[0].pid};
    others[1] = (struct vt_job_other){.t_ns = 6 * SECOND, .bytes = 0, .pid = processes[0].pid};
    processes[1].devices[0].other_count = 2;
    job = merge(&made);
    cr_assert_eq(job->processes[0].gone_ns, 5 * SECOND); /* when NVML was asked before */
    cr_assert_eq(job->cards[0].most_bytes, 60 * MIB);
    cr_assert_eq(job->cards[0].most_ns, 4 * SECOND);
    vt_job_free(job);
}

Test(job, a_killed_process_was_there_when_its_child_began)
{
    struct made made = {0};
    struct vt_job *job;

    add(&made, -1, 40 * MIB);
    add(&made, -1, 50 * MIB);
    made.processes[0].ended = made.processes[0].complete = false;
    made.processes[0].end_ns = 2 * SECOND;
    made.processes[1].parent_pid = made.processes[0].pid;
    made.processes[1].start_realtime_ns += 5 * SECOND;
    job = merge(&made);
    cr_assert_eq(job->processes[0].gone_ns, 5 * SECOND);
    vt_job_free(job);
}

Test(job, absurd_times_end)
{
    static const uint64_t times[] = {0, 1, UINT64_MAX, UINT64_MAX - START, UINT64_MAX / 2};
    const size_t count = sizeof times / sizeof *times;

    for (size_t start = 0; start < count; start++)
        for (size_t end = 0; end < count; end++)
            for (size_t level = 0; level < count; level++) {
                struct made made = {0};
                struct vt_job_process *process = add(&made, 0, MIB);

                process->start_realtime_ns = times[start];
                process->end_ns = times[end];
                process->devices[0].context_ns = times[count - 1 - level];
                add_level(process, times[level], MIB);
                add_level(process, times[count - 1 - level], 2 * MIB);
                add_card_level(process, times[level], MIB);
                add(&made, 1, MIB);
                vt_job_free(merge(&made));
            }
}

/* ---- Who is odd ---- */

Test(job, the_odd_one_of_eight_is_named_with_its_line)
{
    struct made made = {0};
    struct vt_job *job;
    const struct vt_job_group *group;

    for (int32_t rank = 0; rank < 8; rank++) {
        struct vt_job_process *process = add(&made, rank, (rank == 5 ? 150 : 100) * MIB);
        add_line(process, "train.py:3 forward", 60 * MIB);
        add_line(process, "train.py:7 step", (rank == 5 ? 80 : 40) * MIB);
        if (rank == 5)
            add_line(process, "train.py:9 keep", 10 * MIB);
    }
    job = merge(&made);
    group = &job->runs[0].groups[0];
    cr_assert_eq(group->odd_count, 1);
    cr_assert_eq(job->processes[group->odd[0].process].rank, 5);
    cr_assert_eq(group->odd[0].usual_bytes, 100 * MIB);
    cr_assert_eq(group->odd[0].lines.count, 2);
    cr_assert_str_eq(group->odd[0].lines.items[0].name, "train.py:7 step");
    cr_assert_eq(group->odd[0].lines.items[0].bytes - group->odd[0].lines.items[0].usual_bytes, 40 * MIB);
    cr_assert_str_eq(group->odd[0].lines.items[1].name, "train.py:9 keep");
    cr_assert_eq(group->odd[0].lines.items[1].usual_bytes, 0);
    cr_assert_eq(group->odd[0].categories.items[0].category, VT_CATEGORY_ACTIVATION);
    cr_assert_float_eq(group->imbalance, 1.5, 1e-9);
    vt_job_free(job);
}

static const struct vt_job_odd *only_odd(const struct vt_job *job)
{
    cr_assert_eq(job->runs[0].groups[0].odd_count, 1);
    return &job->runs[0].groups[0].odd[0];
}

/* A second model gives the first one's modules another name: that is no difference. */
Test(job, modules_of_a_rank_with_two_models)
{
    for (int32_t with = 0; with < 4; with += 3) { /* the first of them, too, is compared with the others */
        struct made made = {0};
        const struct vt_job_odd *odd;
        struct vt_job *job;

        for (int32_t rank = 0; rank < 4; rank++) {
            struct vt_job_process *process = add(&made, rank, (rank == with ? 140 : 100) * MIB);

            add_module(process, "", 10 * MIB, 0);
            add_module(process, rank == with ? "model.head" : "head", 40 * MIB, 0);
            add_module(process, rank == with ? "model.layers.0" : "layers.0", 50 * MIB, 0);
            if (rank == with)
                add_module(process, "teacher.head", 40 * MIB, 0);
        }
        job = merge(&made);
        odd = only_odd(job);
        cr_assert_eq(odd->process, (uint32_t)with);
        cr_assert_eq(odd->modules.count, 1);
        cr_assert_str_eq(odd->modules.items[0].name, "teacher.head");
        cr_assert_eq(odd->modules.items[0].bytes, 40 * MIB);
        cr_assert_eq(odd->modules.items[0].usual_bytes, 0);
        vt_job_free(job);
    }
}

Test(job, modules_of_a_rank_that_lacks_the_second_model)
{
    struct made made = {0};
    const struct vt_job_odd *odd;
    struct vt_job *job;

    for (int32_t rank = 0; rank < 4; rank++) {
        struct vt_job_process *process = add(&made, rank, (rank == 1 ? 90 : 130) * MIB);

        add_module(process, rank == 1 ? "layers.0" : "model.layers.0", 90 * MIB, 0);
        if (rank != 1)
            add_module(process, "teacher.layers.0", 40 * MIB, 0);
    }
    job = merge(&made);
    odd = only_odd(job);
    cr_assert_eq(odd->process, 1);
    cr_assert_eq(odd->modules.count, 1);
    cr_assert_str_eq(odd->modules.items[0].name, "teacher.layers.0");
    cr_assert_eq(odd->modules.items[0].bytes, 0);
    vt_job_free(job);
}

/* An inspection named the optimizer's state in one rank before its peak, in the others after it. */
Test(job, state_that_only_one_rank_has_names_of)
{
    struct made made = {0};
    const struct vt_job_odd *odd;
    struct vt_job *job;

    for (int32_t rank = 0; rank < 4; rank++) {
        struct vt_job_process *process = add(&made, rank, (rank == 2 ? 150 : 100) * MIB);

        add_module(process, "", (rank == 2 ? 50 : 20) * MIB, rank == 2 ? 0 : 20 * MIB);
        add_module(process, "head", (rank == 2 ? 100 : 80) * MIB, rank == 2 ? 20 * MIB : 0);
    }
    job = merge(&made);
    odd = only_odd(job);
    cr_assert_eq(odd->modules.count, 1);
    cr_assert_str_eq(odd->modules.items[0].name, "");
    cr_assert_eq(odd->modules.items[0].bytes, 70 * MIB);
    cr_assert_eq(odd->modules.items[0].usual_bytes, 20 * MIB);
    vt_job_free(job);
}

Test(job, modules_of_a_rank_without_names_are_not_compared)
{
    struct made made = {0};
    struct vt_job *job;

    for (int32_t rank = 0; rank < 4; rank++) {
        struct vt_job_process *process = add(&made, rank, (rank == 2 ? 150 : 100) * MIB);

        add_module(process, rank == 2 ? "Net > Linear#2" : "head", (rank == 2 ? 150 : 100) * MIB, 0);
        if (rank != 2)
            add_parameter(process, "head.weight", "4x4", "");
    }
    job = merge(&made);
    cr_assert_eq(only_odd(job)->modules.count, 0);
    cr_assert_eq(only_odd(job)->categories.count, 1);
    vt_job_free(job);
}

Test(job, one_that_has_less_is_odd_too)
{
    struct made made = {0};
    struct vt_job *job;

    for (int32_t rank = 0; rank < 4; rank++)
        add_line(add(&made, rank, (rank == 2 ? 50 : 100) * MIB), "train.py:3 forward",
                 (rank == 2 ? 50 : 100) * MIB);
    job = merge(&made);
    cr_assert_eq(job->runs[0].groups[0].odd_count, 1);
    cr_assert_eq(job->runs[0].groups[0].odd[0].process, 2);
    cr_assert_eq(job->runs[0].groups[0].odd[0].lines.items[0].bytes, 50 * MIB);
    vt_job_free(job);
}

Test(job, what_varies_everywhere_makes_nobody_odd)
{
    struct made made = {0};
    struct vt_job *job;

    for (int32_t rank = 0; rank < 8; rank++)
        add(&made, rank, (uint64_t)(100 + 20 * rank) * MIB);
    job = merge(&made);
    cr_assert_eq(job->runs[0].groups[0].odd_count, 0);
    vt_job_free(job);
}

Test(job, of_two_the_larger_is_compared_with_the_other)
{
    struct made made = {0};
    struct vt_job *job;

    add_line(add(&made, 0, 200 * MIB), "a", 200 * MIB);
    add_line(add(&made, 1, 100 * MIB), "a", 100 * MIB);
    job = merge(&made);
    cr_assert_eq(job->runs[0].groups[0].odd_count, 1);
    cr_assert_eq(job->runs[0].groups[0].odd[0].process, 0);
    cr_assert_eq(job->runs[0].groups[0].odd[0].usual_bytes, 100 * MIB);
    cr_assert_eq(job->runs[0].groups[0].odd[0].lines.items[0].usual_bytes, 100 * MIB);
    vt_job_free(job);
}

/* ---- Layouts ---- */

static struct vt_job *with_parameters(const char *const names[][2], const char *const shapes[],
                                      const char *whole, bool gathers, size_t ranks)
{
    struct made made = {0};

    for (size_t rank = 0; rank < ranks; rank++) {
        struct vt_job_process *process = add(&made, (int32_t)rank, 100 * MIB);
        for (size_t i = 0; i < 2; i++)
            add_parameter(process, names[rank][i], shapes[rank], whole);
        process->gathers = gathers;
    }
    return merge(&made);
}

Test(job, the_same_parameters_are_data_parallel)
{
    struct vt_job *job =
        with_parameters((const char *const[][2]){{"layers.0.w", "layers.1.w"}, {"layers.0.w", "layers.1.w"}},
                        (const char *const[]){"4x4", "4x4"}, "", false, 2);

    cr_assert_eq(job->runs[0].layout, VT_LAYOUT_DATA);
    cr_assert_str_eq(job->runs[0].groups[0].modules, "layers.0–1");
    vt_job_free(job);
}

Test(job, parts_of_the_optimizers_state_are_told)
{
    static const char *const told = "equal shards, and each has 1/2 of the optimizer's state";

    for (uint64_t state = 16; state <= 32; state += 16) {
        struct made made = {0};
        struct vt_job *job;

        for (int32_t rank = 0; rank < 2; rank++) {
            struct vt_job_process *process = add(&made, rank, 100 * MIB);

            add_parameter(process, "layers.0.w", "8x4", "");
            process->parameter_elements = 32;
            process->state_elements = state;
        }
        job = merge(&made);
        cr_assert_eq(strstr(job->runs[0].basis_of_layout, told) != NULL, state == 16);
        vt_job_free(job);
    }
}

Test(job, other_shapes_of_the_same_names_are_tensor_parallel)
{
    struct vt_job *job =
        with_parameters((const char *const[][2]){{"layers.0.w", "layers.1.w"}, {"layers.0.w", "layers.1.w"}},
                        (const char *const[]){"4x4", "3x4"}, "", false, 2);

    cr_assert_eq(job->runs[0].layout, VT_LAYOUT_TENSOR);
    cr_assert(strstr(job->runs[0].basis_of_layout, "3x4 on rank 1"), "%s", job->runs[0].basis_of_layout);
    vt_job_free(job);
}

Test(job, parts_of_one_size_are_told_by_the_whole)
{
    const char *const names[][2] = {{"layers.0.w", "layers.1.w"}, {"layers.0.w", "layers.1.w"}};
    struct vt_job *tensor = with_parameters(names, (const char *const[]){"2x4", "2x4"}, "4x4", false, 2),
                  *sharded = with_parameters(names, (const char *const[]){"2x4", "2x4"}, "4x4", true, 2);

    cr_assert_eq(tensor->runs[0].layout, VT_LAYOUT_TENSOR);
    cr_assert(strstr(tensor->runs[0].basis_of_layout, "2x4 of 4x4"));
    cr_assert_eq(sharded->runs[0].layout, VT_LAYOUT_SHARDED);
    vt_job_free(tensor);
    vt_job_free(sharded);
}

Test(job, other_modules_are_stages)
{
    struct vt_job *job = with_parameters((const char *const[][2]){{"layers.0.w", "layers.1.w"},
                                                                  {"layers.0.w", "layers.1.w"},
                                                                  {"head.w", "layers.2.w"},
                                                                  {"head.w", "layers.2.w"}},
                                         (const char *const[]){"4x4", "4x4", "4x4", "4x4"}, "", false, 4);

    cr_assert_eq(job->runs[0].layout, VT_LAYOUT_PIPELINE);
    cr_assert_eq(job->runs[0].group_count, 2);
    cr_assert_eq(job->runs[0].groups[1].member_count, 2);
    cr_assert_eq(job->runs[0].groups[1].layout, VT_LAYOUT_DATA);
    cr_assert_str_eq(job->runs[0].groups[1].modules, "head, layers.2");
    vt_job_free(job);
}

/* Of four ranks: rank 2 has no names, as one that was killed before an inspection saw its parameters. */
static struct vt_job *with_one_unnamed(bool pipeline)
{
    struct made made = {0};

    for (int32_t rank = 0; rank < 4; rank++) {
        struct vt_job_process *process = add(&made, rank, 100 * MIB);

        if (rank != 2)
            add_parameter(process, pipeline && rank > 2 ? "head.w" : "layers.0.w", "4x4", "");
    }
    return merge(&made);
}

Test(job, one_without_names_is_no_stage)
{
    struct vt_job *job = with_one_unnamed(false);

    cr_assert_eq(job->runs[0].layout, VT_LAYOUT_DATA);
    cr_assert_eq(job->runs[0].group_count, 1);
    cr_assert_eq(job->runs[0].groups[0].member_count, 4);
    cr_assert_str_eq(job->runs[0].groups[0].modules, "layers.0");
    cr_assert_str_eq(
        job->runs[0].basis_of_layout,
        "1 parameters have the same names and shapes on each rank: replicas, or equal shards; not "
        "inspected: rank 2");
    vt_job_free(job);
}

Test(job, one_without_names_joins_no_stage)
{
    struct vt_job *job = with_one_unnamed(true);

    cr_assert_eq(job->runs[0].layout, VT_LAYOUT_PIPELINE);
    cr_assert_eq(job->runs[0].group_count, 3);
    cr_assert_eq(job->runs[0].groups[2].members[0], 2);
    cr_assert_str_eq(job->runs[0].groups[2].modules, "");
    vt_job_free(job);
}

Test(job, what_one_rank_has_more_is_not_said_of_all)
{
    struct made made = {0};
    struct vt_job *job;

    for (int32_t rank = 0; rank < 3; rank++) {
        struct vt_job_process *process = add(&made, rank, 100 * MIB);

        add_parameter(process, "layers.0.w", "4x4", "");
        if (!rank) /* a second model has names like those of the first */
            add_parameter(process, "layers.0.w", "4x4", "");
        add_parameter(process, "layers.1.w", "4x4", "");
    }
    job = merge(&made);
    cr_assert_eq(job->runs[0].layout, VT_LAYOUT_DATA);
    cr_assert_str_eq(
        job->runs[0].basis_of_layout,
        "2 parameters have the same names and shapes on each rank: replicas, or equal shards; rank 0 "
        "has 1 more");
    vt_job_free(job);
}

Test(job, without_names_the_layout_is_not_known)
{
    struct made made = {0};
    struct vt_job *job;

    add(&made, 0, MIB);
    add(&made, 1, MIB);
    job = merge(&made);
    cr_assert_eq(job->runs[0].layout, VT_LAYOUT_UNKNOWN);
    cr_assert_eq(job->runs[0].groups[0].member_count, 2);
    vt_job_free(job);
}

/* ---- Out of memory ---- */

static void refuse(struct vt_job_process *process, uint64_t t_ns, bool ends_run)
{
    process->refusals = take(process, 1, sizeof *process->refusals);
    process->refusals[0] = (struct vt_job_refusal){
        .t_ns = t_ns, .asked_bytes = MIB, .ends_run = ends_run, .asker = "", .line = "", .file = ""};
    process->refusal_count = 1;
}

Test(job, who_fell_first_by_the_common_clock)
{
    struct made made = {0};
    struct vt_job *job;
    struct vt_job_process *other;

    for (int32_t rank = 0; rank < 5; rank++)
        add_line(add(&made, rank, 100 * MIB), "train.py:3 forward", 100 * MIB);
    refuse(&made.processes[1], 4 * SECOND, true); /* at 6 s: it began later */
    made.processes[1].start_realtime_ns += 2 * SECOND;
    refuse(&made.processes[2], 5 * SECOND, true);  /* at 5 s */
    refuse(&made.processes[3], 1 * SECOND, false); /* and it went on */
    other = &made.processes[4];                    /* waited for the others, and was killed */
    other->end_ns = 3 * SECOND;
    other->ended = other->complete = false;
    made.processes[2].devices[0].lines.items[0].bytes += 8 * MIB;
    made.processes[2].devices[0].shown.used_bytes += 8 * MIB;
    job = merge(&made);
    cr_assert_eq(job->fall_count, 5);
    cr_assert_eq(job->falls[0].process, 2);
    cr_assert_eq(job->falls[0].after_ns, 0);
    cr_assert_eq(job->falls[1].process, 4);
    cr_assert(job->falls[1].killed);
    cr_assert_eq(job->falls[1].after_ns, -2 * (int64_t)SECOND);
    cr_assert_eq(job->falls[2].process, 1);
    cr_assert_eq(job->falls[2].after_ns, (int64_t)SECOND);
    cr_assert(job->falls[2].refusal && !job->falls[3].refusal);
    cr_assert(job->falls[2].same_card && !job->falls[1].same_card);
    vt_job_free(job);
}

Test(job, the_first_that_fell_is_compared_with_what_its_neighbours_had_then)
{
    static const int32_t ranks[] = {0, 1, 3, 6};
    static const uint64_t own_ns[] = {5 * SECOND, 3 * SECOND, 3 * SECOND, 5 * SECOND};
    static const uint64_t bytes[] = {60 * MIB, 50 * MIB, 70 * MIB, 80 * MIB};
    struct made made = {0}, then = {0};
    struct vt_job_process *processes;
    struct vt_job *job;

    for (int32_t rank = 0; rank < 7; rank++)
        add_level(add(&made, rank, (100 + (uint64_t)rank) * MIB), SECOND, (uint64_t)(1 + rank) * MIB);
    processes = made.processes;
    add_line(&processes[2], "train.py:3 forward", 110 * MIB);
    processes[2].devices[0].shown.used_bytes = 110 * MIB;
    refuse(&processes[2], 5 * SECOND, true);
    processes[1].start_realtime_ns += 2 * SECOND;
    processes[3].end_ns = 3 * SECOND; /* waited for the others, and was killed */
    processes[3].ended = processes[3].complete = false;
    processes[4].end_ns = 4 * SECOND;             /* ended in order before */
    processes[5].start_realtime_ns += 6 * SECOND; /* began after it */
    job = merge(&made);

    cr_assert_eq(job->neighbour_count, 4);
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(job->processes[job->neighbours[i].process].rank, ranks[i]);
        cr_assert_eq(job->neighbours[i].own_ns, own_ns[i]);
        add_line(add(&then, 0, bytes[i]), "train.py:3 forward", bytes[i]);
    }
    for (size_t i = 0; i < 3; i++) /* the last could not be read */
        job->neighbours[i].then = then.processes[i];
    vt_job_process_free(&then.processes[3]);
    free(then.processes);
    vt_job_compare_first(job);
    cr_assert_eq(job->neighbour_count, 3);
    cr_assert_eq(job->first_odd_count, 1);
    cr_assert_eq(job->first_odd->bytes, 110 * MIB);
    cr_assert_eq(job->first_odd->usual_bytes, 60 * MIB);
    cr_assert_eq(job->first_odd->usual_peak_bytes, 101 * MIB);
    cr_assert_eq(job->first_odd->lines.items[0].usual_bytes, 60 * MIB);
    /* what was on its card then: the killed one's too, not of those that had ended or had not begun */
    cr_assert_eq(job->first_card_count, 1);
    cr_assert_eq(job->first_card->most_bytes, (1 + 2 + 3 + 4 + 7) * MIB);
    cr_assert_eq(job->first_card->holders[0].bytes, 7 * MIB);
    vt_job_free(job);
}

/* ---- Clocks ---- */

/* Four ranks on two nodes, with ten steps of a second; node1's clock is so far ahead. On it rank 3 fails at
 * the eighth second, on node0 rank 0 at the ninth. */
static struct vt_job *on_two_nodes(int64_t ahead_ns, uint64_t jitter_ns, uint32_t steps_of_others)
{
    struct made made = {0};

    for (int32_t rank = 0; rank < 4; rank++) {
        struct vt_job_process *process = add(&made, rank, 100 * MIB);

        add_parameter(process, "layers.0.w", "4x4", "");
        process->parent_pid = 50 + (uint32_t)rank / 2;
        process->step_count = rank < 2 ? 10 : steps_of_others;
        process->step_ns = take(process, 10, sizeof *process->step_ns);
        process->start_realtime_ns += (uint64_t)rank * SECOND / 4;
        for (process->step_start_count = 0; process->step_start_count < process->step_count;
             process->step_start_count++) {
            size_t step = process->step_start_count;

            process->step_ns[step] =
                (step + 1) * SECOND + step % 3 * (size_t)rank * jitter_ns / 3 - (uint64_t)rank * SECOND / 4;
        }
        if (rank >= 2) {
            process->host = "node1";
            process->start_realtime_ns += (uint64_t)ahead_ns;
        }
    }
    refuse(&made.processes[0], 9 * SECOND, true);
    refuse(&made.processes[3], 8 * SECOND - 3 * SECOND / 4, true);
    return merge(&made);
}

Test(job, a_clock_that_is_steps_ahead_is_corrected)
{
    for (int sign = -1; sign <= 1; sign += 2) {
        int64_t ahead_ns = sign * 12 * (int64_t)SECOND + (int64_t)SECOND / 2;
        struct vt_job *job = on_two_nodes(ahead_ns, SECOND / 100, 10);
        int64_t error_ns;

        cr_assert_eq(job->run_count, 1);
        cr_assert_eq(job->nodes[sign < 0 ? 0 : 1].host[4], '1');
        error_ns = job->nodes[sign < 0 ? 0 : 1].clock_ahead_ns - ahead_ns;
        cr_assert(error_ns >= -(int64_t)SECOND / 50 && error_ns <= (int64_t)SECOND / 50);
        cr_assert_eq(job->nodes[sign < 0 ? 1 : 0].clock_ahead_ns, 0);
        cr_assert(job->clock_corrected);
        cr_assert(strstr(job->clock,
                         sign > 0 ? "node1's was 12.5 s ahead, within 1.0" : "node1's was 11.5 s behind"),
                  "%s", job->clock);
        cr_assert_eq(job->falls[0].process, 3);
        for (size_t i = 0; i < 4; i++) { /* as they would have been by one clock */
            int64_t apart_ns = (int64_t)(job->processes[i].start_ns - i * SECOND / 4);

            cr_assert(apart_ns >= -(int64_t)SECOND / 50 && apart_ns <= (int64_t)SECOND / 50);
        }
        cr_assert(job->duration_ns <= 11 * SECOND);
        vt_job_free(job);
    }
}

Test(job, a_clock_that_steps_do_not_prove_wrong_is_left_alone)
{
    /* by half a step; steps that are irregular; not the same number of them */
    struct vt_job *jobs[] = {on_two_nodes((int64_t)SECOND / 2, SECOND / 100, 10),
                             on_two_nodes(3 * (int64_t)SECOND / 2, SECOND, 10),
                             on_two_nodes(12 * (int64_t)SECOND, SECOND / 100, 9)};

    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        cr_assert_eq(jobs[i]->node_count, 2);
        cr_assert_eq(jobs[i]->nodes[0].clock_ahead_ns, 0);
        cr_assert_eq(jobs[i]->nodes[1].clock_ahead_ns, 0, "%zu", i);
        cr_assert(!jobs[i]->clock_corrected && strstr(jobs[i]->clock, "may differ"));
        vt_job_free(jobs[i]);
    }
}

Test(job, where_nobody_fell_there_is_no_fall)
{
    struct made made = {0};
    struct vt_job *job;

    add(&made, 0, MIB);
    refuse(add(&made, 1, MIB), SECOND, false);
    job = merge(&made);
    cr_assert_eq(job->fall_count, 0);
    vt_job_free(job);
}

/* ---- The timeline ---- */

Test(job, rows_are_on_one_clock)
{
    struct made made = {0};
    struct vt_job *job;
    struct vt_job_process *process = add(&made, 0, 0);
    struct vt_job_device *device = process->devices;

    add(&made, 1, 0)->start_realtime_ns = START - 10 * SECOND; /* so the job lasts 20 s */
    device->used_bytes = take(&made.processes[0], 2, sizeof(uint64_t));
    device->column_ns = take(&made.processes[0], 2, sizeof(uint64_t));
    device->column_count = 2;
    device->column_ns[1] = 5 * SECOND;
    device->used_bytes[0] = 3 * MIB;
    device->used_bytes[1] = 7 * MIB;
    job = merge(&made);
    cr_assert_eq(job->duration_ns, 20 * SECOND);
    cr_assert_eq(job->columns, VT_JOB_COLUMNS);
    cr_assert_eq(job->rows[0].used_bytes[VT_JOB_COLUMNS / 2 - 1], 0);
    cr_assert_eq(job->rows[0].used_bytes[VT_JOB_COLUMNS / 2], 3 * MIB);
    cr_assert_eq(job->rows[0].used_bytes[VT_JOB_COLUMNS * 3 / 4 - 1], 3 * MIB);
    cr_assert_eq(job->rows[0].used_bytes[VT_JOB_COLUMNS * 3 / 4], 7 * MIB);
    cr_assert_eq(job->rows[0].used_bytes[VT_JOB_COLUMNS - 1], 7 * MIB);
    vt_job_free(job);
}

/* ---- From traces ---- */

static void put_launch(struct builder *builder, const char *variables, size_t bytes)
{
    builder_raw(builder, VT_RECORD_LAUNCH, variables, (uint32_t)bytes);
}

static void read_process(struct builder *builder, struct vt_job_process *process)
{
    const struct vt_report_options options = {.device_index = -1,
                                              .groups = 1u << VT_BY_LINE,
                                              .shown_only = true,
                                              .timeline_columns = VT_JOB_OWN_COLUMNS};
    struct vt_trace *trace = builder_open(builder);
    struct vt_replay *replay;
    struct vt_attribution *attribution;
    struct vt_report *report;
    char error[512];

    replay = vt_replay_make(trace);
    cr_assert_eq(vt_attribute(trace, replay, NULL, &attribution, error, sizeof error), 0);
    cr_assert_eq(vt_report_make(attribution, &options, &report, error, sizeof error), 0);
    vt_diagnose(report, VT_FIND_LEAKS);
    vt_job_process_read(report, process);
    vt_report_free(report);
    vt_attribution_free(attribution);
    vt_replay_free(replay);
    vt_trace_close(trace);
}

static void check_launch(const char *variables, size_t bytes, const char *launcher, int32_t rank,
                         int32_t local_rank, int32_t world_size)
{
    struct builder *builder = builder_new(64);
    struct vt_job_process process;

    builder_device(builder, 0, 1000 * MIB, "card");
    put_launch(builder, variables, bytes);
    builder_event(
        builder,
        (struct vt_event){.kind = VT_EVENT_ALLOC, .layer = VT_LAYER_DRIVER, .address = 4096, .bytes = MIB});
    read_process(builder, &process);
    if (launcher)
        cr_assert_str_eq(process.launcher, launcher);
    else
        cr_assert_null(process.launcher);
    cr_assert_eq(process.rank, rank);
    cr_assert_eq(process.local_rank, local_rank);
    cr_assert_eq(process.world_size, world_size);
    cr_assert_eq(process.devices[0].driver_peak_bytes, MIB);
    vt_job_process_free(&process);
    builder_free(builder);
}
#define CHECK_LAUNCH(variables, ...) check_launch(variables, sizeof variables, __VA_ARGS__)

Test(job, launchers)
{
    CHECK_LAUNCH("RANK=3\0LOCAL_RANK=1\0WORLD_SIZE=8\0TORCHELASTIC_RUN_ID=none", "torchrun", 3, 1, 8);
    CHECK_LAUNCH("RANK=3\0LOCAL_RANK=1\0WORLD_SIZE=8\0TORCHELASTIC_RUN_ID=x\0ACCELERATE_MIXED_PRECISION=no",
                 "accelerate", 3, 1, 8);
    CHECK_LAUNCH("RANK=3\0WORLD_SIZE=8", "environment", 3, -1, 8);
    CHECK_LAUNCH("RANK=2\0LOCAL_RANK=2\0WORLD_SIZE=4\0CROSS_RANK=0", "DeepSpeed", 2, 2, 4);
    CHECK_LAUNCH("SLURM_JOB_ID=9\0SLURM_STEP_ID=0\0SLURM_PROCID=5\0SLURM_LOCALID=1\0SLURM_STEP_NUM_TASKS=6",
                 "Slurm", 5, 1, 6);
    CHECK_LAUNCH("OMPI_COMM_WORLD_RANK=1\0OMPI_COMM_WORLD_LOCAL_RANK=0\0OMPI_COMM_WORLD_SIZE=2", "Open MPI",
                 1, 0, 2);
    CHECK_LAUNCH("PMI_RANK=1\0PMI_SIZE=2\0MPI_LOCALRANKID=1", "MPI", 1, 1, 2);
    /* torchrun within a step of Slurm: the inner one counts */
    CHECK_LAUNCH(
        "SLURM_STEP_ID=0\0SLURM_PROCID=1\0RANK=12\0LOCAL_RANK=4\0WORLD_SIZE=16\0TORCHELASTIC_RUN_ID=7",
        "torchrun", 12, 4, 16);
}

Test(job, what_is_no_rank)
{
    CHECK_LAUNCH("SLURM_JOB_ID=9\0SLURM_PROCID=0\0SLURM_NTASKS=8", NULL, -1, -1, -1); /* a batch script */
    CHECK_LAUNCH("RANK=-1\0WORLD_SIZE=8", NULL, -1, -1, -1);
    CHECK_LAUNCH("RANK=99999999999999999999\0WORLD_SIZE=8", NULL, -1, -1, -1);
    CHECK_LAUNCH("RANK=\0WORLD_SIZE", NULL, -1, -1, -1);
    CHECK_LAUNCH("\0\0=\0=x", NULL, -1, -1, -1);
}

Test(job, records_that_end_early)
{
    struct builder *builder = builder_new(64);
    struct vt_trace *trace;
    const uint32_t device[6] = {3};

    builder_raw(builder, VT_RECORD_LAUNCH, "RANK=1", 6);    /* without a NUL */
    builder_raw(builder, VT_RECORD_DEVICE_UUID, device, 8); /* no room for the UUID */
    builder_raw(builder, VT_RECORD_DEVICE_UUID, (const uint32_t[6]){99}, 24);
    builder_raw(builder, VT_RECORD_DEVICE_UUID, device, 24);
    builder_event(
        builder,
        (struct vt_event){.kind = VT_EVENT_ALLOC, .layer = VT_LAYER_DRIVER, .address = 4096, .bytes = MIB});
    trace = builder_open(builder);
    cr_assert_eq(trace->launch_count, 1);
    cr_assert_str_eq(trace->launch[0].value, "1");
    cr_assert_eq(trace->device_count, 1);
    cr_assert_eq(trace->devices[0].index, 3);
    cr_assert(trace->devices[0].has_uuid);
    vt_trace_close(trace);
    builder_free(builder);
}
