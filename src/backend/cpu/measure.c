#include "backend/cpu/measure.h"

#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/pages.h"
#include "backend/cpu/simd/unroll.h"
#include "base/clock.h"

enum {
    LINE_WORDS = 8,
    READ_PASSES = 6,
    AHEAD_LINES = 32,
    DOT_MS = 6, // each try; many short ones find a quiet moment more easily than a few long ones
    DOT_TRIES = 9,
};

// ---- memory --------------------------------------------------------------------------------------------------------------

// Baseline instructions read 16 bytes at once: word by word, a core computes longer than its memory takes.
typedef uint64_t read_words __attribute__((vector_size(16)));
enum { LINE_VECTORS = 64 / sizeof(read_words) };

typedef struct read_job {
    uint64_t *data;
    int64_t lines; // of 64 bytes
    int n_threads, n_streams;
    uint64_t *sums; // one line apart, so that the loads have a use
} read_job;

static void part_of(const read_job *j, int i, int64_t *from, int64_t *to) {
    *from = j->lines * i / j->n_threads;
    *to = j->lines * (i + 1) / j->n_threads;
}

static void fill_part(void *ctx, int i, int thread) {
    (void)thread;
    const read_job *j = ctx;
    int64_t from, to;
    part_of(j, i, &from, &to);
    for (int64_t w = from * LINE_WORDS; w < to * LINE_WORDS; w++) j->data[w] = (uint64_t)w;
}

static void read_part(void *ctx, int i, int thread) {
    (void)thread;
    const read_job *j = ctx;
    int64_t from, to;
    part_of(j, i, &from, &to);
    int64_t per_stream = (to - from) / j->n_streams;
    read_words s[LINE_VECTORS] = {0};
    for (int64_t line = from; line < from + per_stream; line++) {
        for (int stream = 0; stream < j->n_streams; stream++) {
            const read_words *p =
                (const read_words *)(const void *)(j->data + (line + stream * per_stream) * LINE_WORDS);
            __builtin_prefetch(p + AHEAD_LINES * LINE_VECTORS);
            UNROLL for (int v = 0; v < LINE_VECTORS; v++) s[v] ^= p[v]; // a loop would keep its sums in memory
        }
    }
    for (int v = 1; v < LINE_VECTORS; v++) s[0] ^= s[v];
    j->sums[i * LINE_WORDS] = s[0][0] ^ s[0][1];
}

status cpu_measure_read(pool *threads, int64_t bytes, double *bytes_per_s, error *err) {
    read_job j = {.lines = bytes / 64, .n_threads = pool_n_threads(threads)};
    j.data = pages_alloc(j.lines * 64);
    j.sums = calloc((size_t)j.n_threads * LINE_WORDS, sizeof *j.sums);
    *bytes_per_s = 0;
    if (j.data && j.sums) {
        pool_for(threads, j.n_threads, fill_part, &j);
        for (int pass = 0; pass < READ_PASSES; pass++) {
            j.n_streams = pass % 2 ? 4 : 1; // one row of a matrix after the other, or several beside each other
            uint64_t t0 = clock_now_ns();
            pool_for(threads, j.n_threads, read_part, &j);
            double speed = (double)j.lines * 64 / ((double)(clock_now_ns() - t0 + 1) * 1e-9);
            if (speed > *bytes_per_s) *bytes_per_s = speed;
        }
    }
    bool enough = j.data && j.sums;
    pages_free(j.data, j.lines * 64);
    free(j.sums);
    return enough ? STATUS_OK : error_no_memory(err, (unsigned long long)bytes);
}

// ---- kernels -------------------------------------------------------------------------------------------------------------

