/* This code may take the loader's lock, since no host thread waits for the writer. Its memory comes from the
 * kernel, so that it never waits for an allocator while it has that lock. */
#include "record/definitions.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "loader/elf_walk.h"
#include "functions.h"
#include "memory.h"
#include "record/libraries.h"
#include "file_io.h"
#include "stacks/python_layout.h"
#include "stacks/native.h"
#include "stacks/unloads.h"

enum {
    FUNCTION_IDS = 1024,
    SYMBOL_MAXIMUM_BYTES = 16383,
    ARGUMENTS_MAXIMUM_BYTES = 1 << 16,
};

struct vt_defined {
    struct vt_address_table addresses;
    bool functions[FUNCTION_IDS];
    bool python;
    size_t arguments_bytes;
    char arguments[ARGUMENTS_MAXIMUM_BYTES + 1]; /* the process's arguments, each NUL-terminated */
};

/* Adds the key. True if it is new. A key for which there is no memory stays new: defining something twice
 * does no harm. */
static bool is_new(struct vt_address_table *keys, uint64_t key)
{
    if (vt_table_find(keys, key))
        return false;
    if (vt_table_make_room(keys))
        vt_table_insert(keys, (struct vt_address_entry){.address = key});
    return true;
}

struct vt_defined *vt_defined_make(void)
{
    struct vt_defined *seen = vt_memory_grow(NULL, 0, sizeof *seen);
    if (!seen)
        return NULL;
    seen->arguments_bytes = vt_read_file("/proc/self/cmdline", seen->arguments, ARGUMENTS_MAXIMUM_BYTES);
    if (seen->arguments_bytes && seen->arguments[seen->arguments_bytes - 1])
        seen->arguments[seen->arguments_bytes++] = 0;
    return seen;
}

void vt_define_process(const struct vt_defined *seen, struct vt_buffer *definitions)
{
    enum { PATH_BYTES = 4096 };
    char folder[PATH_BYTES] = "", executable[PATH_BYTES] = "";
    const size_t bytes = seen->arguments_bytes;
    if (!getcwd(folder, sizeof folder))
        folder[0] = 0;
    if (readlink("/proc/self/exe", executable, sizeof executable - 1) < 0)
        executable[0] = 0;
    size_t folder_bytes = strlen(folder) + 1, executable_bytes = strlen(executable) + 1;
    struct vt_process *record = vt_buffer_definition(definitions, VT_RECORD_PROCESS, sizeof *record,
                                                     bytes + folder_bytes + executable_bytes);
    if (record) {
        char *body = (char *)(record + 1);
        for (size_t i = 0; i < bytes; i++)
            record->argument_count += !seen->arguments[i];
        record->python_version = vt_python_hex_version();
        memcpy(body, seen->arguments, bytes);
        memcpy(body + bytes, folder, folder_bytes);
        memcpy(body + bytes + folder_bytes, executable, executable_bytes);
    }
}

void vt_define_title(const struct vt_defined *seen, struct vt_buffer *definitions)
{
    struct vt_defined *now = vt_defined_make();
    if (now && now->arguments_bytes &&
        (now->arguments_bytes != seen->arguments_bytes ||
         memcmp(now->arguments, seen->arguments, now->arguments_bytes) != 0))
        vt_define_process(now, definitions);
    if (now)
        vt_memory_free(now, sizeof *now);
}

void vt_define_launch(const struct vt_options *options, struct vt_buffer *definitions)
{
    const size_t bytes = options->launch_bytes;
    struct vt_record_head *record =
        bytes ? vt_buffer_definition(definitions, VT_RECORD_LAUNCH, sizeof *record, bytes) : NULL;
    if (record)
        memcpy(record + 1, options->launch, bytes);
}

struct found_symbol {
    uint64_t unloads; /* how many unloads there had been before the search */
    Dl_info information;
    struct link_map *map;
    uint64_t module_base;
    char name[SYMBOL_MAXIMUM_BYTES + 1];
    bool still_there;
};

