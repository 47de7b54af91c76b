#include "view/html/classes.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/memory_stream.h"
#include "view/html/sources.h"

#define CLASS_COLUMNS(X)                                                                                     \
    X(DEVICE, "device")                                                                                      \
    X(KIND, "kind")                                                                                          \
    X(CATEGORY, "category")                                                                                  \
    X(EVIDENCE, "evidence")                                                                                  \
    X(RULE, "rule")                                                                                          \
    X(PHASE, "phase")                                                                                        \
    X(OWNER, "owner")                                                                                        \
    X(HELD_BY, "held_by")                                                                                    \
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

/* ---- Rows of numbers ---- */

static const uint64_t *row_words(const struct vt_rows *rows, size_t number)
{
    return rows->words + number * rows->width;
}

/* The number of a row; it is the last of `count` where the row is new. */
static uint32_t find_row(struct vt_rows *rows, const uint64_t *words)
{
    uint32_t number;
    size_t bytes = rows->width * sizeof *words;
    uint64_t hash = vt_hash_bytes(words, bytes, VT_HASH_START);

    for (;; hash++) {
        number = vt_index_get(&rows->by_content, hash);
        if (number == VT_INDEX_NONE)
            break;
        if (!memcmp(row_words(rows, number), words, bytes))
            return number;
    }
    number = (uint32_t)rows->count;
    vt_reserve(&rows->words, &rows->capacity, rows->count + 1, bytes);
    vt_index_put(&rows->by_content, hash, number);
    memcpy(rows->words + rows->width * rows->count++, words, bytes);
    return number;
}

static void free_rows(struct vt_rows *rows)
{
    vt_index_free(&rows->by_content);
    free(rows->words);
}

/* ---- Begin and end ---- */

void vt_classes_begin(struct vt_classes *classes, struct vt_page_trace *page)
{
    *classes = (struct vt_classes){
        .page = page, .read.width = CLASS_WORDS, .rows.width = CLASS_WORDS, .tensors.width = TENSOR_WORDS};
    vt_page_table_make(&classes->table, page, VT_TABLE_ALLOCATIONS, class_columns);
    vt_page_table_make(&classes->tensor_table, page, VT_TABLE_TENSORS, tensor_columns);
    vt_page_table_add(&classes->table, "tensors", VT_ENCODING_NUMBERS);
    vt_page_table_add(&classes->table, "counted", VT_ENCODING_NUMBERS);
    vt_page_table_add(&classes->table, "cached", VT_ENCODING_DELTAS);
    vt_page_table_add(&classes->table, "driver", VT_ENCODING_NUMBERS);
    vt_page_table_add(&classes->tensor_table, "next", VT_ENCODING_DELTAS);
}

void vt_classes_free(struct vt_classes *classes)
{
    vt_page_table_free(&classes->table);
    vt_page_table_free(&classes->tensor_table);
    free_rows(&classes->read);
    free_rows(&classes->rows);
    free_rows(&classes->tensors);
    vt_index_free(&classes->tensor_lists);
    vt_index_free(&classes->stacks);
    vt_index_free(&classes->frames);
    free(classes->numbers);
}

/* ---- Tensors ---- */

/* A list is a tensor and the list of those after it: lists that are the same have one number. 0 = none. */
static uint32_t make_tensor_list(struct vt_classes *classes, const struct vt_tensor_row *tensors,
                                 uint32_t count)
{
    uint64_t values[TENSOR_WORDS];
    uint32_t list = 0;

    for (uint32_t i = count; i-- > 0;) {
        vt_page_table_read(&classes->tensor_table, &tensors[i], values);
        values[TENSOR_NEXT] = list;
        vt_page_table_number(&classes->tensor_table, values);
        list = find_row(&classes->tensors, values) + 1;
    }
    return list;
}

