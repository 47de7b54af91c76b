/* Blobs: tables and documents, compressed one by one (zlib), that stand one after another in the
 * page's base64. */
#ifndef VT_BLOBS_H
#define VT_BLOBS_H

#include "view/html/bytes.h"

struct libdeflate_compressor;

struct vt_blob {
    size_t offset, bytes, raw_bytes; /* compressed; inflated */
};

struct vt_blobs {
    struct vt_bytes data; /* all that is compressed */
    struct libdeflate_compressor *compressor;
};

void vt_blobs_make(struct vt_blobs *blobs);
void vt_blobs_free(struct vt_blobs *blobs);

/* Compresses `raw`, which it empties and frees. */
struct vt_blob vt_blob_add(struct vt_blobs *blobs, struct vt_bytes *raw);
/* "offset":…,"bytes":…,"raw_bytes":… */
void vt_blob_describe(const struct vt_blob *blob, struct vt_bytes *json);

#endif
