// Weights of 8 and 4 bits, triangular systems, cross entropy: what other programs' graphs want beside the rest.
#include "emulator/aclnn/ops/common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- y = x @ ((w + offset) * scale) + bias --------------------------------------------------------------------------------

typedef struct {
    int64_t group; // rows of the weight that share a scale; 0: all
} quant_attrs;

static float code_at(const emu_tensor *w, int64_t k, int64_t n) {
    int64_t off = k * w->view.stride[0] + n * w->view.stride[1];
    const int8_t *p = w->data;
    if (w->view.dtype == ACL_INT8) return p[off];
    off += w->view.offset % 2; // the data pointer is that of the byte
    int8_t byte = p[off / 2];
    return (float)(off % 2 ? byte >> 4 : (int8_t)((uint8_t)byte << 4) >> 4); // low nibble first, two's complement
}

// Element (group, n) of a scale or offset of shape (1), (N), (1, N), (G, N).
static float scale_at(const struct em_view *v, int64_t g, int64_t n) {
    int64_t at[2] = {0, 0};
    float f = 0;
    if (v->rank == 1) at[0] = v->dim[0] == 1 ? 0 : n;
    if (v->rank == 2) at[0] = v->dim[0] == 1 ? 0 : g, at[1] = v->dim[1] == 1 ? 0 : n;
    em_load_f32(v->dtype, v->p + em_offset(v, at) * (int64_t)em_dtype_size(v->dtype), 1, &f, 1);
    return f;
}

static aclError run_quant(const emu_run *run) { // slots x, weight, scale, offset, bias, y
    const quant_attrs *t = run->attrs;
    const emu_tensor *w = emu_arg(run, 1);
    struct em_view x = op_view(run, 0), scale = op_view(run, 2), offset, bias, y = op_view(run, 5);
    const struct em_view *with = op_optional(run, 3, &offset), *b = op_optional(run, 4, &bias);
    int64_t K = w->view.dim[0], N = w->view.dim[1];
    float *wide = malloc((size_t)(K * N + 1) * sizeof *wide);
    if (!wide) return op_done(run, EM_NO_MEMORY);
    for (int64_t k = 0; k < K; k++)
        for (int64_t n = 0; n < N; n++) {
            int64_t g = t->group ? k / t->group : 0;
            float v = (code_at(w, k, n) + (with ? scale_at(with, g, n) : 0)) * scale_at(&scale, g, n);
            // UNVERIFIED: the cube unit gets the weight in x's type
            wide[n * K + k] = x.dtype == EM_BF16 ? em_from_bf16(em_to_bf16(v)) : em_from_f16(em_to_f16(v));
        }
    struct em_matmul m = {.a = x, .out = y, .alpha = 1, .bias = b, .order = op_order(run)};
    m.b = (struct em_view){.dtype = EM_F32, .rank = 2, .dim = {K, N}, .stride = {1, K}, .p = (char *)wide};
    int rc = em_matmul(&m);
    free(wide);
    return op_done(run, rc);
}

