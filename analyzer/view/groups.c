/* What is alive at one instant, grouped in the ways that the tables show. */
#include "view/report_parts.h"
#include "view/format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES 512
#define NAME_BYTES 512
#define FOLDED_FRAMES 4

/* What one stack is called in each way of grouping; found once. */
struct stack_names {
    bool line_known, stack_known;
    struct vt_frame user; /* function NULL = the stack has no frame of the user's */
    uint64_t stack_hash;
    char *stack_name;
};

struct vt_grouper {
    const struct vt_attribution *attribution;
    const struct vt_trace *trace;
    struct stack_names *names; /* by stack id */
};

/* Groups being made: a hash table of their names over a growing array. */
struct table {
    struct vt_groups *groups;
    uint64_t *hashes; /* of items */
    uint32_t *slots;  /* index + 1, 0 = free */
    size_t capacity, slot_count;
};

static uint64_t hash_bytes(const void *data, size_t bytes, uint64_t hash)
{
    const unsigned char *s = data;

    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ s[i]) * 0x100000001b3u;
    return hash;
}
#define HASH_START 0xcbf29ce484222325u

static int grow(struct table *table)
{
    size_t capacity = table->capacity ? table->capacity * 2 : 64, slot_count = capacity * 2;
    struct vt_group *items = realloc(table->groups->items, capacity * sizeof *items);
    uint64_t *hashes;
    uint32_t *slots;

    if (!items)
        return -ENOMEM;
    table->groups->items = items;
    hashes = realloc(table->hashes, capacity * sizeof *hashes);
    if (!hashes)
        return -ENOMEM;
    table->hashes = hashes;
    slots = calloc(slot_count, sizeof *slots);
    if (!slots)
        return -ENOMEM;
    for (size_t i = 0; i < table->groups->count; i++) {
        size_t slot = hashes[i] & (slot_count - 1);
        while (slots[slot])
            slot = (slot + 1) & (slot_count - 1);
        slots[slot] = (uint32_t)i + 1;
    }
    free(table->slots);
    table->slots = slots;
    table->slot_count = slot_count;
    table->capacity = capacity;
    return 0;
}

/* The group with this hash, made with `name` if there is none; NULL without memory. */
static struct vt_group *group_of(struct table *table, uint64_t hash, const char *name)
{
    struct vt_groups *groups = table->groups;
    struct vt_group *group;
    size_t slot;

    if (groups->count == table->capacity && grow(table))
        return NULL;
    for (slot = hash & (table->slot_count - 1); table->slots[slot];
         slot = (slot + 1) & (table->slot_count - 1))
        if (table->hashes[table->slots[slot] - 1] == hash)
            return &groups->items[table->slots[slot] - 1];
    group = &groups->items[groups->count];
    *group = (struct vt_group){.name = strdup(name)};
    if (!group->name)
        return NULL;
    table->hashes[groups->count++] = hash;
    table->slots[slot] = (uint32_t)groups->count;
    return group;
}

/* The node's number of an event's sequence, and whether it ran backward. */
static bool node_of(uint64_t sequence, uint64_t *number, bool *backward)
{
    if (sequence < 2)
        return false;
    *number = (sequence - 2) / 2;
    *backward = sequence & 1;
    return true;
}

/* The stack that tells a person where an allocation was made: for one of backward, that of the forward
 * operator whose node made it, where that is known. */
static uint32_t telling_stack(const struct vt_allocation *allocation)
{
    return allocation->forward_stack_id ? allocation->forward_stack_id : allocation->stack_id;
}

/* Forward events carry the number of the latest node on their thread: the first with a number is the node's
 * own operator's, those that follow are of operators without a node. Each thread counts for itself, so a
 * later run of the same number is another node. */
