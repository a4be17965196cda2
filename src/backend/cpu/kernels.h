// The table of CPU kernels: filled by scalar code first, then overwritten by each instruction set found, up to a level.
//
// Every kernel follows its order sheet (docs/exactness.md): the scalar version in scalar/ is the normative text and is written to
// be read; every other level must give the same bits. "fma(a, b, c)" below is one rounding. Lanes of a vector are outputs, or,
// in row reductions, the 16 virtual lanes (element j belongs to lane j mod 16, lanes are added by the tree
// ((l0+l8)+(l4+l12))+((l2+l10)+(l6+l14)) + (((l1+l9)+(l5+l13))+((l3+l11)+(l7+l15))): halves of 8, 4, 2, 1).
// Tails are zero-filled lanes; memory beyond a row is never read in a way that can reach a result.
// Kernels are pure functions of their arguments: no state, no allocation, callable from any thread. The caller has set the
// floating-point environment (round to nearest, no flush to zero).
#ifndef TALLY_BACKEND_CPU_KERNELS_H
#define TALLY_BACKEND_CPU_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cpuinfo.h"
#include "tensor/dtype.h"

enum {
    PANEL = 16,     // outputs computed together: weights are packed in panels of 16 rows (pack.h)
    KV_PANEL = 16,  // tokens per transposed key panel
    KV_PIECE = 256, // positions per attention piece
};

// The forms in which tiles want the rows of x.
typedef enum x_format {
    X_F32,      // as they are
    X_BLOCK32,  // quantize_row32
    X_BLOCK256, // quantize_row256
    X_BF16,     // round_row_bf16
    X_FORMAT_COUNT
} x_format;

// A tile of y = x W^T: acc[r * acc_stride + 16 * p + j] continues its sum over k in [k0, k1) for rows r < n_rows and panels
// p < n_panels. k0 and k1 are multiples of the type's block (float types: of 2, or k1 = K). Callers zero acc before the first
// piece of k; continuing a sum through memory changes no bit, so any split of k by callers is exact.
typedef struct matmul_tile {
    float *acc;           // [n_rows][16 * n_panels]
    int64_t acc_stride;   // floats
    const void *w;        // panel 0, at k = 0, in the packed layout of the type
    int64_t panel_stride; // bytes from panel to panel
    const void *x;        // row 0, at k = 0, in the form that cpu_kernels.x_format names for the type
    int64_t x_stride;     // bytes from row to row
    int64_t k0, k1;
    int64_t k;            // of the panels, whose next piece is read afterwards; a hint
    int n_rows, n_panels; // any positive number
    bool one_by_one; // few rows pass all of a panel before the next one, where the level takes two side by side; a hint
} matmul_tile;
typedef void matmul_tile_fn(const matmul_tile *t);

// Queries 0 .. n_q-1 against consecutive tokens of one kv head: query i sees the first n_t[i] of them. d is the head dimension (any
// positive number; a multiple of 32 for Q8_0). `next` is a hint: the bytes that will be read afterwards, as many as now, are fetched
// from memory meanwhile, into the first-level cache if `near`, else the second; NULL: none.
typedef struct kv_scores {
    float *s;       // s[i * s_stride + t] = scale * sum over j ascending of fma(q[i][j], k[t][j]), starting at +0
    const float *q; // row i at q + i * q_stride
    const void *k; // panels of 16 tokens, one after the other: plain types [d][16]; Q8_0: int8 [d][16], then f16 scales
                   // [d / 32][16], k being q * scale in F32
    const int32_t *n_t;
    const void *next;
    int64_t s_stride, q_stride, d;
    float scale;
    int n_q;
    bool near;
} kv_scores;
typedef struct kv_values {
    float *
        o; // o[i * o_stride + j] = fma(p[i * p_stride + t], v[t][j], o[i * o_stride + j]) for t = 0 .. n_t[i]-1 ascending
    const float *p;
    const void *v; // rows [d] of the type, v_stride bytes apart; Q8_0 rows are GGUF blocks (blocks.h)
    const int32_t *n_t;
    const void *next;
    int64_t o_stride, p_stride, v_stride, d;
    int n_q;
    bool near;
} kv_values;

// A line that will be read soon, from memory into the first-level cache if `near`, else the second.
static inline void fetch_line(const void *p, bool near) {
    if (near) {
        __builtin_prefetch(p, 0, 3);
    } else {
        __builtin_prefetch(p, 0, 2);
    }
}

