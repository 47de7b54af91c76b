/* Names of modules, level by level. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/module_names.h"

static void expect_level(const struct vt_module_level *level, const char *text, size_t digits, bool has_mark,
                         bool is_class)
{
    cr_expect(strlen(text) == level->bytes && strncmp(text, level->begin, level->bytes) == 0, "%s, not %.*s",
              text, (int)level->bytes, level->begin);
    cr_expect_eq(level->digits, digits, "%s", text);
    cr_expect_eq(level->has_mark, has_mark, "%s", text);
    cr_expect_eq(level->is_class, is_class, "%s", text);
}

Test(module_names, levels)
{
    const char *name = "model.layers.3 > Block#12 > GPT2Block · gradient";
    struct vt_module_level level = {0};
    cr_assert(vt_module_next(name, &level));
    expect_level(&level, "model", 0, false, false);
    cr_assert(vt_module_next(name, &level));
    expect_level(&level, "layers", 0, false, false);
    cr_expect_not(level.ends_class);
    cr_assert(vt_module_next(name, &level));
    expect_level(&level, "3", 1, false, false);
    cr_expect(level.ends_class);
    cr_assert(vt_module_next(name, &level));
    expect_level(&level, "Block#12", 2, true, true);
    cr_assert(vt_module_next(name, &level));
    expect_level(&level, "GPT2Block", 0, false, true);
    cr_assert_not(vt_module_next(name, &level));
    cr_assert_not(vt_module_next(name, &level));
    cr_expect_eq(vt_module_levels(name), 5);
    cr_expect_eq(vt_module_levels("mlp"), 1);
    cr_expect_eq(vt_module_levels(""), 0);
    level = (struct vt_module_level){0};
    cr_assert(vt_module_next("", &level));
    expect_level(&level, "", 0, false, false);
    cr_assert_not(vt_module_next("", &level));
}

Test(module_names, prefixes)
{
    const char *name = "layers.3 > Dropout#2";
    cr_expect_eq(vt_module_prefix(name, 0), strlen(name));
    cr_expect_eq(vt_module_prefix(name, 1), strlen("layers"));
    cr_expect_eq(vt_module_prefix(name, 2), strlen("layers.3"));
    cr_expect_eq(vt_module_prefix(name, 3), strlen(name));
    cr_expect_eq(vt_module_prefix(name, 9), strlen(name));
    cr_expect_eq(vt_module_prefix("", 1), 0);
    cr_expect(vt_module_is_inside(name, "layers.3"));
    cr_expect(vt_module_is_inside(name, name));
    cr_expect_not(vt_module_is_inside("layers.31", "layers.3"));
    cr_expect_not(vt_module_is_inside("layers", "layers.3"));
    cr_expect_eq(vt_module_common("layers.3.attn", 13, "layers.3.mlp"), strlen("layers.3"));
    cr_expect_eq(vt_module_common("layers.3", 8, "layers.31"), strlen("layers"));
    cr_expect_eq(vt_module_common("layers.3.attn", 8, "layers.3.attn"), strlen("layers.3"));
    cr_expect_eq(vt_module_common("layers", 6, "head"), 0);
    cr_expect_eq(vt_module_common("layers", 6, ""), 0);
}

static void expect_plain(const char *name, const char *expected)
{
    char *plain = vt_module_plain_name(name);
    cr_expect_str_eq(plain, expected);
    free(plain);
}

Test(module_names, without_numbers_of_first_siblings)
{
    expect_plain("Block#1 > Linear#2", "Block > Linear#2");
    expect_plain("Block#2 > Linear#1", "Block#2 > Linear");
    expect_plain("Block#11", "Block#11");
    expect_plain("model#1.layers", "model#1.layers");
    expect_plain("Linear#1 · gradient", "Linear#1 · gradient");
    expect_plain("train.py:88 main", "train.py:88 main");
    expect_plain("", "");
}

Test(module_names, patterns)
{
    char pattern[16];
    cr_assert(vt_module_pattern("layers.3.mlp2 > A#4", 19, pattern, sizeof pattern) == false);
    cr_assert(vt_module_pattern("layers.3.mlp2", 13, pattern, sizeof pattern));
    cr_expect_str_eq(pattern, "layers.*.mlp*");
    cr_assert(vt_module_pattern("layers.3.mlp2", 8, pattern, sizeof pattern));
    cr_expect_str_eq(pattern, "layers.*");
    cr_assert(vt_module_pattern("GPT2Block > B#2", 15, pattern, sizeof pattern));
    cr_expect_str_eq(pattern, "GPT2Block > B#*");
    cr_assert_not(vt_module_pattern("GPT2Block > BC#2", 16, pattern, sizeof pattern));
    cr_expect_eq(vt_module_match("layers.*", "layers.31.mlp"), strlen("layers.31"));
    cr_expect_eq(vt_module_match("layers.*", "layers.31 > Dropout"), strlen("layers.31"));
    cr_expect_eq(vt_module_match("layers.*", "layers.x"), 0);
    cr_expect_eq(vt_module_match("layers", "layers2"), 0);
    cr_expect_eq(vt_module_match("layers.*.mlp", "layers.3"), 0);
}
