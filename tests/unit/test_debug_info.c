/* Names and lines of native frames from this program's own symbol table and debug information. */
#include <criterion/criterion.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "trace_builder.h"

struct self {
    uint64_t base, end;
    uint8_t build_id[64];
    uint32_t build_id_bytes;
};

static int visit_object(struct dl_phdr_info *object, size_t bytes, void *context)
{
    struct self *self = context;
    (void)bytes;
    self->base = object->dlpi_addr;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && self->base + part->p_vaddr + part->p_memsz > self->end)
            self->end = self->base + part->p_vaddr + part->p_memsz;
        if (part->p_type != PT_NOTE)
            continue;
        const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(self->base + part->p_vaddr);
        if (note->n_type == NT_GNU_BUILD_ID && note->n_descsz <= sizeof self->build_id) {
            self->build_id_bytes = note->n_descsz;
            memcpy(self->build_id, (const char *)(note + 1) + 4, note->n_descsz);
        }
    }
    return 1; /* the program itself comes first */
}

__attribute__((noinline)) static uint64_t return_address(void)
{
    return (uint64_t)(uintptr_t)__builtin_return_address(0);
}

static uint64_t called_address;
static int called_line;

__attribute__((noinline)) static void a_static_function(void)
{
    called_line = __LINE__ + 1;
    called_address = return_address();
    __asm__ volatile("");
}

static struct vt_trace *trace_of(struct builder *builder, const struct self *self, const uint8_t *build_id,
                                 const char *linkage_name)
{
    char path[512] = {0};
    cr_assert_gt(readlink("/proc/self/exe", path, sizeof path - 1), 0);
    builder_module(builder, self->base, self->end, path, build_id, self->build_id_bytes);
    if (linkage_name)
        builder_symbol(builder, called_address, self->base, linkage_name);
    uint32_t stack = builder_stack(builder, 1, &called_address, 1, NULL, 0);
    builder_event(builder, (struct vt_event){.kind = VT_EVENT_ALLOC,
                                             .layer = VT_LAYER_DRIVER,
                                             .address = 1 << 20,
                                             .bytes = 1,
                                             .stack_id = stack});
    return builder_open(builder);
}

/* The process that recorded it found no name, since the function is not exported, or died before it looked.
 */
Test(debug_info, names_static_functions)
{
    struct self self = {0};
    struct vt_frame frame;
    dl_iterate_phdr(visit_object, &self);
    if (self.build_id_bytes == 0)
        cr_skip("built without a build id");
    a_static_function();
    for (int recorded = 0; recorded < 2; recorded++) {
        struct builder *builder = builder_new(16);
        struct vt_trace *trace = trace_of(builder, &self, self.build_id, recorded ? "" : NULL);
        cr_assert_eq(vt_trace_frames(trace, 1, &frame, 1), 1);
        cr_expect_str_eq(frame.function, "a_static_function");
        if (frame.line != 0) { /* else built without debug information */
            cr_expect(strstr(frame.file, "test_debug_info.c"), "%s", frame.file);
            cr_expect_eq(frame.line, called_line, "%d", frame.line);
        }
        vt_trace_close(trace);
        builder_free(builder);
    }
}

Test(debug_info, is_not_taken_from_another_build)
{
    struct self self = {0};
    struct vt_frame frame;
    uint8_t other[64] = {1, 2, 3};
    dl_iterate_phdr(visit_object, &self);
    if (self.build_id_bytes == 0)
        cr_skip("built without a build id");
    a_static_function();
    struct builder *builder = builder_new(16);
    struct vt_trace *trace = trace_of(builder, &self, other, NULL);
    vt_trace_frames(trace, 1, &frame, 1);
    cr_expect_eq(strncmp(frame.function, "0x", 2), 0, "%s", frame.function);
    cr_expect_eq(frame.line, 0);
    vt_trace_close(trace);
    builder_free(builder);
}