aclnnStatus aclnnWeightQuantBatchMatmulV2GetWorkspaceSize(
    const aclTensor *x, const aclTensor *weight, const aclTensor *antiquantScale,
    const aclTensor *antiquantOffsetOptional, const aclTensor *quantScaleOptional, const aclTensor *quantOffsetOptional,
    const aclTensor *biasOptional, int antiquantGroupSize, const aclTensor *y, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnWeightQuantBatchMatmulV2", workspaceSize, executor);
    const emu_view *xv = emu_op_in(&op, "x", x), *w = emu_op_in(&op, "weight", weight),
                   *s = emu_op_in(&op, "antiquantScale", antiquantScale);
    const emu_view *o = emu_op_in_opt(&op, "antiquantOffset", antiquantOffsetOptional),
                   *b = emu_op_in_opt(&op, "bias", biasOptional), *out = emu_op_out(&op, "y", y);
    op_absent(&op, "quantScale", quantScaleOptional);
    op_absent(&op, "quantOffset", quantOffsetOptional);
    quant_attrs t = {.group = antiquantGroupSize};
    emu_op_sign(&op, t.group);
    emu_op_dtype(&op, "x", xv, EMU_HALVES);
    emu_op_dtype(&op, "weight", w, EMU_DT(INT8) | EMU_DT(INT4));
    emu_op_same_dtype(&op, "antiquantScale", s, "x", xv);
    emu_op_same_dtype(&op, "antiquantOffset", o, "x", xv);
    emu_op_same_dtype(&op, "y", out, "x", xv);
    emu_op_rank(&op, "x", xv, 2, 2);
    emu_op_rank(&op, "weight", w, 2, 2);
    emu_op_rank(&op, "antiquantScale", s, 1, 2);
    if (emu_op_ok(&op)) {
        int64_t k = w->dim[0], n = w->dim[1], g = t.group;
        emu_op_need(&op, xv->dim[1] == k, "x has rows of %lld, the weight takes %lld", (long long)xv->dim[1],
                    (long long)k);
        emu_op_need(&op, k <= 65535 && n <= 65535, "a weight of %lld x %lld; at most 65535", (long long)k,
                    (long long)n);
        emu_op_need(&op, g == 0 || (g % 32 == 0 && g >= 32 && g <= k - 1),
                    "antiquantGroupSize %lld: a multiple of 32 under %lld", (long long)g, (long long)k);
        int64_t groups = g ? (k + g - 1) / g : 1;
        emu_op_need(&op, s->numel == 1 || s->numel == groups * n, "antiquantScale has %lld numbers, not %lld * %lld",
                    (long long)s->numel, (long long)groups, (long long)n);
        if (o) emu_op_same_shape(&op, "antiquantOffset", o, "antiquantScale", s);
        emu_op_shape(&op, "y", out, 2, (int64_t[]){xv->dim[0], n});
        aclDataType type = xv->dtype == ACL_BF16 ? ACL_FLOAT : xv->dtype;
        emu_op_need(&op, !b || (b->dtype == type && b->numel == n), "bias is %s [%lld]", emu_dtype_name(type),
                    (long long)n);
    }
    return emu_op_finish(&op, &(emu_op_plan){.kernel = run_quant,
                                             .varies_on = EMU_ON(EMU_310P) | EMU_ON(EMU_A2) | EMU_ON(EMU_A3),
                                             .attrs = &t,
                                             .attrs_size = sizeof t,
                                             .workspace = 256 * 1024});
}
EMU_PHASE_2(aclnnWeightQuantBatchMatmulV2)

// ---- triangular systems ----------------------------------------------------------------------------------------------------

typedef struct {
    bool upper, transpose, unit;
} solve_attrs;

static float *cell(const struct em_view *v, int64_t batch, int64_t r, int64_t c) {
    int64_t at[EM_RANK];
    em_unravel(batch, v->rank - 2, v->dim, at);
    at[v->rank - 2] = r, at[v->rank - 1] = c;
    return (float *)(void *)(v->p + em_offset(v, at) * 4);
}

static aclError run_solve(const emu_run *run) { // slots self (B), A, xOut, mOut
    const solve_attrs *t = run->attrs;
    struct em_view b = op_view(run, 0), a = op_view(run, 1), x = op_view(run, 2), m = op_view(run, 3);
    int64_t n = a.dim[a.rank - 1], columns = x.dim[x.rank - 1],
            batches = n && columns ? em_count(&x) / (n * columns) : 0;
    bool down = t->upper == t->transpose; // rows are found from the first to the last
    for (int64_t i = 0; i < batches; i++)
        for (int64_t c = 0; c < columns; c++)
            for (int64_t step = 0; step < n; step++) {
                int64_t r = down ? step : n - 1 - step;
                float v = *cell(&b, i, r, c);
                for (int64_t k = down ? 0 : r + 1; k < (down ? r : n); k++)
                    v -= (t->transpose ? *cell(&a, i, k, r) : *cell(&a, i, r, k)) * *cell(&x, i, k, c);
                *cell(&x, i, r, c) = t->unit ? v : v / *cell(&a, i, r, r);
            }
    return op_done(run, em_triangle(&a, 0, t->upper, &m));
}

