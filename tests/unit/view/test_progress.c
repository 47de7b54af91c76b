/* Progress as a line of text, for given times. */
#include <criterion/criterion.h>
#include <string.h>

#include "view/text/print.h"
#include "view/text/progress.h"

#define MS UINT64_C(1000000)

enum { READING, REPLAYING, REPORTING };
static const struct vt_progress halves[] = {[READING] = {VT_WORK_READ, 512 << 20, 1024 << 20},
                                            [REPLAYING] = {VT_WORK_REPLAY, 3000000, 6000000},
                                            [REPORTING] = {VT_WORK_REPORT, 1, 1}};

Test(progress, says_how_far_how_fast_and_how_long)
{
    char text[VT_PROGRESS_BYTES];
    double before = 0;

    for (size_t i = 0; i < 3; i++) {
        double part = vt_progress_part(&halves[i]);

        cr_assert(part > before && part <= 1);
        before = part;
    }
    cr_assert_float_eq(before, 1, 1e-9);
    /* reading is 20 of 100: 10 % after 2 s, so 18 s are left */
    vt_progress_text(&halves[READING], 2000 * MS, 2000 * MS, 100, false, text);
    cr_expect_str_eq(text, "reading     ##...................... 10 %, 256 MiB/s, 18 s left");
    vt_progress_text(&halves[REPLAYING], 7000 * MS, 2000 * MS, 100, true, text);
    cr_expect_str_eq(text, "replaying   ████████················ 35 %, 1.5 M events/s, 13 s left");
    vt_progress_text(&halves[REPLAYING], 700000 * MS, 2000 * MS, 100, false, text);
    cr_expect_str_eq(text, "replaying   ########................ 35 %, 1.5 M events/s, 22 min left");
    vt_progress_text(&halves[REPORTING], 7000 * MS, 0, 100, false, text);
    cr_expect_str_eq(text, "reporting   ######################## 100 %, 0 s left");
}

Test(progress, claims_nothing_too_soon)
{
    const struct vt_progress none = {VT_WORK_READ, 0, 0};
    char text[VT_PROGRESS_BYTES];

    vt_progress_text(&halves[READING], 10 * MS, 10 * MS, 100, false, text);
    cr_expect_str_eq(text, "reading     ##...................... 10 %");
    vt_progress_text(&none, 3000 * MS, 3000 * MS, 100, false, text);
    cr_expect_str_eq(text, "reading     ........................ 0 %");
}

Test(progress, fits_its_columns)
{
    char text[VT_PROGRESS_BYTES];

    for (int columns = 1; columns < 120; columns++) {
        size_t bytes = vt_progress_text(&halves[REPLAYING], 7000 * MS, 2000 * MS, columns, true, text);

        cr_assert_eq(bytes, strlen(text));
        cr_expect(vt_text_columns(text) < columns || !bytes, "%d columns: %s", columns, text);
        cr_expect(columns < 20 || strstr(text, "35 %"), "%d columns: %s", columns, text);
    }
}
