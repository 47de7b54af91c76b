/* XLA as a plugin: JAX's CUDA plugin, and other users of it. Its allocator is hidden, but it is used through
 * a table of functions (PJRT's C API), which changes only by growing. The host gets a copy of the table in
 * which the functions that make and release buffers are ours. A block is a buffer, identified by the object
 * that holds it.
 *
 * Memory that an executable needs while it runs does not go through the table: it counts as cached. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "guard.h"
#include "hooks/driver.h"
#include "hooks/observe.h"
#include "hooks/pjrt.h"
#include "inspect/jax_buffers.h"

/* ---- PJRT's structures ---- */

#define LIBRARY_NAME_HAS "cuda"
#define DEVICE_MEMORY "device" /* other kinds of memory are host memory */

enum {
#define VT_PJRT_CALLED(field, place) field = place,
#include "hooks/pjrt.def"
    PLACES = 512 /* of the largest table that we copy */
};

typedef void *pjrt_function(void *arguments); /* returns an error object, or NULL */

struct table {
    size_t struct_bytes;
    void *header[4]; /* extensions and version */
    pjrt_function *functions[PLACES];
};

/* The arguments of all functions that ask one thing about one object. The struct may be larger than the
 * function needs. */
struct question {
    size_t struct_bytes;
    void *extension;
    const void *object;
    union {
        void *pointer;
        uint64_t number;
        int integer;
        bool yes;
        struct {
            const char *text;
            size_t text_bytes;
        };
    };
};

struct execution { /* PJRT_LoadedExecutable_Execute_Args */
    size_t struct_bytes;
    void *extension;
    const void *executable;
    void *options;
    void *const *const *argument_lists;
    size_t devices, arguments;
    void **const *output_lists;
};

static const struct table *real; /* the plugin's own; set before the host gets ours */
static struct table ours;
static const struct table *(*_Atomic real_entry)(void);

/* ---- asking ---- */

static bool ask_plugin(int function, const void *object, struct question *question)
{
    *question = (struct question){.struct_bytes = sizeof *question, .object = object};
    void *error = real->functions[function](question);
    if (error)
        real->functions[Error_Destroy](&(struct question){.struct_bytes = sizeof *question, .object = error});
    return !error;
}

/* The device that a buffer lies on, or -1. */
static int8_t device_of(const void *buffer)
{
    struct question memory, kind, device, number;
    if (!ask_plugin(Buffer_Memory, buffer, &memory) || !ask_plugin(Memory_Kind, memory.pointer, &kind) ||
        kind.text_bytes != strlen(DEVICE_MEMORY) || memcmp(kind.text, DEVICE_MEMORY, kind.text_bytes) != 0 ||
        !ask_plugin(Buffer_Device, buffer, &device) ||
        !ask_plugin(Device_LocalHardwareId, device.pointer, &number) || number.integer < 0 ||
        number.integer >= (int)VT_MAX_DEVICES)
        return -1;
    return (int8_t)number.integer;
}

static size_t outputs_of(const void *loaded)
{
    struct question executable, outputs, destroyed;
    if (!ask_plugin(LoadedExecutable_GetExecutable, loaded, &executable))
        return 0;
    bool known = ask_plugin(Executable_NumOutputs, executable.pointer, &outputs);
    ask_plugin(Executable_Destroy, executable.pointer, &destroyed);
    return known ? outputs.number : 0;
}

/* ---- recording, within the guard ---- */

/* `part_of`: as in observations. A buffer that got no memory is an object all the same, and reports an
 * invalid address, so the driver is asked. */
static void record_buffer(void *buffer, const void *part_of)
{
    struct question bytes, address;
    const int8_t device_index = buffer ? device_of(buffer) : -1;
    if (device_index < 0 || !ask_plugin(Buffer_OnDeviceSizeInBytes, buffer, &bytes) ||
        !ask_plugin(Buffer_UnsafePointer, buffer, &address) || vt_device_of(address.number) == VT_NO_DEVICE)
        return;
    vt_record(&(struct vt_observation){.kind = VT_EVENT_ALLOC,
                                       .layer = VT_LAYER_FRAMEWORK,
                                       .device_index = device_index,
                                       .with_stack = true,
                                       .uncounted = true,
                                       .handle = (uintptr_t)buffer,
                                       .part_of = (uintptr_t)part_of,
                                       .address = address.number,
                                       .bytes = bytes.number});
}

/* ---- our functions ---- */

