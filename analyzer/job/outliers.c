/* Which process of those that do the same work differs, and by what. */
#include "job/outliers.h"

#include "base/allocate.h"
#include "base/index.h"
#include "base/module_names.h"
#include "base/sort.h"
#include "job/job_maker.h"
#include "job/modules.h"

#include <stdlib.h>
#include <string.h>

/* A process stands out by at least this part of what is usual, and this much. */
#define ODD_PART 20u
#define ODD_BYTES UINT64_C(1048576)
/* ... and by this many times what its group differs anyway, where it has three members or more. */
#define ODD_TIMES 4u
#define ODD_MOST 8u
#define DIFFERENCES 100u

const struct vt_job_device *vt_job_main_device(const struct vt_job_process *process)
{
    const struct vt_job_device *main = NULL;

    for (size_t i = 0; i < process->device_count; i++)
        if (!main || process->devices[i].shown.used_bytes > main->shown.used_bytes)
            main = &process->devices[i];
    return main;
}

static uint64_t bytes_of(const struct vt_job_process *process)
{
    const struct vt_job_device *device = vt_job_main_device(process);

    return device ? device->shown.used_bytes : 0;
}

/* ---- Differences ---- */

static int by_distance(const void *left, const void *right)
{
    const struct vt_job_difference *a = left, *b = right;
    uint64_t of_a = vt_distance(a->bytes, a->usual_bytes), of_b = vt_distance(b->bytes, b->usual_bytes);

    return of_a != of_b ? vt_order(of_b, of_a) : 2 * strcmp(a->name, b->name) + vt_order(a->phase, b->phase);
}

/* Those to compare with, and space for one number of each. */
struct others {
    const struct vt_job_device *const *devices;
    const struct vt_job_parts **parts; /* modules or lines of each */
    uint64_t *values;
    size_t count;
};

static uint64_t part_bytes(const struct vt_job_parts *parts, const struct vt_job_part *part)
{
    const struct vt_job_part *found = vt_job_find_part(parts, part->name, part->phase);

    return found ? found->bytes : 0;
}

/* Differences while they are found. */
struct list {
    struct vt_job_difference *items;
    size_t count, capacity;
};

static void add_difference(struct list *list, const struct others *others, const struct vt_job_part *part,
                           uint64_t bytes)
{
    uint64_t usual = vt_median(others->values, others->count);

    if (bytes == usual)
        return;
    VT_APPEND(list->items, list->count, list->capacity,
              (struct vt_job_difference){.name = part->name,
                                         .file = part->file,
                                         .line = part->line,
                                         .phase = part->phase,
                                         .category = part->category,
                                         .bytes = bytes,
                                         .usual_bytes = usual});
}

/* Modules that differ only in their numbers, as one: each step of a model's depth differs alike. */
static void fold_modules(struct vt_job_maker *maker, struct list *list)
{
    struct vt_job_difference *items = list->items;
    struct vt_index index = {0};
    size_t kept = 0;

    for (size_t i = 0; i < list->count; i++) {
        char pattern[256];
        bool has = vt_module_pattern(items[i].name, strlen(items[i].name), pattern, sizeof pattern) &&
                   strchr(pattern, '*');
        uint64_t hash = vt_hash_bytes(has ? pattern : items[i].name, strlen(has ? pattern : items[i].name),
                                      VT_HASH_START);
        uint32_t at = vt_index_add(&index, hash, (uint32_t)kept);

        if (at == kept) {
            items[kept++] = items[i];
            continue;
        }
        if (items[at].name[0] && !strchr(items[at].name, '*'))
            items[at].name = vt_job_copy(&maker->arena, pattern);
        items[at].bytes += items[i].bytes;
        items[at].usual_bytes += items[i].usual_bytes;
    }
    vt_index_free(&index);
    list->count = kept;
}

static struct vt_job_differences keep_largest(struct vt_job_maker *maker, struct list list)
{
    struct vt_job_differences kept = {.count = list.count < DIFFERENCES ? list.count : DIFFERENCES};

    vt_sort(list.items, list.count, sizeof *list.items, by_distance);
    kept.items = vt_job_copy_items(&maker->arena, list.items, kept.count, sizeof *kept.items);
    free(list.items);
    return kept;
}

