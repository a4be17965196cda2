// The float half of the kernel table: every level against the scalar text, bit for bit, in buffers that end at a page without
// access. `test_kernels_float --bench` prints speeds instead.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/pack.h"
#include "base/elementary.h"
#include "tests/support/bench_float.h"
#include "tests/support/bf16_dot.h"

// ---- buffers and numbers ----

// Memory that ends where a page without access begins, filled with the bytes of a NaN.
typedef struct guarded {
    char *map, *data;
    size_t map_bytes;
} guarded;

static guarded guarded_take(int64_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), body = ((size_t)bytes + page - 1) / page * page;
    guarded g = {.map_bytes = body + page};
    g.map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.map != MAP_FAILED);
    assert_int_equal(mprotect(g.map + body, page, PROT_NONE), 0);
    memset(g.map, 0xff, body);
    g.data = g.map + body - bytes;
    return g;
}
static void guarded_give(guarded *g) { munmap(g->map, g->map_bytes); }

static uint32_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}
static float random_float(uint64_t *state) { return (float)(int32_t)(next_random(state) << 1) * 0x1p-31f; }
static void fill(float *p, int64_t n, uint64_t seed, float factor) {
    for (int64_t i = 0; i < n; i++) p[i] = random_float(&seed) * factor;
}

// Equal bits, or NaN in both: the payload of a NaN is no part of any order sheet.
static void assert_same(const float *got, const float *want, int64_t n, const char *what, cpu_level level) {
    for (int64_t i = 0; i < n; i++) {
        if (memcmp(&got[i], &want[i], 4) == 0 || (isnan(got[i]) && isnan(want[i]))) continue;
        fail_msg("%s at %s: [%d] is %a, scalar gives %a", what, cpu_level_name(level), (int)i, (double)got[i],
                 (double)want[i]);
    }
}

#define FOR_LEVELS(level) \
    for (cpu_level level = CPU_LEVEL_SCALAR; level < CPU_LEVEL_COUNT; level++) \
        if (cpu_level_available(level))

static cpu_kernels table(cpu_level level) {
    cpu_kernels k;
    cpu_kernels_init(&k, level);
    return k;
}

static const float SPECIAL[] = {NAN,       INFINITY,   -INFINITY,        0.0f,     -0.0f,
                                0x1p-149f, -0x1p-140f, 0x1.fffffep+127f, 65504.0f, 1e-6f};
enum { N_SPECIAL = sizeof SPECIAL / sizeof SPECIAL[0] };

// ---- tiles ----

