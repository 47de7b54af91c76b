#include "view/html/blobs.h"

#include <errno.h>
#include <inttypes.h>
#include <libdeflate.h>

#define LEVEL 6

int vt_blobs_make(struct vt_blobs *blobs)
{
    *blobs = (struct vt_blobs){.compressor = libdeflate_alloc_compressor(LEVEL)};
    return blobs->compressor ? 0 : -ENOMEM;
}

void vt_blobs_free(struct vt_blobs *blobs)
{
    if (blobs->compressor)
        libdeflate_free_compressor(blobs->compressor);
    vt_bytes_free(&blobs->data);
    blobs->compressor = NULL;
}

struct vt_blob vt_blob_add(struct vt_blobs *blobs, enum vt_encoding encoding, uint64_t count,
                           struct vt_bytes *raw)
{
    struct vt_blob blob = {
        .offset = blobs->data.count, .raw_bytes = raw->count, .count = count, .encoding = (uint8_t)encoding};
    size_t bound = libdeflate_deflate_compress_bound(blobs->compressor, raw->count);
    char *end = raw->failed ? NULL : vt_bytes_reserve(&blobs->data, bound);

    if (end)
        blob.bytes = libdeflate_deflate_compress(blobs->compressor, raw->data ? raw->data : "", raw->count,
                                                 end, bound);
    if (!blob.bytes)
        blobs->data.failed = true;
    blobs->data.count += blob.bytes;
    vt_bytes_free(raw);
    return blob;
}

void vt_blob_describe(const struct vt_blob *blob, struct vt_bytes *json)
{
    static const char *const names[] = {"json", "numbers", "deltas", "predicted", "placed"};

    vt_bytes_print(
        json, "{\"offset\":%zu,\"bytes\":%zu,\"raw_bytes\":%zu,\"count\":%" PRIu64 ",\"encoding\":\"%s\"}",
        blob->offset, blob->bytes, blob->raw_bytes, blob->count, names[blob->encoding]);
}

void vt_put_delta(struct vt_bytes *raw, uint64_t value, uint64_t *last)
{
    uint64_t change = value - *last;

    vt_bytes_varint(raw, change << 1 ^ (change >> 63 ? UINT64_MAX : 0));
    *last = value;
}

uint32_t vt_context_slot(const uint32_t classes[4])
{
    uint32_t hash = classes[0];

    for (int i = 1; i < 4; i++)
        hash = hash * 31u + classes[i];
    return hash * 2654435761u >> 16;
}

void vt_put_predicted(struct vt_bytes *raw, struct vt_predictor *predictor, uint32_t slot, uint64_t value)
{
    uint64_t *expected = &predictor->values[slot];

    vt_bytes_varint(raw, *expected == value ? 0 : value + 1);
    *expected = value;
}
