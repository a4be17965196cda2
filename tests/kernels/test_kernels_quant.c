// Block-quantised weights: packing against the scalar converters, every kernel level against the scalar text by bits, and the
// scalar text against double precision. `--bench [seconds [type]]` prints speeds instead.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/quant_panels.h"
#include "tensor/blocks.h"

static const dtype all_types[] = {
#define TYPE_OF(name, ...) DTYPE_##name,
    QUANT_FORMAT_LIST(TYPE_OF)
#undef TYPE_OF
};
enum { N_TYPES = sizeof all_types / sizeof all_types[0] };

// The float half of the table is not this test's business: it fills its own from the layers it tests.
static bool fill_kernels(cpu_kernels *k, cpu_level level) {
    memset(k, 0, sizeof *k);
    kernels_quant_scalar(k);
#if defined(__x86_64__)
    if (level >= CPU_LEVEL_AVX2) kernels_quant_avx2(k);
    if (level >= CPU_LEVEL_AVX512) kernels_quant_avx512(k);
    if (level >= CPU_LEVEL_AVX512VNNI) kernels_quant_avx512vnni(k);
    if (level == CPU_LEVEL_AMX) kernels_quant_amx(k);
#elif defined(__aarch64__)
    if (level >= CPU_LEVEL_NEON) kernels_quant_neon(k);
    if (level >= CPU_LEVEL_DOTPROD) kernels_quant_dotprod(k);
    if (level >= CPU_LEVEL_I8MM) kernels_quant_i8mm(k);
#endif
    return cpu_level_enable(level);
}

// --- random data -------------------------------------------------------------------------------------------------------------

