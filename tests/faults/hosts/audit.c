/* An auditor of the dynamic linker (LD_AUDIT): it is asked at every binding, and says nothing. */
#include <link.h>

unsigned la_version(unsigned version)
{
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
    (void)map, (void)space, (void)cookie;
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags,
                       const char *name)
{
    (void)index, (void)from, (void)to, (void)flags, (void)name;
    return symbol->st_value;
}
