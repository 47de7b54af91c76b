#include "record/nvml.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "clock.h"
#include "futex.h"
#include "guard.h"
#include "memory.h"
#include "record/nvml_read.h"
#include "thread.h"

enum { STOP_TURNS = 10, STOP_TURN_NS = 20000000, COST_SHARE = 100, SAMPLES_PER_DOUBLING = 1024 };
/* Late enough that short-lived processes never ask. */
#define FIRST_NS UINT64_C(200000000)
#define PERIOD_NS UINT64_C(1000000000)
/* After the process's own memory changed, or a request failed. */
#define SHORTEST_NS UINT64_C(100000000)

enum state {
    NONE,     /* not started */
    WAITS,    /* the thread waits */
    ASKED,    /* the thread is making the answer */
    ANSWERED, /* the answer is the writer's to take */
    ENDED     /* the thread has ended, or is about to */
};

struct vt_nvml {
    const struct vt_session *session;
    _Atomic int state; /* futex; enum state */
    _Atomic bool stopping;
    struct vt_buffer answer;
    uint64_t cost_ns; /* time that the answer took */
    /* Only the writer uses these: */
    uint64_t next_ns, earliest_ns, shortest_ns, hashes[VT_MAX_DEVICES];
    uint64_t polled_change, seen_change, seen_urgent; /* change: see change_of */
    uint64_t recorded;
    bool changed; /* when the pending answer was asked for, something had changed since the last one */
};

/* The process that loaded the library. A forked child has the library without its thread and descriptors, so
 * it gets no NVML. */
static _Atomic int loaded_in;

struct vt_nvml *vt_nvml_make(struct vt_session *session)
{
    struct rlimit space;
    if (!session->options.nvml || getrlimit(RLIMIT_AS, &space) || space.rlim_cur != RLIM_INFINITY ||
        atomic_load(&loaded_in))
        return NULL;
    struct vt_nvml *nvml = vt_memory_make(sizeof *nvml);
    if (!nvml)
        return NULL;
    nvml->session = session;
    nvml->shortest_ns = SHORTEST_NS;
    nvml->next_ns = vt_clock_ns(CLOCK_MONOTONIC) + FIRST_NS;
    return nvml;
}

/* ---- the thread ---- */

static bool has_uuid(const struct vt_top_device *device)
{
    static const uint8_t none[sizeof device->uuid];
    return memcmp(device->uuid, none, sizeof none) != 0;
}

static void query_gpus(struct vt_nvml *nvml, const struct vt_nvml_library *library, void **gpus)
{
    const uint64_t begin_ns = vt_clock_ns(CLOCK_MONOTONIC);
    const struct vt_top_counters *top = &nvml->session->ring.header->top;
    nvml->answer.bytes = 0;
    for (uint32_t i = 0; i < VT_MAX_DEVICES && !atomic_load(&nvml->stopping); i++) {
        if (!gpus[i] && has_uuid(&top->devices[i]))
            gpus[i] = vt_nvml_find_gpu(library, top->devices[i].uuid);
        if (gpus[i])
            vt_nvml_read(library, gpus[i], i, &nvml->answer);
    }
    nvml->cost_ns = vt_clock_ns(CLOCK_MONOTONIC) - begin_ns;
}

static void *sampler_main(void *context)
{
    struct vt_nvml *nvml = context;
    void *gpus[VT_MAX_DEVICES] = {0};
    vt_thread_begin();
    const struct vt_nvml_library *library = NULL;
    if (vt_part_from_descriptors()) {
        /* Fill 0, 1 and 2, so that the library does not write messages into files that it opens. */
        for (int i = 0; i < 3; i++)
            open("/dev/null", O_RDWR | O_CLOEXEC);
        library = vt_nvml_load();
    }
    while (library && !atomic_load(&nvml->stopping)) {
        const int state = atomic_load(&nvml->state);
        if (state == ASKED && !vt_sandbox_is_the_first())
            break;
        if (state == ASKED) {
            query_gpus(nvml, library, gpus);
            vt_futex_set(&nvml->state, ANSWERED);
        } else {
            vt_futex_wait(&nvml->state, (uint32_t)state, VT_NO_TIMEOUT);
        }
    }
    if (atomic_load(&nvml->state) != ANSWERED) /* otherwise the writer still has to take the answer */
        vt_futex_set(&nvml->state, ENDED);
    return NULL;
}

/* ---- the writer's side ---- */

