/* What the Python tests call: walks, descriptions and lines, as text. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "trace/python_lines.h"
#include "stacks/python.h"
#include "stacks/python_code.h"
#include "stacks/python_locals.h"

#define EXPORT __attribute__((visibility("default")))

struct test_walk {
    uint64_t hash;
    uint32_t truncated;
    uint32_t unreadable;
    uint32_t frames;
    uint32_t failed; /* code objects that could not be described, or text that did not fit */
};

EXPORT size_t test_walk(char *text, size_t text_bytes, size_t capacity, struct test_walk *told);
EXPORT size_t test_walk_hash(size_t capacity, uint64_t *hash);
EXPORT double test_walk_ns(size_t capacity, unsigned walks, uint32_t *frames);
EXPORT double test_walk_cold_ns(size_t capacity, unsigned walks);
EXPORT void test_lines(int minor, const uint8_t *table, size_t bytes, int32_t first_line, int32_t count,
                       int32_t *lines);
EXPORT void test_locals(size_t frames, void *list);
EXPORT int test_unsupported_minor(void);
EXPORT uint32_t test_hex_version(void);
EXPORT int test_loaded(void);
EXPORT size_t test_describe(const void *code, size_t buffer_bytes, char *text, size_t text_bytes);

#define MAXIMUM 4096
#define FIELD "\x1f"
#define RECORD "\x1e"

/* The interpreter is there before this library; in the recorder, the writer thread looks for it. */
__attribute__((constructor)) static void look_up(void)
{
    vt_python_look_up();
}

/* What is told without storing frames, from nothing and from what the thread's walks before left, must be
 * the same. */
static void walk(struct vt_raw_python_frame *frames, size_t capacity, struct vt_python_stack *stack)
{
    static __thread struct vt_recent_frames recent;
    struct vt_python_stack anew, known, again;
    vt_python_walk(frames, capacity, stack);
    vt_python_hash(NULL, capacity, &anew);
    vt_python_hash(&recent, capacity, &known);
    vt_python_hash(&recent, capacity, &again);
    if (memcmp(stack, &anew, sizeof anew) || memcmp(stack, &known, sizeof known) ||
        memcmp(stack, &again, sizeof again)) {
        fprintf(stderr, "a walk, its hash, and what is remembered of it differ\n");
        abort();
    }
}

/* One record a frame: file, name, line, instruction offset, self. */
size_t test_walk(char *text, size_t text_bytes, size_t capacity, struct test_walk *told)
{
    static __thread struct vt_raw_python_frame frames[MAXIMUM];
    struct vt_python_stack stack = {0};
    memset(told, 0, sizeof *told);
    walk(frames, capacity < MAXIMUM ? capacity : MAXIMUM, &stack);
    size_t count = stack.frames;
    told->hash = stack.hash;
    told->truncated = stack.truncated;
    told->unreadable = stack.unreadable;
    told->frames = (uint32_t)count;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        char buffer[1024];
        struct vt_python_code_view view = {.buffer = buffer, .buffer_bytes = sizeof buffer};
        if (!vt_python_describe_code(frames[i].code, &view)) {
            told->failed++;
            continue;
        }
        int32_t line = vt_python_line(view.python_minor, view.line_table, view.line_table_bytes,
                                      view.first_line, frames[i].instruction_offset);
        int written = snprintf(text + used, text_bytes - used,
                               "%.*s" FIELD "%.*s" FIELD "%d" FIELD "%d" FIELD "%llu" RECORD,
                               (int)view.file_bytes, view.file, (int)view.name_bytes, view.name, line,
                               frames[i].instruction_offset, (unsigned long long)frames[i].self_address);
        if (written < 0 || (size_t)written >= text_bytes - used) {
            told->failed++;
            break;
        }
        used += (size_t)written;
    }
    return used;
}

size_t test_walk_hash(size_t capacity, uint64_t *hash)
{
    static __thread struct vt_raw_python_frame frames[MAXIMUM];
    struct vt_python_stack stack = {0};
    walk(frames, capacity < MAXIMUM ? capacity : MAXIMUM, &stack);
    *hash = stack.hash;
    return stack.frames;
}

double test_walk_ns(size_t capacity, unsigned walks, uint32_t *frames_found)
{
    static __thread struct vt_recent_frames recent;
    struct vt_python_stack stack = {0};
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (unsigned i = 0; i < walks; i++)
        vt_python_hash(&recent, capacity, &stack);
    clock_gettime(CLOCK_MONOTONIC, &end);
    *frames_found = (uint32_t)stack.frames;
    return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / walks;
}

/* Each walk after 4 MiB of other memory went through the cache: as in a program that computes meanwhile. */
double test_walk_cold_ns(size_t capacity, unsigned walks)
{
    static __thread struct vt_recent_frames recent;
    static volatile char other[4 << 20];
    struct vt_python_stack stack = {0};
    double total = 0;
    for (unsigned i = 0; i < walks; i++) {
        for (size_t k = 0; k < sizeof other; k += 64)
            other[k]++;
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        vt_python_hash(&recent, capacity, &stack);
        clock_gettime(CLOCK_MONOTONIC, &end);
        total += (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
    }
    return total / walks;
}

void test_lines(int minor, const uint8_t *table, size_t bytes, int32_t first_line, int32_t count,
                int32_t *lines)
{
    /* A copy of its own size, so that a sanitizer sees a read past its end. */
    uint8_t *copy = malloc(bytes != 0 ? bytes : 1);
    if (copy == NULL)
        return;
    memcpy(copy, table, bytes);
    for (int32_t i = 0; i < count; i++)
        lines[i] = vt_python_line(minor, copy, bytes, first_line, i * 2);
    free(copy);
}

size_t test_describe(const void *code, size_t buffer_bytes, char *text, size_t text_bytes)
{
    char buffer[1024];
    struct vt_python_code_view view = {
        .buffer = buffer,
        .buffer_bytes = buffer_bytes < sizeof buffer ? buffer_bytes : sizeof buffer,
    };
    if (!vt_python_describe_code(code, &view))
        return 0;
    int written = snprintf(text, text_bytes, "%.*s" FIELD "%.*s", (int)view.file_bytes, view.file,
                           (int)view.name_bytes, view.name);
    return written > 0 && (size_t)written < text_bytes ? (size_t)written : 0;
}

/* Function, name and value of each, appended to a list. With the GIL. */
static bool append_local(void *list, const struct vt_python_local *local)
{
    int (*append)(void *, const void *);
    void *symbol = dlsym(RTLD_DEFAULT, "PyList_Append");
    memcpy(&append, &symbol, sizeof append);
    return append(list, local->function) == 0 && append(list, local->name) == 0 &&
           append(list, local->value) == 0;
}

void test_locals(size_t frames, void *list)
{
    const struct vt_python *python;
    vt_python_visit_locals(vt_python_current_thread(&python), frames, append_local, list);
}

int test_unsupported_minor(void)
{
    return vt_python_unsupported_minor();
}

uint32_t test_hex_version(void)
{
    return vt_python_hex_version();
}

int test_loaded(void)
{
    return vt_python_loaded();
}
