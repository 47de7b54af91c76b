/* NVTX marks and ranges. libvramtrace.so is an NVTX injection library (NVTX_INJECTION64_PATH names it): NVTX
 * calls InitializeInjectionNvtx2 at the program's first NVTX call, and our handlers go into its tables.
 *
 * Ranges that start and end by id (nvtxRangeStart) may overlap, so they are not recorded. Nor is anything
 * before the first CUDA event: a program that only marks makes no trace. */
#include "guard.h"
#include "hooks/observe.h"
#include "text.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <wchar.h>

/* The parts of NVTX 3's binary interface used here. */
enum { EXPORT_TABLE_CALLBACKS = 1 };
enum { MODULE_CORE = 1, MODULE_CORE2 = 5 };
enum { CORE_MARK_EX = 1, CORE_MARK_A, CORE_MARK_W, CORE_PUSH_EX = 8, CORE_PUSH_A, CORE_PUSH_W, CORE_POP };
enum {
    CORE2_MARK_EX = 1,
    CORE2_PUSH_EX = 4,
    CORE2_POP = 5,
    CORE2_REGISTER_STRING_A = 10,
    CORE2_REGISTER_STRING_W = 11
};
enum { MESSAGE_ASCII = 1, MESSAGE_UNICODE = 2, MESSAGE_REGISTERED = 3 };
#define NO_PUSH_POP_TRACKING (-2)

struct event_attributes {
    uint16_t version;
    uint16_t bytes; /* of the struct, which is smaller in older callers */
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type;
    int32_t reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};

typedef void any_function(void);

struct callback_table {
    size_t bytes;
    int (*get_module_functions)(int module, any_function ****functions, unsigned *count);
};

typedef const void *get_export_table_function(uint32_t table);

__attribute__((visibility("default"))) int
InitializeInjectionNvtx2(get_export_table_function *get_export_table);

#define MAX_NAME_BYTES 1024

/* Registered strings must be kept for the life of the process, so their total is limited: later ones get no
 * handle, and their marks no name. */
#define REGISTERED_POOL_BYTES (256 * 1024)
static char registered_pool[REGISTERED_POOL_BYTES];
static _Atomic size_t registered_bytes;

/* One bit for each open range of this thread: recorded or not, so that pops balance. Ranges deeper than
 * there are bits are not recorded. */
#define MAX_DEPTH 64
static __thread uint64_t recorded_pushes __attribute__((tls_model("initial-exec")));
static __thread int open_ranges __attribute__((tls_model("initial-exec")));

/* To UTF-8, cut after the last whole character. */
static const char *to_utf8(const wchar_t *wide, char *buffer)
{
    size_t length = 0;
    for (; wide != NULL && *wide != L'\0' && length + VT_UTF8_MAXIMUM_BYTES + 1 < MAX_NAME_BYTES; wide++)
        if (vt_utf8_is_character((uint32_t)*wide))
            length += vt_utf8_encode((uint32_t)*wide, buffer + length);
    buffer[length] = '\0';
    return buffer;
}

static const char *message_of(const struct event_attributes *attributes, char *buffer)
{
    if (attributes == NULL ||
        attributes->bytes < offsetof(struct event_attributes, message) + sizeof(attributes->message) ||
        attributes->message == NULL)
        return "";
    if (attributes->message_type == MESSAGE_UNICODE)
        return to_utf8(attributes->message, buffer);
    /* The handle of a registered string is the string itself. */
    if (attributes->message_type == MESSAGE_ASCII || attributes->message_type == MESSAGE_REGISTERED)
        return attributes->message;
    return "";
}

static bool record_named(enum vt_event_kind kind, const char *name)
{
    return vt_record_mark(kind, name != NULL ? name : "");
}

static int push_range(const char *name)
{
    if (open_ranges < MAX_DEPTH) {
        uint64_t bit = (uint64_t)1 << open_ranges;
        recorded_pushes =
            record_named(VT_EVENT_RANGE_PUSH, name) ? recorded_pushes | bit : recorded_pushes & ~bit;
    }
    return open_ranges++;
}

