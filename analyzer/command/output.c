#include "command/output.h"

#include "base/memory_stream.h"
#include "command/temporary.h"
#include "view/text/print.h"
#include "vramtrace/format.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define WIDEST 240 /* longer lines are hard to read */

static const struct vt_command *speaker; /* NULL = none */

void vt_say_as(const struct vt_command *command)
{
    speaker = command;
}

/* By one write: all ranks of a job may say it at once, into one terminal. */
void vt_say_text(char *text)
{
    char *line;
    size_t bytes;
    FILE *out = vt_memory_stream(&line, &bytes);

    fprintf(out, speaker ? "vramtrace %s: " : "vramtrace: ", speaker ? speaker->name : "");
    vt_put_clean(text, out); /* it may quote a trace, or a file's name */
    fputc('\n', out);
    fclose(out);
    fwrite(line, 1, bytes, stderr);
    free(line);
    free(text);
}

/* ---- The terminal ---- */

static bool wants_colour(int choice, int file)
{
    const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");

    if (choice != VT_COLOUR_AUTO)
        return choice == VT_COLOUR_ALWAYS;
    return isatty(file) && !(no_colour && no_colour[0]) && term && strcmp(term, "dumb") != 0;
}

static bool terminal_size(FILE *out, struct winsize *size)
{
    return isatty(fileno(out)) && !ioctl(fileno(out), TIOCGWINSZ, size) && size->ws_col;
}

int vt_columns(FILE *out)
{
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    int width = terminal_size(out, &size) ? size.ws_col : columns && atoi(columns) > 0 ? atoi(columns) : 80;

    return width < 40 ? 40 : width > WIDEST ? WIDEST : width;
}

struct vt_view_style vt_style(const struct vt_arguments *arguments, const struct vt_output *output)
{
    struct vt_view_style style = {
        .by = arguments->by, .top = arguments->top, .all = arguments->all, .full = arguments->full, .brief = arguments->brief};
    FILE *terminal = output->paged ? stdout : output->stream;
    struct winsize size;

    style.colour = wants_colour(arguments->colour, fileno(terminal));
    style.unicode = arguments->brief || !strcmp(nl_langinfo(CODESET), "UTF-8");
    style.height = terminal_size(terminal, &size) ? size.ws_row : 0;
    style.width = arguments->width ? arguments->width : vt_columns(terminal);
    return style;
}

/* ---- The file ---- */

static const char *advice_for(int error)
{
    if (error == ENOSPC || error == EDQUOT)
        return "; free some space, or write elsewhere with -o FILE";
    if (error == EACCES || error == EPERM || error == EROFS)
        return "; write elsewhere with -o FILE";
    return error == ENOENT ? "; create its folder first" : "";
}

static int cannot_write(struct vt_output *output, int error)
{
    if (error == ENOMEM)
        vt_end_out_of_memory();
    if (!output->broken) /* once is enough */
        vt_say("cannot write %s: %s%s", output->path ? output->path : "to the standard output",
               strerror(error), advice_for(error));
    output->broken = true;
    return VT_EXIT_NOT_WRITTEN;
}

/* `mode` as it is for what a user makes. */
static mode_t new_mode(mode_t mode)
{
    mode_t mask = umask(0);

    umask(mask);
    return mode & ~mask;
}

/* `vramtrace run -o` names a trace: the same habit must not overwrite one here. */
static bool is_trace(const char *path)
{
    char magic[sizeof VT_MAGIC - 1];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool is = file >= 0 && read(file, magic, sizeof magic) == (ssize_t)sizeof magic &&
              !memcmp(magic, VT_MAGIC, sizeof magic);

    if (file >= 0)
        close(file);
    return is;
}

static int open_temporary(struct vt_output *output, mode_t mode)
{
    int file;

    output->temporary = vt_print_text("%s.XXXXXX", output->target);
    file = vt_temporary_make(output->temporary, false);
    if (file >= 0 && !fchmod(file, mode))
        return file;
    if (file >= 0) {
        int error = errno;

        close(file);
        vt_temporary_remove();
        errno = error;
    }
    free(output->temporary);
    output->temporary = NULL;
    return -1;
}

