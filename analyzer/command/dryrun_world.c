/* dryrun --world. Which ranks are played if none are named: 0; then the last member of each group that 0 is
 * in, since parts are uneven there if anywhere; if these need different amounts (batches that differ by
 * rank), more of them; and all members of groups whose ranks send letters to neighbors (stages of a
 * pipeline), side by side if some are small and so are read. simulate/nccl.c notes groups and letters in the
 * files rank-R. */
#include "command/dryrun_world.h"
#include "command/dryrun_played.h"
#include "command/dryrun_ranks.h"
#include "command/output.h"
#include "command/run.h"
#include "command/run_list.h"
#include "command/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vramtrace/ring.h"
#include "base/allocate.h"

#define MOST_RANKS 1000000
#define RANKS_OF_A_HOST 8
#define MOST_CHOSEN 24 /* if no ranks are named */
#define MOST_TOGETHER 64
#define SPREAD 4            /* if what ranks hold depends on their data */
#define DIFFERENT_PART 0.02 /* of what a rank needs: parts that are not quite even are less */

static struct {
    int size; /* 0: no --world */
    bool all, named;
    struct vt_ranks wanted, alone,
        told; /* alone: they were played, and have no neighbors; told: were played */
    int gpu_count;
    const char *rooms;
    int plays;
    bool compiled;                    /* the rank that was played first did */
    int most_rank;                    /* it is taken to receive as much as it sends to any; 0: none is */
    uint64_t least_bytes, most_bytes; /* that ranks without neighbors need; 0: none was played */
} world;

/* ---- Options ---- */

static int by_number(const void *one, const void *other)
{
    return *(const int *)one - *(const int *)other;
}

static int number_of(const char *text, char **end)
{
    const long number = text[0] >= '0' && text[0] <= '9' ? strtol(text, end, 10) : -1;

    return number > MOST_RANKS ? -1 : (int)number;
}

int vt_world_set_size(const char *text)
{
    char *end = NULL;

    world.size = number_of(text, &end);
    if (world.size < 1 || *end)
        return vt_wrong_use("--world: '%s' is not a number of processes", text);
    return 0;
}

int vt_world_set_ranks(const char *text)
{
    char *end = NULL;

    world.named = true;
    world.all = !strcmp(text, "all");
    for (const char *at = text; !world.all; at = end + 1) {
        const int rank = number_of(at, &end);

        if (rank < 0 || (*end && *end != ','))
            return vt_wrong_use("--rank: '%s' is neither all nor ranks such as 0,7", text);
        vt_ranks_add(&world.wanted, rank);
        if (!*end)
            break;
    }
    return 0;
}

bool vt_world_is_given(void)
{
    return world.size > 0;
}

static void set_number(const char *name, int number)
{
    char text[16];

    snprintf(text, sizeof text, "%d", number);
    vt_run_set(name, text, true);
}

int vt_world_prepare(const char *rooms, int *gpu_count)
{
    char run[64];

    if (!world.size && world.named)
        return vt_wrong_use("--rank needs --world N");
    for (size_t i = 0; i < world.wanted.count; i++)
        if (world.wanted.items[i] >= world.size)
            return vt_wrong_use("--rank: of --world %d the last rank is %d", world.size, world.size - 1);
    if (!*gpu_count)
        *gpu_count = !world.size ? 1 : world.size < RANKS_OF_A_HOST ? world.size : RANKS_OF_A_HOST;
    if (!world.size)
        return 0;
    world.rooms = rooms;
    world.gpu_count = *gpu_count;
    for (int rank = 0; world.all && rank < world.size; rank++)
        vt_ranks_add(&world.wanted, rank);
    if (!world.wanted.count)
        vt_ranks_add(&world.wanted, 0);
    qsort(world.wanted.items, world.wanted.count, sizeof *world.wanted.items,
          by_number); /* most is told by 0 */
    snprintf(run, sizeof run, "dryrun-%d", (int)getpid());
    set_number("VRAMTRACE_DRYRUN_WORLD", world.size);
    vt_run_set("VRAMTRACE_DRYRUN_RUN", run, true);
    vt_run_set("VRAMTRACE_DRYRUN_OBJECTS", rooms, true);
    vt_run_set("TORCHELASTIC_RUN_ID", run, true);
    set_number("WORLD_SIZE", world.size);
    set_number("LOCAL_WORLD_SIZE", world.gpu_count);
    vt_run_set("MASTER_ADDR", "127.0.0.1", true);
    vt_run_set("MASTER_PORT", "29500", true);
    vt_run_set("TORCH_NCCL_ENABLE_MONITORING", "0",
               false); /* it would look for what others put into the store */
    return 0;
}

