// The emulator's inner loops give the same bits whatever the width of the registers and the shape of the tiles, and are right.
#include "tests/emulator/ops_support.h"

#include <math.h>
#include <stdlib.h>

#define LANES_TILE 2
#define LANES_BYTES 64
#define LANES_TABLE lanes_wide
#include "emulator/aclnn/math/lanes_tmpl.h"

extern const struct em_lanes lanes_narrow;

static void fill(float *x, int n) {
    for (int i = 0; i < n; i++) x[i] = (float)(2 * ops_random() - 1);
}

static void products(void **state) {
    (void)state;
    enum { M = 9, N = 11, K = 700 };
    static float a[M * K], b[N * K], wide[M * N], narrow[M * N];
    fill(a, M * K), fill(b, N * K);
    for (int t = 0; t < 400; t++) {
        int m = 1 + t % M, n = 1 + t / M % N, k = 1 + (t * 37) % K;
        struct em_order o = {.chunk = t % 3 ? 64 + 32 * (t % 5) : 0,
                             .turn = (uint64_t)t * 7,
                             .backwards = t & 1,
                             .tree = (uint8_t)(t & 15)};
        struct em_dots d = {.a = a, .b = b, .c = wide, .m = m, .columns = n, .n = k, .lda = K, .ldb = K, .ldc = N};
        lanes_wide.dots(&o, &d);
        d.c = narrow;
        lanes_narrow.dots(&o, &d);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                double sum = 0, size = 0;
                for (int l = 0; l < k; l++)
                    sum += (double)a[i * K + l] * (double)b[j * K + l],
                        size += fabs((double)a[i * K + l] * (double)b[j * K + l]);
                assert_true(wide[i * N + j] == narrow[i * N + j]);
                assert_true(fabs(sum - (double)wide[i * N + j]) <= size * (k + 8) * 0x1p-24);
            }
    }
}

static void blends(void **state) {
    (void)state;
    enum { N = 80, COUNT = 30, LD = 90 };
    static float x[COUNT * LD], w[COUNT], wide[N], narrow[N];
    fill(x, COUNT * LD), fill(w, COUNT);
    for (int n = 1; n <= N; n++) {
        fill(wide, n);
        memcpy(narrow, wide, sizeof narrow);
        float want[N];
        memcpy(want, wide, sizeof want);
        for (int j = 0; j < n; j++)
            for (int k = 0; k < COUNT; k++) want[j] += w[k] * x[k * LD + j];
        lanes_wide.blend(wide, w, &(struct em_rows){x, COUNT, n, LD});
        lanes_narrow.blend(narrow, w, &(struct em_rows){x, COUNT, n, LD});
        assert_memory_equal(wide, want, (size_t)n * sizeof *want);
        assert_memory_equal(narrow, want, (size_t)n * sizeof *want);
        lanes_wide.axpy(wide, 0.5f, x, n);
        for (int j = 0; j < n; j++) assert_true(wide[j] == want[j] + 0.5f * x[j]);
    }
}

// Every FP16 and BF16 there and back; every second F32 near the ties.
static void halves(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t in = (uint16_t)h, out;
        float f;
        lanes_wide.widen_f16(&f, &in, 1);
        int e = in >> 10 & 31, m = in & 1023;
        double want = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
        if (in & 0x8000) want = -want;
        assert_true(isnan(want) ? isnan(f) : (double)f == want);
        lanes_wide.narrow_f16(&out, &f, 1);
        assert_true(isnan(want) || out == in);
        lanes_wide.widen_bf16(&f, &in, 1);
        lanes_wide.narrow_bf16(&out, &f, 1);
        assert_true(isnan(f) || out == in);
        if (e == 31 || e == 0) continue;
        for (int step = 1; step < 8; step++) { // between a value and the next, in eighths: halves go to the even one
            double v = ldexp(1024 + m + step / 8.0, e - 25), to = nearbyint(1024 + m + step / 8.0);
            float x = (float)(in & 0x8000 ? -v : v);
            lanes_wide.narrow_f16(&out, &x, 1);
            lanes_narrow.widen_f16(&f, &out, 1);
            double rounded = ldexp(to, e - 25);
            if (rounded > 65504) rounded = INFINITY;
            assert_true(fabs((double)f) == rounded);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(blends), cmocka_unit_test(halves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
