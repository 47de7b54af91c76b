/* A server of the Model Context Protocol: JSON-RPC 2.0 messages, one a line, on two files. It knows the
 * protocol; what the tools are and do is its caller's. One thread. */
#ifndef VT_MCP_H
#define VT_MCP_H

#include <stdbool.h>
#include <stdio.h>

#include <cjson/cJSON.h>

struct vt_mcp_server {
    const char *version;      /* of this program */
    const char *instructions; /* for the model */
    /* The list of tools as the protocol describes it. NULL without memory. */
    cJSON *(*list_tools)(void *context);
    /* The result of a tool (vt_mcp_answer). `arguments` is an object, or NULL without any. NULL with
     * *known = false for a tool that is not there, else NULL without memory. */
    cJSON *(*call_tool)(void *context, const char *name, const cJSON *arguments, bool *known);
    void *context;
};

/* Answers messages from `input` until it ends. 0, or -errno of reading or writing; -EPIPE = the client went
 * away. */
int vt_mcp_serve(const struct vt_mcp_server *server, int input, FILE *out);

/* A copy in UTF-8 that moves no terminal's cursor, on one line: U+FFFD for all else. NULL without memory. */
char *vt_mcp_clean(const char *text);

/* A tool's result: a page of `text` from byte `offset` on, cut at a line's end, with how to get the rest; and
 * `structured`, which it takes over (NULL = none). NULL without memory. */
cJSON *vt_mcp_answer(const char *text, size_t offset, cJSON *structured);
/* ... for a tool that failed: what to do instead. */
cJSON *vt_mcp_failure(const char *text);

#endif
