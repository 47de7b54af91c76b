#include "base/format.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/index.h"
#include "vramtrace/format.h"

char *vt_format_change(uint64_t before, uint64_t after, char *text)
{
    char bytes[24];

    vt_format_bytes(vt_distance(after, before), bytes);
    snprintf(text, 32, "%s%s", after > before ? "+" : after < before ? "−" : "", bytes);
    return text;
}

char *vt_format_duration(uint64_t t_ns, char *text)
{
    double seconds = (double)t_ns / 1e9;
    uint64_t whole = t_ns / 1000000000u;

    if (t_ns < 1000)
        snprintf(text, 32, "%u ns", (unsigned)t_ns);
    else if (t_ns < 1000000)
        snprintf(text, 32, "%.1f µs", seconds * 1e6);
    else if (t_ns < 999500000)
        snprintf(text, 32, t_ns < 99950000 ? "%.1f ms" : "%.0f ms", seconds * 1e3);
    else if (seconds < 99.95)
        snprintf(text, 32, seconds < 9.995 ? "%.2f s" : "%.1f s", seconds);
    else if (whole < 3600)
        snprintf(text, 32, "%" PRIu64 " min %" PRIu64 " s", whole / 60, whole % 60);
    else if (whole < 172800)
        snprintf(text, 32, "%" PRIu64 " h %" PRIu64 " min", whole / 3600, whole % 3600 / 60);
    else
        snprintf(text, 32, "%" PRIu64 " d %" PRIu64 " h", whole / 86400, whole % 86400 / 3600);
    return text;
}

char *vt_format_percent(uint64_t part, uint64_t whole, char *text)
{
    double percent = whole ? 100.0 * (double)part / (double)whole : 0;

    if (!whole)
        snprintf(text, 16, "–");
    else if (part && percent < 0.05)
        snprintf(text, 16, "<0.1 %%");
    else if (part < whole && percent >= 99.5)
        snprintf(text, 16, ">99 %%");
    else
        snprintf(text, 16, "%.*f %%", percent < 9.95 && part ? 1 : 0, percent);
    return text;
}

char *vt_format_count(uint64_t count, char *text)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, count);
    char *end = text;

    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            *end++ = ',';
        *end++ = digits[i];
    }
    *end = '\0';
    return text;
}

char *vt_format_uuid(const uint8_t uuid[16], char *text)
{
    size_t digits = 0;

    strcpy(text, "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx");
    for (char *at = text; *at; at++)
        if (*at == 'x') {
            *at = "0123456789abcdef"[uuid[digits / 2] >> (digits % 2 ? 0 : 4) & 15];
            digits++;
        }
    return text;
}

char *vt_format_end(uint32_t end_signal, char *text)
{
    static const char *const names[] = {
        [SIGHUP] = "HUP",   [SIGINT] = "INT",   [SIGQUIT] = "QUIT",     [SIGILL] = "ILL",
        [SIGTRAP] = "TRAP", [SIGABRT] = "ABRT", [SIGBUS] = "BUS",       [SIGFPE] = "FPE",
        [SIGKILL] = "KILL", [SIGUSR1] = "USR1", [SIGSEGV] = "SEGV",     [SIGUSR2] = "USR2",
        [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM", [SIGTERM] = "TERM",     [SIGXCPU] = "XCPU",
        [SIGXFSZ] = "XFSZ", [SIGPROF] = "PROF", [SIGVTALRM] = "VTALRM", [SIGSYS] = "SYS"};
    const uint32_t number = end_signal & ~VT_END_FROM_KEYBOARD;
    const char *name = number < sizeof names / sizeof *names ? names[number] : NULL;

    if (number == SIGINT)
        snprintf(text, 32, "interrupted (%s)", end_signal & VT_END_FROM_KEYBOARD ? "Ctrl-C" : "SIGINT");
    else if (name)
        snprintf(text, 32, "killed by SIG%s", name);
    else
        snprintf(text, 32, "killed by signal %" PRIu32, number);
    return text;
}

const char *vt_without_folder(const char *command)
{
    const size_t word = strcspn(command, " ");
    const char *slash = memrchr(command, '/', word);

    return slash ? slash + 1 : command;
}

size_t vt_stem_bytes(const char *name)
{
    const size_t bytes = strlen(name);

    return bytes > 4 && !strcmp(name + bytes - 4, ".vrt") ? bytes - 4 : bytes;
}
