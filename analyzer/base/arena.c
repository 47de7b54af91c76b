#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/utf8.h"

#define PIECE_BYTES (256u * 1024u)
#define REPLACEMENT VT_REPLACEMENT_TEXT
#define REPLACEMENT_BYTES 3u

struct vt_arena_piece {
    struct vt_arena_piece *previous;
    uint64_t data[];
};

void *vt_arena_take(struct vt_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        vt_end_out_of_memory();
    bytes = bytes ? (bytes + 7) & ~(size_t)7 : 8; /* never NULL for nothing */
    if (bytes > arena->left) {
        size_t usual = arena->piece_bytes ? arena->piece_bytes : PIECE_BYTES;
        bool own_piece = bytes > usual / 4;
        size_t size = own_piece ? bytes : usual;
        struct vt_arena_piece *piece = vt_allocate(sizeof *piece + size);
        piece->previous = arena->pieces;
        arena->pieces = piece;
        if (own_piece)
            return piece->data;
        arena->next = (char *)piece->data;
        arena->left = size;
    }
    void *taken = arena->next;
    arena->next += bytes;
    arena->left -= bytes;
    return taken;
}

void vt_arena_free(struct vt_arena *arena)
{
    struct vt_arena_piece *piece = arena->pieces;
    while (piece) {
        struct vt_arena_piece *previous = piece->previous;
        free(piece);
        piece = previous;
    }
    memset(arena, 0, sizeof *arena);
}

/* Bytes of the character at `text`, 0 if it is none that we let through: terminals obey control characters,
 * those of C1 (U+0080 to U+009F) too. */
static size_t character_bytes(const char *text, size_t left)
{
    uint32_t code;
    size_t bytes = vt_utf8_read(text, left, &code);
    bool control = (code < 0x20 && code != '\t' && code != '\n') || (code >= 0x7f && code < 0xa0);
    return control ? 0 : bytes;
}

const char *vt_arena_text(struct vt_arena *arena, const void *text, size_t bytes)
{
    const char *in = text;
    size_t bad = 0;
    if (bytes == 0)
        return ""; /* a file may ask for very many of them */
    for (size_t i = 0; i < bytes;) {
        size_t good = character_bytes(in + i, bytes - i);
        bad += good == 0;
        i += good ? good : 1;
    }
    char *copy = vt_arena_take(arena, bytes + bad * (REPLACEMENT_BYTES - 1) + 1);
    char *out = copy;
    for (size_t i = 0; i < bytes;) {
        size_t good = bad ? character_bytes(in + i, bytes - i) : bytes;
        memcpy(out, good ? in + i : REPLACEMENT, good ? good : REPLACEMENT_BYTES);
        out += good ? good : REPLACEMENT_BYTES;
        i += good ? good : 1;
    }
    *out = '\0';
    return copy;
}

const char *vt_arena_next_text(struct vt_arena *arena, const char **at, const char *end)
{
    const char *text = *at;
    const size_t bytes = strnlen(text, (size_t)(end - text));
    *at += bytes + (text + bytes < end);
    return vt_arena_text(arena, text, bytes);
}