static uint64_t next(uint64_t *state) { // splitmix64
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static float uniform(uint64_t *state) { return (float)((double)(next(state) >> 11) * 0x1p-52 - 1); } // -1..1

typedef enum fill { FILL_SANE, FILL_RANDOM, FILL_ZERO, FILL_ONES, FILL_EXTREME, FILL_COUNT } fill;

static void set_scales(dtype type, uint8_t *block, uint16_t d, uint16_t m) {
#define SCALE_CASE(name, lower, has_m) \
    case DTYPE_##name: \
        memcpy(block + offsetof(block_##lower, d), &d, 2); \
        if (has_m >= 0) memcpy(block + (has_m), &m, 2); \
        break;
    switch (type) {
        SCALE_CASE(Q8_0, q8_0, -1)
        SCALE_CASE(Q4_0, q4_0, -1)
        SCALE_CASE(Q4_1, q4_1, (int)offsetof(block_q4_1, m))
        SCALE_CASE(Q5_0, q5_0, -1)
        SCALE_CASE(Q5_1, q5_1, (int)offsetof(block_q5_1, m))
        SCALE_CASE(IQ4_NL, iq4_nl, -1)
        SCALE_CASE(Q2_K, q2_k, (int)offsetof(block_q2_k, m))
        SCALE_CASE(Q3_K, q3_k, -1)
        SCALE_CASE(Q4_K, q4_k, (int)offsetof(block_q4_k, m))
        SCALE_CASE(Q5_K, q5_k, (int)offsetof(block_q5_k, m))
        SCALE_CASE(Q6_K, q6_k, -1)
        SCALE_CASE(IQ4_XS, iq4_xs, -1)
    default: break;
    }
#undef SCALE_CASE
}

// n_blocks file blocks. FILL_RANDOM leaves the scales random (NaN and infinities among them); FILL_EXTREME has sane scales and
// codes and sub-scales of all ones.
static void random_blocks(dtype type, uint8_t *dst, int64_t n_blocks, fill how, uint64_t *state) {
    const int bytes = dtype_get(type)->block_bytes;
    for (int64_t b = 0; b < n_blocks; b++, dst += bytes) {
        for (int i = 0; i < bytes; i++) {
            dst[i] = (uint8_t)next(state);
            if (how == FILL_ZERO) dst[i] = 0;
            if (how == FILL_ONES || how == FILL_EXTREME) dst[i] = 0xff;
            if (how == FILL_EXTREME && type == DTYPE_Q8_0) dst[i] = 0x80;
        }
        if (how == FILL_SANE || how == FILL_EXTREME)
            set_scales(type, dst, f16_from_f32(uniform(state) * 0.02f), f16_from_f32(uniform(state) * 0.1f));
    }
}

// Rows that use the whole range of a block: sizes vary from block to block, one number in 40 is an outlier.
static void random_row(float *x, int64_t n, uint64_t *state) {
    float size = 1;
    for (int64_t i = 0; i < n; i++) {
        if (i % 32 == 0) size = ldexpf(1, (int)(next(state) % 8) - 4);
        x[i] = uniform(state) * size * (next(state) % 40 == 0 ? 8.0f : 1.0f);
    }
}

// --- memory that faults right behind its end ---------------------------------------------------------------------------------

typedef struct guarded {
    char *map;
    size_t mapped;
    void *data; // `bytes` bytes ending at the guard page, aligned to `align` if bytes is a multiple of it
} guarded;

static guarded guarded_new(size_t bytes) {
    const size_t page = 4096, room = (bytes + page - 1) / page * page;
    guarded g = {.mapped = room + page};
    g.map = mmap(NULL, g.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.map != MAP_FAILED);
    assert_int_equal(mprotect(g.map + room, page, PROT_NONE), 0);
    g.data = g.map + room - bytes;
    return g;
}

static void guarded_free(guarded *g) { munmap(g->map, g->mapped); }

// --- one matrix, packed, with its activations --------------------------------------------------------------------------------

typedef struct problem {
    dtype type;
    quant_format f;
    int64_t k, panel_bytes, x_bytes;
    int n_out, n_panels, n_rows;
    uint8_t *file; // [n_out] rows of file blocks
    float *x;      // [n_rows][k]
    guarded w, xq, acc;
} problem;

static void problem_pack(problem *p) {
    const int64_t row = dtype_row_bytes(p->type, p->k);
    for (int i = 0; i < p->n_panels; i++) {
        const int left = p->n_out - PANEL * i;
        quant_pack_panel(p->type, (char *)p->w.data + i * p->panel_bytes, p->file + i * PANEL * row, row,
                         left < PANEL ? left : PANEL, p->k);
    }
}

static problem problem_new(dtype type, int64_t k, int n_out, int n_rows, fill how, uint64_t *state) {
    problem p = {.type = type, .f = quant_format_of(type), .k = k, .n_out = n_out, .n_rows = n_rows};
    p.n_panels = (n_out + PANEL - 1) / PANEL;
    p.panel_bytes = quant_panel_bytes(type, k);
    assert_int_equal(p.panel_bytes % 64, 0);
    p.x_bytes = x_row_bytes(p.f.block == 32 ? X_BLOCK32 : X_BLOCK256, k);
    p.file = malloc((size_t)(dtype_row_bytes(type, k) * n_out));
    p.x = malloc(sizeof(float) * (size_t)(k * n_rows));
    assert_true(p.file && p.x);
    random_blocks(type, p.file, k / p.f.block * n_out, how, state);
    random_row(p.x, k * n_rows, state);
    p.w = guarded_new((size_t)(p.panel_bytes * p.n_panels));
    p.xq = guarded_new((size_t)(p.x_bytes * n_rows));
    p.acc = guarded_new(sizeof(float) * (size_t)(n_rows * PANEL * p.n_panels));
    problem_pack(&p);
    return p;
}

static void problem_free(problem *p) {
    free(p->file);
    free(p->x);
    guarded_free(&p->w);
    guarded_free(&p->xq);
    guarded_free(&p->acc);
}

static void quantize(const cpu_kernels *k, const problem *p) {
    for (int r = 0; r < p->n_rows; r++)
        (p->f.block == 32 ? k->quantize_row32 : k->quantize_row256)((char *)p->xq.data + r * p->x_bytes,
                                                                    p->x + r * p->k, p->k);
}

static matmul_tile whole_tile(const problem *p) {
    return (matmul_tile){.acc = p->acc.data,
                         .acc_stride = PANEL * p->n_panels,
                         .w = p->w.data,
                         .panel_stride = p->panel_bytes,
                         .x = p->xq.data,
                         .x_stride = p->x_bytes,
                         .k1 = p->k,
                         .k = p->k,
                         .n_rows = p->n_rows,
                         .n_panels = p->n_panels};
}

static size_t n_results(const problem *p) { return (size_t)(p->n_rows * PANEL * p->n_panels); }

static void run(const cpu_kernels *k, const problem *p) {
    memset(p->acc.data, 0, sizeof(float) * n_results(p));
    const matmul_tile t = whole_tile(p);
    k->tile[p->type](&t);
}

// Equal bits, or both NaN (which NaN is not part of the order sheet).
static void assert_same(const float *a, const float *b, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], 4) != 0 && !(isnan(a[i]) && isnan(b[i])))
            fail_msg("%s: number %zu of %zu is %.9g, expected %.9g", what, i, n, (double)a[i], (double)b[i]);
}

