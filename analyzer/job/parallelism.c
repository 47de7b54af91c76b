/* How the ranks of a run share the work, by the names and sizes of their parameters: stages of a pipeline
 * have different modules, shards different shapes, replicas the same of both. Without evidence it stays
 * unknown. */
#include "job/parallelism.h"

#include "base/allocate.h"
#include "base/hash.h"
#include "base/index.h"
#include "base/memory_stream.h"
#include "base/sort.h"
#include "job/job_maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Ranks with the same names ---- */

/* Ranks whose parameters have the same names. */
struct cluster {
    uint64_t names;          /* hash of them */
    uint32_t representative; /* process */
    uint32_t group;
};

struct clusters {
    struct cluster *items;
    size_t count;
    uint32_t *of; /* by member of the run */
};

static uint64_t hash_names(const struct vt_job_process *process)
{
    uint64_t hash = VT_HASH_START;

    for (size_t i = 0; i < process->parameter_count; i++)
        hash = vt_hash_bytes(process->parameters[i].name, strlen(process->parameters[i].name) + 1, hash);
    return hash;
}

/* Walks the parameters of two processes, which are sorted, from name to name that both have. */
struct pair {
    const struct vt_job_process *a, *b;
    size_t next_a, next_b;
    const struct vt_job_parameter *one, *other; /* of the same name */
};

static bool next_pair(struct pair *pair)
{
    int order = 1;

    while (order && pair->next_a < pair->a->parameter_count && pair->next_b < pair->b->parameter_count) {
        pair->one = &pair->a->parameters[pair->next_a];
        pair->other = &pair->b->parameters[pair->next_b];
        order = strcmp(pair->one->name, pair->other->name);
        pair->next_a += order <= 0;
        pair->next_b += order >= 0;
    }
    return !order;
}

static size_t shared_names(const struct vt_job_process *a, const struct vt_job_process *b)
{
    struct pair pair = {.a = a, .b = b};
    size_t shared = 0;

    while (next_pair(&pair))
        shared++;
    return shared;
}

/* Parameters that an inspection saw to be parts of larger ones. */
static const struct vt_job_parameter *find_part(const struct vt_job_process *process, size_t *count)
{
    const struct vt_job_parameter *first = NULL;

    *count = 0;
    for (size_t i = 0; i < process->parameter_count; i++) {
        const struct vt_job_parameter *parameter = &process->parameters[i];

        if (!parameter->whole_shape[0] || !strcmp(parameter->whole_shape, parameter->shape))
            continue;
        first = first ? first : parameter;
        (*count)++;
    }
    return first;
}

/* Gathers what no parameter is marked as a part of: its share of several parameters in one piece, where some
 * lie whole and others not at all (FSDP with use_orig_params). */
static bool has_flat_share(const struct vt_job_process *process)
{
    size_t parts;

    return process->gathers && !find_part(process, &parts);
}

/* Half of the smaller one's names: a tied embedding on both ends of a pipeline makes no group of them. */
static bool are_alike(const struct vt_job_process *a, const struct vt_job_process *b)
{
    size_t smaller = a->parameter_count < b->parameter_count ? a->parameter_count : b->parameter_count;

    return shared_names(a, b) * 2 >= smaller || (has_flat_share(a) && has_flat_share(b));
}

/* Ranks of one name are alike already. Those without names (killed before an inspection saw their parameters,
 * say) have no modules that differ: where all others do the same work, they are taken for alike. */
static void group_clusters(const struct vt_job_process *processes, struct clusters *clusters,
                           uint32_t *group_count)
{
    struct cluster *items = clusters->items, *unnamed = NULL;

    *group_count = 0;
    for (size_t i = 0; i < clusters->count; i++) {
        const struct vt_job_process *process = &processes[items[i].representative];

        if (!process->parameter_count) {
            unnamed = &items[i];
            continue;
        }
        for (size_t k = 0; k < i && items[i].group == UINT32_MAX; k++)
            if (&items[k] != unnamed && are_alike(&processes[items[k].representative], process))
                items[i].group = items[k].group;
        if (items[i].group == UINT32_MAX)
            items[i].group = (*group_count)++;
    }
    if (unnamed)
        unnamed->group = *group_count == 1 ? 0 : (*group_count)++;
}

