/* Walks a structure by the tables of its object, builds JSON with cJSON, and prints it. */
#include "view/json/json.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/memory_stream.h"
#include "base/utf8.h"

#define FRAMES 512

/* ---- Reading members ---- */

static const void *read_pointer(const void *member)
{
    return *(const void *const *)member;
}

/* ---- Values ---- */

/* Integers are written digit by digit: one that went through a double can lose its last digits. */
static cJSON *make_unsigned(uint64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, value);
    return cJSON_CreateRaw(text);
}

static cJSON *make_signed(const void *member, size_t size)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRId64, size == 4 ? *(const int32_t *)member : *(const int64_t *)member);
    return cJSON_CreateRaw(text);
}

static cJSON *make_change(uint64_t before, uint64_t after)
{
    char text[32];

    snprintf(text, sizeof text, "%s%" PRIu64, after < before ? "-" : "",
             after < before ? before - after : after - before);
    return cJSON_CreateRaw(text);
}

static cJSON *make_text(const char *text)
{
    return cJSON_CreateString(text ? text : "");
}

static cJSON *make_name(const char *name)
{
    return name && name[0] ? cJSON_CreateString(name) : cJSON_CreateNull();
}

/* A number; for an event, its number in the file. */
static uint64_t read_number(const struct vt_json_style *style, const struct vt_field *field,
                            const void *member, size_t size)
{
    uint64_t number = vt_read_unsigned(member, size);

    if (!style->report || (field->unit != VT_UNIT_EVENT && field->unit != VT_UNIT_LAST_EVENT))
        return number;
    return field->unit == VT_UNIT_EVENT ? vt_report_event_number(style->report, number)
                                        : vt_report_last_event_number(style->report, number);
}

/* An array of numbers as one raw piece: an item for each of thousands would take long. */
static cJSON *make_numbers(const struct vt_json_style *style, const struct vt_field *field,
                           const char *values, size_t count, size_t stride, size_t size)
{
    char *text;
    size_t bytes;
    FILE *stream = vt_memory_stream(&text, &bytes);
    cJSON *item;

    for (size_t i = 0; i < count; i++)
        fprintf(stream, "%c%" PRIu64, i ? ',' : '[', read_number(style, field, values + i * stride, size));
    fputs(count ? "]" : "[]", stream);
    fclose(stream);
    item = cJSON_CreateRaw(text);
    free(text);
    return item;
}

/* ---- Objects ---- */

/* Without memory the item is NULL, or it is not added: then these end the command. */
static void put_item(cJSON *object, const char *name, cJSON *item)
{
    if (!cJSON_AddItemToObject(object, name, item))
        vt_end_out_of_memory();
}

static void append_item(cJSON *array, cJSON *item)
{
    if (!cJSON_AddItemToArray(array, item))
        vt_end_out_of_memory();
}

static void put_fields(const struct vt_json_style *style, cJSON *object, const struct vt_object *described,
                       const char *structure);

static cJSON *make_object(const struct vt_json_style *style, const struct vt_object *described,
                          const char *structure)
{
    cJSON *object = cJSON_CreateObject();

    put_fields(style, object, described, structure);
    return object;
}

/* Without a name, its fields become fields of `object`. */
static void put_object(const struct vt_json_style *style, cJSON *object, const struct vt_field *field,
                       const char *structure)
{
    /* all zero, in place of a missing structure */
    static const uint64_t nothing[64];
    const struct vt_object *described = field->object();

    if (!structure && described->size <= sizeof nothing)
        structure = (const char *)nothing;
    if (!structure)
        return;
    if (field->name)
        put_item(object, field->name, make_object(style, described, structure));
    else
        put_fields(style, object, described, structure);
}

static cJSON *make_list(const struct vt_json_style *style, const struct vt_field *field, const char *items,
                        size_t count)
{
    const struct vt_object *described = field->object();
    cJSON *array = cJSON_CreateArray();

    if ((field->limited || style->brief) && style->top > 0 && count > (size_t)style->top)
        count = (size_t)style->top;
    for (size_t i = 0; i < count; i++)
        append_item(array, make_object(style, described, items + i * field->size));
    return array;
}

