/* A program that exports what CPython exports, with objects made by hand: versions that do not exist, builds
 * that lie about themselves, frame chains that are garbage, code objects that change in place.
 *
 * Each case runs in a child process, since an interpreter is looked for once per process. With a minor
 * version as its argument it allocates in a free-threaded interpreter instead, for the recorder. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stacks/python.h"
#include "stacks/python_code.h"

#define EXPORT __attribute__((visibility("default")))
typedef uint64_t words[512];

EXPORT extern words PyType_Type, PyCode_Type, PyFrame_Type, PyUnicode_Type, PyCell_Type, PyTuple_Type,
    PyBytes_Type;
EXPORT extern words _PyRuntime;
words PyType_Type, PyCode_Type, PyFrame_Type, PyUnicode_Type, PyCell_Type, PyTuple_Type, PyBytes_Type;
words _PyRuntime;

#ifdef FAKE_OLD
static const char *version_text;
EXPORT const char *Py_GetVersion(void);
const char *Py_GetVersion(void)
{
    return version_text;
}
#else
EXPORT extern unsigned long Py_Version;
unsigned long Py_Version;
#endif

static _Alignas(64) char thread_state[1024];
static _Alignas(64) char cframe[64];
static _Alignas(64) char frame_memory[8][1024];
static _Alignas(64) char code_memory[8][1024];
static _Alignas(64) char text_memory[16][256];
static _Alignas(64) char table_memory[256];
static int finalizing;
static int has_thread = 1;

EXPORT void *PyGILState_GetThisThreadState(void);
void *PyGILState_GetThisThreadState(void)
{
    return has_thread ? thread_state : NULL;
}

EXPORT int _Py_IsFinalizing(void);
int _Py_IsFinalizing(void)
{
    return finalizing;
}

static const struct vt_python_layout *layout;
static bool free_threaded;

static void put(char *base, size_t offset, uint64_t value)
{
    memcpy(base + offset, &value, sizeof value);
}

static void put_pointer(char *base, size_t offset, const void *value)
{
    put(base, offset, (uintptr_t)value);
}

static void put_int(char *base, size_t offset, int32_t value)
{
    memcpy(base + offset, &value, sizeof value);
}

static void make_type(uint64_t *type, uint64_t basic_bytes)
{
    put_pointer((char *)type, layout->object_type, PyType_Type);
    put((char *)type, layout->type_basic_bytes, basic_bytes);
}

static void make_text(char *text, const char *value)
{
    put_pointer(text, layout->object_type, PyUnicode_Type);
    put(text, layout->unicode_length, strlen(value));
    put(text, layout->unicode_hash, UINT64_MAX); /* not computed */
    put_int(text, layout->unicode_state,
            (1 | VT_UNICODE_COMPACT | VT_UNICODE_ASCII | 32) << layout->unicode_kind_bit);
    strcpy(text + layout->unicode_ascii_bytes, value);
}

static void make_table(const char *bytes)
{
    put_pointer(table_memory, layout->object_type, PyBytes_Type);
    put(table_memory, layout->object_size, strlen(bytes));
    strcpy(table_memory + layout->bytes_data, bytes);
}

static void make_code(int i)
{
    char *code = code_memory[i];
    put_pointer(code, layout->object_type, PyCode_Type);
    put_pointer(code, layout->code_file_name, text_memory[0]);
    put_pointer(code, layout->code_name, text_memory[1]);
    if (layout->code_qualified_name != 0)
        put_pointer(code, layout->code_qualified_name, text_memory[2]);
    put_pointer(code, layout->code_line_table, table_memory);
    put_int(code, layout->code_first_line, 10);
    if (layout->code_version != 0)
        put_int(code, layout->code_version, 77 + i);
    if (layout->code_first_traceable != 0)
        put_int(code, layout->code_first_traceable, 1);
}