/* ---- Playing ---- */

static bool is_most(int rank)
{
    return rank && rank == world.most_rank && !world.named;
}

static void make_environment(int rank, const struct vt_ranks *together)
{
    char *list = vt_print_text("%d", together->items[0]), *text;
    const int host = rank / world.gpu_count;

    for (size_t i = 1; i < together->count; i++) {
        text = vt_print_text("%s,%d", list, together->items[i]);
        free(list);
        list = text;
    }
    vt_run_set("VRAMTRACE_STANDIN_RANKS", list, true);
    free(list);
    text = vt_print_text("%s/play-%d", world.rooms, world.plays);
    vt_run_set("VRAMTRACE_STANDIN_ROOMS", text, true);
    free(text);
    text = vt_print_text("%s/play-%d/gpus-%d", world.rooms, world.plays, host);
    vt_run_set("VRAMTRACE_STANDIN_SHARED", text, true);
    free(text);
    if (world.compiled) {
        text = vt_print_text("%s/play-%d/compiled", world.rooms, world.plays);
        vt_run_set("TORCHINDUCTOR_CACHE_DIR", text, true);
        free(text);
    }
    if (is_most(rank))
        vt_run_set("VRAMTRACE_STANDIN_ROUTING", "most", true);
    set_number("VRAMTRACE_DRYRUN_RANK", rank);
    set_number("RANK", rank);
    set_number("LOCAL_RANK", rank % world.gpu_count);
    set_number("GROUP_RANK", host);
    set_number("NODE_RANK", host);
}

static pid_t start(int rank, const struct vt_ranks *together, bool is_known, char **words)
{
    const pid_t parent = getpid(), pid = fork();

    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(1);
    make_environment(rank, together);
    if (is_known)
        vt_run_set("VRAMTRACE_ENABLE", "0", true);
    _exit(vt_run_become(words));
}

static volatile sig_atomic_t is_ending;

static void note_ending(int number)
{
    is_ending = number;
}

static void end_all(const pid_t *pids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pids[i])
            kill(pids[i], SIGTERM);
}

/* If one fails, the others would wait for it: they end, too. */
static int wait_for(pid_t *pids, size_t count)
{
    int first = 0, status;
    pid_t pid;

    for (size_t left = count; left;) {
        pid = waitpid(-1, &status, 0);
        if (pid < 0 && errno != EINTR)
            break;
        for (size_t i = 0; i < count; i++) {
            if (pid <= 0 || pids[i] != pid)
                continue;
            pids[i] = 0;
            left--;
            status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            first = first ? first : status;
        }
        if (first || is_ending)
            end_all(pids, count);
    }
    return first ? first : is_ending ? 128 + is_ending : 0;
}

/* Ranks that are known from before are not recorded again. */
static int play(const struct vt_ranks *together, const struct vt_ranks *known, char **words)
{
    pid_t *pids = vt_allocate_zeros(together->count, sizeof *pids);
    char *folder = vt_print_text("%s/play-%d", world.rooms, ++world.plays);
    size_t started = 0;
    int status;

    if (mkdir(folder, 0700))
        vt_say("%s: %s", folder, strerror(errno));
    free(folder);
    for (; started < together->count; started++) {
        pids[started] =
            start(together->items[started], together, vt_ranks_has(known, together->items[started]), words);
        if (pids[started] < 0)
            break;
    }
    status = wait_for(pids, started);
    free(pids);
    if (world.plays == 1) { /* What follows would find what it compiled; in a real job all start at once. */
        struct vt_rank_notes notes = vt_rank_notes_read(world.rooms, world.plays, together->items[0]);

        world.compiled = notes.compiled;
        vt_rank_notes_free(&notes);
    }
    return started < together->count ? 1 : status;
}

