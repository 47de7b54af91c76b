/* top: what the processes that record at this moment hold, on a screen or sample by sample. */
#include "command/ctl.h"
#include "command/output.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "report/top.h"
#include "trace/processes.h"
#include "trace/rings.h"
#include "view/json/json.h"
#include "view/prometheus/prometheus.h"
#include "view/top/page.h"
#include "view/top/screen.h"

enum { SETTLE_MS = 300, MARK_BYTES = 200, MESSAGE_BYTES = 1024 };

struct live {
    const struct vt_arguments *arguments;
    struct vt_view_style style;
    struct vt_top top;
    struct vt_recorder *recorders; /* of the latest sample */
    size_t recorder_count;
    enum vt_top_key key;
    bool reverse;
    char ended[PATH_MAX]; /* the trace of the named process that was seen last */
};

/* ---- Which processes ---- */

static bool is_number(const char *word)
{
    return word[0] && strspn(word, "0123456789") == strlen(word);
}

/* A process by its number or its trace, or those whose traces lie in a folder. */
static bool is_meant(const struct vt_ring_header *header, const char *word)
{
    char path[PATH_MAX];
    if (is_number(word))
        return vt_process_is_meant(word, header->process.pid);
    if (!realpath(word, path))
        return false;
    const size_t length = strlen(path);
    return !strncmp(header->trace_path, path, length) &&
           (!header->trace_path[length] || header->trace_path[length] == '/' || !path[1]);
}

static bool is_wanted(const struct live *live, const struct vt_ring_header *header)
{
    bool wanted = !live->arguments->operand_count;
    for (int i = 0; i < live->arguments->operand_count; i++)
        wanted = wanted || is_meant(header, live->arguments->operands[i]);
    return wanted;
}

/* Why a process is not among those that record. */
static int say_why_not(const char *word)
{
    const unsigned long long pid = strtoull(word, NULL, 10);
    const struct passwd *user;
    uint32_t user_id;
    if (pid > INT_MAX || vt_process_user((uint32_t)pid, &user_id)) {
        vt_say("no such process %s (in a container, run vramtrace top there)", word);
    } else if (user_id != geteuid() && geteuid()) {
        user = getpwuid(user_id);
        vt_say("process %s belongs to user %s: only that user and root can see it", word,
               user ? user->pw_name : "another");
    } else {
        vt_say(
            "process %s is not being recorded: it was started without vramtrace run, has not used CUDA "
            "yet, or has no buffer in memory (--ring of vramtrace run); vramtrace ctl lists those that are",
            word);
    }
    return VT_EXIT_UNREADABLE;
}

/* All that was named must be there at first, except processes in a folder. */
static int check_words(const struct live *live)
{
    const struct vt_arguments *arguments = live->arguments;
    for (int i = 0; i < arguments->operand_count; i++) {
        const char *word = arguments->operands[i];
        struct stat status;
        bool found = false;
        if (!is_number(word) && stat(word, &status))
            return vt_wrong_use("'%s' is not a PID, folder or trace: %s", word, strerror(errno));
        for (size_t r = 0; r < live->recorder_count; r++)
            found = found || is_meant(&live->recorders[r].header, word);
        if (!found && is_number(word))
            return say_why_not(word);
        if (!found && !S_ISDIR(status.st_mode)) {
            vt_say("no running process is writing to %s", word);
            return VT_EXIT_UNREADABLE;
        }
    }
    return 0;
}

/* ---- Samples ---- */

/* With `settle`, waits for the latest events. */
static void take_sample(struct live *live, bool settle)
{
    struct vt_recorder *recorders;
    size_t count, kept = 0;
    vt_recorders_find(&recorders, &count);
    bool *settled = vt_allocate_zeros(count, sizeof *settled);
    for (size_t i = 0; i < count; i++) {
        if (!is_wanted(live, &recorders[i].header))
            continue;
        settled[kept] = settle && vt_recorder_settle(&recorders[i], SETTLE_MS);
        recorders[kept++] = recorders[i];
    }
    vt_top_take(&live->top, recorders, settled, kept);
    vt_top_sort(&live->top, live->key, live->reverse);
    if (kept)
        snprintf(live->ended, sizeof live->ended, "%s", recorders[kept - 1].header.trace_path);
    free(settled);
    free(live->recorders);
    live->recorders = recorders;
    live->recorder_count = kept;
}

