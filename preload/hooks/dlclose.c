/* After a library is unloaded, another one may be loaded at the same addresses. So the loaded libraries are
 * noted before the real dlclose, and what is gone right after it. */
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
