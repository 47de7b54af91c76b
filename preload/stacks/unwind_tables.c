#include "stacks/unwind_tables.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "loader/elf_walk.h"

enum { INDEX_ENTRY_BYTES = 8 };

/* A loaded library's memory range, and its index of functions (.eh_frame_hdr). */
struct image {
    const uint8_t *start, *end;
    const uint8_t *index;
};

/* ---- finding the library ---- */

/* In glibc's <dlfcn.h> from 2.35 on; the build machine's may be older. */
struct find_object_result {
    unsigned long long flags;
    void *start, *end;
    void *link_map;
    void *unwind_index;
    unsigned long long reserved[7];
};
static _Atomic(int (*)(void *, struct find_object_result *)) find_object;

void vt_unwind_tables_start(void)
{
    int (*found)(void *, struct find_object_result *) = NULL;
    void *symbol = dlsym(RTLD_DEFAULT, "_dl_find_object");
    memcpy(&found, &symbol, sizeof found);
    atomic_store_explicit(&find_object, found, memory_order_release);
}

struct image_search {
    uintptr_t address;
    struct image image;
};

static int visit_image(struct dl_phdr_info *info, size_t info_bytes, void *context)
{
    struct image_search *search = context;
    uintptr_t start = UINTPTR_MAX, end = 0;
    const uint8_t *index = NULL;
    bool inside = false;
    (void)info_bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_GNU_EH_FRAME)
            index = (const uint8_t *)from;
        if (part->p_type != PT_LOAD)
            continue;
        inside |= search->address - from < part->p_memsz;
        start = from < start ? from : start;
        end = from + part->p_memsz > end ? from + part->p_memsz : end;
    }
    if (inside)
        search->image = (struct image){(const uint8_t *)start, (const uint8_t *)end, index};
    return inside;
}

static bool find_image(uintptr_t address, struct image *image)
{
    int (*find)(void *, struct find_object_result *) =
        atomic_load_explicit(&find_object, memory_order_acquire);
    if (find) {
        struct find_object_result found;
        if (find((void *)address, &found))
            return false;
        *image = (struct image){found.start, found.end, found.unwind_index};
    } else {
        struct image_search search = {.address = address};
        vt_elf_iterate(visit_image, &search);
        *image = search.image;
    }
    return image->index && image->index >= image->start && image->index < image->end;
}

/* ---- entries ---- */

/* Reads the length and body of the entry at `at`. False for the end mark, and for 64-bit DWARF, which no
 * compiler uses here. */
static bool open_entry(const struct image *image, const uint8_t *at, struct vt_cursor *body)
{
    if (at < image->start || at >= image->end)
        return false;
    *body = (struct vt_cursor){at, image->end, false};
    uint64_t bytes = vt_read_uint(body, 4);
    if (body->failed || bytes < 4 || bytes >= 0xfffffff0 || bytes > (size_t)(body->end - body->at))
        return false;
    body->end = body->at + bytes;
    return true;
}

static bool read_augmentation(struct vt_unwind_common *common, struct vt_cursor *body, const char *letters)
{
    common->sized = *letters == 'z';
    if (!common->sized)
        return *letters == 0;
    uint64_t bytes = vt_read_uleb(body);
    struct vt_cursor rest = *body;
    vt_skip_bytes(&rest, bytes);
    while (*++letters) {
        switch (*letters) {
        case 'R':
            common->pointer_encoding = (uint8_t)vt_read_uint(body, 1);
            break;
        case 'L':
            vt_read_uint(body, 1);
            break;
        case 'P':
            vt_read_pointer(body, vt_read_uint(body, 1) & 0x0f, NULL);
            break;
        case 'S':
            common->signal_frame = true;
            break;
        case 'B': /* AArch64: return addresses are signed with the second key */
            break;
        default:
            return false; /* what follows cannot be parsed */
        }
    }
    body->at = rest.at;
    return !body->failed && !rest.failed;
}

static bool read_common(const struct image *image, const uint8_t *at, struct vt_unwind_common *common)
{
    struct vt_cursor body;
    *common = (struct vt_unwind_common){.pointer_encoding = VT_ENCODED_ABSOLUTE};
    if (!open_entry(image, at, &body) || vt_read_uint(&body, 4) != 0)
        return false;
    uint64_t version = vt_read_uint(&body, 1);
    const char *letters = (const char *)body.at;
    size_t length = strnlen(letters, (size_t)(body.end - body.at));
    vt_skip_bytes(&body, length + 1);
    if (body.failed || (version != 1 && version != 3))
        return false;
    common->code_factor = vt_read_uleb(&body);
    common->data_factor = vt_read_sleb(&body);
    uint64_t return_register = version == 1 ? vt_read_uint(&body, 1) : vt_read_uleb(&body);
    if (body.failed || return_register != VT_COLUMN_RETURN || !read_augmentation(common, &body, letters))
        return false;
    common->instructions = body;
    return true;
}

/* The entry (FDE) whose function is the last to start at or before `address`. */
static const uint8_t *find_entry(const struct image *image, uintptr_t address)
{
    struct vt_cursor head = {image->index, image->end, false};
    enum { VERSION = 1, TABLE_OF_OFFSETS = 0x3b };
    uint64_t version = vt_read_uint(&head, 1);
    uint8_t start_encoding = (uint8_t)vt_read_uint(&head, 1),
            count_encoding = (uint8_t)vt_read_uint(&head, 1);
    if (vt_read_uint(&head, 1) != TABLE_OF_OFFSETS || version != VERSION ||
        count_encoding == VT_ENCODED_OMITTED)
        return NULL;
    vt_read_pointer(&head, start_encoding, image->index);
    uint64_t count = vt_read_pointer(&head, count_encoding, image->index);
    if (head.failed || count == 0 || count > (size_t)(head.end - head.at) / INDEX_ENTRY_BYTES)
        return NULL;
    int32_t wanted = (int32_t)((intptr_t)address - (intptr_t)image->index), entry[2];
    size_t low = 0, high = count; /* the entry before `low` starts at or before it */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        memcpy(entry, head.at + middle * INDEX_ENTRY_BYTES, sizeof entry);
        if (entry[0] <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    memcpy(entry, head.at + (low - 1) * INDEX_ENTRY_BYTES, sizeof entry);
    return image->index + entry[1];
}

bool vt_unwind_find(uintptr_t address, struct vt_unwind_row *row)
{
    struct image image;
    struct vt_cursor body;
    struct vt_unwind_common common;
    const uint8_t *entry = find_image(address, &image) ? find_entry(&image, address) : NULL;
    if (!entry || !open_entry(&image, entry, &body))
        return false;
    const uint8_t *here = body.at;
    uint64_t back = vt_read_uint(&body, 4);
    if (back == 0 || back > (size_t)(here - image.start) || !read_common(&image, here - back, &common))
        return false;
    uintptr_t start = vt_read_pointer(&body, common.pointer_encoding, image.index);
    uint64_t bytes = vt_read_pointer(&body, common.pointer_encoding & 0x0f, image.index);
    if (common.sized)
        vt_skip_bytes(&body, vt_read_uleb(&body));
    if (body.failed || address - start >= bytes)
        return false;
    return vt_unwind_run(&common, body, start, address, row);
}
