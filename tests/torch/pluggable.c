/* Allocators for torch.cuda.memory.CUDAPluggableAllocator that keep their own books: `direct` takes each
 * block from cudaMalloc, `pooled` cuts blocks from chunks of 32 MiB and never gives one back. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

enum { MOST = 1 << 16, CHUNK_BYTES = 32 << 20, ROUND = 256 };
static struct block {
    char *address;
    size_t bytes;
    int device;
} live[MOST];
static size_t live_count, live_bytes, peak_bytes, made, chunk_bytes;
static struct block holes[MOST];
static size_t hole_count;

static void *runtime(const char *name)
{
    static void *library;
    if (!library)
        library = dlopen("libcudart.so.13", RTLD_NOW);
    return library ? dlsym(library, name) : NULL;
}

static void *take(size_t bytes)
{
    int (*allocate)(void **, size_t) = (int (*)(void **, size_t))runtime("cudaMalloc");
    void *address = NULL;
    return allocate && allocate(&address, bytes) == 0 ? address : NULL;
}

static void *note(void *address, size_t bytes, int device)
{
    if (!address || live_count == MOST)
        abort();
    live[live_count++] = (struct block){address, bytes, device};
    made++;
    live_bytes += bytes;
    peak_bytes = live_bytes > peak_bytes ? live_bytes : peak_bytes;
    return address;
}

static struct block forget(void *address)
{
    for (size_t i = live_count; i-- > 0;)
        if (live[i].address == address) {
            struct block gone = live[i];
            live[i] = live[--live_count];
            live_bytes -= gone.bytes;
            return gone;
        }
    abort();
}

void *direct_allocate(ssize_t bytes, int device, void *stream);
void *direct_allocate(ssize_t bytes, int device, void *stream)
{
    (void)stream;
    return note(take(bytes ? (size_t)bytes : 1), (size_t)bytes, device);
}

void direct_release(void *address, ssize_t bytes, int device, void *stream);
void direct_release(void *address, ssize_t bytes, int device, void *stream)
{
    int (*release)(void *) = (int (*)(void *))runtime("cudaFree");
    struct block gone = forget(address);
    (void)stream;
    if (gone.bytes != (size_t)bytes || gone.device != device)
        abort();
    release(address);
}

static size_t rounded(size_t bytes)
{
    return bytes ? (bytes + ROUND - 1) / ROUND * ROUND : ROUND;
}

void *pooled_allocate(ssize_t bytes, int device, void *stream);
void *pooled_allocate(ssize_t bytes, int device, void *stream)
{
    size_t wanted = rounded((size_t)bytes), i = 0;
    (void)stream;
    while (i < hole_count && (holes[i].bytes < wanted || holes[i].device != device))
        i++;
    if (i == hole_count) {
        size_t chunk = wanted > CHUNK_BYTES ? wanted : CHUNK_BYTES;
        holes[hole_count++] = (struct block){take(chunk), chunk, device};
        chunk_bytes += chunk;
    }
    char *address = holes[i].address;
    holes[i].address += wanted;
    holes[i].bytes -= wanted;
    return note(address, (size_t)bytes, device);
}

void pooled_release(void *address, ssize_t bytes, int device, void *stream);
void pooled_release(void *address, ssize_t bytes, int device, void *stream)
{
    (void)stream;
    forget(address);
    if (hole_count < MOST)
        holes[hole_count++] = (struct block){address, rounded((size_t)bytes), device};
}

/* The books: what is alive, how much of it, the most so far, how many were made, what was taken for chunks.
 */
void books(uint64_t numbers[5]);
void books(uint64_t numbers[5])
{
    numbers[0] = live_count, numbers[1] = live_bytes, numbers[2] = peak_bytes, numbers[3] = made,
    numbers[4] = chunk_bytes;
}

void block_at(size_t index, uint64_t place[2]);
void block_at(size_t index, uint64_t place[2])
{
    place[0] = (uintptr_t)live[index].address;
    place[1] = live[index].bytes;
}
