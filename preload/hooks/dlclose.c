/* Code of one library may come to where another's was: what was there is noted before it goes, and that it
 * went as soon as it did. */
#include <dlfcn.h>
#include <stddef.h>

#include "loader/elf_walk.h"
#include "record/libraries.h"
#include "record/session.h"

__attribute__((visibility("default"))) int dlclose(void *handle)
{
    VT_ELF_NEXT(dlclose);
    if (!real)
        return -1;
    if (!vt_session_active())
        return real(handle);
    vt_libraries_note();
    const int result = real(handle);
    vt_libraries_note();
    return result;
}
