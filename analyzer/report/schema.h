/* The fields of a report: for each structure that is printed a table, from schema.def. Writers walk them
 * (JSON now), and documentation can be made from them.
 *
 * Tables are constant. A writer gets a structure and the object that describes it. */
#ifndef VT_SCHEMA_H
#define VT_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vt_field_kind {
    VT_FIELD_END, /* of a table */
    VT_FIELD_UNSIGNED,
    VT_FIELD_SIGNED,
    VT_FIELD_BOOL,
    VT_FIELD_REAL,
    VT_FIELD_TEXT,            /* const char *, NULL is "" */
    VT_FIELD_CHARS,           /* an array of characters in the structure */
    VT_FIELD_NAME,            /* const char *; NULL and "" are unknown: null */
    VT_FIELD_WORD,            /* an enum, printed by its name */
    VT_FIELD_CHANGE,          /* uint64_t: from one member to another */
    VT_FIELD_BY_WORD,         /* uint64_t by enum: an object with a member for each name */
    VT_FIELD_CHANGES_BY_WORD, /* from one such array to another, where they differ */
    VT_FIELD_NUMBERS,         /* a pointer to unsigned numbers */
    VT_FIELD_OF_EACH,         /* a pointer to structures: a uint64_t of each */
    VT_FIELD_WORDS,           /* a pointer to enums of one byte */
    VT_FIELD_COLUMNS_BY_WORD, /* a pointer to rows of numbers by enum: an array for each name */
    VT_FIELD_TEXTS,           /* an array of const char * in the structure */
    VT_FIELD_OBJECT,          /* a structure in the structure */
    VT_FIELD_POINTER,         /* a pointer to a structure; NULL is one with nothing in it */
    VT_FIELD_LIST,            /* a pointer to structures */
    VT_FIELD_ARRAY,           /* structures in the structure */
    VT_FIELD_MAP,             /* ... whose first member is the name that they are found under */
    VT_FIELD_STACK,           /* uint32_t, a stack's id: the list of its frames */
};

enum vt_unit {
    VT_UNIT_NONE,
    VT_UNIT_BYTES,
    VT_UNIT_NS, /* nanoseconds; of a time since recording began */
    VT_UNIT_COUNT,
    VT_UNIT_EVENT,   /* index of an event */
    VT_UNIT_STEP,    /* from 1, 0 = before the first */
    VT_UNIT_ADDRESS, /* of the device */
    VT_UNIT_ID,
    VT_UNIT_LAST_EVENT, /* of an event with which something ends that lasts until the next */
};

const char *vt_unit_name(unsigned unit); /* "bytes", "ns", …; "" = none */

/* What a field is while the member that it depends on is zero. */
enum vt_absence { VT_LEFT_OUT, VT_NULL };

typedef const char *(*vt_word_function)(unsigned word);
typedef const struct vt_object *(*vt_object_function)(void);

struct vt_field {
    const char *name; /* NULL: what the object has stands among the fields themselves */
    const char *about;
    uint8_t kind, unit;    /* enum vt_field_kind, vt_unit */
    uint8_t absence;       /* enum vt_absence */
    bool limited;          /* for a list: a writer may be told to write only the first items */
    uint32_t offset, size; /* of the member, of an item of a list; bytes */
    uint32_t other;        /* offset of the second member of a change; in each structure */
    uint32_t count_offset; /* of the member (size_t or uint32_t) that counts items */
    uint32_t count_size;
    uint32_t count;                    /* of words, or of items that are in the structure */
    uint32_t needs_offset, needs_size; /* the member that must not be zero; size 0 = none */
    bool nonzero;                      /* by word: only what is not zero */
    uint32_t skipped;                  /* by word: 1 + the one that is left out, 0 = none */
    vt_word_function word;
    vt_object_function object;
};

/* A number of 1, 2, 4 or 8 bytes. */
static inline uint64_t vt_read_unsigned(const void *member, size_t size)
{
    switch (size) {
    case 1:
        return *(const uint8_t *)member;
    case 2:
        return *(const uint16_t *)member;
    case 4:
        return *(const uint32_t *)member;
    default:
        return *(const uint64_t *)member;
    }
}

static inline bool vt_is_zero(const char *member, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (member[i])
            return false;
    return true;
}

struct vt_object {
    const char *name, *about;
    size_t size;                   /* of the structure */
    const struct vt_field *fields; /* up to VT_FIELD_END */
};

/* A document: its "format" and its root. */
struct vt_document {
    const char *format; /* NULL = without */
    vt_object_function root;
};
extern const struct vt_document vt_report_document, vt_timeline_document, vt_summary_document,
    vt_leaks_document, vt_oom_document, vt_frag_document, vt_steps_document, /* struct vt_report */
    vt_annotation_document,                                                  /* struct vt_annotation */
    vt_diff_document,                                                        /* struct vt_diff */
    vt_check_document,                                                       /* struct vt_check_list */
    vt_info_document,                                                        /* struct vt_info */
    vt_top_document,                                                         /* struct vt_top */
    vt_job_document, vt_job_oom_document, vt_job_summary_document,
    vt_job_oom_summary_document, /* struct vt_job */
    vt_list_document,            /* struct vt_list */
    vt_event_document,           /* struct vt_event_facts */
    vt_page_trace_document,      /* struct vt_report: in the head of a page */
    vt_page_device_document;     /* struct vt_device_report: in the head of a page */

extern const char *const vt_table_names[]; /* by enum vt_table_id (tables.h), then NULL */
/* The columns of a table (columns.h). */
const struct vt_object *vt_table_object(unsigned table);

#endif