// The kernels of one key/value type.
typedef struct attention_kernels {
    // Scores of tokens that a query does not see are unspecified, up to the end of the last panel that any query sees.
    void (*scores)(const kv_scores *a);
    void (*values)(const kv_values *a);
    // What scores and values read, as F32: panels [d][16], and rows `stride` numbers apart.
    void (*widen_keys)(float *dst, const void *k, int n_panels, int64_t d);
    void (*widen_values)(float *dst, int64_t stride, const void *v, int64_t v_stride, int n_t, int64_t d);
    // Stores n positions, `stride` numbers apart: into columns t .. t+n-1 (of 16) of a key panel, or one into a value row. Rounds to
    // the type (nearest even; Q8_0 by dtype_get(DTYPE_Q8_0)->from_f32's rule, blocks of 32 along d).
    void (*store_keys)(void *k_panel, int t, int n, const float *key, int64_t stride, int64_t d);
    void (*store_value)(void *v_row, const float *value, int64_t d);
} attention_kernels;
int64_t kv_key_panel_bytes(dtype type, int64_t d); // bytes of one panel of 16 keys
int64_t kv_value_row_bytes(dtype type, int64_t d);

typedef struct cpu_kernels {
    // Matrix tiles by weight type. Float types by X_F32: acc = fma(w, x, acc), k ascending. Block types: see quant_panels.h.
    // BF16 by X_BF16: pairs of k ascending, each by the level's instruction (docs/exactness.md), a missing last number being 0.
    matmul_tile_fn *tile[DTYPE_COUNT];
    x_format x_format[DTYPE_COUNT]; // what tile[] wants; block types always the same
    int block_panels;               // of a block type, that few rows take side by side
    // Activations for block types, n a multiple of the block: q8 blocks of 32 (quant_block32) or 256 (quant_block256).
    // d = absmax / 127; q = round to nearest even of x * (127 / absmax); both 0 if absmax < 2^-119. A row block with a non-finite value
    // gets d = NaN and q = 0, so that the fault reaches the result.
    void (*quantize_row32)(void *dst, const float *x, int64_t n);
    void (*quantize_row256)(void *dst, const float *x, int64_t n);
    // n numbers rounded to BF16 (nearest even); an odd n gets a zero behind it.
    void (*round_row_bf16)(void *dst, const float *x, int64_t n);

    // y[i] = (x[i] * r) * w[i], r = 1 / sqrt(sum of squares / n + eps); y may be x. Returns false when r is not a finite
    // positive number (a NaN, an infinity or an overflow in x); y is then unspecified.
    bool (*rms_norm)(float *y, const float *x, const float *w, int64_t n, float eps);
    void (*add)(float *y, const float *a, const float *b, int64_t n); // y may be a or b
    // y[i] = (g / (1 + exp(-g))) * u, exp as elementary_exp; y may be g or u.
    void (*swiglu)(float *y, const float *g, const float *u, int64_t n);
    // One head: rotates the first `rot` of x in place, pairs (i, i + rot/2), or (2i, 2i+1) if interleaved.
    // cs: [rot/2] cosines, then [rot/2] sines. a' = fma(a, c, -(b * s)), b' = fma(b, c, a * s).
    void (*rope)(float *x, const float *cs, int64_t rot, bool interleaved);
    // s[i] = exp(s[i] - m), m = max; returns m and the 16-lane sum of the results in *l. n >= 1. NaN anywhere gives *l = NaN.
    float (*softmax)(float *s, int64_t n, float *l);
    // y[i] = y[i] * a
    void (*scale)(float *y, float a, int64_t n);
    // Merges piece (m2, l2, o2) into (m, l, o): M = max(m, m2), a = exp(m - M), b = exp(m2 - M); l = fma(l, a, l2 * b);
    // o[j] = fma(o[j], a, o2[j] * b).
    void (*attention_merge)(float *o, float *m, float *l, const float *o2, float m2, float l2, int64_t d);
    // Whether all magnitudes are below the limit; NaN is below nothing.
    bool (*all_below)(const float *x, int64_t n, float limit);
    // y[i] = fma(p, x[i], y[i])
    void (*axpy)(float *y, float p, const float *x, int64_t n);

    const attention_kernels *attention[DTYPE_COUNT]; // F32, F16, BF16, Q8_0; NULL for others
} cpu_kernels;

// Fills the table for a level that is available (scalar, then each instruction set up to the level).
void cpu_kernels_init(cpu_kernels *k, cpu_level level);

// The layers of the table, one per file; each overwrites what it does better. Called by cpu_kernels_init only.
void kernels_float_scalar(cpu_kernels *k);
void kernels_quant_scalar(cpu_kernels *k);
void kernels_float_avx2(cpu_kernels *k);
void kernels_quant_avx2(cpu_kernels *k);
void kernels_float_avx512(cpu_kernels *k);
void kernels_quant_avx512(cpu_kernels *k);
void kernels_quant_avx512vnni(cpu_kernels *k);
void kernels_quant_amx(cpu_kernels *k);
void kernels_float_avx512bf16(cpu_kernels *k);
void kernels_float_neon(cpu_kernels *k);
void kernels_quant_neon(cpu_kernels *k);
void kernels_quant_dotprod(cpu_kernels *k);
void kernels_quant_i8mm(cpu_kernels *k);
void kernels_float_neonbf16(cpu_kernels *k);
matmul_tile_fn *kernels_quant_avx512vnni_tile(dtype type); // what the level amx takes for few rows; a block type's

#endif
