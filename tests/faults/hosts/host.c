#include "host.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STATUS_NO_CUDA = 77, STATUS_CALL_FAILED = 78, BLOCK_BYTES = 4096 };

typedef void report_function(void *, int64_t, uint64_t, uint64_t, uint16_t);

static struct host_slot *book;
static struct host_slot *own_slot;
static int (*memory_alloc)(uint64_t *, size_t), (*memory_free)(uint64_t), (*set_current)(void *);
static report_function *report;
static void *context;

static void open_book(void)
{
    const char *path = getenv("HOST_BOOK");
    int file = path && !book ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *memory = mmap(NULL, HOST_SLOTS * sizeof *book, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED)
        book = memory;
    close(file);
}

/* The slot of this process. A forked child finds that the one that it inherited is its parent's. */
static struct host_slot *slot(void)
{
    static struct host_slot nowhere;
    struct host_slot *mine = __atomic_load_n(&own_slot, __ATOMIC_ACQUIRE);
    int32_t pid = (int32_t)syscall(SYS_getpid);
    if (!book)
        return &nowhere;
    if (mine && atomic_load(&mine->pid) == pid)
        return mine;
    for (mine = book; mine < book + HOST_SLOTS; mine++) {
        int32_t owner = 0;
        if (atomic_load(&mine->pid) == pid || atomic_compare_exchange_strong(&mine->pid, &owner, pid) ||
            owner == pid) {
            __atomic_store_n(&own_slot, mine, __ATOMIC_RELEASE);
            return mine;
        }
    }
    return &nowhere;
}

void host_find(void)
{
    open_book();
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        _exit(STATUS_NO_CUDA);
    memory_alloc = (int (*)(uint64_t *, size_t))dlsym(driver, "cuMemAlloc_v2");
    memory_free = (int (*)(uint64_t))dlsym(driver, "cuMemFree_v2");
    set_current = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
    report = (report_function *)dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
}

void host_begin(void)
{
    host_find();
    host_start();
}

void host_start(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*create)(void **, unsigned, int) = (int (*)(void **, unsigned, int))dlsym(driver, "cuCtxCreate_v2");
    if (!init || !create || init(0) || create(&context, 0, 0))
        _exit(STATUS_NO_CUDA);
}

void host_use_context(void)
{
    if (set_current(context))
        _exit(STATUS_CALL_FAILED);
}

uint64_t host_alloc(size_t bytes)
{
    return host_alloc_by(memory_alloc, bytes);
}

uint64_t host_alloc_by(int (*function)(uint64_t *, size_t), size_t bytes)
{
    struct host_slot *mine = slot();
    uint64_t address = 0;
    atomic_fetch_add(&mine->begun, 1);
    if (function(&address, bytes)) {
        atomic_fetch_sub(&mine->begun, 1);
        return 0;
    }
    atomic_fetch_add(&mine->done, 1);
    return address;
}

void host_free(uint64_t address)
{
    struct host_slot *mine = slot();
    atomic_fetch_add(&mine->begun, 1);
    if (memory_free(address))
        _exit(STATUS_CALL_FAILED);
    atomic_fetch_add(&mine->done, 1);
}

void host_pair(void)
{
    uint64_t address = host_alloc(BLOCK_BYTES);
    if (!address)
        _exit(STATUS_CALL_FAILED);
    host_free(address);
}

void host_pairs(int count)
{
    for (int i = 0; i < count; i++)
        host_pair();
}

void host_block_pair(void)
{
    static _Atomic uint64_t blocks;
    struct host_slot *mine = slot();
    uint64_t number = atomic_fetch_add(&blocks, 1) + 1;
    for (int part = 0; part < 2; part++) {
        atomic_fetch_add(&mine->begun, 1);
        if (report)
            report((void *)(uintptr_t)(number * BLOCK_BYTES), part ? -BLOCK_BYTES : BLOCK_BYTES,
                   part ? 0 : BLOCK_BYTES, 1 << 20, 1);
        atomic_fetch_add(&mine->done, 1);
    }
}

static void say(const char *format, va_list arguments)
{
    char text[8192];
    int length = vsnprintf(text, sizeof text, format, arguments);
    for (int at = 0; at < length;) {
        ssize_t bytes = write(STDOUT_FILENO, text + at, (size_t)(length - at));
        if (bytes <= 0)
            return;
        at += (int)bytes;
    }
}

void host_say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

void host_measure(const char *name, double value, double allowed)
{
    host_say("measure %s %.3f %+.3f\n", name, value, allowed);
}

/* By the system call: opendir would allocate. The descriptor that reads the folder is left out. */
static int list_folder(const char *path, int numbers[], int limit, bool descriptors)
{
    char buffer[4096];
    int count = 0, folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -1;
    for (long bytes; (bytes = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0;)
        for (long at = 0; at < bytes;) {
            struct dirent64 *entry = (struct dirent64 *)(void *)(buffer + at);
            int number = atoi(entry->d_name);
            at += entry->d_reclen;
            if (entry->d_name[0] != '.' && !(descriptors && number == folder) && count < limit)
                numbers[count++] = number;
        }
    close(folder);
    return count;
}

static int by_number(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

void host_list_descriptors(const char *label)
{
    int numbers[1024];
    char line[8192] = "";
    size_t used = 0;
    int count = list_folder("/proc/self/fd", numbers, 1024, true);
    if (count < 0) {
        host_say("%s: cannot be read\n", label);
        return;
    }
    qsort(numbers, (size_t)count, sizeof *numbers, by_number);
    for (int i = 0; i < count && used < sizeof line - 16; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, " %d", numbers[i]);
    host_say("%s:%s\n", label, line);
}

int host_count_tasks(void)
{
    static int numbers[20000];
    return list_folder("/proc/self/task", numbers, 20000, false);
}

double host_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void host_nap_ms(int milliseconds)
{
    double until = host_seconds() + milliseconds / 1e3;
    for (double left; (left = until - host_seconds()) > 0;)
        nanosleep(&(struct timespec){.tv_sec = (time_t)left,
                                     .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)},
                  NULL);
}

pthread_t host_thread(void *(*run)(void *), void *argument, size_t stack_bytes)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (stack_bytes)
        pthread_attr_setstacksize(&attributes, stack_bytes);
    int error = pthread_create(&thread, &attributes, run, argument);
    if (error) {
        host_say("no thread: %s\n", strerror(error));
        _exit(79);
    }
    pthread_attr_destroy(&attributes);
    return thread;
}

void host_wait(int pid, const char *label)
{
    int status = 0;
    if (pid < 0)
        host_say("%s: could not start\n", label);
    else if (waitpid(pid, &status, 0) != pid)
        host_say("%s: no child to wait for\n", label);
    else if (WIFSIGNALED(status))
        host_say("%s: signal %d\n", label, WTERMSIG(status));
    else
        host_say("%s: status %d\n", label, WEXITSTATUS(status));
}

int host_main(int count, char **arguments, const struct host_way *ways, size_t way_count)
{
    for (size_t i = 0; count > 1 && i < way_count; i++)
        if (!strcmp(arguments[1], ways[i].name))
            return ways[i].run(count - 2, arguments + 2);
    for (size_t i = 0; i < way_count; i++)
        host_say("%s\n", ways[i].name);
    return 2;
}
