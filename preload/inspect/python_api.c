#include "inspect/python_api.h"

#include <dlfcn.h>
#include <string.h>

struct vt_python_api vt_python_api;

bool vt_python_api_find(void *scope)
{
    struct vt_python_api *api = &vt_python_api;
#define X(result, name, parameters)                                                                          \
    {                                                                                                        \
        void *symbol = dlsym(scope, #name);                                                                  \
        if (!symbol)                                                                                         \
            return false;                                                                                    \
        memcpy(&api->name, &symbol, sizeof symbol);                                                          \
    }
    VT_PYTHON_FUNCTIONS(X)
#undef X
#define X(name, symbol)                                                                                      \
    if (!(api->symbol = dlsym(scope, #symbol)))                                                              \
        return false;
    VT_PYTHON_TYPES(X)
#undef X
    if (!(api->none = dlsym(scope, "_Py_NoneStruct")))
        return false;
    void *enter = dlsym(scope, "PyThreadState_EnterTracing"),
         *leave = dlsym(scope, "PyThreadState_LeaveTracing");
    if (enter && leave) {
        memcpy(&api->PyThreadState_EnterTracing, &enter, sizeof enter);
        memcpy(&api->PyThreadState_LeaveTracing, &leave, sizeof leave);
    }
    return true;
}
