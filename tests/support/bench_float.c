#include "tests/support/bench_float.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__) && !defined(TALLY_ALL_X86_LEVELS)
#include <immintrin.h>
#endif

#include "backend/cpu/kernels.h"
#include "backend/cpu/pack.h"

// Of this thread, so that neighbours on the machine disturb less.
static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// The two limits: reading memory (four streams, like the kernels for one row) and multiply-adds in registers.
#if defined(__x86_64__) && !defined(TALLY_ALL_X86_LEVELS)
__attribute__((target("avx2"))) static uint64_t read_probe(const char *p, int64_t bytes) {
    __m256i sum[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    int64_t quarter = bytes / 4;
    for (int64_t i = 0; i < quarter; i += 64) {
        for (int j = 0; j < 4; j++) {
            const __m256i *at = (const __m256i *)(p + j * quarter + i);
            sum[j] = _mm256_xor_si256(sum[j], _mm256_xor_si256(_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)));
        }
    }
    sum[0] = _mm256_xor_si256(_mm256_xor_si256(sum[0], sum[1]), _mm256_xor_si256(sum[2], sum[3]));
    return (uint64_t)_mm256_extract_epi64(sum[0], 0) + (uint64_t)_mm256_extract_epi64(sum[0], 2);
}

#define FMA_PROBE(name, isa, vector, set, fma, floats) \
    __attribute__((target(isa))) static double name(double *flop) { \
        vector x = set(0.001f), y = set(0.7f), a0 = x, a1 = x, a2 = x, a3 = x, a4 = x, a5 = x, a6 = x, a7 = x, a8 = x, \
               a9 = x; \
        double start = seconds(); \
        for (int i = 0; i < 4000000; i++) { \
            a0 = fma(x, y, a0), a1 = fma(x, y, a1), a2 = fma(x, y, a2), a3 = fma(x, y, a3), a4 = fma(x, y, a4); \
            a5 = fma(x, y, a5), a6 = fma(x, y, a6), a7 = fma(x, y, a7), a8 = fma(x, y, a8), a9 = fma(x, y, a9); \
            __asm__ volatile("" : "+v"(x), "+v"(y)); \
        } \
        __asm__ volatile("" : : "v"(a0), "v"(a1), "v"(a2), "v"(a3), "v"(a4)); \
        __asm__ volatile("" : : "v"(a5), "v"(a6), "v"(a7), "v"(a8), "v"(a9)); \
        double took = seconds() - start; \
        *flop = 2.0 * 10 * 4000000 * floats; \
        return took; \
    }
FMA_PROBE(fma_probe_avx2, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, 8)
FMA_PROBE(fma_probe_avx512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, 16)

static double fma_peak(cpu_level level) {
    double best = 0, flop;
    for (int i = 0; i < 5; i++) {
        double took = level >= CPU_LEVEL_AVX512 ? fma_probe_avx512(&flop) : fma_probe_avx2(&flop);
        best = flop * 1e-9 / took > best ? flop * 1e-9 / took : best;
    }
    return best;
}
#else
static uint64_t read_probe(const char *p, int64_t bytes) {
    uint64_t sum = 0, part;
    for (int64_t i = 0; i < bytes; i += 8) {
        memcpy(&part, p + i, 8);
        sum += part;
    }
    return sum;
}
static double fma_peak(cpu_level level) { return (void)level, NAN; }
#endif

typedef struct bench_case {
    char *w, *x;
    float *acc;
    int64_t bytes, k;
} bench_case;

// Seconds of the fastest of `repeat` passes over all panels of the matrix.
static double time_tile(const bench_case *b, cpu_level level, dtype type, int n_rows, int n_panels, int repeat) {
    cpu_kernels kernels;
    cpu_kernels_init(&kernels, level);
    matmul_tile t = {.acc = b->acc,
                     .acc_stride = PANEL * n_panels,
                     .w = b->w,
                     .panel_stride = pack_panel_bytes(type, b->k),
                     .x = b->x,
                     .x_stride = x_row_bytes(kernels.x_format[type], b->k),
                     .k1 = b->k,
                     .k = b->k,
                     .n_rows = n_rows,
                     .n_panels = n_panels};
    double best = 1e30;
    for (int i = 0; i < repeat; i++) {
        double start = seconds();
        kernels.tile[type](&t);
        double took = seconds() - start;
        best = took < best ? took : best;
    }
    return best;
}

static const dtype FLOAT_TYPES[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};

static void bench_type(const bench_case *b, cpu_level level, dtype type) {
    static const int rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 17, 32, 64};
    int n_panels = (int)(b->bytes / pack_panel_bytes(type, b->k));
    double one = time_tile(b, level, type, 1, n_panels, 5);
    printf("%-10s %-5s 1 row %.2f GB/s |", cpu_level_name(level), dtype_get(type)->name, (double)b->bytes * 1e-9 / one);
    int few = n_panels / 8 / 12 * 12; // fewer panels for many rows, to keep the run short
    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]); i++) {
        double took = time_tile(b, level, type, rows[i], few, 5);
        printf(" %d:%.1f", rows[i], 2e-9 * rows[i] * few * PANEL * (double)b->k / took);
    }
    printf(" GFLOP/s by rows\n");
}

// Is the level's tile another one than that of the level before it?
static bool has_own_tile(cpu_level level, dtype type) {
    cpu_kernels k, below;
    cpu_kernels_init(&k, level);
    cpu_kernels_init(&below, level - 1);
    return k.tile[type] != below.tile[type];
}

int bench_float(void) {
    bench_case b = {.bytes = 256 << 20, .k = 2048};
    b.w = aligned_alloc(64, (size_t)b.bytes);
    b.x = aligned_alloc(64, (size_t)(64 * 4 * b.k));
    b.acc = aligned_alloc(64, (size_t)64 * (size_t)(b.bytes / b.k));
    if (b.w == NULL || b.x == NULL || b.acc == NULL) return 1;
    for (int64_t i = 0; i < b.bytes / 2; i++) ((uint16_t *)b.w)[i] = (uint16_t)(0x3c00 + (i * 7919) % 256);
    for (int64_t i = 0; i < 64 * b.k; i++) ((float *)b.x)[i] = (float)(i * 7919 % 4096) * 0x1p-11f - 1;
    memset(b.acc, 0, (size_t)64 * (size_t)(b.bytes / b.k));
    double best = 1e30;
    uint64_t sum = 0;
    for (int i = 0; i < 5; i++) {
        double start = seconds();
        sum += read_probe(b.w, b.bytes);
        double took = seconds() - start;
        best = took < best ? took : best;
    }
    char name[128];
    printf("%s; read probe %.2f GB/s (%d)\n", cpu_model_name(name, sizeof name), (double)b.bytes * 1e-9 / best,
           (int)(sum & 1));
    for (cpu_level level = CPU_LEVEL_AVX2; level < CPU_LEVEL_COUNT; level++) {
        if (!cpu_level_available(level)) continue;
        printf("%-10s peak %.1f GFLOP/s\n", cpu_level_name(level), fma_peak(level));
        for (int type = 0; type < 3; type++) {
            if (has_own_tile(level, FLOAT_TYPES[type])) bench_type(&b, level, FLOAT_TYPES[type]);
        }
    }
    free(b.w);
    free(b.x);
    free(b.acc);
    return 0;
}
