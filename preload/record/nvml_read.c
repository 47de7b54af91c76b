#include "record/nvml_read.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "loader/elf_walk.h"
#include "loader/private_copy.h"
#include "file_io.h"
#include "record/own_pid.h"

enum {
    SUCCESS = 0,
    LISTED = 256,  /* processes asked for */
    RECORDED = 64, /* processes in a record */
    COMMAND_BYTES = 128,
    TRIES = 3, /* to get a list between two equal readings of the bytes */
};
#define NOT_REPORTED UINT64_MAX

/* As in nvml.h. */
struct memory {
    unsigned long long total, free, used;
};
struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
struct process_v1 {
    unsigned pid;
    unsigned long long bytes;
};
struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

typedef int list_function(void *gpu, unsigned *count, void *processes);
struct vt_nvml_library {
    int (*init)(void);
    int (*by_uuid)(const char *uuid, void **gpu);
    int (*memory)(void *gpu, struct memory *memory);
    int (*memory_v2)(void *gpu, struct memory_v2 *memory);
    struct {
        list_function *list;
        bool is_v1;
    } lists[2]; /* of compute and of graphics processes */
    struct vt_own_pid own;
};

/* ---- finding the library ---- */

struct folder {
    char path[4096];
};

/* NVML comes with the driver, so it is in libcuda's folder. */
static bool find_folder(const struct vt_elf *object, void *context)
{
    struct folder *folder = context;
    const char *end = strrchr(object->path, '/');
    if (strcmp(object->soname, "libcuda.so.1") || !end || (size_t)(end - object->path) >= sizeof folder->path)
        return false;
    memcpy(folder->path, object->path, (size_t)(end - object->path));
    folder->path[end - object->path] = 0;
    return true;
}

static void *load_library(void)
{
    static const char *const others[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                                         "/usr/lib64", "/usr/lib"};
    struct folder folder = {0};
    char path[4096 + 32];
    /* If the host has NVML in its global scope, the copy's calls to itself would go there. */
    if (dlsym(RTLD_DEFAULT, "nvmlInit_v2") || !vt_elf_find(find_folder, &folder))
        return NULL;
    snprintf(path, sizeof path, "%s/libnvidia-ml.so.1", folder.path);
    void *library = vt_load_private_copy(path);
    for (size_t i = 0; i < sizeof others / sizeof *others && !library; i++) {
        snprintf(path, sizeof path, "%s/libnvidia-ml.so.1", others[i]);
        library = vt_load_private_copy(path);
    }
    return library;
}

static void find_function(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);
    memcpy(function, &address, sizeof address);
}

/* Finds the newest version of a list function. */
static void find_list(void *library, const char *name, struct vt_nvml_library *found, int place)
{
    static const char *const versions[] = {"_v3", "_v2", ""};
    char full[64];
    for (size_t i = 0; i < 3 && !found->lists[place].list; i++) {
        snprintf(full, sizeof full, "%s%s", name, versions[i]);
        find_function(library, full, &found->lists[place].list);
        found->lists[place].is_v1 = !*versions[i];
    }
}

const struct vt_nvml_library *vt_nvml_load(void)
{
    static struct vt_nvml_library found;
    void *library = load_library();
    if (!library)
        return NULL;
    find_function(library, "nvmlInit_v2", &found.init);
    find_function(library, "nvmlDeviceGetHandleByUUID", &found.by_uuid);
    find_function(library, "nvmlDeviceGetMemoryInfo", &found.memory);
    find_function(library, "nvmlDeviceGetMemoryInfo_v2", &found.memory_v2);
    find_list(library, "nvmlDeviceGetComputeRunningProcesses", &found, 0);
    find_list(library, "nvmlDeviceGetGraphicsRunningProcesses", &found, 1);
    vt_own_pid_find(&found.own);
    return found.init && found.by_uuid && found.memory && found.init() == SUCCESS ? &found : NULL;
}

void *vt_nvml_find_gpu(const struct vt_nvml_library *library, const uint8_t *uuid)
{
    static const char *const kinds[] = {"GPU", "MIG"};
    void *gpu;
    char text[64];
    for (size_t i = 0; i < 2; i++) {
        int used = snprintf(text, sizeof text, "%s-", kinds[i]);
        for (int byte = 0; byte < 16; byte++)
            used += snprintf(text + used, sizeof text - (size_t)used, "%s%02x",
                             byte == 4 || byte == 6 || byte == 8 || byte == 10 ? "-" : "", uuid[byte]);
        gpu = NULL;
        if (library->by_uuid(text, &gpu) == SUCCESS && gpu)
            return gpu;
    }
    return NULL;
}

/* ---- reading ---- */

struct list {
    struct process items[LISTED];
    unsigned count;
    bool is_reported;
};

static bool read_memory(const struct vt_nvml_library *library, void *gpu, struct memory_v2 *memory)
{
    struct memory plain = {0};
    *memory = (struct memory_v2){.version = (unsigned)sizeof *memory | 2u << 24};
    if (library->memory_v2 && library->memory_v2(gpu, memory) == SUCCESS)
        return true;
    if (library->memory(gpu, &plain) != SUCCESS)
        return false;
    *memory = (struct memory_v2){.total = plain.total, .reserved = NOT_REPORTED, .used = plain.used};
    return true;
}

