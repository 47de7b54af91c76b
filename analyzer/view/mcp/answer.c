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

/* Text that quotes a file's name or a trace may hold what is no UTF-8. */
cJSON *vt_mcp_failure(const char *text)
{
    char *clean = malloc(strlen(text) * (sizeof VT_REPLACEMENT_TEXT - 1) + 1);
    cJSON *result;
    size_t used = 0;
    uint32_t code;

    if (!clean)
        return NULL;
    for (size_t bytes; (bytes = vt_utf8_next(text, &code)) > 0; text += bytes) {
        bool bad = code == VT_REPLACEMENT || (code != '\n' && vt_is_unsafe(code));

        memcpy(clean + used, bad ? "?" : text, bad ? 1 : bytes);
        used += bad ? 1 : bytes;
    }
    clean[used] = '\0';
    result = result_of(clean, true, NULL);
    free(clean);
    return result;
}
