#include "stacks/unwind_tables.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "loader/fork_gate.h"

enum { REMEMBERED_MAXIMUM = 4, INDEX_HEADER_BYTES = 12, INDEX_ENTRY_BYTES = 8 };

/* A loaded library's memory range, and its index of functions (.eh_frame_hdr). */
struct image {
    const uint8_t *start, *end;
    const uint8_t *index;
};

/* The unread bytes of a table. Reading past the end sets `failed` and returns 0. */
struct cursor {
    const uint8_t *at, *end;
    bool failed;
};

/* ---- finding the library ---- */

/* In glibc's <dlfcn.h> from 2.35 on; the build machine's may be older. */
struct find_object_result {
    unsigned long long flags;
    void *start, *end;
    void *link_map;
    void *unwind_index;
    unsigned long long reserved[7];
};
static _Atomic(int (*)(void *, struct find_object_result *)) find_object;

void vt_unwind_tables_start(void)
{
    int (*found)(void *, struct find_object_result *) = NULL;
    void *symbol = dlsym(RTLD_DEFAULT, "_dl_find_object");
    memcpy(&found, &symbol, sizeof found);
    atomic_store_explicit(&find_object, found, memory_order_release);
}

struct image_search {
    uintptr_t address;
    struct image image;
};

static int visit_image(struct dl_phdr_info *info, size_t info_bytes, void *context)
{
    struct image_search *search = context;
    uintptr_t start = UINTPTR_MAX, end = 0;
    const uint8_t *index = NULL;
    bool inside = false;
    (void)info_bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_GNU_EH_FRAME)
            index = (const uint8_t *)from;
        if (part->p_type != PT_LOAD)
            continue;
        inside |= search->address - from < part->p_memsz;
        start = from < start ? from : start;
        end = from + part->p_memsz > end ? from + part->p_memsz : end;
    }
    if (inside)
        search->image = (struct image){(const uint8_t *)start, (const uint8_t *)end, index};
    return inside;
}

static bool find_image(uintptr_t address, struct image *image)
{
    int (*find)(void *, struct find_object_result *) =
        atomic_load_explicit(&find_object, memory_order_acquire);
    if (find) {
        struct find_object_result found;
        if (find((void *)address, &found))
            return false;
        *image = (struct image){found.start, found.end, found.unwind_index};
    } else {
        struct image_search search = {.address = address};
        struct vt_gate gate;
        vt_gate_enter(&gate);
        dl_iterate_phdr(visit_image, &search);
        vt_gate_leave(&gate);
        *image = search.image;
    }
    return image->index && image->index >= image->start && image->index < image->end;
}

/* ---- reading ---- */

static uint64_t take(struct cursor *cursor, size_t bytes)
{
    uint64_t value = 0;
    if (cursor->failed || (size_t)(cursor->end - cursor->at) < bytes) {
        cursor->failed = true;
        return 0;
    }
    memcpy(&value, cursor->at, bytes);
    cursor->at += bytes;
    return value;
}