static bool names_only_processes(const struct vt_arguments *arguments)
{
    for (int i = 0; i < arguments->operand_count; i++)
        if (!is_number(arguments->operands[i]))
            return false;
    return arguments->operand_count > 0;
}

/* Whether all that can ever be shown has been. */
static bool is_over(const struct live *live)
{
    return !live->top.process_count && names_only_processes(live->arguments);
}

static int say_over(const struct live *live)
{
    vt_say("%s ended; next: vramtrace report %s",
           live->arguments->operand_count > 1 ? "the processes have" : "the process has", live->ended);
    return 0;
}

/* ---- Printed ---- */

static void print_sample(const struct live *live, bool only, FILE *out)
{
    const struct vt_json_style style = {.compact = !only};
    if (live->arguments->prometheus)
        vt_prometheus_write(&live->top, out);
    else if (live->arguments->json)
        vt_json_write(&vt_top_document, &live->top, &style, out);
    else
        vt_top_text(&live->top, &live->style, live->key, NULL, out);
}

/* To the standard output one after the other; a file is replaced each time. */
static int write_sample(const struct live *live, bool only, struct vt_output *output)
{
    const char *path = live->arguments->export_path;
    struct vt_output file;
    int status = vt_output_begin(path, &file);
    if (!status)
        print_sample(live, only || file.path, file.stream);
    if (status || file.path)
        return vt_output_end(&file, status);
    return vt_written(output, 0);
}

static int print_all(struct live *live, struct vt_output *output)
{
    const struct vt_arguments *arguments = live->arguments;
    const int interval = arguments->interval ? arguments->interval : 1,
              samples = arguments->count                          ? arguments->count
                        : arguments->interval && !arguments->once ? INT_MAX
                                                                  : 1;
    struct timespec next;
    int status = 0;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (int i = 0; i < samples && !status && !output->broken; i++) {
        if (i) {
            next.tv_sec += interval;
            while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) == EINTR)
                continue;
            take_sample(live, true);
            if (is_over(live))
                return say_over(live);
            if (!arguments->json && !arguments->prometheus && !arguments->export_path)
                fputc('\n', output->stream);
        }
        status = write_sample(live, samples == 1, output);
    }
    return status;
}

/* ---- On a screen ---- */

static volatile sig_atomic_t ended_by;

