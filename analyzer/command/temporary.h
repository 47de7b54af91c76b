/* Output that is not complete: it has another name, and a signal that ends the command removes it. */
#ifndef VT_COMMAND_TEMPORARY_H
#define VT_COMMAND_TEMPORARY_H

#include <stdbool.h>

/* Makes a file or a folder whose NAME ends in XXXXXX, which is replaced. NAME must live until it is kept or
 * removed; one at a time. Returns the file's descriptor, 0 for a folder, -1 with errno. */
int vt_temporary_make(char *name, bool folder);
/* Runs a program that writes there; a signal that ends us also ends it. 0 with its waitpid() status, or an
 * errno. */
int vt_temporary_run(char *const arguments[], int *status);
/* Gives it its name. 0 or an errno; then it is still there. */
int vt_temporary_keep(const char *target);
/* Removes it, a folder with its files, unless it was kept. */
void vt_temporary_remove(void);
/* Removes a file, or a folder with its files but no subfolders. */
void vt_remove(const char *path);

#endif