static cJSON *make_map(const struct vt_json_style *style, const struct vt_field *field, const char *items,
                       size_t count)
{
    const struct vt_object *described = field->object();
    cJSON *object = cJSON_CreateObject();

    for (size_t i = 0; i < count; i++)
        put_item(object, read_pointer(items + i * field->size),
                 make_object(style, described, items + i * field->size));
    return object;
}

static cJSON *make_stack(const struct vt_json_style *style, const struct vt_field *field, uint32_t stack_id)
{
    struct vt_frame frames[FRAMES];
    size_t count = vt_stack_frames(style->places, stack_id, frames, FRAMES);
    cJSON *array = cJSON_CreateArray();

    for (size_t i = 0; i < count && i < FRAMES; i++)
        append_item(array, make_object(style, field->object(), (const char *)&frames[i]));
    return array;
}

/* From texts in the structure, or from the enums of one byte that a member points to. */
static cJSON *make_texts(const struct vt_field *field, const char *items, size_t count)
{
    cJSON *array = cJSON_CreateArray();

    for (size_t i = 0; i < count; i++)
        append_item(array, make_text(field->word ? field->word((uint8_t)items[i])
                                                 : read_pointer(items + i * field->size)));
    return array;
}

static bool is_zero_column(const char *values, size_t count, size_t stride)
{
    for (size_t i = 0; i < count; i++)
        if (vt_read_unsigned(values + i * stride, sizeof(uint64_t)))
            return false;
    return true;
}

/* Numbers, differences or columns of numbers, by the names of an enum. */
static void put_by_word(const struct vt_json_style *style, cJSON *object, const struct vt_field *field,
                        const char *structure, size_t columns)
{
    const uint64_t *values = (const void *)(structure + field->offset);
    const uint64_t *others = (const void *)(structure + field->other);

    for (uint32_t word = 0; word < field->count; word++) {
        cJSON *item;

        if (word + 1 == field->skipped)
            continue;
        if (field->kind == VT_FIELD_COLUMNS_BY_WORD) {
            const char *column = (const char *)read_pointer(values) + word * sizeof *values;

            if (field->nonzero && is_zero_column(column, columns, field->size))
                continue;
            item = make_numbers(style, field, column, columns, field->size, sizeof *values);
        } else if (field->nonzero && !values[word])
            continue;
        else if (field->kind == VT_FIELD_BY_WORD)
            item = make_unsigned(values[word]);
        else if (values[word] != others[word])
            item = make_change(values[word], others[word]);
        else
            continue;
        put_item(object, field->word(word), item);
    }
}

/* ---- Fields ---- */

static cJSON *make_value(const struct vt_json_style *style, const struct vt_field *field,
                         const char *structure, size_t count)
{
    const char *member = structure + field->offset;

    switch ((enum vt_field_kind)field->kind) {
    case VT_FIELD_UNSIGNED:
        return make_unsigned(read_number(style, field, member, field->size));
    case VT_FIELD_SIGNED:
        return make_signed(member, field->size);
    case VT_FIELD_BOOL:
        return cJSON_CreateBool(*(const bool *)member);
    case VT_FIELD_REAL:
        return cJSON_CreateNumber(*(const double *)(const void *)member);
    case VT_FIELD_TEXT:
        return make_text(read_pointer(member));
    case VT_FIELD_CHARS:
        return make_text(member);
    case VT_FIELD_NAME:
        return make_name(read_pointer(member));
    case VT_FIELD_WORD:
        return make_text(field->word((unsigned)vt_read_unsigned(member, field->size)));
    case VT_FIELD_CHANGE:
        return make_change(vt_read_unsigned(member, field->size),
                           vt_read_unsigned(structure + field->other, field->size));
    case VT_FIELD_NUMBERS:
        return make_numbers(style, field, read_pointer(member), count, field->size, field->size);
    case VT_FIELD_OF_EACH:
        return make_numbers(style, field, (const char *)read_pointer(member) + field->other, count,
                            field->size, sizeof(uint64_t));
    case VT_FIELD_WORDS:
        return make_texts(field, read_pointer(member), count);
    case VT_FIELD_TEXTS:
        return make_texts(field, member, count);
    case VT_FIELD_LIST:
        return make_list(style, field, read_pointer(member), count);
    case VT_FIELD_ARRAY:
        return make_list(style, field, member, count);
    case VT_FIELD_MAP:
        return make_map(style, field, read_pointer(member), count);
    case VT_FIELD_STACK:
        return make_stack(style, field, (uint32_t)vt_read_unsigned(member, field->size));
    default:
        return NULL;
    }
}