static off_t end_of_list(void)
{
    const char *path = getenv(VT_RUN_VARIABLE);
    struct stat list = {.st_size = 0};

    return path && !stat(path, &list) ? list.st_size : 0;
}

/* Reads the list from there on. */
static void read_list(off_t from, struct vt_run_traces *traces)
{
    const char *path = getenv(VT_RUN_VARIABLE);
    const int list = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    vt_run_read_list(list, from, traces);
    if (list >= 0)
        close(list);
}

static void remove_traces(off_t from)
{
    struct vt_run_traces traces;

    read_list(from, &traces);
    for (size_t i = 0; i < traces.count; i++)
        unlink(traces.items[i].path);
    vt_run_traces_free(&traces);
}

static void note_needed(off_t from)
{
    struct vt_run_traces traces;
    struct vt_file_header header;
    uint64_t most = 0;
    int file;

    read_list(from, &traces);
    for (size_t i = 0; i < traces.count; i++) {
        if (!vt_run_read_header(traces.items[i].path, O_RDONLY, &file, &header))
            continue;
        close(file);
        for (unsigned k = 0; k < VT_MAX_DEVICES; k++)
            if (header.counters.live[k].driver_peak_bytes > most)
                most = header.counters.live[k].driver_peak_bytes;
    }
    vt_run_traces_free(&traces);
    if (!most)
        return; /* nothing is known of what it needs */
    world.most_bytes = most > world.most_bytes ? most : world.most_bytes;
    world.least_bytes = !world.least_bytes || most < world.least_bytes ? most : world.least_bytes;
}

/* All of a host, else one at each quarter of the job. */
static void want_spread(struct vt_ranks *more)
{
    const int parts = world.size <= RANKS_OF_A_HOST ? world.size : SPREAD;

    for (int k = 1; k < parts; k++)
        vt_ranks_add(more, (int)((int64_t)world.size * k / parts));
}

/* What follows from notes of ranks that were just played: the ranks that have to be played with them, and
 * more that are wanted. */
static void learn(const struct vt_ranks *together, struct vt_ranks *company, struct vt_ranks *more)
{
    for (size_t i = 0; i < together->count; i++) {
        const int rank = together->items[i];
        struct vt_rank_notes notes = vt_rank_notes_read(world.rooms, world.plays, rank);

        if (!notes.neighbors.count)
            vt_ranks_add(&world.alone, rank);
        vt_ranks_remove(&notes.neighbors, &world.alone); /* It sent parts of something to all, once. */
        vt_rank_notes_company(&notes, rank, notes.reads_letters ? company : more);
        for (size_t k = 0; rank == 0 && k < notes.group_count; k++)
            if (notes.groups[k].count)
                vt_ranks_add(more, notes.groups[k].items[notes.groups[k].count - 1]);
        if (rank == 0 && notes.is_uneven) {
            world.most_rank = (int)((int64_t)world.size * (SPREAD - 1) / SPREAD);
            want_spread(more);
        }
        vt_rank_notes_free(&notes);
    }
}

static void note_played(const struct vt_ranks *together, struct vt_ranks *played)
{
    for (size_t i = 0; i < together->count; i++) {
        const int rank = together->items[i];
        struct vt_rank_notes notes = vt_rank_notes_read(world.rooms, world.plays, rank);

        if (!vt_ranks_has(played, rank))
            vt_played_note(world.rooms, VT_PLAYED_RANK, (size_t)rank);
        if (notes.is_uneven || is_most(rank))
            vt_played_note(world.rooms, is_most(rank) ? VT_PLAYED_MOST : VT_PLAYED_UNEVEN, (size_t)rank);
        vt_ranks_add(played, rank);
        vt_rank_notes_free(&notes);
    }
}

