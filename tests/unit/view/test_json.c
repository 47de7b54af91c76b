/* JSON is whole or not printed at all; and the check of UTF-8, against the C library's. */
#include <criterion/criterion.h>
#include <cjson/cJSON.h>
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

#include "fake.h"
#include "base/allocate.h"
#include "base/utf8.h"
#include "view/json/json.h"

static long allocations, failing; /* of cJSON: how many, which one fails */

static void *count_allocation(size_t bytes)
{
    return allocations++ == failing ? NULL : malloc(bytes);
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

/* In a process of its own, in which an allocation fails: its exit status. */
static int write_json(const struct vt_report *report, const struct vt_document *document, long fails,
                      int file)
{
    const struct vt_json_style style = {.places = report->places};
    pid_t child = fork();
    int status;

    if (!child) {
        FILE *stream = fdopen(file, "w");

        setvbuf(stream, NULL, _IONBF, 0);
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        failing = fails;
        vt_json_write(document, report, &style, stream);
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(json, is_whole_or_not_printed)
{
    const struct vt_document *documents[] = {&vt_report_document, &vt_oom_document, &vt_frag_document,
                                             &vt_leaks_document, &vt_steps_document};
    const struct vt_report_options options = {
        .device_index = -1, .at = "end", .explain = "activation", .blocks = true};
    cJSON_Hooks hooks = {count_allocation, free};
    struct fake *fake = training();
    struct vt_report *report = fake_report(fake, &options, ~0u);
    int file = memfd_create("json", 0);

    cJSON_InitHooks(&hooks);
    for (size_t v = 0; v < sizeof documents / sizeof *documents; v++) {
        long n = 0;
        int status;

        while ((status = write_json(report, documents[v], n, file)) == VT_EXIT_OUT_OF_MEMORY) {
            cr_assert_eq(lseek(file, 0, SEEK_END), 0, "document %zu, allocation %ld", v, n);
            n += n < 300 ? 1 : 37;
        }
        cr_assert_eq(status, 0); /* it needs fewer */
        cr_assert_gt(n, 20);
        cr_assert_gt(lseek(file, 0, SEEK_END), 500);
        cr_assert_eq(ftruncate(file, 0), 0);
    }
    cJSON_InitHooks(NULL);
    close(file);
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
