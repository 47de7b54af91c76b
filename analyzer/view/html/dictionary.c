#include "view/html/dictionary.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "view/html/sources.h"

#define NO_FRAME UINT32_MAX

enum class_word {
    CLASS_DEVICE, /* int64_t */
    CLASS_KIND,
    CLASS_CATEGORY,
    CLASS_EVIDENCE,
    CLASS_PHASE,
    CLASS_STACK,
    CLASS_FORWARD_STACK,
    CLASS_MODULE,
    CLASS_MODULE_CLASS,
    CLASS_RULE,
    CLASS_COUNTED,
    CLASS_CACHED, /* int64_t */
    CLASS_DRIVER,
    CLASS_TENSORS, /* number of a list */
    CLASS_LABEL,
    CLASS_WORDS
};
enum { TENSOR_WORDS = 8, FRAME_WORDS = 6, PLACE_WORDS = 5, LIST_WORDS = 2 };

void vt_dictionary_begin(struct vt_dictionary *dictionary, struct vt_tables *tables)
{
    *dictionary = (struct vt_dictionary){.tables = tables,
                                         .classes.width = CLASS_WORDS,
                                         .tensors.width = TENSOR_WORDS,
                                         .tensor_lists.width = LIST_WORDS,
                                         .frames.width = FRAME_WORDS,
                                         .places.width = PLACE_WORDS};
    vt_text_number(&dictionary->texts, ""); /* 0 */
    vt_text_number(&dictionary->rules, "");
    vt_row_number(&dictionary->places, (const uint64_t[PLACE_WORDS]){0, 0, 0, 0, UINT64_MAX});
    vt_row_number(&dictionary->tensor_lists,
                  (const uint64_t[LIST_WORDS]){UINT64_MAX, 0}); /* the empty list */
}

void vt_dictionary_free(struct vt_dictionary *dictionary)
{
    vt_texts_free(&dictionary->texts);
    vt_texts_free(&dictionary->kinds);
    vt_texts_free(&dictionary->rules);
    vt_word_rows_free(&dictionary->classes);
    vt_word_rows_free(&dictionary->tensors);
    vt_word_rows_free(&dictionary->tensor_lists);
    vt_word_rows_free(&dictionary->frames);
    vt_word_rows_free(&dictionary->places);
    vt_index_free(&dictionary->stack_numbers);
    vt_index_free(&dictionary->tensor_numbers);
    free(dictionary->class_facts);
    free(dictionary->stacks);
    free(dictionary->stack_frames);
    free(dictionary->frame_numbers);
}

/* ---- Classes ---- */

static uint32_t stack_number(struct vt_dictionary *dictionary, uint32_t stack_id)
{
    uint32_t number;

    if (!stack_id)
        return 0;
    number = vt_index_get(&dictionary->stack_numbers, stack_id);
    if (number != VT_INDEX_NONE)
        return number;
    number = (uint32_t)dictionary->stack_count + 1;
    if (VT_APPEND(dictionary->stacks, dictionary->stack_count, dictionary->stack_capacity,
                  (struct vt_stack_range){.place_frame = NO_FRAME}) ||
        vt_index_put(&dictionary->stack_numbers, stack_id, number)) {
        dictionary->failed = true;
        return 0;
    }
    return number;
}

/* A list is a tensor and the list of those after it: lists that are the same have one number. */
static uint32_t make_tensor_list(struct vt_dictionary *dictionary, const struct vt_tensor_row *tensors,
                                 uint32_t count)
{
    struct vt_texts *texts = &dictionary->texts;
    uint32_t list = 0;

    for (uint32_t i = count; i-- > 0;) {
        const struct vt_tensor_row *tensor = &tensors[i];
        const uint64_t words[TENSOR_WORDS] = {vt_text_number(texts, tensor->name),
                                              vt_text_number(texts, tensor->role),
                                              vt_text_number(texts, tensor->module),
                                              vt_text_number(texts, tensor->dtype),
                                              vt_text_number(texts, tensor->shape),
                                              tensor->bytes,
                                              tensor->share_bytes,
                                              tensor->evidence};
        const uint64_t link[LIST_WORDS] = {vt_row_number(&dictionary->tensors, words), list};

        list = vt_row_number(&dictionary->tensor_lists, link);
    }
    return list;
}

