/* Counts the work of a program that is built with -fsanitize-coverage=trace-pc: the compiler calls this for
 * each basic block. The count goes to the file that VRAMTRACE_WORK names. Unlike time it is the same on a
 * busy machine. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t blocks;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
    blocks++;
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("VRAMTRACE_WORK");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    fprintf(file, "%llu\n", (unsigned long long)blocks);
    fclose(file);
}
