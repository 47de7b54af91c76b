/* What a stack is called: its user's line, and all of it folded to a line or two. Found once for each. */
#include "report/stack_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "report/group_table.h"
#include "trace/frameworks.h"

#define FRAMES 512
#define NAME_BYTES 512
#define FOLDED_FRAMES 4

struct names {
    bool line_known, stack_known;
    struct vt_frame user; /* function NULL = the stack has no frame of the user's */
    struct vt_stack_name stack;
};

struct vt_stack_namer {
    const struct vt_trace *trace;
    struct names *names; /* by stack id */
};

static struct names *names_of(struct vt_stack_namer *namer, uint32_t stack_id)
{
    return &namer->names[stack_id < namer->trace->stack_count ? stack_id : 0];
}

const struct vt_frame *vt_stack_user_frame(struct vt_stack_namer *namer, uint32_t stack_id)
{
    struct names *names = names_of(namer, stack_id);

    if (!names->line_known && !vt_trace_user_frame(namer->trace, stack_id, &names->user))
        names->user.function = NULL;
    names->line_known = true;
    return names->user.function ? &names->user : NULL;
}

/* Objects whose functions' names say enough. */
static bool is_framework(unsigned object_kinds)
{
    return (object_kinds & VT_OBJECT_FRAMEWORK) && (object_kinds & VT_OBJECT_FOLDED);
}

/* "main.<locals>.step" as people say it: "main.step". */
static void plain_function(const char *function, char *text, size_t bytes)
{
    static const char locals[] = "<locals>.";
    size_t used = 0;

    while (*function && used + 1 < bytes) {
        if (!strncmp(function, locals, sizeof locals - 1))
            function += sizeof locals - 1;
        else
            text[used++] = *function++;
    }
    text[used] = '\0';
}

void vt_name_frame(const struct vt_trace *trace, const struct vt_frame *frame, char *text, size_t bytes)
{
    const char *module = strrchr(frame->module, '/');
    char function[NAME_BYTES];

    module = module ? module + 1 : frame->module;
    plain_function(frame->function, function, sizeof function);
    if (!strncmp(function, "0x", 2) && module[0])
        snprintf(text, bytes, "%s", module); /* no symbol: its address tells a person nothing */
    else if (frame->file[0] && frame->line > 0)
        snprintf(text, bytes, "%s:%d %s", vt_short_path(trace, frame->file), frame->line, function);
    else if (frame->file[0])
        snprintf(text, bytes, "%s %s", vt_short_path(trace, frame->file), function);
    else if (!module[0] || is_framework(vt_object_kinds(frame->module)))
        snprintf(text, bytes, "%s", function);
    else
        snprintf(text, bytes, "%s (%s)", function, module);
}

/* Objects that stand between a program and what it asked for. */
static bool is_folded(const struct vt_frame *frame)
{
    return !strcmp(frame->function, "_start") || (vt_object_kinds(frame->module) & VT_OBJECT_FOLDED);
}

/* Folds a stack for a line or two of text: the innermost frame that tells something, then those that a person
 * wrote. Native frames are told only where there is no Python. */
static void fold(struct vt_stack_namer *namer, uint32_t stack_id, const struct vt_frame *frames, size_t count,
                 char *text, size_t bytes)
{
    size_t used = 0, shown = 0;
    bool python = count && frames[count - 1].kind == VT_FRAME_PYTHON;
    const struct vt_frame *user = python ? NULL : vt_stack_user_frame(namer, stack_id);
    char name[NAME_BYTES];

    text[0] = '\0';
    if (user) {
        vt_name_frame(namer->trace, user, name, sizeof name);
        used += (size_t)snprintf(text, bytes, "%s", name);
        shown++;
    }
    for (size_t i = 0; i < count && shown < FOLDED_FRAMES && used + 1 < bytes; i++) {
        if (python && frames[i].kind != VT_FRAME_PYTHON)
            continue;
        if (user && frames[i].address == user->address) {
            user = NULL; /* what called it comes now */
            continue;
        }
        if (user || (shown && (python ? vt_is_library_file(frames[i].file) : is_folded(&frames[i]))))
            continue;
        vt_name_frame(namer->trace, &frames[i], name, sizeof name);
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", shown ? " ← " : "", name);
        shown++;
    }
}

/* Stacks are the same for a person if their lines are: threads and objects do not tell them apart. */
static void know_stack(struct vt_stack_namer *namer, uint32_t stack_id, struct names *names)
{
    struct vt_frame frames[FRAMES];
    size_t count = vt_trace_frames(namer->trace, stack_id, frames, FRAMES);
    char text[NAME_BYTES * 2];
    uint64_t hash = VT_HASH_START;

    count = count < FRAMES ? count : FRAMES;
    for (size_t i = 0; i < count; i++) {
        hash = vt_hash_bytes(frames[i].function, strlen(frames[i].function) + 1, hash);
        hash = vt_hash_bytes(frames[i].file, strlen(frames[i].file) + 1, hash);
        hash = vt_hash_bytes(&frames[i].line, sizeof frames[i].line, hash);
    }
    fold(namer, stack_id, frames, count, text, sizeof text);
    names->stack_known = true;
    names->stack.hash = hash;
    names->stack.text = strdup(text);
}

const struct vt_stack_name *vt_stack_name_of(struct vt_stack_namer *namer, uint32_t stack_id)
{
    struct names *names = names_of(namer, stack_id);

    if (!names->stack_known)
        know_stack(namer, stack_id, names);
    return &names->stack;
}

int vt_stack_namer_make(const struct vt_trace *trace, struct vt_stack_namer **made)
{
    struct vt_stack_namer *namer = calloc(1, sizeof *namer);

    *made = namer;
    if (!namer)
        return -ENOMEM;
    namer->trace = trace;
    namer->names = calloc(trace->stack_count + 1, sizeof *namer->names);
    return namer->names ? 0 : -ENOMEM;
}

void vt_stack_namer_free(struct vt_stack_namer *namer)
{
    if (!namer)
        return;
    for (size_t i = 0; namer->names && i <= namer->trace->stack_count; i++)
        free(namer->names[i].stack.text);
    free(namer->names);
    free(namer);
}
