#include "view/html/classes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "view/html/sources.h"

#define CLASS_COLUMNS(X)                                                                                     \
    X(DEVICE, "device")                                                                                      \
    X(KIND, "kind")                                                                                          \
    X(CATEGORY, "category")                                                                                  \
    X(EVIDENCE, "evidence")                                                                                  \
    X(RULE, "rule")                                                                                          \
    X(PHASE, "phase")                                                                                        \
    X(OWNER, "owner")                                                                                        \
    X(MODULE, "module")                                                                                      \
    X(MODULE_CLASS, "module_class")                                                                          \
    X(OPERATOR, "operator")                                                                                  \
    X(STACK, "stack")                                                                                        \
    X(FORWARD_STACK, "forward_stack")                                                                        \
    X(PLACE_NAME, "place_name")                                                                              \
    X(PLACE_FILE, "place_file")                                                                              \
    X(PLACE_LINE, "place_line")                                                                              \
    X(PLACE_FUNCTION, "place_function")
enum class_column {
#define X(id, name) CLASS_##id,
    CLASS_COLUMNS(X)
#undef X
    /* of the page only */
    CLASS_TENSORS, /* number of a list */
    CLASS_COUNTED,
    CLASS_CACHED,
    CLASS_DRIVER,
    CLASS_WORDS
};
static const char *const class_columns[] = {
#define X(id, name) name,
    CLASS_COLUMNS(X)
#undef X
        NULL};

static const char *const tensor_columns[] = {"name",  "role",        "module",   "dtype", "shape",
                                             "bytes", "share_bytes", "evidence", NULL};
enum { TENSOR_NEXT = sizeof tensor_columns / sizeof *tensor_columns - 1, TENSOR_WORDS };

int vt_classes_begin(struct vt_classes *classes, struct vt_page_trace *page)
{
    int result;

    *classes = (struct vt_classes){
        .page = page, .read.width = CLASS_WORDS, .rows.width = CLASS_WORDS, .tensors.width = TENSOR_WORDS};
    result = vt_page_table_make(&classes->table, page, VT_TABLE_ALLOCATIONS, class_columns);
    if (!result)
        result = vt_page_table_make(&classes->tensor_table, page, VT_TABLE_TENSORS, tensor_columns);
    vt_page_table_add(&classes->table, "tensors", VT_ENCODING_NUMBERS);
    vt_page_table_add(&classes->table, "counted", VT_ENCODING_NUMBERS);
    vt_page_table_add(&classes->table, "cached", VT_ENCODING_DELTAS);
    vt_page_table_add(&classes->table, "driver", VT_ENCODING_NUMBERS);
    vt_page_table_add(&classes->tensor_table, "next", VT_ENCODING_DELTAS);
    return result;
}

void vt_classes_free(struct vt_classes *classes)
{
    vt_page_table_free(&classes->table);
    vt_page_table_free(&classes->tensor_table);
    vt_rows_free(&classes->read);
    vt_rows_free(&classes->rows);
    vt_rows_free(&classes->tensors);
    vt_index_free(&classes->tensor_lists);
    vt_index_free(&classes->stacks);
    vt_index_free(&classes->frames);
    free(classes->numbers);
}

/* ---- Tensors ---- */

/* A list is a tensor and the list of those after it: lists that are the same have one number. 0 = none. */
static int make_tensor_list(struct vt_classes *classes, const struct vt_tensor_row *tensors, uint32_t count,
                            uint32_t *list)
{
    uint64_t values[TENSOR_WORDS];
    uint32_t number;

    *list = 0;
    for (uint32_t i = count; i-- > 0;) {
        vt_page_table_read(&classes->tensor_table, &tensors[i], values);
        values[TENSOR_NEXT] = *list;
        if (vt_page_table_number(&classes->tensor_table, values) ||
            vt_rows_find(&classes->tensors, values, &number))
            return -ENOMEM;
        *list = number + 1;
    }
    return 0;
}

static int tensor_list(struct vt_classes *classes, const struct vt_allocation_row *row, uint32_t *list)
{
    const struct vt_tensor_row *tensors;
    int result;

    *list = row->tensor_list ? vt_index_get(&classes->tensor_lists, row->tensor_list) : 0;
    if (*list != VT_INDEX_NONE)
        return 0;
    tensors = vt_row_tensors(classes->page->tables, row);
    result = tensors ? make_tensor_list(classes, tensors, row->tensor_count, list) : -ENOMEM;
    return result ? result : vt_index_put(&classes->tensor_lists, row->tensor_list, *list);
}