static uint32_t tensor_list(struct vt_dictionary *dictionary, const struct vt_allocation_row *row)
{
    const struct vt_tensor_row *tensors;
    uint32_t number;

    if (!row->tensor_list)
        return 0;
    number = vt_index_get(&dictionary->tensor_numbers, row->tensor_list);
    if (number != VT_INDEX_NONE)
        return number;
    tensors = vt_row_tensors(dictionary->tables, row);
    number = tensors ? make_tensor_list(dictionary, tensors, row->tensor_count) : 0;
    if (!tensors || vt_index_put(&dictionary->tensor_numbers, row->tensor_list, number))
        dictionary->failed = true;
    return number;
}

static int64_t sign(int64_t number)
{
    return (number > 0) - (number < 0);
}

uint32_t vt_dictionary_class(struct vt_dictionary *dictionary, const struct vt_allocation_row *row)
{
    const struct vt_block *block = &row->block;
    struct vt_texts *texts = &dictionary->texts;
    const uint64_t words[CLASS_WORDS] = {
        [CLASS_DEVICE] = (uint64_t)(int64_t)row->device_index,
        [CLASS_KIND] = vt_text_number(&dictionary->kinds, block->kind),
        [CLASS_CATEGORY] = block->category,
        [CLASS_EVIDENCE] = block->evidence,
        [CLASS_PHASE] = block->phase,
        [CLASS_STACK] = stack_number(dictionary, row->stack_id),
        [CLASS_FORWARD_STACK] = stack_number(dictionary, row->forward_stack_id),
        [CLASS_MODULE] = vt_text_number(texts, block->module),
        [CLASS_MODULE_CLASS] = vt_text_number(texts, row->module_class),
        [CLASS_RULE] = vt_text_number(&dictionary->rules, block->rule),
        [CLASS_COUNTED] = row->counted_bytes > 0,
        [CLASS_CACHED] = (uint64_t)sign(row->cached_change_bytes),
        [CLASS_DRIVER] = row->driver_bytes > 0,
        [CLASS_TENSORS] = tensor_list(dictionary, row),
        [CLASS_LABEL] = vt_text_number(texts, block->owner),
    };
    size_t known = dictionary->classes.count;
    uint32_t number = vt_row_number(&dictionary->classes, words);

    if (dictionary->classes.count == known)
        return number;
    if (vt_reserve(&dictionary->class_facts, &dictionary->class_capacity, known + 1,
                   sizeof *dictionary->class_facts))
        dictionary->failed = true;
    else /* both are the same for all of a stack */
        dictionary->class_facts[number] =
            (struct vt_class){block->shown_place, vt_text_number(texts, block->operator_name)};
    return number;
}

uint32_t vt_dictionary_place(const struct vt_dictionary *dictionary, uint32_t class_number)
{
    const uint64_t *words = vt_row_words(&dictionary->classes, class_number);
    const char *kind = dictionary->kinds.items[words[CLASS_KIND]];
    uint32_t device = (uint32_t)words[CLASS_DEVICE];

    if ((int64_t)words[CLASS_DEVICE] < 0)
        return 0;
    return !strcmp(kind, "block") ? 1 + 2 * device : !strcmp(kind, "segment") ? 2 + 2 * device : 0;
}

/* ---- Stacks and frames ---- */

