/* What all commands do: open a trace and understand it, decide how to write. */
#include "command.h"

#include <errno.h>
#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "view/print.h"

#define WIDEST 240 /* longer lines are hard to read */

int vt_load(const struct vt_command *command, const char *path, const char *rules, struct vt_loaded *loaded)
{
    char error[512] = "";
    struct stat status;
    int result;

    *loaded = (struct vt_loaded){0};
    if (!stat(path, &status) && S_ISDIR(status.st_mode)) {
        fprintf(stderr, "vramtrace %s: %s is a folder; name the traces in it: vramtrace %s %s/*.vrt\n",
                command->name, path, command->name, path);
        return VT_EXIT_UNREADABLE;
    }
    result = vt_trace_open(path, &loaded->trace, error, sizeof error);
    if (result) {
        fprintf(stderr, "vramtrace %s: %s\n", command->name, error[0] ? error : strerror(-result));
        return VT_EXIT_UNREADABLE;
    }
    result = vt_replay_make(loaded->trace, &loaded->replay);
    if (!result)
        result =
            vt_attribute(loaded->trace, loaded->replay, rules, &loaded->attribution, error, sizeof error);
    if (!result)
        return 0;
    fprintf(stderr, "vramtrace %s: %s: %s\n", command->name, rules && error[0] ? "--rules" : path,
            error[0] ? error : strerror(-result));
    vt_unload(loaded);
    return rules && error[0] ? VT_EXIT_WRONG_USE : VT_EXIT_UNREADABLE;
}

void vt_unload(struct vt_loaded *loaded)
{
    vt_attribution_free(loaded->attribution);
    vt_replay_free(loaded->replay);
    vt_trace_close(loaded->trace);
    *loaded = (struct vt_loaded){0};
}

int vt_make_report(const struct vt_command *command, const char *path, const struct vt_loaded *loaded,
                   const struct vt_report_options *options, struct vt_report **report)
{
    char error[512];
    int result = vt_report_make(loaded->attribution, options, report, error, sizeof error);

    if (!result)
        return 0;
    fprintf(stderr, "vramtrace %s: %s: ", command->name, path);
    vt_put_clean(error, stderr); /* it may quote the trace */
    fputc('\n', stderr);
    return result == -EINVAL ? VT_EXIT_WRONG_USE : VT_EXIT_UNREADABLE;
}

static bool wants_colour(enum vt_colour_choice choice)
{
    const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");

    if (choice != VT_COLOUR_AUTO)
        return choice == VT_COLOUR_ALWAYS;
    return isatty(STDOUT_FILENO) && !(no_colour && no_colour[0]) && term && strcmp(term, "dumb") != 0;
}

struct vt_view_style vt_style(const struct vt_arguments *arguments)
{
    struct vt_view_style style = {.width = 80, .by = arguments->by, .top = arguments->top};
    const char *columns = getenv("COLUMNS");
    struct winsize size;

    style.colour = wants_colour(arguments->colour);
    style.unicode = !strcmp(nl_langinfo(CODESET), "UTF-8");
    if (isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col) {
        style.width = size.ws_col;
        style.height = size.ws_row;
    } else if (columns && atoi(columns) > 0) {
        style.width = atoi(columns);
    }
    style.width = style.width < 40 ? 40 : style.width > WIDEST ? WIDEST : style.width;
    if (arguments->width)
        style.width = arguments->width;
    return style;
}

int vt_written(const struct vt_command *command, int result)
{
    errno = 0;
    if (!result && (fflush(stdout) || ferror(stdout)))
        result = errno ? -errno : -EIO;
    if (!result || result == -EPIPE)
        return VT_EXIT_GOOD;
    fprintf(stderr, "vramtrace %s: cannot write the output: %s\n", command->name, strerror(-result));
    return VT_EXIT_WRONG_USE;
}
