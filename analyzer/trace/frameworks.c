#include "trace/frameworks.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "trace/tables.h"
#include "trace/trace.h"

#define BASE32 "abcdefghijklmnopqrstuvwxyz234567"

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool ends(const char *text, const char *end)
{
    const size_t bytes = strlen(text), end_bytes = strlen(end);
    return bytes >= end_bytes && strcmp(text + bytes - end_bytes, end) == 0;
}

#define COUNT(table) (sizeof(table) / sizeof *(table))

static bool begins_any(const char *text, const char *const *starts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (begins(text, starts[i]))
            return true;
    return false;
}

static bool contains_any(const char *text, const char *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(text, parts[i]))
            return true;
    return false;
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- Tables of libraries: a row begins with the start of the file's name ---- */

struct rows {
    const void *first;
    size_t count, bytes; /* of a row */
};
#define ROWS(table) (&(struct rows){table, COUNT(table), sizeof *(table)})

/* The first row that fits, NULL = none. */
static const void *row_of(const char *path, const struct rows *rows)
{
    const char *name = file_name(path), *row = rows->first;
    for (size_t i = 0; i < rows->count; i++, row += rows->bytes)
        if (begins(name, *(const char *const *)row))
            return row;
    return NULL;
}

/* The library of a native frame, "" = unknown. */
static const char *library_of(const struct vt_trace *trace, const struct vt_trace_stack *stack,
                              uint32_t frame)
{
    const struct vt_trace_symbol *symbol = vt_trace_symbol(trace, stack->native[frame]);
    return symbol ? symbol->module : "";
}

/* The row of the innermost native frame whose library has one, NULL = none. */
static const void *row_in_stack(const struct vt_trace *trace, uint32_t stack_id, const struct rows *rows)
{
    const struct vt_trace_stack *stack = &trace->stacks[stack_id];
    const void *row = NULL;
    for (uint32_t i = 0; i < stack->native_count && !row; i++)
        row = row_of(library_of(trace, stack, i), rows);
    return row;
}

unsigned vt_object_kinds(const char *path)
{
    static const struct object {
        const char *beginning;
        unsigned kinds;
    } objects[] = {
#define VT_OBJECT(beginning, kinds) {beginning, kinds},
#include "trace/frameworks.def"
    };
    const struct object *object = row_of(path, ROWS(objects));
    return object ? object->kinds : 0;
}

const char *vt_cuda_library(const char *path)
{
    static const struct library {
        const char *beginning, *name;
    } libraries[] = {
#define VT_CUDA_LIBRARY(beginning, name) {beginning, name},
#include "trace/frameworks.def"
    };
    const struct library *library = row_of(path, ROWS(libraries));
    return library ? library->name : NULL;
}

/* The rest of a file's path in a library's folder, NULL = it is in none. */
static const char *path_in_folder(const char *file, bool packages_only)
{
    static const struct {
        const char *part;
        bool has_packages;
    } folders[] = {
#define VT_LIBRARY_FOLDER(part, has_packages) {part, has_packages},
#include "trace/frameworks.def"
    };
    for (size_t i = 0; i < COUNT(folders); i++) {
        const char *found = packages_only && !folders[i].has_packages ? NULL : strstr(file, folders[i].part);
        if (found)
            return found + strlen(folders[i].part);
    }
    return NULL;
}

/* Whether a file is named after the hash of its content. */
static bool is_hashed(const char *name)
{
    static const struct {
        const char *begin;
        size_t count;
        const char *end;
    } hashes[] = {
#define VT_LIBRARY_HASH(begin, count, end) {begin, count, end},
#include "trace/frameworks.def"
    };
    for (size_t i = 0; i < COUNT(hashes); i++) {
        size_t bytes = strlen(hashes[i].begin);
        if (begins(name, hashes[i].begin) && strspn(name + bytes, BASE32) == hashes[i].count &&
            strcmp(name + bytes + hashes[i].count, hashes[i].end) == 0)
            return true;
    }
    return false;
}

const struct vt_optimizer_states *vt_optimizer_states_of(const char *file)
{
    static const struct vt_optimizer_states optimizers[] = {
#define VT_STATES(file, name, least, most) {file, name, least, most},
#include "trace/frameworks.def"
    };
    for (size_t i = 0; i < COUNT(optimizers); i++)
        if (ends(file, optimizers[i].file))
            return &optimizers[i];
    return NULL;
}

