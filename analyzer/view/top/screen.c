/* The whole screen of a terminal, with ncurses, which sends only changes. */
#include "view/top/page.h"
#include "view/top/screen.h"

#include <curses.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/allocate.h"
#include "base/memory_stream.h"
#include "view/text/print.h"

enum { PAUSED_COLOUR = 1, LOST_COLOUR, FOOT_LINES = 4, LONGEST_MS = 500 };

static SCREEN *terminal;

void vt_screen_end(void)
{
    if (!terminal)
        return;
    endwin();
    delscreen(terminal);
    terminal = NULL;
}

int vt_screen_begin(bool colour)
{
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return -ENOTTY;
    /* The terminal's own size, not what a shell has once exported in LINES and COLUMNS. */
    unsetenv("LINES");
    unsetenv("COLUMNS");
    terminal = newterm(NULL, stdout, stdin);
    if (!terminal)
        return -ENOENT;
    if (!tigetstr("cup")) { /* known, and cannot place its cursor */
        vt_screen_end();
        return -ENOENT;
    }
    vt_undo_out_of_memory(vt_screen_end);
    cbreak();
    noecho();
    nonl();
    intrflush(stdscr, FALSE);
    keypad(stdscr, TRUE);
    set_escdelay(50);
    nodelay(stdscr, TRUE);
    curs_set(0);
    if (colour && has_colors()) {
        start_color();
        use_default_colors();
        init_pair(PAUSED_COLOUR, COLOR_YELLOW, -1);
        init_pair(LOST_COLOUR, COLOR_RED, -1);
    }
    return 0;
}

/* ---- Drawing ---- */

static chtype look_of(const struct vt_top_process *process)
{
    if (process->state == VT_TOP_ENDED)
        return A_DIM;
    if (process->lost_events + process->lost_definitions)
        return A_BOLD | (chtype)COLOR_PAIR(LOST_COLOUR);
    return process->state == VT_TOP_PAUSED ? (chtype)COLOR_PAIR(PAUSED_COLOUR) : A_NORMAL;
}

static void put_line(int line, chtype look, const char *text, size_t bytes)
{
    move(line, 0);
    attrset((int)look);
    addnstr(text, (int)bytes);
    if (look & A_REVERSE)
        for (int column = getcurx(stdscr); getcury(stdscr) == line && column < COLS; column++)
            mvaddch(line, column, ' ');
    attrset(A_NORMAL);
}

/* A text, made safe and cut to the width of the screen. */
static void put_text(int line, chtype look, const struct vt_view_style *style, const char *text)
{
    struct vt_print print;
    char *cut = vt_shorten(text, style->width, VT_CUT_END), *clean;
    size_t bytes;
    FILE *out = vt_memory_stream(&clean, &bytes);
    vt_print_begin(&print, style, NULL);
    fputs(cut, print.stream);
    vt_print_finish(&print, out);
    fclose(out);
    put_line(line, look, clean, bytes);
    free(clean);
    free(cut);
}

static void put_details(const struct vt_top_row *row, const struct vt_view_style *style, int line)
{
    const struct vt_top_process *process = row->process;
    char *text = vt_print_text(
        "%s · %s events, %s lost · %s allocated so far · %s", vt_top_state_name((unsigned)process->state),
        VT_COUNT(process->event_count), VT_COUNT(process->lost_events + process->lost_definitions),
        process->tallied
            ? VT_BYTES(process->block_made_bytes ? process->block_made_bytes : process->driver_made_bytes)
            : "–",
        process->trace);
    put_text(line, A_NORMAL, style, process->command);
    put_text(line + 1, A_NORMAL, style, text);
    free(text);
}

static void put_help(const struct vt_screen *screen, const struct vt_view_style *style)
{
    static const char *const lines[] = {
        "q, Ctrl-C       quit",
        "↑ ↓, j k        select a process; also Page Up and Down, Home, End",
        "← →, < >        sort by another column; r reverses",
        "space           pause or resume the display",
        "m               set a mark in the selected process's trace",
        "i               set a mark and inspect its live objects (names of tensors)",
        "",
        "DRIVER    memory from the CUDA driver, without contexts",
        "SEGM      reserved by the framework's allocator",
        "BLOCKS    in tensors (allocated)",
        "PEAK      peak of BLOCKS; without a framework, of DRIVER",
        "EV/s      recorded events per second; ALLOC/s allocated bytes per second",
        "HISTORY   BLOCKS as a fraction of PEAK",
        "GPU USED  by all processes, as the driver last reported it (AGO)",
        "K, M, G are 1024, 1024², 1024³ bytes.",
    };
    char title[80];
    snprintf(title, sizeof title, "vramtrace top: every %u s. Press any key to return.", screen->interval_s);
    put_text(0, A_BOLD, style, title);
    for (int i = 0; i < (int)(sizeof lines / sizeof *lines) && i + 2 < LINES; i++)
        put_text(i + 2, A_NORMAL, style, lines[i]);
}