static float *copy_results(const problem *p) {
    float *out = malloc(sizeof(float) * n_results(p));
    assert_non_null(out);
    memcpy(out, p->acc.data, sizeof(float) * n_results(p));
    return out;
}

// --- tests -------------------------------------------------------------------------------------------------------------------

static void test_unpacked_rows_are_the_files_numbers(void **unused) {
    (void)unused;
    uint64_t state = 1;
    for (int t = 0; t < N_TYPES; t++)
        for (int how = 0; how < FILL_COUNT; how++)
            for (int n = 1; n <= 16; n += 5) {
                problem p = problem_new(all_types[t], 512, n, 1, (fill)how, &state);
                float expected[512], got[512];
                for (int j = 0; j < 16; j++) {
                    quant_unpack_row(p.type, got, p.w.data, j, p.k);
                    if (j < n)
                        dtype_get(p.type)->to_f32(expected, p.file + j * dtype_row_bytes(p.type, p.k), p.k);
                    else
                        for (int i = 0; i < 512; i++) expected[i] = 0, got[i] = got[i] + 0.0f; // -0 + 0 = 0
                    assert_same(got, expected, 512, dtype_get(p.type)->name);
                }
                problem_free(&p);
            }
}

static void test_packed_size_keeps_the_files_bits(void **unused) {
    (void)unused;
    for (int t = 0; t < N_TYPES; t++) {
        const double ratio =
            (double)quant_panel_bytes(all_types[t], 4096) / (double)(16 * dtype_row_bytes(all_types[t], 4096));
        assert_true(ratio >= 1 && ratio < 1.04);
    }
}

static void test_levels_give_the_scalar_bits(void **unused) {
    (void)unused;
    for (int level = CPU_LEVEL_SCALAR + 1; level < CPU_LEVEL_COUNT; level++) {
        cpu_kernels scalar, fast;
        fill_kernels(&scalar, CPU_LEVEL_SCALAR);
        if (!fill_kernels(&fast, (cpu_level)level)) {
            print_message("level %s is not available here\n", cpu_level_name((cpu_level)level));
            continue;
        }
        uint64_t state = 2;
        for (int t = 0; t < N_TYPES; t++)
            for (int i = 0; i < 20; i++) {
                const int rows = i < 17 ? i + 1 : 33 + 16 * (i - 17); // every width, and groups of groups of rows
                const fill how = rows % 3 == 0 ? (fill)(rows / 3 % FILL_COUNT) : FILL_SANE;
                static const int blocks[] = {3, 1, 19, 5, 8, 17, 24};
                const int k = dtype_get(all_types[t])->block_elems == 32 ? 32 * blocks[i % 7] : 256 * (1 + rows % 3);
                problem p = problem_new(all_types[t], k, 16 * (rows % 5) + 1 + rows % 16, rows, how, &state);
                quantize(&scalar, &p);
                run(&scalar, &p);
                float *expected = copy_results(&p);
                run(&fast, &p);
                assert_same(p.acc.data, expected, n_results(&p), dtype_get(p.type)->name);
                free(expected);
                problem_free(&p);
            }
    }
}

