/* Blobs: columns of numbers and documents, compressed one by one (raw deflate), that stand one after another
 * in the page's base64. docs/page.md describes the encodings. */
#ifndef VT_BLOBS_H
#define VT_BLOBS_H

#include "view/html/bytes.h"

struct libdeflate_compressor;

enum vt_encoding {
    VT_ENCODING_JSON,
    VT_ENCODING_NUMBERS,
    VT_ENCODING_DELTAS,
    VT_ENCODING_PREDICTED,
    VT_ENCODING_PLACED
};

struct vt_blob {
    size_t offset, bytes, raw_bytes; /* compressed; inflated */
    uint64_t count;                  /* of values; 0 of JSON */
    uint8_t encoding;
};

struct vt_blobs {
    struct vt_bytes data; /* all that is compressed */
    struct libdeflate_compressor *compressor;
};

/* -ENOMEM */
int vt_blobs_make(struct vt_blobs *blobs);
void vt_blobs_free(struct vt_blobs *blobs);

/* Compresses `raw`, which it empties and frees. Without memory blobs->data.failed is set. */
struct vt_blob vt_blob_add(struct vt_blobs *blobs, enum vt_encoding encoding, uint64_t count,
                           struct vt_bytes *raw);
/* {"offset":…} */
void vt_blob_describe(const struct vt_blob *blob, struct vt_bytes *json);

/* The difference to the value before; the caller keeps `last`, 0 at first. */
void vt_put_delta(struct vt_bytes *raw, uint64_t value, uint64_t *last);

/* Values of a column as their context predicts them: 0 = as predicted, else the value + 1. */
#define VT_PREDICTED_SLOTS 65536u
struct vt_predictor {
    uint64_t values[VT_PREDICTED_SLOTS];
};
/* `slot`: vt_context_slot of the classes, the latest first. */
void vt_put_predicted(struct vt_bytes *raw, struct vt_predictor *predictor, uint32_t slot, uint64_t value);
uint32_t vt_context_slot(const uint32_t classes[4]);

#endif