static void link_frames(int count)
{
    for (int i = 0; i < count; i++) {
        char *frame = frame_memory[i];
        put_pointer(frame, layout->frame_code, code_memory[i] + layout->reference_tag);
        put_pointer(frame, layout->frame_previous, i + 1 < count ? frame_memory[i + 1] : NULL);
        if (layout->chain == VT_CHAIN_OBJECTS)
            put_int(frame, layout->frame_instruction, 6 / layout->instruction_scale);
        else
            put_pointer(frame, layout->frame_instruction, code_memory[i] + layout->code_instructions + 6);
    }
    char *first = layout->chain == VT_CHAIN_CFRAME ? cframe : thread_state;
    if (layout->chain == VT_CHAIN_CFRAME)
        put_pointer(thread_state, layout->thread_frame, cframe);
    put_pointer(first, layout->chain == VT_CHAIN_CFRAME ? layout->cframe_current_frame : layout->thread_frame,
                frame_memory[0]);
}

static void set_version(int minor)
{
#ifdef FAKE_OLD
    static char text[64];
    snprintf(text, sizeof text, "3.%d.10 (main, a compiler) [made by hand]", minor);
    version_text = text;
#else
    Py_Version = 0x03000af0u | (unsigned)minor << 16;
#endif
}

static void make_debug_offsets(int minor)
{
    memcpy(_PyRuntime, "xdebugpy", 8);
    const uint64_t values[][2] = {{1, 0x03000af0u | (unsigned)minor << 16},
                                  {2, layout->free_threaded},
                                  {layout->debug_thread_frame, layout->thread_frame},
                                  {layout->debug_thread_id, layout->thread_thread_id},
                                  {layout->debug_frame, layout->frame_previous},
                                  {layout->debug_frame + 1u, layout->frame_code},
                                  {layout->debug_frame + 2u, layout->frame_instruction},
                                  {layout->debug_frame + 3u, layout->frame_locals},
                                  {layout->debug_frame + 4u, layout->frame_owner},
                                  {layout->debug_frame + 6u, layout->frame_instructions_index},
                                  {layout->debug_code, layout->code_file_name},
                                  {layout->debug_code + 1u, layout->code_name},
                                  {layout->debug_code + 2u, layout->code_qualified_name},
                                  {layout->debug_code + 3u, layout->code_line_table},
                                  {layout->debug_code + 4u, layout->code_first_line},
                                  {layout->debug_code + 5u, layout->code_argument_count},
                                  {layout->debug_code + 6u, layout->code_local_names},
                                  {layout->debug_code + 7u, layout->code_local_kinds},
                                  {layout->debug_code + 8u, layout->code_instructions},
                                  {layout->debug_code + 9u, layout->code_thread_instructions},
                                  {layout->debug_object_type, layout->object_type}};
    for (size_t i = 0; minor >= 13 && i < sizeof values / sizeof values[0]; i++)
        if (values[i][0] != layout->debug_code + 9u || minor >= 14) /* in 3.13 something else is there */
            _PyRuntime[values[i][0]] = values[i][1];
}

/* A whole interpreter of the given minor version, with `count` frames. */
static void make(int minor, int count)
{
    layout = vt_python_find_layout((unsigned)minor, free_threaded);
    if (!layout)
        layout = vt_python_find_layout(12, false);
    set_version(minor);
    make_type(PyType_Type, 0);
    make_type(PyCode_Type, layout->code_basic_bytes);
    make_type(PyFrame_Type, layout->frame_basic_bytes);
    make_type(PyUnicode_Type, layout->unicode_basic_bytes);
    make_type(PyCell_Type, layout->cell_contents + 8u);
    make_type(PyTuple_Type, layout->tuple_items);
    make_type(PyBytes_Type, layout->bytes_data + 1u);
    make_debug_offsets(minor);
    put(thread_state, layout->thread_thread_id, (uint64_t)pthread_self());
    make_text(text_memory[0], "/tmp/generated 1.py");
    make_text(text_memory[1], "forward");
    make_text(text_memory[2], "Layer1.forward");
    make_table("a line table of some bytes");
    for (int i = 0; i < count; i++)
        make_code(i);
    link_frames(count);
}