enum { MAX_ROWS = 17, MAX_PANELS = 9, ACC_STRIDE = PANEL * MAX_PANELS + 3 };
static const dtype FLOAT_TYPES[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
static const int64_t K_SIZES[] = {1, 2, 3, 15, 16, 17, 31, 64, 257, 1030};
enum { N_K_SIZES = sizeof K_SIZES / sizeof K_SIZES[0] };

static int number_bytes(dtype type) { return type == DTYPE_F32 ? 4 : 2; }

static void put_number(dtype type, void *dst, float f) {
    uint16_t h = type == DTYPE_F16 ? f16_from_f32(f) : bf16_from_f32(f);
    if (type == DTYPE_F32) {
        memcpy(dst, &f, 4);
    } else {
        memcpy(dst, &h, 2);
    }
}
static float get_number(dtype type, const void *src) {
    float f;
    uint16_t h;
    if (type == DTYPE_F32) return memcpy(&f, src, 4), f;
    memcpy(&h, src, 2);
    return type == DTYPE_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

// A packed matrix of 16 * MAX_PANELS - 5 rows and MAX_ROWS rows of x, with NaN between the rows, odd strides, and odd alignment.
typedef struct tile_case {
    guarded source, w, x, x16; // x16: the rows of x as X_BF16
    int64_t k, row_bytes, x_stride, x16_stride, panel_bytes;
    int n_outputs;
} tile_case;

static tile_case tile_case_take(dtype type, int64_t k, bool special) {
    tile_case c = {
        .k = k, .row_bytes = k * number_bytes(type), .x_stride = 4 * k + 12, .n_outputs = PANEL * MAX_PANELS - 5};
    c.x16_stride = x_row_bytes(X_BF16, k) + 4;
    c.panel_bytes = pack_panel_bytes(type, k);
    assert_int_equal(c.panel_bytes % 64, 0);
    c.source = guarded_take(c.n_outputs * c.row_bytes);
    c.w = guarded_take(MAX_PANELS * c.panel_bytes);
    c.x = guarded_take((MAX_ROWS - 1) * c.x_stride + 4 * k);
    c.x16 = guarded_take((MAX_ROWS - 1) * c.x16_stride + x_row_bytes(X_BF16, k));
    cpu_kernels scalar = table(CPU_LEVEL_SCALAR);
    uint64_t seed = (uint64_t)k * 3 + (uint64_t)type;
    for (int64_t i = 0; i < c.n_outputs * k; i++) {
        float f =
            special && next_random(&seed) % 61 == 0 ? SPECIAL[next_random(&seed) % N_SPECIAL] : random_float(&seed);
        put_number(type, c.source.data + i * number_bytes(type), f);
    }
    for (int p = 0; p < MAX_PANELS; p++) {
        int n = c.n_outputs - PANEL * p < PANEL ? c.n_outputs - PANEL * p : PANEL;
        pack_panel(type, c.w.data + p * c.panel_bytes, c.source.data + PANEL * p * c.row_bytes, c.row_bytes, n, k);
    }
    for (int r = 0; r < MAX_ROWS; r++) {
        float *x = (float *)(c.x.data + r * c.x_stride);
        fill(x, k, seed + (uint64_t)r, 1);
        if (special && r % 3 == 1) x[next_random(&seed) % (uint64_t)k] = SPECIAL[(r / 3) % N_SPECIAL];
        scalar.round_row_bf16(c.x16.data + r * c.x16_stride, x, k);
    }
    return c;
}
static void tile_case_give(tile_case *c) {
    guarded_give(&c->source);
    guarded_give(&c->w);
    guarded_give(&c->x);
    guarded_give(&c->x16);
}

static void start_acc(float *acc) {
    for (int i = 0; i < MAX_ROWS * ACC_STRIDE; i++) acc[i] = i % ACC_STRIDE < PANEL * MAX_PANELS ? 0.0f : NAN;
}

static matmul_tile whole_tile(const tile_case *c, x_format format, float *acc, int n_rows, int n_panels) {
    const guarded *x = format == X_BF16 ? &c->x16 : &c->x;
    int64_t x_stride = format == X_BF16 ? c->x16_stride : c->x_stride;
    // The last panels and rows, so that the buffers end where the tile ends.
    return (matmul_tile){.acc = acc + (MAX_ROWS - n_rows) * ACC_STRIDE + (MAX_PANELS - n_panels) * PANEL,
                         .acc_stride = ACC_STRIDE,
                         .w = c->w.data + (MAX_PANELS - n_panels) * c->panel_bytes,
                         .panel_stride = c->panel_bytes,
                         .x = x->data + (MAX_ROWS - n_rows) * x_stride,
                         .x_stride = x_stride,
                         .k0 = 0,
                         .k1 = c->k,
                         .k = c->k,
                         .n_rows = n_rows,
                         .n_panels = n_panels};
}

// The order sheet straight from the source rows; outputs beyond the matrix are those of zero weights.
static void tile_reference(const tile_case *c, dtype type, float *acc) {
    start_acc(acc);
    for (int r = 0; r < MAX_ROWS; r++) {
        const float *x = (const float *)(c->x.data + r * c->x_stride);
        for (int o = 0; o < PANEL * MAX_PANELS; o++) {
            float sum = 0;
            for (int64_t k = 0; k < c->k; k++) {
                const char *w = c->source.data + o * c->row_bytes + k * number_bytes(type);
                sum = fmaf(o < c->n_outputs ? get_number(type, w) : 0.0f, x[k], sum);
            }
            acc[r * ACC_STRIDE + o] = sum;
        }
    }
}

#if defined(__aarch64__)
#define bf16_dot bf16_dot_bfdot
#else
#define bf16_dot bf16_dot_vdpbf16ps
#endif

// The same for BF16 weights and x, by the instruction that multiplies pairs.
static void tile_reference_bf16(const tile_case *c, float *acc) {
    start_acc(acc);
    for (int r = 0; r < MAX_ROWS; r++) {
        for (int o = 0; o < PANEL * MAX_PANELS; o++) {
            float sum = 0;
            for (int64_t k = 0; k < c->k; k += 2) {
                size_t bytes = k + 1 < c->k ? 4 : 2;
                uint16_t w[2] = {0}, x[2] = {0};
                if (o < c->n_outputs) memcpy(w, c->source.data + o * c->row_bytes + 2 * k, bytes);
                memcpy(x, c->x16.data + r * c->x16_stride + 2 * k, bytes);
                sum = bf16_dot(sum, w, x);
            }
            acc[r * ACC_STRIDE + o] = sum;
        }
    }
}

static void check_tile(dtype type, int64_t k, bool special) {
    static float fma_sums[MAX_ROWS * ACC_STRIDE], dot_sums[MAX_ROWS * ACC_STRIDE];
    static float got[MAX_ROWS * ACC_STRIDE], part[MAX_ROWS * ACC_STRIDE];
    tile_case c = tile_case_take(type, k, special);
    tile_reference(&c, type, fma_sums);
    if (type == DTYPE_BF16) tile_reference_bf16(&c, dot_sums);
    FOR_LEVELS(level) {
        cpu_kernels kernels = table(level);
        x_format format = kernels.x_format[type];
        const float *want = format == X_BF16 ? dot_sums : fma_sums;
        start_acc(got);
        matmul_tile whole = whole_tile(&c, format, got, MAX_ROWS, MAX_PANELS);
        kernels.tile[type](&whole);
        assert_same(got, want, MAX_ROWS * ACC_STRIDE, dtype_get(type)->name, level);
        if (level == CPU_LEVEL_SCALAR && k > 64) continue;
        for (int rows = 1; rows <= MAX_ROWS; rows++) {
            for (int panels = 1; panels <= MAX_PANELS; panels++) {
                start_acc(part);
                matmul_tile t = whole_tile(&c, format, part, rows, panels);
                kernels.tile[type](&t);
                for (int r = 0; r < rows; r++) {
                    int64_t at = t.acc - part + r * ACC_STRIDE;
                    assert_same(part + at, want + at, PANEL * panels, "tile of other size", level);
                }
                for (int64_t i = 0; i < t.acc - part; i++)
                    assert_true(part[i] == 0 || isnan(part[i])); // nothing else written
            }
        }
    }
    tile_case_give(&c);
}

static void tiles_equal_scalar(void **state) {
    (void)state;
    for (int i = 0; i < N_K_SIZES; i++) {
        for (int type = 0; type < 3; type++) check_tile(FLOAT_TYPES[type], K_SIZES[i], false);
    }
}
static void tiles_propagate_special_numbers(void **state) {
    (void)state;
    for (int type = 0; type < 3; type++) {
        check_tile(FLOAT_TYPES[type], 17, true);
        check_tile(FLOAT_TYPES[type], 64, true);
    }
}

static void tiles_can_be_split_over_k(void **state) {
    (void)state;
    static float want[MAX_ROWS * ACC_STRIDE], got[MAX_ROWS * ACC_STRIDE];
    static const int64_t cuts[] = {0, 2, 4, 20, 62, 64, 256, 257};
    for (int type = 0; type < 3; type++) {
        tile_case c = tile_case_take(FLOAT_TYPES[type], 257, false);
        FOR_LEVELS(level) {
            cpu_kernels kernels = table(level);
            start_acc(want);
            start_acc(got);
            x_format format = kernels.x_format[FLOAT_TYPES[type]];
            matmul_tile t = whole_tile(&c, format, want, MAX_ROWS, MAX_PANELS);
            kernels.tile[FLOAT_TYPES[type]](&t);
            for (int i = 0; i + 1 < (int)(sizeof cuts / sizeof cuts[0]); i++) {
                t = whole_tile(&c, format, got, MAX_ROWS, MAX_PANELS);
                t.k0 = cuts[i];
                t.k1 = cuts[i + 1];
                kernels.tile[FLOAT_TYPES[type]](&t);
            }
            assert_same(got, want, MAX_ROWS * ACC_STRIDE, "split over k", level);
        }
        tile_case_give(&c);
    }
}

static void rounded_rows_equal_scalar(void **state) {
    (void)state;
    cpu_kernels scalar = table(CPU_LEVEL_SCALAR);
    for (int64_t n = 1; n <= 70; n++) {
        guarded x = guarded_take(4 * n), want = guarded_take(x_row_bytes(X_BF16, n)),
                got = guarded_take(x_row_bytes(X_BF16, n));
        fill((float *)x.data, n, (uint64_t)n, 3);
        ((float *)x.data)[n / 2] = SPECIAL[n % N_SPECIAL];
        scalar.round_row_bf16(want.data, (float *)x.data, n);
        if (n % 2) assert_int_equal(((uint16_t *)want.data)[n], 0);
        FOR_LEVELS(level) {
            cpu_kernels kernels = table(level);
            kernels.round_row_bf16(got.data, (float *)x.data, n);
            for (int64_t i = 0; i < n + n % 2; i++) {
                float a = bf16_to_f32(((uint16_t *)want.data)[i]), b = bf16_to_f32(((uint16_t *)got.data)[i]);
                assert_same(&b, &a, 1, "round_row_bf16", level);
            }
        }
        guarded_give(&x), guarded_give(&want), guarded_give(&got);
    }
}

static void packed_rows_read_back(void **state) {
    (void)state;
    for (int type = 0; type < 3; type++) {
        for (int64_t k = 1; k <= 5; k++) {
            tile_case c = tile_case_take(FLOAT_TYPES[type], k, false);
            for (int o = 0; o < PANEL * MAX_PANELS; o++) {
                float row[5];
                unpack_row(FLOAT_TYPES[type], row, c.w.data + o / PANEL * c.panel_bytes, o % PANEL, k);
                for (int64_t i = 0; i < k; i++) {
                    const char *w = c.source.data + o * c.row_bytes + i * number_bytes(FLOAT_TYPES[type]);
                    assert_true(row[i] == (o < c.n_outputs ? get_number(FLOAT_TYPES[type], w) : 0.0f));
                }
            }
            tile_case_give(&c);
            assert_int_equal(x_row_bytes(X_F32, k), 4 * k);
        }
    }
}

// ---- row operations ----

static const int64_t N_SIZES[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 64, 100, 257};
enum { N_N_SIZES = sizeof N_SIZES / sizeof N_SIZES[0], N_MAX = 257 };

// The operands of one row operation, each at the end of its own buffer, and the results.
typedef struct row_case {
    guarded a, b, y;
    int64_t n;
    float scalars[2];
    bool ok;
} row_case;

typedef void row_op(const cpu_kernels *k, row_case *c, bool in_place);

static void run_rms_norm(const cpu_kernels *k, row_case *c, bool in_place) {
    float *a = (float *)c->a.data, *y = (float *)(in_place ? c->a.data : c->y.data);
    c->ok = k->rms_norm(y, a, (float *)c->b.data, c->n, 1e-5f);
}
static void run_add(const cpu_kernels *k, row_case *c, bool in_place) {
    k->add((float *)(in_place ? c->a.data : c->y.data), (float *)c->a.data, (float *)c->b.data, c->n);
}
static void run_swiglu(const cpu_kernels *k, row_case *c, bool in_place) {
    k->swiglu((float *)(in_place ? c->a.data : c->y.data), (float *)c->a.data, (float *)c->b.data, c->n);
}
static void run_rope(const cpu_kernels *k, row_case *c, bool in_place) {
    k->rope((float *)c->a.data, (float *)c->b.data, c->n & ~1, in_place);
}
static void run_softmax(const cpu_kernels *k, row_case *c, bool in_place) {
    (void)in_place;
    c->scalars[0] = k->softmax((float *)c->a.data, c->n, &c->scalars[1]);
}
static void run_scale(const cpu_kernels *k, row_case *c, bool in_place) {
    (void)in_place;
    k->scale((float *)c->a.data, 0.37f, c->n);
}
static void run_merge(const cpu_kernels *k, row_case *c, bool in_place) {
    c->scalars[0] = in_place ? 1.5f : -0.5f;
    c->scalars[1] = 3.25f;
    k->attention_merge((float *)c->a.data, &c->scalars[0], &c->scalars[1], (float *)c->b.data, 0.7f, 2.1f, c->n);
}
static void run_axpy(const cpu_kernels *k, row_case *c, bool in_place) {
    (void)in_place;
    k->axpy((float *)c->a.data, 0.37f, (float *)c->b.data, c->n);
}

static const struct {
    const char *name;
    row_op *run;
} ROW_OPS[] = {{"rms_norm", run_rms_norm}, {"add", run_add},     {"swiglu", run_swiglu},         {"rope", run_rope},
               {"softmax", run_softmax},   {"scale", run_scale}, {"attention_merge", run_merge}, {"axpy", run_axpy}};
enum { N_ROW_OPS = sizeof ROW_OPS / sizeof ROW_OPS[0] };

// special: 0 none, else one of SPECIAL at some place
static row_case run_row_case(int op, const cpu_kernels *k, int64_t n, bool in_place, int special) {
    row_case c = {.a = guarded_take(4 * n), .b = guarded_take(4 * n), .y = guarded_take(4 * n), .n = n, .ok = true};
    fill((float *)c.a.data, n, (uint64_t)n, 20);
    fill((float *)c.b.data, n, (uint64_t)n + 77, 2);
    if (special > 0) ((float *)c.a.data)[(special * 5) % n] = SPECIAL[special % N_SPECIAL];
    ROW_OPS[op].run(k, &c, in_place);
    return c;
}
static void row_case_give(row_case *c) {
    guarded_give(&c->a);
    guarded_give(&c->b);
    guarded_give(&c->y);
}

static void check_row_op(int op, const cpu_kernels *scalar, int64_t n, bool in_place, int special) {
    row_case want = run_row_case(op, scalar, n, in_place, special);
    FOR_LEVELS(level) {
        cpu_kernels kernels = table(level);
        row_case got = run_row_case(op, &kernels, n, in_place, special);
        assert_int_equal(got.ok, want.ok);
        if (want.ok) {
            assert_same((float *)got.a.data, (float *)want.a.data, n, ROW_OPS[op].name, level);
            assert_same((float *)got.y.data, (float *)want.y.data, n, ROW_OPS[op].name, level);
        }
        assert_same(got.scalars, want.scalars, 2, ROW_OPS[op].name, level);
        row_case_give(&got);
    }
    row_case_give(&want);
}

static void row_operations_equal_scalar(void **state) {
    (void)state;
    cpu_kernels scalar = table(CPU_LEVEL_SCALAR);
    for (int op = 0; op < N_ROW_OPS; op++) {
        for (int i = 0; i < N_N_SIZES; i++) {
            for (int special = 0; special <= N_SPECIAL; special++) {
                check_row_op(op, &scalar, N_SIZES[i], false, special);
                check_row_op(op, &scalar, N_SIZES[i], true, special);
            }
        }
    }
}

// The scalar text itself against plain double arithmetic.
static void row_operations_compute_what_they_say(void **state) {
    (void)state;
    cpu_kernels k = table(CPU_LEVEL_SCALAR);
    float x[37], w[37], y[37], l;
    fill(x, 37, 1, 3);
    fill(w, 37, 2, 1);
    double squares = 0, total = 0;
    for (int i = 0; i < 37; i++) squares += (double)x[i] * x[i];
    assert_true(k.rms_norm(y, x, w, 37, 1e-5f));
    for (int i = 0; i < 37; i++) assert_true(fabs(y[i] - x[i] * w[i] / sqrt(squares / 37 + 1e-5)) < 1e-6);
    k.swiglu(y, x, w, 37);
    for (int i = 0; i < 37; i++) assert_true(fabs(y[i] - x[i] / (1 + exp(-(double)x[i])) * w[i]) < 1e-6);
    memcpy(y, x, sizeof x);
    float m = k.softmax(y, 37, &l);
    for (int i = 0; i < 37; i++) {
        assert_true(m >= x[i]);
        assert_true(fabs(y[i] - exp((double)x[i] - m)) < 1e-6);
        total += y[i];
    }
    assert_true(fabs(l - total) < 1e-5);
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        float v[8] = {1, 2, 3, 4, 5, 6, 7, 8}, cs[8];
        for (int i = 0; i < 4; i++) elementary_sincos(0.3f * (float)(i + 1), &cs[4 + i], &cs[i]);
        k.rope(v, cs, 8, interleaved);
        for (int i = 0; i < 4; i++) {
            int at = interleaved ? 2 * i : i, other = interleaved ? 2 * i + 1 : i + 4;
            double a = at + 1, b = other + 1, angle = 0.3 * (i + 1);
            assert_true(fabs(v[at] - (a * cos(angle) - b * sin(angle))) < 1e-5);
            assert_true(fabs(v[other] - (b * cos(angle) + a * sin(angle))) < 1e-5);
        }
    }
}

static void faults_reach_the_result(void **state) {
    (void)state;
    FOR_LEVELS(level) {
        cpu_kernels k = table(level);
        float s[40], w[40], l;
        for (int at = 0; at < 40; at++) {
            fill(w, 40, 1, 1);
            fill(s, 40, 2, 1);
            s[at] = NAN;
            assert_false(k.rms_norm(s, s, w, 40, 1e-6f));
            fill(s, 40, 2, 1);
            s[at] = -INFINITY;
            assert_false(k.rms_norm(s, s, w, 40, 1e-6f));
            fill(s, 40, 2, 1);
            s[at] = 1e30f;
            assert_false(k.rms_norm(s, s, w, 40, 1e-6f));
            fill(s, 40, 2, 1);
            s[at] = NAN;
            k.softmax(s, 40, &l);
            assert_true(isnan(l));
        }
        memset(s, 0, sizeof s);
        assert_true(k.rms_norm(s, s, w, 40, 1e-6f));
        assert_true(s[39] == 0);
    }
}

#if defined(__SANITIZE_ADDRESS__)
enum { EXP_STEP = 16381 };
#else
enum { EXP_STEP = 1009 };
#endif

// exp of every EXP_STEPth float: those below 0 by softmax, whose largest element is 0 here, and those of both signs by swiglu.
static void vector_exp_equals_scalar(void **state) {
    (void)state;
    enum { N = 1024 };
    static float x[N], want[N], got[N], ones[N];
    for (int i = 0; i < N; i++) ones[i] = 1;
    FOR_LEVELS(level) {
        if (level == CPU_LEVEL_SCALAR) continue;
        cpu_kernels k = table(level);
        uint64_t u = 0;
        while (u < UINT64_C(1) << 32) {
            for (int i = 0; i < N; i++, u += EXP_STEP) {
                uint32_t bits = (uint32_t)u;
                memcpy(&x[i], &bits, 4);
            }
            for (int i = 0; i < N; i++) want[i] = (x[i] / (1.0f + elementary_exp(-x[i]))) * 1.0f;
            k.swiglu(got, x, ones, N);
            assert_same(got, want, N, "swiglu", level);
            x[0] = 0;
            for (int i = 0; i < N; i++) x[i] = x[i] > 0 ? -x[i] : x[i];
            for (int i = 0; i < N; i++) want[i] = elementary_exp(x[i]);
            float l;
            k.softmax(x, N, &l);
            assert_same(x, want, N, "exp", level);
        }
    }
}

// ---- attention ----

static const dtype KV_TYPES[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_Q8_0};

// Every place of a row is looked at, by its magnitude, and nothing behind the row.
static void limits_are_found(void **state) {
    (void)state;
    static const float wrong[] = {2.0f, -2.0f, 3e38f, INFINITY, -INFINITY, NAN, -NAN};
    for (int64_t n = 1; n <= 67; n++) {
        guarded x = guarded_take(4 * n);
        float *numbers = (float *)(void *)x.data;
        FOR_LEVELS(level) {
            cpu_kernels k = table(level);
            for (int64_t i = 0; i < n; i++) numbers[i] = i % 2 ? 0x1.fffffep+0f : -0x1.fffffep+0f;
            assert_true(k.all_below(numbers, n, 2.0f));
            assert_true(k.all_below(numbers, n, INFINITY));
            for (int64_t i = 0; i < n; i++) {
                float kept = numbers[i];
                for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
                    numbers[i] = wrong[w];
                    assert_false(k.all_below(numbers, n, 2.0f));
                    assert_int_equal(k.all_below(numbers, n, INFINITY), isfinite(wrong[w]) != 0);
                }
                numbers[i] = kept;
            }
        }
        guarded_give(&x);
    }
}