static void find_clusters(struct vt_job_maker *maker, const struct vt_job_run *run, struct clusters *clusters,
                          uint32_t *group_count)
{
    const struct vt_job_process *processes = maker->job.processes;

    clusters->items = vt_job_take(&maker->arena, run->member_count, sizeof *clusters->items);
    clusters->of = vt_job_take(&maker->arena, run->member_count, sizeof *clusters->of);
    for (size_t i = 0; i < run->member_count; i++) {
        uint64_t names = hash_names(&processes[run->members[i]]);
        size_t at = 0;

        while (at < clusters->count && clusters->items[at].names != names)
            at++;
        if (at == clusters->count)
            clusters->items[clusters->count++] = (struct cluster){names, run->members[i], UINT32_MAX};
        clusters->of[i] = (uint32_t)at;
    }
    group_clusters(processes, clusters, group_count);
}

/* ---- Names of modules, for people ---- */

/* Up to and with the first level that is a number: "layers.3" of "layers.3.attn.weight"; without one, the
 * first level. */
static size_t unit_bytes(const char *name)
{
    for (const char *level = name; level && *level;
         level = strchr(level, '.'), level = level ? level + 1 : NULL) {
        size_t digits = strspn(level, "0123456789");

        if (digits && (level[digits] == '.' || !level[digits]))
            return (size_t)(level - name) + digits;
    }
    return strcspn(name, ".");
}

struct unit {
    char prefix[96]; /* "layers." */
    long number;     /* -1 = none */
};

static struct unit unit_of(const char *name)
{
    size_t bytes = unit_bytes(name), digits = 0;
    struct unit unit = {.number = -1};

    while (digits < bytes && name[bytes - 1 - digits] >= '0' && name[bytes - 1 - digits] <= '9')
        digits++;
    if (digits && (digits == bytes || name[bytes - 1 - digits] == '.'))
        unit.number = strtol(name + bytes - digits, NULL, 10);
    else
        digits = 0;
    snprintf(unit.prefix, sizeof unit.prefix, "%.*s", (int)(bytes - digits), name);
    return unit;
}

static int by_unit(const void *left, const void *right)
{
    const struct unit *a = left, *b = right;
    int order = strcmp(a->prefix, b->prefix);

    return order ? order : vt_order_signed(a->number, b->number);
}

/* "embed, layers.0–3": what a process has parameters of. */
static const char *list_modules(struct vt_job_maker *maker, const struct vt_job_process *process)
{
    struct unit *units = vt_allocate_zeros(process->parameter_count + 1, sizeof *units);
    char *text = NULL;
    size_t bytes;
    FILE *stream = vt_memory_stream(&text, &bytes);
    const char *copy;

    for (size_t i = 0; i < process->parameter_count; i++)
        units[i] = unit_of(process->parameters[i].name);
    vt_sort(units, process->parameter_count, sizeof *units, by_unit);
    for (size_t i = 0, last; i < process->parameter_count; i = last + 1) {
        for (last = i; last + 1 < process->parameter_count &&
                       !strcmp(units[last + 1].prefix, units[i].prefix) &&
                       units[last + 1].number <= units[last].number + 1;)
            last++;
        fprintf(stream, "%s%s", i ? ", " : "", units[i].prefix);
        if (units[i].number >= 0)
            fprintf(stream, "%ld", units[i].number);
        if (units[last].number > units[i].number)
            fprintf(stream, "–%ld", units[last].number);
    }
    fclose(stream);
    copy = vt_job_copy(&maker->arena, text);
    free(units);
    free(text);
    return copy;
}

/* ---- What a group is ---- */

/* Two processes' first parameter of one name and different shapes; and how many there are. */
struct shards {
    const struct vt_job_parameter *one, *other;
    uint32_t of_one, of_other;
    size_t count, whole;
};

