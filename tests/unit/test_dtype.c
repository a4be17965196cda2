// Number formats: goldens of the gguf package, every half, and the rounding rules.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "tensor/blocks.h"
#include "tensor/dtype.h"

static uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static void test_table(void **state) {
    (void)state;
    dtype t;
    assert_true(dtype_from_name(STR("q4_k"), &t) && t == DTYPE_Q4_K);
    assert_true(dtype_from_name(STR("BF16"), &t) && t == DTYPE_BF16);
    assert_false(dtype_from_name(STR("q4_kx"), &t));
    assert_false(dtype_from_name(STR(""), &t));
    assert_true(dtype_is_block(DTYPE_Q8_0));
    assert_false(dtype_is_block(DTYPE_F16));
    assert_int_equal(dtype_row_bytes(DTYPE_Q6_K, 512), 420);
    assert_null(dtype_get(DTYPE_I32)->to_f32);
    for (int i = 0; i < DTYPE_COUNT; i++) {
        assert_true(i == DTYPE_I32 || dtype_get((dtype)i)->to_f32);
        bool written = i == DTYPE_F32 || i == DTYPE_F16 || i == DTYPE_BF16 || i == DTYPE_Q8_0;
        assert_int_equal(dtype_get((dtype)i)->from_f32 != NULL, written);
    }
}

static void test_goldens(void **state) {
    (void)state;
    int n_types = 0;
    for (int t = 0; t < DTYPE_COUNT; t++) {
        const dtype_info *info = dtype_get((dtype)t);
        if (info->block_elems == 1) continue;
        char path[128];
        snprintf(path, sizeof path, "tests/golden/dtypes/%s.bin", info->name);
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        unsigned char data[16384];
        size_t len = fread(data, 1, sizeof data, f);
        fclose(f);
        size_t block = (size_t)info->block_bytes, n = len / (block + 4 * (size_t)info->block_elems);
        assert_true(n >= 5 && n * (block + 4 * (size_t)info->block_elems) == len);
        // one byte off the natural alignment: blocks may stand anywhere
        unsigned char *shifted = malloc(n * block + 1);
        assert_non_null(shifted);
        memcpy(shifted + 1, data, n * block);
        size_t count = n * (size_t)info->block_elems;
        float *values = malloc(count * sizeof *values);
        assert_non_null(values);
        info->to_f32(values, shifted + 1, (int64_t)count);
        assert_memory_equal(values, data + n * block, count * sizeof *values);
        free(values);
        free(shifted);
        n_types++;
    }
    assert_int_equal(n_types, 12);
}

// The value of a half by its definition, in double.
static double half_value(unsigned h) {
    unsigned e = h >> 10 & 31, m = h & 1023;
    double v = e ? ldexp(1024 + m, (int)e - 25) : ldexp(m, -24);
    return h & 0x8000 ? -v : v;
}

static void test_every_half(void **state) {
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        float f = f16_to_f32((uint16_t)h);
        bool special = (h >> 10 & 31) == 31;
        if (special && (h & 1023)) {
            assert_true(isnan(f));
            assert_int_equal(f16_from_f32(f), h | 0x200);
            continue;
        }
        if (special) assert_true(isinf(f));
        if (!special) assert_true((double)f == half_value(h));
        assert_int_equal(!!signbit(f), h >> 15);
        assert_int_equal(f16_from_f32(f), h);
        if (special || (h & 0x7fff) == 0x7bff) continue;
        // Halfway to the next half away from zero goes to the even one; one f32 step to either side goes to the nearer.
        double next = half_value(h + 1), middle = (half_value(h) + next) / 2;
        float tie = (float)middle;
        assert_true((double)tie == middle);
        assert_int_equal(f16_from_f32(tie), h & 1 ? h + 1 : h);
        assert_int_equal(f16_from_f32(float_of(bits_of(tie) - 1)), h);
        assert_int_equal(f16_from_f32(float_of(bits_of(tie) + 1)), h + 1);
    }
    assert_int_equal(f16_from_f32(65504.0f), 0x7bff);
    assert_int_equal(f16_from_f32(65519.99f), 0x7bff);
    assert_int_equal(f16_from_f32(65520.0f), 0x7c00);
    assert_int_equal(f16_from_f32(-1e30f), 0xfc00);
    assert_int_equal(f16_from_f32(0x1p-25f), 0);
    assert_int_equal(f16_from_f32(0x1.000002p-25f), 1);
}