// The largest integers there can be: all codes, sub-scales and activations at the ends of their ranges, in all sign combinations.
static void test_extreme_integers_do_not_saturate(void **unused) {
    (void)unused;
    uint64_t state = 3;
    for (int level = CPU_LEVEL_SCALAR; level < CPU_LEVEL_COUNT; level++) {
        cpu_kernels scalar, fast;
        fill_kernels(&scalar, CPU_LEVEL_SCALAR);
        if (!fill_kernels(&fast, (cpu_level)level)) continue;
        for (int t = 0; t < N_TYPES; t++)
            for (int i = 0, pattern = 0; i < 8; i++, pattern = i % 4)
                for (int how = FILL_ZERO; how <= FILL_EXTREME; how++) {
                    problem p = problem_new(all_types[t], 256, 16, i < 4 ? 1 : 33, (fill)how, &state);
                    for (int b = 0; b < 16 * 256 / p.f.block; b++)
                        set_scales(p.type, p.file + b * dtype_get(p.type)->block_bytes, 0x3c00, 0x3c00);
                    problem_pack(&p);
                    for (int j = 0; j < 256 * p.n_rows; j++) p.x[j] = pattern == 0 || (j & pattern) == 0 ? 1.0f : -1.0f;
                    quantize(&scalar, &p);
                    run(&scalar, &p);
                    float *expected = copy_results(&p), w[256];
                    run(&fast, &p);
                    assert_same(p.acc.data, expected, n_results(&p), dtype_get(p.type)->name);
                    quant_unpack_row(p.type, w, p.w.data, 3, 256);
                    double sum = 0, size = 0;
                    for (int j = 0; j < 256; j++) sum += (double)w[j] * p.x[j], size += fabs((double)w[j]);
                    assert_true(fabs(sum - (double)expected[3]) <= 1e-6 * size);
                    free(expected);
                    problem_free(&p);
                }
    }
}

static void test_rows_and_splits_change_no_bit(void **unused) {
    (void)unused;
    uint64_t state = 4;
    for (int level = CPU_LEVEL_SCALAR; level < CPU_LEVEL_COUNT; level++) {
        cpu_kernels k;
        if (!fill_kernels(&k, (cpu_level)level)) continue;
        for (int t = 0; t < N_TYPES; t++) {
            problem p = problem_new(all_types[t], 1024, 40, 36, FILL_SANE, &state);
            quantize(&k, &p);
            run(&k, &p);
            float *whole = copy_results(&p);
            // one row and one panel at a time, in pieces of k of one, two, ... blocks
            memset(p.acc.data, 0, sizeof(float) * n_results(&p));
            for (int r = 0; r < p.n_rows; r++)
                for (int i = 0; i < p.n_panels; i++)
                    for (int64_t k0 = 0, step = p.f.block; k0 < p.k; k0 += step) {
                        matmul_tile one = whole_tile(&p);
                        one.acc += r * one.acc_stride + PANEL * i;
                        one.w = (const char *)one.w + i * p.panel_bytes;
                        one.x = (const char *)one.x + r * p.x_bytes;
                        one.n_rows = one.n_panels = 1;
                        if (k0 > 0 && step < 4 * p.f.block) step += p.f.block;
                        one.k0 = k0;
                        one.k1 = k0 + step < p.k ? k0 + step : p.k;
                        k.tile[p.type](&one);
                    }
            assert_same(p.acc.data, whole, n_results(&p), dtype_get(p.type)->name);
            // few rows, panel by panel
            memset(p.acc.data, 0, sizeof(float) * n_results(&p));
            for (int r = 0, n = 1; r < p.n_rows; r += n++) {
                matmul_tile few = whole_tile(&p);
                few.acc += r * few.acc_stride;
                few.x = (const char *)few.x + r * p.x_bytes;
                few.n_rows = n < p.n_rows - r ? n : p.n_rows - r;
                few.one_by_one = true;
                k.tile[p.type](&few);
            }
            assert_same(p.acc.data, whole, n_results(&p), dtype_get(p.type)->name);
            free(whole);
            problem_free(&p);
        }
    }
}

