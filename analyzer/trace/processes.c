#include "trace/processes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/allocate.h"

enum { COMMAND_BYTES = 4096 };

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

static size_t read_text(uint32_t pid, const char *name, char *text, size_t bytes)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/%s", pid, name);
    FILE *file = fopen(path, "re");
    const size_t length = file ? fread(text, 1, bytes - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = 0;
    return length;
}

bool vt_process_is_meant(const char *word, uint32_t pid)
{
    char text[1024];
    const char *at;
    uint32_t number, parent;
    if (!word[0] || word[strspn(word, "0123456789")] || sscanf(word, "%" SCNu32, &number) != 1)
        return false;
    if (number == pid)
        return true;
    read_text(pid, "stat", text, sizeof text);
    at = strrchr(text, ')');
    return at && sscanf(at, ") %*c %" SCNu32, &parent) == 1 && parent == number &&
           read_text(parent, "comm", text, sizeof text) && !strcmp(text, "vramtrace\n");
}

char *vt_process_command(uint32_t pid)
{
    char text[COMMAND_BYTES];
    size_t length = read_text(pid, "cmdline", text, sizeof text);
    while (length && !text[length - 1])
        length--;
    for (size_t i = 0; i < length; i++)
        text[i] = text[i] ? text[i] : ' ';
    if (length)
        return vt_copy_text(text);
    length = read_text(pid, "comm", text, sizeof text);
    text[strcspn(text, "\n")] = 0;
    return vt_print_text(length ? "[%s]" : "%s", text);
}
