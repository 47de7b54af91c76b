/* Memory that is always there. Where the system has no more, the command ends: what it has not finished
 * writing is removed, stderr gets one line, and the exit status is 5. So none of these returns NULL. free()
 * frees. */
#ifndef VT_ALLOCATE_H
#define VT_ALLOCATE_H

#include "base/exit_status.h"

#include <stdarg.h>
#include <stddef.h>

void *vt_allocate(size_t bytes); /* not cleared */
void *vt_allocate_zeros(size_t count, size_t item_bytes);
void *vt_resize(void *memory, size_t count, size_t item_bytes); /* as reallocarray() */

char *vt_copy_text(const char *text);
char *vt_copy_bytes(const void *text, size_t bytes); /* with a NUL behind them */
__attribute__((format(printf, 1, 2))) char *vt_print_text(const char *format, ...);
__attribute__((format(printf, 1, 0))) char *vt_print_text_list(const char *format, va_list arguments);

/* Ends the command as above, from any thread. */
_Noreturn void vt_end_out_of_memory(void);
/* What it does first: `undo` must not need memory. The last one given comes first; at most 4 in all. */
void vt_undo_out_of_memory(void (*undo)(void));

#endif
