// The arithmetic of every operator, over views, free of the runtime.
//
// Half-precision inputs are widened exactly, everything is summed in F32 (F64 for F64 tensors), and the result is rounded
// once. Each function returns EM_OK, EM_NO_MEMORY, or EM_OUT_OF_RANGE where an index points outside of its tensor, which on
// the vendor's processors is a fault of the vector core that shows at the next synchronisation, or EM_DUPLICATE where two values go
// to one place, and which of them stays is undefined there. Arguments have been checked before: shapes fit.
#ifndef EMULATOR_ACLNN_MATH_MATH_H
#define EMULATOR_ACLNN_MATH_MATH_H

#include "emulator/aclnn/math/order.h"
#include "emulator/aclnn/math/view.h"

enum { EM_OK, EM_NO_MEMORY, EM_OUT_OF_RANGE, EM_DUPLICATE };

// ---- matrix products -------------------------------------------------------------------------------------------------
// Rounding of F32 inputs before they are multiplied; EM_HF32 keeps 11 bits behind the point (UNVERIFIED).
enum em_precision { EM_KEEP, EM_AS_F16, EM_HF32 };

// out[m, n] = beta * add[m, n] + alpha * sum_k a[m, k] * b[k, n] + bias[n]; 2-D views, b may be NZ. `add` and `bias` may be NULL,
// then beta and alpha still apply to what is there.
struct em_matmul {
    struct em_view a, b, out;
    const struct em_view *add, *bias;
    float alpha, beta;
    enum em_precision precision;
    struct em_order order;
};
int em_matmul(const struct em_matmul *m);

// ---- normalisation and activation --------------------------------------------------------------------------------------
// x = x1 (+ x2), rstd = 1 / sqrt(mean(x^2) + eps), y = x * rstd * gamma, over the trailing dimensions that gamma covers.
// x2, rstd and x_out may be NULL. With x2 the sum is rounded to x_out's type before it is squared and normalised.
struct em_rms_norm {
    const struct em_view *x1, *x2, *gamma, *y, *rstd, *x_out;
    double eps;
    struct em_order order;
};
int em_rms_norm(const struct em_rms_norm *n);

// y = (x - mean) * rstd * gamma[j / inner] + beta[j / inner] over rows of `n` consecutive elements. gamma, beta, mean and
// rstd may be NULL; inner is 1 for LayerNorm and the area for GroupNorm, whose gamma starts at channel
// (row * n / inner) modulo channels.
struct em_norm {
    const struct em_view *x, *gamma, *beta, *y, *mean, *rstd;
    int64_t rows, n, inner, channels;
    double eps;
    struct em_order order;
};
int em_norm(const struct em_norm *n);

int em_softmax(const struct em_view *x, int dim, const struct em_view *out, bool log, const struct em_order *o);

// x is split in two along dim: out = act(first) * second; with gate_right act(second) * first. act: 0 silu, 1 gelu by erf,
// 2 gelu by tanh. act_out (may be NULL) takes act(..) alone.
struct em_glu {
    const struct em_view *x, *out, *act_out;
    int dim, act;
    bool gate_right;
};
int em_glu(const struct em_glu *g);

// ---- rotary embedding ---------------------------------------------------------------------------------------------------
enum em_rotary { EM_ROTARY_HALF, EM_ROTARY_INTERLEAVE, EM_ROTARY_QUARTER, EM_ROTARY_INTERLEAVE_HALF };
// out = x * cos + rotate(x) * sin over the last dimension; cos and sin broadcast to x; their last dimension may be shorter,
// then the rest of x passes. out may be x.
int em_rotary(const struct em_view *x, const struct em_view *cos, const struct em_view *sin, enum em_rotary mode,
              const struct em_view *out);

// ---- attention ------------------------------------------------------------------------------------------------------------
enum { EM_SPARSE_DEFAULT, EM_SPARSE_ALL, EM_SPARSE_LEFT_UP, EM_SPARSE_RIGHT_DOWN, EM_SPARSE_BAND, EM_SPARSE_TREE = 9 };
// One batch element: query (Sq, N, D), out (Sq, N, Dv), keys and values by position.
struct em_attention {
    struct em_view q, out; // rank 3: row, head, element
    struct em_view k, v;   // rank 3: position, KV head, element; of the first block when paged
    const int32_t *blocks; // NULL: not paged; else the block of positions [i * block_size, ...)
    int64_t block_size, block_stride_k, block_stride_v, block_count;
    int64_t q_len, kv_len;         // valid lengths; rows of q from q_len on give 0
    const struct em_view *mask;    // rank 2 (row, position), 1 = masked; NULL
    const struct em_view *bias;    // rank 3 (head, row, position), added to the scaled scores; NULL
    const struct em_view *lse;     // rank 2 (head, row), F32; NULL
    const struct em_view *k2, *q2; // rope parts, appended to the dot products; NULL
    const struct em_view *sink;    // one score per head that takes part in the sum alone; NULL
    double scale;
    int64_t sparse, pre, next;
    bool fix_masked_rows; // rows with nothing to see give 0 (otherwise the mean of all values)
    struct em_order order;
};
int em_attention(const struct em_attention *a);

