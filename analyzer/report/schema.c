/* The tables of schema.def, as constants. */
#include "report/schema.h"

#include "base/frame.h"
#include "report/annotation.h"
#include "report/checks.h"
#include "report/diff.h"
#include "report/info.h"
#include "report/job.h"
#include "report/list.h"
#include "report/sources.h"
#include "report/tables.h"
#include "report/top.h"

static const char *frame_kind(unsigned kind)
{
    return kind == VT_FRAME_PYTHON ? "python" : "native";
}

/* In what follows `self` is the structure that an object describes. */
#define MEMBER(member) (((self *)0)->member)
#define AT(member) .offset = offsetof(self, member), .size = sizeof MEMBER(member)
#define ITEMS(member) .offset = offsetof(self, member), .size = sizeof *MEMBER(member)
#define COUNTED(member) .count_offset = offsetof(self, member), .count_size = sizeof MEMBER(member)

/* An array of characters has no kind of its own: as an expression it is a pointer. */
#define KIND_OF(member)                                                                                      \
    _Generic(&MEMBER(member),                                                                                \
        bool *: VT_FIELD_BOOL,                                                                               \
        double *: VT_FIELD_REAL,                                                                             \
        uint8_t *: VT_FIELD_UNSIGNED,                                                                        \
        uint16_t *: VT_FIELD_UNSIGNED,                                                                       \
        uint32_t *: VT_FIELD_UNSIGNED,                                                                       \
        uint64_t *: VT_FIELD_UNSIGNED,                                                                       \
        int32_t *: VT_FIELD_SIGNED,                                                                          \
        int64_t *: VT_FIELD_SIGNED,                                                                          \
        char **: VT_FIELD_TEXT,                                                                              \
        const char **: VT_FIELD_TEXT,                                                                        \
        default: VT_FIELD_CHARS)

#define IF(member)                                                                                           \
    .absence = VT_LEFT_OUT, .needs_offset = offsetof(self, member), .needs_size = sizeof MEMBER(member)
#define OR_NULL(member)                                                                                      \
    .absence = VT_NULL, .needs_offset = offsetof(self, member), .needs_size = sizeof MEMBER(member)
#define LIMITED .limited = true

#define ENTRY(json, text, kind_of_field, ...)                                                                \
    {.name = json, .about = text, .kind = kind_of_field, __VA_ARGS__},
#define BY_CATEGORY .count = VT_CATEGORY_COUNT, .word = vt_category_name

#define OBJECT(object, type, text)                                                                           \
    static const struct vt_object *object_##object(void)                                                     \
    {                                                                                                        \
        typedef type self;                                                                                   \
        static const char name[] = #object, about[] = text;                                                  \
        static const struct vt_field fields[] = {
#define END(object)                                                                                          \
    {                                                                                                        \
        .kind = VT_FIELD_END                                                                                 \
    }                                                                                                        \
    }                                                                                                        \
    ;                                                                                                        \
    static const struct vt_object described = {name, about, sizeof(self), fields};                           \
    return &described;                                                                                       \
    }

