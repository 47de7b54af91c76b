/* libunwind has no call that gives a rule. So it is given a frame whose registers hold made-up values, far
 * from each other, and steps once: where it reads, and what the caller's registers then hold, tells the
 * rules. */
#include "stacks/libunwind_rules.h"

#include <dlfcn.h>
#include <libunwind.h>
#include <string.h>

#include "loader/elf_walk.h"

#if defined __x86_64__
#define LIBRARY "libunwind-x86_64.so.8"
#else
#define LIBRARY "libunwind-aarch64.so.8"
#endif

/* Register n holds REGISTERS + n units, the k-th word that is read MEMORY + k. No address of a program is
 * that high, and no offset in a rule is that large. libunwind numbers registers as DWARF does. */
#define UNIT (UINT64_C(1) << 56)
enum { REGISTERS = 16, MEMORY = 128, MEMORY_READS = 96 };

struct question {
    const struct dl_phdr_info *object;
    uintptr_t address;
    bool is_covered;
    unsigned reads;
    uint64_t read_at[MEMORY_READS];
};

/* Exported, but in no header. */
#define unw_search_table UNW_OBJ(dwarf_search_unwind_table)
int unw_search_table(unw_addr_space_t space, unw_word_t address, unw_dyn_info_t *table,
                     unw_proc_info_t *found, int with_rules, void *context);

#define FUNCTIONS(X)                                                                                         \
    X(create_addr_space, unw_create_addr_space)                                                              \
    X(set_caching_policy, unw_set_caching_policy)                                                            \
    X(init_remote, unw_init_remote)                                                                          \
    X(step, unw_step)                                                                                        \
    X(get_reg, unw_get_reg)                                                                                  \
    X(get_save_loc, unw_get_save_loc)                                                                        \
    X(is_signal_frame, unw_is_signal_frame)                                                                  \
    X(search_table, unw_search_table)

static struct {
#define X(name, symbol) __typeof__(symbol) *name;
    FUNCTIONS(X)
#undef X
    unw_addr_space_t space;
} library;

/* ---- what libunwind asks ---- */

static bool is_readable(const struct dl_phdr_info *object, uintptr_t address)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        const uintptr_t offset = address - object->dlpi_addr - part->p_vaddr;
        if (part->p_type == PT_LOAD && part->p_flags & PF_R && offset < part->p_memsz &&
            part->p_memsz - offset >= sizeof(unw_word_t))
            return true;
    }
    return false;
}

static int read_memory(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int write,
                       void *context)
{
    struct question *question = context;
    (void)space;
    if (write)
        return -UNW_EINVAL;
    if (address < UNIT) {
        const bool readable = is_readable(question->object, address);
        if (readable)
            memcpy(value, (const void *)address, sizeof *value);
        return readable ? 0 : -UNW_EINVAL;
    }
    if (question->reads == MEMORY_READS)
        return -UNW_EINVAL;
    question->read_at[question->reads] = address;
    *value = (MEMORY + question->reads++) * UNIT;
    return 0;
}

static int read_register(unw_addr_space_t space, unw_regnum_t number, unw_word_t *value, int write,
                         void *context)
{
    const struct question *question = context;
    (void)space;
    if (write || number < 0 || number > VT_REGISTER_RETURN)
        return -UNW_EBADREG;
    *value = number == VT_REGISTER_RETURN ? question->address : (REGISTERS + (unw_word_t)number) * UNIT;
    return 0;
}