uint32_t vt_forward_stack(const struct vt_replay *replay, uint32_t event_index, uint64_t sequence)
{
    uint64_t number, other;
    uint32_t found = 0, thread_id = 0;
    bool backward, ended = true;

    if (!node_of(sequence, &number, &backward) || !backward)
        return 0;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        uint32_t thread;

        if (allocation->alloc_event > event_index)
            break;
        if (allocation->kind != VT_ALLOCATION_BLOCK || !node_of(allocation->sequence, &other, &backward) ||
            backward || allocation->stack_id >= replay->trace->stack_count)
            continue;
        thread = replay->trace->stacks[allocation->stack_id].thread_id;
        if (other == number && (ended || thread != thread_id)) {
            found = allocation->stack_id;
            thread_id = thread;
            ended = false;
        } else if (other != number && thread == thread_id) {
            ended = true;
        }
    }
    return found;
}

static struct stack_names *names_of(struct vt_grouper *grouper, uint32_t stack_id)
{
    return &grouper->names[stack_id < grouper->trace->stack_count ? stack_id : 0];
}

static const struct vt_frame *user_frame(struct vt_grouper *grouper, uint32_t stack_id)
{
    struct stack_names *names = names_of(grouper, stack_id);

    if (!names->line_known && !vt_trace_user_frame(grouper->trace, stack_id, &names->user))
        names->user.function = NULL;
    names->line_known = true;
    return names->user.function ? &names->user : NULL;
}

/* Objects whose functions' names say enough. */
static bool is_framework(const char *module)
{
    return !strncmp(module, "libtorch", 8) || !strncmp(module, "libc10", 6);
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
    else if (!module[0] || is_framework(module))
        snprintf(text, bytes, "%s", function);
    else
        snprintf(text, bytes, "%s (%s)", function, module);
}

/* Objects that stand between a program and what it asked for. */
static bool is_plumbing(const struct vt_frame *frame)
{
    static const char *const names[] = {"libvramtrace.so", "libcuda.so",   "libcudart.so", "libc.so",
                                        "libpthread.so",   "libstdc++.so", "ld-linux"};
    const char *slash = strrchr(frame->module, '/'), *module = slash ? slash + 1 : frame->module;

    if (!strcmp(frame->function, "_start") || is_framework(module))
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(module, names[i], strlen(names[i])))
            return true;
    return false;
}

/* Folds a stack for a line or two of text: the innermost frame that tells something, then those that a person
 * wrote. Native frames are told only where there is no Python. */
static void fold(struct vt_grouper *grouper, uint32_t stack_id, const struct vt_frame *frames, size_t count,
                 char *text, size_t bytes)
{
    size_t used = 0, shown = 0;
    bool python = count && frames[count - 1].kind == VT_FRAME_PYTHON;
    const struct vt_frame *user = python ? NULL : user_frame(grouper, stack_id);
    char name[NAME_BYTES];

    text[0] = '\0';
    if (user) {
        vt_name_frame(grouper->trace, user, name, sizeof name);
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
        if (user || (shown && (python ? vt_is_library_path(frames[i].file) : is_plumbing(&frames[i]))))
            continue;
        vt_name_frame(grouper->trace, &frames[i], name, sizeof name);
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", shown ? " ← " : "", name);
        shown++;
    }
}

/* Stacks are the same for a person if their lines are: threads and objects do not tell them apart. */
static void know_stack(struct vt_grouper *grouper, uint32_t stack_id, struct stack_names *names)
{
    struct vt_frame frames[FRAMES];
    size_t count = vt_trace_frames(grouper->trace, stack_id, frames, FRAMES);
    char text[NAME_BYTES * 2];
    uint64_t hash = HASH_START;

    count = count < FRAMES ? count : FRAMES;
    for (size_t i = 0; i < count; i++) {
        hash = hash_bytes(frames[i].function, strlen(frames[i].function) + 1, hash);
        hash = hash_bytes(frames[i].file, strlen(frames[i].file) + 1, hash);
        hash = hash_bytes(&frames[i].line, sizeof frames[i].line, hash);
    }
    fold(grouper, stack_id, frames, count, text, sizeof text);
    names->stack_known = true;
    names->stack_hash = hash;
    names->stack_name = strdup(text);
}