bool vt_is_library_file(const char *file)
{
    static const char *const user_files[] = {
#define VT_USER_FILE(beginning) beginning,
#include "trace/frameworks.def"
    };
    if (file[0] == '<')
        return !begins_any(file, user_files, COUNT(user_files));
    return path_in_folder(file, false) || is_hashed(file_name(file));
}

const char *vt_path_in_packages(const char *file)
{
    return path_in_folder(file, true);
}

bool vt_is_start(const char *file, const char *function)
{
    static const struct {
        const char *end, *function;
    } starts[] = {
#define VT_START(end, function) {end, function},
#include "trace/frameworks.def"
    };
    const char *dot = strrchr(function, '.');
    for (size_t i = 0; i < COUNT(starts); i++)
        if (ends(file, starts[i].end) && !strcmp(dot ? dot + 1 : function, starts[i].function))
            return true;
    return false;
}

bool vt_is_package_file(const char *file)
{
    static const char *const packages[] = {
#define VT_PACKAGE(beginning) beginning,
#include "trace/frameworks.def"
    };
    const char *rest = vt_path_in_packages(file);
    return rest && !begins_any(rest, packages, COUNT(packages));
}

bool vt_is_plumbing(const char *function)
{
    static const char *const plumbing[] = {
#define VT_PLUMBING(beginning) beginning,
#include "trace/frameworks.def"
    };
    return begins_any(function, plumbing, COUNT(plumbing));
}

static const struct {
    const char *beginning, *node_end;
} autograd[] = {
#define VT_AUTOGRAD(beginning, node_end) {beginning, node_end},
#include "trace/frameworks.def"
};

bool vt_is_autograd(const char *function)
{
    for (size_t i = 0; i < COUNT(autograd); i++)
        if (begins(function, autograd[i].beginning))
            return true;
    return false;
}

bool vt_is_node(const char *function)
{
    static const char *const nodes[] = {
#define VT_NODE(part) part,
#include "trace/frameworks.def"
    };
    return contains_any(function, nodes, COUNT(nodes));
}

bool vt_is_cache_name(const char *name)
{
    static const char *const parts[] = {
#define VT_CACHE_NAME(part) part,
#include "trace/frameworks.def"
    };
    const char *with = strstr(name, "With"); /* a class that only takes one: DecodeWithPagedKVCacheWrapper */
    return !(with && strstr(with, "KVCache")) && contains_any(name, parts, COUNT(parts));
}

/* ---- Names of tensors ---- */

static bool in_word(char letter)
{
    return isalpha((unsigned char)letter);
}

/* Whether `name` contains these words, as whole words. */
static bool has_words(const char *name, size_t bytes, const char *words)
{
    size_t length = strlen(words);
    for (size_t i = 0; i + length <= bytes; i++)
        if (strncasecmp(name + i, words, length) == 0 && (i == 0 || !in_word(name[i - 1])) &&
            (i + length == bytes || !in_word(name[i + length])))
            return true;
    return false;
}

struct tensor_name {
    const char *words;
    uint8_t category;
};

/* The first row whose words a name has, NULL = none. */
static const struct tensor_name *find_tensor_name(const char *name, size_t bytes)
{
    static const struct tensor_name names[] = {
#define VT_TENSOR_NAME(words, category) {words, VT_CATEGORY_##category},
#include "trace/frameworks.def"
    };
    for (size_t i = 0; i < COUNT(names); i++)
        if (has_words(name, bytes, names[i].words))
            return &names[i];
    return NULL;
}

static size_t name_bytes(const char *name, size_t most)
{
    size_t bytes = 0;
    while (bytes < most && (isalnum((unsigned char)name[bytes]) || name[bytes] == '_'))
        bytes++;
    return bytes;
}

