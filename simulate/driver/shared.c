/* One card for several processes: each writes what it uses to a file that VRAMTRACE_STANDIN_SHARED names and
 * all map, so that one process's memory is missing from the others'. A process that is gone uses nothing. */
#include "standin.h"
#include "truth.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS 32

struct slot {
    pid_t process; /* 0 = free */
    uint64_t bytes[STANDIN_MAXIMUM_DEVICES];
};

static struct slot *slots, *own;
static pid_t opener;
static char *path;

/* Once: a host may change its environment later, while its threads allocate. */
__attribute__((constructor)) static void read_path(void)
{
    const char *text = getenv("VRAMTRACE_STANDIN_SHARED");
    path = text != NULL && *text != '\0' ? strdup(text) : NULL;
}

static void take_slot(void)
{
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *mapped = MAP_FAILED;
    if (file >= 0 && ftruncate(file, SLOTS * sizeof(*slots)) == 0)
        mapped = mmap(NULL, SLOTS * sizeof(*slots), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0)
        close(file);
    if (mapped == MAP_FAILED)
        return;
    slots = mapped;
    own = NULL;
    for (int i = 0; i < SLOTS && own == NULL; i++) {
        pid_t free_slot = 0;
        if (__atomic_compare_exchange_n(&slots[i].process, &free_slot, getpid(), false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            own = &slots[i];
    }
}

int standin_list_others(int card, struct standin_process *processes, int maximum)
{
    int count = 0;
    if (path == NULL)
        return 0;
    if (opener != getpid()) {
        opener = getpid();
        take_slot();
    }
    for (int i = 0; slots != NULL && i < SLOTS && count < maximum; i++) {
        const pid_t process = __atomic_load_n(&slots[i].process, __ATOMIC_ACQUIRE);
        const uint64_t bytes = __atomic_load_n(&slots[i].bytes[card], __ATOMIC_RELAXED);
        if (process != 0 && &slots[i] != own && bytes != 0 && (kill(process, 0) == 0 || errno == EPERM))
            processes[count++] = (struct standin_process){process, bytes};
    }
    return count;
}

uint64_t standin_used_by_others(CUdevice device)
{
    struct standin_process others[SLOTS];
    const int count = standin_list_others(standin_settings.cards[device], others, SLOTS);
    uint64_t sum = standin_settings.unlisted_bytes;
    for (int i = 0; i < count; i++)
        sum += others[i].bytes;
    return sum;
}

void standin_publish(CUdevice device)
{
    if (own != NULL && opener == getpid())
        __atomic_store_n(&own->bytes[standin_settings.cards[device]], standin_used(device), __ATOMIC_RELAXED);
}