static void put_foot(const struct vt_screen *screen, const struct vt_view_style *style)
{
    static const char keys[] = "q quit  ? help  ↑↓ select  ←→ sort  r reverse  space pause  m mark  i inspect";
    char *text = NULL;
    if (screen->question)
        text = vt_print_text("%s%s_   (Enter to confirm, Esc to cancel)", screen->question, screen->typed);
    put_text(LINES - 1, A_REVERSE, style,
             text                 ? text
             : screen->message[0] ? screen->message
             : screen->paused     ? "Paused; press space to resume.  q quit  ? help"
                                  : keys);
    free(text);
}

/* The page's lines: what is above the rows, then as many rows as fit, the selected one among them. */
static void put_page(struct vt_screen *screen, const struct vt_top *top, const char *page, int title_line)
{
    screen->rows = LINES - FOOT_LINES - title_line - 1;
    screen->rows = screen->rows < 1 ? 1 : screen->rows;
    if (screen->selected < screen->first)
        screen->first = screen->selected;
    if (screen->selected >= screen->first + (size_t)screen->rows)
        screen->first = screen->selected - (size_t)screen->rows + 1;
    for (int number = 0; *page; number++) {
        const size_t bytes = strcspn(page, "\n");
        const size_t row = number > title_line ? (size_t)(number - title_line - 1) : 0;
        const int line = number <= title_line ? number : number - (int)screen->first;
        const bool shown =
            number <= title_line || (row >= screen->first && row < screen->first + (size_t)screen->rows);
        chtype look = number == title_line && top->row_count ? A_REVERSE : number == 0 ? A_BOLD : A_NORMAL;
        if (number > title_line && row < top->row_count)
            look = look_of(top->rows[row].process) | (row == screen->selected ? A_REVERSE : 0);
        if (shown && line < LINES - FOOT_LINES)
            put_line(line, look, page, bytes);
        page += bytes + (page[bytes] == '\n');
    }
}

void vt_screen_draw(struct vt_screen *screen, const struct vt_top *top, const struct vt_view_style *style)
{
    struct vt_view_style plain = *style;
    char *page = NULL;
    size_t bytes;
    int title_line = 0;
    plain.colour = false;
    plain.width = COLS;
    plain.height = LINES;
    erase();
    if (COLS < VT_SCREEN_COLUMNS || LINES < VT_SCREEN_LINES) {
        mvprintw(0, 0, "Too small: %dx%d; needs %dx%d", COLS, LINES, VT_SCREEN_COLUMNS, VT_SCREEN_LINES);
    } else if (screen->help) {
        put_help(screen, &plain);
    } else {
        FILE *out = vt_memory_stream(&page, &bytes);
        vt_top_text(top, &plain, screen->sorted_by, &title_line, out);
        fclose(out);
        put_page(screen, top, page, title_line);
        if (screen->selected < top->row_count)
            put_details(&top->rows[screen->selected], &plain, LINES - 3);
        put_foot(screen, &plain);
    }
    free(page);
    refresh();
}

/* ---- Keys ---- */

int vt_screen_key(int milliseconds)
{
    static const struct {
        int theirs, ours;
    } keys[] = {
        {KEY_UP, VT_KEY_UP},         {KEY_DOWN, VT_KEY_DOWN},     {KEY_LEFT, VT_KEY_LEFT},
        {KEY_RIGHT, VT_KEY_RIGHT},   {KEY_PPAGE, VT_KEY_PAGE_UP}, {KEY_NPAGE, VT_KEY_PAGE_DOWN},
        {KEY_HOME, VT_KEY_HOME},     {KEY_END, VT_KEY_END},       {KEY_BACKSPACE, VT_KEY_BACKSPACE},
        {127, VT_KEY_BACKSPACE},     {8, VT_KEY_BACKSPACE},       {KEY_ENTER, VT_KEY_ENTER},
        {'\r', VT_KEY_ENTER},        {'\n', VT_KEY_ENTER},        {27, VT_KEY_ESCAPE},
        {KEY_RESIZE, VT_KEY_RESIZE}, {ERR, VT_KEY_NONE},
    };
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    /* A signal that came just before is noticed at the latest then. */
    milliseconds = milliseconds < LONGEST_MS ? milliseconds : LONGEST_MS;
    int key = getch();
    if (key == ERR && poll(&input, 1, milliseconds) > 0) {
        if (input.revents & (POLLHUP | POLLERR | POLLNVAL))
            return VT_KEY_GONE;
    }
    if (key == ERR)
        key = getch(); /* after a signal too: the size may be another */
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].theirs == key)
            return keys[i].ours;
    return key < 0x100 ? key : VT_KEY_NONE;
}
