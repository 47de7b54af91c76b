#include "inspect/gc_lists.h"

#include <stdatomic.h>
#include <string.h>

#include "clock.h"
#include "hash.h"
#include "memory.h"
#include "record/record.h"
#include "stacks/python_read.h"

enum { CHECK_EVERY = 256, GENERATIONS = 3 };
#define FLAGS ((uintptr_t)3) /* low bits of both links */

typedef void object; /* PyObject */

/* PyGC_Head: in front of each object that the collector tracks, and the head of each of its lists. */
struct link {
    uintptr_t next, previous;
};

/* struct gc_generation */
struct generation {
    struct link head;
    int threshold, count;
};

static const struct vt_python_api *const python = &vt_python_api;
static struct generation *generations; /* an array of GENERATIONS */

static struct {
    _Atomic bool is_on;
    int threshold, count; /* before the pause */
} paused;

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

static bool are_circles(struct generation *candidates)
{
    for (int i = 0; i < GENERATIONS; i++)
        if (!is_circle(&candidates[i]))
            return false;
    return true;
}

/* A new list is the youngest object, so the head of the youngest generation follows it. */
bool vt_gc_find(void)
{
    if (generations && are_circles(generations))
        return true;
    object *youngest = python->PyList_New(0);
    if (!youngest) {
        python->PyErr_Clear();
        return false;
    }
    const struct link *own = (const struct link *)youngest - 1;
    struct generation *candidate = (struct generation *)(void *)follow(own->next);
    bool found = vt_is_plausible(candidate) && (candidate->head.previous & ~FLAGS) == (uintptr_t)own &&
                 are_circles(candidate);
    python->Py_DecRef(youngest);
    generations = found ? candidate : NULL;
    const struct vt_python_layout *layout = vt_python_known()->layout;
    if (found && vt_pointer_at(candidate, layout->collector_first) == (const char *)candidate)
        atomic_store(&vt_collecting,
                     (const int *)(const void *)((const char *)candidate + layout->collector_runs));
    return found;
}

void vt_gc_end(void)
{
    atomic_store(&vt_collecting, NULL);
}

/* From 3.15 on a generation has a ring of statistics, followed by the index of the newest item. */
uint64_t vt_gc_runs(unsigned generation)
{
    enum { YOUNG_ITEMS = 11, OLD_ITEMS = 3, INDEX_BYTES = 8 };
    const struct vt_python_layout *layout = vt_python_known()->layout;
    const size_t bytes = layout->collector_statistics_bytes;
    if (!atomic_load(&vt_collecting) || generation >= GENERATIONS)
        return 0;
    const char *statistics = (const char *)generations + layout->collector_statistics + generation * bytes;
    if (layout->collector_rings) {
        const char *rings = vt_pointer_at(generations, layout->collector_statistics);
        const size_t items = generation ? OLD_ITEMS : YOUNG_ITEMS;
        if (!vt_is_plausible(rings))
            return 0;
        if (generation)
            rings += YOUNG_ITEMS * bytes + INDEX_BYTES + (generation - 1) * (OLD_ITEMS * bytes + INDEX_BYTES);
        const unsigned char newest = (unsigned char)rings[items * bytes];
        if (newest >= items)
            return 0;
        statistics = rings + newest * bytes;
    }
    return vt_word_at(statistics, layout->collector_collections);
}

/* ---- the interpreter's free lists ---- */

/* An object taken from a free list does not count towards the next collection, and one returned there is not
 * subtracted. So fuller free lists after an inspection would delay the host's next collection. They are
 * therefore emptied before it, and get the same objects back in the same order after it. */
enum { KEPT_MAXIMUM = 1 << 16, TUPLE_SIZES = 20 };

static struct {
    object **objects; /* an array of KEPT_MAXIMUM; NULL = no memory, the lists are left alone */
    size_t count;
} kept;

/* Free lists. 1 to TUPLE_SIZES: tuples with that many items. */
enum { LISTS = TUPLE_SIZES + 1, DICTS, SLICES, FREE_LISTS };

/* Frees the object without putting it into a free list. It holds nothing but None and constants that are
 * never freed. */
static void delete_object(object *any, int free_list)
{
    if (free_list == SLICES)
        for (int i = 0; i < 3; i++)
            python->Py_DecRef(python->none);
    python->PyObject_GC_UnTrack(any);
    python->PyObject_GC_Del(any);
}

static object *make_of(int free_list)
{
    switch (free_list) {
    case LISTS:
        return python->PyList_New(0);
    case DICTS:
        return python->PyDict_New();
    case SLICES:
        return python->PySlice_New(NULL, NULL, NULL);
    default:
        return python->PyTuple_New(free_list);
    }
}

/* Takes an object from the free list; NULL if that is empty. Tuples are untracked: another thread's
 * gc.get_objects must not find one that has no items yet. */
static object *take_free(int free_list)
{
    const int count = generations[0].count;
    object *made = make_of(free_list);
    if (!made) {
        python->PyErr_Clear();
        return NULL;
    }
    if (free_list <= TUPLE_SIZES)
        python->PyObject_GC_UnTrack(made);
    if (generations[0].count == count)
        return made;
    delete_object(made, free_list);
    return NULL;
}

static void empty_free_lists(void)
{
    if (!kept.objects)
        kept.objects = vt_memory_grow(NULL, 0, KEPT_MAXIMUM * sizeof *kept.objects);
    kept.count = 0;
    for (int list = 1; kept.objects && list < FREE_LISTS; list++)
        for (object *free; kept.count < KEPT_MAXIMUM && (free = take_free(list));)
            kept.objects[kept.count++] = free;
}