static void test_bf16(void **state) {
    (void)state;
    for (unsigned b = 0; b < 65536; b++) {
        float f = bf16_to_f32((uint16_t)b);
        if (isnan(f)) {
            assert_int_equal(bf16_from_f32(f), b | 0x40);
            continue;
        }
        assert_int_equal(bf16_from_f32(f), b);
        if (isinf(f)) continue;
        assert_int_equal(bf16_from_f32(float_of(b << 16 | 0x8000)), b + (b & 1));
        assert_int_equal(bf16_from_f32(float_of(b << 16 | 0x7fff)), b);
        assert_int_equal(bf16_from_f32(float_of(b << 16 | 0x8001)), b + 1);
    }
    assert_int_equal(bf16_from_f32(float_of(0x7f800001)), 0x7fc0); // a NaN whose payload would be cut away
}

#if defined(__FLT16_MAX__) && !defined(__clang__)
// The compiler's own conversion, on random bit patterns.
static void test_against_compiler(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 2000000; i++) {
        uint32_t u = (uint32_t)hash_mix(i);
        if (i & 1) u = (u & 0x87ffffff) | 0x30000000 | (u & 0x08000000) << 3; // exponents near the halves' range
        float f = float_of(u);
        if (isnan(f)) continue;
        _Float16 want = (_Float16)f;
        uint16_t bits;
        memcpy(&bits, &want, 2);
        if (f16_from_f32(f) != bits) fail_msg("f32 %08x: got %04x, expected %04x", u, f16_from_f32(f), bits);
    }
}
#endif

static void test_q8_0_rounding(void **state) {
    (void)state;
    block_q8_0 b[2];
    float x[64] = {0};
    x[0] = 127.0f; // d = 1
    x[1] = 0.5f, x[2] = 1.5f, x[3] = -2.5f, x[4] = -0.75f, x[5] = 126.5f, x[6] = -127.0f, x[7] = 0.49999997f;
    dtype_get(DTYPE_Q8_0)->from_f32(b, x, 64);
    assert_int_equal(b[0].d, 0x3c00);
    const int want[8] = {127, 0, 2, -2, -1, 126, -127, 0};
    for (int i = 0; i < 8; i++) assert_int_equal(b[0].q[i], want[i]);
    assert_int_equal(b[1].d, 0);
    for (int i = 0; i < 32; i++) assert_int_equal(b[1].q[i], 0);
}

static void test_q8_0_random(void **state) {
    (void)state;
    for (uint64_t round = 0; round < 2000; round++) {
        float x[32], y[32], largest = 0;
        block_q8_0 b;
        float size = ldexpf(1, (int)(hash_mix(round) % 40) - 25);
        for (int i = 0; i < 32; i++) {
            x[i] = size * ((float)(hash_mix(round * 32 + (uint64_t)i) >> 40) * 0x1p-23f - 1);
            if (fabsf(x[i]) > largest) largest = fabsf(x[i]);
        }
        dtype_get(DTYPE_Q8_0)->from_f32(&b, x, 32);
        float d = largest / 127.0f;
        assert_int_equal(b.d, f16_from_f32(d));
        for (int i = 0; i < 32; i++) assert_int_equal(b.q[i], (int)rintf(x[i] * (1.0f / d)));
        dtype_get(DTYPE_Q8_0)->to_f32(y, &b, 32);
        // half a step, and the error of d as a half: relative 2^-11, or half a subnormal step, 127 times
        for (int i = 0; i < 32; i++)
            assert_true(fabsf(y[i] - x[i]) <= 0.5001f * d + largest * 0x1p-11f + 127 * 0x1p-25f);
    }
}

static void test_q8_0_extremes(void **state) {
    (void)state;
    const float odd[] = {NAN, INFINITY, -INFINITY, 1e-45f, 1e-38f, 3e38f, -3e38f};
    for (size_t k = 0; k < sizeof odd / sizeof *odd; k++) {
        float x[32] = {1e-45f}, y[32];
        x[17] = odd[k];
        block_q8_0 b;
        dtype_get(DTYPE_Q8_0)->from_f32(&b, x, 32);
        dtype_get(DTYPE_Q8_0)->to_f32(y, &b, 32);
        if (k < 3) {
            for (int i = 0; i < 32; i++) assert_true(isnan(y[i]));
        } else if (k < 5) {
            for (int i = 0; i < 32; i++) assert_true(y[i] == 0);
        } else {
            assert_true(isinf(y[17])); // beyond what a half can scale: not finite, so it is noticed
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_every_half),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_q8_0_rounding),
        cmocka_unit_test(test_q8_0_random),
        cmocka_unit_test(test_q8_0_extremes),
#if defined(__FLT16_MAX__) && !defined(__clang__)
        cmocka_unit_test(test_against_compiler),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
