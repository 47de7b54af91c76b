/* unwind_rows LIBRARY: for each line with an offset into the library (hex), the rules there in readelf's
 * words: the CFA, then each register that has a rule, and whether it is a signal's frame; behind "exp", the
 * expression's bytes. "none" where no table knows the place. Built a second time, with BY_LIBUNWIND, it asks
 * libunwind for the rules. */
#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#include "stacks/libunwind_rules.h"
#include "stacks/unwind_tables.h"

#if defined __aarch64__
static const char *const names[] = {"x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",  "x7",  "x8",
                                    "x9",  "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17",
                                    "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26",
                                    "x27", "x28", "x29", "ra",  "sp",  "pc"};
#else
static const char *const names[] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
                                    "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "ra"};
#endif

static void print_expression(const char *kind, const struct vt_rule *rule)
{
    printf("%s:", kind);
    for (int32_t i = 0; i < rule->offset; i++)
        printf("%02x", rule->expression[i]);
}

static void print_rule(unsigned number, const struct vt_rule *rule)
{
    switch (rule->kind) {
    case VT_RULE_AT_OFFSET:
        printf(" %s=c%+d", names[number], rule->offset);
        break;
    case VT_RULE_OFFSET:
        printf(" %s=v%+d", names[number], rule->offset);
        break;
    case VT_RULE_REGISTER:
        printf(" %s=r%d", names[number], rule->offset);
        break;
    case VT_RULE_AT_EXPRESSION:
        printf(" %s=", names[number]);
        print_expression("exp", rule);
        break;
    case VT_RULE_EXPRESSION:
        printf(" %s=", names[number]);
        print_expression("vexp", rule);
        break;
    default: /* readelf has one word for all that is not saved */
        break;
    }
}

#if defined BY_LIBUNWIND
static int note_object(struct dl_phdr_info *object, size_t bytes, void *wanted)
{
    struct dl_phdr_info *found = wanted;
    (void)bytes;
    if (object->dlpi_addr == found->dlpi_addr)
        *found = *object;
    return object->dlpi_addr == found->dlpi_addr;
}

static bool find(const struct link_map *map, uintptr_t address, struct vt_unwind_row *row)
{
    static struct dl_phdr_info object;
    if (!object.dlpi_phdr) {
        object.dlpi_addr = map->l_addr;
        if (!vt_libunwind_open() || !dl_iterate_phdr(note_object, &object))
            exit(3); /* no libunwind here */
    }
    return vt_libunwind_find(&object, address, row);
}
#else
static bool find(const struct link_map *map, uintptr_t address, struct vt_unwind_row *row)
{
    (void)map;
    return vt_unwind_find(address, row);
}
#endif

int main(int argc, char **argv)
{
    uint64_t offset;
    struct vt_unwind_row row;
    struct link_map *map;
    if (argc != 2)
        return 2;
    void *library = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL);
    if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map)) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
#if !defined BY_LIBUNWIND
    vt_unwind_tables_start();
#endif
    while (scanf("%" SCNx64, &offset) == 1) {
        if (!find(map, map->l_addr + offset, &row)) {
            printf("%" PRIx64 " none\n", offset);
            continue;
        }
        if (row.cfa.kind == VT_RULE_OFFSET)
            printf("%" PRIx64 " cfa=%s%+d", offset, names[row.cfa_register], row.cfa.offset);
        else
            printf("%" PRIx64 " cfa=", offset), print_expression("exp", &row.cfa);
        for (unsigned i = 0; i <= VT_COLUMN_RETURN || i == VT_REGISTER_STACK; i++)
            print_rule(i, &row.registers[i]);
        printf(row.signal_frame ? " signal=yes\n" : "\n");
    }
    return 0;
}
