#ifndef VT_BASE64_H
#define VT_BASE64_H

#include <stddef.h>
#include <stdio.h>

/* Standard base64 without line breaks. The stream keeps what goes wrong. */
void vt_base64_write(const char *data, size_t bytes, FILE *out);

#endif
