/* Reads and writes files. Threads: the recorder's own. */
#ifndef VT_FILE_IO_H
#define VT_FILE_IO_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/* For small files, most of them in /proc. Returns how many bytes were read, at most `bytes`; 0 if there is no
 * such file. */
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

/* Writes all bytes at `offset`. Returns 0 or -errno. */
static inline int vt_write_all(int descriptor, const void *from, size_t bytes, uint64_t offset)
{
    const uint8_t *data = from;
    while (bytes) {
        ssize_t written = pwrite(descriptor, data, bytes, (off_t)offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -errno;
        if (written == 0 || (size_t)written > bytes) /* a sandbox answered instead of the kernel */
            return -EPERM;
        data += written;
        bytes -= (size_t)written;
        offset += (uint64_t)written;
    }
    return 0;
}

#endif
