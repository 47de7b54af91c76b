/* Memory that several processes of a job have: one allocation, made by one of them and imported by others. */
#include "job/shared.h"

#include "base/allocate.h"
#include "base/index.h"
#include "base/sort.h"
#include "job/job_maker.h"

#include <stdlib.h>

/* A share, with its process; times are the job's. */
struct seen {
    const struct vt_job_share *share; /* NULL: it is reported with another */
    uint32_t process, node;
    uint64_t identity, begin_ns, end_ns;
};

/* Equal identities beside each other, those that made the memory before those that import it. */
static int by_identity(const void *left, const void *right)
{
    const struct seen *a = left, *b = right;

    return 16 * vt_order(a->node, b->node) + 8 * vt_order(a->identity, b->identity) +
           4 * vt_order(a->share->is_foreign, b->share->is_foreign) + 2 * vt_order(a->begin_ns, b->begin_ns) +
           vt_order(a->process, b->process);
}

static int by_bytes(const void *left, const void *right)
{
    const struct vt_job_shared *a = left, *b = right;

    return 4 * vt_order(b->bytes, a->bytes) + 2 * vt_order(a->owner, b->owner) +
           vt_order_signed(a->line_number, b->line_number);
}

/* A handle's bytes may be used again when the memory they named is gone: its lifetime shows which one is
 * meant. */
static bool is_same(const struct seen *made, const struct seen *imported)
{
    return made->node == imported->node && made->identity == imported->identity &&
           made->begin_ns <= imported->end_ns && imported->begin_ns <= made->end_ns;
}

/* If several may be meant: the one that was made last before the import. */
static bool is_of(const struct seen *made, const struct seen *imported, const struct seen *end)
{
    const struct seen *later = made + 1;

    return is_same(made, imported) && !(later < end && later->share && !later->share->is_foreign &&
                                        later->begin_ns <= imported->begin_ns && is_same(later, imported));
}

static void add_user(struct vt_job_shared *shared, uint32_t process)
{
    for (size_t i = 0; i < shared->user_count; i++)
        if (shared->users[i] == process)
            return;
    shared->users[shared->user_count++] = process;
}

/* The allocation of `first`, with all those in [first, end) that imported it and are not yet reported. */
static void make_shared(struct vt_job_maker *maker, struct seen *first, const struct seen *end)
{
    const struct vt_job_share *share = first->share;
    struct vt_job_shared *shared = &maker->job.shared[maker->job.shared_count];

    *shared = (struct vt_job_shared){
        .has_owner = !share->is_foreign,
        .owner = share->is_foreign ? VT_JOB_NONE : first->process,
        .device_index = share->device_index,
        .bytes = share->bytes,
        .line = share->line,
        .file = share->file,
        .line_number = share->line_number,
        .users = vt_job_take(&maker->arena, (size_t)(end - first), sizeof *shared->users)};
    for (struct seen *other = first; other < end; other++)
        if (other->share && other->share->is_foreign && is_of(first, other, end)) {
            add_user(shared, other->process);
            if (other != first)
                other->share = NULL;
        }
    maker->job.shared_count += shared->user_count > 0;
}

static size_t list_shares(const struct vt_job *job, struct seen *seen)
{
    size_t count = 0;

    for (uint32_t i = 0; i < job->process_count; i++)
        for (size_t k = 0; k < job->processes[i].share_count; k++) {
            const struct vt_job_share *share = &job->processes[i].shares[k];

            seen[count++] = (struct seen){.share = share,
                                          .process = i,
                                          .node = job->processes[i].node,
                                          .identity = share->identity,
                                          .begin_ns = job->processes[i].start_ns + share->begin_ns,
                                          .end_ns = share->end_ns == UINT64_MAX
                                                        ? UINT64_MAX
                                                        : job->processes[i].start_ns + share->end_ns};
        }
    return count;
}

void vt_job_find_shared(struct vt_job_maker *maker)
{
    struct vt_job *job = &maker->job;
    struct seen *seen;
    size_t count = 0;

    for (size_t i = 0; i < job->process_count; i++)
        count += job->processes[i].share_count;
    seen = vt_allocate((count + 1) * sizeof *seen);
    job->shared = vt_job_take(&maker->arena, count, sizeof *job->shared);
    count = list_shares(job, seen);
    vt_sort(seen, count, sizeof *seen, by_identity);
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first;
             end < count && seen[end].node == seen[first].node && seen[end].identity == seen[first].identity;)
            end++;
        for (size_t i = first; i < end; i++)
            if (seen[i].share)
                make_shared(maker, &seen[i], &seen[end]);
    }
    free(seen);
    vt_sort(job->shared, job->shared_count, sizeof *job->shared, by_bytes);
}
