// Random numbers: Philox-4x32-10 against the known answers of its authors (Random123, kat_vectors), and what rng_uniform makes of it.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>

#include "base/rng.h"

static void test_known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t out[4];
        rng_philox(cases[i].counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].out, sizeof out);
    }
}

// The documented layout: counter = (position, position >> 32, sequence, 0), key = seed; 53 bits of the first two words.
static void test_uniform_layout(void **state) {
    (void)state;
    uint64_t seed = 0x123456789abcdef0u, position = 0x1122334455667788u;
    uint32_t sequence = 0xdeadbeef, out[4];
    rng_philox((uint32_t[]){0x55667788, 0x11223344, sequence, 0}, (uint32_t[]){0x9abcdef0, 0x12345678}, out);
    double want = ldexp((double)(((uint64_t)out[1] << 32 | out[0]) >> 11), -53);
    assert_true(rng_uniform(seed, sequence, position) == want);
}

// Every part of the key counts, and a change of one bit gives another number.
static void test_uniform_depends_on_all(void **state) {
    (void)state;
    double base = rng_uniform(5, 6, 7);
    assert_true(base == rng_uniform(5, 6, 7));
    for (int bit = 0; bit < 64; bit++) {
        assert_true(rng_uniform(5u ^ 1ull << bit, 6, 7) != base);
        assert_true(rng_uniform(5, 6, 7u ^ 1ull << bit) != base);
        if (bit < 32) assert_true(rng_uniform(5, 6u ^ 1u << bit, 7) != base);
    }
}

// Mean, variance and 64 equal bins (chi-square, 63 degrees of freedom: 103.4 at 0.1 %).
static void test_uniform_distribution(void **state) {
    (void)state;
    enum { N = 64000, BINS = 64 };
    int bin[BINS] = {0};
    double sum = 0, squares = 0, chi = 0;
    for (int i = 0; i < N; i++) {
        double u = rng_uniform(42, 0, (uint64_t)i);
        assert_true(u >= 0 && u < 1);
        sum += u, squares += u * u;
        bin[(int)(u * BINS)]++;
    }
    assert_true(fabs(sum / N - 0.5) < 4 * sqrt(1.0 / 12 / N));
    assert_true(fabs(squares / N - 1.0 / 3) < 0.005);
    for (int i = 0; i < BINS; i++) chi += (bin[i] - 1000.0) * (bin[i] - 1000.0) / 1000.0;
    assert_true(chi < 103.4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_uniform_layout),
        cmocka_unit_test(test_uniform_depends_on_all),
        cmocka_unit_test(test_uniform_distribution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
