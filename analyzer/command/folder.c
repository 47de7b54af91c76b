/* A folder as output: made under another name, and renamed when it is complete. */
#include "command/command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int cannot_write(const struct vt_command *command, const char *path, int error)
{
    const char *advice = error == ENOENT ? "; create the folder that it is in first"
                         : error == ENOSPC || error == EDQUOT
                             ? "; free some space, or write elsewhere with -o FOLDER"
                         : error == EEXIST ? "; remove it, or give another folder with -o FOLDER"
                                           : "";

    if (error == ENOMEM)
        vt_end_out_of_memory();
    vt_say(command, "cannot write %s: %s%s", path, strerror(error), advice);
    return VT_EXIT_NOT_WRITTEN;
}

int vt_folder_begin(const struct vt_command *command, const char *path, struct vt_folder *folder)
{
    struct stat status;
    size_t length = strlen(path);
    int error;

    *folder = (struct vt_folder){.path = path};
    if (!length)
        return vt_wrong_use(command, "-o needs a folder's name");
    while (length > 1 && path[length - 1] == '/')
        length--;
    if (!lstat(path, &status))
        return cannot_write(command, path, EEXIST); /* known before the work, not after */
    folder->temporary = vt_print_text("%.*s.XXXXXX", (int)length, path);
    if (!vt_temporary_make(folder->temporary, true))
        return 0;
    error = errno;
    free(folder->temporary);
    folder->temporary = NULL;
    return cannot_write(command, path, error);
}

int vt_folder_end(const struct vt_command *command, struct vt_folder *folder, int status, int result)
{
    mode_t mask = umask(0);

    umask(mask);
    if (!status && !result)
        result = chmod(folder->temporary, 0777 & ~mask) ? -errno : -vt_temporary_keep(folder->path);
    vt_temporary_remove();
    if (result)
        status = cannot_write(command, folder->path, -result);
    free(folder->temporary);
    folder->temporary = NULL;
    return status;
}
