/* Rules files that are wrong. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attribute/attribute.h"
#include "trace_builder.h"

Test(rules, that_are_wrong_are_told_with_their_line)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"rule a\n  workspace strong\n  flavour x\n", ":3: 'flavour' is no condition"},
        {"rule a\n  wrkspace strong\n", ":2: 'wrkspace' is no category"},
        {"rule a\n  workspace sure\n", ":2: after the category"},
        {"rule a\n  workspace strong\n", "rule"},
        {"rule a\n", "has no category"},
        {"  native x\n", ":1: a condition before"},
        {"rool a\n", ":1: 'rool': expected"},
        {"rule a b\n", "wants one name"},
        {"trait a\n  life freed\n", ":2: 'life' says nothing of a stack"},
        {"rule a\n  workspace strong\n  python x\n", "FILE:FUNCTION"},
        {"rule a\n  workspace strong\n  bytes > 5\n", "'bytes' wants"},
        {"rule a\n  workspace strong\n  bytes >= 5KB\n", "is no number of bytes"},
        {"rule a\n  workspace strong\n  trait unheard-of\n", "'unheard-of' is no trait"},
        {"rule a\n  cached strong\n  native x\n", "is no category that a rule can give"},
        {"rule a\n  workspace strong\n  native\n", "a pattern is missing"},
        {"trait a\n", "has no condition"},
    };
    struct builder *builder = builder_new(16);
    struct vt_replay *replay;
    struct vt_attribution *attribution;
    char error[512];
    struct vt_trace *trace = builder_open(builder);
    cr_assert_eq(vt_replay_make(trace, &replay), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = builder_rules_file(cases[i].text);
        cr_expect_eq(vt_attribute(trace, replay, path, &attribution, error, sizeof error), -EINVAL, "%s",
                     cases[i].text);
        cr_expect(strstr(error, cases[i].says), "%s: %s", cases[i].text, error);
        cr_expect_null(strchr(error, '\n'));
        unlink(path);
    }
    cr_assert_eq(vt_attribute(trace, replay, "/nonexistent", &attribution, error, sizeof error), -ENOENT);
    cr_assert(strstr(error, "/nonexistent"));
    cr_assert_eq(vt_attribute(trace, replay, "/tmp", &attribution, error, sizeof error), -EISDIR);
    vt_replay_free(replay);
    vt_trace_close(trace);
    builder_free(builder);
}
