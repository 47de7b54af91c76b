/* What all commands do: open a trace and understand it, decide how to write. */
#include "command/command.h"
#include "diagnose/diagnose.h"

#include <errno.h>
#include <langinfo.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define WIDEST 240 /* longer lines are hard to read */

/* What to do about a trace that cannot be read. */
static const char *advice(int error)
{
    switch (error) {
    case -ENOENT:
        return "; vramtrace run COMMAND makes a trace, and its last line names it";
    case -EACCES:
        return "; only who recorded a trace may read it: chmod +r it as that user";
    case -ENODATA:
        return "; run it again: what it says last may tell why it ended";
    default:
        return "";
    }
}

int vt_load(const struct vt_command *command, const struct vt_arguments *arguments, const char *path,
            struct vt_loaded *loaded)
{
    const char *rules = arguments->rules;
    char error[PATH_MAX + 512] = "";
    struct stat status;
    int result;

    *loaded = (struct vt_loaded){0};
    if (!stat(path, &status) && S_ISDIR(status.st_mode)) {
        vt_say(command, "%s is a folder; name the traces in it: vramtrace %s %s/*.vrt", path, command->name,
               path);
        return VT_EXIT_UNREADABLE;
    }
    vt_warn_of_newer(command, arguments, path);
    result = vt_trace_open(path, &loaded->trace, error, sizeof error);
    if (result) {
        vt_say(command, "%s%s", error[0] ? error : strerror(-result), advice(result));
        return VT_EXIT_UNREADABLE;
    }
    result = vt_replay_make(loaded->trace, &loaded->replay);
    if (!result)
        result =
            vt_attribute(loaded->trace, loaded->replay, rules, &loaded->attribution, error, sizeof error);
    if (!result)
        return 0;
    vt_say(command, "%s: %s", rules && error[0] ? "--rules" : path, error[0] ? error : strerror(-result));
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
                   const struct vt_report_options *options, unsigned wanted, struct vt_report **report)
{
    char error[512];
    int result = vt_report_make(loaded->attribution, options, report, error, sizeof error);

    if (!result) {
        snprintf(error, sizeof error, "out of memory");
        result = vt_diagnose(*report, wanted);
    }
    if (!result)
        return 0;
    vt_say(command, "%s: %s", path, error);
    return result == -EINVAL ? VT_EXIT_WRONG_USE : VT_EXIT_UNREADABLE;
}

static bool wants_colour(enum vt_colour_choice choice, int file)
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
    struct vt_view_style style = {.by = arguments->by, .top = arguments->top, .all = arguments->all};
    struct winsize size;

    style.colour = wants_colour(arguments->colour, fileno(output->stream));
    style.unicode = !strcmp(nl_langinfo(CODESET), "UTF-8");
    style.height = terminal_size(output->stream, &size) ? size.ws_row : 0;
    style.width = arguments->width ? arguments->width : vt_columns(output->stream);
    return style;
}