// |result - exact| for output j of row r, with the two bounds: of rounding in f32, and of quantising x.
static void check_error(const problem *p, int r, int j) {
    const char *panel = (const char *)p->w.data + j / PANEL * p->panel_bytes;
    float *w = malloc(sizeof(float) * (size_t)p->k);
    assert_non_null(w);
    dtype_get(p->type)->to_f32(w, p->file + j * dtype_row_bytes(p->type, p->k), p->k);
    double of_quantised = 0, of_x = 0, size = 0, x_error = 0;
    for (int64_t i = 0; i < p->k; i++) {
        const int64_t b = i / p->f.block, at = i % p->f.block;
        const char *x_row = (const char *)p->xq.data + r * p->x_bytes;
        const quant_block32 *x32 = (const quant_block32 *)x_row + b;
        const quant_block256 *x256 = (const quant_block256 *)x_row + b;
        const double dx = (double)(p->f.block == 32 ? x32->d : x256->d),
                     q = p->f.block == 32 ? x32->q[at] : x256->q[at];
        quant_levels v;
        quant_read_levels(p->f, &v, panel + b * quant_block_bytes(p->f), j % PANEL);
        const int s = p->f.n_sub ? (int)(at / (p->f.block / p->f.n_sub)) : 0;
        const double scale = p->f.n_sub ? v.scale[s] : 1, min = p->f.n_sub ? v.min[s] : 1;
        size += (fabs((double)f16_to_f32(v.d) * scale * quant_weight(p->f, v.code[at])) +
                 fabs((double)f16_to_f32(v.m) * min)) *
                fabs(q) * dx;
        of_quantised += (double)w[i] * q * dx;
        of_x += (double)w[i] * (double)p->x[r * p->k + i];
        // half a step, and 3 roundings of numbers up to 127 steps
        x_error += fabs((double)w[i]) * dx * (0.5 + 3 * 127 * 0x1p-24);
    }
    const double rounding = size * (double)(2 * p->k / p->f.block + 4) * 0x1p-24;
    const double got = (double)((const float *)p->acc.data)[r * PANEL * p->n_panels + j];
    if (!(fabs(got - of_quantised) <= rounding))
        fail_msg("%s: rounding error %g, bound %g", dtype_get(p->type)->name, fabs(got - of_quantised), rounding);
    if (!(fabs(got - of_x) <= rounding + x_error))
        fail_msg("%s: error %g, bound %g", dtype_get(p->type)->name, fabs(got - of_x), rounding + x_error);
    free(w);
}

static void test_error_is_bounded(void **unused) {
    (void)unused;
    uint64_t state = 5;
    cpu_kernels k;
    fill_kernels(&k, CPU_LEVEL_SCALAR);
    for (int t = 0; t < N_TYPES; t++) {
        problem p = problem_new(all_types[t], 1024, 19, 3, FILL_SANE, &state);
        quantize(&k, &p);
        run(&k, &p);
        for (int r = 0; r < p.n_rows; r++)
            for (int j = 0; j < p.n_out; j++) check_error(&p, r, j);
        problem_free(&p);
    }
}