/* ---- Classes ---- */

static uint64_t sign(int64_t number)
{
    return (uint64_t)((number > 0) - (number < 0));
}

/* The class of a row that is new. */
static int add(struct vt_classes *classes, const uint64_t *read, uint32_t *number)
{
    uint64_t values[CLASS_WORDS];
    int result;

    memcpy(values, read, sizeof values);
    result = vt_page_table_number(&classes->table, values);
    if (!result)
        result = vt_rows_find(&classes->rows, values, number);
    if (!result)
        result = vt_index_put(&classes->stacks, values[CLASS_STACK], 0);
    if (!result)
        result = vt_index_put(&classes->stacks, values[CLASS_FORWARD_STACK], 0);
    return result;
}

int vt_classes_find(struct vt_classes *classes, const struct vt_allocation_row *row, uint32_t *number)
{
    uint64_t values[CLASS_WORDS];
    size_t known = classes->read.count;
    uint32_t list, at;
    int result = tensor_list(classes, row, &list);

    if (result)
        return result;
    vt_page_table_read(&classes->table, row, values);
    values[CLASS_TENSORS] = list;
    values[CLASS_COUNTED] = row->counted_bytes > 0;
    values[CLASS_CACHED] = sign(row->cached_change_bytes);
    values[CLASS_DRIVER] = row->driver_bytes > 0;
    result = vt_rows_find(&classes->read, values, &at);
    if (result)
        return result;
    if (at == known) {
        result = vt_reserve(&classes->numbers, &classes->capacity, known + 1, sizeof *classes->numbers);
        if (!result)
            result = add(classes, values, &classes->numbers[at]);
    }
    *number = result ? 0 : classes->numbers[at];
    return result;
}

/* ---- What classes name ---- */

static bool is_stack_named(void *context, const void *row)
{
    struct vt_classes *classes = context;
    const struct vt_stack_row *stack = row;

    if (vt_index_get(&classes->stacks, stack->stack_id) == VT_INDEX_NONE)
        return false;
    classes->failed |= vt_index_put(&classes->frames, stack->frame, 0) != 0;
    return true;
}

static bool is_frame_named(void *context, const void *row)
{
    const struct vt_classes *classes = context;
    const struct vt_frame_row *frame = row;

    return vt_index_get(&classes->frames, frame->id) != VT_INDEX_NONE;
}

static void put_rows(struct vt_page_table *table, const struct vt_rows *rows, const char *name)
{
    for (size_t i = 0; i < rows->count; i++)
        vt_page_table_put(table, vt_row_words(rows, i));
    vt_page_table_finish(table, name);
}

static int put_sources(const struct vt_classes *classes)
{
    struct vt_spot *spots = calloc(classes->rows.count + 1, sizeof *spots);
    struct vt_bytes raw = {0};
    size_t count = 0;
    int result = -ENOMEM;

    for (size_t i = 0; i < classes->rows.count && spots; i++) {
        const uint64_t *words = vt_row_words(&classes->rows, i);

        if (words[CLASS_PLACE_FILE] && words[CLASS_PLACE_LINE])
            spots[count++] = (struct vt_spot){classes->page->strings.items[words[CLASS_PLACE_FILE]],
                                              (uint32_t)words[CLASS_PLACE_LINE]};
    }
    if (spots)
        result = vt_sources_write(spots, count, classes->page->report->trace, &raw);
    vt_page_blob_add(classes->page, "sources", &raw);
    free(spots);
    return result;
}

int vt_classes_finish(struct vt_classes *classes)
{
    static const char *const stack_columns[] = {"stack", "frame", NULL};
    static const char *const frame_columns[] = {"frame", "kind",   "function", "file",
                                                "line",  "module", "name",     NULL};
    struct vt_page_trace *page = classes->page;
    int result = vt_page_table_copy(page, VT_TABLE_STACKS, stack_columns, is_stack_named, classes);

    if (!result)
        result = vt_page_table_copy(page, VT_TABLE_FRAMES, frame_columns, is_frame_named, classes);
    put_rows(&classes->table, &classes->rows, "classes");
    put_rows(&classes->tensor_table, &classes->tensors, "tensors");
    if (!result)
        result = put_sources(classes);
    return !result && classes->failed ? -ENOMEM : result;
}