/* That so many processes as those that were played would take. */
static bool has_memory_for(size_t count)
{
    FILE *file = fopen("/proc/meminfo", "re");
    unsigned long long available_kb = 0;
    struct rusage played;
    char line[256];

    while (file && !available_kb && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu", &available_kb) == 1)
            break;
    if (file)
        fclose(file);
    return !available_kb || getrusage(RUSAGE_CHILDREN, &played) ||
           count * (unsigned long long)played.ru_maxrss < available_kb;
}

/* The first rank of a group that broadcast numbers which a rank needed, a flag or a count, and was not played
 * before: it is played, unrecorded, for what it tells; and the rank again. */
static int play_after_roots(struct vt_ranks *together, const struct vt_ranks *known, char **words)
{
    const off_t before = end_of_list();
    int status = play(together, known, words);
    struct vt_rank_notes notes = vt_rank_notes_read(world.rooms, world.plays, together->items[0]);

    vt_ranks_remove(&notes.roots, &world.told);
    for (size_t i = 0; i < notes.roots.count && !is_ending; i++) {
        struct vt_ranks root = {&notes.roots.items[i], 1};

        vt_say("rank %d, unrecorded, for what it tells rank %d", root.items[0], together->items[0]);
        play(&root, &root, words);
        vt_ranks_add(&world.told, root.items[0]);
    }
    if (notes.roots.count && !is_ending) {
        remove_traces(before);
        status = play(together, known, words);
    }
    for (size_t i = 0; i < together->count; i++)
        vt_ranks_add(&world.told, together->items[i]);
    vt_rank_notes_free(&notes);
    return status;
}

/* Plays ranks together, and once more with the company that they turn out to need. */
static int play_with_company(struct vt_ranks *together, const struct vt_ranks *known, struct vt_ranks *more,
                             char **words)
{
    struct vt_ranks company = {.count = 0};
    const off_t before = end_of_list();
    int status = play_after_roots(together, known, words);

    learn(together, &company, more);
    for (size_t i = 0; i < together->count && company.count; i++)
        vt_ranks_add(&company, together->items[i]);
    if (company.count > MOST_TOGETHER || !has_memory_for(company.count))
        vt_played_note(world.rooms, VT_PLAYED_APART, company.count);
    else if (company.count > together->count) {
        free(together->items);
        *together = company;
        company = (struct vt_ranks){.count = 0};
        remove_traces(before);
        vt_say("ranks that tell each other sizes are played side by side: %zu processes", together->count);
        status = play(together, known, words);
        learn(together, &company, more);
    }
    if (together->count == 1 && vt_ranks_has(&world.alone, together->items[0])) {
        note_needed(before);
        if ((double)(world.most_bytes - world.least_bytes) > DIFFERENT_PART * (double)world.most_bytes) {
            vt_played_note(world.rooms, VT_PLAYED_DIFFERENT, (size_t)together->items[0]);
            want_spread(more);
        }
    }
    free(company.items);
    return status;
}

int vt_world_play(char **words)
{
    struct vt_ranks played = {.count = 0};
    int status = 0;

    sigaction(SIGTERM, &(struct sigaction){.sa_handler = note_ending}, NULL); /* the time limit */
    for (size_t i = 0; i < world.wanted.count && !status; i++) {
        struct vt_ranks together = {.count = 0}, more = {.count = 0};

        if (vt_ranks_has(&played, world.wanted.items[i]))
            continue;
        if (!world.named && played.count >= MOST_CHOSEN)
            break;
        if (i)
            vt_say("rank %d of %d", world.wanted.items[i], world.size);
        vt_ranks_add(&together, world.wanted.items[i]);
        status = play_with_company(&together, &played, &more, words);
        note_played(&together, &played);
        for (size_t k = 0; !world.named && k < more.count; k++)
            vt_ranks_add(&world.wanted, more.items[k]);
        free(together.items);
        free(more.items);
    }
    return status;
}

/* ---- The answer ---- */

void vt_world_say(int rank, FILE *out)
{
    if (world.size)
        vt_played_say(world.rooms, world.size, rank, out);
}

void vt_world_remove(void)
{
    for (int play = 1;; play++) {
        char *folder = world.rooms ? vt_print_text("%s/play-%d", world.rooms, play) : NULL;
        const bool there = folder && !access(folder, F_OK);

        if (there)
            vt_remove(folder);
        free(folder);
        if (!there)
            return;
    }
}
