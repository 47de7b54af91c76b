/* ggml, used by llama.cpp and others. Each of its buffers is one driver allocation, recorded as such. In it
 * are tensors with names ("blk.0.attn_q.weight", "cache_k_l0"). Everything that lays out weights and caches
 * calls one exported function, through the PLT. Right after that call we record the names of the tensors, as
 * lines of an inspection.
 *
 * Tensors that graphs compute overlap, change from graph to graph, and have no such call: their buffers stay
 * whole. */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "clock.h"
#include "futex.h"
#include "loader/elf_walk.h"
#include "memory.h"
#include "options.h"
#include "record/record.h"
#include "signals.h"
#include "text.h"
#include "thread.h"

#define LAY_OUT ggml_backend_alloc_ctx_tensors_from_buft /* exported by us */
#define TURN_NS UINT64_C(1000000000)
#define LONGEST_WAIT_NS UINT64_C(5000000000) /* for the loader */

/* X(field, result, parameters, symbol). Opaque: a context, a buffer, a tensor. */
#define FUNCTIONS(X)                                                                                         \
    X(lay_out, void *, (void *, void *), VT_SYMBOL_NAME(LAY_OUT))                                            \
    X(base, void *, (void *), "ggml_backend_buffer_get_base")                                                \
    X(first_tensor, void *, (const void *), "ggml_get_first_tensor")                                         \
    X(next_tensor, void *, (const void *, void *), "ggml_get_next_tensor")                                   \
    X(name, const char *, (const void *), "ggml_get_name")                                                   \
    X(data, void *, (const void *), "ggml_get_data")                                                         \
    X(bytes, size_t, (const void *), "ggml_nbytes")
#define NEWER(X) X(is_view, bool, (const void *), "ggml_is_view")
#define X(field, result, parameters, symbol) typedef result field##_function parameters;
FUNCTIONS(X)
NEWER(X)
#undef X

enum { LIBRARIES = 8, NAME_BYTES = 64 /* GGML_MAX_NAME */, LINE_BYTES = 2 * NAME_BYTES + 128 };

struct library {
    uintptr_t load_address;
    char soname[256];     /* as other libraries need it; "" = none */
    bool caller_needs_it; /* set when the caller's library is visited */
#define X(field, result, parameters, symbol) field##_function *field;
    FUNCTIONS(X)
    NEWER(X)
#undef X
};

/* ---- which ggml ---- */

struct libraries {
    struct library items[LIBRARIES];
    unsigned count;
    const void *caller;
    uintptr_t caller_base;
};

