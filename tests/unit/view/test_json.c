/* JSON is whole or not printed at all; and the check of UTF-8, against the C library's. */
#include <criterion/criterion.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "fake.h"
#include "base/utf8.h"
#include "view/json/json.h"

static long allocations, failing, held; /* of cJSON: how many, which one fails, how many are not freed */

static void *count_allocation(size_t bytes)
{
    void *memory = allocations++ == failing ? NULL : malloc(bytes);

    held += memory != NULL;
    return memory;
}

static void count_free(void *memory)
{
    held -= memory != NULL;
    free(memory);
}

static struct fake *training(void)
{
    struct fake *fake = fake_make(8);
    uint32_t line = fake_stack(fake, "/home/me/work/model.py", 141, "MLP.forward");

    fake->devices[0] =
        (struct vt_trace_device){.index = 0, .name = "NVIDIA H200", .total_bytes = (uint64_t)143 << 30};
    fake->trace.device_count = 1;
    fake->strings[1] = "warm";
    fake_alloc(fake, 0.1, VT_ALLOCATION_SEGMENT, 0, 600 * MIB);
    fake_label(fake, fake_alloc(fake, 0.2, VT_ALLOCATION_BLOCK, VT_CATEGORY_PARAMETER, 64 * MIB))->module =
        "model";
    fake->events[fake_event(fake, 0.3, VT_EVENT_MARK, 0, 0)].detail = 1;
    fake_span(fake, 1, VT_PHASE_FORWARD);
    fake_alloc(fake, 1, VT_ALLOCATION_BLOCK, VT_CATEGORY_ACTIVATION, 300 * MIB)->stack_id = line;
    fake->events[fake_event(fake, 2, VT_EVENT_OOM, VT_LAYER_FRAMEWORK, 2048 * MIB)].stack_id = line;
    return fake;
}

static int write_json(const struct vt_report *report, const struct vt_document *document, char **text)
{
    const struct vt_json_style style = {.places = report->places};
    size_t bytes;
    FILE *stream = open_memstream(text, &bytes);
    int result = vt_json_write(document, report, &style, stream);

    fclose(stream);
    return result;
}

Test(json, is_whole_or_not_printed)
{
    const struct vt_document *documents[] = {&vt_report_document, &vt_oom_document, &vt_frag_document,
                                             &vt_leaks_document, &vt_steps_document};
    const struct vt_report_options options = {
        .device_index = -1, .at = "end", .explain = "activation", .blocks = true};
    cJSON_Hooks hooks = {count_allocation, count_free};
    struct fake *fake = training();
    struct vt_report *report = fake_report(fake, &options, ~0u);
    char *text;

    cJSON_InitHooks(&hooks);
    for (size_t v = 0; v < sizeof documents / sizeof *documents; v++) {
        long needed;

        allocations = 0;
        failing = -1;
        cr_assert_eq(write_json(report, documents[v], &text), 0);
        needed = allocations;
        cr_assert_gt(needed, 20);
        free(text);
        for (long n = 0; n < needed; n += n < 300 ? 1 : 37) {
            allocations = 0;
            failing = n;
            cr_assert_eq(write_json(report, documents[v], &text), -ENOMEM, "document %zu, %ld of %ld", v, n,
                         needed);
            cr_assert_eq(held, 0, "document %zu, %ld of %ld: %ld not freed", v, n, needed, held);
            cr_assert_str_eq(text, "", "document %zu, %ld of %ld: %s", v, n, needed, text);
            free(text);
        }
    }
    cJSON_InitHooks(NULL);
    fake_free(fake);
}

Test(utf8, is_that_of_the_c_library)
{
    static const unsigned char bytes[] = {0x01, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xf0, 0xff};
    const size_t count = sizeof bytes;

    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        cr_skip_test("no UTF-8 here");
    for (size_t i = 0; i < 255 * count * count * count; i++) {
        char text[5] = {(char)(i % 255 + 1), (char)bytes[i / 255 % count],
                        (char)bytes[i / 255 / count % count], (char)bytes[i / 255 / count / count], '\0'};
        mbstate_t state = {0};
        wchar_t wide = 0;
        size_t left = i % 4 + 1, length = mbrtowc(&wide, text, left, &state);
        uint32_t code = 0;

        if (length > 4 || wide > 0x10ffff) { /* no character, or not the whole of one, or beyond Unicode */
            length = 0;
            wide = VT_REPLACEMENT;
        }
        cr_assert_eq(vt_utf8_read(text, left, &code), length, "%02x %02x %02x %02x", (unsigned char)text[0],
                     (unsigned char)text[1], (unsigned char)text[2], (unsigned char)text[3]);
        cr_assert_eq(code, (uint32_t)wide);
    }
}
