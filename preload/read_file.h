/* Reads small files, most of them in /proc. Threads: the recorder's own. */
#ifndef VT_READ_FILE_H
#define VT_READ_FILE_H

#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

/* Returns how many bytes were read, at most `bytes`; 0 if there is no such file. */
static inline size_t vt_read_file(const char *path, char *data, size_t bytes)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t got = 1;
    if (file < 0)
        return 0;
    while (used < bytes && (got = read(file, data + used, bytes - used)) > 0)
        used += (size_t)got;
    close(file);
    return used;
}

#endif
