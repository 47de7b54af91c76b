/* The formats of export. */
#ifndef VT_COMMAND_EXPORT_H
#define VT_COMMAND_EXPORT_H

#define VT_EXPORT_FORMATS 8u
const char *vt_export_format_name(unsigned format); /* "perfetto", … */

#endif
