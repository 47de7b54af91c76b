#include "stacks/python_code.h"

#include "stacks/python_read.h"
#include "text.h"

/* Names of functions whose `self` is a module or an optimizer. */
static const char *const module_functions[] = {"forward", "_call_impl", "_wrapped_call_impl"};
static const char optimizer_function[] = "step";
static const char optimizer_folder[] = "/optim"; /* torch/optim; bitsandbytes/optim, apex/optimizers … */

/* ---- strings ---- */

struct text {
    const uint8_t *data;
    size_t length;  /* characters */
    unsigned width; /* bytes of a character: 1, 2, 4 */
    bool ascii;
};

enum { TEXT_MAXIMUM = 65536 }; /* characters */

static bool read_text(const struct vt_python *python, const char *object, struct text *text)
{
    const struct vt_python_layout *layout = python->layout;
    if (!vt_has_type(layout, object, python->unicode_type))
        return false;
    unsigned bits = vt_unicode_bits_at(layout, object), width = bits & VT_UNICODE_WIDTH;
    bool compact = (bits & VT_UNICODE_COMPACT) != 0;
    uint64_t length = vt_word_at(object, layout->unicode_length);
    if (!compact || (width != 1 && width != 2 && width != 4) || length > TEXT_MAXIMUM)
        return false;
    text->ascii = (bits & VT_UNICODE_ASCII) != 0;
    if (text->ascii && width != 1)
        return false;
    text->width = width;
    text->length = length;
    text->data =
        (const uint8_t *)object + (text->ascii ? layout->unicode_ascii_bytes : layout->unicode_compact_bytes);
    return true;
}

static uint32_t character_at(const struct text *text, size_t index)
{
    if (text->width == 1)
        return text->data[index];
    if (text->width == 2) {
        uint16_t character;
        memcpy(&character, text->data + index * 2, sizeof character);
        return character;
    }
    uint32_t character;
    memcpy(&character, text->data + index * 4, sizeof character);
    return character;
}

static bool text_is(const struct text *text, const char *expected)
{
    size_t length = strlen(expected);
    return text->ascii && text->length == length && memcmp(text->data, expected, length) == 0;
}

static bool text_contains(const struct text *text, const char *part)
{
    size_t length = strlen(part);
    for (size_t start = 0; start + length <= text->length; start++) {
        size_t matched = 0;
        while (matched < length && character_at(text, start + matched) == (unsigned char)part[matched])
            matched++;
        if (matched == length)
            return true;
    }
    return false;
}

/* Views a string as UTF-8. Text that is not ASCII is encoded into *buffer, which is moved on; what does not
 * fit is cut off. */
static void view_text(const struct vt_python *python, const char *object, char **buffer, size_t *left,
                      const char **viewed, size_t *viewed_bytes)
{
    struct text text;
    if (!read_text(python, object, &text)) {
        *viewed = "?";
        *viewed_bytes = 1;
        return;
    }
    if (text.ascii) {
        *viewed = (const char *)text.data;
        *viewed_bytes = text.length;
        return;
    }
    *viewed = *buffer;
    for (size_t i = 0; i < text.length; i++) {
        char encoded[VT_UTF8_MAXIMUM_BYTES];
        uint32_t character = character_at(&text, i);
        /* 0xfffd for a lone surrogate, as in file names that are not UTF-8 */
        size_t bytes = vt_utf8_encode(vt_utf8_is_character(character) ? character : 0xfffd, encoded);
        if (bytes > *left)
            break;
        memcpy(*buffer, encoded, bytes);
        *buffer += bytes;
        *left -= bytes;
    }
    *viewed_bytes = (size_t)(*buffer - *viewed);
}