int vt_output_begin(const char *path, struct vt_output *output)
{
    struct stat status;
    bool exists;
    int file;

    *output = (struct vt_output){.stream = stdout};
    if (!path || !strcmp(path, "-"))
        return 0;
    if (!path[0])
        return vt_wrong_use("-o needs a file name, or - for the standard output");
    output->path = path;
    output->stream = NULL; /* until there is one */
    exists = !stat(path, &status);
    if (exists && S_ISDIR(status.st_mode)) {
        vt_say("cannot write %s: it is a folder; give a file in it: -o %s/%s", path, path,
               speaker->bit == 1u << VT_COMMAND_HTML ? "report.html" : "report.txt");
        return VT_EXIT_NOT_WRITTEN;
    }
    if (exists && S_ISREG(status.st_mode) && is_trace(path))
        return vt_wrong_use("-o %s would overwrite a trace; give another file", path);
    /* Through links; a pipe or a device is written in place. */
    output->target = exists ? realpath(path, NULL) : vt_copy_text(path);
    if (!output->target)
        return cannot_write(output, errno);
    file = exists && !S_ISREG(status.st_mode)
               ? open(path, O_WRONLY | O_CLOEXEC)
               : open_temporary(output, exists ? status.st_mode & 0777 : new_mode(0666));
    output->stream = file < 0 ? NULL : fdopen(file, "w");
    if (output->stream)
        return 0;
    return cannot_write(output, errno);
}

/* Why a stream failed, where the call that failed was inside a writer and errno is gone. Only what nobody
 * will read is written again: a pipe's reader must not get a second part of what is already broken. */
static int failure_of(const struct vt_output *output)
{
    static const char block[4096];
    int file = fileno(output->stream);
    struct pollfd reader = {.fd = file};

    if (poll(&reader, 1, 0) == 1 && reader.revents & POLLERR)
        return EPIPE;
    if (output->temporary && write(file, block, sizeof block) < 0)
        return errno;
    return EIO;
}

int vt_written(struct vt_output *output, int result)
{
    errno = 0;
    if (fflush(output->stream) || ferror(output->stream))
        result = errno ? -errno : result && result != -EIO ? result : -failure_of(output);
    if (result == -EPIPE) { /* a reader that went away is no error */
        output->broken = true;
        return VT_EXIT_GOOD;
    }
    if (!result)
        return VT_EXIT_GOOD;
    return cannot_write(output, -result);
}

/* Gives the complete file its name. */
static int keep_file(struct vt_output *output)
{
    int file = fileno(output->stream), error = 0;

    if (output->temporary && fsync(file) && errno != EINVAL && errno != EROFS)
        error = errno;
    if (fclose(output->stream) && !error)
        error = errno == EPIPE ? 0 : errno;
    output->stream = NULL;
    if (!error && output->temporary)
        error = vt_temporary_keep(output->target);
    return error ? cannot_write(output, error) : 0;
}

int vt_output_end(struct vt_output *output, int status)
{
    int result = 0;

    if (output->stream && !output->broken)
        result = vt_written(output, 0);
    /* A command that failed before it printed anything leaves the old file. */
    if (output->path && output->stream && !output->broken &&
        (status <= VT_EXIT_CHECK_FAILED || ftell(output->stream) > 0))
        result = keep_file(output);
    else if (output->path && output->stream)
        output->broken = true;
    if (output->path && output->stream)
        fclose(output->stream);
    if (output->temporary)
        vt_temporary_remove();
    free(output->temporary);
    free(output->target);
    return result > status ? result : status;
}

/* ---- A folder ---- */

static int cannot_make(const char *path, int error)
{
    const char *advice = error == ENOENT ? "; create its parent folder first"
                         : error == ENOSPC || error == EDQUOT
                             ? "; free some space, or write elsewhere with -o FOLDER"
                         : error == EEXIST ? "; remove it, or give another folder with -o FOLDER"
                                           : "";

    if (error == ENOMEM)
        vt_end_out_of_memory();
    vt_say("cannot write %s: %s%s", path, strerror(error), advice);
    return VT_EXIT_NOT_WRITTEN;
}

int vt_folder_begin(const char *path, struct vt_folder *folder)
{
    struct stat status;
    size_t length = strlen(path);
    int error;

    *folder = (struct vt_folder){.path = path};
    if (!length)
        return vt_wrong_use("-o needs a folder's name");
    while (length > 1 && path[length - 1] == '/')
        length--;
    if (!lstat(path, &status))
        return cannot_make(path, EEXIST); /* known before the work, not after */
    folder->temporary = vt_print_text("%.*s.XXXXXX", (int)length, path);
    if (!vt_temporary_make(folder->temporary, true))
        return 0;
    error = errno;
    free(folder->temporary);
    folder->temporary = NULL;
    return cannot_make(path, error);
}

int vt_folder_end(struct vt_folder *folder, int status, int result)
{
    if (!status && !result)
        result = chmod(folder->temporary, new_mode(0777)) ? -errno : -vt_temporary_keep(folder->path);
    vt_temporary_remove();
    if (result)
        status = cannot_make(folder->path, -result);
    free(folder->temporary);
    folder->temporary = NULL;
    return status;
}