static void note_signal(int number)
{
    ended_by = number;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

struct shown {
    struct live *live;
    struct vt_screen screen;
    char message[MESSAGE_BYTES], typed[MARK_BYTES];
    uint8_t identity[16]; /* of the selected process, and its device */
    int32_t device;
    bool quit;
};

static void sort_again(struct shown *shown)
{
    struct live *live = shown->live;
    const struct vt_top *top = &live->top;
    vt_top_sort(&live->top, live->key, live->reverse);
    shown->screen.sorted_by = live->key;
    for (size_t i = 0; i < top->row_count; i++)
        if (!memcmp(top->rows[i].process->identity, shown->identity, sizeof shown->identity) &&
            (top->rows[i].use ? top->rows[i].use->device : -1) == shown->device)
            shown->screen.selected = i;
    if (shown->screen.selected >= top->row_count)
        shown->screen.selected = top->row_count ? top->row_count - 1 : 0;
}

static void select_row(struct shown *shown, long row)
{
    const struct vt_top *top = &shown->live->top;
    const long last = (long)top->row_count - 1;
    if (last < 0)
        return;
    row = row < 0 ? 0 : row > last ? last : row;
    shown->screen.selected = (size_t)row;
    memcpy(shown->identity, top->rows[row].process->identity, sizeof shown->identity);
    shown->device = top->rows[row].use ? top->rows[row].use->device : -1;
}

static void ask_recorder(struct shown *shown, enum vt_control_command what, const char *text)
{
    const struct live *live = shown->live;
    const struct vt_screen *screen = &shown->screen;
    const struct vt_top_process *process =
        screen->selected < live->top.row_count ? live->top.rows[screen->selected].process : NULL;
    const struct vt_recorder *recorder = NULL;
    for (size_t i = 0; process && i < live->recorder_count; i++)
        if (!memcmp(live->recorders[i].header.identity, process->identity, sizeof process->identity))
            recorder = &live->recorders[i];
    if (!recorder) {
        snprintf(shown->message, sizeof shown->message, "%s",
                 process ? "The process has ended." : "No process is selected.");
        return;
    }
    snprintf(shown->message, sizeof shown->message, "Waiting for process %" PRIu32 " …", process->pid);
    vt_screen_draw(&shown->screen, &live->top, &live->style);
    char *error = vt_control_ask(what, text, recorder);
    if (error)
        snprintf(shown->message, sizeof shown->message, "%s", error);
    else
        snprintf(shown->message, sizeof shown->message, "%" PRIu32 ": report --at 'mark:%s'%s: %s",
                 process->pid, text, what == VT_CONTROL_MARK ? "" : ", inspected at a safe point",
                 process->trace);
    free(error);
}

/* A key while the name of a mark is typed. */
static void type_key(struct shown *shown, int key)
{
    const size_t length = strlen(shown->typed);
    if (key == VT_KEY_ENTER) {
        shown->screen.question = NULL;
        ask_recorder(shown, VT_CONTROL_MARK, length ? shown->typed : "mark");
    } else if (key == VT_KEY_ESCAPE) {
        shown->screen.question = NULL;
    } else if (key == VT_KEY_BACKSPACE) {
        size_t end = length;
        while (end && ((unsigned char)shown->typed[--end] & 0xc0) == 0x80) /* a whole letter */
            continue;
        shown->typed[end] = 0;
    } else if (key >= ' ' && key < 0x100 && length + 1 < sizeof shown->typed) {
        shown->typed[length] = (char)key;
        shown->typed[length + 1] = 0;
    }
}

/* False if the key selects nothing. */
static bool move_selection(struct shown *shown, int key)
{
    static const struct {
        int key, letter;
        long rows, pages;
    } moves[] = {
        {VT_KEY_UP, 'k', -1, 0},     {VT_KEY_DOWN, 'j', 1, 0},      {VT_KEY_PAGE_UP, 0, 0, -1},
        {VT_KEY_PAGE_DOWN, 0, 0, 1}, {VT_KEY_HOME, 0, -INT_MAX, 0}, {VT_KEY_END, 0, INT_MAX, 0},
    };
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        if (key == moves[i].key || key == moves[i].letter) {
            select_row(shown,
                       (long)shown->screen.selected + moves[i].rows + moves[i].pages * shown->screen.rows);
            return true;
        }
    return false;
}

static void obey_key(struct shown *shown, int key)
{
    struct vt_screen *screen = &shown->screen;
    struct live *live = shown->live;
    switch (key) {
    case 'q':
        shown->quit = true;
        break;
    case '?':
    case 'h':
        screen->help = true;
        break;
    case ' ':
        screen->paused = !screen->paused;
        break;
    case VT_KEY_LEFT:
    case '<':
        live->key = (enum vt_top_key)(((int)live->key + VT_TOP_KEYS - 1) % VT_TOP_KEYS);
        break;
    case VT_KEY_RIGHT:
    case '>':
        live->key = (enum vt_top_key)(((int)live->key + 1) % VT_TOP_KEYS);
        break;
    case 'r':
        live->reverse = !live->reverse;
        break;
    case 'm':
        screen->question = "mark name: ";
        shown->typed[0] = 0;
        break;
    case 'i':
        ask_recorder(shown, VT_CONTROL_INSPECT, "inspect");
        break;
    }
    sort_again(shown);
}

static void press_key(struct shown *shown, int key)
{
    if (key == VT_KEY_NONE || key == VT_KEY_RESIZE)
        return;
    shown->quit = shown->quit || key == VT_KEY_GONE;
    if (shown->screen.question) {
        type_key(shown, key);
        return;
    }
    shown->message[0] = 0;
    if (shown->screen.help)
        shown->screen.help = false;
    else if (!move_selection(shown, key))
        obey_key(shown, key);
}

static void show_screen(struct live *live)
{
    const int interval = live->arguments->interval ? live->arguments->interval : 1;
    struct shown shown = {.live = live, .screen = {.interval_s = (unsigned)interval}};
    uint64_t next_ms = now_ms() + (uint64_t)interval * 1000;
    int samples = 1;
    shown.screen.message = shown.message;
    shown.screen.typed = shown.typed;
    select_row(&shown, 0);
    sort_again(&shown);
    while (!shown.quit && !ended_by) {
        vt_screen_draw(&shown.screen, &live->top, &live->style);
        const uint64_t now = now_ms();
        const int key = vt_screen_key(now < next_ms ? (int)(next_ms - now) : 0);
        press_key(&shown, key);
        if (now_ms() < next_ms)
            continue;
        next_ms = now_ms() + (uint64_t)interval * 1000;
        if (live->arguments->count && samples++ >= live->arguments->count)
            break;
        if (!shown.screen.paused) {
            take_sample(live, false);
            sort_again(&shown);
            shown.quit = shown.quit || is_over(live);
        }
    }
}

/* An exit status; *taken: the terminal has a screen that could be taken. */
static int take_screen(struct live *live, bool *taken)
{
    const int result = vt_screen_begin(live->style.colour);
    const char *term = getenv("TERM");
    *taken = !result;
    if (result == -ENOENT)
        vt_say("terminal type TERM=%s is not supported; printing once", term ? term : "");
    if (result)
        return 0;
    const struct sigaction note = {.sa_handler = note_signal};
    sigaction(SIGINT, &note, NULL);
    sigaction(SIGTERM, &note, NULL);
    sigaction(SIGHUP, &note, NULL);
    show_screen(live);
    vt_screen_end();
    if (ended_by == SIGTERM || ended_by == SIGHUP) {
        signal(ended_by, SIG_DFL);
        raise(ended_by);
    }
    return is_over(live) ? say_over(live) : 0;
}

static int check_together(const struct vt_arguments *arguments)
{
    if (arguments->json && arguments->prometheus)
        return vt_wrong_use("--json or --prometheus, not both");
    if (arguments->once && (arguments->count > 1 || arguments->interval))
        return vt_wrong_use(
            "--once takes one sample; without it, --interval and --count say when and how many");
    return 0;
}

int vt_command_top(struct vt_arguments *arguments, struct vt_output *output)
{
    const bool printed =
        arguments->once || arguments->json || arguments->prometheus || arguments->export_path;
    struct live live = {.arguments = arguments};
    bool taken = false;
    int status = check_together(arguments);
    if (status)
        return status;
    live.style = vt_style(arguments, output);
    live.style.height = 0;
    live.key = arguments->sort < 0 ? VT_TOP_BY_BLOCKS : (enum vt_top_key)arguments->sort;
    if (arguments->export_path && strcmp(arguments->export_path, "-") != 0) {
        live.style.colour = false;
        live.style.width = arguments->width ? arguments->width : 120;
    }
    take_sample(&live, true);
    status = check_words(&live);
    if (!status && !printed)
        status = take_screen(&live, &taken);
    if (!status && !taken)
        status = print_all(&live, output);
    vt_top_free(&live.top);
    free(live.recorders);
    return status;
}
