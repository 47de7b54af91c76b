/* The traces that mcp may open: those named, and those below the folders named. A few stay in memory. */
#include "command/mcp.h"

#include <errno.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/format.h"
#include "base/index.h"
#include "report/facts.h"
#include "view/mcp/mcp.h"
#include "view/sqlite/query.h"

/* ---- What may be opened ---- */

int vt_mcp_traces_begin(const struct vt_command *command, const struct vt_arguments *arguments,
                        struct vt_mcp_traces *traces)
{
    size_t count = arguments->operand_count ? (size_t)arguments->operand_count : 1;

    *traces = (struct vt_mcp_traces){.roots = calloc(count, sizeof *traces->roots)};
    for (size_t i = 0; traces->roots && i < count; i++) {
        const char *name = arguments->operand_count ? arguments->operands[i] : ".";
        struct vt_mcp_root *root = &traces->roots[traces->count];
        struct stat status;

        root->path = realpath(name, NULL);
        if (!root->path || stat(root->path, &status)) {
            vt_say(command, "%s: %s; name traces, or folders with traces", name, strerror(errno));
            free(root->path);
            return VT_EXIT_UNREADABLE;
        }
        root->is_folder = S_ISDIR(status.st_mode);
        traces->count++;
    }
    if (traces->roots)
        return 0;
    vt_say(command, "out of memory");
    return VT_EXIT_UNREADABLE;
}

static void drop(struct vt_mcp_kept *kept)
{
    vt_query_end(kept->database);
    vt_unload(&kept->loaded);
    free(kept->path);
    *kept = (struct vt_mcp_kept){0};
}

void vt_mcp_traces_end(struct vt_mcp_traces *traces)
{
    for (size_t i = 0; i < VT_MCP_KEPT; i++)
        drop(&traces->kept[i]);
    for (size_t i = 0; i < traces->count; i++)
        free(traces->roots[i].path);
    free(traces->roots);
}

/* Where the part of `path` below the folder begins; NULL = it is not below it. */
static const char *below(const struct vt_mcp_root *root, const char *path)
{
    size_t length = strlen(root->path);

    if (strncmp(path, root->path, length) != 0)
        return NULL;
    if (length && root->path[length - 1] == '/') /* the root folder */
        return path + length;
    return path[length] == '/' ? path + length + 1 : NULL;
}

const char *vt_mcp_name(const struct vt_mcp_traces *traces, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = NULL;

    for (size_t i = 0; i < traces->count && !name; i++)
        name = traces->roots[i].is_folder ? below(&traces->roots[i], path) : NULL;
    return name ? name : slash ? slash + 1 : path;
}

static bool may_open(const struct vt_mcp_traces *traces, const char *path)
{
    for (size_t i = 0; i < traces->count; i++)
        if (traces->roots[i].is_folder ? below(&traces->roots[i], path) != NULL
                                       : !strcmp(traces->roots[i].path, path))
            return true;
    return false;
}

/* ---- The list ---- */

static int add(struct vt_mcp_list *list, const char *path, const char *name)
{
    struct stat status;
    uint64_t start_ns = vt_trace_start(path, &status);
    struct vt_mcp_listed item = {.start_ns = start_ns, .bytes = start_ns ? (uint64_t)status.st_size : 0};
    int result;

    if (!start_ns) {
        list->forbidden += access(path, R_OK) && errno == EACCES;
        return 0;
    }
    item.path = strdup(path);
    item.name = vt_mcp_clean(name);
    result = item.path && item.name ? VT_APPEND(list->items, list->count, list->capacity, item) : -ENOMEM;
    if (result) {
        free(item.path);
        free(item.name);
    }
    return result;
}

static bool has_name_of_trace(const char *name)
{
    size_t length = strlen(name);

    return length > 4 && !strcmp(name + length - 4, ".vrt");
}

/* Does not follow links: they may lead out of the folder, or around. */
static int add_folder(struct vt_mcp_list *list, const struct vt_mcp_root *root)
{
    char *const paths[] = {root->path, NULL};
    FTS *walk = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    FTSENT *entry;
    int result = walk ? 0 : -ENOMEM;

    while (!result && list->looked_at <= VT_MCP_MAX_FILES && (entry = fts_read(walk))) {
        list->looked_at++;
        list->forbidden += entry->fts_info == FTS_DNR;
        if (entry->fts_info != FTS_D && entry->fts_info != FTS_DP && has_name_of_trace(entry->fts_name) &&
            entry->fts_info != FTS_SL && entry->fts_info != FTS_SLNONE)
            result = add(list, entry->fts_path, below(root, entry->fts_path));
    }
    if (walk)
        fts_close(walk);
    return result;
}

static int newest_first(const void *left, const void *right)
{
    const struct vt_mcp_listed *a = left, *b = right;

    if (a->start_ns != b->start_ns)
        return a->start_ns > b->start_ns ? -1 : 1;
    return strcmp(a->path, b->path);
}

int vt_mcp_list_make(const struct vt_mcp_traces *traces, struct vt_mcp_list *list)
{
    int result = 0;

    *list = (struct vt_mcp_list){.items = NULL};
    for (size_t i = 0; i < traces->count && !result; i++) {
        const struct vt_mcp_root *root = &traces->roots[i];
        const char *slash = strrchr(root->path, '/');

        result =
            root->is_folder ? add_folder(list, root) : add(list, root->path, slash ? slash + 1 : root->path);
    }
    if (list->count)
        qsort(list->items, list->count, sizeof *list->items, newest_first);
    list->cut = list->looked_at > VT_MCP_MAX_FILES;
    if (result)
        vt_mcp_list_free(list);
    return result;
}

