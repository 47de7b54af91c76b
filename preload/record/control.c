#include "record/control.h"

#include <string.h>

#include "record/record.h"

static bool carry_out(struct vt_session *session, uint32_t command, const char *text)
{
    switch (command) {
    case VT_CONTROL_START:
        return vt_pause(session, false);
    case VT_CONTROL_STOP:
        return vt_pause(session, true);
    case VT_CONTROL_MARK:
        return vt_record_named(VT_EVENT_MARK, text);
    case VT_CONTROL_INSPECT:
        return vt_record_named(VT_EVENT_MARK, text) && vt_record_ask_inspection(VT_INSPECTION_ASKED);
    default: /* from a later version */
        return false;
    }
}

void vt_control_obey(struct vt_session *session)
{
    struct vt_control *control = &session->ring.header->control;
    char text[sizeof control->text];
    const uint32_t asked = __atomic_load_n(&control->asked, __ATOMIC_ACQUIRE);
    if (asked == __atomic_load_n(&control->answered, __ATOMIC_RELAXED))
        return;
    memcpy(text, control->text, sizeof text);
    text[sizeof text - 1] = 0;
    control->recorded = carry_out(session, control->command, text);
    __atomic_store_n(&control->answered, asked, __ATOMIC_RELEASE);
}
