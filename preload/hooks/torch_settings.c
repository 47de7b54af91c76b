/* torch.cuda.memory._set_allocator_settings() ends in one of these functions of libc10_cuda or, since 2.9, of
 * libc10, which libtorch_python calls through the PLT. Programs call it before their first CUDA event, so
 * what it is given is kept until there is a trace. Those of the environment are in VT_RECORD_LAUNCH. */
#include "hooks/torch_settings.h"

#include <string.h>

#include "loader/elf_walk.h"
#include "record/record.h"

#define OLD_STRING _ZN3c104cuda20CUDACachingAllocator20setAllocatorSettingsERKSs
#define STRING                                                                                               \
    _ZN3c104cuda20CUDACachingAllocator20setAllocatorSettingsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE
#define PARSE                                                                                                \
    _ZN3c1016CachingAllocator26AcceleratorAllocatorConfig9parseArgsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE

/* libstdc++'s std::string begins with a pointer to its text, with a NUL, in its old layout too. */
struct text {
    const char *characters;
};
typedef void set_function(const struct text *settings);
typedef void parse_function(void *config, const struct text *settings);

_Atomic bool vt_torch_settings_new;
static char latest[1024]; /* the last byte stays 0 */

static void keep(const struct text *settings)
{
    strncpy(latest, settings->characters, sizeof latest - 1);
    atomic_store_explicit(&vt_torch_settings_new, latest[0] != 0, memory_order_release);
}

void vt_torch_settings_record(void)
{
    if (atomic_exchange(&vt_torch_settings_new, false))
        vt_record_settings(latest);
}

#define EXPORT_SET(symbol)                                                                                   \
    __attribute__((visibility("default"))) set_function symbol;                                              \
    void symbol(const struct text *settings)                                                                 \
    {                                                                                                        \
        keep(settings);                                                                                      \
        VT_ELF_NEXT(symbol);                                                                                 \
        if (real)                                                                                            \
            real(settings);                                                                                  \
    }
EXPORT_SET(OLD_STRING)
EXPORT_SET(STRING)

__attribute__((visibility("default"))) parse_function PARSE;
void PARSE(void *config, const struct text *settings)
{
    keep(settings);
    VT_ELF_NEXT(PARSE);
    if (real)
        real(config, settings);
}