static int add_stack_row(void *context, const void *row)
{
    const struct vt_stack_row *stack = row;
    struct vt_dictionary *dictionary = context;
    uint32_t number = vt_index_get(&dictionary->stack_numbers, stack->stack_id);
    struct vt_stack_range *range = number == VT_INDEX_NONE ? NULL : &dictionary->stacks[number - 1];

    if (!range)
        return 0;
    if (!range->count)
        range->first = dictionary->stack_frame_count;
    range->count++;
    if (stack->is_place)
        range->place_frame = stack->frame;
    return VT_APPEND(dictionary->stack_frames, dictionary->stack_frame_count,
                     dictionary->stack_frame_capacity, stack->frame);
}

static int add_frame(void *context, const void *row)
{
    const struct vt_frame_row *frame = row;
    struct vt_dictionary *dictionary = context;
    struct vt_texts *texts = &dictionary->texts;

    if (frame->id >= dictionary->frame_number_count || !dictionary->frame_numbers[frame->id])
        return 0;
    dictionary->frame_numbers[frame->id] =
        1 +
        vt_row_number(&dictionary->frames,
                      (const uint64_t[FRAME_WORDS]){
                          frame->frame.kind, vt_text_number(texts, frame->frame.function),
                          vt_text_number(texts, frame->frame.file), (uint64_t)frame->frame.line,
                          vt_text_number(texts, frame->frame.module), vt_text_number(texts, frame->name)});
    return 0;
}

static bool has_failed(const struct vt_dictionary *dictionary)
{
    return dictionary->failed || dictionary->texts.failed || dictionary->kinds.failed ||
           dictionary->rules.failed || dictionary->classes.failed || dictionary->tensors.failed ||
           dictionary->tensor_lists.failed || dictionary->frames.failed || dictionary->places.failed;
}

int vt_dictionary_finish(struct vt_dictionary *dictionary)
{
    struct vt_tables *tables = dictionary->tables;
    int result =
        has_failed(dictionary) ? -ENOMEM : vt_table_walk(tables, VT_TABLE_STACKS, add_stack_row, dictionary);

    if (result)
        return result;
    dictionary->frame_number_count = vt_table_rows(tables, VT_TABLE_FRAMES);
    dictionary->frame_numbers = calloc(dictionary->frame_number_count + 1, sizeof *dictionary->frame_numbers);
    if (!dictionary->frame_numbers)
        return -ENOMEM;
    for (size_t i = 0; i < dictionary->stack_frame_count; i++)
        dictionary->frame_numbers[dictionary->stack_frames[i]] = 1;
    result = vt_table_walk(tables, VT_TABLE_FRAMES, add_frame, dictionary);
    return !result && has_failed(dictionary) ? -ENOMEM : result;
}

/* ---- Writing ---- */

static void begin_item(struct vt_bytes *json, size_t number)
{
    vt_bytes_add(json, ",", number > 0);
}

static void put_words(struct vt_bytes *json, const uint64_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        vt_bytes_print(json, "%s%" PRId64, i ? "," : "", (int64_t)words[i]);
}

/* ,"name":[[1,2],[3,4]] */
static void put_rows(struct vt_bytes *json, const char *name, const struct vt_word_rows *rows)
{
    vt_bytes_print(json, ",\"%s\":[", name);
    for (size_t i = 0; i < rows->count; i++) {
        begin_item(json, i);
        vt_bytes_add(json, "[", 1);
        put_words(json, vt_row_words(rows, i), rows->width);
        vt_bytes_add(json, "]", 1);
    }
    vt_bytes_add(json, "]", 1);
}

static void put_stacks(const struct vt_dictionary *dictionary, struct vt_bytes *json)
{
    vt_bytes_print(json, ",\"stacks\":[[]");
    for (size_t i = 0; i < dictionary->stack_count; i++) {
        const struct vt_stack_range *range = &dictionary->stacks[i];

        vt_bytes_add(json, ",[", 2);
        for (size_t k = 0; k < range->count; k++) {
            begin_item(json, k);
            vt_bytes_print(json, "%" PRIu32,
                           dictionary->frame_numbers[dictionary->stack_frames[range->first + k]] - 1);
        }
        vt_bytes_add(json, "]", 1);
    }
    vt_bytes_add(json, "]", 1);
}

