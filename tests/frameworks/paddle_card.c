/* Loaded before the recorder, into Paddle on a machine without a GPU: what Paddle tells its profiler of a block of ordinary memory
 * is passed on as if it lay on card 0. All else of the block is real: its address, its bytes, when, and who asked for it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define TELL _ZN6paddle8platform14RecordMemEventC1EPKvRKN3phi5PlaceEmNS4_18TracerMemEventTypeE
#define STRING_OF(symbol) #symbol
#define STRING(symbol) STRING_OF(symbol)

struct place {
    int8_t device_index, kind;
    size_t type;
};

void TELL(void *self, const void *address, const struct place *place, size_t bytes, int what)
{
    static void (*next)(void *, const void *, const struct place *, size_t, int);
    struct place card = *place;
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, STRING(TELL));
    if (place->kind == 1) /* the host */
        card = (struct place){0, 2, place->type};
    if (next)
        next(self, address, &card, bytes, what);
}