/* The index of functions begins as every linker writes it: version 1, then how its parts are encoded. */
static int find_table(unw_addr_space_t space, unw_word_t address, unw_proc_info_t *found, int with_rules,
                      void *context)
{
    static const uint8_t beginning[] = {1, 0x1b, 0x03, 0x3b};
    struct question *question = context;
    const struct dl_phdr_info *object = question->object;
    const uint8_t *index = NULL;
    uint32_t count;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
            index = (const uint8_t *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
    if (address >= UNIT || !index || !is_readable(object, (uintptr_t)index + 4) ||
        memcmp(index, beginning, sizeof beginning))
        return -UNW_ENOINFO;
    memcpy(&count, index + 8, sizeof count);
    unw_dyn_info_t table = {.format = UNW_INFO_FORMAT_REMOTE_TABLE, .end_ip = UINTPTR_MAX};
    table.u.rti.segbase = (unw_word_t)index;
    table.u.rti.table_data = (unw_word_t)(index + 12);
    table.u.rti.table_len = count;
    const int result = library.search_table(space, address, &table, found, with_rules, context);
    question->is_covered |= result >= 0;
    return result;
}

static void keep(unw_addr_space_t space, unw_proc_info_t *found, void *context)
{
    (void)space, (void)found, (void)context;
}

static int no_list(unw_addr_space_t space, unw_word_t *address, void *context)
{
    (void)space, (void)address, (void)context;
    return -UNW_ENOINFO;
}

static int no_name(unw_addr_space_t space, unw_word_t address, char *name, size_t bytes, unw_word_t *offset,
                   void *context)
{
    (void)space, (void)address, (void)name, (void)bytes, (void)offset, (void)context;
    return -UNW_ENOINFO;
}

bool vt_libunwind_open(void)
{
    union {
        unw_accessors_t calls;
        void *newer_versions_have_more[64];
    } all = {.calls = {.find_proc_info = find_table,
                       .put_unwind_info = keep,
                       .get_dyn_info_list_addr = no_list,
                       .access_mem = read_memory,
                       .access_reg = read_register,
                       .get_proc_name = no_name}};
    const struct dl_phdr_info none = {0};
    struct question question = {.object = &none};
    unw_cursor_t cursor;
    void *opened = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!opened)
        return false;
#define X(name, symbol)                                                                                      \
    if (!(library.name = (__typeof__(symbol) *)dlsym(opened, VT_SYMBOL_NAME(symbol))))                       \
        return false;
    FUNCTIONS(X)
#undef X
    library.space = library.create_addr_space(&all.calls, 0);
    return library.space && library.set_caching_policy(library.space, UNW_CACHE_NONE) == 0 &&
           library.init_remote(&cursor, library.space, &question) == 0; /* the first makes its descriptors */
}

/* ---- what its answers say ---- */

/* A value in words of the frame: *unit as above, and the distance from it. */
static bool is_near(const struct question *question, uint64_t value, unsigned *unit, int64_t *offset)
{
    *unit = (unsigned)((value + UNIT / 2) / UNIT);
    *offset = (int64_t)(value - *unit * UNIT);
    return *offset == (int32_t)*offset &&
           (*unit - REGISTERS < VT_REGISTER_RETURN || *unit - MEMORY < question->reads);
}

enum { EXPRESSIONS = 4096, EXPRESSION_BYTES = 16 };

/* A signed number's last byte has its sign in the seventh bit. */
static uint8_t *put_leb(uint8_t *at, int64_t value, int sign_bits)
{
    const int64_t limit = INT64_C(1) << (7 - sign_bits);
    for (; value < -limit || value >= limit; value >>= 7)
        *at++ = (uint8_t)(value & 0x7f) | 0x80;
    *at++ = (uint8_t)value & 0x7f;
    return at;
}

/* The expression "register + offset"; with `then`, the word there + *then. The same is stored once. */
static bool express(struct vt_rule *rule, enum vt_rule_kind kind, unsigned number, int64_t offset,
                    const int64_t *then)
{
    enum { REGISTER_OFFSET = 0x70, DEREFERENCE = 0x06, PLUS_CONSTANT = 0x23 }; /* DW_OP_* */
    static uint8_t stored[EXPRESSIONS][EXPRESSION_BYTES];
    uint8_t code[EXPRESSION_BYTES] = {(uint8_t)(REGISTER_OFFSET + number)};
    uint8_t *end = put_leb(code + 1, offset, 1);
    if (then && *then < 0)
        return false;
    if (then)
        *end++ = DEREFERENCE;
    if (then && *then) {
        *end++ = PLUS_CONSTANT;
        end = put_leb(end, *then, 0);
    }
    for (size_t i = 0; i < EXPRESSIONS; i++) {
        if (!stored[i][0])
            memcpy(stored[i], code, sizeof code);
        *rule = (struct vt_rule){(uint8_t)kind, (int32_t)(end - code), stored[i]};
        if (memcmp(stored[i], code, sizeof code) == 0)
            return true;
    }
    return false;
}