// ---- mixture of experts -----------------------------------------------------------------------------------------------------
struct em_gating {
    const struct em_view *x, *finished, *bias;    // logits (T, E)
    const struct em_view *y, *expert, *row, *all; // (T, k); all: (T, E) F32, the normalised logits
    int64_t k;
    bool renorm;                 // y divided by its sum
    bool sigmoid;                // instead of softmax
    int64_t groups, groups_kept; // 1, 1: no groups
    bool group_sum2;             // a group's worth is the sum of its best two
    double factor, eps;
    struct em_order order;
};
int em_gating(const struct em_gating *g);

struct em_init_routing {
    const struct em_view *x, *expert, *scale; // (R, H), (R, k), (R) or NULL
    const struct em_view *expanded, *row_idx, *counts, *before, *expanded_scale;
    int64_t active, capacity, experts, first, last; // experts of [first, last) only
    bool pad;                                       // expanded is (experts, capacity, H)
    int counts_as;                                  // 0 none, 1 cumulative, 2 counts, 3 pairs
    bool scatter_index;                             // row_idx maps sorted rows to their source instead of the reverse
};
int em_init_routing(const struct em_init_routing *r);

struct em_finalize_routing {
    const struct em_view *expanded, *row_idx, *x1, *x2, *bias, *scales, *expert, *out;
    bool row_order; // index of (row, k) at row * K + k; else at k * rows + row
    struct em_order order;
};
int em_finalize_routing(const struct em_finalize_routing *f);

// ---- elementwise ----------------------------------------------------------------------------------------------------------
enum em_unary {
    EM_ABS,
    EM_NEG,
    EM_EXP,
    EM_LOG,
    EM_SQRT,
    EM_RSQRT,
    EM_RECIPROCAL,
    EM_SIN,
    EM_COS,
    EM_TANH,
    EM_SIGMOID,
    EM_SILU,
    EM_RELU,
    EM_GELU,
    EM_GELU_TANH,
    EM_HARDSIGMOID,
    EM_HARDSWISH,
    EM_SIGN,
    EM_COPY,
    EM_LEAKY_RELU,
    EM_ELU,
    EM_SOFTPLUS,
    EM_CLAMP,
    EM_THRESHOLD,
    EM_NOT,
    EM_FLOOR,
    EM_CEIL,
    EM_SWISH
};
// par: leaky slope; elu alpha, scale, input scale; softplus beta, threshold; clamp low, high; threshold, value; swish beta.
int em_unary(enum em_unary op, const struct em_view *x, const double par[3], const struct em_view *out);

enum em_binary { EM_ADD, EM_SUB, EM_MUL, EM_DIV, EM_POW, EM_MAX, EM_MIN, EM_EQ, EM_NE, EM_GT, EM_GE, EM_LT, EM_LE };
// a op (f * b); a scalar operand is a view with all strides 0. Computes in the promoted type.
int em_binary(enum em_binary op, const struct em_view *a, const struct em_view *b, double f, const struct em_view *out);
int em_promote(int a, int b); // the type that two types meet in

int em_copy(const struct em_view *src, const struct em_view *dst); // converts and broadcasts
int em_fill(const struct em_view *dst, double value);
int em_arange(const struct em_view *out, double start, double step);
int em_triangle(const struct em_view *x, int64_t diagonal, bool upper, const struct em_view *out);
int em_masked_fill(const struct em_view *dst, const struct em_view *mask, double value);
int em_where(const struct em_view *cond, const struct em_view *a, const struct em_view *b, const struct em_view *out);

// ---- indexing, sorting, reducing ------------------------------------------------------------------------------------------
// out[.., i.., ..] = x[.., index[i..], ..]; the index may have any rank and takes the place of dimension `dim`.
int em_gather(const struct em_view *x, int dim, const struct em_view *index, const struct em_view *out);
// dst[.., index[i], ..] = src[.., i, ..]
int em_scatter(const struct em_view *dst, int dim, const struct em_view *index, const struct em_view *src);
// Values and indices (either may be NULL) of the first k in order; equal values by ascending index, or in an order of `ties`.
struct em_sort {
    const struct em_view *x, *values, *indices;
    int dim;
    int64_t k;
    bool descending;
    uint64_t ties; // 0: by index
};
int em_sort(const struct em_sort *s);
int em_arg_max(const struct em_view *x, int dim, const struct em_view *out,
               const struct em_view *values); // dim kept as 1 in both
enum em_reduce { EM_REDUCE_SUM, EM_REDUCE_MEAN, EM_REDUCE_MAX, EM_REDUCE_NORM };
// out has the rank of x with 1 in each reduced dimension; `wide`: accumulate in F64 (F64 tensors) or int64.
int em_reduce(enum em_reduce op, const struct em_view *x, const struct em_view *out, double p,
              const struct em_order *o);
int em_cumsum(const struct em_view *x, int dim, const struct em_view *out);

#endif