static void add_process(struct list *list, unsigned earlier, const struct process *process)
{
    for (unsigned i = 0; i < list->count; i++) {
        if (list->items[i].pid != process->pid)
            continue;
        /* A process in both lists has the same bytes in each; twice in one list, it has bytes in several
         * parts of the GPU. */
        if (i >= earlier && process->bytes != NOT_REPORTED && list->items[i].bytes != NOT_REPORTED)
            list->items[i].bytes += process->bytes;
        return;
    }
    if (list->count < LISTED)
        list->items[list->count++] = *process;
}

static void read_processes(const struct vt_nvml_library *library, void *gpu, struct list *list)
{
    union {
        struct process new[LISTED];
        struct process_v1 old[LISTED];
    } reported;
    *list = (struct list){0};
    for (size_t i = 0; i < 2; i++) {
        unsigned count = LISTED;
        const unsigned earlier = list->count;
        if (!library->lists[i].list || library->lists[i].list(gpu, &count, &reported) != SUCCESS)
            continue;
        list->is_reported |= i == 0;
        for (unsigned k = 0; k < count && k < LISTED; k++) {
            const struct process from_old = {.pid = reported.old[k].pid, .bytes = reported.old[k].bytes};
            add_process(list, earlier, library->lists[i].is_v1 ? &from_old : &reported.new[k]);
        }
    }
}

/* Of another user's process only its program and the user: arguments may hold secrets. False if it is this
 * user's. */
static bool read_foreign_command(uint32_t pid, char *command, size_t *bytes)
{
    char path[48], status[1024], program[32];
    unsigned user = (unsigned)getuid();
    snprintf(path, sizeof path, "/proc/%u/status", pid);
    status[vt_read_file(path, status, sizeof status - 1)] = 0;
    const char *line = strstr(status, "\nUid:");
    if (!line || sscanf(line, "\nUid: %u", &user) != 1 || user == (unsigned)getuid())
        return false;
    if (sscanf(status, "Name: %31[^\n]", program) != 1)
        program[0] = 0;
    *bytes = (size_t)snprintf(command, COMMAND_BYTES, "%s (user %u)", program, user) + 1;
    return true;
}

/* Arguments separated by spaces, at most COMMAND_BYTES with the NUL. */
static size_t read_command(uint32_t pid, char *command)
{
    char path[48];
    size_t bytes;
    if (read_foreign_command(pid, command, &bytes))
        return bytes;
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    bytes = vt_read_file(path, command, COMMAND_BYTES - 1);
    while (bytes && !command[bytes - 1])
        bytes--;
    for (size_t i = 0; i < bytes; i++)
        command[i] = command[i] ? command[i] : ' ';
    command[bytes] = 0;
    return bytes + 1;
}

static int by_bytes(const void *left, const void *right)
{
    const struct process *a = left, *b = right;
    return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

static bool record_use(const struct vt_gpu_use *use, struct list *list, const struct vt_own_pid *own_pid,
                       struct vt_buffer *definitions)
{
    uint32_t pids[LISTED];
    char commands[RECORDED][COMMAND_BYTES];
    size_t command_bytes[RECORDED], bytes = 0;
    qsort(list->items, list->count, sizeof *list->items, by_bytes);
    const unsigned count = list->count < RECORDED ? list->count : RECORDED;
    for (unsigned i = 0; i < list->count; i++)
        pids[i] = list->items[i].pid;
    uint32_t own = vt_own_pid_place(own_pid, pids, list->count, vt_pid_exists_in_proc);
    own = own < count ? own : UINT32_MAX;
    /* If this process is not in the list, its pids may count in another namespace, and name nobody here. */
    for (unsigned i = 0; i < count; i++) {
        commands[i][0] = 0;
        command_bytes[i] = own == UINT32_MAX ? 1 : read_command(list->items[i].pid, commands[i]);
        bytes += sizeof(struct vt_gpu_process) + command_bytes[i];
    }
    struct vt_gpu_use *made = vt_buffer_definition(definitions, VT_RECORD_GPU_USE, sizeof *made, bytes);
    if (!made)
        return false;
    const struct vt_record_head head = made->head;
    *made = *use;
    made->head = head;
    made->own = own;
    made->process_count = count;
    made->flags |= (list->is_reported ? VT_GPU_PROCESSES : 0u) |
                   (list->count > count ? VT_GPU_PROCESSES_CUT : 0u) |
                   (own_pid->is_nested ? VT_GPU_NESTED : 0u);
    struct vt_gpu_process *processes = (struct vt_gpu_process *)(made + 1);
    char *text = (char *)(processes + count);
    for (unsigned i = 0; i < count; i++) {
        processes[i] = (struct vt_gpu_process){.pid = list->items[i].pid, .bytes = list->items[i].bytes};
        memcpy(text, commands[i], command_bytes[i]);
        text += command_bytes[i];
    }
    return true;
}

bool vt_nvml_read(const struct vt_nvml_library *library, void *gpu, uint32_t device_index,
                  struct vt_buffer *definitions)
{
    struct memory_v2 before, after;
    struct list list;
    struct vt_gpu_use use = {.device_index = device_index, .flags = VT_GPU_UNSTEADY};
    for (int try = 0; try < TRIES && use.flags; try++) {
        use.begin_ns = vt_clock_ns(CLOCK_MONOTONIC);
        if (!read_memory(library, gpu, &before))
            return false;
        read_processes(library, gpu, &list);
        if (!read_memory(library, gpu, &after))
            return false;
        use.end_ns = vt_clock_ns(CLOCK_MONOTONIC);
        if (before.used == after.used)
            use.flags = 0;
    }
    use.total_bytes = after.total;
    use.used_bytes = after.used;
    use.reserved_bytes = after.reserved;
    return record_use(&use, &list, &library->own, definitions);
}
