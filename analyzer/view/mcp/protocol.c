/* JSON-RPC 2.0 and the methods of the protocol. */
#include "view/mcp/mcp.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"

#define MAX_MESSAGE_BYTES (1u << 20)
#define READ_BYTES 65536u
#define MAX_BATCH 64

enum rpc_error {
    RPC_PARSE = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_NO_METHOD = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL = -32603
};

/* Newest first: the first is offered to a client that asks for another. */
static const char *const versions[] = {"2025-06-18", "2025-03-26", "2024-11-05"};

/* ---- Responses ---- */

/* The same number again: above 2^52 cJSON prints 15 digits of it. */
static cJSON *copy_id(const cJSON *id)
{
    char number[32];

    if (!id)
        return cJSON_CreateNull();
    if (!cJSON_IsNumber(id) || !isfinite(id->valuedouble))
        return cJSON_Duplicate(id, false);
    snprintf(number, sizeof number, "%.17g", id->valuedouble);
    return cJSON_CreateRaw(number);
}

static cJSON *respond(const cJSON *id, const char *member, cJSON *value)
{
    cJSON *response = cJSON_CreateObject(), *copy = copy_id(id);

    if (cJSON_AddStringToObject(response, "jsonrpc", "2.0") && cJSON_AddItemToObject(response, "id", copy)) {
        copy = NULL; /* is the response's now */
        if (cJSON_AddItemToObject(response, member, value))
            return response;
    }
    cJSON_Delete(response);
    cJSON_Delete(copy);
    cJSON_Delete(value);
    return NULL;
}

static cJSON *fail(const cJSON *id, enum rpc_error code, const char *message)
{
    cJSON *error = cJSON_CreateObject();

    if (error && cJSON_AddNumberToObject(error, "code", code) &&
        cJSON_AddStringToObject(error, "message", message))
        return respond(id, "error", error);
    cJSON_Delete(error);
    return NULL;
}

/* ---- Methods ---- */

static const char *text_member(const cJSON *object, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

static cJSON *initialize(const struct vt_mcp_server *server, const cJSON *params)
{
    const char *asked = text_member(params, "protocolVersion"), *version = versions[0];
    cJSON *result = cJSON_CreateObject(), *part;
    bool made;

    for (size_t i = 0; asked && i < sizeof versions / sizeof *versions; i++)
        if (!strcmp(asked, versions[i]))
            version = versions[i];
    made = cJSON_AddStringToObject(result, "protocolVersion", version) != NULL;
    part = cJSON_AddObjectToObject(result, "capabilities");
    made &= cJSON_AddObjectToObject(part, "tools") != NULL;
    part = cJSON_AddObjectToObject(result, "serverInfo");
    made &= cJSON_AddStringToObject(part, "name", "vramtrace") &&
            cJSON_AddStringToObject(part, "title", "vramtrace: GPU memory of recorded programs") &&
            cJSON_AddStringToObject(part, "version", server->version) &&
            cJSON_AddStringToObject(result, "instructions", server->instructions);
    if (made)
        return result;
    cJSON_Delete(result);
    return NULL;
}

static cJSON *call(const struct vt_mcp_server *server, const cJSON *params, const char **wrong)
{
    const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(params, "arguments");
    const char *name = text_member(params, "name");
    bool known = true;
    cJSON *result;

    if (!name || (arguments && !cJSON_IsObject(arguments))) {
        *wrong = "tools/call needs the name of a tool, and its arguments as an object";
        return NULL;
    }
    result = server->call_tool(server->context, name, arguments, &known);
    if (!known)
        *wrong = "no such tool; tools/list lists them";
    return result;
}

static cJSON *answer_request(const struct vt_mcp_server *server, const cJSON *id, const char *method,
                             const cJSON *params)
{
    const char *wrong = NULL;
    cJSON *result;

    if (!strcmp(method, "initialize"))
        result = initialize(server, params);
    else if (!strcmp(method, "ping"))
        result = cJSON_CreateObject();
    else if (!strcmp(method, "tools/list"))
        result = server->list_tools(server->context);
    else if (!strcmp(method, "tools/call"))
        result = call(server, params, &wrong);
    else
        return fail(id, RPC_NO_METHOD, "method not found");
    if (wrong)
        return fail(id, RPC_INVALID_PARAMS, wrong);
    return result ? respond(id, "result", result) : fail(id, RPC_INTERNAL, "out of memory");
}

/* *answered = false for what gets no response: notifications, and responses (nothing was asked of the
 * client). */
static cJSON *answer_message(const struct vt_mcp_server *server, const cJSON *message, bool *answered)
{
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(message, "id");
    const cJSON *params = cJSON_GetObjectItemCaseSensitive(message, "params");
    const char *version = text_member(message, "jsonrpc"), *method = text_member(message, "method");
    bool good_id = cJSON_IsString(id) || cJSON_IsNumber(id);
    bool is_response =
        !method && (cJSON_HasObjectItem(message, "result") || cJSON_HasObjectItem(message, "error"));

    *answered = true;
    if (cJSON_IsObject(message) && version && !strcmp(version, "2.0") && (is_response || (method && !id))) {
        *answered = false;
        return NULL;
    }
    if (!cJSON_IsObject(message) || !version || strcmp(version, "2.0") != 0 || !method || !good_id)
        return fail(good_id ? id : NULL, RPC_INVALID_REQUEST, "this is no JSON-RPC 2.0 request");
    if (params && !cJSON_IsObject(params))
        return fail(id, RPC_INVALID_PARAMS, "params must be an object");
    return answer_request(server, id, method, params);
}

/* Batches are of the version 2025-03-26. */
static cJSON *answer_batch(const struct vt_mcp_server *server, const cJSON *batch, bool *answered)
{
    cJSON *responses = cJSON_CreateArray();
    const cJSON *message;

    *answered = true;
    if (!cJSON_GetArraySize(batch) || cJSON_GetArraySize(batch) > MAX_BATCH) {
        cJSON_Delete(responses);
        return fail(NULL, RPC_INVALID_REQUEST, "a batch has 1 to 64 messages");
    }
    cJSON_ArrayForEach(message, batch)
    {
        bool one_answered;
        cJSON *response = answer_message(server, message, &one_answered);

        if (one_answered && (!response || !cJSON_AddItemToArray(responses, response))) {
            cJSON_Delete(response);
            cJSON_Delete(responses);
            return NULL;
        }
    }
    *answered = cJSON_GetArraySize(responses) > 0;
    if (*answered)
        return responses;
    cJSON_Delete(responses);
    return NULL;
}

/* ---- Messages ---- */

static bool is_utf8(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes;) {
        uint32_t code;
        size_t good = vt_utf8_read(text + i, bytes - i, &code);

        if (!good || !text[i])
            return false;
        i += good;
    }
    return true;
}

