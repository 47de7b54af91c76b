/* Physical memory and multicast objects, which have the same kind of handle: vmm.c and multicast.c. */
#ifndef STANDIN_VMM_H
#define STANDIN_VMM_H

#include "standin.h"

struct standin_binding;

struct standin_physical {
    struct standin_physical *next;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties;
    size_t bytes;
    unsigned references;
    unsigned mappings;
    unsigned bindings; /* of this memory to multicast objects */
    bool foreign;      /* imported from another process, whose bytes they are */
    /* Of a multicast object: */
    unsigned team;    /* its number of devices; 0: this is memory */
    uint32_t members; /* a bit for each device added */
    struct standin_binding *bound;
};

/* NULL if there is no such handle. */
struct standin_physical *standin_physical_of(CUmemGenericAllocationHandle handle);
/* With one reference. NULL: the host is out of memory. */
struct standin_physical *standin_physical_new(size_t bytes, const CUmemAllocationProp *properties);
/* Ends it if nothing refers to it any more. */
void standin_physical_drop(struct standin_physical *physical);

/* Unbinds all. */
void standin_multicast_end(struct standin_physical *object);
/* False for a multicast object to which devices are yet to be added. */
bool standin_multicast_ready(const struct standin_physical *physical);

#endif
