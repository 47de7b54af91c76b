/* Which traces a command line means: those that it names, those in the folders that it names, or the newest
 * of this folder. */
#include "command/traces.h"

#include "base/format.h"
#include "base/index.h"
#include "base/open_file.h"
#include "command/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER_DEPTH 8 /* of folders in folders; links to folders are not followed */

bool vt_is_folder(const char *path)
{
    struct stat status;

    return path && !stat(path, &status) && S_ISDIR(status.st_mode);
}

static bool has_trace_name(const char *name)
{
    return name[0] != '.' && name[vt_stem_bytes(name)];
}

uint64_t vt_trace_start(const char *path)
{
    struct vt_file_header header;
    struct stat status;

    return vt_read_start(path, &status, &header);
}

uint64_t vt_read_start(const char *path, struct stat *status, struct vt_file_header *header)
{
    static const char nothing[sizeof header->magic];
    int file = vt_open_regular(path, status);
    ssize_t bytes = -1;

    memset(header, 0, sizeof *header);
    if (file >= 0)
        bytes = pread(file, header, sizeof *header, 0);
    if (file >= 0)
        close(file);
    if (bytes < 0)
        return 0;
    if (!memcmp(header->magic, VT_MAGIC, sizeof header->magic))
        return header->start_realtime_ns;
    if (!memcmp(header->magic, nothing, sizeof nothing))
        return (uint64_t)status->st_mtim.tv_sec * 1000000000u + (uint64_t)status->st_mtim.tv_nsec;
    memset(header, 0, sizeof *header);
    return 0;
}

/* ---- The newest of a folder ---- */

struct search {
    const char *folder;
    const char *base;           /* only siblings: the name before their number; NULL = all traces */
    const struct stat *without; /* a file to ignore; NULL = none */
    uid_t owner;                /* of the folder */
    unsigned foreign_count;     /* traces left out: neither ours nor the folder's owner's */
    char *path;                 /* the newest, NULL = none; the caller frees it */
    uint64_t start_ns;          /* its start, CLOCK_REALTIME */
    time_t written; /* a process's trace and its snapshots start together: the last one written counts */
    unsigned count; /* traces that match */
};

/* "BASE.2.vrt": what the recorder calls a trace whose name is taken. */
static bool is_sibling(const char *base, const char *name)
{
    size_t bytes = strlen(base), digits;

    if (strncmp(name, base, bytes) || name[bytes] != '.')
        return false;
    digits = strspn(name + bytes + 1, "0123456789");
    return digits && !strcmp(name + bytes + 1 + digits, ".vrt");
}

static void consider_file(struct search *search, const char *name)
{
    struct vt_file_header header;
    struct stat status;
    uint64_t start_ns;
    char *path;

    if (!(search->base ? is_sibling(search->base, name) : has_trace_name(name)))
        return;
    path = vt_print_text("%s%s%s", search->folder, search->folder[0] ? "/" : "", name);
    start_ns = vt_read_start(path, &status, &header);
    if (!start_ns || (search->without && status.st_dev == search->without->st_dev &&
                      status.st_ino == search->without->st_ino)) {
        free(path);
        return;
    }
    if (status.st_uid != geteuid() && status.st_uid != search->owner) { /* anybody may plant one in /tmp */
        search->foreign_count++;
        free(path);
        return;
    }
    search->count++;
    if (search->path && (start_ns != search->start_ns         ? start_ns < search->start_ns
                         : status.st_mtime != search->written ? status.st_mtime < search->written
                                                              : strcmp(path, search->path) < 0)) {
        free(path);
        return;
    }
    free(search->path);
    search->path = path;
    search->start_ns = start_ns;
    search->written = status.st_mtime;
}

static void search_folder(struct search *search)
{
    DIR *folder = opendir(search->folder[0] ? search->folder : ".");
    struct dirent *entry;
    struct stat status;

    search->owner = folder && !fstat(dirfd(folder), &status) ? status.st_uid : geteuid();
    while (folder && (entry = readdir(folder)))
        consider_file(search, entry->d_name);
    if (folder)
        closedir(folder);
}