static bool note_library(const struct vt_elf *elf, void *context)
{
    struct libraries *all = context;
    if (vt_elf_is_ours(elf) || all->count == LIBRARIES || !vt_elf_symbol(elf, VT_SYMBOL_NAME(LAY_OUT), NULL))
        return false;
    struct library *library = &all->items[all->count++];
    library->load_address = elf->base;
    vt_text_copy(library->soname, sizeof library->soname, elf->soname);
#define X(field, result, parameters, symbol)                                                                 \
    library->field = (field##_function *)vt_elf_symbol(elf, symbol, NULL);
    FUNCTIONS(X)
    NEWER(X)
#undef X
    return false;
}

static bool note_needed(const struct vt_elf *elf, void *context)
{
    struct libraries *all = context;
    if (!vt_elf_contains(elf, all->caller))
        return false;
    all->caller_base = elf->base;
    for (unsigned i = 0; i < all->count; i++)
        all->items[i].caller_needs_it = vt_elf_needs(elf, all->items[i].soname);
    return true;
}

struct global {
    void *lay_out;
    _Atomic int is_found; /* futex */
};

static void *find_global(void *context)
{
    struct global *global = context;
    global->lay_out = dlsym(RTLD_NEXT, VT_SYMBOL_NAME(LAY_OUT));
    vt_futex_set(&global->is_found, 1);
    return NULL;
}

/* Only the loader knows which libraries are in the global scope. It is asked on a thread of ours, since each
 * thread has its own dlerror. If this thread holds the loader's lock, that finds nothing. */
static void *global_lay_out(void)
{
    int saved_errno = errno;
    struct global *global = vt_memory_make(sizeof *global);
    void *found = NULL;
    if (!global)
        return NULL;
    sigset_t before;
    vt_signals_block(&before); /* for the new thread: the host's handlers must not run there */
    bool done = vt_thread_start(find_global, global) != 0;
    vt_signals_restore(&before);
    if (!done) {
        const uint64_t until_ns = vt_clock_ns(CLOCK_MONOTONIC) + LONGEST_WAIT_NS;
        while (!(done = atomic_load(&global->is_found)) && vt_clock_ns(CLOCK_MONOTONIC) < until_ns)
            vt_futex_wait(&global->is_found, 0, TURN_NS);
        found = done ? global->lay_out : NULL;
    }
    if (done) /* otherwise the thread may still write to it */
        vt_memory_free(global, sizeof *global);
    errno = saved_errno;
    return found;
}

/* A program may contain several ggmls of different releases, one inside each library. The right one is what
 * the loader would have bound the caller to: a global one, the caller's own, or that of a library that the
 * caller needs. */
static struct library find_library(const void *caller)
{
    struct libraries all = {.caller = caller};
    vt_elf_find(note_library, &all);
    if (all.count < 2)
        return all.items[0];
    const bool caller_known = vt_elf_find(note_needed, &all);
    void *global = global_lay_out();
    for (unsigned i = 0; i < all.count && global; i++)
        if ((void *)all.items[i].lay_out == global)
            return all.items[i];
    for (unsigned i = 0; i < all.count; i++)
        if (caller_known && all.items[i].load_address == all.caller_base)
            return all.items[i];
    for (unsigned i = 0; i < all.count; i++)
        if (all.items[i].caller_needs_it)
            return all.items[i];
    return all.items[0];
}

/* ---- its tensors' names, as lines of an inspection ---- */

static bool is_whole(const struct library *ggml)
{
#define X(field, result, parameters, symbol) &&ggml->field
    return true FUNCTIONS(X);
#undef X
}

static void escape_name(char *to, const char *name)
{
    for (size_t i = 0; i < NAME_BYTES && name[i]; i++) {
        char plain = name[i] == '\t' ? 't' : name[i] == '\n' ? 'n' : name[i] == '\r' ? 'r' : name[i];
        if (plain != name[i] || plain == '\\')
            *to++ = '\\';
        *to++ = plain;
    }
    *to = 0;
}

/* No dtype and no shape; the address and bytes are also those of its storage. */
static size_t put_tensor(const struct library *ggml, const void *tensor, int8_t device_index, char *line)
{
    const uint64_t address = (uintptr_t)ggml->data(tensor), bytes = ggml->bytes(tensor);
    char name[2 * NAME_BYTES + 1];
    if (!address || !bytes || (ggml->is_view && ggml->is_view(tensor)))
        return 0;
    escape_name(name, ggml->name(tensor));
    return (size_t)sprintf(
        line, "T\ttensor\t-1\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t\t\t%d\t\n", name,
        address, bytes, address, bytes, device_index);
}

static void record_names(const struct library *ggml, const void *context, void *buffer)
{
    const uint64_t started_ns = vt_clock_ns(CLOCK_MONOTONIC);
    const int8_t device_index = vt_record_device_of((uintptr_t)ggml->base(buffer));
    size_t count = 0, at = 0;
    if (device_index < 0) /* host memory, or spread over several GPUs */
        return;
    for (void *tensor = ggml->first_tensor(context); tensor; tensor = ggml->next_tensor(context, tensor))
        count++;
    char *text = vt_memory_make(count * LINE_BYTES + 1);
    if (!text)
        return;
    void *tensor = ggml->first_tensor(context);
    for (size_t i = 0; i < count && tensor; i++, tensor = ggml->next_tensor(context, tensor))
        at += put_tensor(ggml, tensor, device_index, text + at);
    if (at)
        vt_record_inspection(VT_INSPECTION_LIBRARY, text, at, started_ns);
    vt_memory_free(text, count * LINE_BYTES + 1);
}

__attribute__((visibility("default"))) lay_out_function LAY_OUT;
void *LAY_OUT(void *context, void *type)
{
    struct library ggml = find_library(__builtin_return_address(0));
    void *buffer = ggml.lay_out ? ggml.lay_out(context, type) : NULL;
    if (buffer && vt_options()->inspect && vt_recording() && is_whole(&ggml)) {
        int saved_errno = errno;
        record_names(&ggml, context, buffer);
        errno = saved_errno;
    }
    return buffer;
}
