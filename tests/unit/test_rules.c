/* Rules files that are wrong. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attribute/rules.h"
#include "trace_builder.h"

Test(rules, that_are_wrong_are_told_with_their_line)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"rule a\n  workspace strong\n  flavour x\n", ":3: 'flavour' is not a condition"},
        {"rule a\n  wrkspace strong\n", ":2: 'wrkspace' is not a category"},
        {"rule a\n  workspace sure\n", ":2: the evidence must follow"},
        {"rule a\n  workspace exact\n", ":2: the evidence must follow"},
        {"rule a\n  workspace weak\n", ":1: 'a' has no condition"},
        {"rule a\n", ":1: rule 'a' has no category"},
        {"  native x\n", ":1: a condition before"},
        {"rool a\n", ":1: 'rool': expected"},
        {"rule a b\n", "needs one name"},
        {"trait a\n  life freed\n", ":2: 'life' is not about a stack"},
        {"rule a\n  workspace strong\n  python x\n", "FILE:FUNCTION"},
        {"rule a\n  workspace strong\n  bytes > 5\n", "'bytes' needs"},
        {"rule a\n  workspace strong\n  bytes >= 5KB\n", "is not a number of bytes"},
        {"rule a\n  workspace strong\n  trait unheard-of\n", "'unheard-of' is not a known trait"},
        {"rule a\n  cached strong\n  native x\n", "is not a category that a rule can give"},
        {"rule a\n  workspace strong\n  native\n", "a pattern is missing"},
        {"trait a\n", "has no condition"},
        {"# x\nrule a\n  workspace strong\n  native x\n  innermost user\nrule b\n",
         ":2: rule 'a' has only the signal stack"},
        {"rule a\n  workspace strong\n  native x\n  not trait module\n", "only the signal stack"},
        {"rule a\n  workspace strong\n  native x\n  phase forward\n", "only the signal stack"},
        {"rule a\n  workspace strong\n  life freed\n  not life brief\n", "only the signal life"},
        {"rule a\n  workspace strong\n  native x\n  life persistent no-backward\n", "only the signal stack"},
        {"rule a\n  workspace strong\n  native x\n  not life trained\n", "only the signal stack"},
        {"rule a\n  workspace strong\n  bytes >= 5\n", "no signal"},
        {"code forward\n  native x\n", ":2: 'native' is not about a Python function"},
        {"code unheard-of\n  name x\n", ":1: 'unheard-of' is not a known class"},
    };
    struct builder *builder = builder_new(16);
    struct vt_replay *replay;
    struct vt_attribution *attribution;
    char error[512];
    struct vt_trace *trace = builder_open(builder);
    replay = vt_replay_make(trace);
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

Test(rules, are_strong_with_two_witnesses)
{
    static const char *const texts[] = {
        "rule a\n  workspace strong\n  native x\n  life freed\n",
        "rule a\n  workspace strong\n  phase forward\n  not life outlives-span\n",
        "rule a\n  workspace strong\n  life trained\n  life freed\n",
        "rule a\n  workspace strong\n  native x\n  life grad-mode\n",
        "rule a\n  workspace strong\n  object x\n  kind driver\n",
        "rule a\n  workspace weak\n  native x\n",
    };
    struct vt_rules *rules;
    char error[512];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *path = builder_rules_file(texts[i]);
        cr_expect_eq(vt_rules_load(path, &rules, error, sizeof error), 0, "%s: %s", texts[i], error);
        vt_rules_free(rules);
        unlink(path);
    }
}

Test(rules, of_a_user_add_to_traits_and_code)
{
    struct builder *builder = builder_new(16);
    struct vt_replay *replay;
    struct vt_attribution *attribution;
    char error[512];
    uint32_t forward = builder_code(builder, "/s/model.py", "Net.forward", 1);
    uint32_t other = builder_code(builder, "/s/model.py", "Net.forward.<locals>.compute", 1);
    struct vt_python_frame frames[] = {{.code_id = forward}, {.code_id = other}};
    builder_thread(builder, 77, "worker_3");
    builder_thread(builder, 78, "pt_autograd_0");
    uint32_t worker = builder_stack(builder, 77, NULL, 0, frames, 2);
    uint32_t engine = builder_stack(builder, 78, NULL, 0, frames, 1);
    builder_event(builder, (struct vt_event){.kind = VT_EVENT_MARK, .stack_id = worker});
    builder_event(builder, (struct vt_event){.kind = VT_EVENT_MARK, .stack_id = engine});
    struct vt_trace *trace = builder_open(builder);
    replay = vt_replay_make(trace);
    const char *path = builder_rules_file("code hook-caller\n  name comp*\n  not python *.c:*\n"
                                          "trait foreach\n  thread worker_*\n  not name backward\n");
    for (int own = 0; own < 2; own++) {
        cr_assert_eq(vt_attribute(trace, replay, own ? path : NULL, &attribution, error, sizeof error), 0,
                     "%s", error);
        cr_expect(vt_code_is(attribution, forward, VT_CODE_FORWARD));
        cr_expect_not(vt_code_is(attribution, other, VT_CODE_FORWARD));
        cr_expect_not(vt_code_is(attribution, 1000, VT_CODE_FORWARD));
        cr_expect_eq(vt_code_is(attribution, other, VT_CODE_HOOK_CALLER), own);
        cr_expect_eq(vt_stack_traits_of(attribution, worker)->traits, own ? VT_TRAIT(FOREACH) : 0);
        cr_expect_eq(vt_stack_traits_of(attribution, engine)->traits & VT_TRAIT(ENGINE_THREAD),
                     VT_TRAIT(ENGINE_THREAD));
        cr_expect_eq(vt_stack_traits_of(attribution, 1000)->traits, 0);
        vt_attribution_free(attribution);
    }
    unlink(path);
    vt_replay_free(replay);
    vt_trace_close(trace);
    builder_free(builder);
}
