/* The functions of cuFFT whose answer PyTorch looks at: the bytes of a plan's work area. Everything else is
 * made by library.py and returns 0. These also take arrays that are not const and yet only read.
 *
 * A model:
 * - Two or three dimensions of small factors, and long lines: once the data (complex; of real data the half
 * that is kept). Seen: 4 x 64 x 64 in double precision 262,144 B (CuPy's documentation of its plan cache),
 * 100 x 100 i in single precision 80,000 i B (arrayfire issue 1443).
 * - Lines of up to ONE_KERNEL elements: none: one kernel transforms them in shared memory. Deduced; then
 * checked against a real L40S: peft's c3a (lines of 256) has the published reserved bytes with it, and 2.8 %
 * more with the data's size.
 * - A size with a prime factor above 127: Bluestein's algorithm, a power of two from 2 n - 1 on, twice.
 * NVIDIA's documentation only says "up to eight times" a power of two of similar size. Not measured. Not
 * counted: a plan's tables on the device, and work areas that cuFFT allocates itself (PyTorch's never are).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wunused-parameter"

enum { LARGEST_FACTOR = 127, ONE_KERNEL = 4096 };
enum { C2C = 0x29, Z2Z = 0x69, D2Z = 0x6a, Z2D = 0x6c };     /* cufftType */
enum { R_32F, R_64F, R_16F, C_32F = 4, C_64F, R_16BF = 14 }; /* cudaDataType */

static bool is_smooth(int64_t n)
{
    for (int64_t factor = 2; factor <= LARGEST_FACTOR; factor++)
        while (n > 1 && n % factor == 0)
            n /= factor;
    return n <= 1;
}

static size_t padded(int64_t n)
{
    size_t power = 1;
    while (power < 2 * (size_t)n - 1)
        power *= 2;
    return power;
}

static size_t work_area(int rank, const int64_t *n, bool is_real, size_t element, int64_t batch)
{
    bool all_smooth = true;
    size_t elements = (size_t)batch;
    for (int i = 0; i < rank; i++) {
        bool smooth = is_smooth(n[i]);
        size_t kept = (size_t)(is_real && i == rank - 1 ? n[i] / 2 + 1 : n[i]);
        elements *= smooth ? kept : padded(n[i]);
        all_smooth = all_smooth && smooth;
    }
    if (rank == 1 && all_smooth && n[0] <= ONE_KERNEL)
        return 0;
    return elements * element * (all_smooth ? 1 : 2);
}

static size_t of_type(int rank, const int64_t *n, int type, int64_t batch)
{
    bool is_double = type == Z2Z || type == D2Z || type == Z2D;
    return work_area(rank, n, type != C2C && type != Z2Z, is_double ? 16 : 8, batch);
}

static bool is_real(int type)
{
    return type == R_32F || type == R_64F || type == R_16F || type == R_16BF;
}

static size_t of_types(int rank, const int64_t *n, int input, int output, int executed, int64_t batch)
{
    size_t element = executed == R_64F || executed == C_64F   ? 16
                     : executed == R_32F || executed == C_32F ? 8
                                                              : 4;
    return work_area(rank, n, is_real(input) || is_real(output), element, batch);
}

static int give(size_t *bytes, size_t value)
{
    *bytes = value;
    return 0;
}

static int give_many(size_t *bytes, int rank, const int *n, int type, int batch)
{
    int64_t sizes[3] = {1, 1, 1};
    for (int i = 0; i < rank && i < 3; i++)
        sizes[i] = n[i];
    return give(bytes, of_type(rank, sizes, type, batch));
}

/* Making a plan, asking beforehand and estimating answer the same. */
#define SAME(name, as) __typeof__(as) name __attribute__((alias(#as)));
int cufftMakePlan1d(int plan, int x, int type, int batch, size_t *bytes)
{
    return give_many(bytes, 1, &x, type, batch);
}
int cufftMakePlan2d(int plan, int x, int y, int type, size_t *bytes)
{
    return give_many(bytes, 2, (const int[]){x, y}, type, 1);
}
int cufftMakePlan3d(int plan, int x, int y, int z, int type, size_t *bytes)
{
    return give_many(bytes, 3, (const int[]){x, y, z}, type, 1);
}
int cufftMakePlanMany(int plan, int rank, const int *n, const int *input_embed, int input_stride,
                      int input_distance, const int *output_embed, int output_stride, int output_distance,
                      int type, int batch, size_t *bytes)
{
    return give_many(bytes, rank, n, type, batch);
}
int cufftMakePlanMany64(int plan, int rank, const int64_t *n, const int64_t *input_embed,
                        int64_t input_stride, int64_t input_distance, const int64_t *output_embed,
                        int64_t output_stride, int64_t output_distance, int type, int64_t batch,
                        size_t *bytes)
{
    return give(bytes, of_type(rank, n, type, batch));
}
int cufftXtMakePlanMany(int plan, int rank, const int64_t *n, const int64_t *input_embed,
                        int64_t input_stride, int64_t input_distance, int input, const int64_t *output_embed,
                        int64_t output_stride, int64_t output_distance, int output, int64_t batch,
                        size_t *bytes, int executed)
{
    return give(bytes, of_types(rank, n, input, output, executed, batch));
}
SAME(cufftGetSize1d, cufftMakePlan1d)
SAME(cufftGetSize2d, cufftMakePlan2d)
SAME(cufftGetSize3d, cufftMakePlan3d)
SAME(cufftGetSizeMany, cufftMakePlanMany)
SAME(cufftGetSizeMany64, cufftMakePlanMany64)
SAME(cufftXtGetSizeMany, cufftXtMakePlanMany)
int cufftEstimate1d(int x, int type, int batch, size_t *bytes)
{
    return give_many(bytes, 1, &x, type, batch);
}
int cufftEstimate2d(int x, int y, int type, size_t *bytes)
{
    return give_many(bytes, 2, (const int[]){x, y}, type, 1);
}
int cufftEstimate3d(int x, int y, int z, int type, size_t *bytes)
{
    return give_many(bytes, 3, (const int[]){x, y, z}, type, 1);
}
int cufftEstimateMany(int rank, const int *n, const int *input_embed, int input_stride, int input_distance,
                      const int *output_embed, int output_stride, int output_distance, int type, int batch,
                      size_t *bytes)
{
    return give_many(bytes, rank, n, type, batch);
}
int cufftPlanMany(int *plan, int rank, const int *n, const int *input_embed, int input_stride,
                  int input_distance, const int *output_embed, int output_stride, int output_distance,
                  int type, int batch)
{
    size_t bytes;
    *plan = 0;
    return cufftMakePlanMany(0, rank, n, input_embed, input_stride, input_distance, output_embed,
                             output_stride, output_distance, type, batch, &bytes);
}
