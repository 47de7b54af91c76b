/* An NVML for the stand-in: what the driver's books say of each card and process. Only what vramtrace,
 * PyTorch and monitors ask for. As the real one it keeps a descriptor from nvmlInit on, and does nothing
 * without it.
 *
 * VRAMTRACE_STANDIN_NVML, words apart by commas: "fails" (nvmlInit does), "no-permission" (for processes),
 * "old" (no nvmlDeviceGetMemoryInfo_v2), "mig" (cards are parts of one, with such UUIDs), "slow" (a second
 * for each question about memory). Of processes, as in containers: "empty" (none is listed), "without-us"
 * (the others are), "host-pids" (numbers that are not ours), "clash" (the same, and another one's is ours).
 * As with vGPU, WSL: "no-bytes", "no-bytes-of-others". VRAMTRACE_STANDIN_RESERVED: bytes of each card that
 * are the driver's own. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/truth.h"

#define EXPORT __attribute__((visibility("default")))
#define PROCESSES 64
enum {
    SUCCESS,
    UNINITIALIZED,
    INVALID,
    NOT_SUPPORTED,
    NO_PERMISSION,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    UNKNOWN = 999
};

typedef int nvmlReturn_t;
typedef struct card *nvmlDevice_t;
struct card {
    int number;
};
struct nvmlMemory {
    unsigned long long total, free, used;
};
struct nvmlMemory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
struct nvmlProcessInfo_v1 {
    unsigned pid;
    unsigned long long used;
};
struct nvmlProcessInfo {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

static struct card cards[16];
static int kept_file = -1, inits;
static struct stat kept_status;
static __typeof__(&standin_card_processes) processes_of;
static __typeof__(&standin_card_bytes) bytes_of;
static __typeof__(&standin_unlisted_bytes) unlisted_bytes;
static __typeof__(&standin_card_name) name_of;

static bool is_mode(const char *mode)
{
    const char *text = getenv("VRAMTRACE_STANDIN_NVML");
    const size_t length = strlen(mode);
    for (; text != NULL; text = strchr(text, ',') != NULL ? strchr(text, ',') + 1 : NULL) {
        if (strncmp(text, mode, length) == 0 && (text[length] == ',' || text[length] == '\0'))
            return true;
    }
    return false;
}

static int card_count(void)
{
    const char *text = getenv("VRAMTRACE_STANDIN_DEVICES");
    const int count = text != NULL ? atoi(text) : 1;
    return count < 0 ? 0 : count > 16 ? 16 : count;
}

/* The descriptor is still the file that it was: else this is used where it must not be. */
static bool is_usable(void)
{
    struct stat now;
    if (inits == 0)
        return false;
    if (fstat(kept_file, &now) != 0 || now.st_ino != kept_status.st_ino || now.st_dev != kept_status.st_dev) {
        fprintf(stderr, "stand-in NVML: its descriptor is gone, or another file\n");
        abort();
    }
    return true;
}

EXPORT nvmlReturn_t nvmlInit_v2(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    if (is_mode("fails") || driver == NULL)
        return UNKNOWN;
    processes_of = (__typeof__(processes_of))dlsym(driver, "standin_card_processes");
    bytes_of = (__typeof__(bytes_of))dlsym(driver, "standin_card_bytes");
    unlisted_bytes = (__typeof__(unlisted_bytes))dlsym(driver, "standin_unlisted_bytes");
    name_of = (__typeof__(name_of))dlsym(driver, "standin_card_name");
    if (processes_of == NULL || bytes_of == NULL || name_of == NULL)
        return UNKNOWN;
    for (int i = 0; i < 16; i++)
        cards[i].number = i;
    if (inits++ == 0) {
        kept_file = open("/proc/self/status", O_RDONLY | O_CLOEXEC); /* a file that nobody else has open */
        if (kept_file < 0 || fstat(kept_file, &kept_status) != 0)
            return UNKNOWN;
    }
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlInit(void)
{
    return nvmlInit_v2();
}

/* "Do not attach", "no GPUs is no error": the same here. */
EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return nvmlInit_v2();
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
    if (!is_usable())
        return UNINITIALIZED;
    if (--inits == 0)
        close(kept_file);
    return SUCCESS;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
    return result == SUCCESS ? "Success" : "an error of the stand-in NVML";
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    if (!is_usable())
        return UNINITIALIZED;
    snprintf(version, length, "580.00");
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = 13000;
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    if (!is_usable())
        return UNINITIALIZED;
    *count = (unsigned)card_count();
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *card)
{
    if (!is_usable())
        return UNINITIALIZED;
    if (index >= (unsigned)card_count())
        return INVALID;
    *card = &cards[index];
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t card, unsigned *index)
{
    if (!is_usable())
        return UNINITIALIZED;
    *index = (unsigned)card->number;
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t card, char *name, unsigned length)
{
    (void)card;
    if (!is_usable())
        return UNINITIALIZED;
    return snprintf(name, length, "%s", name_of(NULL)) < (int)length ? SUCCESS : INSUFFICIENT_SIZE;
}

EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t card, int *major, int *minor)
{
    int capability;
    (void)card;
    if (!is_usable())
        return UNINITIALIZED;
    name_of(&capability);
    *major = capability / 10;
    *minor = capability % 10;
    return SUCCESS;
}

