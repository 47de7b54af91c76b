/* How categories look: the same in all text. */
#include "view/text/style.h"

static const struct vt_category_style styles[VT_CATEGORY_COUNT] = {
    [VT_CATEGORY_PARAMETER] = {"░", ':', 33},      [VT_CATEGORY_BUFFER] = {"┊", 'b', 75},
    [VT_CATEGORY_GRADIENT] = {"▓", '%', 208},      [VT_CATEGORY_OPTIMIZER_STATE] = {"▒", '=', 134},
    [VT_CATEGORY_ACTIVATION] = {"█", '#', 71},     [VT_CATEGORY_INPUT] = {"▤", 'i', 44},
    [VT_CATEGORY_TEMPORARY] = {"▚", '~', 248},     [VT_CATEGORY_WORKSPACE] = {"·", '.', 220},
    [VT_CATEGORY_COMMUNICATION] = {"▥", 'c', 204}, [VT_CATEGORY_CONTEXT] = {" ", ' ', 243},
    [VT_CATEGORY_CACHED] = {" ", ' ', 243},        [VT_CATEGORY_HOST_PINNED] = {" ", ' ', 243},
    [VT_CATEGORY_UNKNOWN] = {"?", '?', 253},
};

const struct vt_category_style *vt_category_style(unsigned category)
{
    return &styles[category < VT_CATEGORY_COUNT ? category : VT_CATEGORY_UNKNOWN];
}