enum vt_category vt_named_category(const char *way)
{
    const struct tensor_name *found = NULL;
    for (const char *step = way, *end; step; step = end ? end + 3 : NULL) {
        end = strstr(step, " < ");
        size_t bytes = end ? (size_t)(end - step) : strlen(step);
        /* "dict 'momentum' of train(), 2 items", "list Lion.exp_avg, 4 items" */
        const char *name = memchr(step, '\'', bytes);
        if (!name)
            name = memchr(step, '.', bytes);
        if (!name)
            continue;
        name++;
        const struct tensor_name *row =
            find_tensor_name(name, name_bytes(name, (size_t)(step + bytes - name)));
        if (row && row->category == VT_CATEGORY_UNKNOWN)
            return VT_CATEGORY_UNKNOWN;
        found = found ? found : row;
    }
    return found ? found->category : VT_CATEGORY_UNKNOWN;
}

enum vt_category vt_named_path(const char *path, size_t bytes)
{
    const struct tensor_name *found = NULL;
    for (size_t i = 0, length; i < bytes; i += length ? length : 1) {
        length = name_bytes(path + i, bytes - i);
        const struct tensor_name *row = length ? find_tensor_name(path + i, length) : NULL;
        if (row && row->category == VT_CATEGORY_UNKNOWN)
            return VT_CATEGORY_UNKNOWN;
        found = row ? row : found;
    }
    return found ? found->category : VT_CATEGORY_UNKNOWN;
}

size_t vt_holder_bytes(const char *holder)
{
    const char *comma = strrchr(holder, ',');
    return comma && strstr(comma, " item") ? (size_t)(comma - holder) : strlen(holder);
}

size_t vt_node_name(const char *function, const char **name)
{
    for (size_t i = 0; i < COUNT(autograd); i++) {
        const char *end = strstr(function, autograd[i].node_end);
        if (!begins(function, autograd[i].beginning) || !end || end[strlen(autograd[i].node_end)] != '\0')
            continue;
        *name = end;
        while ((*name)[-1] != ':')
            (*name)--;
        return (size_t)(end - *name);
    }
    return 0;
}

/* ---- Stacks ---- */

const char *vt_cuda_caller(const struct vt_trace *trace, uint32_t stack_id)
{
    const struct vt_trace_stack *stack = &trace->stacks[stack_id];
    for (uint32_t i = 0; i < stack->native_count; i++) {
        const char *path = library_of(trace, stack, i);
        if (path[0] && !(vt_object_kinds(path) & VT_OBJECT_CUDA))
            return path;
    }
    return NULL;
}

bool vt_shows_kind(const struct vt_trace *trace, uint32_t stack_id, unsigned kind)
{
    const struct vt_trace_stack *stack = &trace->stacks[stack_id];
    for (uint32_t i = 0; i < stack->native_count; i++)
        if (vt_object_kinds(library_of(trace, stack, i)) & kind)
            return true;
    return false;
}

const char *vt_clear_of(const struct vt_trace *trace, uint32_t stack_id)
{
    static const struct clear {
        const char *beginning, *code;
    } clears[] = {
#define VT_CLEAR(beginning, code) {beginning, code},
#include "trace/frameworks.def"
    };
    const struct clear *clear = row_in_stack(trace, stack_id, ROWS(clears));
    return clear ? clear->code : clears[0].code;
}

static const struct limit {
    const char *beginning, *setting;
    bool reported;
} limits[] = {
#define VT_LIMIT(beginning, setting, reported) {beginning, setting, reported},
#include "trace/frameworks.def"
};

const char *vt_limit_of(const struct vt_trace *trace, uint32_t stack_id)
{
    const struct limit *limit = row_in_stack(trace, stack_id, ROWS(limits));
    return limit ? limit->setting : NULL;
}

const char *vt_limit_unreported(const struct vt_trace *trace)
{
    for (size_t i = 0; trace->tables && i < trace->tables->module_count; i++) {
        const struct limit *limit = row_of(trace->tables->modules[i].path, ROWS(limits));
        if (limit && !limit->reported)
            return limit->setting;
    }
    return NULL;
}

const struct vt_cache *vt_cache_of(const struct vt_trace *trace, uint32_t stack_id, bool first)
{
    static const struct vt_cache caches[] = {
#define VT_CACHE(beginning, release, setting, grows) {beginning, release, setting, grows},
#include "trace/frameworks.def"
    };
    const char *path = vt_cuda_caller(trace, stack_id);
    return path ? row_of(path, ROWS(caches)) : first ? &caches[0] : NULL;
}
