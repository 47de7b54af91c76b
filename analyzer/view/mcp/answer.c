/* Results of tools: short pages of text. */
#include "view/mcp/mcp.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define PAGE_BYTES 2000u

/* The end of the page that begins at `offset`: after a line, else after a letter. */
static size_t end_of_page(const char *text, size_t offset, size_t bytes)
{
    size_t end = offset + PAGE_BYTES;

    if (end >= bytes)
        return bytes;
    for (size_t i = end; i > offset + PAGE_BYTES / 2; i--)
        if (text[i - 1] == '\n')
            return i;
    while (end > offset + 1 && ((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    return end;
}

static cJSON *result_of(const char *text, bool failed, cJSON *structured)
{
    cJSON *result = cJSON_CreateObject(), *content = cJSON_AddArrayToObject(result, "content"),
          *item = cJSON_CreateObject();

    if (content && item && cJSON_AddItemToArray(content, item)) {
        if (cJSON_AddStringToObject(item, "type", "text") && cJSON_AddStringToObject(item, "text", text) &&
            (!structured || cJSON_AddItemToObject(result, "structuredContent", structured))) {
            structured = NULL;
            if (!failed || cJSON_AddTrueToObject(result, "isError"))
                return result;
        }
    } else {
        cJSON_Delete(item);
    }
    cJSON_Delete(structured);
    cJSON_Delete(result);
    return NULL;
}

cJSON *vt_mcp_answer(const char *text, size_t offset, cJSON *structured)
{
    size_t bytes = strlen(text), start = offset < bytes ? offset : bytes, end;
    cJSON *result;
    char *page;

    while (start < bytes && ((unsigned char)text[start] & 0xc0) == 0x80)
        start++;
    end = end_of_page(text, start, bytes);
    page = malloc(end - start + 128);
    if (!page) {
        cJSON_Delete(structured);
        return NULL;
    }
    memcpy(page, text + start, end - start);
    page[end - start] = '\0';
    if (end < bytes)
        sprintf(page + (end - start), "… %zu of %zu bytes shown; for more: the same call with offset=%zu\n",
                end, bytes, end);
    else if (offset && start == bytes)
        strcpy(page + (end - start), "There is nothing after that offset.\n");
    result = result_of(page, false, structured);
    free(page);
    return result;
}

char *vt_mcp_clean(const char *text)
{
    char *clean = malloc(strlen(text) * (sizeof VT_REPLACEMENT_TEXT - 1) + 1);
    size_t used = 0;
    uint32_t code;

    for (size_t bytes; clean && (bytes = vt_utf8_next(text, &code)) > 0; text += bytes) {
        bool bad = code == '\n' || code == VT_REPLACEMENT || vt_is_unsafe(code);
        size_t length = bad ? sizeof VT_REPLACEMENT_TEXT - 1 : bytes;

        memcpy(clean + used, bad ? VT_REPLACEMENT_TEXT : text, length);
        used += length;
    }
    if (clean)
        clean[used] = '\0';
    return clean;
}

/* It may quote a file's name or a trace. */
cJSON *vt_mcp_failure(const char *text)
{
    char *clean = vt_mcp_clean(text);
    cJSON *result = clean ? result_of(clean, true, NULL) : NULL;

    free(clean);
    return result;
}
