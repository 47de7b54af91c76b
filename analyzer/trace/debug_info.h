/* Files, lines and names of native frames, from the modules' files. */
#ifndef VT_TRACE_DEBUG_INFO_H
#define VT_TRACE_DEBUG_INFO_H

#include <stdbool.h>
#include <stdint.h>

struct vt_debug_file;
struct vt_module_entry;
struct vt_trace;
struct vt_trace_tables;

/* File and line, and where the trace has none the name, from the module's file if it is still
 * the same one. Return false if it has none. `exported_too`: also searches exported names, which dladdr would
 * have found had the process asked. */
bool vt_debug_locate(struct vt_trace_tables *tables, struct vt_module_entry *module, uint64_t address,
                     const char **file, int32_t *line);
bool vt_debug_name(const struct vt_trace *trace, struct vt_module_entry *module, uint64_t address,
                   bool exported_too, const char **linkage_name, uint64_t *symbol_address);
void vt_debug_close(struct vt_debug_file *debug);

#endif