/* Every name that the process or one of the others has. */
static struct list compare_parts(const struct vt_job_parts *own, const struct others *others)
{
    struct vt_job_part *names = NULL;
    size_t name_count = 0, capacity = 0;
    struct list list = {0};

    for (size_t i = 0; i <= others->count; i++) {
        const struct vt_job_parts *parts = i ? others->parts[i - 1] : own;

        for (size_t k = 0; k < parts->count; k++)
            VT_APPEND(names, name_count, capacity, parts->items[k]);
    }
    vt_sort(names, name_count, sizeof *names, vt_job_compare_parts);
    for (size_t i = 0; i < name_count; i++) {
        if (i && !vt_job_compare_parts(&names[i - 1], &names[i]))
            continue;
        for (size_t k = 0; k < others->count; k++)
            others->values[k] = part_bytes(others->parts[k], &names[i]);
        add_difference(&list, others, &names[i], part_bytes(own, &names[i]));
    }
    free(names);
    return list;
}

static struct vt_job_differences compare_lines(struct vt_job_maker *maker, const struct vt_job_device *device,
                                               const struct others *others)
{
    for (size_t i = 0; i < others->count; i++)
        others->parts[i] = &others->devices[i]->lines;
    return keep_largest(maker, compare_parts(&device->lines, others));
}

/* A process without names has classes as its modules, which cannot be compared with names. */
static bool has_names(const struct vt_job *job, uint32_t process)
{
    const struct vt_job_run *run = &job->runs[job->processes[process].run];
    bool any = false;

    for (size_t i = 0; i < run->member_count; i++)
        any |= job->processes[run->members[i]].parameter_count > 0;
    return !any || job->processes[process].parameter_count > 0;
}

static struct vt_job_differences compare_modules(struct vt_job_maker *maker, uint32_t process,
                                                 const struct vt_job_device *device,
                                                 const struct others *others)
{
    const struct vt_job_device **devices = vt_allocate_zeros(others->count + 1, sizeof *devices);
    struct vt_job_parts *aligned = vt_allocate_zeros(others->count + 1, sizeof *aligned);
    struct list list = {0};

    devices[others->count] = device;
    if (others->count)
        memcpy(devices, others->devices, others->count * sizeof *devices);
    vt_job_align_modules(maker, devices, others->count + 1, aligned);
    for (size_t i = 0; i < others->count; i++)
        others->parts[i] = &aligned[i];
    if (has_names(&maker->job, process))
        list = compare_parts(&aligned[others->count], others);
    fold_modules(maker, &list);
    free(devices);
    free(aligned);
    return keep_largest(maker, list);
}

static struct vt_job_differences compare_categories(struct vt_job_maker *maker,
                                                    const struct vt_job_device *device,
                                                    const struct others *others)
{
    struct list list = {0};

    for (uint8_t c = 0; c < VT_CATEGORY_COUNT; c++) {
        const struct vt_job_part part = {.name = vt_category_name(c), .file = "", .category = c};

        if (c == VT_CATEGORY_CACHED || c == VT_CATEGORY_CONTEXT || c == VT_CATEGORY_HOST_PINNED)
            continue;
        for (size_t k = 0; k < others->count; k++)
            others->values[k] = others->devices[k]->shown.categories[c];
        add_difference(&list, others, &part, device->shown.categories[c]);
    }
    return keep_largest(maker, list);
}

void vt_job_compare(struct vt_job_maker *maker, uint32_t process, const struct vt_job_device *device,
                    const struct vt_job_device *const *other_devices, size_t other_count,
                    struct vt_job_odd *odd)
{
    struct others others = {.devices = other_devices,
                            .parts = vt_allocate_zeros(other_count + 1, sizeof *others.parts),
                            .values = vt_allocate_zeros(other_count + 1, sizeof *others.values),
                            .count = other_count};

    *odd = (struct vt_job_odd){
        .process = process, .device_index = device->index, .bytes = device->shown.used_bytes};
    for (size_t i = 0; i < other_count; i++)
        others.values[i] = other_devices[i]->shown.used_bytes;
    odd->usual_bytes = vt_median(others.values, others.count);
    odd->categories = compare_categories(maker, device, &others);
    odd->modules = compare_modules(maker, process, device, &others);
    odd->lines = compare_lines(maker, device, &others);
    free(others.parts);
    free(others.values);
}

/* ---- Who stands out ---- */

