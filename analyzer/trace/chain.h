/* Reads the chunks of one chain (format.h), in their order. Threads: each chain by itself. */
#ifndef VT_CHAIN_H
#define VT_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "vramtrace/format.h"

struct vt_chain;

/* A chunk is a few hundred KiB in practice. */
#define VT_CHUNK_BYTES_LIMIT (64u << 20)

struct vt_chain *vt_chain_make(void);
void vt_chain_free(struct vt_chain *chain);

/* Whether a header is consistent in itself. */
bool vt_chain_is_plausible(const struct vt_chunk_header *head);
/* Whether the stored bytes are those that the header was written for. */
bool vt_chain_is_whole(const struct vt_chunk_header *head, const uint8_t *stored);

/* Takes the next chunk, which is plausible and whole: head->definitions_bytes to `definitions`, and
 * head->events to `events`. Returns 0, or -EBADMSG if a chunk before it is missing, or it is damaged
 * after all: then nothing more of its chain can be read. */
int vt_chain_read(struct vt_chain *chain, const struct vt_chunk_header *head, const uint8_t *stored,
                  uint8_t *definitions, struct vt_event *events);

#endif