aclnnStatus aclnnTriangularSolveGetWorkspaceSize(const aclTensor *self, const aclTensor *A, bool upper, bool transpose,
                                                 bool unitriangular, aclTensor *xOut, aclTensor *mOut, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnTriangularSolve", workspaceSize, executor);
    const emu_view *b = emu_op_in(&op, "self", self), *a = emu_op_in(&op, "A", A), *x = emu_op_out(&op, "xOut", xOut),
                   *m = emu_op_out(&op, "mOut", mOut);
    emu_op_dtype(&op, "self", b, EMU_DT(FLOAT));
    emu_op_same_dtype(&op, "A", a, "self", b);
    emu_op_same_dtype(&op, "xOut", x, "self", b);
    emu_op_same_dtype(&op, "mOut", m, "self", b);
    emu_op_rank(&op, "self", b, 2, 8);
    emu_op_same_shape(&op, "xOut", x, "self", b);
    emu_op_same_shape(&op, "mOut", m, "A", a);
    if (emu_op_ok(&op)) {
        int64_t want[EMU_MAX_RANK];
        memcpy(want, b->dim, sizeof want);
        want[b->rank - 1] = b->dim[b->rank - 2];
        emu_op_shape(&op, "A", a, b->rank, want);
    }
    solve_attrs t = {upper, transpose, unitriangular};
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_solve, .attrs = &t, .attrs_size = sizeof t, .workspace = 16 * 1024});
}
EMU_PHASE_2(aclnnTriangularSolve)

// ---- cross entropy -----------------------------------------------------------------------------------------------------------

static aclError run_entropy(const emu_run *run) { // slots features, labels, loss, backprop
    struct em_view x = op_view(run, 0), l = op_view(run, 1), loss = op_view(run, 2), back = op_view(run, 3);
    int64_t n = x.dim[1];
    float *v = malloc((size_t)(3 * n + 1) * sizeof *v);
    if (!v) return op_done(run, EM_NO_MEMORY);
    float *label = v + n, *e = label + n;
    struct em_order order = op_order(run);
    for (int64_t r = 0; r < x.dim[0]; r++) {
        em_load_f32(x.dtype, em_row(&x, r), x.stride[1], v, n);
        em_load_f32(l.dtype, em_row(&l, r), l.stride[1], label, n);
        float top = -INFINITY;
        for (int64_t i = 0; i < n; i++) top = v[i] > top ? v[i] : top;
        for (int64_t i = 0; i < n; i++) e[i] = expf(v[i] - top);
        float sum = em_sum(&order, e, n), lg = logf(sum);
        for (int64_t i = 0; i < n; i++) {
            v[i] = label[i] * (lg - (v[i] - top));
            e[i] = e[i] / sum - label[i];
        }
        float total = em_sum(&order, v, n);
        em_store_f32(loss.dtype, loss.p + r * loss.stride[0] * (int64_t)em_dtype_size(loss.dtype), 1, &total, 1);
        em_store_f32(back.dtype, em_row(&back, r), back.stride[1], e, n);
    }
    free(v);
    return ACL_SUCCESS;
}

aclnnStatus aclnnSoftmaxCrossEntropyWithLogitsGetWorkspaceSize(const aclTensor *features, const aclTensor *labels,
                                                               aclTensor *loss, aclTensor *backprop, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnSoftmaxCrossEntropyWithLogits", workspaceSize, executor);
    const emu_view *x = emu_op_in(&op, "features", features), *l = emu_op_in(&op, "labels", labels),
                   *o = emu_op_out(&op, "loss", loss), *b = emu_op_out(&op, "backprop", backprop);
    emu_op_dtype(&op, "features", x, EMU_FLOATS);
    emu_op_same_dtype(&op, "labels", l, "features", x);
    emu_op_same_dtype(&op, "loss", o, "features", x);
    emu_op_same_dtype(&op, "backprop", b, "features", x);
    emu_op_rank(&op, "features", x, 2, 2);
    emu_op_same_shape(&op, "labels", l, "features", x);
    emu_op_same_shape(&op, "backprop", b, "features", x);
    if (emu_op_ok(&op)) emu_op_shape(&op, "loss", o, 1, (int64_t[]){x->dim[0]});
    return emu_op_finish(&op, &(emu_op_plan){.kernel = run_entropy, .workspace = 16 * 1024});
}
EMU_PHASE_2(aclnnSoftmaxCrossEntropyWithLogits)