static struct vt_python_stack told;

/* With and without what the walks before left: these frames change under it in all ways. */
static size_t walk_into(struct vt_raw_python_frame *frames, size_t capacity)
{
    static struct vt_recent_frames recent;
    struct vt_python_stack known;
    vt_python_look_up();
    vt_python_walk(frames, capacity, &told);
    vt_python_hash(&recent, capacity, &known);
    if (memcmp(&told, &known, sizeof told)) {
        printf("FAILED: what is remembered of a walk differs\n");
        exit(1);
    }
    return told.frames;
}

static size_t walk(uint64_t *hash)
{
    struct vt_raw_python_frame frames[16];
    walk_into(frames, 16);
    *hash = told.hash;
    return told.frames;
}

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            printf("FAILED line %d: %s\n", __LINE__, #condition);                                            \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

static int is_declined(int minor)
{
    uint64_t hash;
    for (int i = 0; i < 3; i++)
        CHECK(walk(&hash) == 0 && hash == 0 && !told.truncated && !told.unreadable);
    CHECK(vt_python_loaded() && vt_python_known() == NULL && !vt_python_is_finalizing());
    CHECK(vt_python_unsupported_minor() == minor);
    CHECK(vt_python_hex_version() == (0x03000af0u | (unsigned)minor << 16));
    struct vt_python_code_view view = {0};
    CHECK(!vt_python_describe_code(code_memory[0], &view));
    return 0;
}

static int is_walked(int minor)
{
    uint64_t hash;
    make(minor, 3);
    CHECK(walk(&hash) == 3 && hash != 0 && !told.truncated && !told.unreadable);
    CHECK(vt_python_unsupported_minor() == 0 && vt_python_is_free_threaded() == free_threaded);
    return 0;
}

/* Every part of what a description tells, changed in place, changes the hash; and back again. */
static int hash_follows_contents(int minor)
{
    make(minor, 2);
    uint64_t original, changed, again;
    CHECK(walk(&original) == 2);
    const char *names = text_memory[layout->code_qualified_name != 0 ? 2 : 1] + layout->unicode_ascii_bytes;
    char *places[] = {
        text_memory[0] + layout->unicode_ascii_bytes + 1,  /* file: its beginning … */
        text_memory[0] + layout->unicode_ascii_bytes + 15, /* … and its end */
        (char *)(uintptr_t)names,                          /* name: a short one is seen whole */
        (char *)(uintptr_t)names + 6,
        table_memory + layout->bytes_data + 7,
        table_memory + layout->bytes_data + 25,
        code_memory[0] + layout->code_first_line,
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        *places[i] ^= 1;
        CHECK(walk(&changed) == 2 && changed != original);
        *places[i] ^= 1;
        CHECK(walk(&again) == 2 && again == original);
    }
    put_pointer(code_memory[0], layout->code_file_name, text_memory[3]);
    make_text(text_memory[3], "/tmp/generated 1.py");
    CHECK(walk(&changed) == 2 && changed != original);
    /* A string that is not compact is not looked into. */
    put_int(text_memory[3], layout->unicode_state, 0);
    put(text_memory[3], layout->unicode_length, UINT64_C(1) << 62);
    CHECK(walk(&changed) == 2);
    return 0;
}

static int hash_follows_version(void)
{
    make(12, 2);
    uint64_t original, changed;
    CHECK(walk(&original) == 2);
    put_int(code_memory[1], layout->code_version, 99);
    CHECK(walk(&changed) == 2 && changed != original);
    return 0;
}

static int version_from_text(void)
{
    make(8, 0);
    return is_declined(8);
}

static int newer_version(void)
{
    make(16, 0);
    return is_declined(16);
}

static int wrong_size(uint64_t *type, int minor)
{
    make(minor, 2);
    put((char *)type, layout->type_basic_bytes, 8 + *(uint64_t *)((char *)type + layout->type_basic_bytes));
    return is_declined(minor);
}

static int other_object_header(void)
{
    make(12, 2);
    PyCode_Type[3] = PyCode_Type[1]; /* as with Py_TRACE_REFS: the type stands 16 bytes further */
    PyCode_Type[1] = 0;
    return is_declined(12);
}

static int wrong_debug_offset(int index)
{
    make(13, 2);
    _PyRuntime[index] += 1;
    return is_declined(13);
}

/* A tagged integer where a frame has its code, or a frame of the interpreter itself. */
static int not_of_functions(int minor)
{
    make(minor, 4);
    uint64_t hash;
    frame_memory[1][layout->frame_owner] = (char)layout->owner_interpreter;
    put(frame_memory[1], layout->frame_code, 3);
    CHECK(walk(&hash) == 3 && !told.unreadable && told.entry_frame == (uintptr_t)frame_memory[1]);
    put_pointer(frame_memory[2], layout->frame_code, code_memory[2] + 3);
    CHECK(walk(&hash) == 1 && told.unreadable);
    return 0;
}

/* Free-threaded: a thread's own copies of the instructions, in a list that may be garbage. */
static int copied_instructions(int minor)
{
    make(minor, 2);
    struct vt_raw_python_frame frames[4];
    static char copy[64];
    static uint64_t list[4];
    list[0] = 3;
    list[1] = (uintptr_t)code_memory[0] + layout->code_instructions;
    list[3] = (uintptr_t)copy;
    uint64_t hash = 0;
    put_pointer(code_memory[0], layout->code_thread_instructions, list);
    put_int(frame_memory[0], layout->frame_instructions_index, 2);
    put_pointer(frame_memory[0], layout->frame_instruction, copy + 8);
    vt_python_look_up();
    CHECK(walk_into(frames, 4) == 2);
    CHECK(frames[0].instruction_offset == 8 && frames[1].instruction_offset == 6);
    const uint64_t lists[] = {0, 7, (uintptr_t)list + 1};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        put(code_memory[0], layout->code_thread_instructions, lists[i]);
        CHECK(walk(&hash) <= 2);
    }
    put_pointer(code_memory[0], layout->code_thread_instructions, list);
    list[0] = 2; /* shorter than the index */
    CHECK(walk(&hash) <= 2);
    list[0] = 3;
    list[3] = UINT64_C(0x123456789abc);
    CHECK(walk(&hash) <= 2);
    return 0;
}

