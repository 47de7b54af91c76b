/* Matches the rules with stacks and allocations. */
#ifndef VT_ATTRIBUTE_MATCH_H
#define VT_ATTRIBUTE_MATCH_H

#include <stdbool.h>
#include <stdint.h>

struct vt_matcher;
struct vt_rule_subject;
struct vt_rules;
struct vt_traits_by_stack;
struct vt_verdict;

/* Matches the stacks and code objects of a trace once, so that judging an allocation touches no text. Takes
 * the operators of `sites` and sets their traits and code classes. `rules` and `sites` must outlive the
 * matcher. */
struct vt_matcher *vt_matcher_make(const struct vt_rules *rules, struct vt_traits_by_stack *sites);
void vt_matcher_free(struct vt_matcher *matcher);
/* The first rule that holds; false if none does. Traits may not change between calls for one stack. */
bool vt_matcher_judge(struct vt_matcher *matcher, uint32_t stack_id, const struct vt_rule_subject *subject,
                      struct vt_verdict *verdict);

#endif
