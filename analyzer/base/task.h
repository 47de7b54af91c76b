/* Work that runs beside the caller's. */
#ifndef VT_TASK_H
#define VT_TASK_H

#include <pthread.h>
#include <stdbool.h>

struct vt_task {
    int (*run)(void *context);
    void *context;
    int result;
    pthread_t thread;
    bool started;
};

/* Begins a thread that gets no signals: handlers are for the main thread, which draws. Returns 0 or -errno. */
int vt_thread_begin(pthread_t *thread, void *(*run)(void *context), void *context);

/* How many threads may run at one time here: 1 to VT_PROCESSORS_MAXIMUM. */
#define VT_PROCESSORS_MAXIMUM 8u
unsigned vt_processors(void);

/* Begins run(context), on a thread of its own if there is a processor and memory for one, else in
 * vt_task_end. Until that returns its result, nobody else may change what it reads, and it may touch nothing
 * that changes on first use, such as names of symbols. A task of zeros has the result 0. */
void vt_task_begin(struct vt_task *task, int (*run)(void *context), void *context);
int vt_task_end(struct vt_task *task);

#endif
