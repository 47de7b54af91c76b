#include "trace/processes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/allocate.h"
#include "vramtrace/format.h"

enum { TEXT_BYTES = 4096 };

/* Reads the file of that path, up to TEXT_BYTES - 1. Returns its length, 0 if it cannot be read. */
__attribute__((format(printf, 2, 3))) static size_t read_text(char text[TEXT_BYTES], const char *path_format,
                                                              ...)
{
    char path[64];
    va_list arguments;
    va_start(arguments, path_format);
    vsnprintf(path, sizeof path, path_format, arguments);
    va_end(arguments);
    FILE *file = fopen(path, "re");
    const size_t length = file ? fread(text, 1, TEXT_BYTES - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = 0;
    return length;
}

/* The fields of /proc/PID/stat from the third on: the second, a name in brackets, may hold anything. NULL =
 * no such process. */
static const char *read_status(char text[TEXT_BYTES], uint32_t pid)
{
    read_text(text, "/proc/%" PRIu32 "/stat", pid);
    const char *name_end = strrchr(text, ')');
    return name_end ? name_end + 1 : NULL;
}

/* When the process started (field 22 of its status). 0 = no such process, or it has ended and nobody has
 * waited for it yet. A zombie (field 3) with other threads (field 20) still runs: only its first thread has
 * ended. */
static uint64_t start_ticks(uint32_t pid)
{
    char text[TEXT_BYTES], state;
    uint64_t threads, ticks;
    const char *fields = read_status(text, pid);
    if (!fields ||
        sscanf(fields,
               " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu64 " %*s %" SCNu64,
               &state, &threads, &ticks) != 3)
        return 0;
    return threads > 1 || (state != 'Z' && state != 'X') ? ticks : 0;
}

static bool is_of_this_boot(const struct vt_process_identity *process)
{
    char text[TEXT_BYTES];
    const char *at = text;
    unsigned byte;
    read_text(text, "/proc/sys/kernel/random/boot_id");
    for (size_t i = 0; i < sizeof process->boot_id; i++, at += 2) {
        at += *at == '-';
        if (sscanf(at, "%2x", &byte) != 1 || byte != process->boot_id[i])
            return false;
    }
    return true;
}

/* Whoever gets the number later began later. What a process reads of its own start may be some ticks after
 * what others read: an emulator tells when itself began. */
static bool has_its_number(const struct vt_process_identity *process)
{
    char path[48];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/ns/pid", process->pid);
    const uint64_t ticks = start_ticks(process->pid);
    return ticks && ticks <= process->start_ticks &&
           (stat(path, &status) || status.st_ino == process->pid_namespace);
}

bool vt_process_runs(const struct vt_process_identity *process)
{
    return is_of_this_boot(process) && has_its_number(process);
}

enum vt_life vt_process_life(const struct vt_process_identity *process)
{
    struct stat status;
    if (!is_of_this_boot(process) || stat("/proc/self/ns/pid", &status) ||
        status.st_ino != process->pid_namespace)
        return VT_LIFE_UNKNOWN;
    return has_its_number(process) ? VT_LIFE_RUNS : VT_LIFE_ENDED;
}

int vt_process_user(uint32_t pid, uint32_t *user_id)
{
    char path[32];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%" PRIu32, pid);
    if (stat(path, &status))
        return -ESRCH;
    *user_id = status.st_uid;
    return 0;
}

bool vt_process_has_user(uint32_t pid, uint32_t user_id)
{
    char text[TEXT_BYTES];
    uint32_t ids[4];
    read_text(text, "/proc/%" PRIu32 "/status", pid);
    const char *line = strstr(text, "\nUid:");
    if (!line || sscanf(line, "\nUid: %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32, &ids[0], &ids[1],
                        &ids[2], &ids[3]) != 4)
        return false;
    return user_id == ids[0] || user_id == ids[1] || user_id == ids[2] || user_id == ids[3];
}

bool vt_process_is_meant(const char *word, uint32_t pid)
{
    char text[TEXT_BYTES];
    uint32_t number, parent;
    if (!word[0] || word[strspn(word, "0123456789")] || sscanf(word, "%" SCNu32, &number) != 1)
        return false;
    if (number == pid)
        return true;
    const char *fields = read_status(text, pid);
    return fields && sscanf(fields, " %*c %" SCNu32, &parent) == 1 && parent == number &&
           read_text(text, "/proc/%" PRIu32 "/comm", parent) && !strcmp(text, "vramtrace\n");
}

char *vt_process_command(uint32_t pid)
{
    char text[TEXT_BYTES];
    size_t length = read_text(text, "/proc/%" PRIu32 "/cmdline", pid);
    while (length && !text[length - 1])
        length--;
    for (size_t i = 0; i < length; i++)
        text[i] = text[i] ? text[i] : ' ';
    if (length)
        return vt_copy_text(text);
    length = read_text(text, "/proc/%" PRIu32 "/comm", pid);
    text[strcspn(text, "\n")] = 0;
    return vt_print_text(length ? "[%s]" : "%s", text);
}
