// RmsNorm and its relatives, LayerNorm, GroupNorm, softmax, gated activations.
#include "emulator/aclnn/ops/common.h"
#include "emulator/core/state.h"

#include <string.h>

typedef struct {
    double eps;
    int dim, act;
    bool log, right, add;
    int x1, x2, gamma, y, rstd, x_out; // slots of the RMSNorms
    int64_t n, c, area, groups;
} norm_attrs;

static aclError run_rms(const emu_run *run) {
    const norm_attrs *t = run->attrs;
    struct em_view x1 = op_view(run, t->x1), x2 = op_view(run, t->x2), gamma = op_view(run, t->gamma),
                   y = op_view(run, t->y), rstd, sum = op_view(run, t->x_out);
    struct em_rms_norm n = {
        .x1 = &x1, .x2 = t->add ? &x2 : NULL, .gamma = &gamma, .y = &y, .eps = t->eps, .order = op_order(run)};
    n.rstd = op_optional(run, t->rstd, &rstd);
    n.x_out = t->add && !sum.absent ? &sum : NULL;
    return op_done(run, em_rms_norm(&n));
}

// gamma is x's trailing shape, behind ones where `ones` are allowed ([1, H] of AddRmsNorm); rstd is of x's rank, with ones in place of
// what is normalised.
static void check_rms(emu_op *op, const emu_view *x, const emu_view *gamma, const emu_view *rstd, bool ones) {
    emu_op_rank(op, "x", x, 1, 8);
    emu_op_dtype(op, "rstdOut", rstd, EMU_DT(FLOAT));
    if (!emu_op_ok(op)) return;
    int lead = x->rank - gamma->rank;
    if (!emu_op_need(op, lead >= 0, "gamma has rank %d, x only %d", gamma->rank, x->rank)) return;
    int64_t want[EMU_MAX_RANK], n = gamma->numel, rows = n ? x->numel / n : 0;
    for (int i = 0; i < lead; i++) want[i] = x->dim[i];
    for (int i = 0; i < gamma->rank; i++) {
        ones = ones && i + 1 < gamma->rank && gamma->dim[i] == 1;
        if (!emu_op_need(op, gamma->dim[i] == x->dim[lead + i] || ones, "gamma's dimension %d is %lld, x's is %lld", i,
                         (long long)gamma->dim[i], (long long)x->dim[lead + i]))
            return;
        want[lead + i] = ones ? x->dim[lead + i] : 1;
    }
    // Not checked by the vendor's phase 1: where there are too few the vector core faults later (507035).
    if (rstd)
        emu_op_need(op, rstd->numel >= rows, "rstdOut holds %lld numbers, x has %lld rows", (long long)rstd->numel,
                    (long long)rows);
    if (!emu()->config.lenient) emu_op_shape(op, "rstdOut", rstd, x->rank, want);
    if (emu_op_chip(op)->family == EMU_310P)
        emu_op_need(op, x->dim[x->rank - 1] * emu_dtype_bits(x->dtype) / 8 >= 32, "the last axis has under 32 bytes");
}

aclnnStatus aclnnRmsNormGetWorkspaceSize(const aclTensor *x, const aclTensor *gamma, double epsilon,
                                         const aclTensor *yOut, const aclTensor *rstdOut, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnRmsNorm", workspaceSize, executor);
    const emu_view *xv = emu_op_in(&op, "x", x), *gv = emu_op_in(&op, "gamma", gamma),
                   *yv = emu_op_out(&op, "yOut", yOut);
    const emu_view *rv = emu_op_out(&op, "rstdOut", rstdOut);
    emu_op_dtype(&op, "x", xv, EMU_FLOATS);
    emu_op_same_dtype(&op, "yOut", yv, "x", xv);
    if (emu_op_ok(&op)) {
        bool mixed = gv->dtype == ACL_FLOAT && xv->dtype != ACL_FLOAT,
             old = emu_op_on(&op, EMU_ON(EMU_910A) | EMU_ON(EMU_310P));
        emu_op_need(&op, gv->dtype == xv->dtype || (mixed && !old), "gamma is %s where x is %s",
                    emu_dtype_name(gv->dtype), emu_dtype_name(xv->dtype));
    }
    emu_op_same_shape(&op, "yOut", yv, "x", xv);
    check_rms(&op, xv, gv, rv, false);
    norm_attrs attrs = {.eps = epsilon, .x1 = 0, .gamma = 1, .y = 2, .rstd = 3};
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_rms, .attrs = &attrs, .attrs_size = sizeof attrs, .workspace = 64 * 1024});
}
EMU_PHASE_2(aclnnRmsNorm)

