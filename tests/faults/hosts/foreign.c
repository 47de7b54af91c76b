/* What a Java or JavaScript program loads to use CUDA. Both have compilers of their own, whose code no
 * unwinder knows, and handle signals that others take for faults. No header of theirs: the few names are
 * declared here. */
#include <stddef.h>

#include "host_calls.h"

/* The native functions of Host.java. */
void Java_Host_begin(void *environment, void *class);
void Java_Host_pairs(void *environment, void *class, int count);
void Java_Host_use(void *environment, void *class);

void Java_Host_begin(void *environment, void *class)
{
    (void)environment, (void)class;
    host_begin();
}

void Java_Host_pairs(void *environment, void *class, int count)
{
    (void)environment, (void)class;
    host_pairs(count);
}

void Java_Host_use(void *environment, void *class)
{
    (void)environment, (void)class;
    host_use_context();
}

/* Node's interface for modules in C. */
typedef void *napi_callback(void *environment, void *information);
int napi_create_function(void *environment, const char *name, size_t bytes, napi_callback *callback,
                         void *data, void **result) __attribute__((weak));
int napi_set_named_property(void *environment, void *object, const char *name, void *value)
    __attribute__((weak));
void *napi_register_module_v1(void *environment, void *exports);

static void *begin(void *environment, void *information)
{
    (void)environment, (void)information;
    host_begin();
    return NULL;
}

static void *pair(void *environment, void *information)
{
    (void)environment, (void)information;
    host_use_context();
    host_pair();
    return NULL;
}

void *napi_register_module_v1(void *environment, void *exports)
{
    void *function;
    napi_create_function(environment, "begin", 5, begin, NULL, &function);
    napi_set_named_property(environment, exports, "begin", function);
    napi_create_function(environment, "pair", 4, pair, NULL, &function);
    napi_set_named_property(environment, exports, "pair", function);
    return exports;
}