enum { KV_TOKENS = 160, KV_QUERIES = 27, S_STRIDE = KV_TOKENS + 3, O_STRIDE = 257 };

typedef struct kv_case {
    guarded keys, values, q, p;
    int64_t d, row_bytes, v_stride;
    int32_t n_t[KV_QUERIES]; // what each query sees
} kv_case;

// Keys and values of n_t tokens. Columns of the last key panel from n_t on are NaN (poison), also in p.
static kv_case kv_case_take(dtype type, int64_t d, int n_q, int n_t) {
    const attention_kernels *a = table(CPU_LEVEL_SCALAR).attention[type];
    kv_case c = {.d = d, .row_bytes = kv_value_row_bytes(type, d)};
    int64_t panel_bytes = kv_key_panel_bytes(type, d);
    c.v_stride = c.row_bytes + (type == DTYPE_F32 ? 4 : 2);
    c.keys = guarded_take(panel_bytes * ((n_t + KV_PANEL - 1) / KV_PANEL));
    c.values = guarded_take(c.v_stride * (n_t - 1) + c.row_bytes);
    c.q = guarded_take(4 * (n_q - 1) * (d + 5) + 4 * d);
    c.p = guarded_take(4 * (int64_t)n_q * S_STRIDE);
    float row[257];
    for (int t = 0; t < n_t; t++) {
        fill(row, d, (uint64_t)(d * 31 + t), t % 2 ? 3.0f : 1e-3f);
        a->store_keys(c.keys.data + t / KV_PANEL * panel_bytes, t % KV_PANEL, 1, row, d, d);
        a->store_value(c.values.data + t * c.v_stride, row, d);
    }
    for (int i = 0; i < n_q; i++) {
        c.n_t[i] = n_t;
        fill((float *)c.q.data + i * (d + 5), d, (uint64_t)(d + i), 1);
        fill((float *)c.p.data + i * S_STRIDE, n_t, (uint64_t)(d + i + 9), 1);
    }
    return c;
}
static void kv_case_give(kv_case *c) {
    guarded_give(&c->keys);
    guarded_give(&c->values);
    guarded_give(&c->q);
    guarded_give(&c->p);
}

