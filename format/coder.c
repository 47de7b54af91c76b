#include "format/coder.h"

#define STEP(n) (uint16_t)(65536 * 2 / (2 * (n) + 3))
#define STEPS_5(n) STEP(n), STEP(n + 1), STEP(n + 2), STEP(n + 3), STEP(n + 4)
#define STEPS_20(n) STEPS_5(n), STEPS_5(n + 5), STEPS_5(n + 10), STEPS_5(n + 15)
const uint16_t vt_chance_steps[VT_CHANCE_LEARNED + 1] = {STEPS_20(0), STEPS_20(20), STEPS_20(40), STEP(60)};

uint64_t vt_code_number(struct vt_coder *coder, vt_chance *chances, uint64_t value, bool reading)
{
    unsigned length = vt_code_tree(coder, chances, 7, vt_bit_length(value), reading);
    if (length > 64) /* not written by us */
        length = 64;
    return vt_code_tail(coder, length, value, reading);
}
