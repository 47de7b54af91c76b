/* mcp: a server of the Model Context Protocol; it is written in Python. */
#include "command/output.h"
#include "command/python.h"

#include <limits.h>
#include <stdlib.h>

int vt_command_mcp(struct vt_arguments *arguments, struct vt_output *output)
{
    size_t count = (size_t)arguments->operand_count;
    const char **words;
    char program[PATH_MAX];

    (void)output;
    if (!realpath("/proc/self/exe", program)) {
        vt_say("/proc is not mounted");
        return VT_EXIT_UNREADABLE;
    }
    words = vt_allocate_zeros(count + 5, sizeof *words);
    words[2] = program;
    words[3] = "--";
    for (size_t i = 0; i < count; i++)
        words[4 + i] = arguments->operands[i];
    count = (size_t)vt_python_become(VT_PYTHON_MCP, words);
    free(words);
    return (int)count;
}