static kv_scores scores_of(const kv_case *c, float *s, int n_q) {
    return (kv_scores){.s = s,
                       .q = (const float *)(const void *)c->q.data,
                       .k = c->keys.data,
                       .n_t = c->n_t,
                       .s_stride = S_STRIDE,
                       .q_stride = c->d + 5,
                       .d = c->d,
                       .scale = 0.125f,
                       .n_q = n_q};
}
static kv_values values_of(const kv_case *c, float *o, int n_q) {
    return (kv_values){.o = o,
                       .p = (const float *)(const void *)c->p.data,
                       .v = c->values.data,
                       .n_t = c->n_t,
                       .o_stride = O_STRIDE,
                       .p_stride = S_STRIDE,
                       .v_stride = c->v_stride,
                       .d = c->d,
                       .n_q = n_q};
}

// What no query sees is unspecified in the scores; nothing else may be touched.
static void check_sums(dtype type, const kv_case *c, int n_q) {
    static float want_s[KV_QUERIES * S_STRIDE], got_s[KV_QUERIES * S_STRIDE];
    static float want_o[KV_QUERIES * O_STRIDE], got_o[KV_QUERIES * O_STRIDE];
    cpu_kernels scalar = table(CPU_LEVEL_SCALAR);
    kv_scores s = scores_of(c, want_s, n_q);
    kv_values v = values_of(c, want_o, n_q);
    fill(want_s, KV_QUERIES * S_STRIDE, 3, 1);
    scalar.attention[type]->scores(&s);
    fill(want_o, KV_QUERIES * O_STRIDE, 4, 1);
    scalar.attention[type]->values(&v);
    int most = 0;
    for (int i = 0; i < n_q; i++) most = c->n_t[i] > most ? c->n_t[i] : most;
    most = (most + KV_PANEL - 1) / KV_PANEL * KV_PANEL;
    s.s = got_s, v.o = got_o;
    FOR_LEVELS(level) {
        cpu_kernels k = table(level);
        fill(got_s, KV_QUERIES * S_STRIDE, 3, 1);
        k.attention[type]->scores(&s);
        for (int i = 0; i < n_q; i++) {
            int64_t from = i * S_STRIDE + c->n_t[i], n = most - c->n_t[i];
            memcpy(got_s + from, want_s + from, (size_t)n * sizeof *got_s);
        }
        assert_same(got_s, want_s, KV_QUERIES * S_STRIDE, "scores", level);
        fill(got_o, KV_QUERIES * O_STRIDE, 4, 1);
        k.attention[type]->values(&v);
        assert_same(got_o, want_o, KV_QUERIES * O_STRIDE, "values", level);
    }
}