bool vt_leb_unsigned(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; *at < end; shift += 7) {
        uint8_t byte = *(*at)++;
        if (shift < 64)
            *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

bool vt_leb_signed(const uint8_t **at, const uint8_t *end, int64_t *value)
{
    uint64_t bits = 0;
    for (unsigned shift = 0; *at < end;) {
        uint8_t byte = *(*at)++;
        if (shift < 64)
            bits |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (byte & 0x80)
            continue;
        if (shift < 64 && (byte & 0x40))
            bits |= UINT64_MAX << shift;
        *value = (int64_t)bits;
        return true;
    }
    return false;
}

static uint64_t take_unsigned(struct cursor *cursor)
{
    uint64_t value = 0;
    cursor->failed = cursor->failed || !vt_leb_unsigned(&cursor->at, cursor->end, &value);
    return cursor->failed ? 0 : value;
}

static int64_t take_signed(struct cursor *cursor)
{
    int64_t value = 0;
    cursor->failed = cursor->failed || !vt_leb_signed(&cursor->at, cursor->end, &value);
    return cursor->failed ? 0 : value;
}

/* A pointer in an "eh" encoding: the low four bits say how it is stored, the next three what it is relative
 * to. */
enum {
    ENCODED_ABSOLUTE = 0x00,
    ENCODED_RELATIVE = 0x10, /* to its own address */
    ENCODED_TO_INDEX = 0x30, /* to the start of .eh_frame_hdr */
    ENCODED_OMITTED = 0xff,
};

static uint64_t take_encoded(struct cursor *cursor, uint8_t encoding, const uint8_t *index)
{
    const uint8_t *here = cursor->at;
    uint64_t value = 0;
    switch (encoding & 0x0f) {
    case 0x00: /* a word */
    case 0x04:
    case 0x0c:
        value = take(cursor, 8);
        break;
    case 0x01:
        value = take_unsigned(cursor);
        break;
    case 0x02:
        value = take(cursor, 2);
        break;
    case 0x03:
        value = take(cursor, 4);
        break;
    case 0x09:
        value = (uint64_t)take_signed(cursor);
        break;
    case 0x0a:
        value = (uint64_t)(int16_t)take(cursor, 2);
        break;
    case 0x0b:
        value = (uint64_t)(int32_t)take(cursor, 4);
        break;
    default:
        cursor->failed = true;
    }
    switch (encoding & 0x70) {
    case ENCODED_ABSOLUTE:
        return value;
    case ENCODED_RELATIVE:
        return value + (uintptr_t)here;
    case ENCODED_TO_INDEX:
        return value + (uintptr_t)index;
    default:
        cursor->failed = true;
        return 0;
    }
}

/* ---- entries ---- */

/* What several functions have in common (CIE). */
struct common {
    uint64_t code_factor;
    int64_t data_factor;
    uint8_t pointer_encoding;
    bool signal_frame, sized;
    struct cursor instructions;
};

/* Reads the length and body of the entry at `at`. False for the end mark, and for 64-bit DWARF, which no
 * compiler uses here. */
static bool open_entry(const struct image *image, const uint8_t *at, struct cursor *body)
{
    if (at < image->start || at >= image->end)
        return false;
    *body = (struct cursor){at, image->end, false};
    uint64_t bytes = take(body, 4);
    if (body->failed || bytes < 4 || bytes >= 0xfffffff0 || bytes > (size_t)(body->end - body->at))
        return false;
    body->end = body->at + bytes;
    return true;
}

static bool read_augmentation(struct common *common, struct cursor *body, const char *letters)
{
    common->sized = *letters == 'z';
    if (!common->sized)
        return *letters == 0;
    uint64_t bytes = take_unsigned(body);
    if (body->failed || bytes > (size_t)(body->end - body->at))
        return false;
    const uint8_t *end = body->at + bytes;
    while (*++letters) {
        uint8_t encoding;
        switch (*letters) {
        case 'R':
            common->pointer_encoding = (uint8_t)take(body, 1);
            break;
        case 'L':
            take(body, 1);
            break;
        case 'P':
            encoding = (uint8_t)take(body, 1);
            take_encoded(body, encoding & 0x0f, NULL);
            break;
        case 'S':
            common->signal_frame = true;
            break;
        default:
            return false; /* what follows cannot be parsed */
        }
    }
    body->at = end;
    return !body->failed;
}

static bool read_common(const struct image *image, const uint8_t *at, struct common *common)
{
    struct cursor body;
    *common = (struct common){.pointer_encoding = ENCODED_ABSOLUTE};
    if (!open_entry(image, at, &body) || take(&body, 4) != 0)
        return false;
    uint64_t version = take(&body, 1);
    const char *letters = (const char *)body.at;
    size_t length = strnlen(letters, (size_t)(body.end - body.at));
    take(&body, length + 1);
    if (body.failed || (version != 1 && version != 3))
        return false;
    common->code_factor = take_unsigned(&body);
    common->data_factor = take_signed(&body);
    uint64_t return_register = version == 1 ? take(&body, 1) : take_unsigned(&body);
    if (body.failed || return_register != VT_REGISTER_RETURN || !read_augmentation(common, &body, letters))
        return false;
    common->instructions = body;
    return true;
}

/* The entry (FDE) whose function is the last to start at or before `address`. */
static const uint8_t *find_entry(const struct image *image, uintptr_t address)
{
    struct cursor head = {image->index, image->end, false};
    enum { VERSION = 1, TABLE_OF_OFFSETS = 0x3b };
    uint64_t version = take(&head, 1);
    uint8_t start_encoding = (uint8_t)take(&head, 1), count_encoding = (uint8_t)take(&head, 1);
    if (take(&head, 1) != TABLE_OF_OFFSETS || version != VERSION || count_encoding == ENCODED_OMITTED)
        return NULL;
    take_encoded(&head, start_encoding, image->index);
    uint64_t count = take_encoded(&head, count_encoding, image->index);
    if (head.failed || count == 0 || count > (size_t)(head.end - head.at) / INDEX_ENTRY_BYTES)
        return NULL;
    int32_t wanted = (int32_t)((intptr_t)address - (intptr_t)image->index), entry[2];
    size_t low = 0, high = count; /* the entry before `low` starts at or before it */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        memcpy(entry, head.at + middle * INDEX_ENTRY_BYTES, sizeof entry);
        if (entry[0] <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    memcpy(entry, head.at + (low - 1) * INDEX_ENTRY_BYTES, sizeof entry);
    return image->index + entry[1];
}

/* ---- the program that builds the rows ---- */

struct program {
    const struct common *common;
    struct vt_unwind_row row;     /* so far */
    struct vt_unwind_row initial; /* after the common part */
    struct vt_unwind_row remembered[REMEMBERED_MAXIMUM];
    unsigned remembered_count;
    struct vt_rule ignored; /* for registers that are not needed, such as vectors */
    uintptr_t location, address;
};

static struct vt_rule *rule_of(struct program *program, uint64_t number)
{
    return number < VT_REGISTERS ? &program->row.registers[number] : &program->ignored;
}

static void restore(struct program *program, uint64_t number)
{
    if (number < VT_REGISTERS)
        program->row.registers[number] = program->initial.registers[number];
}

static struct vt_rule take_expression(struct cursor *code, enum vt_rule_kind kind)
{
    uint64_t bytes = take_unsigned(code);
    if (code->failed || bytes > (size_t)(code->end - code->at) || bytes > INT32_MAX) {
        code->failed = true;
        return (struct vt_rule){.kind = VT_RULE_UNDEFINED};
    }
    struct vt_rule rule = {.kind = (uint8_t)kind, .offset = (int32_t)bytes, .expression = code->at};
    code->at += bytes;
    return rule;
}

static struct vt_rule offset_rule(struct cursor *code, enum vt_rule_kind kind, int64_t offset)
{
    code->failed |= offset != (int32_t)offset;
    return (struct vt_rule){.kind = (uint8_t)kind, .offset = (int32_t)offset};
}

static void set_cfa(struct program *program, struct cursor *code, uint64_t number, int64_t offset)
{
    code->failed |= number >= VT_REGISTER_RETURN;
    program->row.cfa_register = (uint8_t)number;
    program->row.cfa = offset_rule(code, VT_RULE_OFFSET, offset);
}

/* DW_CFA_*; first those with their operand in the low six bits. */
enum {
    ADVANCE = 1,
    OFFSET = 2,
    RESTORE = 3,
    NOTHING = 0x00,
    SET_LOCATION = 0x01,
    ADVANCE_1 = 0x02,
    ADVANCE_2 = 0x03,
    ADVANCE_4 = 0x04,
    OFFSET_EXTENDED = 0x05,
    RESTORE_EXTENDED = 0x06,
    UNDEFINED = 0x07,
    SAME_VALUE = 0x08,
    REGISTER = 0x09,
    REMEMBER_STATE = 0x0a,
    RESTORE_STATE = 0x0b,
    DEFINE_CFA = 0x0c,
    DEFINE_CFA_REGISTER = 0x0d,
    DEFINE_CFA_OFFSET = 0x0e,
    DEFINE_CFA_EXPRESSION = 0x0f,
    EXPRESSION = 0x10,
    OFFSET_EXTENDED_SIGNED = 0x11,
    DEFINE_CFA_SIGNED = 0x12,
    DEFINE_CFA_OFFSET_SIGNED = 0x13,
    VALUE_OFFSET = 0x14,
    VALUE_OFFSET_SIGNED = 0x15,
    VALUE_EXPRESSION = 0x16,
    GNU_ARGUMENTS_SIZE = 0x2e,
    GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

/* An offset operand, scaled by the table's unit. */
static int64_t take_offset(const struct program *program, struct cursor *code, bool is_signed)
{
    return (is_signed ? take_signed(code) : (int64_t)take_unsigned(code)) * program->common->data_factor;
}

static void step_register(struct program *program, struct cursor *code, uint8_t operation)
{
    const bool is_signed = operation == OFFSET_EXTENDED_SIGNED || operation == VALUE_OFFSET_SIGNED;
    const uint64_t number = take_unsigned(code);
    struct vt_rule *rule = rule_of(program, number);
    switch (operation) {
    case OFFSET_EXTENDED:
    case OFFSET_EXTENDED_SIGNED:
        *rule = offset_rule(code, VT_RULE_AT_OFFSET, take_offset(program, code, is_signed));
        break;
    case GNU_NEGATIVE_OFFSET_EXTENDED:
        *rule = offset_rule(code, VT_RULE_AT_OFFSET, -take_offset(program, code, false));
        break;
    case VALUE_OFFSET:
    case VALUE_OFFSET_SIGNED:
        *rule = offset_rule(code, VT_RULE_OFFSET, take_offset(program, code, is_signed));
        break;
    case REGISTER:
        *rule = offset_rule(code, VT_RULE_REGISTER, (int64_t)take_unsigned(code));
        break;
    case EXPRESSION:
    case VALUE_EXPRESSION:
        *rule = take_expression(code, operation == EXPRESSION ? VT_RULE_AT_EXPRESSION : VT_RULE_EXPRESSION);
        break;
    case RESTORE_EXTENDED:
        restore(program, number);
        break;
    case UNDEFINED:
    case SAME_VALUE:
        *rule = (struct vt_rule){.kind = operation == UNDEFINED ? VT_RULE_UNDEFINED : VT_RULE_SAME};
        break;
    default:
        code->failed = true;
    }
}

static void step_extended(struct program *program, struct cursor *code, uint8_t operation)
{
    struct vt_unwind_row *row = &program->row;
    uint64_t number;
    switch (operation) {
    case NOTHING:
        break;
    case SET_LOCATION:
        program->location = take_encoded(code, program->common->pointer_encoding, NULL);
        break;
    case ADVANCE_1:
    case ADVANCE_2:
    case ADVANCE_4:
        program->location += take(code, (size_t)1 << (operation - ADVANCE_1)) * program->common->code_factor;
        break;
    case REMEMBER_STATE:
        code->failed |= program->remembered_count == REMEMBERED_MAXIMUM;
        if (!code->failed)
            program->remembered[program->remembered_count++] = *row;
        break;
    case RESTORE_STATE:
        code->failed |= program->remembered_count == 0;
        if (!code->failed)
            *row = program->remembered[--program->remembered_count];
        break;
    case DEFINE_CFA:
        number = take_unsigned(code);
        set_cfa(program, code, number, (int64_t)take_unsigned(code));
        break;
    case DEFINE_CFA_SIGNED:
        number = take_unsigned(code);
        set_cfa(program, code, number, take_offset(program, code, true));
        break;
    case DEFINE_CFA_REGISTER:
        set_cfa(program, code, take_unsigned(code), row->cfa.offset);
        break;
    case DEFINE_CFA_OFFSET:
        set_cfa(program, code, row->cfa_register, (int64_t)take_unsigned(code));
        break;
    case DEFINE_CFA_OFFSET_SIGNED:
        set_cfa(program, code, row->cfa_register, take_offset(program, code, true));
        break;
    case DEFINE_CFA_EXPRESSION:
        row->cfa = take_expression(code, VT_RULE_EXPRESSION);
        break;
    case GNU_ARGUMENTS_SIZE:
        take_unsigned(code);
        break;
    default:
        step_register(program, code, operation);
    }
}

/* Runs until the row of program->address is complete. */
static bool run(struct program *program, struct cursor *code)
{
    while (!code->failed && code->at < code->end && program->location <= program->address) {
        uint8_t byte = (uint8_t)take(code, 1), operand = byte & 0x3f;
        switch (byte >> 6) {
        case ADVANCE:
            program->location += operand * program->common->code_factor;
            break;
        case OFFSET:
            *rule_of(program, operand) =
                offset_rule(code, VT_RULE_AT_OFFSET, take_offset(program, code, false));
            break;
        case RESTORE:
            restore(program, operand);
            break;
        default:
            step_extended(program, code, byte);
        }
    }
    return !code->failed;
}

bool vt_unwind_find(uintptr_t address, struct vt_unwind_row *row)
{
    struct image image;
    struct cursor body;
    struct common common;
    struct program program;
    const uint8_t *entry = find_image(address, &image) ? find_entry(&image, address) : NULL;
    if (!entry || !open_entry(&image, entry, &body))
        return false;
    const uint8_t *here = body.at;
    uint64_t back = take(&body, 4);
    if (back == 0 || back > (size_t)(here - image.start) || !read_common(&image, here - back, &common))
        return false;
    uintptr_t start = take_encoded(&body, common.pointer_encoding, image.index);
    uint64_t bytes = take_encoded(&body, common.pointer_encoding & 0x0f, image.index);
    if (common.sized) {
        uint64_t skipped = take_unsigned(&body);
        body.failed |= skipped > (size_t)(body.end - body.at);
        body.at += body.failed ? 0 : skipped;
    }
    if (body.failed || address - start >= bytes)
        return false;
    memset(&program.row, 0, sizeof program.row);
    program.common = &common;
    program.remembered_count = 0;
    program.location = 0;
    program.address = address;
    if (!run(&program, &common.instructions))
        return false;
    program.initial = program.row;
    program.location = start;
    if (!run(&program, &body))
        return false;
    *row = program.row;
    row->signal_frame = common.signal_frame;
    return true;
}
