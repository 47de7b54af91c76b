/* Packets of a Perfetto trace: one sequence of them, texts and stacks written once before they are used. */
#ifndef VT_PERFETTO_PACKETS_H
#define VT_PERFETTO_PACKETS_H

#include "trace.pb-c.h"
#include "view/samples.h"
#include "base/strings.h"

#define VT_PACKET_NOTES 24

/* What is numbered in InternedData, each kind by itself. */
enum vt_interned {
    VT_INTERNED_CATEGORY, /* of events: for Perfetto's filters */
    VT_INTERNED_NAME,     /* of events */
    VT_INTERNED_NOTE,
    VT_INTERNED_VALUE, /* of notes */
    VT_INTERNED_FUNCTION,
    VT_INTERNED_OBJECT,
    VT_INTERNED_SOURCE,
    VT_INTERNED_TEXTS, /* the texts end here */
    VT_INTERNED_MAPPING = VT_INTERNED_TEXTS,
    VT_INTERNED_FRAME,
    VT_INTERNED_STACK,
    VT_INTERNED_KINDS
};

struct vt_pending {
    void **items;
    size_t count, capacity;
};

struct vt_packets {
    FILE *out;
    uint64_t start_ns;    /* CLOCK_REALTIME when recording began */
    uint32_t sequence_id; /* of all packets */
    const struct vt_stack_list *stacks;
    /* private to packets.c */
    struct vt_strings texts[VT_INTERNED_TEXTS];
    struct vt_pending pending[VT_INTERNED_KINDS]; /* goes out with the next packet */
    struct vt_arena arena;                        /* of what is pending */
    bool *has_frame, *has_mapping;                /* by frame id, by iid */
    size_t mapping_capacity;
    struct vt_index stack_iids; /* stack and forward stack → iid */
    uint64_t stack_count;
    Perfetto__DebugAnnotation notes[VT_PACKET_NOTES], *note_list[VT_PACKET_NOTES];
    size_t note_count;
    uint8_t *buffer;
    size_t buffer_bytes;
};

/* Writes the packet that begins a sequence and says which clock it uses. */
void vt_packets_begin(struct vt_packets *packets);
void vt_packets_free(struct vt_packets *packets);

/* Writes a packet, with its sequence and what is pending. */
void vt_packet_put(struct vt_packets *packets, Perfetto__TracePacket *packet);

/* The number of a text among those of its kind, which the next packet brings if it is new. */
uint64_t vt_packets_text(struct vt_packets *packets, enum vt_interned kind, const char *text);
/* A text for the next packet itself, in valid UTF-8. */
char *vt_packets_clean(struct vt_packets *packets, const char *text);
/* A call stack (samples.h), or 0 for none. A category other than VT_CATEGORY_COUNT becomes the
 * outermost frame, and the stack is always a new one. */
uint64_t vt_packets_stack(struct vt_packets *packets, uint32_t stack_id, uint32_t forward_stack_id,
                          unsigned category);

/* Notes of the next event. Texts that are NULL or "" are left out. */
void vt_note_number(struct vt_packets *packets, const char *name, uint64_t number);
void vt_note_address(struct vt_packets *packets, const char *name, uint64_t address);
void vt_note_text(struct vt_packets *packets, const char *name, const char *text);

enum { VT_SLICE_BEGIN = 1, VT_SLICE_END, VT_EVENT_INSTANT, VT_EVENT_COUNTER };

struct vt_track_event {
    uint64_t t_ns; /* since recording began */
    uint64_t track_uuid;
    unsigned type;
    const char *name, *category; /* NULL = none */
    uint64_t value;              /* of a counter */
    uint64_t stack_iid, bytes;   /* of an event with a stack; 0 = none */
};
void vt_event_put(struct vt_packets *packets, const struct vt_track_event *from);

#endif
