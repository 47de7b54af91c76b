/* Amounts on the command line: "20GiB", "512", "1.5 MB", "2%", "64KiB/step". */
#ifndef VT_AMOUNT_H
#define VT_AMOUNT_H

#include <stdbool.h>
#include <stdint.h>

enum vt_amount_form { VT_AMOUNT_SIZE = 0, VT_AMOUNT_PERCENT = 1, VT_AMOUNT_PER_STEP = 2 }; /* bits */

struct vt_amount {
    bool given;
    uint8_t form;   /* of enum vt_amount_form: what it is */
    uint64_t bytes; /* of a size, and of one per step */
    double part;    /* of a percentage: 0.02 */
};

/* `forms`: the forms allowed besides a size. False if `text` is none of them. K, M, G and T, with or without iB,
 * are powers of 1024; kB, MB, GB, TB of 1000. */
bool vt_amount_parse(const char *text, unsigned forms, struct vt_amount *amount);

/* As bytes; a percentage is of `whole`. */
uint64_t vt_amount_bytes(const struct vt_amount *amount, uint64_t whole);

#endif