char *vt_split_moment(const char *operand, const char **moment)
{
    const char *at = operand + strlen(operand);
    char *path = vt_copy_text(operand);

    *moment = NULL;
    while (access(path, F_OK)) {
        do
            at--;
        while (at > operand && *at != '@');
        if (at <= operand) {
            strcpy(path, operand);
            path[strcspn(path, "@")] = '\0';
            *moment = NULL;
            break;
        }
        path[at - operand] = '\0';
        *moment = at + 1;
    }
    return path;
}

/* A lone operand that is a source file, not a trace. */
static bool is_lone_file(const struct vt_arguments *arguments)
{
    bool one = arguments->command->takes == VT_TAKES_FILE && arguments->operand_count == 1;
    const char *name = one ? arguments->operands[0] : "", *dot = strrchr(name, '.');

    return dot && strcmp(dot, ".vrt") != 0 && !vt_trace_start(name);
}

int vt_find_traces(struct vt_arguments *arguments)
{
    struct search search = {.folder = ""};
    struct stat given;
    bool compares = arguments->command->takes == VT_TAKES_TWO, lone_file = is_lone_file(arguments);
    const char *moment;
    char *first;

    if (arguments->operand_count != (compares || lone_file ? 1 : 0) ||
        arguments->command->takes == VT_TAKES_NOTHING || arguments->command->takes == VT_TAKES_PATHS)
        return 0;
    first = compares ? vt_split_moment(arguments->operands[0], &moment) : NULL;
    if (first && !stat(first, &given))
        search.without = &given;
    free(first);
    search_folder(&search);
    if (!search.path && search.foreign_count)
        return vt_wrong_use(
            "the traces (*.vrt) in this folder are other users'; name one: vramtrace %s TRACE",
            arguments->command->name);
    if (!search.path)
        return vt_wrong_use(compares ? "no other trace (*.vrt) in this folder to compare with; name two "
                                       "traces, or two moments of one: vramtrace %s TRACE@step:2 TRACE@step:9"
                                     : "no trace (*.vrt) in this folder; name one: vramtrace %s TRACE "
                                       "(record one with: vramtrace run COMMAND)",
                            arguments->command->name);
    vt_say("%s %s%s", compares ? "comparing with" : "reading", search.path,
           search.count > 1 ? ", the newest trace in this folder" : "");
    if (compares)
        arguments->found[0] = arguments->operands[0];
    if (lone_file)
        arguments->found[1] = arguments->operands[0];
    arguments->found[lone_file ? 0 : arguments->operand_count] = arguments->found_path = search.path;
    arguments->operand_count++;
    arguments->operands = arguments->found;
    return 0;
}

/* ---- A newer one of that name ---- */

/* The base of "x.1.vrt" is "x" only where x.vrt is there too; else the number may be a rank. */
static bool cut_number(const char *folder, char *stem)
{
    char *dot = strrchr(stem, '.'), *path;
    bool there;

    if (!dot || dot == stem || !dot[1] || dot[1 + strspn(dot + 1, "0123456789")])
        return false;
    *dot = '\0';
    path = vt_print_text("%s%s%s.vrt", folder, folder[0] ? "/" : "", stem);
    there = !access(path, F_OK);
    free(path);
    return there;
}

/* TRACE, TRACE@MOMENT or the baseline. */
static bool is_named(const struct vt_arguments *arguments, const char *path)
{
    size_t bytes = strlen(path);

    for (int i = 0; i < arguments->operand_count; i++)
        if (!strncmp(arguments->operands[i], path, bytes) &&
            (!arguments->operands[i][bytes] || arguments->operands[i][bytes] == '@'))
            return true;
    return arguments->baseline && !strcmp(arguments->baseline, path);
}

