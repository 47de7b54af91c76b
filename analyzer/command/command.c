#include "command/command.h"

#include <string.h>

const struct vt_command vt_commands[VT_COMMAND_COUNT] = {
#define X(id, group, name, function, takes, arguments, summary)                                              \
    {name, arguments, summary, VT_GROUP_##group, VT_TAKES_##takes, 1u << VT_COMMAND_##id},
    VT_COMMANDS(X)
#undef X
};

const struct vt_command *vt_find_command(const char *name)
{
    for (int i = 0; i < VT_COMMAND_COUNT; i++)
        if (!strcmp(vt_commands[i].name, name))
            return &vt_commands[i];
    return NULL;
}

/* Edit distance: letters inserted, deleted, replaced, or swapped with a neighbour. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t rows[3][48], n = strlen(a), m = strlen(b);
    size_t *before = rows[0], *last = rows[1], *now = rows[2];

    if (n > 40 || m > 40)
        return 100;
    for (size_t j = 0; j <= m; j++)
        last[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *spare = before;
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            now[j] = last[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = last[j] + 1 < now[j] ? last[j] + 1 : now[j];
            now[j] = now[j - 1] + 1 < now[j] ? now[j - 1] + 1 : now[j];
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < now[j])
                now[j] = before[j - 2] + 1;
        }
        before = last;
        last = now;
        now = spare;
    }
    return last[m];
}

const char *vt_nearest(const char *word, const char *const *candidates)
{
    const char *nearest = NULL;
    size_t least = strlen(word) < 5 ? 2 : 3; /* the distance must be smaller */

    for (; *candidates; candidates++) {
        size_t apart = edit_distance(word, *candidates);
        size_t length = strlen(word);
        if (length > 3 && !strncmp(word, *candidates, length)) /* a prefix */
            apart = 1;
        if (apart < least) {
            least = apart;
            nearest = *candidates;
        }
    }
    return nearest;
}

void vt_print_help(FILE *out)
{
    static const char *const groups[] = {
#define X(id, title) title,
        VT_COMMAND_GROUPS(X)
#undef X
    };

    fputs("vramtrace: GPU memory profiler for CUDA programs\n\n", out);
    for (int i = 0; i < VT_COMMAND_COUNT; i++)
        fprintf(out, "%-11s%-13s%s\n",
                i && vt_commands[i].group == vt_commands[i - 1].group ? "" : groups[vt_commands[i].group],
                vt_commands[i].name, vt_commands[i].summary);
    fputs("\n"
          "Examples   vramtrace run python train.py && vramtrace report\n"
          "           vramtrace diff before.vrt after.vrt\n"
          "           vramtrace export --format perfetto -o train.pftrace\n\n"
          "Without a TRACE, the newest *.vrt in the current folder is used.\n"
          "vramtrace help COMMAND lists the options of a command.\n",
          out);
}
