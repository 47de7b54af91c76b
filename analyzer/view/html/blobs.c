#include "view/html/blobs.h"

#include <libdeflate.h>

#include "base/allocate.h"

#define LEVEL 6

void vt_blobs_make(struct vt_blobs *blobs)
{
    *blobs = (struct vt_blobs){.compressor = libdeflate_alloc_compressor(LEVEL)};
    if (!blobs->compressor)
        vt_end_out_of_memory();
}

void vt_blobs_free(struct vt_blobs *blobs)
{
    libdeflate_free_compressor(blobs->compressor);
    vt_bytes_free(&blobs->data);
}

struct vt_blob vt_blob_add(struct vt_blobs *blobs, struct vt_bytes *raw)
{
    struct vt_blob blob = {.offset = blobs->data.count, .raw_bytes = raw->count};
    size_t bound = libdeflate_zlib_compress_bound(blobs->compressor, raw->count);
    char *end = vt_bytes_reserve(&blobs->data, bound);

    blob.bytes = libdeflate_zlib_compress(blobs->compressor, raw->data ? raw->data : "", raw->count, end, bound);
    blobs->data.count += blob.bytes;
    vt_bytes_free(raw);
    return blob;
}

void vt_blob_describe(const struct vt_blob *blob, struct vt_bytes *json)
{
    vt_bytes_print(json, "\"offset\":%zu,\"bytes\":%zu,\"raw_bytes\":%zu", blob->offset, blob->bytes,
                   blob->raw_bytes);
}
