#include "inspect/collected.h"

#include <stdatomic.h>
#include <string.h>

#include "clock.h"
#include "stacks/python_read.h"

enum { CHECK_EVERY = 256, GENERATIONS = 3 };
#define FLAGS ((uintptr_t)3) /* in the low bits of both links */

typedef void object; /* PyObject */

/* PyGC_Head: before each object that the collector knows, and the head of each of its lists. */
struct link {
    uintptr_t next, previous;
};

/* struct gc_generation */
struct generation {
    struct link head;
    int threshold, count;
};

static const struct vt_python_api *const python = &vt_python_api;
static struct generation *generations; /* GENERATIONS of them */

static struct {
    _Atomic bool is_on;
    int threshold, count; /* as they were */
} pause;

static struct link *follow(uintptr_t link)
{
    return (struct link *)(link & ~FLAGS);
}

static bool is_circle(struct generation *generation)
{
    const uintptr_t head = (uintptr_t)&generation->head;
    return vt_is_plausible(follow(generation->head.next)) &&
           vt_is_plausible(follow(generation->head.previous)) &&
           (follow(generation->head.next)->previous & ~FLAGS) == head &&
           (follow(generation->head.previous)->next & ~FLAGS) == head && generation->threshold >= 0;
}

/* A list that was just made is the youngest object: the head follows it. */
bool vt_collected_find(void)
{
    object *youngest = python->PyList_New(0);
    if (!youngest) {
        python->PyErr_Clear();
        return false;
    }
    const struct link *own = (const struct link *)youngest - 1;
    struct generation *candidate = (struct generation *)(void *)follow(own->next);
    bool found = vt_is_plausible(candidate) && (candidate->head.previous & ~FLAGS) == (uintptr_t)own;
    for (int i = 0; found && i < GENERATIONS; i++)
        found = is_circle(&candidate[i]);
    python->Py_DecRef(youngest);
    generations = found ? candidate : NULL;
    return found;
}

/* ---- a pause ---- */

/* Not by gc.disable: meanwhile a thread of the host may call that, or gc.enable. */
void vt_collected_pause(void)
{
    pause.threshold = generations[0].threshold;
    pause.count = generations[0].count;
    atomic_store(&pause.is_on, true);
    __atomic_store_n(&generations[0].threshold, 0, __ATOMIC_SEQ_CST);
}

static void give_threshold_back(void)
{
    if (generations[0].threshold == 0) /* else a thread of the host has set one */
        __atomic_store_n(&generations[0].threshold, pause.threshold, __ATOMIC_SEQ_CST);
    atomic_store(&pause.is_on,
                 false); /* last: a fork between the two would leave the child's collector off */
}

void vt_collected_resume(void)
{
    give_threshold_back();
    generations[0].count = pause.count; /* as if nothing had been made */
}

void vt_collected_in_child(void)
{
    if (atomic_load(&pause.is_on))
        give_threshold_back();
}

/* ---- a search ---- */

static const char *type_of(object *any)
{
    return vt_pointer_at(any, vt_python_known()->layout->object_type);
}

struct search {
    const struct vt_collected_search *wanted;
    object *holder;
    bool failed;
};

/* Of a visit; all but DONE end the search. */
enum outcome { DONE, LATE, FAILED };
typedef enum outcome visit(struct search *search, object *found);

int vt_collected_visit_referents(object *any, vt_collected_visit visit, void *context)
{
    int (*traverse)(object *, vt_collected_visit *, void *);
    if (!python->PyObject_IS_GC(any))
        return 0;
    memcpy(&traverse, type_of(any) + vt_python_known()->layout->type_traverse, sizeof traverse);
    return traverse ? traverse(any, visit, context) : 0;
}

static bool has_id(object *set, object *any)
{
    object *id = python->PyLong_FromVoidPtr(any);
    bool found = id && python->PySet_Contains(set, id) == 1;
    vt_python_drop(id);
    return found;
}

static bool is_unreached(const struct vt_collected_search *wanted, object *any)
{
    return type_of(any) == wanted->class && !has_id(wanted->seen, any);
}

static enum outcome note_unreached(struct search *search, object *any)
{
    const struct vt_collected_search *wanted = search->wanted;
    return is_unreached(wanted, any) && python->PyList_Append(wanted->unreached, any) ? FAILED : DONE;
}

static int note_held(object *held, void *context)
{
    struct search *search = context;
    const struct vt_collected_search *wanted = search->wanted;
    if (is_unreached(wanted, held))
        search->failed = search->failed || python->PyList_Append(wanted->holders, held) ||
                         python->PyList_Append(wanted->holders, search->holder);
    return 0;
}

static enum outcome note_holder(struct search *search, object *holder)
{
    const struct vt_collected_search *wanted = search->wanted;
    if (holder == wanted->unreached || holder == wanted->holders ||
        has_id(wanted->plain, (object *)type_of(holder)))
        return DONE;
    search->holder = holder;
    vt_collected_visit_referents(holder, note_held, search);
    return search->failed ? FAILED : DONE;
}

/* The visits make no object that the collector knows, so its lists stay as they are. */
static enum outcome visit_all(struct search *search, visit visit)
{
    int visited = 0;
    for (int i = 0; i < search->wanted->generations && i < GENERATIONS; i++) {
        const struct link *head = &generations[i].head;
        for (struct link *link = follow(head->next); link != head; link = follow(link->next)) {
            enum outcome outcome = visit(search, link + 1);
            if (outcome == DONE && ++visited % CHECK_EVERY == 0 &&
                vt_clock_ns(CLOCK_MONOTONIC) > search->wanted->deadline_ns)
                outcome = LATE;
            if (outcome != DONE)
                return outcome;
        }
    }
    return DONE;
}

int vt_collected_find_unreached(const struct vt_collected_search *wanted)
{
    struct search search = {.wanted = wanted};
    enum outcome outcome = visit_all(&search, note_unreached);
    if (outcome == DONE && python->PyList_Size(wanted->unreached))
        outcome = visit_all(&search, note_holder);
    return outcome == FAILED ? -1 : outcome == DONE;
}
