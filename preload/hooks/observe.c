#include "hooks/observe.h"

#include "inspect/inspect.h"
#include "record/session.h"
#include "record/writer.h"

static const struct vt_session_helpers helpers = {
    .start_writer = vt_writer_start, .finish_writer = vt_writer_finish, .inspector = &vt_inspector};

static inline struct vt_session *get_session(void)
{
    struct vt_session *session = vt_session_active();
    return __builtin_expect(session != NULL, 1) ? session : vt_session_begin(&helpers);
}

void vt_record(const struct vt_observation *seen)
{
    struct vt_session *session = get_session();
    if (session)
        vt_record_event(session, seen);
    else
        vt_session_missed();
}

bool vt_record_device_known(int device_index)
{
    const struct vt_session *session = get_session();
    return !session || vt_device_is_recorded(session, device_index);
}

void vt_record_device(int device_index, const char *name, uint64_t total_bytes, const void *uuid)
{
    struct vt_session *session = get_session();
    if (session)
        vt_record_new_device(session, device_index, name, total_bytes, uuid);
}