static void check_add_rms(emu_op *op, const emu_view *x1, const emu_view *x2, const emu_view *g, const emu_view *rstd) {
    emu_op_dtype(op, "x1", x1, EMU_FLOATS);
    emu_op_same_dtype(op, "x2", x2, "x1", x1);
    emu_op_same_dtype(op, "gamma", g, "x1", x1);
    emu_op_same_shape(op, "x2", x2, "x1", x1);
    check_rms(op, x1, g, rstd, true);
    if (emu_op_ok(op) && !rstd)
        emu_op_need(op, x1->dtype != ACL_FLOAT && g->rank == 2 && g->dim[0] == 1,
                    "rstd may only be left out for FP16 and BF16 with a gamma of shape [1, H]");
}

aclnnStatus aclnnAddRmsNormGetWorkspaceSize(const aclTensor *x1, const aclTensor *x2, const aclTensor *gamma,
                                            double epsilon, const aclTensor *yOut, const aclTensor *rstdOut,
                                            const aclTensor *xOut, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnAddRmsNorm", workspaceSize, executor);
    const emu_view *a = emu_op_in(&op, "x1", x1), *b = emu_op_in(&op, "x2", x2), *g = emu_op_in(&op, "gamma", gamma);
    const emu_view *y = emu_op_out(&op, "yOut", yOut), *r = emu_op_out_opt(&op, "rstdOut", rstdOut);
    const emu_view *s = r ? emu_op_out(&op, "xOut", xOut) : emu_op_out_opt(&op, "xOut", xOut);
    check_add_rms(&op, a, b, g, r);
    emu_op_same_dtype(&op, "yOut", y, "x1", a);
    emu_op_same_dtype(&op, "xOut", s, "x1", a);
    emu_op_same_shape(&op, "yOut", y, "x1", a);
    emu_op_same_shape(&op, "xOut", s, "x1", a);
    norm_attrs attrs = {.eps = epsilon, .add = true, .x1 = 0, .x2 = 1, .gamma = 2, .y = 3, .rstd = 4, .x_out = 5};
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_rms, .attrs = &attrs, .attrs_size = sizeof attrs, .workspace = 64 * 1024});
}
EMU_PHASE_2(aclnnAddRmsNorm)

aclnnStatus aclnnInplaceAddRmsNormGetWorkspaceSize(aclTensor *x1Ref, aclTensor *x2Ref, const aclTensor *gamma,
                                                   double epsilon, const aclTensor *rstdOut, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnInplaceAddRmsNorm", workspaceSize, executor);
    const emu_view *a = emu_op_inout(&op, "x1Ref", x1Ref), *b = emu_op_inout(&op, "x2Ref", x2Ref);
    const emu_view *g = emu_op_in(&op, "gamma", gamma), *r = emu_op_out_opt(&op, "rstdOut", rstdOut);
    check_add_rms(&op, a, b, g, r);
    norm_attrs attrs = {.eps = epsilon, .add = true, .x1 = 0, .x2 = 1, .gamma = 2, .y = 0, .rstd = 3, .x_out = 1};
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_rms, .attrs = &attrs, .attrs_size = sizeof attrs, .workspace = 64 * 1024});
}
EMU_PHASE_2(aclnnInplaceAddRmsNorm)

// ---- LayerNorm, GroupNorm: slots x, gamma, beta, out, mean, rstd -------------------------------------------------------

static aclError run_norm(const emu_run *run) {
    const norm_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0), y = op_view(run, 3), g, b, mean, rstd;
    struct em_norm n = {
        .x = &x, .y = &y, .rows = t->groups, .n = t->n, .inner = t->area, .channels = t->c, .eps = t->eps};
    n.gamma = op_optional(run, 1, &g), n.beta = op_optional(run, 2, &b);
    n.mean = op_optional(run, 4, &mean), n.rstd = op_optional(run, 5, &rstd);
    n.order = op_order(run);
    return op_done(run, em_norm(&n));
}

