#include "trace/redact.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"

enum { ALIAS_BYTES = 16 };

static bool redacts;

void vt_redact_begin(void)
{
    redacts = true;
}

/* `alias` has room for ALIAS_BYTES - 1. */
static void make_alias(const char *text, size_t bytes, char *alias)
{
    snprintf(alias, ALIAS_BYTES - 1, "…%04x", (unsigned)(vt_hash_bytes(text, bytes, VT_HASH_START) & 0xffff));
}

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* The part of the path that is the same on every machine; NULL = none. */
static const char *common_part(const char *path)
{
    static const char *const systems[] = {"/usr/lib/", "/usr/lib64/", "/lib/",
                                          "/lib64/",   "/usr/bin/",   "/usr/local/cuda"},
                             *const packages[] = {"/site-packages/", "/dist-packages/", "/lib/python"};
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++)
        if (begins(path, systems[i]))
            return path;
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++) {
        const char *found = strstr(path, packages[i]);
        if (found)
            return found;
    }
    return NULL;
}

const char *vt_redact_path(struct vt_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/'), *common;
    char alias[ALIAS_BYTES];
    if (!redacts || !slash)
        return path;
    common = common_part(path);
    if (common == path)
        return path;
    make_alias(path, (size_t)(slash - path), alias);
    const size_t bytes = strlen(path) + ALIAS_BYTES;
    char *made = vt_arena_take(arena, bytes);
    snprintf(made, bytes, "/%s%s", common ? "…" : alias, common ? common : slash);
    return made;
}

const char *vt_redact_folder(struct vt_arena *arena, const char *folder)
{
    char alias[ALIAS_BYTES] = "/";
    if (!redacts || common_part(folder) == folder)
        return folder;
    make_alias(folder, strlen(folder), alias + 1);
    return vt_arena_text(arena, alias, strlen(alias));
}

const char *vt_redact_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return redacts && slash ? slash + 1 : path;
}

const char *vt_redact_value(struct vt_arena *arena, const char *value)
{
    char alias[ALIAS_BYTES];
    if (!redacts || !value[strspn(value, "0123456789,")])
        return value;
    make_alias(value, strlen(value), alias);
    return vt_arena_text(arena, alias, strlen(alias));
}

size_t vt_redact_text(const char *text, size_t bytes)
{
    const size_t head = strlen(VT_ENDED_BY);
    const char *colon;
    if (!redacts || bytes < head || memcmp(text, VT_ENDED_BY, head))
        return bytes;
    colon = memchr(text + head, ':', bytes - head);
    return colon ? (size_t)(colon - text) : bytes;
}

void vt_redact_host(char *host, size_t bytes)
{
    if (redacts && host[0])
        snprintf(host, bytes, "host%04x",
                 (unsigned)(vt_hash_bytes(host, strlen(host), VT_HASH_START) & 0xffff));
}

/* Options whose value is the next word are not known: what runs is the first word that names a file or
 * follows -m. */
size_t vt_redact_arguments(struct vt_arena *arena, const char **arguments, size_t count)
{
    size_t kept = 0;
    if (!redacts || !count)
        return count;
    arguments[kept++] = vt_redact_name(arguments[0]);
    for (size_t i = 1; i < count; i++) {
        const char *word = arguments[i], *dot = strrchr(word, '.');
        if (!strcmp(word, "-c"))
            break;
        if (!strcmp(word, "-m") && i + 1 < count) {
            arguments[kept] = word;
            arguments[kept + 1] = arguments[i + 1];
            kept += 2;
            break;
        }
        if (word[0] != '-' && dot && !strcmp(dot, ".py")) {
            arguments[kept++] = vt_redact_name(word);
            break;
        }
    }
    if (kept < count)
        arguments[kept++] = vt_arena_text(arena, "…", strlen("…"));
    arguments[kept] = NULL;
    return kept;
}