void vt_warn_of_newer(const struct vt_arguments *arguments, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *folder = vt_copy_bytes(path, !slash          ? 0
                                       : slash == path ? 1
                                                       : (size_t)(slash - path)),
         *stem = vt_copy_bytes(name, vt_stem_bytes(name));
    uint64_t start_ns = name[strlen(stem)] ? vt_trace_start(path) : 0;
    struct search search = {.folder = folder, .base = stem};
    char later[32];

    if (start_ns) {
        search_folder(&search);
        if (cut_number(folder, stem))
            search_folder(&search);
    }
    if (search.path && search.start_ns > start_ns && !is_named(arguments, search.path))
        vt_say("note: %s is newer than %s (recorded %s later)", search.path, path,
               vt_format_duration(search.start_ns - start_ns, later));
    free(search.path);
    free(folder);
    free(stem);
}

/* ---- Those in folders ---- */

static void add_file(struct vt_files *files, const char *path, const struct stat *status, bool found)
{
    struct vt_file file = {.device = status->st_dev, .inode = status->st_ino, .found = found};

    for (size_t i = 0; files->once && status->st_ino && i < files->count; i++)
        if (files->items[i].device == file.device && files->items[i].inode == file.inode)
            return;
    file.path = vt_copy_text(path);
    VT_APPEND(files->items, files->count, files->capacity, file);
}

/* By its first bytes: the file is not called *.vrt. */
static bool looks_like_trace(const char *path)
{
    struct vt_file_header header;
    struct stat status;

    vt_read_start(path, &status, &header);
    return header.magic[0] != '\0';
}

static int add_folder(struct vt_files *files, const char *path, int depth);

static void add_entry(struct vt_files *files, const char *folder, const char *name, int depth)
{
    char *path = vt_print_text("%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/", name);
    struct stat status;
    bool is_link = false;

    if (name[0] != '.' && !lstat(path, &status)) {
        is_link = S_ISLNK(status.st_mode) && !stat(path, &status);
        if (S_ISDIR(status.st_mode) && !is_link && depth < FOLDER_DEPTH) {
            if (add_folder(files, path, depth + 1)) /* the attempt to read it says why */
                add_file(files, path, &status, true);
        } else if (!S_ISDIR(status.st_mode) &&
                   (has_trace_name(name) || (!files->by_name && looks_like_trace(path)))) {
            add_file(files, path, &status, true);
        }
    }
    free(path);
}

/* 0 or an errno. */
static int add_folder(struct vt_files *files, const char *path, int depth)
{
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, versionsort);

    if (count < 0 && errno == ENOMEM)
        vt_end_out_of_memory();
    if (count < 0)
        return errno;
    for (int i = 0; i < count; i++) {
        add_entry(files, path, entries[i]->d_name, depth);
        free(entries[i]);
    }
    free(entries);
    return 0;
}

void vt_files_free(struct vt_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->items[i].path);
    free(files->items);
    free(files->paths);
    *files = (struct vt_files){0};
}

int vt_files_find(const struct vt_arguments *arguments, struct vt_files *files)
{
    for (int i = 0; i < arguments->operand_count; i++) {
        const char *path = arguments->operands[i];
        size_t before = files->count;
        struct stat status = {0};
        int error;

        if (stat(path, &status) || !S_ISDIR(status.st_mode)) {
            add_file(files, path, &status, false); /* the attempt to read it says what is wrong */
            continue;
        }
        error = add_folder(files, path, 0);
        if (error || files->count == before) {
            vt_say("%s: %s", path,
                   error
                       ? strerror(error)
                       : "no traces found in this folder or below (record one with: vramtrace run -o FOLDER/ "
                         "COMMAND)");
            return VT_EXIT_UNREADABLE;
        }
    }
    files->paths = vt_allocate_zeros(files->count + 1, sizeof *files->paths);
    for (size_t i = 0; i < files->count; i++)
        files->paths[i] = files->items[i].path;
    return 0;
}

int vt_files_to_operands(struct vt_arguments *arguments, struct vt_files *files)
{
    bool any = false;
    int status;

    for (int i = 0; i < arguments->operand_count; i++)
        any |= vt_is_folder(arguments->operands[i]);
    if (!any)
        return 0;
    status = vt_files_find(arguments, files);
    if (status)
        return status;
    arguments->operands = files->paths;
    arguments->operand_count = (int)files->count;
    return 0;
}
