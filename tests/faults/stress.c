/* What a host may do to a library inside it, one way per name: stress WAY [NUMBER...]. test_stress.py says what is to come
 * of it. Events come through PyTorch's seam and through libcuda; what a way made, it prints as "alloc N free N". */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef LINKED_IN
__attribute__((visibility("default"))) const int vt_linked_in = 1;
#endif

typedef void usage_function(void *, int64_t, uint64_t, uint64_t, uint16_t);
static usage_function *usage;
static int (*memory_alloc)(uint64_t *, size_t), (*memory_free)(uint64_t);
static int (*set_current)(void *);
static int (*mark)(const char *);
static void *context;

enum { BLOCK_BYTES = 512, CUDA = 1 };
#ifdef __SANITIZE_THREAD__
enum { SMALL_STACK_BYTES = 1 << 20 };
#else
enum { SMALL_STACK_BYTES = 64 << 10 };
#endif
static pthread_mutex_t allocator_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t allocated;
static uint64_t numbers[4];

static void find_everything(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*create)(void **, unsigned, int) = (int (*)(void **, unsigned, int))dlsym(driver, "cuCtxCreate_v2");
    mark = (int (*)(const char *))dlsym(RTLD_DEFAULT, "vramtrace_mark");
    /* With a sanitizer the recorder is linked in (meson.build), without its dlsym. */
    void *wrappers = dlsym(RTLD_DEFAULT, "vt_linked_in") ? RTLD_DEFAULT : driver;
    memory_alloc = (int (*)(uint64_t *, size_t))dlsym(wrappers, "cuMemAlloc_v2");
    memory_free = (int (*)(uint64_t))dlsym(wrappers, "cuMemFree_v2");
    set_current = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
    if (!usage || !mark || init(0) || create(&context, 0, 0))
        exit(2);
}

/* As the framework does, its lock is held while it reports: so its totals in the trace have one order. */
static void report(uint64_t address, int64_t bytes)
{
    pthread_mutex_lock(&allocator_lock);
    allocated += (uint64_t)bytes;
    usage((void *)(uintptr_t)address, bytes, allocated, 1 << 30, CUDA);
    pthread_mutex_unlock(&allocator_lock);
}

static void block_pair(uint64_t address)
{
    report(address, BLOCK_BYTES);
    report(address, -BLOCK_BYTES);
}

static void driver_pair(size_t bytes)
{
    uint64_t address;
    if (memory_alloc(&address, bytes) || memory_free(address))
        abort();
}

static pthread_t start_thread(void *(*run)(void *), void *argument, size_t stack_bytes)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    if (pthread_create(&thread, &attributes, run, argument))
        exit(3);
    pthread_attr_destroy(&attributes);
    return thread;
}

/* numbers[1] pairs of blocks, and of the driver's every 16th. */
static void *many_pairs(void *argument)
{
    uint64_t base = ((uint64_t)(uintptr_t)argument + 1) << 32;
    set_current(context);
    for (uint64_t i = 0; i < numbers[1]; i++) {
        block_pair(base + (i % 1000) * BLOCK_BYTES);
        if (i % 16 == 0)
            driver_pair(4096);
        if (i % 1024 == 0)
            mark("some");
    }
    return NULL;
}

static uint64_t pairs_of_many(void)
{
    return numbers[1] + (numbers[1] + 15) / 16;
}

static void threads(void)
{
    pthread_t list[64];
    uint64_t count = numbers[0] < 64 ? numbers[0] : 64;
    for (uint64_t i = 0; i < count; i++)
        list[i] = start_thread(many_pairs, (void *)(uintptr_t)i, SMALL_STACK_BYTES);
    for (uint64_t i = 0; i < count; i++)
        pthread_join(list[i], NULL);
    printf("alloc %lu free %lu\n", count * pairs_of_many(), count * pairs_of_many());
}

static void *one_pair(void *argument)
{
    block_pair(((uint64_t)(uintptr_t)argument + 1) << 32);
    return NULL;
}

static long resident_kib(void)
{
    long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (fscanf(file, "%ld %ld", &total, &resident) != 2)
        resident = 0;
    fclose(file);
    return resident * 4;
}

