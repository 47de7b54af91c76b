/* NCCL of the stand-in: the numbers in messages, and how two of them are joined. */
#ifndef STANDIN_NCCL_NUMBERS_H
#define STANDIN_NCCL_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* As in nccl.h. */
enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16 };
enum { SUM, PRODUCT, MAXIMUM, MINIMUM, AVERAGE };

static size_t size_of(int type)
{
    static const uint8_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return (size_t)type < sizeof sizes ? sizes[type] : 1;
}

static double number_at(const void *at, int type)
{
    union {
        int8_t i8;
        uint8_t u8;
        int32_t i32;
        uint32_t u32;
        float f32;
        double f64;
    } value;
    uint16_t half;
    memcpy(&value, at, size_of(type));
    switch (type) {
    case INT8:
        return value.i8;
    case UINT8:
        return value.u8;
    case INT32:
        return value.i32;
    case UINT32:
        return value.u32;
    case FLOAT32:
        return (double)value.f32;
    case BFLOAT16:
        memcpy(&half, at, sizeof half);
        value.u32 = (uint32_t)half << 16;
        return (double)value.f32;
    default:
        return value.f64;
    }
}

static void put_number(void *at, int type, double number)
{
    const int64_t whole = type < FLOAT16 ? (int64_t)number : 0;
    const float single = (float)number;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    const uint16_t upper = (uint16_t)(bits >> 16);
    const void *number_as = type < FLOAT16     ? (const void *)&whole
                            : type == FLOAT32  ? (const void *)&single
                            : type == BFLOAT16 ? (const void *)&upper
                                               : (const void *)&number;
    memcpy(at, number_as, size_of(type));
}

static double joined(double left, double right, int operation)
{
    switch (operation) {
    case PRODUCT:
        return left * right;
    case MAXIMUM:
        return right > left ? right : left;
    case MINIMUM:
        return right < left ? right : left;
    default:
        return left + right;
    }
}

static uint64_t joined_whole(uint64_t left, uint64_t right, int operation, bool is_signed)
{
    const bool larger = is_signed ? (int64_t)right > (int64_t)left : right > left;
    switch (operation) {
    case PRODUCT:
        return left * right;
    case MAXIMUM:
        return larger ? right : left;
    case MINIMUM:
        return larger ? left : right;
    default:
        return left + right;
    }
}

/* With VRAMTRACE_STANDIN_ROUTING=most, absent ranks are taken to send as many parts as this one sends to any;
 * ranks tell each other how many as whole numbers. */
static bool takes_most(int type)
{
    const char *routing = getenv("VRAMTRACE_STANDIN_ROUTING");
    return type == INT64 && routing && !strcmp(routing, "most");
}

static int64_t sum_of(const void *numbers, size_t bytes)
{
    int64_t sum = 0, one;
    for (size_t i = 0; i + sizeof one <= bytes; i += sizeof one) {
        memcpy(&one, (const char *)numbers + i, sizeof one);
        sum += one;
    }
    return sum;
}

#endif