static struct vt_group *group_by_line(struct vt_grouper *grouper, struct table *table,
                                      const struct vt_allocation *allocation)
{
    const struct vt_frame *frame = user_frame(grouper, telling_stack(allocation));
    char name[NAME_BYTES] = "";
    uint64_t hash = HASH_START;
    struct vt_group *group;

    if (frame) {
        vt_name_frame(grouper->trace, frame, name, sizeof name);
        hash = hash_bytes(frame->file, strlen(frame->file) + 1, hash);
        hash = hash_bytes(name, strlen(name) + 1, hash);
        hash = hash_bytes(&allocation->phase, 1, hash);
    }
    group = group_of(table, hash, name);
    if (group && frame) {
        group->file = frame->file;
        group->function = frame->function;
        group->line = frame->line;
    }
    if (group)
        group->phase = allocation->phase;
    return group;
}

static const struct stack_names *known_stack(struct vt_grouper *grouper, uint32_t stack_id)
{
    struct stack_names *names = names_of(grouper, stack_id);

    if (!names->stack_known)
        know_stack(grouper, stack_id, names);
    return names;
}

/* A stack of backward shows the node; where the forward operator is known, that is what tells one node from
 * another of its class. */
static struct vt_group *group_by_stack(struct vt_grouper *grouper, struct table *table,
                                       const struct vt_allocation *allocation)
{
    const struct stack_names *names = known_stack(grouper, allocation->stack_id), *forward;
    const char *name = names->stack_name ? names->stack_name : "";
    char joined[NAME_BYTES * 4];
    uint64_t hash = names->stack_hash;
    struct vt_group *group;

    if (allocation->forward_stack_id && allocation->forward_stack_id != allocation->stack_id) {
        forward = known_stack(grouper, allocation->forward_stack_id);
        snprintf(joined, sizeof joined, "%s, backward of %s", name,
                 forward->stack_name ? forward->stack_name : "");
        hash = hash_bytes(&forward->stack_hash, sizeof hash, hash);
        name = forward->stack_name && forward->stack_name[0] ? joined : name;
    }
    group = group_of(table, hash, name);
    if (group && !group->forward_stack_id)
        group->forward_stack_id = allocation->forward_stack_id;
    return group;
}

static bool has_python(const struct vt_grouper *grouper, uint32_t stack_id)
{
    return stack_id < grouper->trace->stack_count && grouper->trace->stacks[stack_id].python_count;
}

/* What serves all modules is no module's, even if one was the first to need it. */
static const char *module_of(const struct vt_allocation *allocation)
{
    return allocation->category == VT_CATEGORY_WORKSPACE || allocation->category == VT_CATEGORY_COMMUNICATION
               ? NULL
               : allocation->module;
}

bool vt_belongs_to_no_module(unsigned category)
{
    return category == VT_CATEGORY_PARAMETER || category == VT_CATEGORY_BUFFER ||
           category == VT_CATEGORY_GRADIENT || category == VT_CATEGORY_OPTIMIZER_STATE ||
           category == VT_CATEGORY_WORKSPACE || category == VT_CATEGORY_COMMUNICATION;
}

static struct vt_group *group_by_module(struct vt_grouper *grouper, struct table *table,
                                        const struct vt_allocation *allocation)
{
    const char *name = module_of(allocation);
    struct vt_group *group;

    name = name ? name : "";
    group = group_of(table, hash_bytes(name, strlen(name), HASH_START), name);
    if (group && !name[0] && !vt_belongs_to_no_module(allocation->category) &&
        has_python(grouper, telling_stack(allocation)))
        group->outside_bytes += allocation->bytes;
    return group;
}

static struct vt_group *group_for(struct vt_grouper *grouper, struct table *table, enum vt_by by,
                                  const struct vt_allocation *allocation)
{
    const char *name = NULL;

    switch (by) {
    case VT_BY_LINE:
        return group_by_line(grouper, table, allocation);
    case VT_BY_STACK:
        return group_by_stack(grouper, table, allocation);
    case VT_BY_CATEGORY:
        name = vt_category_name(allocation->category);
        break;
    case VT_BY_MODULE:
        return group_by_module(grouper, table, allocation);
    case VT_BY_OWNER:
        name = allocation->owner;
        break;
    case VT_BY_OP:
        name = vt_operator_of(grouper->attribution, allocation->stack_id);
        break;
    default:
        break;
    }
    name = name ? name : "";
    return group_of(table, hash_bytes(name, strlen(name), HASH_START), name);
}

