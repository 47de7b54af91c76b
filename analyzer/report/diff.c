/* Words of a diff. */
#include "report/diff.h"

const char *vt_diff_kind_name(unsigned kind)
{
    static const char *const names[VT_DIFF_KINDS] = {"added", "removed", "grown", "shrunk", "moved"};

    return kind < VT_DIFF_KINDS ? names[kind] : "unknown";
}
