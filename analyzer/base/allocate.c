#include "base/allocate.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MOST_UNDONE 4

static void (*undos[MOST_UNDONE])(void);
static unsigned undo_count;

void vt_undo_out_of_memory(void (*undo)(void))
{
    for (unsigned i = 0; i < undo_count; i++)
        if (undos[i] == undo)
            return;
    if (undo_count < MOST_UNDONE)
        undos[undo_count++] = undo;
}

void vt_end_out_of_memory(void)
{
    static atomic_flag ending = ATOMIC_FLAG_INIT;
    struct rusage usage = {.ru_maxrss = 0};
    char line[160];
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    while (atomic_flag_test_and_set(&ending)) /* another thread ends the process */
        pause();
    while (undo_count)
        undos[--undo_count]();
    getrusage(RUSAGE_SELF, &usage);
    int bytes =
        snprintf(line, sizeof line,
                 "vramtrace: out of memory with %.2f GiB in use; raise the limit (ulimit -v, container), "
                 "or use a machine with more memory\n",
                 (double)usage.ru_maxrss / (1 << 20));
    if (write(STDERR_FILENO, line, (size_t)bytes) < 0) {
        /* nobody reads it */
    }
    _exit(VT_EXIT_OUT_OF_MEMORY);
}

static void *not_null(void *memory)
{
    if (!memory)
        vt_end_out_of_memory();
    return memory;
}

void *vt_allocate(size_t bytes)
{
    return not_null(malloc(bytes ? bytes : 1));
}

void *vt_allocate_zeros(size_t count, size_t item_bytes)
{
    return not_null(calloc(count ? count : 1, item_bytes ? item_bytes : 1));
}

void *vt_resize(void *memory, size_t count, size_t item_bytes)
{
    return not_null(reallocarray(memory, count ? count : 1, item_bytes ? item_bytes : 1));
}

char *vt_copy_text(const char *text)
{
    return not_null(strdup(text));
}

char *vt_copy_bytes(const void *text, size_t bytes)
{
    char *copy = vt_allocate(bytes + 1);

    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}

char *vt_print_text(const char *format, ...)
{
    va_list arguments;
    char *text;

    va_start(arguments, format);
    text = vt_print_text_list(format, arguments);
    va_end(arguments);
    return text;
}

char *vt_print_text_list(const char *format, va_list arguments)
{
    char *text;

    if (vasprintf(&text, format, arguments) < 0)
        vt_end_out_of_memory();
    return text;
}