static void compare_shapes(const struct vt_job *job, uint32_t a, uint32_t b, struct shards *shards)
{
    struct pair pair = {.a = &job->processes[a], .b = &job->processes[b]};
    size_t count = 0;

    while (next_pair(&pair)) {
        if (!strcmp(pair.one->shape, pair.other->shape))
            continue;
        if (!shards->one)
            *shards = (struct shards){.one = pair.one, .other = pair.other, .of_one = a, .of_other = b};
        count++;
    }
    shards->count = count > shards->count ? count : shards->count;
}

static bool any_gathers(const struct vt_job *job, const struct vt_job_group *group)
{
    for (size_t i = 0; i < group->member_count; i++)
        if (job->processes[group->members[i]].gathers)
            return true;
    return false;
}

/* The first that an inspection saw parameters of, else the first. */
static uint32_t first_named(const struct vt_job *job, const struct vt_job_group *group)
{
    for (size_t i = 0; i < group->member_count; i++)
        if (job->processes[group->members[i]].parameter_count)
            return group->members[i];
    return group->members[0];
}

/* How many parameters of `first` every rank with names has too. */
static size_t count_common(const struct vt_job *job, const struct vt_job_group *group,
                           const struct vt_job_process *first)
{
    size_t *had_by = vt_allocate_zeros(first->parameter_count + 1, sizeof *had_by), named = 0, common = 0;

    for (size_t m = 0; m < group->member_count; m++) {
        const struct vt_job_process *process = &job->processes[group->members[m]];
        struct pair pair = {.a = first, .b = process};

        named += process->parameter_count > 0;
        while (next_pair(&pair))
            had_by[pair.one - first->parameters]++;
    }
    for (size_t i = 0; i < first->parameter_count; i++)
        common += had_by[i] == named;
    free(had_by);
    return common;
}

/* "; rank 0 has 43 more; not inspected: rank 3", or "". */
static const char *describe_rest(struct vt_job_maker *maker, const struct vt_job_group *group, size_t common)
{
    const struct vt_job_process *most = NULL, *unseen = NULL;
    size_t more = 0, unseen_count = 0;
    const char *text = "";

    for (size_t i = 0; i < group->member_count; i++) {
        const struct vt_job_process *process = &maker->job.processes[group->members[i]];

        more += process->parameter_count > common;
        if (process->parameter_count > (most ? most->parameter_count : common))
            most = process;
        unseen = !process->parameter_count && !unseen ? process : unseen;
        unseen_count += !process->parameter_count;
    }
    if (most)
        text = vt_job_print(&maker->arena, "; %s has %zu more", most->label, most->parameter_count - common);
    if (more > 1)
        text = vt_job_print(&maker->arena, "%s, and others have more", text);
    if (unseen)
        text = vt_job_print(&maker->arena, "%s; not inspected: %s", text, unseen->label);
    if (unseen_count > 1)
        text = vt_job_print(&maker->arena, "%s and %zu more", text, unseen_count - 1);
    return text;
}

/* ", and each has 1/8 of the optimizer's state", or "". */
static const char *describe_state(struct vt_job_maker *maker, const struct vt_job_group *group)
{
    const uint64_t ranks = group->member_count;

    for (size_t i = 0; i < ranks; i++) {
        const struct vt_job_process *process = &maker->job.processes[group->members[i]];
        const uint64_t all = process->parameter_elements, of_ranks = process->state_elements * ranks;

        if (!process->state_elements || of_ranks < all - all / 20 || of_ranks > all + all / 20)
            return "";
    }
    return vt_job_print(&maker->arena, ", and each has 1/%llu of the optimizer's state",
                        (unsigned long long)ranks);
}

static const char *describe_copies(struct vt_job_maker *maker, const struct vt_job_group *group,
                                   const struct vt_job_process *first)
{
    const size_t common = count_common(&maker->job, group, first);
    const char *rest = describe_rest(maker, group, common);

    return vt_job_print(&maker->arena,
                        "%s%zu parameters have the same names and shapes on each rank: replicas, or "
                        "equal shards%s%s",
                        *rest ? "" : "all ", common, rest, describe_state(maker, group));
}

