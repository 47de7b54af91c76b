/* dryrun --world: what was played. */
#include "command/dryrun_played.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "command/output.h"
#include "base/allocate.h"

static FILE *open_notes(const char *rooms, const char *mode)
{
    char *path = vt_print_text("%s/played", rooms);
    FILE *file = fopen(path, mode);

    free(path);
    return file;
}

void vt_played_note(const char *rooms, enum vt_played what, size_t number)
{
    FILE *file = open_notes(rooms, "ae");

    if (!file || fprintf(file, "%d %zu\n", (int)what, number) < 0)
        vt_say("%s: %s", rooms, strerror(errno));
    if (file)
        fclose(file);
}

void vt_played_say(const char *rooms, int size, int rank, FILE *out)
{
    FILE *file = open_notes(rooms, "re");
    size_t counts[VT_PLAYED_COUNT] = {0}, last[VT_PLAYED_COUNT] = {0}, number;
    int what;
    bool routes;

    if (!file)
        return;
    fprintf(out, "  played of %d ranks:", size);
    while (fscanf(file, "%d %zu", &what, &number) == 2) {
        if (what < 0 || what >= VT_PLAYED_COUNT)
            continue;
        if (what == VT_PLAYED_RANK)
            fprintf(out, "%s %zu", counts[what] ? "," : "", number);
        counts[what]++;
        last[what] = number;
    }
    fclose(file);
    routes = counts[VT_PLAYED_UNEVEN] || counts[VT_PLAYED_MOST];
    if (rank >= 0)
        fprintf(out, "; rank %d needs most", rank);
    else if (counts[VT_PLAYED_RANK] > 1)
        fputs("; all alike", out);
    if (counts[VT_PLAYED_RANK] < (size_t)size)
        fputs("; the others are taken to hold what these hold", out);
    fputc('\n', out);
    if (routes)
        fputs("  assumed: each rank sends to its experts what this one sends to its own", out);
    if (counts[VT_PLAYED_MOST])
        fprintf(out, ", and to rank %zu what that sends to any", last[VT_PLAYED_MOST]);
    if (routes)
        fputs("; real routing may need more\n", out);
    if (counts[VT_PLAYED_DIFFERENT] && counts[VT_PLAYED_RANK] < (size_t)size)
        fputs("  ranks that do the same need different amounts (batches of several sizes?): others may need "
              "more; --rank all plays each\n",
              out);
    if (counts[VT_PLAYED_APART])
        fprintf(
            out,
            "  assumed: of %zu ranks that send each other sizes, more than are played side by side on this "
            "machine, each receives what it sent last\n",
            last[VT_PLAYED_APART]);
}