static void fill_free_lists(void)
{
    for (int list = 1; kept.objects && list < FREE_LISTS; list++)
        for (object *free; (free = take_free(list));)
            delete_object(free, list);
    while (kept.count)
        python->Py_DecRef(kept.objects[--kept.count]);
}

/* ---- a pause ---- */

/* Not with gc.disable: a thread of the host may call that, or gc.enable, in between. */
void vt_gc_pause(void)
{
    paused.threshold = generations[0].threshold;
    paused.count = generations[0].count;
    atomic_store(&paused.is_on, true);
    __atomic_store_n(&generations[0].threshold, 0, __ATOMIC_SEQ_CST);
    empty_free_lists();
}

static void give_threshold_back(void)
{
    if (generations[0].threshold == 0) /* otherwise a thread of the host has set one */
        __atomic_store_n(&generations[0].threshold, paused.threshold, __ATOMIC_SEQ_CST);
    atomic_store(&paused.is_on, false); /* last: a fork in between would leave the child's collector off */
}

void vt_gc_resume(void)
{
    fill_free_lists();
    give_threshold_back();
    generations[0].count = paused.count; /* as if no objects had been made */
}

void vt_gc_in_child(void)
{
    if (atomic_load(&paused.is_on))
        give_threshold_back();
}

/* ---- a search ---- */

static const char *type_of(object *any)
{
    return vt_pointer_at(any, vt_python_known()->layout->object_type);
}

enum { CLASSES = 256 };
struct search {
    const struct vt_gc_search *wanted;
    struct targets *targets; /* the objects whose holders are searched */
    struct {
        const object *class;
        bool is_plain;
    } classes[CLASSES]; /* classes of visited objects, by address */
    object *holder;
    bool failed;
};

/* A set of objects by address, open addressing. When it is full, further objects are left out. */
enum { TARGETS = 4096, TARGETS_MAXIMUM = TARGETS / 2 };
struct targets {
    const object *at[TARGETS];
    size_t count;
};

static const object **slot_of(struct targets *targets, const object *any)
{
    size_t i = vt_hash((uintptr_t)any) >> 32 & (TARGETS - 1);
    while (targets->at[i] && targets->at[i] != any)
        i = (i + 1) & (TARGETS - 1);
    return &targets->at[i];
}

/* Result of a visit and of a search (gc_lists.h); anything but DONE ends it. */
enum outcome { FAILED = -1, LATE = 0, DONE = 1 };
typedef enum outcome visit(struct search *search, object *found);

int vt_gc_visit_referents(object *any, vt_gc_visit visit, void *context)
{
    int (*traverse)(object *, vt_gc_visit *, void *);
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

static bool is_unreached(const struct vt_gc_search *wanted, object *any)
{
    const object *class = type_of(any);
    for (intptr_t i = 0; i < python->PyTuple_Size(wanted->classes); i++)
        if (class == python->PyTuple_GetItem(wanted->classes, i))
            return !has_id(wanted->seen, any);
    return false;
}

static enum outcome note_unreached(struct search *search, object *any)
{
    const struct vt_gc_search *wanted = search->wanted;
    return is_unreached(wanted, any) && python->PyList_Append(wanted->unreached, any) ? FAILED : DONE;
}

static int note_held(object *held, void *context)
{
    struct search *search = context;
    const struct vt_gc_search *wanted = search->wanted;
    if (*slot_of(search->targets, held))
        search->failed = search->failed || python->PyList_Append(wanted->holders, held) ||
                         python->PyList_Append(wanted->holders, search->holder);
    return 0;
}

static bool is_plain(struct search *search, object *class)
{
    size_t i = vt_hash((uintptr_t) class) >> 32 & (CLASSES - 1);
    if (search->classes[i].class != class) {
        search->classes[i].class = class;
        search->classes[i].is_plain = has_id(search->wanted->plain, class);
    }
    return search->classes[i].is_plain;
}

static enum outcome note_holder(struct search *search, object *holder)
{
    const struct vt_gc_search *wanted = search->wanted;
    if (holder == wanted->unreached || holder == wanted->holders ||
        is_plain(search, (object *)type_of(holder)))
        return DONE;
    search->holder = holder;
    vt_gc_visit_referents(holder, note_held, search);
    return search->failed ? FAILED : DONE;
}

/* Visits make no tracked objects, so the lists do not change. */
static enum outcome visit_all(struct search *search, visit visit)
{
    int visited = 0;
    for (int i = 0; i < search->wanted->generations && i < GENERATIONS; i++) {
        const struct link *head = &generations[i].head;
        for (struct link *link = follow(head->next); link != head; link = follow(link->next)) {
            enum outcome outcome = visit(search, link + 1);
            if (outcome == DONE && ++visited % CHECK_EVERY == 0 &&
                vt_clock_ns(CLOCK_THREAD_CPUTIME_ID) > search->wanted->deadline_ns)
                outcome = LATE;
            if (outcome != DONE)
                return outcome;
        }
    }
    return DONE;
}

int vt_gc_find_unreached(const struct vt_gc_search *wanted)
{
    struct search search = {.wanted = wanted};
    return visit_all(&search, note_unreached);
}

int vt_gc_find_holders(const struct vt_gc_search *wanted)
{
    struct targets targets = {.count = 0};
    struct search search = {.wanted = wanted, .targets = &targets};
    for (intptr_t i = 0; i < python->PyList_Size(wanted->unreached) && targets.count < TARGETS_MAXIMUM; i++) {
        const object *wanted_one = python->PyList_GetItem(wanted->unreached, i);
        const object **slot = slot_of(&targets, wanted_one);
        targets.count += !*slot;
        *slot = wanted_one;
    }
    return visit_all(&search, note_holder);
}
