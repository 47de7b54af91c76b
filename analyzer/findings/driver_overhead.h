/* Memory that a device gave this process without an allocation: to calls that loaded code, raised a limit,
 * uploaded a graph, or made a further context. */
#ifndef VT_DRIVER_OVERHEAD_H
#define VT_DRIVER_OVERHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vt_trace;

/* Kinds, as in the rows of a GPU's table. */
#define VT_SILENT_MODULES "modules"
#define VT_SILENT_GRAPHS "graphs"
#define VT_SILENT_STREAMS "streams"
#define VT_SILENT_SETTINGS "settings"
#define VT_SILENT_CONTEXT "context"

struct vt_silent {
    const char *kind;
    const char *name; /* of modules and contexts: the library or program that they are of; NULL = not known */
    int64_t bytes;    /* negative: the call gave back */
    bool of_module;   /* a module's loading or unloading, not a kernel's first use */
};
struct vt_silents {
    struct vt_silent *items; /* in order of time; the caller frees them */
    size_t count;
    int64_t bytes; /* their sum */
};

/* Events of such calls and of contexts, of all devices, in order: few, however many events a trace has. */
struct vt_silent_events {
    uint32_t *items; /* owned */
    size_t count;
};
struct vt_silent_events vt_silent_events_find(const struct vt_trace *trace);

/* For calls from `first_event` to `last_event`, except those whose context had ended by then. The caller
 * frees the items. */
struct vt_silents vt_silents_find(const struct vt_trace *trace, const struct vt_silent_events *events,
                                  int device_index, uint32_t first_event, uint32_t last_event);

/* A context of the device was made up to `last_event`, and had not ended by then. */
bool vt_silents_alive(const struct vt_trace *trace, const struct vt_silent_events *events, int device_index,
                      uint32_t last_event);

#endif
