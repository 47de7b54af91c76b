/* Flattens the objects of schema.def, and reads cells. */
#include "report/columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/index.h"

#define NAME_BYTES 128

struct flattening {
    struct vt_columns *columns;
    size_t capacity;
    struct vt_column_step path[VT_COLUMN_STEPS];
    uint32_t steps;
};

static enum vt_cell_kind cell_kind(unsigned field_kind)
{
    switch (field_kind) {
    case VT_FIELD_UNSIGNED:
    case VT_FIELD_BY_WORD:
        return VT_CELL_UNSIGNED;
    case VT_FIELD_SIGNED:
    case VT_FIELD_CHANGE:
        return VT_CELL_INTEGER;
    case VT_FIELD_BOOL:
        return VT_CELL_BOOL;
    case VT_FIELD_REAL:
        return VT_CELL_REAL;
    case VT_FIELD_TEXT:
    case VT_FIELD_CHARS:
    case VT_FIELD_NAME:
    case VT_FIELD_WORD:
        return VT_CELL_TEXT;
    default:
        return VT_CELL_NULL; /* no column */
    }
}

const char *vt_cell_kind_name(unsigned kind)
{
    static const char *const names[] = {"null", "integer", "unsigned", "real", "boolean", "text"};

    return names[kind];
}

static void add_column(struct flattening *flattening, const struct vt_field *field, const char *name,
                       uint32_t word)
{
    struct vt_columns *columns = flattening->columns;
    struct vt_column column = {.name = vt_copy_text(name),
                               .about = field->about,
                               .kind = cell_kind(field->kind),
                               .unit = field->unit,
                               .field = field,
                               .steps = flattening->steps,
                               .word = word};

    memcpy(column.path, flattening->path, sizeof column.path);
    VT_APPEND(columns->items, columns->count, flattening->capacity, column);
}

static void add_words(struct flattening *flattening, const struct vt_field *field, const char *prefix)
{
    char name[NAME_BYTES];

    for (uint32_t word = 0; word < field->count; word++) {
        if (word + 1 == field->skipped)
            continue;
        snprintf(name, sizeof name, "%s%s_bytes", prefix, field->word(word));
        add_column(flattening, field, name, word);
    }
}

static void flatten_object(struct flattening *flattening, const struct vt_object *object, const char *prefix);

static void flatten_inside(struct flattening *flattening, const struct vt_field *field, const char *prefix)
{
    char name[NAME_BYTES];

    if (flattening->steps == VT_COLUMN_STEPS)
        abort(); /* an object of schema.def is nested too deep for a row */
    flattening->path[flattening->steps++] =
        (struct vt_column_step){field->offset, field->kind == VT_FIELD_POINTER};
    snprintf(name, sizeof name, field->name ? "%s%s_" : "%s", prefix, field->name);
    flatten_object(flattening, field->object(), name);
    flattening->steps--;
}

static void flatten_object(struct flattening *flattening, const struct vt_object *object, const char *prefix)
{
    char name[NAME_BYTES];

    for (const struct vt_field *field = object->fields; field->kind != VT_FIELD_END; field++) {
        snprintf(name, sizeof name, "%s%s", prefix, field->name ? field->name : "");
        if (field->kind == VT_FIELD_OBJECT || field->kind == VT_FIELD_POINTER)
            flatten_inside(flattening, field, prefix);
        else if (field->kind == VT_FIELD_BY_WORD)
            add_words(flattening, field, prefix);
        else if (cell_kind(field->kind) != VT_CELL_NULL)
            add_column(flattening, field, name, 0);
    }
}

void vt_columns_make(const struct vt_object *object, struct vt_columns *columns)
{
    struct flattening flattening = {.columns = columns};

    *columns = (struct vt_columns){0};
    flatten_object(&flattening, object, "");
}

void vt_columns_free(struct vt_columns *columns)
{
    for (size_t i = 0; i < columns->count; i++)
        free(columns->items[i].name);
    free(columns->items);
    *columns = (struct vt_columns){0};
}

/* The structure that has the column's member; NULL where a pointer on the way is. */
static const char *find_structure(const struct vt_column *column, const void *row)
{
    const char *structure = row;

    for (uint32_t i = 0; i < column->steps && structure; i++) {
        structure += column->path[i].offset;
        if (column->path[i].is_pointer)
            structure = *(const char *const *)(const void *)structure;
    }
    return structure;
}

static struct vt_cell text_cell(const char *text, bool empty_is_null)
{
    if (!text || (empty_is_null && !text[0]))
        return (struct vt_cell){.kind = empty_is_null ? VT_CELL_NULL : VT_CELL_TEXT, .text = ""};
    return (struct vt_cell){.kind = VT_CELL_TEXT, .text = text};
}

struct vt_cell vt_column_read(const struct vt_column *column, const void *row)
{
    const struct vt_field *field = column->field;
    const char *structure = find_structure(column, row);
    const void *member = structure ? structure + field->offset : NULL;

    if (!member || (field->needs_size && vt_is_zero(structure + field->needs_offset, field->needs_size)))
        return (struct vt_cell){.kind = VT_CELL_NULL};
    switch (field->kind) {
    case VT_FIELD_UNSIGNED:
        return (struct vt_cell){.kind = VT_CELL_UNSIGNED,
                                .unsigned_value = vt_read_unsigned(member, field->size)};
    case VT_FIELD_SIGNED:
        return (struct vt_cell){.kind = VT_CELL_INTEGER,
                                .integer =
                                    field->size == 4 ? *(const int32_t *)member : *(const int64_t *)member};
    case VT_FIELD_BOOL:
        return (struct vt_cell){.kind = VT_CELL_BOOL, .unsigned_value = *(const bool *)member};
    case VT_FIELD_REAL:
        return (struct vt_cell){.kind = VT_CELL_REAL, .real = *(const double *)member};
    case VT_FIELD_TEXT:
        return text_cell(*(const char *const *)member, false);
    case VT_FIELD_CHARS:
        return text_cell(member, false);
    case VT_FIELD_NAME:
        return text_cell(*(const char *const *)member, true);
    case VT_FIELD_WORD:
        return text_cell(field->word((unsigned)vt_read_unsigned(member, field->size)), false);
    case VT_FIELD_CHANGE: /* differences wrap around to what they are */
        return (struct vt_cell){.kind = VT_CELL_INTEGER,
                                .integer =
                                    (int64_t)(*(const uint64_t *)(const void *)(structure + field->other) -
                                              *(const uint64_t *)member)};
    case VT_FIELD_BY_WORD:
        return (struct vt_cell){.kind = VT_CELL_UNSIGNED,
                                .unsigned_value = ((const uint64_t *)member)[column->word]};
    default:
        return (struct vt_cell){.kind = VT_CELL_NULL};
    }
}
