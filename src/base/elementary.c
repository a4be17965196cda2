#include "base/elementary.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static uint32_t bits_of_float(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static float float_of_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static uint64_t bits_of_double(double f) {
    uint64_t u;
    memcpy(&u, &f, 8);
    return u;
}
static double double_of_bits(uint64_t u) {
    double f;
    memcpy(&f, &u, 8);
    return f;
}

// e^x = 2^n e^r with n = round(x / ln 2), r = x - n ln 2 in two steps (n * LN2_HI is exact inside the fma, and so is the first
// difference), e^r = 1 + r + r^2 q(r), q of degree 4 (weighted minimax on |r| <= 0.3466: relative error 3.9e-9).
// Adding 1.5 * 2^23 rounds to an integer and leaves n in the low bits, from where it is added to the exponent of e^r.
// The numbers are in elementary_exp.h for the vector kernels.
#include "base/elementary_exp.h"

float elementary_exp(float x) {
    float t = fmaf(x, EXP_LOG2E, EXP_ROUND);
    float n = t - EXP_ROUND;
    float r = fmaf(n, -EXP_LN2_HI, x);
    r = fmaf(n, -EXP_LN2_LO, r);
    float p = fmaf(EXP_C6, r, EXP_C5);
    p = fmaf(p, r, EXP_C4);
    p = fmaf(p, r, EXP_C3);
    p = fmaf(p, r, EXP_C2);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    float y = float_of_bits(bits_of_float(p) + (bits_of_float(t) << 23));
    y = x < EXP_MIN ? 0.0f : y;
    y = x > EXP_MAX ? INFINITY : y;
    return x != x ? x : y;
}

// 2^n for -1022 <= n <= 1023
static double power_of_two(int n) { return double_of_bits((uint64_t)(1023 + n) << 52); }

static const double LN2_HI = 0x1.62e42fefap-1; // 38 bits: its product with a 15-bit integer is exact
static const double LN2_LO = 0x1.cf79abc9e3b3ap-40;

// As elementary_exp; q is the Taylor series up to r^13 (|r| <= 0.3466, so the rest is below 2^-57).
double elementary_exp_double(double x) {
    if (x != x) return x;
    if (x > 709.782712893384) return (double)INFINITY;
    if (x < -745.1332191019412) return 0.0;
    double scaled = x * 0x1.71547652b82fep+0;
    int n = (int)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    double r = (x - n * LN2_HI) - n * LN2_LO;
    static const double reciprocal_factorial[] = {
        1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
        1.0 / 5040,       1.0 / 720,       1.0 / 120,      1.0 / 24,      1.0 / 6,      1.0 / 2,
    };
    double q = 0;
    for (int i = 0; i < 12; i++) q = q * r + reciprocal_factorial[i];
    double p = 1.0 + (r + r * r * q);
    // In two steps, because 2^n itself may be out of range at both ends.
    int half = n / 2;
    return p * power_of_two(half) * power_of_two(n - half);
}

// x = 2^e m with m in [sqrt(1/2), sqrt(2)); f = m - 1 (exact), s = f / (2 + f); ln m = 2 atanh(s) = f - s (f - R), where
// R = 2 (s^2/3 + s^4/5 + ...). The subtracted part is small beside f, and with it the roundings of s.
double elementary_log_double(double x) {
    if (x != x || x == (double)INFINITY) return x;
    if (x == 0) return -(double)INFINITY;
    if (x < 0) return (double)NAN;
    int e = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        e = -54;
    }
    uint64_t u = bits_of_double(x);
    e += (int)(u >> 52) - 1023;
    double m = double_of_bits((u & 0xfffffffffffffu) | 0x3ff0000000000000u);
    if (m >= 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        e++;
    }
    double f = m - 1.0;
    double s = f / (2.0 + f);
    double z = s * s;
    double sum = 0;
    for (int i = 23; i >= 3; i -= 2) sum = sum * z + 2.0 / i;
    double small = s * (f - sum * z);
    return e * LN2_HI + (f - (small - e * LN2_LO));
}

// n = round(angle * 2 / pi) has at most 31 bits, so its products with the first two parts of pi/2 (22 bits each) and the two
// differences are exact; the third part carries 53 more bits.
static const double HALF_PI_1 = 0x1.921fbp+0;
static const double HALF_PI_2 = 0x1.5110bp-22;
static const double HALF_PI_3 = 0x1.18469898cc517p-44;

// Taylor series on |r| <= pi/4; the terms left out are below 1e-16.
static double sine_series(double r) {
    double z = r * r, sum = 0;
    for (int i = 16; i >= 2; i -= 2) sum = (1.0 - sum) * z / (i * (i + 1));
    return r - r * sum;
}
static double cosine_series(double r) {
    double z = r * r, sum = 0;
    for (int i = 17; i >= 1; i -= 2) sum = (1.0 - sum) * z / (i * (i + 1));
    return 1.0 - sum;
}

void elementary_sincos(float angle, float *sine, float *cosine) {
    double x = (double)angle;
    if (!(x >= -0x1p31 && x <= 0x1p31)) {
        *sine = *cosine = NAN;
        return;
    }
    double scaled = x * 0x1.45f306dc9c883p-1;
    int64_t n = (int64_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    double r = ((x - (double)n * HALF_PI_1) - (double)n * HALF_PI_2) - (double)n * HALF_PI_3;
    double s = sine_series(r), c = cosine_series(r);
    double rotated_s = n & 1 ? c : s, rotated_c = n & 1 ? s : c;
    *sine = (float)(n & 2 ? -rotated_s : rotated_s);
    *cosine = (float)((n + 1) & 2 ? -rotated_c : rotated_c);
}