static bool is_device_known(const struct vt_nvml *nvml)
{
    for (size_t i = 0; i < VT_MAX_DEVICES; i++)
        if (has_uuid(&nvml->session->ring.header->top.devices[i]))
            return true;
    return false;
}

/* A number that changes when the process's own memory changes. */
static uint64_t change_of(const struct vt_nvml *nvml)
{
    const struct vt_ring_header *ring = nvml->session->ring.header;
    uint64_t sum = ring->top.driver_made_bytes * 3;
    for (size_t i = 0; i < VT_MAX_DEVICES; i++)
        sum += __atomic_load_n(&ring->counters.live[i].driver_bytes, __ATOMIC_RELAXED) * (2 * i + 5);
    return sum;
}

/* An answer equal to the last one is left out, if the process's own memory has not changed either. */
static void take_answer(struct vt_nvml *nvml, struct vt_buffer *definitions)
{
    for (size_t at = 0; at < nvml->answer.bytes;) {
        const struct vt_gpu_use *use = (const void *)(nvml->answer.data + at);
        const size_t padded = (use->head.bytes + 7u) & ~(size_t)7;
        const uint64_t hash =
            XXH3_64bits(&use->total_bytes, use->head.bytes - offsetof(struct vt_gpu_use, total_bytes));
        uint64_t *known = &nvml->hashes[use->device_index];
        void *copy = nvml->changed || hash != *known ? vt_buffer_add(definitions, padded) : NULL;
        if (copy) {
            memcpy(copy, use, padded);
            nvml->recorded++;
        }
        *known = hash;
        at += padded;
    }
    if (nvml->recorded >= SAMPLES_PER_DOUBLING) {
        nvml->recorded = 0;
        nvml->shortest_ns *= 2;
    }
    const uint64_t now = vt_clock_ns(CLOCK_MONOTONIC), pause_ns = nvml->cost_ns * COST_SHARE;
    nvml->earliest_ns = now + (pause_ns > nvml->shortest_ns ? pause_ns : nvml->shortest_ns);
    nvml->next_ns = nvml->earliest_ns > now + PERIOD_NS ? nvml->earliest_ns : now + PERIOD_NS;
}

void vt_nvml_tend(struct vt_nvml *nvml, uint64_t urgent, struct vt_buffer *definitions)
{
    const uint64_t now = vt_clock_ns(CLOCK_MONOTONIC), change = change_of(nvml);
    /* Wait until the process's memory has settled: an answer in the middle of a change is hard to use. */
    const bool settled = change == nvml->polled_change;
    const bool changed = change != nvml->seen_change || urgent != nvml->seen_urgent;
    const bool wanted = urgent != nvml->seen_urgent || (changed && settled);
    int state = atomic_load(&nvml->state);
    if (state == ANSWERED) {
        take_answer(nvml, definitions);
        atomic_store(&nvml->state, state = WAITS);
    }
    nvml->polled_change = change;
    if (state == ENDED || state == ASKED || (now < nvml->next_ns && (!wanted || now < nvml->earliest_ns)) ||
        (state == NONE && (now < nvml->next_ns || !is_device_known(nvml))))
        return;
    nvml->changed = changed;
    nvml->seen_change = change;
    nvml->seen_urgent = urgent;
    vt_futex_set(&nvml->state, ASKED);
    if (state == NONE) {
        atomic_store(&loaded_in, getpid());
        if (vt_thread_start(sampler_main, nvml))
            vt_futex_set(&nvml->state, ENDED);
    }
}

void vt_nvml_stop(struct vt_nvml *nvml, struct vt_buffer *definitions)
{
    int state = atomic_load(&nvml->state);
    atomic_store(&nvml->stopping, true);
    if (state == WAITS)
        vt_futex_set(&nvml->state, ASKED); /* wakes it, so that it ends */
    for (int turn = 0; turn < STOP_TURNS && (state = atomic_load(&nvml->state)) == ASKED; turn++)
        vt_futex_wait(&nvml->state, (uint32_t)state, STOP_TURN_NS);
    if (state == ANSWERED)
        take_answer(nvml, definitions);
    if (state != ASKED)
        vt_futex_set(&nvml->state, ENDED); /* it may still be waiting for its answer to be taken */
}

unsigned vt_nvml_threads(const struct vt_nvml *nvml)
{
    const int state = atomic_load(&nvml->state);
    return state != NONE && state != ENDED;
}
