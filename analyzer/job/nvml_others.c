#include "job/nvml_others.h"

#include <stdlib.h>

void vt_gpu_others_free(struct vt_gpu_others *others)
{
    vt_index_free(&others->pids);
    vt_index_free(&others->tellings);
    vt_index_free(&others->firsts);
    free(others->processes);
    free(others->items);
    *others = (struct vt_gpu_others){0};
}

static void set_telling(struct vt_gpu_others *others, struct vt_gpu_telling *telling, uint64_t bytes)
{
    struct vt_gpu_other *process = &others->processes[telling->process];

    telling->bytes = bytes;
    others->bytes -= process->bytes;
    process->bytes = 0;
    for (uint32_t i = process->first; i != VT_INDEX_NONE; i = others->items[i].next_of_process)
        if (others->items[i].bytes > process->bytes)
            process->bytes = others->items[i].bytes;
    others->bytes += process->bytes;
}

static uint32_t find_process(struct vt_gpu_others *others, uint32_t pid)
{
    const struct vt_gpu_other made = {.first = VT_INDEX_NONE};
    uint32_t process = vt_index_add(&others->pids, pid, (uint32_t)others->process_count);

    if (process == others->process_count)
        VT_APPEND(others->processes, others->process_count, others->process_capacity, made);
    return process;
}

void vt_gpu_others_tell(struct vt_gpu_others *others, uint32_t user, uint32_t pid, uint64_t bytes)
{
    uint32_t process = find_process(others, pid),
             telling =
                 vt_index_add(&others->tellings, (uint64_t)user << 32 | process, (uint32_t)others->count);

    if (telling == others->count) {
        const struct vt_gpu_telling made = {.process = process,
                                            .next_of_process = others->processes[process].first,
                                            .next_of_user = vt_index_get(&others->firsts, user)};

        VT_APPEND(others->items, others->count, others->capacity, made);
        vt_index_put(&others->firsts, user, telling);
        others->processes[process].first = telling;
    }
    set_telling(others, &others->items[telling], bytes);
}

void vt_gpu_others_leave(struct vt_gpu_others *others, uint32_t user)
{
    for (uint32_t i = vt_index_get(&others->firsts, user); i != VT_INDEX_NONE;
         i = others->items[i].next_of_user)
        set_telling(others, &others->items[i], 0);
}