static int compare_groups(const void *left, const void *right)
{
    const struct vt_group *a = left, *b = right;

    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

static bool is_alive(const struct vt_allocation *allocation, int device_index, uint32_t event_index)
{
    return allocation->device_index == device_index && allocation->alloc_event <= event_index &&
           (allocation->free_event == VT_NEVER || allocation->free_event > event_index);
}

/* The blocks in segments and pools count, and their rest is the cache; a context is nobody's. */
static bool is_grouped(const struct vt_allocation *allocation)
{
    return allocation->kind != VT_ALLOCATION_SEGMENT && allocation->kind != VT_ALLOCATION_POOL &&
           allocation->kind != VT_ALLOCATION_CONTEXT && allocation->kind != VT_ALLOCATION_HOST;
}

static int make_groups(struct vt_grouper *grouper, int device_index, enum vt_by by,
                       struct vt_instant *instant)
{
    const struct vt_replay *replay = grouper->attribution->replay;
    struct table table = {.groups = &instant->groups[by]};
    int result = 0;

    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        struct vt_group *group;

        if (allocation->alloc_event > instant->event_index)
            break;
        if (!is_alive(allocation, device_index, instant->event_index) || !is_grouped(allocation))
            continue;
        group = group_for(grouper, &table, by, allocation);
        if (!group) {
            result = -ENOMEM;
            break;
        }
        if (!group->stack_id)
            group->stack_id = allocation->stack_id;
        group->bytes += allocation->bytes;
        group->blocks++;
        group->categories[allocation->category < VT_CATEGORY_COUNT ? allocation->category
                                                                   : VT_CATEGORY_UNKNOWN] +=
            allocation->bytes;
    }
    free(table.slots);
    free(table.hashes);
    if (!result && instant->groups[by].count)
        qsort(instant->groups[by].items, instant->groups[by].count, sizeof *instant->groups[by].items,
              compare_groups);
    return result;
}

static void sum_evidence(const struct vt_replay *replay, int device_index, struct vt_instant *instant)
{
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];

        if (allocation->alloc_event > instant->event_index)
            break;
        if (!is_alive(allocation, device_index, instant->event_index))
            continue;
        if (allocation->kind <= VT_ALLOCATION_HOST)
            instant->kinds[allocation->kind] += allocation->bytes;
        if (is_grouped(allocation) && allocation->evidence < VT_EVIDENCE_COUNT)
            instant->evidence[allocation->evidence] += allocation->bytes;
    }
}

int vt_group_instant(struct vt_grouper *grouper, int device_index, unsigned groups,
                     struct vt_instant *instant)
{
    int result = 0;

    sum_evidence(grouper->attribution->replay, device_index, instant);
    for (int by = 0; !result && by < VT_BY_COUNT; by++)
        if (groups & 1u << by)
            result = make_groups(grouper, device_index, (enum vt_by)by, instant);
    return result;
}

int vt_grouper_make(const struct vt_attribution *attribution, struct vt_grouper **made)
{
    struct vt_grouper *grouper = calloc(1, sizeof *grouper);

    *made = grouper;
    if (!grouper)
        return -ENOMEM;
    grouper->attribution = attribution;
    grouper->trace = attribution->trace;
    grouper->names = calloc(grouper->trace->stack_count + 1, sizeof *grouper->names);
    return grouper->names ? 0 : -ENOMEM;
}

void vt_grouper_free(struct vt_grouper *grouper)
{
    if (!grouper)
        return;
    for (size_t i = 0; grouper->names && i <= grouper->trace->stack_count; i++)
        free(grouper->names[i].stack_name);
    free(grouper->names);
    free(grouper);
}

void vt_groups_free(struct vt_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++)
        free(groups->items[i].name);
    free(groups->items);
    *groups = (struct vt_groups){0};
}
