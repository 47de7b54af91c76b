#include "view/ci/ci.h"

#include <string.h>

#include "base/utf8.h"

/* `special` characters are written by `escape`, what is not safe as '?': XML allows no control characters,
 * not even escaped. */
static void put_escaped(const char *text, const char *special, void (*escape)(char letter, FILE *out),
                        FILE *out)
{
    uint32_t code;

    for (size_t bytes; (bytes = vt_utf8_next(text, &code)) > 0; text += bytes) {
        if (vt_is_unsafe(code) || code == '\n' || code == 0xfffe || code == 0xffff)
            fputc('?', out);
        else if (bytes == 1 && strchr(special, *text))
            escape(*text, out);
        else
            fwrite(text, 1, bytes, out);
    }
}

/* ---- GitHub ---- */

static void escape_percent(char letter, FILE *out)
{
    fprintf(out, "%%%02X", (unsigned char)letter);
}

/* ::error title=TITLE::TEXT. Unescaped, a title would end at a comma or a colon. */
static void put_error(const char *path, const char *text, FILE *out)
{
    fputs("::error title=vramtrace check ", out);
    put_escaped(path, "%:,", escape_percent, out);
    fputs("::", out);
    put_escaped(text, "%", escape_percent, out);
    fputc('\n', out);
}

void vt_ci_github(const struct vt_check_list *list, FILE *out)
{
    for (size_t i = 0; i < list->count; i++)
        for (size_t k = 0; k < list->items[i].count; k++)
            if (list->items[i].items[k].text)
                put_error(list->items[i].facts.path, list->items[i].items[k].text, out);
    for (size_t i = 0; i < list->unread_count; i++)
        put_error(list->unread[i], "the trace could not be read", out);
}

/* ---- JUnit ---- */

static void escape_entity(char letter, FILE *out)
{
    fprintf(out, "&#%d;", letter);
}

static void put_attribute(const char *name, const char *text, FILE *out)
{
    fprintf(out, " %s=\"", name);
    put_escaped(text, "&<>\"'", escape_entity, out);
    fputc('"', out);
}

static void put_suite(const char *path, size_t tests, size_t failures, size_t errors, FILE *out)
{
    fputs("  <testsuite", out);
    put_attribute("name", path, out);
    fprintf(out, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\">\n", tests, failures, errors);
}

static void put_case(const char *path, const char *name, const char *element, const char *type,
                     const char *message, FILE *out)
{
    fputs("    <testcase", out);
    put_attribute("classname", path, out);
    put_attribute("name", name, out);
    if (!message) {
        fputs("/>\n", out);
        return;
    }
    fprintf(out, "><%s", element);
    put_attribute("type", type, out);
    put_attribute("message", message, out);
    fputs("/></testcase>\n", out);
}

static void put_checked(const char *path, const struct vt_checked *checked, FILE *out)
{
    char name[128] = "";

    if (checked->of_device)
        snprintf(name, sizeof name, "GPU %d ", checked->device_index);
    snprintf(name + strlen(name), sizeof name - strlen(name), "%s%s%s", checked->what,
             checked->part ? " " : "", checked->part ? checked->part : "");
    put_case(path, name, "failure", checked->what, checked->text, out);
}

void vt_ci_junit(const struct vt_check_list *list, FILE *out)
{
    size_t tests = list->unread_count, failures = 0;

    for (size_t i = 0; i < list->count; i++) {
        tests += list->items[i].count;
        failures += list->items[i].breaches;
    }
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<testsuites name=\"vramtrace check\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\">\n",
            tests, failures, list->unread_count);
    for (size_t i = 0; i < list->count; i++) {
        const struct vt_checks *checks = &list->items[i];

        put_suite(checks->facts.path, checks->count, checks->breaches, 0, out);
        for (size_t k = 0; k < checks->count; k++)
            put_checked(checks->facts.path, &checks->items[k], out);
        fputs("  </testsuite>\n", out);
    }
    for (size_t i = 0; i < list->unread_count; i++) {
        put_suite(list->unread[i], 1, 0, 1, out);
        put_case(list->unread[i], "read", "error", "unreadable", "the trace could not be read", out);
        fputs("  </testsuite>\n", out);
    }
    fputs("</testsuites>\n", out);
}
