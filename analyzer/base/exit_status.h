/* The exit status of a command: the worst of its traces. The manual pages list them from here. */
#ifndef VT_EXIT_STATUS_H
#define VT_EXIT_STATUS_H

#define VT_EXIT_STATUSES(X)                                                                                  \
    X(GOOD, 0, "success")                                                                                    \
    X(CHECK_FAILED, 1, "a check failed")                                                                     \
    X(WRONG_USE, 2, "usage error")                                                                           \
    X(UNREADABLE, 3, "a trace could not be read")                                                            \
    X(NOT_WRITTEN, 4, "the output could not be written, for example because the disk is full")               \
    X(OUT_OF_MEMORY, 5, "memory ran out, or a limit of vramtrace's own was reached")
enum vt_exit_status {
#define X(id, status, meaning) VT_EXIT_##id = status,
    VT_EXIT_STATUSES(X)
#undef X
};

#endif
