/* The settings that a program gives PyTorch's caching allocator while it runs. */
#ifndef VT_TORCH_SETTINGS_H
#define VT_TORCH_SETTINGS_H

#include <stdatomic.h>
#include <stdbool.h>

/* There are some that no trace has yet. */
extern _Atomic bool vt_torch_settings_new __attribute__((visibility("hidden")));
/* Records them. Within the guard, in a process that records; only if there are some. */
void vt_torch_settings_record(void);

#endif
