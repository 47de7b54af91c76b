/* Prints what a driver's library answers where there is no GPU. With and without the recorder it must be the
 * same, but that a hooked function is the recorder's:
 *
 *   driver_answers LIBRARY NAMES lookups|entries|calls|copied|reached|texts
 *
 * NAMES: lines of a name and its offset in LIBRARY (0: not exported). `copied`: calls of a copy, as the
 * recorder makes it of NVML. */
#include "loader/private_copy.h"

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NAMES = 2048, ARGUMENTS = 14, AREA_BYTES = 4096, CALL_SECONDS = 10 };

static struct {
    char text[80];
    uintptr_t offset;
} names[NAMES];
static size_t name_count;
static const char *library_name;
static void *library;
static uintptr_t base;

static void read_names(const char *path)
{
    FILE *file = fopen(path, "r");
    while (file != NULL && name_count < NAMES &&
           fscanf(file, "%79s %zx", names[name_count].text, &names[name_count].offset) == 2)
        name_count++;
    if (file == NULL || !feof(file))
        exit(2);
    fclose(file);
}

/* "NULL", or the library's name and the function's. */
static const char *described(void *address)
{
    static char text[256];
    Dl_info info;
    if (address == NULL)
        return "NULL";
    for (size_t i = 0; i < name_count; i++)
        if (names[i].offset != 0 && (uintptr_t)address == base + names[i].offset) {
            snprintf(text, sizeof text, "%s %s", library_name, names[i].text);
            return text;
        }
    if (dladdr(address, &info) == 0 || info.dli_saddr != address)
        return "unknown";
    const char *slash = strrchr(info.dli_fname, '/');
    snprintf(text, sizeof text, "%s %s", slash != NULL ? slash + 1 : info.dli_fname, info.dli_sname);
    return text;
}

static void open_library(int mode)
{
    library = dlopen(library_name, mode);
    if (library == NULL) {
        printf("missing %s\n", dlerror());
        exit(1);
    }
    base = ((struct link_map *)library)->l_addr;
}

/* ---- dlsym and dlvsym ---- */

static void ask_all(const char *when, void *handle)
{
    for (size_t i = 0; i < name_count; i++) {
        dlerror();
        void *found = dlsym(handle, names[i].text);
        const char *error = dlerror(), *text = error != NULL ? strstr(error, "undefined symbol") : "no error";
        printf("%s, %s: %s, %s\n", when, names[i].text, described(found),
               text != NULL ? text : "other error");
    }
}

static void ask_all_versioned(const char *when, void *handle)
{
    for (size_t i = 0; i < name_count; i++) {
        dlerror();
        void *found = dlvsym(handle, names[i].text, "none");
        printf("%s, %s: %s, %s\n", when, names[i].text, described(found),
               dlerror() != NULL ? "error" : "no error");
    }
}

static void lookups(void)
{
    ask_all("before it is loaded", RTLD_DEFAULT);
    open_library(RTLD_NOW | RTLD_LOCAL);
    ask_all("local", RTLD_DEFAULT);
    ask_all("handle", library);
    ask_all("program", dlopen(NULL, RTLD_NOW));
    ask_all_versioned("dlvsym, handle", library);
    open_library(RTLD_NOW | RTLD_GLOBAL);
    ask_all("global", RTLD_DEFAULT);
    ask_all("next", RTLD_NEXT);
    ask_all_versioned("dlvsym, next", RTLD_NEXT);
}

/* ---- cuGetProcAddress ---- */

typedef int entry_v1(const char *name, void **found, int version, uint64_t flags);
typedef int entry_v2(const char *name, void **found, int version, uint64_t flags, int *status);

static const int versions[] = {0,     2000,  2020,  3000,  3010,  3020,  4000,  4010,  5000,  5050,  6000,
                               6050,  7000,  7050,  8000,  9000,  9010,  9020,  10000, 10010, 10020, 11000,
                               11010, 11020, 11030, 11040, 11050, 11060, 11070, 11080, 12000, 12010, 12020,
                               12030, 12040, 12050, 12060, 12070, 12080, 12090, 13000, 13010, 13020, 99990};