bool vt_python_describe_code(const void *code, struct vt_python_code_view *view)
{
    const struct vt_python *python = vt_python_known();
    const char *object = code;
    if (python == NULL || !vt_has_type(python->layout, object, python->code_type))
        return false;
    const struct vt_python_layout *layout = python->layout;
    unsigned name = layout->code_qualified_name != 0 ? layout->code_qualified_name : layout->code_name;
    char *buffer = view->buffer;
    size_t left = view->buffer != NULL ? view->buffer_bytes : 0;
    view_text(python, vt_pointer_at(object, layout->code_file_name), &buffer, &left, &view->file,
              &view->file_bytes);
    view_text(python, vt_pointer_at(object, name), &buffer, &left, &view->name, &view->name_bytes);

    view->first_line = vt_int_at(object, layout->code_first_line);
    view->python_minor = layout->minor;
    view->line_table = NULL;
    view->line_table_bytes = 0;
    const char *table = vt_pointer_at(object, layout->code_line_table);
    if (vt_has_type(layout, table, python->bytes_type) &&
        vt_word_at(table, layout->object_size) < INT32_MAX) {
        view->line_table = (const uint8_t *)table + layout->bytes_data;
        view->line_table_bytes = vt_word_at(table, layout->object_size);
    }
    return true;
}

/* ---- self ---- */

static bool is_module_function(const struct text *name)
{
    for (size_t i = 0; i < sizeof module_functions / sizeof *module_functions; i++)
        if (text_is(name, module_functions[i]))
            return true;
    return false;
}

/* Not for every __call__: objects made for a single call would make every stack a new one. */
static bool wants_self(const struct vt_python *python, const char *code)
{
    const struct vt_python_layout *layout = python->layout;
    struct text name, file, first;
    if (!read_text(python, vt_pointer_at(code, layout->code_name), &name))
        return false;
    const bool is_step = text_is(&name, optimizer_function);
    if (!is_step && !is_module_function(&name))
        return false;
    if (is_step && (!read_text(python, vt_pointer_at(code, layout->code_file_name), &file) ||
                    !text_contains(&file, optimizer_folder)))
        return false;
    const char *names = vt_pointer_at(code, layout->code_local_names);
    return vt_int_at(code, layout->code_argument_count) > 0 &&
           vt_has_type(layout, names, python->tuple_type) &&
           (int64_t)vt_word_at(names, layout->object_size) > 0 &&
           read_text(python, vt_pointer_at(names, layout->tuple_items), &first) && text_is(&first, "self");
}

enum { SELF_SLOT_MAXIMUM = 1 << (VT_SELF_NOTE_BITS - VT_SELF_KIND_BITS) };

/* Before 3.11 an argument that is a cell is stored after the locals; co_cell2arg says in which cell. */
static uint64_t self_before_3_11(const struct vt_python *python, const char *code)
{
    const struct vt_python_layout *layout = python->layout;
    const char *arguments = vt_pointer_at(code, layout->code_cell_to_argument);
    const char *cells = vt_pointer_at(code, layout->code_cell_names);
    if (arguments == NULL)
        return VT_SELF_PLAIN;
    if (!vt_is_plausible(arguments) || !vt_has_type(layout, cells, python->tuple_type))
        return VT_SELF_NONE;
    uint64_t locals = (uint64_t)vt_int_at(code, layout->code_local_count);
    uint64_t count = vt_word_at(cells, layout->object_size);
    for (uint64_t i = 0; i < count && locals + i < SELF_SLOT_MAXIMUM; i++)
        if (vt_word_at(arguments, i * 8) == 0)
            return VT_SELF_CELL | (locals + i) << VT_SELF_KIND_BITS;
    return VT_SELF_PLAIN;
}

static uint64_t find_self(const struct vt_python *python, const char *code)
{
    const struct vt_python_layout *layout = python->layout;
    if (!wants_self(python, code))
        return VT_SELF_NONE;
    if (layout->code_local_kinds == 0)
        return self_before_3_11(python, code);
    const char *kinds = vt_pointer_at(code, layout->code_local_kinds);
    if (!vt_has_type(layout, kinds, python->bytes_type) ||
        (int64_t)vt_word_at(kinds, layout->object_size) < 1)
        return VT_SELF_NONE;
    return (kinds[layout->bytes_data] & VT_LOCAL_IS_CELL) != 0 ? VT_SELF_CELL : VT_SELF_PLAIN;
}

uint64_t vt_python_self_note(const struct vt_python *python, const char *code)
{
    uint64_t note = find_self(python, code);
    return (note & VT_SELF_KIND_MASK) == VT_SELF_CELL && !python->cells_readable ? VT_SELF_NONE : note;
}
