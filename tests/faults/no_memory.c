/* Preloaded: the allocation number $FAIL_AT (from 1) fails, and with $FAIL_ON all after it. At the end stderr
 * says how many there were if $FAIL_AT is 0. Only in this process: programs that it starts have their own. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);

static long at = -1, number;

static int fails(void)
{
    const char *text;

    if (at < 0) {
        text = getenv("FAIL_AT");
        at = text ? atol(text) : 0;
    }
    number++;
    if (number != at && (!at || number < at || !getenv("FAIL_ON")))
        return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t bytes)
{
    return fails() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    return fails() ? NULL : __libc_realloc(memory, bytes);
}

__attribute__((constructor)) static void leave_children_alone(void)
{
    unsetenv("LD_PRELOAD");
}

__attribute__((destructor)) static void say(void)
{
    if (!at)
        fprintf(stderr, "%ld\n", number);
}
