/* Places and names of stacks, each found once and cached by stack; and source lines. */
#include "report/places.h"

#include "base/allocate.h"
#include "base/arena.h"
#include "base/hash.h"
#include "report/sources.h"
#include "trace/frameworks.h"
#include "trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES 512
#define NAME_BYTES 1024 /* of a place; of a folded stack */
#define FOLDED_FRAMES 4

struct entry {
    bool place_known, stack_known, has_place;
    struct vt_place place;
    struct vt_stack_name stack;
};

struct vt_places {
    const struct vt_trace *trace;
    struct vt_arena names;
    struct entry *entries; /* by stack id */
};

static struct entry *entry_of(struct vt_places *places, uint32_t stack_id)
{
    return &places->entries[stack_id < places->trace->stack_count ? stack_id : 0];
}

/* ---- Names of frames ---- */

const char *vt_short_path(const struct vt_trace *trace, const char *path)
{
    const char *folder = trace->working_folder ? trace->working_folder : "";
    size_t length = strlen(folder);
    const char *cut = NULL, *in_packages = vt_path_in_packages(path);

    if (in_packages)
        return in_packages;
    if (length > 1 && !strncmp(path, folder, length) && path[length] == '/')
        return path + length + 1;
    if (path[0] != '/')
        return path;
    for (const char *end = path + strlen(path); end > path; end--) {
        if (*end != '/')
            continue;
        if (cut)
            return end + 1;
        cut = end;
    }
    return path;
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

static void name_frame(const struct vt_trace *trace, const struct vt_frame *frame, char *text, size_t bytes)
{
    const char *module = strrchr(frame->module, '/');
    char function[NAME_BYTES];

    module = module ? module + 1 : frame->module;
    plain_function(frame->function, function, sizeof function);
    if (!strncmp(function, "0x", 2) && module[0])
        snprintf(text, bytes, "%s", module); /* no symbol: its address means nothing to a person */
    else if (frame->file[0] && frame->line > 0)
        snprintf(text, bytes, "%.400s:%d %.400s", vt_short_path(trace, frame->file), frame->line, function);
    else if (frame->file[0])
        snprintf(text, bytes, "%.400s %.400s", vt_short_path(trace, frame->file), function);
    else if (!module[0] || is_framework(vt_object_kinds(frame->module)))
        snprintf(text, bytes, "%s", function);
    else
        snprintf(text, bytes, "%.400s (%.400s)", function, module);
}

const char *vt_places_text(struct vt_places *places, const char *text)
{
    size_t bytes = strlen(text) + 1;

    return memcpy(vt_arena_take(&places->names, bytes), text, bytes);
}

void vt_place_set(struct vt_places *places, const struct vt_frame *frame, struct vt_place *place)
{
    char name[NAME_BYTES];

    name_frame(places->trace, frame, name, sizeof name);
    place->frame = *frame;
    place->name = vt_places_text(places, name);
}

const struct vt_place *vt_place_of(struct vt_places *places, uint32_t stack_id)
{
    struct entry *entry = entry_of(places, stack_id);
    struct vt_frame frame;

    if (!entry->place_known && vt_trace_user_frame(places->trace, stack_id, &frame)) {
        vt_place_set(places, &frame, &entry->place);
        entry->has_place = true;
    }
    entry->place_known = true;
    return entry->has_place ? &entry->place : NULL;
}

/* ---- Names of stacks ---- */

/* Frames between a program and what it called. */
static bool is_folded(const struct vt_frame *frame)
{
    return !strcmp(frame->function, "_start") || (vt_object_kinds(frame->module) & VT_OBJECT_FOLDED);
}

/* Whether a library runs this process, with no code of the user's. */
static bool is_of_packages(const struct vt_places *places, uint32_t stack_id, const struct vt_frame *frames,
                           size_t count)
{
    bool found = false;

    if (vt_trace_own_line_key(places->trace, stack_id) || vt_trace_is_compiled(places->trace, stack_id))
        return false;
    for (size_t i = 0; i < count && !found && !vt_is_start(frames[i].file, frames[i].function); i++)
        found = frames[i].kind == VT_FRAME_PYTHON && vt_is_package_file(frames[i].file);
    return found;
}

/* Whether a Python frame is shown after `shown` others: the innermost one, then those of the user's code;
 * else those of packages. */
static bool is_shown(const struct vt_frame *frame, bool of_packages, size_t shown)
{
    return of_packages ? vt_is_package_file(frame->file) : !shown || !vt_is_library_file(frame->file);
}

/* Folds a stack to a line or two of text: the innermost frame with a meaning, then those of the user's code.
 * Native frames are shown only without Python frames. */
static void fold_stack(struct vt_places *places, uint32_t stack_id, const struct vt_frame *frames,
                       size_t count, char *text, size_t bytes)
{
    size_t used = 0, shown = 0;
    bool python = count && frames[count - 1].kind == VT_FRAME_PYTHON;
    const struct vt_place *user = python ? NULL : vt_place_of(places, stack_id);
    const bool of_packages = python && is_of_packages(places, stack_id, frames, count);
    char name[NAME_BYTES];

    text[0] = '\0';
    if (user) {
        used += (size_t)snprintf(text, bytes, "%s", user->name);
        shown++;
    }
    for (size_t i = 0; i < count && shown < FOLDED_FRAMES && used + 1 < bytes; i++) {
        if (python && frames[i].kind != VT_FRAME_PYTHON)
            continue;
        if (user && frames[i].address == user->frame.address) {
            user = NULL; /* what called it comes now */
            continue;
        }
        if (python && shown && vt_is_start(frames[i].file, frames[i].function))
            break; /* a forked child has its parent's frames beyond */
        if (user || (python ? !is_shown(&frames[i], of_packages, shown) : shown && is_folded(&frames[i])))
            continue;
        name_frame(places->trace, &frames[i], name, sizeof name);
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", shown ? " ← " : "", name);
        shown++;
    }
}

/* Stacks with the same lines share a name: threads and objects make no difference. */
static void name_stack(struct vt_places *places, uint32_t stack_id, struct vt_stack_name *stack)
{
    struct vt_frame frames[FRAMES];
    size_t count = vt_trace_frames(places->trace, stack_id, frames, FRAMES);
    char text[NAME_BYTES];
    uint64_t hash = VT_HASH_START;

    count = count < FRAMES ? count : FRAMES;
    for (size_t i = 0; i < count; i++) {
        hash = vt_hash_bytes(frames[i].function, strlen(frames[i].function) + 1, hash);
        hash = vt_hash_bytes(frames[i].file, strlen(frames[i].file) + 1, hash);
        hash = vt_hash_bytes(&frames[i].line, sizeof frames[i].line, hash);
    }
    fold_stack(places, stack_id, frames, count, text, sizeof text);
    stack->hash = hash;
    stack->text = vt_places_text(places, text);
}

const struct vt_stack_name *vt_stack_name_of(struct vt_places *places, uint32_t stack_id)
{
    struct entry *entry = entry_of(places, stack_id);

    if (!entry->stack_known)
        name_stack(places, stack_id, &entry->stack);
    entry->stack_known = true;
    return &entry->stack;
}

size_t vt_stack_frames(struct vt_places *places, uint32_t stack_id, struct vt_frame *frames, size_t capacity)
{
    return vt_trace_frames(places->trace, stack_id, frames, capacity);
}

/* ---- Source lines ---- */

char *vt_source_line(const struct vt_places *places, const struct vt_place *place)
{
    struct vt_source_text source = {0};
    const size_t line = place && place->frame.line > 0 ? (size_t)place->frame.line : 0;
    const char *text = "";
    char *copy;

    if (line)
        vt_source_read(places->trace, place->frame.file, &source);
    if (line && line <= source.count)
        text = source.lines[line - 1];
    copy = vt_copy_text(text + strspn(text, " \t"));
    vt_source_free(&source);
    return copy;
}

/* ---- The cache ---- */

struct vt_places *vt_places_make(const struct vt_trace *trace)
{
    struct vt_places *places = vt_allocate_zeros(1, sizeof *places);

    places->trace = trace;
    places->entries = vt_allocate_zeros(trace->stack_count + 1, sizeof *places->entries);
    return places;
}

void vt_places_free(struct vt_places *places)
{
    if (!places)
        return;
    vt_arena_free(&places->names);
    free(places->entries);
    free(places);
}

bool vt_frame_is_plumbing(const struct vt_frame *frame)
{
    return frame->kind == VT_FRAME_NATIVE &&
           (vt_is_plumbing(frame->function) || vt_object_kinds(frame->module) & VT_OBJECT_CUDA);
}
