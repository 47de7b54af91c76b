#include "trace/python_lines.h"

#include <stdbool.h>

/* Sums have 64 bits. An entry of the location table can add 2^36 lines, so a sum beyond this ends the search.
 * Entries of the other tables are bytes, and no table is long enough to overflow. */
#define SUM_LIMIT (INT64_C(1) << 40)

/* Line 0 is valid: from 3.11 on, a module's first instruction has it. */
static int32_t as_line(int64_t line)
{
    return line >= 0 && line <= INT32_MAX ? (int32_t)line : -1;
}

/* 3.9, co_lnotab: pairs of bytes and signed lines to add. Code after the last pair has the last line, so the
 * table need not reach the offset. */
static int32_t line_from_lnotab(const uint8_t *table, size_t bytes, int32_t first_line, int32_t wanted)
{
    int64_t offset = 0;
    int64_t line = first_line;
    for (size_t i = 0; i + 2 <= bytes; i += 2) {
        offset += table[i];
        if (offset > wanted)
            break;
        line += (int8_t)table[i + 1];
    }
    return as_line(line);
}

/* 3.10, co_linetable: pairs of a range's length and the signed lines to add before it; -128: the range has no
 * line. */
static int32_t line_from_ranges(const uint8_t *table, size_t bytes, int32_t first_line, int32_t wanted)
{
    int64_t end = 0;
    int64_t line = first_line;
    for (size_t i = 0; i + 2 <= bytes; i += 2) {
        int8_t delta = (int8_t)table[i + 1];
        end += table[i];
        if (delta != -128)
            line += delta;
        if (wanted < end)
            return delta == -128 ? -1 : as_line(line);
    }
    return -1;
}

/* From 3.11 on, the location table. An entry begins with a byte whose top bit is set, with 4 bits of form and
 * 3 bits of length (in code units, minus one). Numbers are little-endian groups of 6 bits, bit 6 = more
 * follow; the sign of a signed number is in bit 0. Columns are skipped: only the first byte of an entry has
 * its top bit set. */
enum { FORM_ONE_LINE_0 = 10, FORM_ONE_LINE_2 = 12, FORM_NO_COLUMNS = 13, FORM_LONG = 14, FORM_NONE = 15 };

static bool read_signed(const uint8_t *table, size_t bytes, size_t *position, int64_t *value)
{
    uint64_t number = 0;
    unsigned shift = 0;
    for (;;) {
        if (*position >= bytes || (table[*position] & 0x80) != 0 || shift > 30)
            return false;
        uint8_t byte = table[(*position)++];
        number |= (uint64_t)(byte & 63) << shift;
        if ((byte & 64) == 0)
            break;
        shift += 6;
    }
    *value = (number & 1) != 0 ? -(int64_t)(number >> 1) : (int64_t)(number >> 1);
    return true;
}

static int32_t line_from_locations(const uint8_t *table, size_t bytes, int32_t first_line, int32_t wanted)
{
    int64_t end = 0;
    int64_t line = first_line;
    size_t position = 0;
    while (position < bytes) {
        uint8_t first = table[position++];
        if ((first & 0x80) == 0)
            return -1;
        unsigned form = first >> 3 & 15;
        int64_t delta = 0;
        if (form == FORM_NO_COLUMNS || form == FORM_LONG) {
            if (!read_signed(table, bytes, &position, &delta))
                return -1;
        } else if (form >= FORM_ONE_LINE_0 && form <= FORM_ONE_LINE_2) {
            delta = form - FORM_ONE_LINE_0;
        }
        line += delta;
        end += ((first & 7) + 1) * 2;
        if (wanted < end)
            return form == FORM_NONE ? -1 : as_line(line);
        if (line > SUM_LIMIT || line < -SUM_LIMIT)
            return -1;
        while (position < bytes && (table[position] & 0x80) == 0)
            position++;
    }
    return -1;
}

int32_t vt_python_line(int python_minor, const uint8_t *table, size_t bytes, int32_t first_line,
                       int32_t instruction_offset)
{
    if (python_minor < 9 || python_minor > 15)
        return -1;
    if (instruction_offset < 0)
        return as_line(first_line);
    if (table == NULL)
        bytes = 0;
    if (python_minor == 9)
        return line_from_lnotab(table, bytes, first_line, instruction_offset);
    if (python_minor == 10)
        return line_from_ranges(table, bytes, first_line, instruction_offset);
    return line_from_locations(table, bytes, first_line, instruction_offset);
}
