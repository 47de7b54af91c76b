/* Which traces a command line means. */
#ifndef VT_FILES_H
#define VT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

struct vt_arguments;
struct vt_command;

struct vt_file {
    char *path; /* owned */
    dev_t device;
    ino_t inode;
    bool found; /* in a folder, not named */
};
struct vt_files {
    struct vt_file *items; /* owned; in order of the operands, rank 2 before rank 10 */
    size_t count, capacity;
    char **operands; /* owned: their paths, if they became the operands */
    bool once;       /* given: each file, however often it is named */
    bool by_name;    /* given: of a folder, only files called *.vrt */
};

/* Adds the operands, and instead of a folder the traces in it and in its folders. An exit status, with a line
 * on stderr if it is not 0. The caller frees them either way. */
int vt_files_find(const struct vt_command *command, const struct vt_arguments *arguments,
                  struct vt_files *files);
/* ... and makes them the operands, if one of these is a folder. */
int vt_files_to_operands(const struct vt_command *command, struct vt_arguments *arguments,
                         struct vt_files *files);
void vt_files_free(struct vt_files *files);
bool vt_is_folder(const char *path); /* NULL is none */

#endif