static void put_field(const struct vt_json_style *style, cJSON *object, const struct vt_field *field,
                      const char *structure)
{
    const char *member = structure + field->offset;
    size_t count =
        field->count_size ? vt_read_unsigned(structure + field->count_offset, field->count_size) : 0;
    cJSON *inner = object;

    switch ((enum vt_field_kind)field->kind) {
    case VT_FIELD_OBJECT:
        put_object(style, object, field, member);
        return;
    case VT_FIELD_POINTER:
        put_object(style, object, field, read_pointer(member));
        return;
    case VT_FIELD_BY_WORD:
    case VT_FIELD_CHANGES_BY_WORD:
    case VT_FIELD_COLUMNS_BY_WORD:
        if (field->name)
            put_item(object, field->name, inner = cJSON_CreateObject());
        put_by_word(style, inner, field, structure, count);
        return;
    default:
        put_item(object, field->name, make_value(style, field, structure, count));
    }
}

static void put_fields(const struct vt_json_style *style, cJSON *object, const struct vt_object *described,
                       const char *structure)
{
    for (const struct vt_field *field = described->fields; field->kind != VT_FIELD_END; field++) {
        if (field->kind == VT_FIELD_STACK && style->brief)
            continue;
        if (!field->needs_size || !vt_is_zero(structure + field->needs_offset, field->needs_size))
            put_field(style, object, field, structure);
        else if (field->absence == VT_NULL)
            put_item(object, field->name, cJSON_CreateNull());
    }
}

/* ---- Printing ---- */

/* All that is not ASCII is in strings, and so is "<". What a terminal would obey is escaped, as JSON may
 * escape any letter; bytes that are no UTF-8 have no place in JSON and become U+FFFD. */
static void print_safe(const char *text, bool in_html, FILE *out)
{
    const char *start = text;
    uint32_t code;

    for (size_t bytes;; text += bytes) {
        while (*text > 0 && *text < 0x7f && !(in_html && *text == '<')) /* nearly all of it */
            text++;
        bytes = vt_utf8_next(text, &code);
        if (!bytes)
            break;
        if (!vt_is_unsafe(code) && code != '<')
            continue;
        fwrite(start, 1, (size_t)(text - start), out);
        if (code == VT_REPLACEMENT)
            fputs(VT_REPLACEMENT_TEXT, out);
        else
            fprintf(out, "\\u%04x", (unsigned)code);
        start = text + bytes;
    }
    fwrite(start, 1, (size_t)(text - start), out);
}

/* Frees the item. */
static char *text_of(cJSON *item, bool compact)
{
    char *text = compact ? cJSON_PrintUnformatted(item) : cJSON_Print(item);

    if (!text)
        vt_end_out_of_memory();
    cJSON_Delete(item);
    return text;
}

void vt_json_text(const char *text, bool in_html, FILE *out)
{
    char *quoted = text_of(cJSON_CreateStringReference(text), true);

    print_safe(quoted, in_html, out);
    cJSON_free(quoted);
}

void vt_json_fields(const struct vt_document *document, const void *root, const struct vt_json_style *style,
                    FILE *out)
{
    char *text = text_of(make_object(style, document->root(), root), true);

    text[strlen(text) - 1] = '\0';
    print_safe(text + 1, style->in_html, out);
    cJSON_free(text);
}

void vt_json_write(const struct vt_document *document, const void *root, const struct vt_json_style *style,
                   FILE *out)
{
    cJSON *object = cJSON_CreateObject();
    char *text;

    if (document->format)
        put_item(object, "format", cJSON_CreateString(document->format));
    put_fields(style, object, document->root(), root);
    text = text_of(object, style->compact);
    print_safe(text, style->in_html, out);
    fputc('\n', out);
    cJSON_free(text);
}