void vt_mcp_list_free(struct vt_mcp_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].path);
        free(list->items[i].name);
    }
    free(list->items);
    *list = (struct vt_mcp_list){.items = NULL};
}

/* ---- Which one is meant ---- */

/* The path of the listed trace with this name, or of the first; NULL with the reason in `error`. */
static char *find_listed(const struct vt_mcp_traces *traces, const char *name, char *error,
                         size_t error_bytes)
{
    struct vt_mcp_list list;
    char *path = NULL;
    size_t i = 0;

    snprintf(error, error_bytes, "out of memory");
    if (vt_mcp_list_make(traces, &list))
        return NULL;
    while (name && i < list.count && strcmp(list.items[i].name, name) != 0)
        i++;
    if (i < list.count)
        path = strdup(list.items[i].path);
    else if (!name && list.forbidden)
        snprintf(error, error_bytes, "there is no trace here that this user may read: %zu may not be read",
                 list.forbidden);
    else if (!name)
        snprintf(error, error_bytes, "there is no trace here; `vramtrace run COMMAND` makes one");
    else
        snprintf(error, error_bytes,
                 "no trace '%.300s' here: only traces below the server's folder can be opened; the tool "
                 "`traces` lists them",
                 name);
    vt_mcp_list_free(&list);
    return path;
}

/* The path of `name` below one of the folders, or of a named trace, with all links resolved; NULL = none. */
static char *find(const struct vt_mcp_traces *traces, const char *name)
{
    for (size_t i = 0; i < traces->count; i++) {
        const struct vt_mcp_root *root = &traces->roots[i];
        const char *slash = strrchr(root->path, '/');
        char *joined = NULL, *path = NULL;

        if (!root->is_folder && slash && !strcmp(slash + 1, name))
            path = strdup(root->path);
        else if (name[0] == '/')
            path = realpath(name, NULL);
        else if (root->is_folder && asprintf(&joined, "%s/%s", root->path, name) >= 0)
            path = realpath(joined, NULL);
        free(joined);
        if (path && may_open(traces, path))
            return path;
        free(path);
    }
    return NULL;
}

/* ---- Opening ---- */

bool vt_mcp_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* The ring of a trace that is being recorded changes without a trace in the file's times. */
static bool is_over(const struct vt_loaded *loaded)
{
    struct vt_trace_facts facts;

    vt_trace_facts_read(loaded->trace, &facts);
    return strcmp(facts.state, "recording") != 0;
}

/* The one that holds the file, or the one to use for it. */
static struct vt_mcp_kept *place_for(struct vt_mcp_traces *traces, const char *path)
{
    struct vt_mcp_kept *oldest = &traces->kept[0];

    for (size_t i = 0; i < VT_MCP_KEPT; i++) {
        struct vt_mcp_kept *kept = &traces->kept[i];

        if (kept->path && !strcmp(kept->path, path))
            return kept;
        if (kept->used < oldest->used)
            oldest = kept;
    }
    return oldest;
}

/* Takes over `path`. */
static struct vt_mcp_kept *open_path(struct vt_mcp_traces *traces, char *path, bool whole, char *error,
                                     size_t error_bytes)
{
    struct vt_mcp_kept *kept = place_for(traces, path);
    struct stat status;

    if (stat(path, &status) || !S_ISREG(status.st_mode)) {
        snprintf(error, error_bytes, "%s is no file", path);
        free(path);
        return NULL;
    }
    if (kept->path && !strcmp(kept->path, path) && vt_mcp_same_file(&kept->status, &status) &&
        is_over(&kept->loaded) && !(whole && kept->loaded.thinned)) {
        free(path);
    } else {
        drop(kept);
        if (vt_open(path, NULL, !whole, &kept->loaded, error, error_bytes)) {
            free(path);
            return NULL;
        }
        kept->path = path;
        kept->status = status;
    }
    kept->used = ++traces->uses;
    return kept;
}

char *vt_mcp_find(const struct vt_mcp_traces *traces, const char *name, char *error, size_t error_bytes)
{
    char *path = name ? find(traces, name) : NULL;

    /* names that are not UTF-8 are known by how they are listed */
    return path ? path : find_listed(traces, name, error, error_bytes);
}

static struct vt_mcp_kept *open_named(struct vt_mcp_traces *traces, const char *name, bool whole, char *error,
                                      size_t error_bytes)
{
    char *path = vt_mcp_find(traces, name, error, error_bytes);

    return path ? open_path(traces, path, whole, error, error_bytes) : NULL;
}

struct vt_mcp_kept *vt_mcp_open(struct vt_mcp_traces *traces, const char *name, char *error,
                                size_t error_bytes)
{
    return open_named(traces, name, false, error, error_bytes);
}

struct vt_mcp_kept *vt_mcp_open_whole(struct vt_mcp_traces *traces, const char *name, char *error,
                                      size_t error_bytes)
{
    struct vt_mcp_kept *kept = open_named(traces, name, false, error, error_bytes);
    char events[32];

    if (!kept || !kept->loaded.thinned)
        return kept;
    if (kept->loaded.trace->recorded_events <= VT_MCP_MAX_EVENTS)
        return open_named(traces, name, true, error, error_bytes);
    snprintf(
        error, error_bytes,
        "the trace has %s events, too many to look at each here: vramtrace annotate and vramtrace export "
        "--format sqlite --all-events do, where there is memory",
        vt_format_count(kept->loaded.trace->recorded_events, events));
    return NULL;
}

int vt_mcp_reach(struct vt_mcp_kept *kept, const struct vt_report_options *options, char *error,
                 size_t error_bytes)
{
    int result = vt_reach(&kept->loaded, options, error, error_bytes);

    if (result)
        drop(kept);
    return result;
}
