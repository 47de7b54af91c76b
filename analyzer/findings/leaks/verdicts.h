/* The verdicts on growth: findings.def. */
#ifndef VT_LEAK_VERDICTS_H
#define VT_LEAK_VERDICTS_H

enum vt_leak_verdict {
#define VT_GROWTH(id, name, is_leak, remedy) VT_LEAK_##id,
#include "findings/findings.def"
    VT_LEAK_VERDICT_COUNT
};
#define VT_TEXT(id, text) extern const char vt_text_##id[];
#include "findings/findings.def"

#endif