// Sums over widened keys and values have the bits of sums over the type, at every level.
static void check_widened(dtype type, const kv_case *c, int n_q, int n_t) {
    static float keys[(KV_TOKENS + KV_PANEL) * 257], values[KV_TOKENS * 260];
    static float want[KV_QUERIES * S_STRIDE], got[KV_QUERIES * S_STRIDE];
    static float want_o[KV_QUERIES * O_STRIDE], got_o[KV_QUERIES * O_STRIDE];
    cpu_kernels scalar = table(CPU_LEVEL_SCALAR);
    fill(want, KV_QUERIES * S_STRIDE, 3, 1);
    fill(want_o, KV_QUERIES * O_STRIDE, 4, 1);
    kv_scores s = scores_of(c, want, n_q);
    kv_values v = values_of(c, want_o, n_q);
    scalar.attention[type]->scores(&s);
    scalar.attention[type]->values(&v);
    FOR_LEVELS(level) {
        cpu_kernels k = table(level);
        k.attention[type]->widen_keys(keys, c->keys.data, (n_t + KV_PANEL - 1) / KV_PANEL, c->d);
        k.attention[type]->widen_values(values, 260, c->values.data, c->v_stride, n_t, c->d);
        fill(got, KV_QUERIES * S_STRIDE, 3, 1);
        fill(got_o, KV_QUERIES * O_STRIDE, 4, 1);
        s.s = got, s.k = keys, v.o = got_o, v.v = values, v.v_stride = 260 * sizeof(float);
        scalar.attention[DTYPE_F32]->scores(&s);
        scalar.attention[DTYPE_F32]->values(&v);
        assert_same(got, want, KV_QUERIES * S_STRIDE, "scores of widened keys", level);
        assert_same(got_o, want_o, KV_QUERIES * O_STRIDE, "values, widened", level);
    }
}

