/* unwind_rows LIBRARY: for each line with an offset into the library (hex), the rules there in readelf's
 * words: the CFA, then each register that has a rule. "none" where no table knows the place. */
#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>

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
        printf(" %s=exp", names[number]);
        break;
    case VT_RULE_EXPRESSION:
        printf(" %s=vexp", names[number]);
        break;
    default: /* readelf has one word for all that is not saved */
        break;
    }
}

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
    vt_unwind_tables_start();
    while (scanf("%" SCNx64, &offset) == 1) {
        if (!vt_unwind_find(map->l_addr + offset, &row)) {
            printf("%" PRIx64 " none\n", offset);
            continue;
        }
        if (row.cfa.kind == VT_RULE_OFFSET)
            printf("%" PRIx64 " cfa=%s%+d", offset, names[row.cfa_register], row.cfa.offset);
        else
            printf("%" PRIx64 " cfa=exp", offset);
        for (unsigned i = 0; i <= VT_COLUMN_RETURN || i == VT_REGISTER_STACK; i++)
            print_rule(i, &row.registers[i]);
        printf("\n");
    }
    return 0;
}
