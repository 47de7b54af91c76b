/* The loaded libraries: defines each as a module of the trace, and marks addresses where one was unloaded
 * (stacks/unloads.h). */
#ifndef VT_LIBRARIES_H
#define VT_LIBRARIES_H

#include "record/chunk.h"

/* Once per session, before its first event: all libraries are new. In the writer thread. */
void vt_libraries_begin(void);

/* Notes what was loaded and unloaded since the last call. Takes the loader's short lock (loader/elf_walk.h),
 * as vt_elf_changes does, which is nearly all of its cost if nothing changed. Any thread. errno stays. */
void vt_libraries_note(void);

/* Moves the modules that were noted to `definitions`. In the writer thread. */
void vt_libraries_define(struct vt_buffer *definitions);

#endif