// First every query sees all tokens, then some fewer, or none.
static void check_attention(dtype type, int64_t d, int n_q, int n_t) {
    kv_case c = kv_case_take(type, d, n_q, n_t);
    check_sums(type, &c, n_q);
    check_widened(type, &c, n_q, n_t);
    for (int i = 0; i < n_q; i++) c.n_t[i] = n_t - (n_q - 1 - i) * (int)(d % 3 + 1) / 2;
    for (int i = 0; i < n_q; i++) c.n_t[i] = c.n_t[i] < 0 ? 0 : c.n_t[i];
    check_sums(type, &c, n_q);
    for (int i = 0; i < n_q; i++) c.n_t[i] = i * 7 % (n_t + 1);
    check_sums(type, &c, n_q);
    kv_case_give(&c);
}

static void attention_equals_scalar(void **state) {
    (void)state;
    static const int64_t dims[] = {1, 5, 15, 16, 17, 33, 48, 64, 80, 128, 250};
    static const int64_t block_dims[] = {32, 64, 96, 128, 160, 256};
    for (int n_q = 1; n_q <= 17; n_q++) {
        for (int type = 0; type < 3; type++) {
            for (int i = 0; i < 11; i++) check_attention(KV_TYPES[type], dims[i], n_q, 1 + (n_q * 5 + i) % 16);
        }
        for (int i = 0; i < 6; i++) check_attention(DTYPE_Q8_0, block_dims[i], n_q, 1 + (n_q * 5 + i) % 16);
    }
    for (int type = 0; type < 4; type++) {
        for (int n_q = 1; n_q <= KV_QUERIES; n_q += n_q < 9 ? 1 : 9)
            check_attention(KV_TYPES[type], n_q % 2 ? 64 : 128, n_q, n_q % 3 ? KV_TOKENS : 16 * n_q / 3 + 9);
    }
}