// What a tile is measured with. Of float types, the better of two shapes, because levels differ in what fills their registers best: two
// panels and 16 rows of F32 take 26 KiB, the first cache; four panels and 24 rows come from the second one. Block types meet the rows of
// a prompt, because some levels have kernels that only many rows reach.
typedef struct dot_shape {
    int64_t k;
    int n_rows, n_panels;
} dot_shape;
static const dot_shape float_shapes[] = {{128, 16, 2}, {512, 24, 4}}, block_shape = {512, 64, 8};

typedef struct dot_job {
    const cpu_kernels *k;
    dtype type;
    dot_shape shape;
    unsigned char *scratch; // of all threads
    int64_t per_thread, panel_bytes, row_bytes;
    int64_t repeats;
} dot_job;

static void run_tile(void *ctx, int i, int thread) {
    (void)thread;
    const dot_job *j = ctx;
    unsigned char *at = j->scratch + i * j->per_thread;
    matmul_tile t = {.w = at,
                     .panel_stride = j->panel_bytes,
                     .x = at + j->shape.n_panels * j->panel_bytes,
                     .x_stride = j->row_bytes,
                     .acc = (float *)(void *)(at + j->shape.n_panels * j->panel_bytes + j->shape.n_rows * j->row_bytes),
                     .acc_stride = (int64_t)j->shape.n_panels * PANEL,
                     .k1 = j->shape.k,
                     .k = j->shape.k,
                     .n_rows = j->shape.n_rows,
                     .n_panels = j->shape.n_panels};
    for (int64_t r = 0; r < j->repeats; r++) j->k->tile[j->type](&t);
}

// Tries of growing length until one takes long enough, then the best of several.
static double best_speed(pool *threads, dot_job *j) {
    int n = pool_n_threads(threads);
    double work = (double)j->shape.k * j->shape.n_rows * j->shape.n_panels * PANEL * n, best = 0;
    for (int good = 0; good < DOT_TRIES;) {
        uint64_t t0 = clock_now_ns();
        pool_for(threads, n, run_tile, j);
        double s = (double)(clock_now_ns() - t0 + 1) * 1e-9;
        if (s * 1e3 < DOT_MS) {
            j->repeats *= 2;
            continue;
        }
        good++;
        double speed = work * (double)j->repeats / s;
        if (speed > best) best = speed;
    }
    return best;
}

static status measure_shape(pool *threads, const cpu_kernels *k, dtype type, dot_shape shape, double *per_s,
                            error *err) {
    dot_job j = {.k = k, .type = type, .shape = shape, .repeats = 64};
    j.panel_bytes = pack_panel_bytes(type, j.shape.k);
    j.row_bytes = (x_row_bytes(k->x_format[type], j.shape.k) + 63) / 64 * 64;
    int64_t acc = (int64_t)j.shape.n_rows * j.shape.n_panels * PANEL * (int64_t)sizeof(float);
    j.per_thread = (j.shape.n_panels * j.panel_bytes + j.shape.n_rows * j.row_bytes + acc + 4095) / 4096 * 4096;
    size_t bytes = (size_t)j.per_thread * (size_t)pool_n_threads(threads);
    j.scratch = aligned_alloc(4096, bytes);
    if (!j.scratch) return error_no_memory(err, bytes);
    memset(j.scratch, 0, bytes); // zeros stay zeros: no denormals, no infinities
    const double speed = best_speed(threads, &j);
    if (speed > *per_s) *per_s = speed;
    free(j.scratch);
    return STATUS_OK;
}

status cpu_measure_dot(pool *threads, cpu_level level, dtype type, double *per_s, error *err) {
    cpu_kernels k;
    cpu_kernels_init(&k, level);
    *per_s = 0;
    if (k.x_format[type] == X_BLOCK32 || k.x_format[type] == X_BLOCK256)
        return measure_shape(threads, &k, type, block_shape, per_s, err);
    for (size_t i = 0; i < sizeof float_shapes / sizeof float_shapes[0]; i++)
        TRY(measure_shape(threads, &k, type, float_shapes[i], per_s, err));
    return STATUS_OK;
}
