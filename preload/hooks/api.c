/* The functions that a program may call (include/vramtrace/api.h). */
#include <stddef.h>

#include "guard.h"
#include "record/record.h"
#include "record/session.h"

#define EXPORT __attribute__((visibility("default")))
EXPORT int vramtrace_mark(const char *name);
EXPORT int vramtrace_inspect(const char *name);
EXPORT int vramtrace_start(void);
EXPORT int vramtrace_stop(void);
EXPORT int vramtrace_range_push(const char *name);
EXPORT int vramtrace_range_pop(void);

int vramtrace_mark(const char *name)
{
    return vt_record_mark(VT_EVENT_MARK, name ? name : "");
}

int vramtrace_inspect(const char *name)
{
    int saved_errno;
    if (!vt_enter(&saved_errno))
        return 0;
    const bool recorded = vt_record_named(VT_EVENT_MARK, name ? name : "");
    if (recorded)
        vt_record_ask_inspection(VT_INSPECTION_ASKED);
    vt_leave(saved_errno);
    return recorded;
}

static int set_pause(bool begin)
{
    struct vt_session *session = vt_session_active();
    int saved_errno;
    if (!session || !vt_enter(&saved_errno))
        return 0;
    bool recorded = vt_pause(session, begin);
    vt_leave(saved_errno);
    return recorded;
}

int vramtrace_start(void)
{
    return set_pause(false);
}

int vramtrace_stop(void)
{
    return set_pause(true);
}

int vramtrace_range_push(const char *name)
{
    return vt_record_mark(VT_EVENT_RANGE_PUSH, name ? name : "");
}

int vramtrace_range_pop(void)
{
    return vt_record_mark(VT_EVENT_RANGE_POP, NULL);
}