/* The cards are in no fabric: all of it is 0 but for the version, whose low 24 bits are the structure's size. */
EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t card, unsigned *info)
{
    (void)card;
    if (!is_usable())
        return UNINITIALIZED;
    if ((*info & 0xffffff) < sizeof *info)
        return INVALID;
    memset(info + 1, 0, (*info & 0xffffff) - sizeof *info);
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t card, char *uuid, unsigned length)
{
    const char text[] = "stand-in device"; /* and the number: see the driver's device.c */
    char whole[64];
    strcpy(whole, is_mode("mig") ? "MIG-" : "GPU-");
    for (int i = 0, at = 4; i < 16; i++)
        at += sprintf(whole + at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                      i < 15 ? text[i] : '0' + card->number);
    if (strlen(whole) >= length)
        return INSUFFICIENT_SIZE;
    strcpy(uuid, whole);
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *card)
{
    char text[64];
    if (!is_usable())
        return UNINITIALIZED;
    for (int i = 0; i < card_count(); i++) {
        if (nvmlDeviceGetUUID(&cards[i], text, sizeof(text)) == SUCCESS && strcmp(text, uuid) == 0) {
            *card = &cards[i];
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *card)
{
    unsigned domain, bus;
    if (!is_usable())
        return UNINITIALIZED;
    if (sscanf(id, "%x:%x", &domain, &bus) != 2 || bus == 0 || bus > (unsigned)card_count())
        return NOT_FOUND;
    *card = &cards[bus - 1];
    return SUCCESS;
}

static unsigned long long reserved_bytes(void)
{
    const char *text = getenv("VRAMTRACE_STANDIN_RESERVED");
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

static uint64_t used_bytes(nvmlDevice_t card)
{
    struct standin_process list[PROCESSES];
    const int count = processes_of(card->number, list, PROCESSES);
    uint64_t sum = count > 0 ? unlisted_bytes() : 0;
    for (int i = 0; i < count; i++)
        sum += list[i].bytes;
    return sum;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t card, struct nvmlMemory *memory)
{
    if (!is_usable())
        return UNINITIALIZED;
    memory->used = used_bytes(card) + reserved_bytes();
    memory->total = bytes_of(card->number) + reserved_bytes();
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t card, struct nvmlMemory_v2 *memory)
{
    if (!is_usable())
        return UNINITIALIZED;
    if (is_mode("slow"))
        sleep(1);
    if (is_mode("old") || memory->version != (sizeof(*memory) | 2u << 24))
        return INVALID;
    memory->reserved = reserved_bytes();
    memory->used = used_bytes(card);
    memory->total = bytes_of(card->number) + memory->reserved;
    memory->free = memory->total - memory->used - memory->reserved;
    return SUCCESS;
}

/* What is told of the processes, which the books have; how many. */
static unsigned tell(struct standin_process *processes, unsigned count)
{
    enum { OTHER_NAMESPACE = 3000000 };
    unsigned kept = 0;
    bool clashes = is_mode("clash");
    for (unsigned i = 0; i < count; i++) {
        struct standin_process process = processes[i];
        const bool is_own = process.pid == getpid();
        if (is_mode("empty") || (is_own && is_mode("without-us")))
            continue;
        if (is_mode("no-bytes") || (!is_own && is_mode("no-bytes-of-others")))
            process.bytes = UINT64_MAX; /* NVML_VALUE_NOT_AVAILABLE */
        if (is_mode("host-pids") || is_mode("clash"))
            process.pid += OTHER_NAMESPACE;
        if (clashes && !is_own) {
            process.pid = getpid();
            clashes = false;
        }
        processes[kept++] = process;
    }
    return kept;
}

static nvmlReturn_t list(nvmlDevice_t card, unsigned *count, void *infos, bool is_v1)
{
    struct standin_process found[PROCESSES];
    if (!is_usable())
        return UNINITIALIZED;
    if (is_mode("no-permission"))
        return NO_PERMISSION;
    const unsigned listed = tell(found, (unsigned)processes_of(card->number, found, PROCESSES));
    if (*count < listed) {
        *count = listed;
        return INSUFFICIENT_SIZE;
    }
    *count = listed;
    for (unsigned i = 0; i < listed; i++) {
        const unsigned pid = (unsigned)found[i].pid;
        if (is_v1)
            ((struct nvmlProcessInfo_v1 *)infos)[i] = (struct nvmlProcessInfo_v1){pid, found[i].bytes};
        else
            ((struct nvmlProcessInfo *)infos)[i] =
                (struct nvmlProcessInfo){pid, found[i].bytes, UINT32_MAX, UINT32_MAX};
    }
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t card, unsigned *count, void *infos)
{
    return list(card, count, infos, true);
}
EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t card, unsigned *count, void *infos)
{
    return list(card, count, infos, false);
}
EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t card, unsigned *count, void *infos)
{
    return list(card, count, infos, false);
}
EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t card, unsigned *count, void *infos)
{
    (void)card;
    (void)infos;
    *count = 0;
    return SUCCESS;
}

/* What PyTorch looks up, and has no use for here. */
#define REFUSED(name)                                                                                        \
    EXPORT nvmlReturn_t name(void)                                                                           \
    {                                                                                                        \
        return NOT_SUPPORTED;                                                                                \
    }
REFUSED(nvmlDeviceGetNvLinkRemoteDeviceType)
REFUSED(nvmlDeviceGetNvLinkRemotePciInfo_v2)
REFUSED(nvmlDeviceGetP2PStatus)