/* No client reads what is no UTF-8. Everything should be, but for what a caller forgot. */
static void repair(char *text)
{
    size_t bytes = strlen(text);

    for (size_t i = 0; i < bytes;) {
        uint32_t code;
        size_t good = vt_utf8_read(text + i, bytes - i, &code);

        if (!good)
            text[i] = '?';
        i += good ? good : 1;
    }
}

static int send(cJSON *response, FILE *out)
{
    char *text = response ? cJSON_PrintUnformatted(response) : NULL;
    int result = 0;

    if (text)
        repair(text);

    /* The client waits for an answer: without memory for it, one that needs none. */
    errno = 0;
    if (fputs(text ? text
                   : "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32603,\"message\":\"out of "
                     "memory\"}}",
              out) < 0 ||
        fputc('\n', out) < 0 || fflush(out))
        result = errno ? -errno : -EIO;
    cJSON_free(text);
    cJSON_Delete(response);
    return result;
}

/* A line without its end; `bytes` over MAX_MESSAGE_BYTES = it was too long to keep. */
static int handle(const struct vt_mcp_server *server, char *line, size_t bytes, FILE *out)
{
    cJSON *message, *response;
    bool answered = true;

    if (bytes > MAX_MESSAGE_BYTES)
        return send(fail(NULL, RPC_INVALID_REQUEST, "a message has at most 1 MiB"), out);
    line[bytes] = '\0';
    if (!line[strspn(line, " \t\r")] && strlen(line) == bytes)
        return 0;
    message = is_utf8(line, bytes) ? cJSON_ParseWithOpts(line, NULL, true) : NULL;
    if (!message)
        return send(fail(NULL, RPC_PARSE, "this is no JSON"), out);
    response = cJSON_IsArray(message) ? answer_batch(server, message, &answered)
                                      : answer_message(server, message, &answered);
    cJSON_Delete(message);
    return answered ? send(response, out) : 0;
}

/* Bytes that were read and not yet handled. */
struct buffer {
    char *bytes; /* MAX_MESSAGE_BYTES and READ_BYTES, and one for an end */
    size_t count;
    bool skipping; /* within a line that is too long */
};

/* Handles all lines that are complete, and keeps the rest. */
static int handle_lines(const struct vt_mcp_server *server, struct buffer *buffer, FILE *out)
{
    size_t start = 0;
    char *end;
    int result = 0;

    while (!result && (end = memchr(buffer->bytes + start, '\n', buffer->count - start))) {
        size_t bytes = (size_t)(end - buffer->bytes) - start;

        result = handle(server, buffer->bytes + start, buffer->skipping ? SIZE_MAX : bytes, out);
        buffer->skipping = false;
        start += bytes + 1;
    }
    buffer->count -= start;
    memmove(buffer->bytes, buffer->bytes + start, buffer->count);
    if (buffer->count > MAX_MESSAGE_BYTES) {
        buffer->skipping = true;
        buffer->count = 0;
    }
    return result;
}

int vt_mcp_serve(const struct vt_mcp_server *server, int input, FILE *out)
{
    struct buffer buffer = {.bytes = malloc(MAX_MESSAGE_BYTES + READ_BYTES + 1)};
    int result = buffer.bytes ? 0 : -ENOMEM;
    ssize_t got = 1;

    while (!result && got) {
        got = read(input, buffer.bytes + buffer.count, READ_BYTES);
        if (got < 0)
            result = errno == EINTR ? 0 : -errno;
        if (got <= 0)
            continue;
        buffer.count += (size_t)got;
        result = handle_lines(server, &buffer, out);
    }
    if (!result && (buffer.count || buffer.skipping)) /* without a line break at its end */
        result = handle(server, buffer.bytes, buffer.skipping ? SIZE_MAX : buffer.count, out);
    free(buffer.bytes);
    return result;
}