static int by_oddness(const void *left, const void *right)
{
    const struct vt_job_odd *a = left, *b = right;
    uint64_t of_a = vt_distance(a->bytes, a->usual_bytes), of_b = vt_distance(b->bytes, b->usual_bytes);

    return of_a != of_b ? vt_order(of_b, of_a) : vt_order(a->process, b->process);
}

/* Of two members, the larger: nothing says which of them is usual. Of more, all that are far from the
 * median, if the others are near it. */
static bool is_odd(const struct vt_job *job, const struct vt_job_group *group, uint32_t process,
                   uint64_t usual_distance)
{
    uint64_t bytes = bytes_of(&job->processes[process]), least = group->median_bytes / ODD_PART,
             far = vt_distance(bytes, group->median_bytes);

    least = least < ODD_BYTES ? ODD_BYTES : least;
    if (group->member_count == 2)
        return process == group->most_process && far >= least;
    return far >= least && far / ODD_TIMES >= usual_distance;
}

/* With all members, itself among them; of two, with the other. */
static void compare_with_group(struct vt_job_maker *maker, const struct vt_job_group *group,
                               struct vt_job_odd *odd)
{
    const struct vt_job *job = &maker->job;
    const struct vt_job_device **others = vt_allocate_zeros(group->member_count, sizeof *others);
    size_t count = 0;

    for (size_t i = 0; i < group->member_count; i++) {
        const struct vt_job_device *device = vt_job_main_device(&job->processes[group->members[i]]);

        if (device && (group->member_count > 2 || group->members[i] != odd->process))
            others[count++] = device;
    }
    vt_job_compare(maker, odd->process, vt_job_main_device(&job->processes[odd->process]), others, count,
                   odd);
    free(others);
}

static void find_odd(struct vt_job_maker *maker, struct vt_job_group *group)
{
    const struct vt_job *job = &maker->job;
    uint64_t *values = vt_allocate_zeros(group->member_count, sizeof *values), usual;

    group->odd = vt_job_take(&maker->arena, group->member_count, sizeof *group->odd);
    for (size_t i = 0; i < group->member_count; i++)
        values[i] = vt_distance(bytes_of(&job->processes[group->members[i]]), group->median_bytes);
    usual = vt_median(values, group->member_count);
    free(values);
    for (size_t i = 0; i < group->member_count; i++) {
        const struct vt_job_process *process = &job->processes[group->members[i]];

        if (vt_job_main_device(process) && is_odd(job, group, group->members[i], usual))
            group->odd[group->odd_count++] = (struct vt_job_odd){
                .process = group->members[i], .bytes = bytes_of(process), .usual_bytes = group->median_bytes};
    }
    vt_sort(group->odd, group->odd_count, sizeof *group->odd, by_oddness);
    group->odd_count = group->odd_count < ODD_MOST ? group->odd_count : ODD_MOST;
    for (size_t i = 0; i < group->odd_count; i++)
        compare_with_group(maker, group, &group->odd[i]);
}

/* Median, most and imbalance of some processes. */
static void measure_members(const struct vt_job *job, const uint32_t *members, size_t count, uint64_t *median,
                            uint64_t *most, uint32_t *most_process, double *imbalance)
{
    uint64_t *values = vt_allocate_zeros(count + 1, sizeof *values);

    *most_process = count ? members[0] : 0;
    for (size_t i = 0; i < count; i++) {
        values[i] = bytes_of(&job->processes[members[i]]);
        if (values[i] > *most) {
            *most = values[i];
            *most_process = members[i];
        }
    }
    *median = vt_median(values, count);
    *imbalance = *median ? (double)*most / (double)*median : 0;
    free(values);
}

void vt_job_find_outliers(struct vt_job_maker *maker)
{
    struct vt_job *job = &maker->job;

    for (size_t r = 0; r < job->run_count; r++) {
        struct vt_job_run *run = &job->runs[r];

        measure_members(job, run->members, run->member_count, &run->median_bytes, &run->most_bytes,
                        &run->most_process, &run->imbalance);
        for (size_t g = 0; g < run->group_count; g++) {
            struct vt_job_group *group = &run->groups[g];

            measure_members(job, group->members, group->member_count, &group->median_bytes,
                            &group->most_bytes, &group->most_process, &group->imbalance);
            find_odd(maker, group);
        }
    }
}
