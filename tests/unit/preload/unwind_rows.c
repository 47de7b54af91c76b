/* unwind_rows LIBRARY: for each line with an offset into the library (hex), the rules there in readelf's
 * words: the CFA, then each register that has a rule. "none" where no table knows the place. */
#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>

#include "stacks/unwind_tables.h"

static const char *const names[] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
                                    "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "ra"};

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
        for (unsigned i = 0; i < VT_REGISTERS; i++)
            print_rule(i, &row.registers[i]);
        printf("\n");
    }
    return 0;
}
