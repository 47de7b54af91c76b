#include "record/writer.h"

/* LEB128 of zigzag(value - previous). At most 10 bytes. */
static uint8_t *put(uint8_t *out, uint64_t difference)
{
    uint64_t value = difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
    while (value >= 0x80) {
        *out++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *out++ = (uint8_t)value;
    return out;
}

#define PACK_COLUMN(field)                                                                                   \
    static uint8_t *pack_##field(const struct vt_event *const *events, size_t count, uint8_t *out)           \
    {                                                                                                        \
        uint64_t previous = 0;                                                                               \
        for (size_t i = 0; i < count; i++) {                                                                 \
            uint64_t value = (uint64_t)events[i]->field;                                                     \
            out = put(out, value - previous);                                                                \
            previous = value;                                                                                \
        }                                                                                                    \
        return out;                                                                                          \
    }
VT_EVENT_COLUMNS(PACK_COLUMN)
VT_EVENT_THREAD_COLUMN(PACK_COLUMN)

void vt_pack_events(const struct vt_event *const *events, size_t count, struct vt_buffer *out)
{
    enum { VARINT_MAXIMUM_BYTES = 10 };
#define X(field)                                                                                             \
    {                                                                                                        \
        size_t before = out->bytes;                                                                          \
        uint8_t *start = vt_buffer_add(out, count * VARINT_MAXIMUM_BYTES);                                   \
        if (!start)                                                                                          \
            return;                                                                                          \
        out->bytes = before + (size_t)(pack_##field(events, count, start) - start);                          \
    }
    VT_EVENT_COLUMNS(X)
    VT_EVENT_THREAD_COLUMN(X)
#undef X
}
