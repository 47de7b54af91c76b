/* Blobs: tables and documents, compressed one by one (zlib), that stand one after another in the page's
 * base64. */
#ifndef VT_BLOBS_H
#define VT_BLOBS_H

#include "view/json/json.h"

struct libdeflate_compressor;

struct vt_blob {
    size_t offset, bytes, raw_bytes; /* compressed; inflated */
};

struct vt_blobs {
    char *data; /* all that is compressed */
    size_t bytes, capacity;
    struct libdeflate_compressor *compressor;
};

void vt_blobs_make(struct vt_blobs *blobs);
void vt_blobs_free(struct vt_blobs *blobs);

/* Compresses `raw`, and frees it. */
struct vt_blob vt_blob_add(struct vt_blobs *blobs, char *raw, size_t raw_bytes);
/* A document as --json prints it. */
struct vt_blob vt_blob_of_document(struct vt_blobs *blobs, const struct vt_document *document,
                                   const void *root, const struct vt_json_style *style);
/* "offset":…,"bytes":…,"raw_bytes":… */
void vt_blob_describe(const struct vt_blob *blob, FILE *json);

#endif