static int copy_name(struct dl_phdr_info *info, size_t info_bytes, void *context)
{
    struct found_symbol *found = context;
    (void)info_bytes;
    found->still_there = info->dlpi_subs == found->unloads;
    if (!found->still_there)
        return 1;
    found->module_base = found->map ? found->map->l_addr : 0;
    if (found->information.dli_sname)
        snprintf(found->name, sizeof found->name, "%s", found->information.dli_sname);
    return 1;
}

/* dladdr returns pointers into the library, which the host may unload at any time. Nothing is unloaded
 * during dl_iterate_phdr, so the name is copied there, if nothing was unloaded since the search. */
static bool find_symbol(uint64_t address, struct found_symbol *found)
{
    for (int attempt = 0; attempt < 3; attempt++) {
        found->unloads = vt_elf_changes().unloads;
        if (!dladdr1((const void *)(uintptr_t)address, &found->information, (void **)&found->map,
                     RTLD_DL_LINKMAP))
            return false;
        vt_elf_iterate(copy_name, found);
        if (found->still_there)
            return true;
    }
    return false;
}

static void define_symbol(uint64_t address, struct vt_buffer *definitions)
{
    const uint64_t plain = address & VT_ADDRESS_MASK;
    struct found_symbol found = {0};
    /* A return address may lie past the end of its function, so the call itself is looked up. */
    bool known = find_symbol(plain - 1, &found);
    vt_libraries_note();
    const uint64_t now = vt_unloads_mark(plain);
    if (now != plain && now != address)
        return; /* its library is gone: a reader finds the name in the library's file */
    const char *name = found.name;
    struct vt_symbol *record =
        vt_buffer_definition(definitions, VT_RECORD_SYMBOL, sizeof *record, strlen(name));
    if (!record)
        return;
    record->address = address;
    record->symbol_address = known ? (uintptr_t)found.information.dli_saddr : 0;
    record->module_base = found.module_base;
    if (now != plain) {
        record->symbol_address |= record->symbol_address ? address & ~VT_ADDRESS_MASK : 0;
        record->module_base |= record->module_base ? address & ~VT_ADDRESS_MASK : 0;
    }
    memcpy(record + 1, name, strlen(name));
    vt_native_note_symbol(plain, name);
}

void vt_define_thread(const struct vt_session *session, uint64_t thread_id, struct vt_buffer *definitions)
{
    char path[64], name[64];
    size_t bytes = strnlen(session->maker_name, sizeof session->maker_name);
    if (thread_id == (uint64_t)session->maker_thread_id) { /* known without a file */
        memcpy(name, session->maker_name, bytes);
    } else {
        snprintf(path, sizeof path, "/proc/self/task/%llu/comm", (unsigned long long)thread_id);
        bytes = vt_read_file(path, name, sizeof name);
        while (bytes && name[bytes - 1] == '\n')
            bytes--;
    }
    struct vt_string *record = vt_buffer_definition(definitions, VT_RECORD_THREAD, sizeof *record, bytes);
    if (record) {
        record->id = thread_id;
        memcpy(record + 1, name, bytes);
    }
}

static void define_function(struct vt_defined *seen, uint16_t id, struct vt_buffer *definitions)
{
    const char *name = id && id < FUNCTION_IDS && !seen->functions[id] ? vt_function_name(id) : NULL;
    if (!name)
        return;
    struct vt_string *record =
        vt_buffer_definition(definitions, VT_RECORD_FUNCTION, sizeof *record, strlen(name));
    if (!record)
        return;
    seen->functions[id] = true;
    record->id = id;
    memcpy(record + 1, name, strlen(name));
}

void vt_define_for_stack(struct vt_defined *seen, const struct vt_stack *stack, struct vt_buffer *definitions)
{
    const uint64_t *native = (const uint64_t *)(stack + 1);
    define_function(seen, stack->function, definitions);
    define_function(seen, stack->label, definitions);
    for (size_t i = 0; i < stack->native_frames; i++)
        if (is_new(&seen->addresses, native[i]))
            define_symbol(native[i], definitions);
    vt_libraries_define(definitions);
    /* If Python was loaded after the process was defined, define it again, now with Python's version. */
    if (stack->python_frames && !seen->python) {
        seen->python = true;
        vt_define_process(seen, definitions);
    }
}
