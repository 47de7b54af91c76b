#include "base/read_at.h"

#include <errno.h>
#include <unistd.h>

int vt_read_at(int file, void *buffer, size_t bytes, uint64_t offset)
{
    char *out = buffer;
    while (bytes > 0) {
        ssize_t got = pread(file, out, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            return -EBADMSG;
        out += got;
        bytes -= (size_t)got;
        offset += (size_t)got;
    }
    return 0;
}
