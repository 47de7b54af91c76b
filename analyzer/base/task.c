#include "base/task.h"

#include <sched.h>
#include <signal.h>

unsigned vt_processors(void)
{
    cpu_set_t set;
    int count =
        sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set); /* fails beyond 1,024 processors */
    return count < 1 ? 1 : (unsigned)count > VT_PROCESSORS_MAXIMUM ? VT_PROCESSORS_MAXIMUM : (unsigned)count;
}

int vt_thread_begin(pthread_t *thread, void *(*run)(void *context), void *context)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(thread, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -error;
}

static void *run_task(void *argument)
{
    struct vt_task *task = argument;
    task->result = task->run(task->context);
    return NULL;
}

void vt_task_begin(struct vt_task *task, int (*run)(void *context), void *context)
{
    *task = (struct vt_task){.run = run, .context = context};
    task->started = vt_processors() > 1 && !vt_thread_begin(&task->thread, run_task, task);
}

int vt_task_end(struct vt_task *task)
{
    if (task->started)
        pthread_join(task->thread, NULL);
    else if (task->run)
        run_task(task);
    task->started = false;
    task->run = NULL;
    return task->result;
}