// Stored keys and values hold the same bytes at every level, and nothing beside them is written.
static void check_stores(dtype type, int64_t d, uint64_t seed) {
    int64_t stride = d + 3, at = d % KV_PANEL, n = d % 4 ? 1 + d % (KV_PANEL - at) : KV_PANEL;
    if (n == KV_PANEL) at = 0;
    guarded rows = guarded_take(4 * (stride * (n - 1) + d));
    float *numbers = (float *)(void *)rows.data;
    for (int64_t j = 0; j < stride * (n - 1) + d; j++) {
        uint32_t bits = next_random(&seed) << 1 ^ next_random(&seed);
        memcpy(&numbers[j], &bits, 4);
        if (type == DTYPE_F16 && j % 2) numbers[j] = random_float(&seed) * (j % 4 == 1 ? 1e-5f : 65520.0f);
        if (type == DTYPE_Q8_0) numbers[j] = random_float(&seed);
        if (isnan(numbers[j])) numbers[j] = INFINITY;
    }
    int64_t key_bytes = kv_key_panel_bytes(type, d), row_bytes = kv_value_row_bytes(type, d);
    guarded key[2] = {guarded_take(key_bytes), guarded_take(key_bytes)};
    guarded value[2] = {guarded_take(row_bytes), guarded_take(row_bytes)};
    FOR_LEVELS(level) {
        cpu_kernels k = table(level);
        int side = level != CPU_LEVEL_SCALAR;
        k.attention[type]->store_keys(key[side].data, (int)at, (int)n, numbers, stride, d);
        k.attention[type]->store_value(value[side].data, numbers, d);
        if (side == 0) continue;
        assert_memory_equal(key[0].data, key[1].data, key_bytes);
        assert_memory_equal(value[0].data, value[1].data, row_bytes);
    }
    numbers[0] = NAN;
    FOR_LEVELS(level) {
        if (type == DTYPE_Q8_0) continue;
        cpu_kernels k = table(level);
        k.attention[type]->store_value(value[0].data, numbers, d);
        assert_true(isnan(get_number(type, value[0].data)));
    }
    for (int i = 0; i < 2; i++) {
        guarded_give(&key[i]);
        guarded_give(&value[i]);
    }
    guarded_give(&rows);
}

