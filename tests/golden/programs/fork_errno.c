/* One thread forks, slowly, and sends signals to another one, which calls the driver meanwhile and says what
 * errno it found. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FORKS = 10, SIGNALS = 100, SIGNAL_NS = 200000 };

static pthread_t caller;
static atomic_bool ended;

static void wake(int signal_number)
{
    (void)signal_number;
}

/* Registered first, so called last before a fork. */
static void before_fork(void)
{
    for (int i = 0; i < SIGNALS; i++) {
        pthread_kill(caller, SIGUSR1);
        nanosleep(&(struct timespec){.tv_nsec = SIGNAL_NS}, NULL);
    }
}

static void *fork_often(void *unused)
{
    (void)unused;
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    }
    ended = true;
    return NULL;
}

int main(void)
{
    CUcontext context;
    CUdeviceptr address;
    pthread_t forker;
    int calls = 0, changed = 0, example = 4711;
    struct sigaction action = {.sa_handler = wake};
    sigaction(SIGUSR1, &action, NULL);
    caller = pthread_self();
    pthread_atfork(before_fork, NULL, NULL);
    if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxSetCurrent(context) != 0 ||
        cuMemAlloc_v2(&address, 4096) != 0)
        return 1;
    pthread_create(&forker, NULL, fork_often, NULL);
    for (; !ended; calls++) {
        errno = 4711;
        if (cuMemAlloc_v2(&address, 4096) != 0 || cuMemFree_v2(address) != 0)
            return 2;
        if (errno != 4711) {
            example = errno;
            changed++;
        }
    }
    pthread_join(forker, NULL);
    printf("errno %d after one of %d calls, %d changed\n", example, calls, changed);
    return 0;
}
