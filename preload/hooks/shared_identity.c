#include "hooks/shared_identity.h"

#include "guard.h"
#include "hash.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define FABRIC_HANDLE 8 /* CU_MEM_HANDLE_TYPE_FABRIC, from 12.3 on */
#define FABRIC_HANDLE_BYTES 64
#define ANONYMOUS_FILES 0x09041934 /* ANON_INODE_FS_MAGIC: all such files share one inode */

uint64_t vt_identity_of_bytes(const void *handle, size_t bytes)
{
    uint64_t hash = bytes, word;
    for (size_t i = 0; i + sizeof(word) <= bytes; i += sizeof(word)) {
        memcpy(&word, (const char *)handle + i, sizeof(word));
        hash = vt_hash_add(hash, word);
    }
    hash = vt_hash_spread(hash);
    return hash != 0 ? hash : 1;
}

static uint64_t identity_of_file(int descriptor)
{
    struct stat status;
    struct statfs files;
    int saved_errno;
    uint64_t identity = 0;
    if (!vt_enter(&saved_errno))
        return 0;
    if (fstat(descriptor, &status) == 0 && !S_ISCHR(status.st_mode) && fstatfs(descriptor, &files) == 0 &&
        files.f_type != ANONYMOUS_FILES)
        identity = vt_identity_of_bytes((uint64_t[]){status.st_dev, status.st_ino}, 2 * sizeof(uint64_t));
    vt_leave(saved_errno);
    return identity;
}

uint64_t vt_identity_of_handle(const void *shared, CUmemAllocationHandleType type, bool exported)
{
    switch ((int)type) {
    case CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
        return identity_of_file(exported ? *(const int *)shared : (int)(intptr_t)shared);
    case FABRIC_HANDLE:
        return vt_identity_of_bytes(shared, FABRIC_HANDLE_BYTES);
    default:
        return 0;
    }
}