static const uint64_t flags[] = {0, 1, 2, 3, 4};
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Of one name: a line for each version from which the answer is another one. */
static void ask_entries(const char *name, bool second, uint64_t flag)
{
    const char *symbol = second ? "cuGetProcAddress_v2" : "cuGetProcAddress";
    void *entry = dlsym(library, symbol);
    char before[400] = "";
    for (size_t v = 0; entry != NULL && v < COUNT(versions); v++) {
        char answer[400];
        void *found = &found; /* not written where an error is returned */
        int status = -1;
        const int result = second ? ((entry_v2 *)entry)(name, &found, versions[v], flag, &status)
                                  : ((entry_v1 *)entry)(name, &found, versions[v], flag);
        snprintf(answer, sizeof answer, "result %d, status %d, %s", result, status,
                 found == (void *)&found ? "not written" : described(found));
        if (strcmp(answer, before) != 0)
            printf("%s %d, %s from %d: %s\n", symbol, (int)flag, name, versions[v], answer);
        memcpy(before, answer, sizeof before);
    }
}

static void entries(void)
{
    open_library(RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < name_count; i++)
        for (size_t f = 0; f < COUNT(flags); f++) {
            ask_entries(names[i].text, false, flags[f]);
            ask_entries(names[i].text, true, flags[f]);
        }
    ask_entries("", true, 0);
    ask_entries("no_such_name", true, 0);
}

/* ---- calls ---- */

typedef int any_function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                         uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

/* Arguments that differ, can be read as pointers, and are the same as 32-bit numbers; or all 0. */
static uintptr_t area;
static uintptr_t argument(unsigned i)
{
    return area == 0 ? 0 : area + i * (uintptr_t)AREA_BYTES;
}

static int call(void *function)
{
    uintptr_t a[ARGUMENTS];
    if (area != 0)
        memset((void *)area, 0, (size_t)ARGUMENTS * AREA_BYTES);
    for (unsigned i = 0; i < ARGUMENTS; i++)
        a[i] = argument(i);
    return ((any_function *)function)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10],
                                      a[11], a[12], a[13]);
}

