#include "stacks/python_layout.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "stacks/python_read.h"
#include "text.h"

enum { ABSENT, UNPROVEN, KNOWN, DECLINED };

/* A thread proves the layout if its thread state contains its thread id. A state can be used on another
 * thread than the one that made it, so only repeated mismatches disprove the layout. */
#define PROOF_ATTEMPTS 64u

static _Atomic int state = ABSENT; /* `found` is written before UNPROVEN is stored and never after */
static struct vt_python found;
static _Atomic uint32_t hex_version;
static void *found_scope; /* written like `found` */
static _Atomic int unsupported_minor;
static _Atomic uint32_t proofs_failed;

static int find_library(struct dl_phdr_info *info, size_t size, void *path)
{
    const char *name = info->dlpi_name;
    (void)size;
    return name != NULL && strncmp(vt_text_base_name(name), "libpython3.", 11) == 0 &&
           vt_text_copy(path, PATH_MAX, name);
}

/* The interpreter must not be unloaded once we keep addresses in it. A library that is loaded already is
 * found by its name without reading any file; the program itself has no name there, and stays anyway. False
 * if it may still be unloaded: then no address in it may be kept. */
static bool pin_library(void *symbol)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (dladdr1(symbol, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL)
        return false;
    return map->l_name[0] == '\0' || dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != NULL;
}

/* Where to look up symbols: the global scope, or a libpython that was loaded with RTLD_LOCAL (by a plugin).
 * `present` is false if there is none, or none that could be pinned: the next call tries again. */
static void *find_scope(bool *present)
{
    *present = true;
    void *symbol = dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
    if (symbol != NULL) {
        *present = pin_library(symbol);
        return RTLD_DEFAULT;
    }
    char path[PATH_MAX];
    if (dl_iterate_phdr(find_library, path) != 0) {
        void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
        if (handle != NULL && dlsym(handle, "PyGILState_GetThisThreadState") != NULL)
            return handle;
    }
    *present = false;
    return NULL;
}

/* "3.10.13 (main, …", "3.13.0rc1+ (…" to PY_VERSION_HEX. */
static uint32_t parse_version(const char *text)
{
    uint32_t part[3] = {0, 0, 0};
    for (int i = 0; i < 3; i++) {
        while (*text >= '0' && *text <= '9' && part[i] < 256)
            part[i] = part[i] * 10 + (uint32_t)(*text++ - '0');
        if (*text != '.')
            break;
        text++;
    }
    if (part[0] > 255 || part[1] > 255 || part[2] > 255)
        return 0;
    uint32_t level = *text == 'a' ? 0xa : *text == 'b' ? 0xb : *text == 'r' ? 0xc : 0xf;
    return part[0] << 24 | part[1] << 16 | part[2] << 8 | level << 4;
}

static uint32_t find_version(void *scope)
{
    const unsigned long *number = dlsym(scope, "Py_Version");
    if (number != NULL)
        return (uint32_t)*number;
    void *symbol = dlsym(scope, "Py_GetVersion");
    if (symbol == NULL)
        return 0;
    const char *(*get_version)(void);
    memcpy(&get_version, &symbol, sizeof get_version);
    const char *text = get_version();
    return text != NULL ? parse_version(text) : 0;
}