#define FIELD(json, member, of, text, ...)                                                                   \
    ENTRY(json, text, KIND_OF(member), .unit = VT_UNIT_##of, AT(member), __VA_ARGS__)
#define NAME(json, member, text, ...) ENTRY(json, text, VT_FIELD_NAME, AT(member), __VA_ARGS__)
#define WORD(json, member, function, text, ...)                                                              \
    ENTRY(json, text, VT_FIELD_WORD, .word = function, AT(member), __VA_ARGS__)
#define CHANGE(json, from, to, of, text, ...)                                                                \
    ENTRY(json, text, VT_FIELD_CHANGE, .unit = VT_UNIT_##of, AT(from), .other = offsetof(self, to),          \
          __VA_ARGS__)
#define CATEGORIES(json, member, text, ...)                                                                  \
    ENTRY(json, text, VT_FIELD_BY_WORD, .unit = VT_UNIT_BYTES, BY_CATEGORY,                                  \
          .skipped = VT_CATEGORY_HOST_PINNED + 1, AT(member), __VA_ARGS__)
#define ALL_CATEGORIES(json, member, text, ...)                                                              \
    ENTRY(json, text, VT_FIELD_BY_WORD, .unit = VT_UNIT_BYTES, BY_CATEGORY, AT(member), __VA_ARGS__)
#define NONZERO_CATEGORIES(json, member, text, ...)                                                          \
    CATEGORIES(json, member, text, .nonzero = true, __VA_ARGS__)
#define CATEGORY_CHANGES(json, from, to, text, ...)                                                          \
    ENTRY(json, text, VT_FIELD_CHANGES_BY_WORD, .unit = VT_UNIT_BYTES, BY_CATEGORY, AT(from),                \
          .other = offsetof(self, to), __VA_ARGS__)
#define LAYERS(json, member, text, ...)                                                                      \
    ENTRY(json, text, VT_FIELD_BY_WORD, .unit = VT_UNIT_COUNT, .count = VT_LAYERS, .word = vt_layer_name,    \
          .nonzero = true, AT(member), __VA_ARGS__)
#define PHASES(json, member, text, ...)                                                                      \
    ENTRY(json, text, VT_FIELD_BY_WORD, .unit = VT_UNIT_BYTES, .count = VT_PHASE_COUNT,                      \
          .word = vt_phase_name, .nonzero = true, AT(member), __VA_ARGS__)
#define NUMBERS(json, member, counter, of, text, ...)                                                        \
    ENTRY(json, text, VT_FIELD_NUMBERS, .unit = VT_UNIT_##of, ITEMS(member), COUNTED(counter), __VA_ARGS__)
#define OF_EACH(json, member, counter, inner, of, text, ...)                                                 \
    ENTRY(json, text, VT_FIELD_OF_EACH, .unit = VT_UNIT_##of, ITEMS(member), COUNTED(counter),               \
          .other = offsetof(__typeof__(*MEMBER(member)), inner), __VA_ARGS__)
#define WORDS(json, member, counter, function, text, ...)                                                    \
    ENTRY(json, text, VT_FIELD_WORDS, .word = function, ITEMS(member), COUNTED(counter), __VA_ARGS__)
#define COLUMNS(json, member, counter, text, ...)                                                            \
    ENTRY(json, text, VT_FIELD_COLUMNS_BY_WORD, .unit = VT_UNIT_BYTES, BY_CATEGORY,                          \
          .skipped = VT_CATEGORY_HOST_PINNED + 1, ITEMS(member), COUNTED(counter), __VA_ARGS__)
#define USED_COLUMNS(json, member, counter, text, ...)                                                       \
    ENTRY(json, text, VT_FIELD_COLUMNS_BY_WORD, .unit = VT_UNIT_BYTES, BY_CATEGORY, .nonzero = true,         \
          ITEMS(member), COUNTED(counter), __VA_ARGS__)
#define TEXTS(json, member, counter, text, ...)                                                              \
    ENTRY(json, text, VT_FIELD_TEXTS, ITEMS(member), COUNTED(counter), __VA_ARGS__)
#define INSIDE(json, member, other_object, text, ...)                                                        \
    ENTRY(json, text, VT_FIELD_OBJECT, .object = object_##other_object, AT(member), __VA_ARGS__)
#define WITHIN(json, other_object, text, ...)                                                                \
    ENTRY(json, text, VT_FIELD_OBJECT, .object = object_##other_object, .size = sizeof(self), __VA_ARGS__)
#define POINTED(json, member, other_object, text, ...)                                                       \
    ENTRY(json, text, VT_FIELD_POINTER, .object = object_##other_object, ITEMS(member), __VA_ARGS__)
#define LIST(json, member, counter, other_object, text, ...)                                                 \
    ENTRY(json, text, VT_FIELD_LIST, .object = object_##other_object, ITEMS(member), COUNTED(counter),       \
          __VA_ARGS__)
#define ARRAY(json, member, counter, other_object, text, ...)                                                \
    ENTRY(json, text, VT_FIELD_ARRAY, .object = object_##other_object, ITEMS(member), COUNTED(counter),      \
          __VA_ARGS__)
#define MAP(json, member, counter, other_object, text, ...)                                                  \
    ENTRY(json, text, VT_FIELD_MAP, .object = object_##other_object, ITEMS(member), COUNTED(counter),        \
          __VA_ARGS__)
#define STACK(json, member, text, ...)                                                                       \
    ENTRY(json, text, VT_FIELD_STACK, .unit = VT_UNIT_ID, .object = object_frame, AT(member), __VA_ARGS__)
#include "report/schema.def"

const struct vt_document vt_report_document = {"vramtrace.report/2", object_report},
                         vt_timeline_document = {"vramtrace.timeline/2", object_timeline_report},
                         vt_summary_document = {"vramtrace.summary/2", object_summary_report},
                         vt_leaks_document = {"vramtrace.leaks/2", object_leak_report},
                         vt_oom_document = {"vramtrace.oom/2", object_oom_report},
                         vt_frag_document = {"vramtrace.frag/2", object_frag_report},
                         vt_steps_document = {"vramtrace.steps/2", object_step_report},
                         vt_annotation_document = {"vramtrace.annotate/2", object_annotation},
                         vt_diff_document = {"vramtrace.diff/2", object_diff},
                         vt_check_document = {"vramtrace.check/2", object_check_list},
                         vt_info_document = {"vramtrace.info/2", object_info},
                         vt_top_document = {"vramtrace.top/2", object_top},
                         vt_job_document = {"vramtrace.job/2", object_job},
                         vt_job_oom_document = {"vramtrace.job_oom/2", object_job_oom},
                         vt_job_summary_document = {"vramtrace.job_summary/2", object_job_summary},
                         vt_job_oom_summary_document = {"vramtrace.job_oom_summary/2",
                                                        object_job_oom_summary},
                         vt_list_document = {"vramtrace.list/2", object_list},
                         vt_event_document = {NULL, object_event},
                         vt_page_trace_document = {NULL, object_page_trace},
                         vt_page_device_document = {NULL, object_page_device};

const char *vt_unit_name(unsigned unit)
{
    static const char *const names[] = {"",     "bytes",   "ns", "count", "event",
                                        "step", "address", "id", "event"};

    return names[unit];
}

/* By enum vt_table_id: the objects are named as their tables. */
static const vt_object_function table_objects[] = {
#define X(id, name, row) object_##name,
    VT_TABLES(X)
#undef X
};

const char *const vt_table_names[] = {
#define X(id, name, row) #name,
    VT_TABLES(X)
#undef X
        NULL};

const struct vt_object *vt_table_object(unsigned table)
{
    return table_objects[table]();
}
