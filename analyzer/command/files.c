/* Which traces a command line means: those that it names, and those in the folders that it names. */
#include "command/files.h"
#include "command/command.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/index.h"
#include "vramtrace/format.h"

#define FOLDER_DEPTH 8 /* of folders in folders; links to folders are not followed */

bool vt_is_folder(const char *path)
{
    struct stat status;

    return path && !stat(path, &status) && S_ISDIR(status.st_mode);
}

static void add_file(struct vt_files *files, const char *path, const struct stat *status, bool found)
{
    struct vt_file file = {.device = status->st_dev, .inode = status->st_ino, .found = found};

    for (size_t i = 0; files->once && status->st_ino && i < files->count; i++)
        if (files->items[i].device == file.device && files->items[i].inode == file.inode)
            return;
    file.path = vt_copy_text(path);
    VT_APPEND(files->items, files->count, files->capacity, file);
}

static bool has_trace_name(const char *name)
{
    size_t length = strlen(name);

    return length > 4 && !strcmp(name + length - 4, ".vrt");
}

/* By its first bytes: the file is not called *.vrt. */
static bool looks_like_trace(int folder, const char *name)
{
    char magic[sizeof(((struct vt_file_header *)0)->magic)] = "";
    int file;

    file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return false;
    if (read(file, magic, sizeof magic) < 0)
        magic[0] = '\0';
    close(file);
    return !memcmp(magic, VT_MAGIC, sizeof magic);
}

static int add_folder(struct vt_files *files, const char *path, int depth);

/* `folder`: an open descriptor of the folder at `path`, in which `name` is. */
static void add_entry(struct vt_files *files, const char *path, int folder, const char *name, int depth)
{
    struct stat status;
    bool is_link;
    char *inner;

    if (name[0] == '.' || fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW))
        return;
    is_link = S_ISLNK(status.st_mode) && !fstatat(folder, name, &status, 0);
    inner = vt_print_text("%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", name);
    if (S_ISDIR(status.st_mode) && !is_link && depth < FOLDER_DEPTH) {
        if (add_folder(files, inner, depth + 1)) /* the attempt to read it says why */
            add_file(files, inner, &status, true);
    } else if (!S_ISDIR(status.st_mode) &&
               (has_trace_name(name) ||
                (!files->by_name && S_ISREG(status.st_mode) && looks_like_trace(folder, name)))) {
        add_file(files, inner, &status, true);
    }
    free(inner);
}

/* 0 or an errno. */
static int add_folder(struct vt_files *files, const char *path, int depth)
{
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, versionsort),
        folder = count < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (count < 0 && errno == ENOMEM)
        vt_end_out_of_memory();
    if (count < 0)
        return errno;
    for (int i = 0; i < count; i++) {
        add_entry(files, path, folder, entries[i]->d_name, depth);
        free(entries[i]);
    }
    free(entries);
    if (folder >= 0)
        close(folder);
    return 0;
}

void vt_files_free(struct vt_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->items[i].path);
    free(files->items);
    free(files->operands);
    *files = (struct vt_files){0};
}

int vt_files_find(const struct vt_command *command, const struct vt_arguments *arguments,
                  struct vt_files *files)
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
            vt_say(command, "%s: %s", path,
                   error
                       ? strerror(error)
                       : "no traces found in this folder or below (record one with: vramtrace run -o FOLDER/ "
                         "COMMAND)");
            return VT_EXIT_UNREADABLE;
        }
    }
    return 0;
}

int vt_files_to_operands(const struct vt_command *command, struct vt_arguments *arguments,
                         struct vt_files *files)
{
    bool any = false;
    int status;

    for (int i = 0; i < arguments->operand_count; i++)
        any |= vt_is_folder(arguments->operands[i]);
    if (!any)
        return 0;
    status = vt_files_find(command, arguments, files);
    if (status)
        return status;
    files->operands = vt_allocate_zeros(files->count + 1, sizeof *files->operands);
    for (size_t i = 0; i < files->count; i++)
        files->operands[i] = files->items[i].path;
    arguments->operands = files->operands;
    arguments->operand_count = (int)files->count;
    return 0;
}
