/* Whole wrappers of libcuda's functions, as one macro each. What a wrapper must keep to is in driver.h. */
#ifndef VT_WRAP_H
#define VT_WRAP_H

#include "hooks/driver.h"
#include "hooks/pool_table.h"

/* The trailing arguments initialise the remaining fields of struct vt_observation (record.h). A `condition`
 * is evaluated after the call, except that of a bracket; `result` is the call's.
 *
 * An allocation: the arguments are evaluated after the call; `done` says whether it succeeded. */
#define VT_HOOK_ALLOCATE(symbol, parameters, arguments, ...)                                                 \
    VT_HOOK_ALLOCATE_IF(symbol, true, parameters, arguments, __VA_ARGS__)
#define VT_HOOK_ALLOCATE_IF(symbol, condition, parameters, arguments, ...)                                   \
    VT_HOOK(symbol, parameters)                                                                              \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        int8_t device_index = vt_before_allocation(VT_FUNCTION_##symbol);                                    \
        CUresult result = real arguments;                                                                    \
        const bool done = result == CUDA_SUCCESS;                                                            \
        if (condition)                                                                                       \
            vt_after_allocation(&(struct vt_observation){.function = VT_FUNCTION_##symbol,                   \
                                                         .device_index = device_index,                       \
                                                         __VA_ARGS__},                                       \
                                result);                                                                     \
        return result;                                                                                       \
    }

/* A free, or another call that gives something back. The second form has a statement to run at the end. */
#define VT_HOOK_FREE(symbol, kind_value, parameters, arguments, ...)                                         \
    VT_HOOK_FREE_THEN(symbol, kind_value, (void)0, parameters, arguments, __VA_ARGS__)
#define VT_HOOK_FREE_THEN(symbol, kind_value, statement, parameters, arguments, ...)                         \
    VT_HOOK(symbol, parameters)                                                                              \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        const struct vt_observation freed = {.function = VT_FUNCTION_##symbol,                               \
                                             .kind = (kind_value),                                           \
                                             .device_index = VT_NO_DEVICE,                                   \
                                             __VA_ARGS__};                                                   \
        vt_before_free(&freed);                                                                              \
        CUresult result = real arguments;                                                                    \
        vt_after_free(&freed, result);                                                                       \
        statement;                                                                                           \
        return result;                                                                                       \
    }

/* A call that is recorded if it succeeds, or as the condition says. */
#define VT_HOOK_EVENT(symbol, kind_value, device_value, parameters, arguments, ...)                          \
    VT_HOOK_EVENT_IF(symbol, result == CUDA_SUCCESS, kind_value, device_value, parameters, arguments,        \
                     __VA_ARGS__)
#define VT_HOOK_EVENT_IF(symbol, condition, kind_value, device_value, parameters, arguments, ...)            \
    VT_HOOK(symbol, parameters)                                                                              \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        CUresult result = real arguments;                                                                    \
        if (condition)                                                                                       \
            vt_driver_event(&(struct vt_observation){.function = VT_FUNCTION_##symbol,                       \
                                                     .kind = (kind_value),                                   \
                                                     .device_index = (device_value),                         \
                                                     __VA_ARGS__});                                          \
        return result;                                                                                       \
    }

/* A call that is bracketed (driver.h, struct vt_bracket). The second form only if the condition holds before
 * the call; then it also has a statement to run at the end. */
#define VT_HOOK_BRACKETED(symbol, parameters, arguments)                                                     \
    VT_HOOK_BRACKETED_IF(symbol, true, (void)0, parameters, arguments)
#define VT_HOOK_BRACKETED_IF(symbol, condition, statement, parameters, arguments)                            \
    VT_HOOK(symbol, parameters)                                                                              \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        if (!(condition))                                                                                    \
            return real arguments;                                                                           \
        struct vt_bracket bracket = vt_bracket_open();                                                       \
        CUresult result = real arguments;                                                                    \
        vt_bracket_close(&bracket, VT_FUNCTION_##symbol);                                                    \
        statement;                                                                                           \
        return result;                                                                                       \
    }

#endif
