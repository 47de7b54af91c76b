/* UTF-8: the one check for all text from traces, file names and the command line. */
#ifndef VT_UTF8_H
#define VT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VT_REPLACEMENT 0xfffdu
#define VT_REPLACEMENT_TEXT "\xef\xbf\xbd"

/* The character that `text`, of `left` bytes (at least 1), begins with: its bytes, and its code. Bytes that
 * are no UTF-8 (cut short, overlong, surrogates, beyond U+10FFFF) give 0 and U+FFFD: step over one of them.
 */
size_t vt_utf8_read(const char *text, size_t left, uint32_t *code);

/* One letter of a NUL-terminated text: its bytes (0 at the end) and code; a byte that is no UTF-8 is U+FFFD.
 */
size_t vt_utf8_next(const char *text, uint32_t *code);

/* True for letters, other than a line break, that would move a terminal's cursor or change the direction of
 * its text, and for U+FFFD. */
bool vt_is_unsafe(uint32_t code);

#endif
