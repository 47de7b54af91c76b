/* What tests read of the stand-in; none of it is CUDA. */
#include "standin.h"
#include "truth.h"

#include <string.h>
#include <unistd.h>

extern struct standin_counter __start_standin_counters[], __stop_standin_counters[];

static bool is_load(int use)
{
    return use == USE_CONTEXT || use == USE_LIMIT || use == USE_MODULE || use == USE_STREAM;
}

static uint64_t sum_of(int device, bool with_load)
{
    if (!standin_device_valid(device))
        return 0;
    __attribute__((cleanup(standin_unlock), unused)) int guard = standin_lock();
    uint64_t sum = 0;
    for (int use = 0; use < USE_COUNT; use++) {
        if (with_load || !is_load(use))
            sum += standin_devices[device].used_bytes[use];
    }
    return sum;
}

uint64_t standin_device_bytes(int device)
{
    return sum_of(device, true);
}
uint64_t standin_allocation_bytes(int device)
{
    return sum_of(device, false);
}

uint64_t standin_other_bytes(int device)
{
    return standin_device_valid(device) ? standin_used_by_others(device) : 0;
}

static uint64_t card_readings;

uint64_t standin_card_readings(void)
{
    return __atomic_load_n(&card_readings, __ATOMIC_RELAXED);
}

int standin_card_processes(int card, struct standin_process *processes, int maximum)
{
    __attribute__((cleanup(standin_unlock), unused)) int guard = standin_lock();
    int count = 0;
    __atomic_fetch_add(&card_readings, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < standin_settings.devices && count < maximum; i++) {
        if (standin_settings.cards[i] == card && standin_used(i) != 0)
            processes[count++] = (struct standin_process){getpid(), standin_used(i)};
    }
    return count + standin_list_others(card, processes + count, maximum - count);
}

uint64_t standin_card_bytes(int card)
{
    (void)card;
    return standin_settings.memory_bytes;
}

const char *standin_card_name(int *capability)
{
    if (capability)
        *capability = standin_settings.gpu->capability;
    return standin_settings.gpu->name;
}

uint64_t standin_unlisted_bytes(void)
{
    return standin_settings.unlisted_bytes;
}

uint64_t standin_use_bytes(int device, const char *use)
{
    static const char *const names[USE_COUNT] = {
        [USE_CONTEXT] = "context",   [USE_LIMIT] = "limit",           [USE_MODULE] = "module",
        [USE_STREAM] = "stream",     [USE_ALLOCATION] = "allocation", [USE_MANAGED] = "managed",
        [USE_ARRAY] = "array",       [USE_PHYSICAL] = "physical",     [USE_POOL] = "pool",
    };
    __attribute__((cleanup(standin_unlock), unused)) int guard = standin_lock();
    for (int i = 0; i < USE_COUNT && standin_device_valid(device); i++) {
        if (strcmp(names[i], use) == 0)
            return standin_devices[device].used_bytes[i];
    }
    return 0;
}

uint64_t standin_host_bytes(void)
{
    __attribute__((cleanup(standin_unlock), unused)) int guard = standin_lock();
    return standin_host_used_bytes;
}

uint64_t standin_registered_bytes(void)
{
    __attribute__((cleanup(standin_unlock), unused)) int guard = standin_lock();
    return standin_registered_used_bytes;
}

static void write_range(struct standin_range *range, void *out)
{
    static const char *const names[] = {
        [KIND_DEVICE] = "device",   [KIND_MANAGED] = "managed", [KIND_POOL] = "pooled",
        [KIND_GRAPH] = "graph",     [KIND_HOST] = "host",       [KIND_REGISTERED] = "registered",
        [KIND_MAPPED] = NULL, /* its handle has a line */
        [KIND_FOREIGN] = "foreign", [KIND_GLOBAL] = "global",
    };
    if (names[range->kind] != NULL && (range->kind != KIND_GRAPH || range->live))
        fprintf(out, "%s 0x%lx %zu %d\n", names[range->kind], (unsigned long)range->start, range->bytes,
                range->device);
}

int standin_books(const char *path)
{
    FILE *out = fopen(path, "w");
    if (out == NULL)
        return -1;
    __attribute__((cleanup(standin_unlock), unused)) int guard = standin_lock();
    standin_range_each(write_range, out);
    standin_write_physicals(out);
    standin_write_arrays(out);
    standin_write_pools(out);
    return fclose(out) == 0 ? 0 : -1;
}

uint64_t standin_calls(const char *name)
{
    uint64_t calls = 0;
    for (struct standin_counter *counter = __start_standin_counters; counter < __stop_standin_counters;
         counter++) {
        if (name == NULL || strcmp(counter->name, name) == 0)
            calls += __atomic_load_n(&counter->calls, __ATOMIC_RELAXED);
    }
    return calls;
}