static uint32_t tensor_list(struct vt_classes *classes, const struct vt_allocation_row *row)
{
    uint32_t list = row->tensor_list ? vt_index_get(&classes->tensor_lists, row->tensor_list) : 0;

    if (list == VT_INDEX_NONE) {
        list = make_tensor_list(classes, vt_row_tensors(classes->page->tables, row), row->tensor_count);
        vt_index_put(&classes->tensor_lists, row->tensor_list, list);
    }
    return list;
}

/* ---- Classes ---- */

static uint64_t sign_of(int64_t number)
{
    return (uint64_t)((number > 0) - (number < 0));
}

/* The class of a row that is new. */
static uint32_t add_class(struct vt_classes *classes, const uint64_t *read)
{
    uint64_t values[CLASS_WORDS];

    memcpy(values, read, sizeof values);
    vt_page_table_number(&classes->table, values);
    vt_index_put(&classes->stacks, values[CLASS_STACK], 0);
    vt_index_put(&classes->stacks, values[CLASS_FORWARD_STACK], 0);
    return find_row(&classes->rows, values);
}

uint32_t vt_classes_find(struct vt_classes *classes, const struct vt_allocation_row *row)
{
    uint64_t values[CLASS_WORDS];
    size_t known = classes->read.count;
    uint32_t at;

    vt_page_table_read(&classes->table, row, values);
    values[CLASS_TENSORS] = tensor_list(classes, row);
    values[CLASS_COUNTED] = row->counted_bytes > 0;
    values[CLASS_CACHED] = sign_of(row->cached_change_bytes);
    values[CLASS_DRIVER] = row->driver_bytes > 0;
    at = find_row(&classes->read, values);
    if (at == known) {
        vt_reserve(&classes->numbers, &classes->capacity, known + 1, sizeof *classes->numbers);
        classes->numbers[at] = add_class(classes, values);
    }
    return classes->numbers[at];
}

/* ---- What classes name ---- */

static bool is_stack_named(void *context, const void *row)
{
    struct vt_classes *classes = context;
    const struct vt_stack_row *stack = row;

    if (vt_index_get(&classes->stacks, stack->stack_id) == VT_INDEX_NONE)
        return false;
    vt_index_put(&classes->frames, stack->frame, 0);
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
        vt_page_table_put(table, row_words(rows, i));
    vt_page_table_finish(table, name);
}

static void put_sources(const struct vt_classes *classes)
{
    struct vt_spot *spots = vt_allocate_zeros(classes->rows.count, sizeof *spots);
    char *text;
    size_t count = 0, bytes;
    FILE *json = vt_memory_stream(&text, &bytes);

    for (size_t i = 0; i < classes->rows.count; i++) {
        const uint64_t *words = row_words(&classes->rows, i);

        if (words[CLASS_PLACE_FILE] && words[CLASS_PLACE_LINE])
            spots[count++] = (struct vt_spot){classes->page->strings.items[words[CLASS_PLACE_FILE]],
                                              (uint32_t)words[CLASS_PLACE_LINE]};
    }
    vt_sources_write(spots, count, classes->page->report->trace, json);
    fclose(json);
    vt_page_blob_add(classes->page, "sources", vt_blob_add(classes->page->blobs, text, bytes));
    free(spots);
}

void vt_classes_finish(struct vt_classes *classes)
{
    static const char *const stack_columns[] = {"stack", "frame", NULL};
    static const char *const frame_columns[] = {"frame", "kind",   "function", "file",
                                                "line",  "module", "name",     NULL};
    struct vt_page_trace *page = classes->page;

    vt_page_table_copy(page, VT_TABLE_STACKS, stack_columns, is_stack_named, classes);
    vt_page_table_copy(page, VT_TABLE_FRAMES, frame_columns, is_frame_named, classes);
    put_rows(&classes->table, &classes->rows, "classes");
    put_rows(&classes->tensor_table, &classes->tensors, "tensors");
    put_sources(classes);
}