static int wrong_thread_id(void)
{
    make(12, 2);
    uint64_t hash;
    put(thread_state, layout->thread_thread_id, 12345);
    for (int i = 0; i < 30; i++)
        CHECK(walk(&hash) == 0 && vt_python_unsupported_minor() == 0);
    for (int i = 0; i < 10; i++)
        CHECK(walk(&hash) == 0);
    return is_declined(12);
}

static int foreign_thread_first(void)
{
    make(12, 2);
    uint64_t hash;
    put(thread_state, layout->thread_thread_id, 12345);
    CHECK(walk(&hash) == 0);
    put(thread_state, layout->thread_thread_id, (uint64_t)pthread_self());
    CHECK(walk(&hash) == 2 && vt_python_unsupported_minor() == 0);
    return 0;
}

static int no_thread_or_ending(void)
{
    make(12, 2);
    uint64_t hash;
    has_thread = 0;
    CHECK(walk(&hash) == 0);
    has_thread = 1;
    CHECK(walk(&hash) == 2);
    finalizing = 1;
    CHECK(walk(&hash) == 0 && hash == 0);
    finalizing = 0;
    CHECK(walk(&hash) == 2);
    return 0;
}

static int garbage_chains(int minor)
{
    make(minor, 4);
    uint64_t hash;
    CHECK(walk(&hash) == 4 && !told.unreadable);
    put_pointer(frame_memory[1], layout->frame_previous, frame_memory[2] + 1);
    CHECK(walk(&hash) == 2 && told.unreadable);
    put(frame_memory[1], layout->frame_previous, 64);
    CHECK(walk(&hash) == 2 && told.unreadable);
    put(frame_memory[1], layout->frame_previous, UINT64_C(0xdeadbeef00000000));
    CHECK(walk(&hash) == 2 && told.unreadable);
    put_pointer(frame_memory[1], layout->frame_previous, frame_memory[0]);
    CHECK(walk(&hash) == 16 && told.truncated);
    link_frames(4);
    put(frame_memory[2], layout->frame_code, 0);
    CHECK(walk(&hash) == 2 && told.unreadable);
    put_pointer(frame_memory[2], layout->frame_code, text_memory[0]);
    CHECK(walk(&hash) == 2 && told.unreadable);
    link_frames(4);
    if (layout->chain != VT_CHAIN_OBJECTS) {
        frame_memory[2][layout->frame_owner] = 9;
        CHECK(walk(&hash) == 2 && told.unreadable);
        frame_memory[2][layout->frame_owner] = 0;
        put(frame_memory[2], layout->frame_instruction, (uintptr_t)code_memory[2] + (UINT64_C(1) << 40));
        CHECK(walk(&hash) == 2 && told.unreadable);
        /* Not begun: left out; a ring of such frames ends. */
        put_pointer(frame_memory[2], layout->frame_instruction,
                    code_memory[2] + layout->code_instructions - 2);
        CHECK(walk(&hash) == 3 && !told.unreadable);
        put_pointer(frame_memory[2], layout->frame_previous, frame_memory[2]);
        CHECK(walk(&hash) == 2 && told.unreadable);
    }
    return 0;
}