aclnnStatus aclnnLayerNormGetWorkspaceSize(const aclTensor *input, const aclIntArray *normalizedShape,
                                           const aclTensor *weightOptional, const aclTensor *biasOptional, double eps,
                                           aclTensor *out, aclTensor *meanOutOptional, aclTensor *rstdOutOptional, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnLayerNorm", workspaceSize, executor);
    const emu_view *x = emu_op_in(&op, "input", input), *g = emu_op_in_opt(&op, "weight", weightOptional),
                   *b = emu_op_in_opt(&op, "bias", biasOptional), *y = emu_op_out(&op, "out", out);
    const emu_view *m = emu_op_out_opt(&op, "mean", meanOutOptional), *r = emu_op_out_opt(&op, "rstd", rstdOutOptional);
    int n = 0;
    const int64_t *shape = emu_op_ints(&op, "normalizedShape", normalizedShape, &n);
    emu_op_dtype(&op, "input", x, EMU_FLOATS);
    emu_op_same_dtype(&op, "out", y, "input", x);
    emu_op_same_shape(&op, "out", y, "input", x);
    norm_attrs attrs = {.eps = eps, .n = 1, .area = 1};
    if (emu_op_ok(&op) &&
        emu_op_need(&op, n >= 1 && n <= x->rank, "normalizedShape has %d dimensions, input %d", n, x->rank)) {
        for (int i = 0; i < n; i++) {
            emu_op_need(&op, shape[i] == x->dim[x->rank - n + i], "normalizedShape[%d] is %lld, not %lld", i,
                        (long long)shape[i], (long long)x->dim[x->rank - n + i]);
            attrs.n *= shape[i];
        }
        emu_op_need(&op, !g || g->numel == attrs.n, "weight has %lld elements, not %lld", g ? (long long)g->numel : 0LL,
                    (long long)attrs.n);
        emu_op_need(&op, !b || b->numel == attrs.n, "bias has %lld elements, not %lld", b ? (long long)b->numel : 0LL,
                    (long long)attrs.n);
        attrs.c = attrs.n;
        attrs.groups = attrs.n ? x->numel / attrs.n : 0;
        emu_op_need(&op, (!m || m->numel >= attrs.groups) && (!r || r->numel >= attrs.groups),
                    "mean and rstd hold %lld numbers", (long long)attrs.groups);
    }
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_norm, .attrs = &attrs, .attrs_size = sizeof attrs, .workspace = 32 * 1024});
}
EMU_PHASE_2(aclnnLayerNorm)

aclnnStatus aclnnGroupNormGetWorkspaceSize(const aclTensor *self, const aclTensor *gamma, const aclTensor *beta,
                                           int64_t N, int64_t C, int64_t HxW, int64_t group, double eps, aclTensor *out,
                                           aclTensor *meanOut, aclTensor *rstdOut, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnGroupNorm", workspaceSize, executor);
    const emu_view *x = emu_op_in(&op, "self", self), *g = emu_op_in_opt(&op, "gamma", gamma),
                   *b = emu_op_in_opt(&op, "beta", beta);
    const emu_view *y = emu_op_out(&op, "out", out), *m = emu_op_out(&op, "meanOut", meanOut),
                   *r = emu_op_out(&op, "rstdOut", rstdOut);
    emu_op_dtype(&op, "self", x, EMU_FLOATS);
    emu_op_same_dtype(&op, "out", y, "self", x);
    if (emu_op_ok(&op)) {
        emu_op_need(&op, group > 0 && C % group == 0, "%lld channels in %lld groups", (long long)C, (long long)group);
        emu_op_need(&op, x->numel == N * C * HxW && y->numel == x->numel, "self does not have N * C * HxW elements");
        emu_op_need(&op, (!g || g->numel == C) && (!b || b->numel == C), "gamma and beta have C elements");
        emu_op_need(&op, m->numel == N * group && r->numel == N * group, "meanOut and rstdOut have N * group elements");
    }
    norm_attrs attrs = {.eps = eps, .area = HxW, .c = C, .groups = N * group};
    if (emu_op_ok(&op)) attrs.n = C / group * HxW;
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_norm, .attrs = &attrs, .attrs_size = sizeof attrs, .workspace = 32 * 1024});
}
EMU_PHASE_2(aclnnGroupNorm)

// ---- softmax ---------------------------------------------------------------------------------------------------------

static aclError run_softmax(const emu_run *run) {
    const norm_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0), y = op_view(run, 1);
    struct em_order o = op_order(run);
    if (!x.rank) x.rank = y.rank = 1;
    return op_done(run, em_softmax(&x, t->dim, &y, t->log, &o));
}

