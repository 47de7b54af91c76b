#include "view/text/losses.h"
#include "base/format.h"

#include <stdio.h>

bool vt_losses_tell(const struct vt_trace *trace, char *text, size_t bytes)
{
    const struct vt_file_header *header = &trace->header;
    char first[32], second[32];

    text[0] = '\0';
    if (header->dropped || header->dropped_definitions)
        snprintf(text, bytes, "%s events and %s definitions were lost",
                 vt_format_count(header->dropped, first),
                 vt_format_count(header->dropped_definitions, second));
    else if (trace->truncated || trace->damaged_bytes)
        snprintf(text, bytes, "the file is damaged");
    else if (header->state == VT_STATE_STOPPED)
        snprintf(text, bytes, "recording stopped before the process ended");
    else if (header->state == VT_STATE_RECORDING)
        snprintf(text, bytes, "the process was killed or still runs");
    else if (header->without_stack)
        snprintf(text, bytes, "%s events have no stack", vt_format_count(header->without_stack, first));
    else if (!trace->complete)
        snprintf(text, bytes, "the trace is incomplete");
    return text[0] != '\0';
}
