/* dryrun --world: what ranks noted while they were played. */
#include "command/dryrun_ranks.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"

static void append(struct vt_ranks *ranks, int rank)
{
    ranks->items = vt_resize(ranks->items, ranks->count + 1, sizeof *ranks->items);
    ranks->items[ranks->count++] = rank;
}

bool vt_ranks_has(const struct vt_ranks *ranks, int rank)
{
    for (size_t i = 0; i < ranks->count; i++)
        if (ranks->items[i] == rank)
            return true;
    return false;
}

void vt_ranks_add(struct vt_ranks *ranks, int rank)
{
    if (!vt_ranks_has(ranks, rank))
        append(ranks, rank);
}

void vt_ranks_remove(struct vt_ranks *ranks, const struct vt_ranks *others)
{
    size_t kept = 0;

    for (size_t i = 0; i < ranks->count; i++)
        if (!vt_ranks_has(others, ranks->items[i]))
            ranks->items[kept++] = ranks->items[i];
    ranks->count = kept;
}

static void read_numbers(const char *text, struct vt_ranks *ranks)
{
    char *end;

    for (long rank; (rank = strtol(text, &end, 10)), end != text; text = end)
        if (rank >= 0)
            append(ranks, (int)rank);
}

static void read_note(const char *line, struct vt_rank_notes *notes)
{
    if (!strncmp(line, "group", 5) || !strncmp(line, "known", 5)) {
        notes->groups = vt_resize(notes->groups, notes->group_count + 1, sizeof *notes->groups);
        notes->groups[notes->group_count] = (struct vt_ranks){.count = 0};
        read_numbers(line + 5, &notes->groups[notes->group_count++]);
    } else if (!strncmp(line, "letters", 7)) {
        int peer, is_read;

        if (sscanf(line, "letters %d %d", &peer, &is_read) == 2) {
            vt_ranks_add(&notes->neighbors, peer);
            notes->reads_letters |= is_read;
        }
    } else if (!strncmp(line, "root", 4)) {
        read_numbers(line + 4, &notes->roots);
    } else if (!strncmp(line, "uneven", 6)) {
        notes->is_uneven = true;
    } else if (!strncmp(line, "compiled", 8)) {
        notes->compiled = true;
    }
}

struct vt_rank_notes vt_rank_notes_read(const char *rooms, int play, int rank)
{
    struct vt_rank_notes notes = {.group_count = 0};
    char path[PATH_MAX], *line = NULL;
    size_t bytes = 0;
    FILE *file;

    snprintf(path, sizeof path, "%s/play-%d/rank-%d", rooms, play, rank);
    file = fopen(path, "re");
    while (file && getline(&line, &bytes, file) > 0)
        read_note(line, &notes);
    if (file)
        fclose(file);
    free(line);
    return notes;
}

void vt_rank_notes_free(struct vt_rank_notes *notes)
{
    for (size_t i = 0; i < notes->group_count; i++)
        free(notes->groups[i].items);
    free(notes->groups);
    free(notes->neighbors.items);
    free(notes->roots.items);
}

/* The smallest group of more than a pair in which the two are. */
static const struct vt_ranks *group_around(const struct vt_rank_notes *notes, int one, int other)
{
    const struct vt_ranks *smallest = NULL;

    for (size_t i = 0; i < notes->group_count; i++) {
        const struct vt_ranks *group = &notes->groups[i];

        if (group->count > 2 && vt_ranks_has(group, one) && vt_ranks_has(group, other) &&
            (!smallest || group->count < smallest->count))
            smallest = group;
    }
    return smallest;
}

void vt_rank_notes_company(const struct vt_rank_notes *notes, int rank, struct vt_ranks *company)
{
    vt_ranks_add(company, rank);
    for (size_t i = 0; i < notes->neighbors.count; i++) {
        const struct vt_ranks *group = group_around(notes, rank, notes->neighbors.items[i]);

        vt_ranks_add(company, notes->neighbors.items[i]);
        for (size_t k = 0; group && k < group->count; k++)
            vt_ranks_add(company, group->items[k]);
    }
}