static void put_tensor_list(const struct vt_dictionary *dictionary, uint64_t list, struct vt_bytes *json)
{
    for (size_t i = 0; list; i++) {
        const uint64_t *link = vt_row_words(&dictionary->tensor_lists, list);

        begin_item(json, i);
        vt_bytes_print(json, "%" PRIu64, link[0]);
        list = link[1];
    }
}

/* A place is its stack's frame: the one that the class shows. */
static uint32_t place_number(struct vt_dictionary *dictionary, size_t class_number)
{
    const struct vt_place *place = dictionary->class_facts[class_number].place;
    const uint64_t *words = vt_row_words(&dictionary->classes, class_number);
    uint64_t stack = words[CLASS_FORWARD_STACK] ? words[CLASS_FORWARD_STACK] : words[CLASS_STACK];
    uint32_t frame = stack ? dictionary->stacks[stack - 1].place_frame : NO_FRAME;
    struct vt_texts *texts = &dictionary->texts;

    if (!place)
        return 0;
    return vt_row_number(&dictionary->places,
                         (const uint64_t[PLACE_WORDS]){
                             vt_text_number(texts, place->name), vt_text_number(texts, place->frame.file),
                             (uint64_t)place->frame.line, vt_text_number(texts, place->frame.function),
                             frame == NO_FRAME ? UINT64_MAX : dictionary->frame_numbers[frame] - 1});
}

static void put_class(struct vt_dictionary *dictionary, size_t number, struct vt_bytes *json)
{
    const uint64_t *words = vt_row_words(&dictionary->classes, number);

    vt_bytes_add(json, "[", 1);
    put_words(json, words, CLASS_MODULE);
    vt_bytes_print(json, ",%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRIu32 ",%" PRIu64,
                   place_number(dictionary, number), words[CLASS_MODULE], words[CLASS_MODULE_CLASS],
                   dictionary->class_facts[number].operator_name, words[CLASS_RULE]);
    vt_bytes_print(json, ",%" PRIu64 ",%" PRId64 ",%" PRIu64 ",[", words[CLASS_COUNTED],
                   (int64_t)words[CLASS_CACHED], words[CLASS_DRIVER]);
    put_tensor_list(dictionary, words[CLASS_TENSORS], json);
    vt_bytes_print(json, "],%" PRIu64 "]", words[CLASS_LABEL]);
}

static void put_rules(struct vt_dictionary *dictionary, struct vt_bytes *json)
{
    vt_bytes_print(json, ",\"rules\":[");
    for (size_t i = 0; i < dictionary->rules.count; i++) {
        begin_item(json, i);
        vt_bytes_print(json, "%" PRIu32, vt_text_number(&dictionary->texts, dictionary->rules.items[i]));
    }
    vt_bytes_add(json, "]", 1);
}

/* The texts come last, when all have their numbers. */
void vt_dictionary_write(struct vt_dictionary *dictionary, const struct vt_trace *trace,
                         struct vt_bytes *json)
{
    vt_bytes_print(json, "{\"classes\":[");
    for (size_t i = 0; i < dictionary->classes.count; i++) {
        begin_item(json, i);
        put_class(dictionary, i, json);
    }
    vt_bytes_add(json, "]", 1);
    put_rows(json, "frames", &dictionary->frames);
    put_stacks(dictionary, json);
    put_rows(json, "places", &dictionary->places);
    put_rows(json, "tensors", &dictionary->tensors);
    put_rules(dictionary, json);
    vt_bytes_print(json, ",\"sources\":");
    vt_sources_write(&dictionary->places, &dictionary->texts, trace, json);
    vt_bytes_print(json, ",\"strings\":[");
    for (size_t i = 0; i < dictionary->texts.count; i++) {
        begin_item(json, i);
        vt_bytes_string(json, dictionary->texts.items[i]);
    }
    vt_bytes_print(json, "]}");
    if (has_failed(dictionary))
        json->failed = true;
}
