/* Building JSON, and the only place that calls cJSON to build or print it. */
#include "view/json/json.h"
#include "view/text/print.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* Set by what could not be made. A document that lacks something must not be taken for a whole one. */
static bool incomplete;

static void need(bool made)
{
    incomplete = incomplete || !made;
}

void vt_json_fail(void)
{
    need(false);
}

cJSON *vt_json_begin(const char *format)
{
    cJSON *root;

    incomplete = false;
    root = vt_json_item();
    if (format)
        vt_json_text(root, "format", format);
    return root;
}

cJSON *vt_json_item(void)
{
    cJSON *item = cJSON_CreateObject();

    need(item);
    return item;
}

cJSON *vt_json_list(void)
{
    cJSON *item = cJSON_CreateArray();

    need(item);
    return item;
}

void vt_json_append(cJSON *array, cJSON *item)
{
    bool added = item && cJSON_AddItemToArray(array, item);

    if (!added)
        cJSON_Delete(item);
    need(added);
}

void vt_json_append_text(cJSON *array, const char *text)
{
    vt_json_append(array, cJSON_CreateString(text ? text : ""));
}

void vt_json_put(cJSON *object, const char *name, cJSON *item)
{
    bool added = item && cJSON_AddItemToObject(object, name, item);

    if (!added)
        cJSON_Delete(item);
    need(added);
}

cJSON *vt_json_object(cJSON *object, const char *name)
{
    cJSON *added = cJSON_AddObjectToObject(object, name);

    need(added);
    return added;
}

cJSON *vt_json_array(cJSON *object, const char *name)
{
    cJSON *added = cJSON_AddArrayToObject(object, name);

    need(added);
    return added;
}

void vt_json_text(cJSON *object, const char *name, const char *text)
{
    need(cJSON_AddStringToObject(object, name, text ? text : ""));
}

void vt_json_name(cJSON *object, const char *name, const char *value)
{
    if (value && value[0])
        vt_json_text(object, name, value);
    else
        vt_json_null(object, name);
}

void vt_json_null(cJSON *object, const char *name)
{
    need(cJSON_AddNullToObject(object, name));
}

void vt_json_bool(cJSON *object, const char *name, bool value)
{
    need(cJSON_AddBoolToObject(object, name, value));
}

void vt_json_real(cJSON *object, const char *name, double value)
{
    need(cJSON_AddNumberToObject(object, name, value));
}

void vt_json_number(cJSON *object, const char *name, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, value);
    need(cJSON_AddRawToObject(object, name, text));
}

void vt_json_integer(cJSON *object, const char *name, int64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRId64, value);
    need(cJSON_AddRawToObject(object, name, text));
}

void vt_json_change(cJSON *object, const char *name, uint64_t before, uint64_t after)
{
    char text[32];

    snprintf(text, sizeof text, "%s%" PRIu64, after < before ? "-" : "",
             after < before ? before - after : after - before);
    need(cJSON_AddRawToObject(object, name, text));
}

/* An array of numbers in one raw piece: thousands of items each would take long. */
void vt_json_numbers(cJSON *object, const char *name, const void *values, size_t count, size_t stride,
                     size_t width)
{
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    bool made = stream != NULL;

    for (size_t i = 0; made && i < count; i++) {
        const char *place = (const char *)values + i * stride;
        uint64_t value =
            width == 8 ? *(const uint64_t *)(const void *)place : *(const uint32_t *)(const void *)place;
        fprintf(stream, "%c%" PRIu64, i ? ',' : '[', value);
    }
    if (made)
        fputs(count ? "]" : "[]", stream);
    made = made && !ferror(stream);
    if (stream && fclose(stream))
        made = false;
    need(made && cJSON_AddRawToObject(object, name, text));
    free(text);
}

/* All that is not ASCII stands in strings. What a terminal would obey is escaped, as JSON may escape any
 * letter; bytes that are no UTF-8 cannot be told in JSON and become U+FFFD. */
static void put_valid(const char *text, FILE *out)
{
    const char *start = text;
    uint32_t code;

    for (size_t bytes;; text += bytes) {
        while (*text > 0 && *text < 0x7f) /* nearly all of it */
            text++;
        bytes = vt_utf8_next(text, &code);
        if (!bytes)
            break;
        if (!vt_is_unsafe(code))
            continue;
        fwrite(start, 1, (size_t)(text - start), out);
        if (code == VT_REPLACEMENT)
            fputs(VT_REPLACEMENT_TEXT, out);
        else
            fprintf(out, "\\u%04x", (unsigned)code);
        start = text + bytes;
    }
    fwrite(start, 1, (size_t)(text - start), out);
}

int vt_json_end(cJSON *root, int result, bool compact, FILE *out)
{
    char *text = result || incomplete ? NULL : compact ? cJSON_PrintUnformatted(root) : cJSON_Print(root);

    cJSON_Delete(root);
    if (!text)
        return result ? result : -ENOMEM;
    errno = 0;
    put_valid(text, out);
    fputc('\n', out);
    cJSON_free(text);
    return ferror(out) ? (errno ? -errno : -EIO) : 0;
}