/* Compares _Py_DebugOffsets, at the start of _PyRuntime, with the table. */
static bool debug_offsets_agree(const struct vt_python_layout *layout, uint32_t version, const char *runtime)
{
    const struct {
        uint8_t index; /* words after the cookie */
        uint32_t value;
    } expected[] = {
        {1, version},
        {2, layout->free_threaded},
        {layout->debug_thread_frame, layout->thread_frame},
        {layout->debug_thread_id, layout->thread_thread_id},
        {layout->debug_frame, layout->frame_previous},
        {layout->debug_frame + 1, layout->frame_code},
        {layout->debug_frame + 2, layout->frame_instruction},
        {layout->debug_frame + 3, layout->frame_locals},
        {layout->debug_frame + 4, layout->frame_owner},
        {layout->debug_code, layout->code_file_name},
        {layout->debug_code + 1, layout->code_name},
        {layout->debug_code + 2, layout->code_qualified_name},
        {layout->debug_code + 3, layout->code_line_table},
        {layout->debug_code + 4, layout->code_first_line},
        {layout->debug_code + 5, layout->code_argument_count},
        {layout->debug_code + 6, layout->code_local_names},
        {layout->debug_code + 7, layout->code_local_kinds},
        {layout->debug_code + 8, layout->code_instructions},
        {layout->debug_object_type, layout->object_type},
        /* From 3.14 on. */
        {layout->minor > 13 ? layout->debug_frame + 6 : 2,
         layout->minor > 13 ? layout->frame_instructions_index : layout->free_threaded},
        {layout->minor > 13 ? layout->debug_code + 9 : 2,
         layout->minor > 13 ? layout->code_thread_instructions : layout->free_threaded},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        if (vt_word_at(runtime, expected[i].index * sizeof(uint64_t)) != expected[i].value)
            return false;
    return true;
}

/* Reads only static objects of the interpreter, at offsets that lie inside them in every build. */
static bool types_agree(const struct vt_python_layout *layout, void *scope)
{
    const char *type_type = dlsym(scope, "PyType_Type");
    const struct {
        const char *name;
        uint64_t basic_bytes;
    } types[] = {
        {"PyCode_Type", layout->code_basic_bytes},       {"PyFrame_Type", layout->frame_basic_bytes},
        {"PyUnicode_Type", layout->unicode_basic_bytes}, {"PyCell_Type", layout->cell_contents + 8u},
        {"PyTuple_Type", layout->tuple_items},           {"PyBytes_Type", layout->bytes_data + 1u},
    };
    if (type_type == NULL)
        return false;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const char *type = dlsym(scope, types[i].name);
        /* With another object header (Py_TRACE_REFS) these offsets hold something else. */
        if (type == NULL || vt_word_at(type, layout->object_type) != (uintptr_t)type_type ||
            vt_word_at(type, layout->type_basic_bytes) != types[i].basic_bytes)
            return false;
    }
    return true;
}

/* NULL: there is no table, or the interpreter contradicts it. */
static const struct vt_python_layout *find_layout(void *scope, uint32_t version)
{
    const unsigned minor = version >> 16 & 0xff;
    const char *runtime = minor >= 13 ? dlsym(scope, "_PyRuntime") : NULL;
    if (version >> 24 != 3 || (minor >= 13 && (runtime == NULL || memcmp(runtime, "xdebugpy", 8) != 0)))
        return NULL;
    const bool is_free_threaded = runtime != NULL && vt_word_at(runtime, 2 * sizeof(uint64_t)) == 1;
    const struct vt_python_layout *layout = vt_python_find_layout(minor, is_free_threaded);
    if (layout == NULL || !types_agree(layout, scope) ||
        (runtime != NULL && !debug_offsets_agree(layout, version, runtime)))
        return NULL;
    return layout;
}

static bool fill_python(struct vt_python *python, void *scope, uint32_t version)
{
    const struct vt_python_layout *layout = find_layout(scope, version);
    if (layout == NULL)
        return false;

    void *thread_state = dlsym(scope, "PyGILState_GetThisThreadState");
    void *is_finalizing = dlsym(scope, "Py_IsFinalizing"); /* 3.13; before that with an underscore */
    if (is_finalizing == NULL)
        is_finalizing = dlsym(scope, "_Py_IsFinalizing");
    if (thread_state == NULL || is_finalizing == NULL)
        return false;
    python->layout = layout;
    python->hex_version = version;
    /* Before 3.11.2, a frame was still in the chain while its cells were being freed (CPython gh-99729). */
    python->cells_readable = version < 0x030b0000 || version >= 0x030b0200;
    python->code_type = dlsym(scope, "PyCode_Type");
    python->cell_type = dlsym(scope, "PyCell_Type");
    python->unicode_type = dlsym(scope, "PyUnicode_Type");
    python->bytes_type = dlsym(scope, "PyBytes_Type");
    python->tuple_type = dlsym(scope, "PyTuple_Type");
    memcpy(&python->thread_state, &thread_state, sizeof thread_state);
    memcpy(&python->is_finalizing, &is_finalizing, sizeof is_finalizing);
    return true;
}