static int pop_range(void)
{
    if (open_ranges == 0)
        return NO_PUSH_POP_TRACKING;
    open_ranges--;
    /* A child forked inside the range may not record yet, and a pop must not start a trace. */
    if (open_ranges < MAX_DEPTH && recorded_pushes >> open_ranges & 1)
        vt_record_mark(VT_EVENT_RANGE_POP, NULL);
    return open_ranges;
}

static void mark_a(const char *name)
{
    record_named(VT_EVENT_MARK, name);
}

static void mark_w(const wchar_t *name)
{
    char buffer[MAX_NAME_BYTES];
    record_named(VT_EVENT_MARK, to_utf8(name, buffer));
}

static void mark_ex(const struct event_attributes *attributes)
{
    char buffer[MAX_NAME_BYTES];
    record_named(VT_EVENT_MARK, message_of(attributes, buffer));
}

static int push_w(const wchar_t *name)
{
    char buffer[MAX_NAME_BYTES];
    return push_range(to_utf8(name, buffer));
}

static int push_ex(const struct event_attributes *attributes)
{
    char buffer[MAX_NAME_BYTES];
    return push_range(message_of(attributes, buffer));
}

static void domain_mark_ex(void *domain, const struct event_attributes *attributes)
{
    (void)domain;
    mark_ex(attributes);
}

static int domain_push_ex(void *domain, const struct event_attributes *attributes)
{
    (void)domain;
    return push_ex(attributes);
}

static int domain_pop(void *domain)
{
    (void)domain;
    return pop_range();
}

static void *register_string_a(void *domain, const char *text)
{
    (void)domain;
    size_t bytes = text != NULL ? strnlen(text, MAX_NAME_BYTES - 1) + 1 : 1;
    size_t place = atomic_fetch_add_explicit(&registered_bytes, bytes, memory_order_relaxed);
    if (place + bytes > REGISTERED_POOL_BYTES) {
        atomic_fetch_sub_explicit(&registered_bytes, bytes, memory_order_relaxed);
        return NULL;
    }
    memcpy(&registered_pool[place], text != NULL ? text : "", bytes - 1);
    registered_pool[place + bytes - 1] = '\0';
    return &registered_pool[place];
}

static void *register_string_w(void *domain, const wchar_t *text)
{
    char buffer[MAX_NAME_BYTES];
    return register_string_a(domain, to_utf8(text, buffer));
}

struct handler {
    unsigned index;
    any_function *function;
};

static void install_handlers(const struct callback_table *callbacks, int module,
                             const struct handler *handlers, size_t handler_count)
{
    any_function ***functions = NULL;
    unsigned count = 0;
    if (callbacks->get_module_functions(module, &functions, &count) == 0 || functions == NULL)
        return;
    for (size_t i = 0; i < handler_count; i++)
        if (handlers[i].index < count && functions[handlers[i].index] != NULL)
            *functions[handlers[i].index] = handlers[i].function;
}

int InitializeInjectionNvtx2(get_export_table_function *get_export_table)
{
    static const struct handler core[] = {
        {CORE_MARK_EX, (any_function *)mark_ex},   {CORE_MARK_A, (any_function *)mark_a},
        {CORE_MARK_W, (any_function *)mark_w},     {CORE_PUSH_EX, (any_function *)push_ex},
        {CORE_PUSH_A, (any_function *)push_range}, {CORE_PUSH_W, (any_function *)push_w},
        {CORE_POP, (any_function *)pop_range},
    };
    static const struct handler core2[] = {
        {CORE2_MARK_EX, (any_function *)domain_mark_ex},
        {CORE2_PUSH_EX, (any_function *)domain_push_ex},
        {CORE2_POP, (any_function *)domain_pop},
        {CORE2_REGISTER_STRING_A, (any_function *)register_string_a},
        {CORE2_REGISTER_STRING_W, (any_function *)register_string_w},
    };
    const struct callback_table *callbacks = get_export_table(EXPORT_TABLE_CALLBACKS);
    if (callbacks == NULL || callbacks->bytes < sizeof(*callbacks) || callbacks->get_module_functions == NULL)
        return 0;
    install_handlers(callbacks, MODULE_CORE, core, sizeof(core) / sizeof(core[0]));
    install_handlers(callbacks, MODULE_CORE2, core2, sizeof(core2) / sizeof(core2[0]));
    return 1;
}