static void short_threads(void)
{
    long first = 0;
    for (uint64_t i = 0; i < numbers[0]; i++) {
        pthread_join(start_thread(one_pair, (void *)(uintptr_t)i, SMALL_STACK_BYTES), NULL);
        if (i == numbers[0] / 10)
            first = resident_kib();
    }
    printf("alloc %lu free %lu resident_kib %ld %ld\n", numbers[0], numbers[0], first, resident_kib());
}

/* How much of a thread's stack is touched below its own frames. */
static uint8_t *painted;
static void *paint_and_run(void *argument)
{
    uint8_t *from = painted + 4096, *to = (uint8_t *)((uintptr_t)__builtin_frame_address(0) - 1024);
    memset(from, 0xA5, (size_t)(to - from));
    if (argument) {
        set_current(context);
        driver_pair(4096);
    }
    block_pair(UINT64_C(1) << 40);
    block_pair(UINT64_C(1) << 40);
    size_t left = 0;
    while (from + left < to && from[left] == 0xA5)
        left++;
    return (void *)(to - from - (ptrdiff_t)left);
}

static void stack_use(void)
{
    size_t bytes = 1 << 20;
    for (int i = 0; i < 3; i++) {
        pthread_attr_t attributes;
        pthread_t thread;
        void *touched;
        painted = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, painted, bytes);
        if (pthread_create(&thread, &attributes, paint_and_run, i == 1 ? "driver" : NULL))
            exit(3);
        pthread_join(thread, &touched);
        printf("%s %zu\n", i == 0 ? "first" : i == 1 ? "driver" : "later", (size_t)(uintptr_t)touched);
    }
}

/* Children are forked while threads record; each child records, and ends one way or the other. */
static _Atomic int stop;
static void *until_stopped(void *argument)
{
    uint64_t base = ((uint64_t)(uintptr_t)argument + 1) << 32, *made = calloc(1, sizeof *made);
    set_current(context);
    for (; !atomic_load(&stop); (*made)++) {
        if (*made % 4 == 0)
            driver_pair(4096);
        else
            block_pair(base);
    }
    return made;
}

/* Code without unwind information, and with nothing sensible in the frame pointer: a page full of it. */
enum { CALLS_PER_PAGE = 128, CALL_BYTES = 32 }; /* up to the page's end: nothing past a return address may be read */
#if defined __x86_64__
static uint8_t *page_of_calls(void)
{
    static const uint8_t code[] = {0x55, 0x53, 0x48, 0x83, 0xec, 0x08,             /* push rbp, rbx; sub rsp, 8 */
                                   0x48, 0xc7, 0xc5, 0x39, 0x30, 0x00, 0x00,       /* mov rbp, 12345 */
                                   0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0xff, 0xd0, /* mov rax, rdi; mov rdi, rsi; call rax */
                                   0x48, 0x83, 0xc4, 0x08, 0x5b, 0x5d, 0xc3};
    uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    _Static_assert(sizeof code <= CALL_BYTES, "a call fits its place");
    for (int i = 0; i < CALLS_PER_PAGE; i++)
        memcpy(page + i * CALL_BYTES, code, sizeof code);
    return page;
}
#else
static uint8_t *page_of_calls(void)
{
    exit(77);
}
#endif

static void call_without_cfi(void)
{
    uint8_t *page = page_of_calls();
    for (int i = 0; i < CALLS_PER_PAGE; i++)
        ((void (*)(void (*)(uint64_t), uint64_t))(void *)(page + i * CALL_BYTES))(block_pair, 1 << 20);
    printf("alloc %d free %d\n", CALLS_PER_PAGE, CALLS_PER_PAGE);
}

/* All descriptors closed, and their numbers used again for files of the host's own. */
static void close_all(void)
{
    struct stat status;
    int last = 0;
    block_pair(1 << 20);
    usleep(300000);
    for (int file = 3; file < 1100; file++)
        close(file);
    while (last >= 0 && last < 1020) {
        char name[32];
        snprintf(name, sizeof name, "data.%d", last);
        last = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    }
    numbers[1] = 100000;
    usleep(300000);
    many_pairs(NULL);
    call_without_cfi();
    usleep(300000);
    for (int file = 3; file <= last; file++)
        if (fstat(file, &status) || !S_ISREG(status.st_mode))
            printf("file %d of the host is gone\n", file);
        else if (status.st_size)
            printf("%ld bytes in file %d of the host\n", (long)status.st_size, file);
}