/* ---- deaths of code objects ---- */

static _Atomic uint64_t deaths = 1;
static _Atomic uintptr_t deallocate_code;

/* In place of the type's own function, which it jumps to. */
static void note_death(void *code)
{
    const uintptr_t address = atomic_load_explicit(&deallocate_code, memory_order_acquire);
    void (*deallocate)(void *);
    memcpy(&deallocate, &address, sizeof deallocate);
    atomic_fetch_add_explicit(&deaths, 1, memory_order_release);
    deallocate(code);
}

/* Called once. */
static void count_deaths(void)
{
    _Atomic uintptr_t *slot = (_Atomic uintptr_t *)((char *)found.code_type + found.layout->type_deallocate);
    uintptr_t own = atomic_load(slot);
    if (own == 0)
        return;
    atomic_store_explicit(&deallocate_code, own, memory_order_release);
    atomic_compare_exchange_strong(slot, &own, (uintptr_t)note_death);
}

uint64_t vt_python_code_deaths(const struct vt_python *python)
{
    const uint64_t slot = vt_word_at(python->code_type, python->layout->type_deallocate);
    return slot == (uintptr_t)note_death ? atomic_load_explicit(&deaths, memory_order_acquire) : 0;
}

static void decline_python(uint32_t version, int expected)
{
    int minor = (int)(version >> 16 & 0xff);
    if (atomic_compare_exchange_strong(&state, &expected, DECLINED)) /* unless another thread has proven it */
        atomic_store_explicit(&unsupported_minor, minor != 0 ? minor : 255, memory_order_relaxed);
}

void vt_python_look_up(void)
{
    bool present;
    if (atomic_load(&state) != ABSENT)
        return;
    void *scope = find_scope(&present);
    if (!present)
        return;
    uint32_t version = find_version(scope);
    atomic_store_explicit(&hex_version, version, memory_order_relaxed);
    found_scope = scope;
    if (fill_python(&found, scope, version))
        atomic_store_explicit(&state, UNPROVEN, memory_order_release);
    else
        decline_python(version, ABSENT);
}

/* In a thread state the thread's id comes after all fields that a walk needs. */
static bool prove_layout(const char *thread)
{
    int unproven = UNPROVEN;
    if (vt_word_at(thread, found.layout->thread_thread_id) == (uint64_t)pthread_self()) {
        if (!atomic_compare_exchange_strong(&state, &unproven, KNOWN))
            return unproven == KNOWN;
        count_deaths();
        return true;
    }
    if (atomic_fetch_add_explicit(&proofs_failed, 1, memory_order_relaxed) + 1 >= PROOF_ATTEMPTS)
        decline_python(found.hex_version, UNPROVEN);
    return false;
}

const char *vt_python_current_thread(const struct vt_python **python)
{
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if (now != KNOWN && now != UNPROVEN)
        return NULL;
    /* An ending interpreter frees other threads' states while they may be in use. */
    if (found.is_finalizing())
        return NULL;
    const char *thread = found.thread_state();
    if (thread == NULL || (now == UNPROVEN && !prove_layout(thread)))
        return NULL;
    *python = &found;
    return thread;
}

const struct vt_python *vt_python_known(void)
{
    return atomic_load_explicit(&state, memory_order_acquire) == KNOWN ? &found : NULL;
}

void *vt_python_scope(void)
{
    return found_scope;
}

bool vt_python_is_finalizing(void)
{
    const struct vt_python *python = vt_python_known();
    return python != NULL && python->is_finalizing();
}

bool vt_python_loaded(void)
{
    return atomic_load_explicit(&state, memory_order_acquire) >= UNPROVEN;
}

uint32_t vt_python_hex_version(void)
{
    return atomic_load_explicit(&hex_version, memory_order_relaxed);
}

bool vt_python_is_free_threaded(void)
{
    const int now = atomic_load_explicit(&state, memory_order_acquire);
    return (now == UNPROVEN || now == KNOWN) && found.layout->free_threaded;
}

int vt_python_unsupported_minor(void)
{
    return atomic_load_explicit(&unsupported_minor, memory_order_relaxed);
}
