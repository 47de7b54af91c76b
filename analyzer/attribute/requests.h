/* Private to attribution: which forward passes one request needs. */
#ifndef VT_ATTRIBUTE_REQUESTS_H
#define VT_ATTRIBUTE_REQUESTS_H

#include "attribute/attribute.h"

struct vt_finder;
struct vt_model_calls;

/* Finds calls of one function under which forward passes run. */
void vt_requests_find(const struct vt_finder *finder, const struct vt_model_calls *calls,
                      struct vt_requests *requests);

#endif