static aclnnStatus softmax(const char *name, const aclTensor *self, int64_t dim, aclTensor *out, WS) {
    emu_op op;
    emu_op_begin(&op, name, workspaceSize, executor);
    const emu_view *x = emu_op_in(&op, "self", self), *y = emu_op_out(&op, "out", out);
    emu_op_dtype(&op, "self", x, EMU_FLOATS);
    // UNVERIFIED: some products or versions give FP32 results of half inputs
    bool wide = y->dtype == ACL_FLOAT && emu()->config.lenient && emu_op_on(&op, EMU_ON_A2_UP);
    if (!wide) emu_op_same_dtype(&op, "out", y, "self", x);
    emu_op_same_shape(&op, "out", y, "self", x);
    norm_attrs attrs = {.dim = op_dim(&op, dim, x), .log = !strcmp(name, "aclnnLogSoftmax")};
    return emu_op_finish(
        &op,
        &(emu_op_plan){.kernel = run_softmax, .attrs = &attrs, .attrs_size = sizeof attrs, .workspace = 32 * 1024});
}
aclnnStatus aclnnSoftmaxGetWorkspaceSize(const aclTensor *self, int64_t dim, aclTensor *out, WS) {
    return softmax("aclnnSoftmax", self, dim, out, workspaceSize, executor);
}
EMU_PHASE_2(aclnnSoftmax)
aclnnStatus aclnnLogSoftmaxGetWorkspaceSize(const aclTensor *self, int64_t dim, aclTensor *out, WS) {
    return softmax("aclnnLogSoftmax", self, dim, out, workspaceSize, executor);
}
EMU_PHASE_2(aclnnLogSoftmax)

// ---- gated activations -------------------------------------------------------------------------------------------------

static aclError run_glu(const emu_run *run) {
    const norm_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0), out = op_view(run, 1), act;
    struct em_glu g = {.x = &x, .out = &out, .dim = t->dim, .act = t->act, .gate_right = t->right};
    g.act_out = op_optional(run, 2, &act);
    return op_done(run, em_glu(&g));
}

static void check_glu(emu_op *op, const emu_view *x, const emu_view *out, int dim) {
    emu_op_dtype(op, "x", x, EMU_FLOATS);
    emu_op_same_dtype(op, "out", out, "x", x);
    if (!emu_op_ok(op) ||
        !emu_op_need(op, x->rank >= 1 && out->rank == x->rank, "x has rank %d, out %d", x->rank, out->rank))
        return;
    for (int i = 0; i < x->rank; i++)
        emu_op_need(op, i == dim ? 2 * out->dim[i] == x->dim[i] : out->dim[i] == x->dim[i],
                    "dimension %d of out is %lld, of x %lld", i, (long long)out->dim[i], (long long)x->dim[i]);
}

aclnnStatus aclnnSwiGluGetWorkspaceSize(const aclTensor *x, int64_t dim, const aclTensor *out, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnSwiGlu", workspaceSize, executor);
    const emu_view *xv = emu_op_in(&op, "x", x), *ov = emu_op_out(&op, "out", out);
    norm_attrs attrs = {.dim = op_dim(&op, dim, xv)};
    check_glu(&op, xv, ov, attrs.dim);
    emu_op_contiguous(&op, "x", xv);
    emu_op_contiguous(&op, "out", ov);
    if (emu_op_chip(&op)->family == EMU_310P) {
        emu_op_not_empty(&op, "x", xv);
        if (emu_op_ok(&op))
            emu_op_need(&op, ov->dim[attrs.dim] * emu_dtype_bits(ov->dtype) / 8 % 64 == 0,
                        "each half is a multiple of 64 bytes here");
    }
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_glu, .attrs = &attrs, .attrs_size = sizeof attrs, .workspace = 64 * 1024});
}
EMU_PHASE_2(aclnnSwiGlu)

aclnnStatus aclnnGeGluV3GetWorkspaceSize(const aclTensor *self, int64_t dim, int64_t approximate, bool activateLeft,
                                         aclTensor *out, aclTensor *outGelu, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnGeGluV3", workspaceSize, executor);
    const emu_view *x = emu_op_in(&op, "self", self), *o = emu_op_out(&op, "out", out),
                   *g = emu_op_out(&op, "outGelu", outGelu);
    norm_attrs attrs = {.dim = op_dim(&op, dim, x), .act = approximate ? 2 : 1, .right = !activateLeft};
    check_glu(&op, x, o, attrs.dim);
    emu_op_same_shape(&op, "outGelu", g, "out", o);
    emu_op_same_dtype(&op, "outGelu", g, "out", o);
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_glu, .attrs = &attrs, .attrs_size = sizeof attrs, .workspace = 64 * 1024});
}
EMU_PHASE_2(aclnnGeGluV3)
