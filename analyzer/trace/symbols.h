/* Symbols and modules of native frames, by address. */
#ifndef VT_TRACE_SYMBOLS_H
#define VT_TRACE_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

struct vt_module_entry;
struct vt_symbol_entry;
struct vt_trace;

/* Shortens "void at::native::(anonymous namespace)::f<float>(at::Tensor const&)" to
 * "at::native::f"; `out` is always terminated. */
void vt_shorten_function(const char *full, char *out, size_t out_bytes);
struct vt_symbol_entry *vt_symbol_entry(const struct vt_trace *trace, uint64_t address);
void vt_symbol_refine(const struct vt_trace *trace, struct vt_symbol_entry *entry);
void vt_symbol_add(struct vt_trace *trace, uint64_t address, uint64_t symbol_address, uint64_t module_base,
                   const char *linkage_name);
struct vt_module_entry *vt_module_at(const struct vt_trace *trace, uint64_t address);

#endif