static int garbage_descriptions(void)
{
    make(12, 1);
    uint64_t hash;
    CHECK(walk(&hash) == 1);
    struct vt_python_code_view view = {0};
    CHECK(vt_python_describe_code(code_memory[0], &view));
    CHECK(view.file_bytes == 19 && view.name_bytes == 14 && view.first_line == 10 &&
          view.line_table_bytes == 26);
    CHECK(memcmp(view.name, "Layer1.forward", 14) == 0 && view.python_minor == 12);
    put(code_memory[0], layout->code_line_table, 0);
    put_pointer(code_memory[0], layout->code_qualified_name, code_memory[0]);
    put(text_memory[0], layout->unicode_length, UINT64_MAX);
    CHECK(vt_python_describe_code(code_memory[0], &view));
    CHECK(view.line_table == NULL && view.line_table_bytes == 0 && view.name_bytes == 1 && *view.name == '?');
    CHECK(view.file_bytes == 1 && *view.file == '?');
    make_table("");
    put(table_memory, layout->object_size, UINT64_MAX);
    put_pointer(code_memory[0], layout->code_line_table, table_memory);
    CHECK(vt_python_describe_code(code_memory[0], &view) && view.line_table_bytes == 0);
    return 0;
}

/* A module's self in a cell, and what stands there when it is none. */
static int cells(int minor)
{
    make(minor, 1);
    static _Alignas(16) char kinds[64], names[64], cell[64];
    make_text(text_memory[3], "self");
    put_pointer(names, layout->object_type, PyTuple_Type);
    put(names, layout->object_size, 1);
    put_pointer(names, layout->tuple_items, text_memory[3]);
    put_pointer(kinds, layout->object_type, PyBytes_Type);
    put(kinds, layout->object_size, 1);
    kinds[layout->bytes_data] = 0x60;
    put_pointer(cell, layout->object_type, PyCell_Type);
    put(cell, layout->cell_contents, 0x1234560);
    put_int(code_memory[0], layout->code_argument_count, 1);
    put_pointer(code_memory[0], layout->code_local_names, names);
    put_pointer(code_memory[0], layout->code_local_kinds, kinds);
    vt_python_look_up();
    const uint64_t contents[][2] = {
        {(uintptr_t)cell, 0x1234560}, {0, 0}, {(uintptr_t)cell + 4, 0}, {(uintptr_t)names, 0}, {7, 0}};
    for (size_t i = 0; i < sizeof contents / sizeof contents[0]; i++) {
        struct vt_raw_python_frame frames[2];
        put(frame_memory[0], layout->frame_locals, contents[i][0]);
        CHECK(walk_into(frames, 2) == 1);
        CHECK(frames[0].self_address == contents[i][1] && frames[0].instruction_offset == 6);
    }
    return 0;
}