static void test_quantising_rows(void **unused) {
    (void)unused;
    enum { N = 256 * 24 };
    static const float odd[] = {NAN,       -NAN,    INFINITY, -INFINITY, 0x1p-119f, 0x1.fffffep-120f,
                                0x1p-149f, FLT_MAX, -0.0f,    FLT_MIN};
    uint64_t state = 6;
    guarded x = guarded_new(N * 4), a = guarded_new(N / 32 * sizeof(quant_block32)),
            b = guarded_new(N / 32 * sizeof(quant_block32));
    float *v = x.data;
    random_row(v, N, &state);
    for (int i = 0; i < 256 * 2; i++) v[i] = (float)((int)(next(&state) % 255) - 127) + (i % 256 ? 0.5f : 0); // ties
    v[0] = v[32 * 3] = v[256] = 127;
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        if (i >= 4)
            for (int j = 0; j < 256; j++) v[512 + 256 * i + (size_t)j] = j % 3 ? 0 : 0x1p-149f;
        v[512 + 256 * i + i * 29 % 256] = odd[i];
    }
    cpu_kernels scalar, fast;
    fill_kernels(&scalar, CPU_LEVEL_SCALAR);
    for (int level = CPU_LEVEL_SCALAR; level < CPU_LEVEL_COUNT; level++) {
        if (!fill_kernels(&fast, (cpu_level)level)) continue;
        scalar.quantize_row32(a.data, v, N);
        fast.quantize_row32(b.data, v, N);
        for (int i = 0; i < N / 32; i++) {
            const quant_block32 *e = (quant_block32 *)a.data + i, *g = (quant_block32 *)b.data + i;
            assert_same(&g->d, &e->d, 1, "d of 32");
            assert_memory_equal(&g->sum, &e->sum, sizeof *e - 4);
            int sum = 0;
            for (int j = 0; j < 32; j++) {
                sum += e->q[j];
                if (e->d > 0) assert_true(fabs((double)e->q[j] * e->d - v[32 * i + j]) <= e->d * 0.50003);
            }
            assert_int_equal(sum, e->sum);
        }
        scalar.quantize_row256(a.data, v, N);
        fast.quantize_row256(b.data, v, N);
        for (int i = 0; i < N / 256; i++) {
            const quant_block256 *e = (quant_block256 *)a.data + i, *g = (quant_block256 *)b.data + i;
            assert_same(&g->d, &e->d, 1, "d of 256");
            assert_memory_equal(g->sum16, e->sum16, sizeof *e - 4);
            if (i >= 2 && i < 6) assert_true(isnan(e->d) && e->q[100] == 0 && e->sum16[3] == 0);
            if (i == 6) assert_true(e->d > 0 && e->q[4 * 29 % 256] == 127);
            if (i == 7 || i == 8) assert_true(e->d == 0 && e->q[i == 7 ? 5 * 29 % 256 : 6 * 29 % 256] == 0);
        }
    }
    guarded_free(&x);
    guarded_free(&a);
    guarded_free(&b);
}

// A NaN or an infinity in a scale or in x reaches every result it belongs to and no other.
static void test_faults_reach_the_result(void **unused) {
    (void)unused;
    uint64_t state = 7;
    for (int level = CPU_LEVEL_SCALAR; level < CPU_LEVEL_COUNT; level++) {
        cpu_kernels k;
        if (!fill_kernels(&k, (cpu_level)level)) continue;
        for (int t = 0; t < N_TYPES; t++) {
            const int n_rows = 33;
            problem p = problem_new(all_types[t], 512, 32, n_rows, FILL_SANE, &state);
            const int64_t row = dtype_row_bytes(p.type, p.k);
            set_scales(p.type, p.file + 5 * row, 0x7e00, 0);       // output 5: d = NaN
            set_scales(p.type, p.file + 18 * row, 0xfc00, 0x7c00); // output 18: d = -inf, m = inf
            problem_pack(&p);
            p.x[4 * p.k + 77] = INFINITY;
            quantize(&k, &p);
            run(&k, &p);
            for (int r = 0; r < n_rows; r++)
                for (int j = 0; j < 32; j++) {
                    const bool finite = isfinite(((float *)p.acc.data)[r * 32 + j]);
                    assert_int_equal(finite, r != 4 && j != 5 && j != 18);
                }
            problem_free(&p);
        }
    }
}

// --- speed -------------------------------------------------------------------------------------------------------------------

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct bench_part {
    const cpu_kernels *k;
    matmul_tile t;
    dtype type;
} bench_part;

static void *run_part(void *arg) {
    const bench_part *p = arg;
    p->k->tile[p->type](&p->t);
    return NULL;
}

