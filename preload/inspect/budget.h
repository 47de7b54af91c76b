/* Time that inspections may take from the program. Pure functions. */
#ifndef VT_BUDGET_H
#define VT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define VT_SHORT_LIFE_NS UINT64_C(10000000000)

/* All inspections together may take 1/PART_OF_LIFE of the process's life. A short life is lent some time:
 * 1/PART_OF_SHORT_LIFE, at most LENT_NS. At its exit, where nothing trains, it is lent twice that part if
 * there is something to find (`has_grown`), at most LONGEST_NS. No single census takes longer than
 * LONGEST_NS, and no inspection at exit, however long the life. A few early ones may take that long in any
 * life (inspect.c, PROMISED). */
enum {
    VT_BUDGET_PART_OF_LIFE = 100,
    VT_BUDGET_PART_OF_SHORT_LIFE = 20,
    VT_BUDGET_LENT_NS = 100000000,
    VT_BUDGET_LONGEST_NS = 500000000,
    VT_BUDGET_PART_OF_WAIT = 4
};

/* Nanoseconds for the next inspection. */
struct vt_budget {
    uint64_t all_ns, census_ns; /* for all of it; at most for its census */
};

static inline uint64_t vt_budget_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What an inspection costs: its CPU time, since how long the program waits for it depends on what else runs.
 * But where the inspection waits for long, for the GIL, the program waits too. */
static inline uint64_t vt_budget_cost(uint64_t processor_ns, uint64_t waited_ns)
{
    const uint64_t part = waited_ns / VT_BUDGET_PART_OF_WAIT;
    return processor_ns > part ? processor_ns : part;
}

/* life_ns: how long the process has run; spent_ns: what inspections have taken of that. */
static inline struct vt_budget vt_budget(uint64_t life_ns, uint64_t spent_ns, bool at_exit, bool has_grown)
{
    uint64_t allowed = life_ns / VT_BUDGET_PART_OF_LIFE;
    if (life_ns < VT_SHORT_LIFE_NS)
        allowed = has_grown
                      ? vt_budget_least(life_ns / VT_BUDGET_PART_OF_SHORT_LIFE * 2, VT_BUDGET_LONGEST_NS)
                      : vt_budget_least(life_ns / VT_BUDGET_PART_OF_SHORT_LIFE, VT_BUDGET_LENT_NS);
    uint64_t left = allowed > spent_ns ? allowed - spent_ns : 0,
             census = vt_budget_least(left, VT_BUDGET_LONGEST_NS);
    return (struct vt_budget){.all_ns = at_exit ? census : left, .census_ns = census};
}

#endif