static void stores_equal_scalar(void **state) {
    (void)state;
    for (int type = 0; type < 4; type++) {
        for (int64_t d = 1; d <= 257; d++) {
            if (KV_TYPES[type] != DTYPE_Q8_0 || d % 32 == 0) check_stores(KV_TYPES[type], d, (uint64_t)d);
        }
    }
}

// Scores and values against sums in double over what the type keeps of the numbers.
static void attention_computes_what_it_says(void **state) {
    (void)state;
    static const double tolerance[] = {1e-5, 3e-3, 2.5e-2, 3e-2};
    for (int type = 0; type < 4; type++) {
        enum { D = 64, N_T = 11 };
        kv_case c = kv_case_take(KV_TYPES[type], D, 1, N_T);
        cpu_kernels k = table(CPU_LEVEL_SCALAR);
        const float *q = (float *)c.q.data, *p = (float *)c.p.data;
        float s[S_STRIDE], o[D] = {0}, row[D];
        kv_scores scores = scores_of(&c, s, 1);
        kv_values values = values_of(&c, o, 1);
        scores.scale = 0.5f;
        k.attention[KV_TYPES[type]]->scores(&scores);
        k.attention[KV_TYPES[type]]->values(&values);
        double sum_o[D] = {0};
        for (int t = 0; t < N_T; t++) {
            fill(row, D, (uint64_t)(D * 31 + t), t % 2 ? 3.0f : 1e-3f);
            double sum = 0;
            for (int j = 0; j < D; j++) {
                sum += (double)q[j] * row[j];
                sum_o[j] += (double)p[t] * row[j];
            }
            assert_true(fabs(s[t] - 0.5 * sum) < 3 * tolerance[type]);
        }
        for (int j = 0; j < D; j++) assert_true(fabs(o[j] - sum_o[j]) < 3 * tolerance[type]);
        kv_case_give(&c);
    }
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) return bench_float();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_equal_scalar),
        cmocka_unit_test(tiles_propagate_special_numbers),
        cmocka_unit_test(tiles_can_be_split_over_k),
        cmocka_unit_test(rounded_rows_equal_scalar),
        cmocka_unit_test(packed_rows_read_back),
        cmocka_unit_test(row_operations_equal_scalar),
        cmocka_unit_test(row_operations_compute_what_they_say),
        cmocka_unit_test(limits_are_found),
        cmocka_unit_test(faults_reach_the_result),
        cmocka_unit_test(vector_exp_equals_scalar),
        cmocka_unit_test(attention_equals_scalar),
        cmocka_unit_test(attention_computes_what_it_says),
        cmocka_unit_test(stores_equal_scalar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
