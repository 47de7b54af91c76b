#include "record/places.h"

#include <string.h>

#include "hash.h"
#include "vramtrace/places.h"

enum { SETTINGS_MAXIMUM_BYTES = 1023 };

static struct vt_place_record *reserve(struct vt_session *session, size_t text_bytes)
{
    struct vt_place_record *record =
        vt_reserve_definition(session, VT_RECORD_PLACE, sizeof(struct vt_place_record) + text_bytes);
    if (record)
        memset((char *)record + sizeof record->head, 0, sizeof *record - sizeof record->head);
    return record;
}

__attribute__((noinline)) static uint32_t define_place(struct vt_session *session, int device_index,
                                                       uint64_t stream)
{
    const uint64_t hash =
        vt_hash_spread(vt_hash_add(vt_hash(stream + 1), (uint64_t)(uint32_t)device_index)) | VT_INTERN_MARK;
    struct vt_intern_entry *entry = vt_intern_find(&session->places, hash);
    uint32_t id = entry ? atomic_load_explicit(&entry->id, memory_order_acquire) : 0;
    if (!entry)
        vt_count_dropped(&session->ring.header->counters.dropped_definitions);
    if (!entry || id)
        return id;
    struct vt_place_record *record = reserve(session, 0);
    if (!record)
        return 0;
    id = atomic_fetch_add_explicit(&session->places.next_id, 1, memory_order_relaxed);
    record->place_id = id;
    record->device_index = device_index;
    record->stream = stream;
    vt_ring_commit(record);
    vt_intern_publish(&session->places, entry, id);
    return id;
}

uint32_t vt_place_id(struct vt_session *session, int device_index, uint64_t stream)
{
    /* Most blocks are made where the thread's block before was. */
    static __thread struct {
        uint32_t generation, id;
        int device_index;
        uint64_t stream;
    } last __attribute__((tls_model("initial-exec")));
    if (__builtin_expect(last.generation != session->generation || last.stream != stream ||
                             last.device_index != device_index || !last.id,
                         0)) {
        last.generation = session->generation;
        last.device_index = device_index;
        last.stream = stream;
        last.id = define_place(session, device_index, stream);
    }
    return last.id;
}

void vt_place_settings(struct vt_session *session, const char *settings)
{
    const size_t bytes = strnlen(settings, SETTINGS_MAXIMUM_BYTES);
    struct vt_place_record *record = reserve(session, bytes);
    if (!record)
        return;
    memcpy(record + 1, settings, bytes);
    vt_ring_commit(record);
}