/* The rule of a register whose caller's value is `value`, or is saved there. */
static bool read_value(const struct question *question, uint64_t value, bool is_saved, unsigned number,
                       uint64_t cfa, struct vt_rule *rule)
{
    unsigned unit;
    int64_t offset;
    if (!is_near(question, value, &unit, &offset))
        return false;
    if (!is_saved && unit >= MEMORY && offset == 0 && value != cfa)
        return read_value(question, question->read_at[unit - MEMORY], true, number, cfa, rule);
    const int64_t from_cfa = (int64_t)(value - cfa);
    if (!is_saved && unit < MEMORY && offset == 0) {
        if (unit - REGISTERS != number)
            *rule = (struct vt_rule){.kind = VT_RULE_REGISTER, .offset = (int32_t)(unit - REGISTERS)};
        return true;
    }
    if (from_cfa == (int32_t)from_cfa) {
        *rule = (struct vt_rule){is_saved ? VT_RULE_AT_OFFSET : VT_RULE_OFFSET, (int32_t)from_cfa, NULL};
        return true;
    }
    return unit < MEMORY && express(rule, is_saved ? VT_RULE_AT_EXPRESSION : VT_RULE_EXPRESSION,
                                    unit - REGISTERS, offset, NULL);
}

/* For libunwind the CFA is the caller's stack pointer, whatever its rule is. */
static bool read_stack_pointer(const struct question *question, unw_cursor_t *cursor, uint64_t cfa,
                               struct vt_rule *rule)
{
    unw_save_loc_t saved;
    if (library.get_save_loc(cursor, UNW_REG_SP, &saved) || saved.type == UNW_SLT_NONE)
        return true;
    return read_value(
        question, saved.type == UNW_SLT_REG ? (REGISTERS + (uint64_t)saved.u.regnum) * UNIT : saved.u.addr,
        saved.type == UNW_SLT_MEMORY, VT_REGISTER_STACK, cfa, rule);
}

static bool read_cfa(const struct question *question, uint64_t cfa, struct vt_unwind_row *row)
{
    unsigned unit, base;
    int64_t offset, base_offset;
    if (!is_near(question, cfa, &unit, &offset))
        return false;
    if (unit < MEMORY) {
        row->cfa_register = (uint8_t)(unit - REGISTERS);
        row->cfa = (struct vt_rule){VT_RULE_OFFSET, (int32_t)offset, NULL};
        return true;
    }
    return is_near(question, question->read_at[unit - MEMORY], &base, &base_offset) && base < MEMORY &&
           express(&row->cfa, VT_RULE_EXPRESSION, base - REGISTERS, base_offset, &offset);
}

bool vt_libunwind_find(const struct dl_phdr_info *object, uintptr_t address, struct vt_unwind_row *row)
{
    struct question question = {.object = object, .address = address};
    unw_cursor_t cursor;
    unw_word_t cfa, value;
    memset(row, 0, sizeof *row);
    if (library.init_remote(&cursor, library.space, &question) || library.step(&cursor) < 0 ||
        !question.is_covered || library.get_reg(&cursor, UNW_REG_SP, &cfa) || !read_cfa(&question, cfa, row))
        return false;
    for (unsigned number = 0; number <= VT_COLUMN_RETURN; number++) {
        struct vt_rule *rule = &row->registers[number];
        if (number == VT_REGISTER_STACK)
            continue;
        if (library.get_reg(&cursor, (unw_regnum_t)number, &value) || value == 0)
            *rule = (struct vt_rule){.kind = VT_RULE_UNDEFINED};
        else if (!read_value(&question, value, false, number, cfa, rule))
            return false;
    }
    if (!read_stack_pointer(&question, &cursor, cfa, &row->registers[VT_REGISTER_STACK]))
        return false;
    row->signal_frame = library.is_signal_frame(&cursor) > 0; /* the one that it stepped from */
    vt_unwind_set_return(row);
    return true;
}