static int passed, failed;

#define RUN(call)                                                                                            \
    do {                                                                                                     \
        fflush(stdout);                                                                                      \
        pid_t child = fork();                                                                                \
        if (child == 0) {                                                                                    \
            int result = call;                                                                               \
            fflush(stdout);                                                                                  \
            _exit(result);                                                                                   \
        }                                                                                                    \
        int status = -1;                                                                                     \
        waitpid(child, &status, 0);                                                                          \
        if (status == 0) {                                                                                   \
            passed++;                                                                                        \
        } else {                                                                                             \
            failed++;                                                                                        \
            printf("FAILED %s: status %#x\n", #call, (unsigned)status);                                      \
        }                                                                                                    \
    } while (0)

#ifndef FAKE_OLD
/* A free-threaded interpreter under the recorder, with an allocation in three frames. */
static int allocate(int minor)
{
    void *context = NULL;
    uint64_t address;
    int (*initialise)(unsigned), (*create)(void **, unsigned, int), (*allocate_bytes)(uint64_t *, size_t);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    free_threaded = true;
    make(minor, 3);
    if (!driver)
        return 2;
    *(void **)&initialise = dlsym(driver, "cuInit");
    *(void **)&create = dlsym(driver, "cuCtxCreate_v2");
    *(void **)&allocate_bytes = dlsym(driver, "cuMemAlloc_v2");
    return initialise(0) || create(&context, 0, 0) || allocate_bytes(&address, 4096);
}
#endif

int main(int argc, char **argv)
{
#ifndef FAKE_OLD
    if (argc > 1)
        return allocate(atoi(argv[1]));
#endif
    (void)argc, (void)argv;
#ifdef FAKE_OLD
    (void)newer_version, (void)other_object_header, (void)wrong_debug_offset, (void)wrong_thread_id;
    (void)foreign_thread_first, (void)no_thread_or_ending, (void)garbage_descriptions, (void)cells;
    (void)hash_follows_version, (void)not_of_functions, (void)copied_instructions;
    RUN(version_from_text());
    for (int minor = 9; minor <= 10; minor++) {
        RUN(is_walked(minor));
        RUN(hash_follows_contents(minor));
        RUN(garbage_chains(minor));
        RUN(wrong_size(PyFrame_Type, minor));
    }
#else
    (void)version_from_text;
    for (size_t i = 2; i < VT_PYTHON_LAYOUTS; i++) {
        const int minor = vt_python_layouts[i].minor;
        free_threaded = vt_python_layouts[i].free_threaded;
        RUN(is_walked(minor));
        RUN(garbage_chains(minor));
        RUN(wrong_size(PyCode_Type, minor));
        RUN(wrong_size(PyFrame_Type, minor));
        RUN(wrong_size(PyUnicode_Type, minor));
        RUN(cells(minor));
        if (vt_python_layouts[i].reference_tag)
            RUN(not_of_functions(minor));
        if (vt_python_layouts[i].code_thread_instructions)
            RUN(copied_instructions(minor));
    }
    free_threaded = false;
    RUN(hash_follows_contents(11));
    RUN(hash_follows_version());
    RUN(newer_version());
    RUN(other_object_header());
    RUN(wrong_debug_offset(0));  /* the cookie */
    RUN(wrong_debug_offset(1));  /* the version */
    RUN(wrong_debug_offset(2));  /* free-threaded */
    RUN(wrong_debug_offset(31)); /* an offset */
    RUN(wrong_thread_id());
    RUN(foreign_thread_first());
    RUN(no_thread_or_ending());
    RUN(garbage_descriptions());
#endif
    printf("%-51s %d passed, %d failed\n", "fake interpreter", passed, failed);
    return failed != 0;
}
