/* Shows how far the analysis is, on one line of the terminal that stderr is. */
#include "command/progress.h"

#include <langinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command/output.h"
#include "view/text/progress.h"

#define ERASE "\r\033[K"
#define WAIT_NS 1000000000u /* what is quicker needs none */
#define AGAIN_NS 100000000u /* from line to line */

static struct {
    bool wanted, at_once, drawn;
    uint64_t began_ns, work_began_ns, drawn_ns;
    enum vt_work work;
    struct sigaction interrupt; /* as before */
} shown;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void put_text(const char *text, size_t bytes)
{
    ssize_t written = write(STDERR_FILENO, text, bytes);

    (void)written;
}

static void erase_and_die(int number)
{
    put_text(ERASE, sizeof ERASE - 1);
    sigaction(number, &shown.interrupt, NULL); /* which may remove what is not complete */
    raise(number);
}

static void draw_line(const struct vt_progress *progress, uint64_t t_ns)
{
    struct sigaction action = {.sa_handler = erase_and_die};
    char line[sizeof ERASE + VT_PROGRESS_BYTES] = ERASE;
    size_t bytes =
        vt_progress_text(progress, t_ns - shown.began_ns, t_ns - shown.work_began_ns, vt_columns(stderr),
                         !strcmp(nl_langinfo(CODESET), "UTF-8"), line + sizeof ERASE - 1);

    if (!shown.drawn) {
        sigemptyset(&action.sa_mask);
        sigaction(SIGINT, &action, &shown.interrupt);
    }
    shown.drawn = true;
    shown.drawn_ns = t_ns;
    put_text(line, sizeof ERASE - 1 + bytes);
}

static void note_progress(const struct vt_progress *progress)
{
    uint64_t t_ns = now_ns();

    if (progress->work != shown.work) {
        shown.work = progress->work;
        shown.work_began_ns = t_ns;
    }
    if (shown.at_once ||
        t_ns - (shown.drawn ? shown.drawn_ns : shown.began_ns) >= (shown.drawn ? AGAIN_NS : WAIT_NS))
        draw_line(progress, t_ns);
}

void vt_progress_begin(bool new_trace)
{
    const char *when = getenv("VRAMTRACE_PROGRESS"), *term = getenv("TERM");

    if (new_trace) {
        shown.at_once = when && !strcmp(when, "always");
        shown.wanted =
            !(when && !strcmp(when, "never")) && isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
        shown.began_ns = shown.work_began_ns = now_ns();
        shown.work = VT_WORK_READ;
    }
    if (shown.wanted)
        vt_progress_listen(note_progress);
}

void vt_progress_end(void)
{
    vt_progress_listen(NULL);
    if (!shown.drawn)
        return;
    put_text(ERASE, sizeof ERASE - 1);
    sigaction(SIGINT, &shown.interrupt, NULL);
    shown.drawn = false;
}
