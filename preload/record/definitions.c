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
#include "file_io.h"
#include "stacks/python_layout.h"
#include "stacks/native.h"

enum {
    FUNCTION_IDS = 1024,
    BUILD_ID_MAXIMUM_BYTES = 64,
    SYMBOL_MAXIMUM_BYTES = 16383,
    ARGUMENTS_MAXIMUM_BYTES = 1 << 16,
};

struct vt_defined {
    struct vt_address_table addresses, modules;
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

void vt_define_launch(const struct vt_options *options, struct vt_buffer *definitions)
{
    const size_t bytes = options->launch_bytes;
    struct vt_record_head *record =
        bytes ? vt_buffer_definition(definitions, VT_RECORD_LAUNCH, sizeof *record, bytes) : NULL;
    if (record)
        memcpy(record + 1, options->launch, bytes);
}

struct module_search {
    struct vt_defined *seen;
    struct vt_buffer *definitions;
};

/* Tools that rewrite libraries may leave notes outside of all loaded segments. */
static bool is_loaded(const struct dl_phdr_info *info, const ElfW(Phdr) * part)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_R) && part->p_vaddr >= segment->p_vaddr &&
            part->p_memsz <= segment->p_filesz &&
            part->p_vaddr - segment->p_vaddr <= segment->p_filesz - part->p_memsz)
            return true;
    }
    return false;
}

static size_t find_build_id(const struct dl_phdr_info *info, const uint8_t **build_id)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_NOTE || !is_loaded(info, segment))
            continue;
        const uint8_t *note = (const uint8_t *)(info->dlpi_addr + segment->p_vaddr);
        const uint8_t *end = note + segment->p_memsz;
        while (end - note >= (ptrdiff_t)sizeof(ElfW(Nhdr))) { /* the last padding may reach further */
            const ElfW(Nhdr) *head = (const void *)note;
            const uint8_t *name = note + sizeof *head;
            const uint8_t *content = name + ((head->n_namesz + 3u) & ~3u);
            if (content > end || head->n_descsz > (size_t)(end - content))
                break;
            if (head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4 && !memcmp(name, "GNU", 4)) {
                *build_id = content;
                return head->n_descsz < BUILD_ID_MAXIMUM_BYTES ? head->n_descsz : BUILD_ID_MAXIMUM_BYTES;
            }
            note = content + ((head->n_descsz + 3u) & ~3u);
        }
    }
    return 0;
}

static int define_module(struct dl_phdr_info *info, size_t info_bytes, void *context)
{
    struct module_search *search = context;
    uint64_t start = UINT64_MAX, end = 0;
    (void)info_bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD)
            continue;
        uint64_t from = info->dlpi_addr + segment->p_vaddr;
        start = from < start ? from : start;
        end = from + segment->p_memsz > end ? from + segment->p_memsz : end;
    }
    if (start >= end || !is_new(&search->seen->modules, start))
        return 0;
    char executable[4096];
    const char *path = info->dlpi_name;
    if (!*path) { /* the program itself */
        ssize_t length = readlink("/proc/self/exe", executable, sizeof executable - 1);
        executable[length > 0 ? length : 0] = 0;
        path = executable;
    }
    const uint8_t *build_id = NULL;
    size_t build_id_bytes = find_build_id(info, &build_id), path_bytes = strlen(path);
    struct vt_module *record = vt_buffer_definition(search->definitions, VT_RECORD_MODULE, sizeof *record,
                                                    build_id_bytes + path_bytes);
    if (!record)
        return 1;
    record->base = info->dlpi_addr;
    record->start_address = start;
    record->end_address = end;
    record->build_id_bytes = (uint32_t)build_id_bytes;
    record->path_bytes = (uint32_t)path_bytes;
    if (build_id_bytes)
        memcpy(record + 1, build_id, build_id_bytes);
    memcpy((char *)(record + 1) + build_id_bytes, path, path_bytes);
    return 0;
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

static void define_symbol(struct vt_defined *seen, uint64_t address, struct vt_buffer *definitions)
{
    struct found_symbol found = {0};
    /* A return address may lie past the end of its function, so the call itself is looked up. */
    bool known = find_symbol(address - 1, &found);
    const char *name = found.name;
    struct vt_symbol *record =
        vt_buffer_definition(definitions, VT_RECORD_SYMBOL, sizeof *record, strlen(name));
    if (!record)
        return;
    record->address = address;
    record->symbol_address = known ? (uintptr_t)found.information.dli_saddr : 0;
    record->module_base = found.module_base;
    memcpy(record + 1, name, strlen(name));
    vt_native_note_symbol(address, name);
    if (known && !(seen->modules.used && !is_new(&seen->modules, (uintptr_t)found.information.dli_fbase | 1)))
        vt_elf_iterate(define_module, &(struct module_search){seen, definitions});
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
            define_symbol(seen, native[i], definitions);
    /* If Python was loaded after the process was defined, define it again, now with Python's version. */
    if (stack->python_frames && !seen->python) {
        seen->python = true;
        vt_define_process(seen, definitions);
    }
}