/* Code that the unwinder and the writer have not met, all the time: they look at the libraries for it. */
static void *new_code_until_stopped(void *argument)
{
    uint64_t *made = calloc(1, sizeof *made);
    (void)argument;
    while (!atomic_load(&stop)) {
        uint8_t *page = page_of_calls();
        for (int i = 0; i < CALLS_PER_PAGE && !atomic_load(&stop); i++, (*made)++)
            ((void (*)(void (*)(uint64_t), uint64_t))(void *)(page + i * CALL_BYTES))(block_pair, 1 << 20);
    }
    return made;
}

static void forks(void)
{
    pthread_t list[4];
    uint64_t made = 0, *part;
    for (uint64_t i = 0; i < 4; i++)
        list[i] = start_thread(i == 3 ? new_code_until_stopped : until_stopped, (void *)(uintptr_t)i,
                               SMALL_STACK_BYTES);
    for (uint64_t i = 0; i < numbers[0]; i++) {
        pthread_mutex_lock(&allocator_lock);
        pid_t child = fork();
        pthread_mutex_unlock(&allocator_lock);
        if (child == 0) {
            allocated = 0;
            alarm(20);
            for (int k = 0; k < 10; k++) {
                block_pair(UINT64_C(1) << 40);
                memory_free(4096); /* which is refused here, and recorded all the same */
            }
            if (!dlopen("libm.so.6", RTLD_NOW))
                _exit(9);
            if (i % 2)
                _exit(0);
            exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        if (status)
            printf("child ended with %#x\n", status);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 4; i++) {
        pthread_join(list[i], (void **)&part);
        made += *part;
        free(part);
    }
    printf("alloc %lu free %lu\n", made, made);
}

/* exit() in one thread while the others record. */
static void *exits(void *argument)
{
    (void)argument;
    usleep(50000);
    exit(7);
}

static void exit_in_thread(void)
{
    for (uint64_t i = 0; i < 4; i++)
        start_thread(until_stopped, (void *)(uintptr_t)i, SMALL_STACK_BYTES);
    pthread_join(start_thread(exits, NULL, SMALL_STACK_BYTES), NULL);
}

/* In place of the C library's: slow, so that a host that goes on before its file is removed is seen. */
int unlink(const char *path)
{
    usleep(100000);
    return unlinkat(AT_FDCWD, path, 0);
}

static void little_room_for_files(void)
{
    struct rlimit limit = {1 << 20, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    block_pair(1 << 20);
}

static void broken_stderr(void)
{
    int ends[2];
    if (pipe(ends))
        exit(3);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    block_pair(1 << 20);
}

static void only_frees(void)
{
    usage((void *)(1 << 20), -BLOCK_BYTES, 0, 1 << 30, CUDA);
}

/* A library's constructor waits for a lock that a thread at its first event holds. */
static pthread_mutex_t host_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int holds_lock, in_constructor;
void stress_constructor(void);
__attribute__((visibility("default"))) void stress_constructor(void)
{
    if (!atomic_load(&holds_lock))
        return;
    atomic_store(&in_constructor, 1);
    pthread_mutex_lock(&host_lock);
    block_pair(1 << 21);
    pthread_mutex_unlock(&host_lock);
}

static void *first_event_in_lock(void *argument)
{
    (void)argument;
    pthread_mutex_lock(&host_lock);
    atomic_store(&holds_lock, 1);
    while (!atomic_load(&in_constructor))
        usleep(1000);
    usleep(10000);
    block_pair(1 << 20);
    pthread_mutex_unlock(&host_lock);
    return NULL;
}

static void constructor_lock(const char *plugin)
{
    alarm(10);
    pthread_t thread = start_thread(first_event_in_lock, NULL, SMALL_STACK_BYTES);
    while (!atomic_load(&holds_lock))
        usleep(1000);
    if (!dlopen(plugin, RTLD_NOW))
        exit(4);
    pthread_join(thread, NULL);
    printf("alloc 2 free 2\n");
}

#define PLUGIN_THREADS 3

/* A plugin's frames are in stacks; it goes while the writer may be naming them, and others load it. */
static void *plugin_goes(void *plugin)
{
    static _Atomic uint64_t calls;
    for (uint64_t i = 0; i < numbers[0]; i++) {
        void *handle = dlopen(plugin, RTLD_NOW);
        void (*call)(void (*)(uint64_t), uint64_t) = (void (*)(void (*)(uint64_t), uint64_t))dlsym(handle, "plugin_call");
        call(block_pair, ++calls << 20);
        if (dlclose(handle))
            abort();
    }
    return NULL;
}

static void plugins_go(char *plugin)
{
    pthread_t list[PLUGIN_THREADS];
    for (int i = 0; i < PLUGIN_THREADS; i++)
        list[i] = start_thread(plugin_goes, plugin, SMALL_STACK_BYTES);
    for (int i = 0; i < PLUGIN_THREADS; i++)
        pthread_join(list[i], NULL);
    printf("alloc %lu free %lu\n", PLUGIN_THREADS * numbers[0], PLUGIN_THREADS * numbers[0]);
}

static void *pairs_for_a_while(void *argument)
{
    uint64_t base = ((uint64_t)(uintptr_t)argument + 1) << 32, *made = calloc(1, sizeof *made);
    for (; !atomic_load(&stop); (*made)++) {
        block_pair(base + *made % 1000 * BLOCK_BYTES);
        if (*made % 50 == 0)
            usleep(100);
    }
    return made;
}

static void soak(const char *trace)
{
    pthread_t list[4];
    uint64_t made = 0, *part;
    struct stat status;
    for (uint64_t i = 0; i < 4; i++)
        list[i] = start_thread(pairs_for_a_while, (void *)(uintptr_t)i, SMALL_STACK_BYTES);
    for (uint64_t second = 0; second < numbers[0]; second++) {
        sleep(1);
        if (second % 30 == 0 && !stat(trace, &status))
            fprintf(stderr, "%3lu s: %ld KiB resident, file %ld KiB\n", second, resident_kib(), (long)status.st_size >> 10);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 4; i++) {
        pthread_join(list[i], (void **)&part);
        made += *part;
    }
    fprintf(stderr, "%3lu s: %ld KiB resident\n", numbers[0], resident_kib());
    printf("alloc %lu free %lu\n", made, made);
}

/* The parent goes, the child goes on by itself. */
static void daemonize(void)
{
    block_pair(1 << 20);
    if (fork())
        _exit(0);
    setsid();
    for (int file = 0; file < 1100; file++)
        close(file);
    if (chdir("/"))
        exit(3);
    block_pair(1 << 20);
}

int main(int count, char **arguments)
{
    const char *way = count > 1 ? arguments[1] : "";
    const char *text = count > 2 ? arguments[2] : "";
    for (int i = 2; i < count && i < 6; i++)
        numbers[i - 2] = strtoull(arguments[i], NULL, 0);
    if (count > 3 && !strcmp(way, "plugin"))
        numbers[0] = strtoull(arguments[3], NULL, 0);
    usage = (usage_function *)dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
    if (strcmp(way, "constructor") && strcmp(way, "frees") && strcmp(way, "fsize"))
        find_everything();
    if (!strcmp(way, "threads"))
        threads();
    else if (!strcmp(way, "short"))
        short_threads();
    else if (!strcmp(way, "stack"))
        stack_use();
    else if (!strcmp(way, "forks"))
        forks();
    else if (!strcmp(way, "exit"))
        exit_in_thread();
    else if (!strcmp(way, "close"))
        close_all();
    else if (!strcmp(way, "fsize"))
        little_room_for_files();
    else if (!strcmp(way, "stderr"))
        broken_stderr();
    else if (!strcmp(way, "frees"))
        only_frees();
    else if (!strcmp(way, "constructor"))
        constructor_lock(text);
    else if (!strcmp(way, "plugin"))
        plugins_go(arguments[2]);
    else if (!strcmp(way, "cfi"))
        call_without_cfi();
    else if (!strcmp(way, "soak"))
        soak(arguments[3]);
    else if (!strcmp(way, "daemon"))
        daemonize();
    else
        return 2;
    return 0;
}
