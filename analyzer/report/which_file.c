/* Which file is meant by the end of its path. */
#include "report/which_file.h"

#include "base/index.h"
#include "report/line_table.h"
#include "report/places.h"
#include "report/report.h"
#include "trace/frameworks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LISTED 5 /* files in a message */

/* "pkg/model.py" is the end of "/home/u/pkg/model.py". */
static bool ends_in(const char *path, const char *end)
{
    size_t length = strlen(path), end_length = strlen(end);

    return end_length <= length && !strcmp(path + length - end_length, end) &&
           (end_length == length || end[0] == '/' || path[length - end_length - 1] == '/');
}

/* Lists the files of `matches` (all that allocate if NULL), those with the most bytes first. */
static void list_files(const struct vt_file_search *search, const uint32_t *matches, size_t count, char *text,
                       size_t bytes)
{
    size_t used = 0, most[LISTED], shown = 0;

    text[0] = '\0';
    for (size_t i = 0; i < (matches ? count : search->count); i++) {
        size_t item = matches ? matches[i] : i, at = shown;

        if (!matches && (search->items[item].line != VT_WHOLE_FILE || !search->allocates[item]))
            continue;
        while (at > 0 && search->own_bytes[most[at - 1]] < search->own_bytes[item])
            at--;
        if (at == LISTED)
            continue;
        shown += shown < LISTED;
        memmove(most + at + 1, most + at, (shown - 1 - at) * sizeof *most);
        most[at] = item;
    }
    for (size_t i = 0; i < shown && used < bytes; i++) {
        const char *path = search->items[most[i]].path;

        used += (size_t)snprintf(text + used, bytes - used, "%s%.250s", i ? ", " : "",
                                 matches ? path : vt_short_path(search->report->trace, path));
    }
    if (matches && count > shown && used < bytes)
        snprintf(text + used, bytes - used, ", …");
}

/* If there are several: the only one that is not a library's. */
static int choose_file(const struct vt_file_search *search, const uint32_t *matches, size_t count,
                       uint32_t *file, struct vt_error_text reason)
{
    char text[LISTED * 256];
    size_t own = 0;

    for (size_t i = 0; i < count; i++)
        if (count == 1 || !vt_is_library_file(search->items[matches[i]].path)) {
            *file = matches[i];
            own++;
        }
    if (own == 1)
        return 0;
    list_files(search, matches, count, text, sizeof text);
    return vt_fail(reason, "'%.200s' could be %zu files; give more of the path: %s", search->asked, count,
                   text);
}

static int no_file(const struct vt_file_search *search, struct vt_error_text reason)
{
    char text[LISTED * 256];

    list_files(search, NULL, 0, text, sizeof text);
    return vt_fail(reason,
                   text[0] ? "no allocation came from or through a file '%.200s'; most came from %s"
                           : "no file '%.200s' in the trace: it has no source file for any allocation%s",
                   search->asked, text);
}

int vt_file_find(const struct vt_file_search *search, uint32_t *file, struct vt_error_text reason)
{
    const char *asked = search->asked;
    char *real = realpath(asked, NULL);
    uint32_t *matches = NULL;
    size_t count = 0, capacity = 0;
    int result;

    while (!strncmp(asked, "./", 2))
        asked += 2;
    for (uint32_t i = 1; i < search->count; i++) {
        const struct vt_line_item *item = &search->items[i];
        bool exact = item->line == VT_WHOLE_FILE &&
                     (!strcmp(item->path, asked) || (real && !strcmp(item->path, real)));

        if (exact)
            count = 0;
        if (item->line == VT_WHOLE_FILE && asked[0] && (exact || ends_in(item->path, asked)))
            VT_APPEND(matches, count, capacity, i);
        if (exact)
            break;
    }
    result = count ? choose_file(search, matches, count, file, reason) : no_file(search, reason);
    free(matches);
    free(real);
    return result;
}
