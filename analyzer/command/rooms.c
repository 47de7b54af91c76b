/* Folders of dry runs. A dry run that was killed leaves its own: the next one removes it. Whose process is
 * gone is known by a lock on a file in it, which holds as long as the process has the file mapped: in any
 * namespace of processes, and after its descriptors are closed. */
#include "command/rooms.h"
#include "command/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "vramtrace-dryrun-"
#define OWNER "owner"

static bool hold(const char *folder)
{
    char path[128];
    int file;
    bool held;

    snprintf(path, sizeof path, "%s/" OWNER, folder);
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    held = file >= 0 && !flock(file, LOCK_EX | LOCK_NB) &&
           mmap(NULL, 1, PROT_READ, MAP_SHARED, file, 0) != MAP_FAILED; /* for good */
    if (file >= 0)
        close(file);
    return held;
}

static bool is_left(const char *path)
{
    struct stat status;
    char owner[512];
    int file;
    bool left;

    if (lstat(path, &status) || !S_ISDIR(status.st_mode) || status.st_uid != geteuid())
        return false;
    snprintf(owner, sizeof owner, "%s/" OWNER, path);
    file = open(owner, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    left = file >= 0 && !flock(file, LOCK_EX | LOCK_NB);
    if (file >= 0)
        close(file);
    return left;
}

static void remove_left(const char *place)
{
    DIR *folder = opendir(place);
    const struct dirent *entry;
    char path[400];

    while (folder && (entry = readdir(folder))) {
        snprintf(path, sizeof path, "%s/%s", place, entry->d_name);
        if (!strncmp(entry->d_name, PREFIX, strlen(PREFIX)) && is_left(path))
            vt_remove(path);
    }
    if (folder)
        closedir(folder);
}

/* It gets its name once it is held: others never see it without. */
static bool make_in(const char *place, char *name, size_t bytes)
{
    char hidden[64];

    snprintf(hidden, sizeof hidden, "%s/." PREFIX "XXXXXX", place);
    if (!mkdtemp(hidden))
        return false;
    snprintf(name, bytes, "%s/%s", place, strrchr(hidden, '/') + 2);
    if (hold(hidden) && !rename(hidden, name))
        return true;
    vt_remove(hidden);
    return false;
}

bool vt_rooms_make(char *name, size_t bytes)
{
    static const char *const places[] = {"/dev/shm", "/tmp"};
    bool made = false;

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        remove_left(places[i]);
        made = made || make_in(places[i], name, bytes);
    }
    return made;
}