static void *make_buffer(pjrt_function *function, void *arguments, size_t result)
{
    int saved_errno;
    void *buffer, *error = function(arguments);
    if (!error && vt_recording() && vt_enter_event(&saved_errno)) {
        memcpy(&buffer, (char *)arguments + result, sizeof buffer);
        record_buffer(buffer, NULL);
        vt_leave(saved_errno);
    }
    return error;
}

#define VT_PJRT_MAKES(field, place, result)                                                                  \
    static void *make_##field(void *arguments)                                                               \
    {                                                                                                        \
        return make_buffer(real->functions[place], arguments, result);                                       \
    }
#include "hooks/pjrt.def"

static void *destroy(void *arguments)
{
    vt_block_ends(0, (uintptr_t)((const struct question *)arguments)->object);
    return real->functions[Buffer_Destroy](arguments);
}

static void *delete_memory(void *arguments)
{
    vt_block_ends(0, (uintptr_t)((const struct question *)arguments)->object);
    return real->functions[Buffer_Delete](arguments);
}

/* An inspection asks an array whether it is deleted, to learn here which buffers the array has. */
static void *is_deleted(void *arguments)
{
    void *error = real->functions[Buffer_IsDeleted](arguments);
    const struct question *asked = arguments;
    if (__builtin_expect(vt_jax_buffers != NULL, 0) && !error && !asked->yes)
        vt_jax_buffers_add((uintptr_t)asked->object);
    return error;
}

/* The call deletes donated arguments. One output on all devices is one array. */
static void *execute(void *arguments)
{
    const struct execution *call = arguments;
    struct question deleted;
    int saved_errno;
    void *error = real->functions[LoadedExecutable_Execute](arguments);
    if (error || !vt_recording() || !vt_enter_event(&saved_errno))
        return error;
    for (size_t device = 0; device < call->devices; device++)
        for (size_t i = 0; i < call->arguments; i++)
            if (ask_plugin(Buffer_IsDeleted, call->argument_lists[device][i], &deleted) && deleted.yes)
                vt_record_block_end(0, (uintptr_t)call->argument_lists[device][i]);
    size_t outputs = call->output_lists ? outputs_of(call->executable) : 0;
    for (size_t device = 0; device < call->devices; device++)
        for (size_t i = 0; i < outputs; i++)
            record_buffer(call->output_lists[device][i], device ? call->output_lists[device - 1][i] : NULL);
    vt_leave(saved_errno);
    return error;
}

/* ---- the table ---- */

static void replace_function(struct table *table, int place, pjrt_function *function)
{
    if (table->struct_bytes >= offsetof(struct table, functions[place + 1]) && table->functions[place])
        table->functions[place] = function;
}

/* Whether a table has everything that we call. What a plugin does not support is NULL, or past the table's
 * end. */
static bool is_whole(const struct table *table)
{
    static const int called[] = {
#define VT_PJRT_CALLED(field, place) place,
#define VT_PJRT_MAKES(field, place, result)
#include "hooks/pjrt.def"
    };
    for (size_t i = 0; i < sizeof called / sizeof *called; i++)
        if (table->struct_bytes < offsetof(struct table, functions[called[i] + 1]) ||
            !table->functions[called[i]])
            return false;
    return table->struct_bytes <= sizeof *table;
}

/* Replaces GetPjrtApi, which returns the same table each time: filling in ours again writes the same. */
static const struct table *get_table(void)
{
    const struct table *table = atomic_load_explicit(&real_entry, memory_order_acquire)();
    struct table copy;
    if (!table || !is_whole(table))
        return table;
    memcpy(&copy, table, table->struct_bytes);
#define VT_PJRT_MAKES(field, place, result) replace_function(&copy, place, make_##field);
#include "hooks/pjrt.def"
    replace_function(&copy, Buffer_Destroy, destroy);
    replace_function(&copy, Buffer_Delete, delete_memory);
    replace_function(&copy, Buffer_IsDeleted, is_deleted);
    replace_function(&copy, LoadedExecutable_Execute, execute);
    real = table;
    memcpy(&ours, &copy, table->struct_bytes);
    return &ours;
}

void *vt_pjrt_entry(void *found)
{
    const struct table *(*none)(void) = NULL, *(*plugin)(void) = (const struct table *(*)(void))found;
    Dl_info library;
    if (!found || dladdr(found, &library) == 0 || !library.dli_fname)
        return found;
    const char *name = strrchr(library.dli_fname, '/');
    if (!strstr(name ? name : library.dli_fname, LIBRARY_NAME_HAS))
        return found;
    /* Only one plugin is wrapped; a second one is left alone. */
    if (!atomic_compare_exchange_strong(&real_entry, &none, plugin) && none != plugin)
        return found;
    return (void *)get_table;
}
