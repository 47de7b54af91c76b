#include "thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "futex.h"
#include "guard.h"

/* What prctl said when our first thread was made; -1 = not made yet. */
static _Atomic int first_sandbox = -1;

int vt_thread_start(void *(*main)(void *), void *context)
{
    enum { STACK_BYTES = 512 << 10, STACK_MAXIMUM_BYTES = 8 << 20 };
    pthread_t thread;
    pthread_attr_t attributes;
    int error = EINVAL, none = -1;
    atomic_compare_exchange_strong(&first_sandbox, &none, prctl(PR_GET_SECCOMP));
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    /* glibc puts the host's thread-local variables on the stack, and fails with EINVAL if they do not fit. */
    for (size_t bytes = STACK_BYTES; error == EINVAL && bytes <= STACK_MAXIMUM_BYTES; bytes *= 4) {
        pthread_attr_setstacksize(&attributes, bytes);
        error = pthread_create(&thread, &attributes, main, context);
    }
    pthread_attr_destroy(&attributes);
    return error;
}

void vt_thread_begin(void)
{
    vt_guard.frame = VT_GUARD_OWN_THREAD;
    prctl(PR_SET_NAME, "vramtrace");
}

bool vt_sandbox_is_the_first(void)
{
    return prctl(PR_GET_SECCOMP) == atomic_load(&first_sandbox);
}

/* A later sandbox may kill a thread for an unknown call. The call is tried with an invalid flag first: a
 * sandbox that answers without looking at flags would close the host's descriptors. */
bool vt_part_from_descriptors(void)
{
    enum { CLOSE_RANGE = 436, UNSHARE = 2, NO_SUCH_FLAG = 1 << 30 };
    return vt_sandbox_is_the_first() && syscall(CLOSE_RANGE, ~0U, ~0U, NO_SUCH_FLAG) == -1 &&
           errno == EINVAL && !syscall(CLOSE_RANGE, 0, ~0U, UNSHARE);
}

struct job {
    void (*work)(void *);
    void *context;
    bool called;
    _Atomic int done; /* futex */
};

static void *run_job(void *context)
{
    struct job *job = context;
    vt_thread_begin();
    job->called = vt_part_from_descriptors();
    if (job->called)
        job->work(job->context);
    vt_futex_set(&job->done, 1);
    return NULL;
}

bool vt_run_apart(void (*work)(void *context), void *context)
{
    struct job job = {.work = work, .context = context};
    if (vt_guard.frame != VT_GUARD_OWN_THREAD || vt_thread_start(run_job, &job))
        return false;
    while (!atomic_load(&job.done))
        vt_futex_wait(&job.done, 0, VT_NO_TIMEOUT);
    return job.called;
}