static void make_area(void)
{
    void *wanted = (void *)0x20000000;
    if (mmap(wanted, (size_t)ARGUMENTS * AREA_BYTES, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != wanted)
        exit(2);
    area = (uintptr_t)wanted;
}

/* Does `work` for each name, in a child, and in another one from the next name on if a signal ends it. */
static void for_each(const char *what, void (*work)(const char *what, size_t i))
{
    static volatile size_t *next;
    if (next == NULL)
        next = mmap(NULL, sizeof *next, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (*next = 0; *next < name_count; ++*next) {
        int status = 0;
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            for (; *next < name_count; ++*next) {
                alarm(CALL_SECONDS);
                work(what, *next);
                fflush(stdout);
            }
            _exit(0);
        }
        waitpid(child, &status, 0);
        if (status != 0)
            printf("%s %s: signal %d\n", what, names[*next].text, WTERMSIG(status));
    }
}

static void call_one(const char *what, size_t i)
{
    void *function = dlsym(library, names[i].text);
    if (function != NULL)
        printf("%s %s: %d\n", what, names[i].text, call(function));
}

static void call_all(void)
{
    for_each("zeros", call_one);
    int (*initialize)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
    int (*initialize_nvml)(void) = (int (*)(void))dlsym(library, "nvmlInit_v2");
    printf("initialized: %d\n", initialize != NULL ? initialize(0) : initialize_nvml());
    for_each("initialized, zeros", call_one);
    make_area();
    for_each("initialized, pointers", call_one);
}

static void calls(void)
{
    open_library(RTLD_NOW | RTLD_GLOBAL);
    call_all();
}

static int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static void copied(void)
{
    open_library(RTLD_NOW | RTLD_LOCAL);
    const uintptr_t original = base;
    const int before = count_descriptors();
    library = vt_load_private_copy(((struct link_map *)library)->l_name);
    if (library == NULL || count_descriptors() != before)
        exit(1);
    base = ((struct link_map *)library)->l_addr;
    for (size_t i = 0; i < name_count; i++)
        if (base == original ||
            (names[i].offset != 0 && (uintptr_t)dlsym(library, names[i].text) != base + names[i].offset))
            exit(1);
    call_all();
}

/* ---- which function a call ends in ---- */

static uintptr_t seen[ARGUMENTS];
static int arrivals;

static int arrive(uintptr_t a0, uintptr_t a1, uintptr_t a2, uintptr_t a3, uintptr_t a4, uintptr_t a5,
                  uintptr_t a6, uintptr_t a7, uintptr_t a8, uintptr_t a9, uintptr_t a10, uintptr_t a11,
                  uintptr_t a12, uintptr_t a13)
{
    const uintptr_t arrived[ARGUMENTS] = {a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13};
    memcpy(seen, arrived, sizeof seen);
    arrivals++;
    return 999;
}

#if defined(__x86_64__)
static const unsigned char jump[] = {0x48, 0xb8, 0, 0, 0,    0,
                                     0,    0,    0, 0, 0xff, 0xe0}; /* mov $target, %rax; jmp *%rax */
enum { TARGET_AT = 2 };
#else
static const unsigned char jump[] = {0x50, 0, 0, 0x58, 0, 2, 0x1f, 0xd6,
                                     0,    0, 0, 0,    0, 0, 0,    0}; /* ldr x16, target; br x16 */
enum { TARGET_AT = 8 };
#endif

static void write_code(uintptr_t function, const unsigned char *code)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = function & ~(page - 1);
    if (mprotect((void *)begin, 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        exit(2);
    memcpy((void *)function, code, sizeof jump);
    __builtin___clear_cache((char *)function, (char *)function + sizeof jump);
}

/* Calls what each lookup gives, while the real function's first instructions are a jump to `arrive`. */
static void reach(const char *what, size_t i)
{
    if (names[i].offset == 0)
        return;
    const char *name = names[i].text;
    void *ways[] = {dlsym(library, name), dlsym(RTLD_DEFAULT, name), dlsym(RTLD_NEXT, name)};
    const uintptr_t real = base + names[i].offset, target = (uintptr_t)arrive;
    unsigned char code[sizeof jump], before[sizeof jump];
    memcpy(code, jump, sizeof code);
    memcpy(code + TARGET_AT, &target, sizeof target);
    memcpy(before, (void *)real, sizeof before);
    write_code(real, code);
    for (size_t way = 0; way < COUNT(ways); way++) {
        unsigned same = 0;
        const int result = call(ways[way]);
        for (unsigned k = 0; k < ARGUMENTS; k++)
            same |= ((uint32_t)seen[k] == (uint32_t)argument(k)) << k;
        printf("%s %s: %d times, arguments %x, result %d, by %s\n", what, name, arrivals, same, result,
               described(ways[way]));
        arrivals = 0;
        memset(seen, 0, sizeof seen);
    }
    write_code(real, before);
}

static void reached(void)
{
    open_library(RTLD_NOW | RTLD_GLOBAL);
    make_area();
    for_each("reached", reach);
}

/* ---- what errors are called ---- */

static void texts(void)
{
    open_library(RTLD_NOW | RTLD_LOCAL);
    int (*error_name)(int, const char **) = (int (*)(int, const char **))dlsym(library, "cuGetErrorName");
    int (*error_text)(int, const char **) = (int (*)(int, const char **))dlsym(library, "cuGetErrorString");
    const char *(*nvml_text)(int) = (const char *(*)(int))dlsym(library, "nvmlErrorString");
    for (int code = -1; code < 1100; code++) {
        const char *name = "not written", *text = name;
        if (nvml_text != NULL) {
            printf("error %d: %s\n", code, nvml_text(code));
            continue;
        }
        const int named = error_name(code, &name), told = error_text(code, &text);
        printf("error %d: %d %s, %d %s\n", code, named, name != NULL ? name : "NULL", told,
               text != NULL ? text : "NULL");
    }
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } parts[] = {{"lookups", lookups}, {"entries", entries}, {"calls", calls},
                 {"copied", copied},   {"reached", reached}, {"texts", texts}};
    if (count != 4)
        return 2;
    library_name = arguments[1];
    read_names(arguments[2]);
    for (size_t i = 0; i < COUNT(parts); i++)
        if (strcmp(parts[i].name, arguments[3]) == 0) {
            parts[i].print();
            return 0;
        }
    return 2;
}