// Best of the repeats that fit in `seconds`; with two threads each does half of the panels.
static double best_time(const cpu_kernels *k, const matmul_tile *t, dtype type, int threads, double seconds) {
    double best = 1e9;
    bench_part part[2] = {{k, *t, type}, {k, *t, type}};
    if (threads == 2) {
        part[0].t.n_panels = t->n_panels / 2;
        part[1].t.n_panels = t->n_panels - t->n_panels / 2;
        part[1].t.w = (const char *)t->w + part[0].t.n_panels * t->panel_stride;
        part[1].t.acc += PANEL * part[0].t.n_panels;
    }
    for (const double start = now(); now() - start < seconds;) {
        const double before = now();
        pthread_t other;
        const bool two = threads == 2 && pthread_create(&other, NULL, run_part, &part[1]) == 0;
        run_part(&part[0]);
        if (two) pthread_join(other, NULL);
        const double took = now() - before;
        if (took < best) best = took;
    }
    return best;
}

static void bench_type(const cpu_kernels *k, cpu_level level, dtype type, double seconds) {
    enum { K = 4096, FEW = 16, MANY = 4096 }; // panels: in the second-level cache, in memory
    uint64_t state = 8;
    problem p = problem_new(type, K, FEW * PANEL, 32, FILL_SANE, &state);
    quantize(k, &p);
    const size_t few = (size_t)(p.panel_bytes * FEW), many = (size_t)(p.panel_bytes * MANY);
    char *w = aligned_alloc(2 << 20, (many + (2 << 20) - 1) >> 21 << 21);
    float *acc = calloc(MANY * PANEL, sizeof *acc);
    assert_true(w && acc);
    madvise(w, many, MADV_HUGEPAGE);
    for (size_t at = 0; at < many; at += few) memcpy(w + at, p.w.data, few);
    memset(p.acc.data, 0, sizeof(float) * n_results(&p));

    matmul_tile t = whole_tile(&p), large = t;
    large.acc = acc;
    large.w = w;
    large.n_rows = t.n_rows = 1;
    large.n_panels = MANY;
    const double one = best_time(k, &large, type, 1, seconds), two = best_time(k, &large, type, 2, seconds);
    const double cached = best_time(k, &t, type, 1, seconds);
    printf("%-10s %-7s %7.1f %7.1f %7.1f", cpu_level_name(level), dtype_get(type)->name, (double)many / one * 1e-9,
           (double)many / two * 1e-9, (double)few / cached * 1e-9);
    for (t.n_rows = 1; t.n_rows <= 32; t.n_rows *= 2) {
        const double s = best_time(k, &t, type, 1, seconds);
        printf(" %7.0f", 2.0 * K * FEW * PANEL * t.n_rows / s * 1e-9);
    }
    printf("\n");
    fflush(stdout);
    free(w);
    free(acc);
    problem_free(&p);
}

static int bench(double seconds, const char *only) {
    printf("k = 4096. GB/s of packed weights for 1 row: from memory with 1 and 2 threads, from cache; GOP/s for 1, 2, "
           "4, 8, 16, 32 "
           "rows, 1 thread\n");
    for (int level = CPU_LEVEL_AVX2; level < CPU_LEVEL_COUNT; level++) {
        cpu_kernels k;
        if (!fill_kernels(&k, (cpu_level)level)) continue;
        cpu_kernels below;
        fill_kernels(&below, (cpu_level)(level - 1));
        if (k.tile[DTYPE_Q8_0] == below.tile[DTYPE_Q8_0]) continue;
        for (int i = 0; i < N_TYPES; i++)
            if (!only || strcmp(only, dtype_get(all_types[i])->name) == 0)
                bench_type(&k, (cpu_level)level, all_types[i], seconds);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        return bench(argc > 2 ? atof(argv[2]) : 0.1, argc > 3 ? argv[3] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unpacked_rows_are_the_files_numbers),
        cmocka_unit_test(test_packed_size_keeps_the_files_bits),
        cmocka_unit_test(test_levels_give_the_scalar_bits),
        cmocka_unit_test(test_extreme_integers_do_not_saturate),
        cmocka_unit_test(test_rows_and_splits_change_no_bit),
        cmocka_unit_test(test_error_is_bounded),
        cmocka_unit_test(test_quantising_rows),
        cmocka_unit_test(test_faults_reach_the_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