/* Without ranks, processes with the same names may be trials of a search over settings. */
static void judge_apart(struct vt_job_maker *maker, struct vt_job_group *group,
                        const struct vt_job_process *first)
{
    group->layout = VT_LAYOUT_UNKNOWN;
    group->basis =
        vt_job_print(&maker->arena,
                     "they have %zu parameters with the same names, but there is no evidence that they "
                     "train one model together",
                     count_common(&maker->job, group, first));
}

/* Sets layout and basis of a group of several processes with names. */
static void judge_group(struct vt_job_maker *maker, const struct vt_job_run *run, struct vt_job_group *group)
{
    const struct vt_job *job = &maker->job;
    const uint32_t first_index = first_named(job, group);
    const struct vt_job_process *first = &job->processes[first_index];
    struct shards shards = {0};
    size_t parts;
    const struct vt_job_parameter *part = find_part(first, &parts);
    const char *part_text = "";

    for (size_t i = 0; i < group->member_count; i++)
        compare_shapes(job, first_index, group->members[i], &shards);
    if (part) {
        part_text = vt_job_print(&maker->arena,
                                 "%zu of %zu parameters are shards of distributed tensors (%s: %s of %s)",
                                 parts, first->parameter_count, part->name, part->shape, part->whole_shape);
    } else if (shards.one) {
        part_text = vt_job_print(
            &maker->arena,
            "%zu of %zu parameters have the same name but different shapes (%s: %s on %s, %s on %s)",
            shards.count, first->parameter_count, shards.one->name, shards.one->shape,
            job->processes[shards.of_one].label, shards.other->shape, job->processes[shards.of_other].label);
    }
    if (!run->has_ranks && !part && !any_gathers(job, group)) {
        judge_apart(maker, group, first);
    } else if (any_gathers(job, group)) {
        group->layout = VT_LAYOUT_SHARDED;
        group->basis = vt_job_print(&maker->arena, "%s%sfull parameters are gathered while they are used",
                                    part_text, part_text[0] ? ", and " : "");
    } else if (part || shards.one) {
        group->layout = VT_LAYOUT_TENSOR;
        group->basis = vt_job_print(&maker->arena, "%s, and none is gathered", part_text);
    } else {
        group->layout = VT_LAYOUT_DATA;
        group->basis = describe_copies(maker, group, first);
    }
}

static void describe_group(struct vt_job_maker *maker, const struct vt_job_run *run,
                           struct vt_job_group *group)
{
    const struct vt_job_process *first = &maker->job.processes[first_named(&maker->job, group)];

    group->modules = list_modules(maker, first);
    group->basis = "";
    group->layout = VT_LAYOUT_SINGLE;
    if (group->member_count == 1)
        return;
    if (first->parameter_count) {
        judge_group(maker, run, group);
        return;
    }
    group->layout = VT_LAYOUT_UNKNOWN;
    group->basis = "their parameters were never inspected; they are assumed to be alike";
}

static void fill_groups(struct vt_job_maker *maker, struct vt_job_run *run, const struct clusters *clusters,
                        uint32_t group_count)
{
    run->groups = vt_job_take(&maker->arena, group_count, sizeof *run->groups);
    run->group_count = group_count;
    for (uint32_t g = 0; g < group_count; g++) {
        struct vt_job_group *group = &run->groups[g];

        group->members = vt_job_take(&maker->arena, run->member_count, sizeof *group->members);
        for (size_t i = 0; i < run->member_count; i++)
            if (clusters->items[clusters->of[i]].group == g)
                group->members[group->member_count++] = run->members[i];
        describe_group(maker, run, group);
    }
}

static void describe_run(struct vt_job_maker *maker, struct vt_job_run *run)
{
    struct clusters clusters = {0};
    uint32_t group_count;

    find_clusters(maker, run, &clusters, &group_count);
    fill_groups(maker, run, &clusters, group_count);
    run->layout = run->groups[0].layout;
    run->basis_of_layout = run->groups[0].basis;
    if (group_count > 1) {
        run->layout = VT_LAYOUT_PIPELINE;
        run->basis_of_layout = "the ranks have parameters in different modules";
    }
}

void vt_job_find_parallelism(struct vt_job_maker *maker)
{
    for (size_t i = 0; i < maker->job.run_count; i++)
        describe_run(maker, &maker->job.runs[i]);
}
