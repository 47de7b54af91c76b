/* Two processes that share memory: one makes it and exports it, by an IPC handle and by a descriptor; the
 * other, its child, imports both. Prints what is true: "owner PID", "user PID". */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define NEED(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "failed: %s\n", #condition);                                                     \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)
#define GOOD(call) NEED((call) == CUDA_SUCCESS)

static void start(void)
{
    CUcontext context;
    GOOD(cuInit(0));
    GOOD(cuDevicePrimaryCtxRetain(&context, 0));
    GOOD(cuCtxSetCurrent(context));
}

static void send_memory(int channel, const CUipcMemHandle *handle, int descriptor)
{
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec text = {(void *)handle, sizeof(*handle)};
    struct msghdr message = {
        .msg_iov = &text, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &descriptor, sizeof(int));
    NEED(sendmsg(channel, &message, 0) == sizeof(*handle));
}

static int receive_memory(int channel, CUipcMemHandle *handle)
{
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec text = {handle, sizeof(*handle)};
    struct msghdr message = {
        .msg_iov = &text, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    int descriptor;
    NEED(recvmsg(channel, &message, 0) == sizeof(*handle));
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    return descriptor;
}

static int use_memory(int channel)
{
    CUipcMemHandle handle;
    CUmemGenericAllocationHandle physical;
    CUdeviceptr first, again, place;
    char done = 1;
    start();
    int descriptor = receive_memory(channel, &handle);
    GOOD(cuIpcOpenMemHandle_v2(&first, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    GOOD(cuIpcOpenMemHandle_v2(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    GOOD(cuMemImportFromShareableHandle(&physical, (void *)(intptr_t)descriptor,
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(descriptor);
    GOOD(cuMemAddressReserve(&place, 4 * MIB, 0, 0, 0));
    GOOD(cuMemMap(place, 4 * MIB, 0, physical, 0));
    GOOD(cuIpcCloseMemHandle(again));
    GOOD(cuIpcCloseMemHandle(first));
    NEED(write(channel, &done, 1) == 1);
    return 0;
}

static void make_memory(int channel)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUipcMemHandle handle, later;
    CUmemGenericAllocationHandle physical;
    CUdeviceptr shared, alone, another;
    int descriptor;
    char done;
    GOOD(cuMemAlloc_v2(&alone, 16 * MIB));
    GOOD(cuMemAlloc_v2(&shared, 8 * MIB));
    GOOD(cuIpcGetMemHandle(&handle, shared));
    GOOD(cuIpcGetMemHandle(&handle, shared));
    GOOD(cuMemCreate(&physical, 4 * MIB, &properties, 0));
    GOOD(cuMemExportToShareableHandle(&descriptor, physical, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    send_memory(channel, &handle, descriptor);
    NEED(read(channel, &done, 1) == 1);
    /* Another allocation in the place of the first has its handle: nobody imports this one. */
    GOOD(cuMemFree_v2(shared));
    GOOD(cuMemAlloc_v2(&another, 8 * MIB));
    GOOD(cuIpcGetMemHandle(&later, another));
    printf("same %d\n", memcmp(&later, &handle, sizeof(handle)) == 0);
}

int main(void)
{
    int channel[2], status;
    NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, channel) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(channel[0]);
        return use_memory(channel[1]);
    }
    close(channel[1]);
    start();
    make_memory(channel[0]);
    NEED(waitpid(child, &status, 0) == child && status == 0);
    printf("owner %d\nuser %d\n", getpid(), child);
    return 0;
}
