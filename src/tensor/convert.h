// The converters behind the dtype table, one pair per type; reach them through dtype_get. Used by dtype.c alone.
#ifndef TALLY_TENSOR_CONVERT_H
#define TALLY_TENSOR_CONVERT_H

#include <stddef.h>
#include <stdint.h>

#define CONVERT_TO(name) void convert_##name##_to_f32(float *dst, const void *src, int64_t n)
#define CONVERT_FROM(name) void convert_##name##_from_f32(void *dst, const float *src, int64_t n)

CONVERT_TO(F32);
CONVERT_TO(F16);
CONVERT_TO(BF16);
CONVERT_TO(Q8_0);
CONVERT_TO(Q4_0);
CONVERT_TO(Q4_1);
CONVERT_TO(Q5_0);
CONVERT_TO(Q5_1);
CONVERT_TO(IQ4_NL);
CONVERT_TO(Q2_K);
CONVERT_TO(Q3_K);
CONVERT_TO(Q4_K);
CONVERT_TO(Q5_K);
CONVERT_TO(Q6_K);
CONVERT_TO(IQ4_XS);

CONVERT_FROM(F32);
CONVERT_FROM(F16);
CONVERT_FROM(BF16);
// Per block of 32: d = max|x| / 127 in f32, stored rounded to f16; 1/d in f32 from the unrounded d, 0 where d is below the
// smallest normal f32; q = x * (1/d) rounded to the nearest integer, ties to even. A block with a NaN or an infinity gets
// d = NaN and q = 0, so that it reads back as NaN.
CONVERT_FROM(Q8_0);

// What tally does not do: the table holds NULL.
#define convert_I32_to_f32 NULL
#define convert_I32_from_f32 NULL
#define convert_Q4_0_from_f32 NULL
#define convert_Q4_1_from_f32 NULL
#define convert_Q5_0_from_f32 NULL
#define convert_Q5_1_from_f32 NULL
#define convert_IQ4_NL_from_f32 NULL
#define convert_Q2_K_from_f32 NULL
#define convert_Q3_K_from_f32 NULL
#define convert_Q4_K_from_f32 NULL
#define convert_Q5_K_from_f32 NULL
#define convert_Q6_K_from_f32 NULL
#define convert_IQ4_XS_from_f32 NULL

#endif
