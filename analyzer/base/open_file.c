#include "base/open_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int vt_open_regular(const char *path, struct stat *status)
{
    const int place = open(path, O_PATH | O_CLOEXEC); /* the file is not opened yet */
    char again[32];
    int file = -1, error = EINVAL;

    if (place < 0)
        return -1;
    if (fstat(place, status)) {
        error = errno;
    } else if (S_ISREG(status->st_mode)) {
        snprintf(again, sizeof again, "/proc/self/fd/%d", place);
        file = open(again, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        error = errno;
    }
    close(place);
    errno = error;
    return file;
}
