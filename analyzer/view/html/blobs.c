#include "view/html/blobs.h"

#include <libdeflate.h>
#include <stdlib.h>

#include "base/allocate.h"
#include "base/index.h"
#include "base/memory_stream.h"

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
    free(blobs->data);
}

struct vt_blob vt_blob_add(struct vt_blobs *blobs, char *raw, size_t raw_bytes)
{
    struct vt_blob blob = {.offset = blobs->bytes, .raw_bytes = raw_bytes};
    size_t bound = libdeflate_zlib_compress_bound(blobs->compressor, raw_bytes);

    vt_reserve(&blobs->data, &blobs->capacity, blobs->bytes + bound, 1);
    blob.bytes =
        libdeflate_zlib_compress(blobs->compressor, raw, raw_bytes, blobs->data + blobs->bytes, bound);
    blobs->bytes += blob.bytes;
    free(raw);
    return blob;
}

struct vt_blob vt_blob_of_document(struct vt_blobs *blobs, const struct vt_document *document,
                                   const void *root, const struct vt_json_style *style)
{
    char *text;
    size_t bytes;
    FILE *stream = vt_memory_stream(&text, &bytes);

    vt_json_write(document, root, style, stream);
    fclose(stream);
    return vt_blob_add(blobs, text, bytes);
}

void vt_blob_describe(const struct vt_blob *blob, FILE *json)
{
    fprintf(json, "\"offset\":%zu,\"bytes\":%zu,\"raw_bytes\":%zu", blob->offset, blob->bytes,
            blob->raw_bytes);
}
