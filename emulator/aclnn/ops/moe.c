// Mixture of experts: gating, routing of rows to experts and back.
#include "emulator/aclnn/ops/common.h"

#include <string.h>

typedef struct {
    int64_t k, groups, kept;
    bool renorm, sigmoid, sum2;
    double factor, eps;
    int bias, finished, row, all; // slots; -1: the operator has no such argument
} gating_attrs;

enum { X, Y, EXPERT, OTHER }; // slots of the gating operators; OTHER and more vary

static aclError run_gating(const emu_run *run) {
    const gating_attrs *t = run->attrs;
    struct em_view x = op_view(run, X), y = op_view(run, Y), expert = op_view(run, EXPERT), f, b, r, all;
    struct em_gating g = {.x = &x,
                          .y = &y,
                          .expert = &expert,
                          .k = t->k,
                          .renorm = t->renorm,
                          .sigmoid = t->sigmoid,
                          .groups = t->groups,
                          .groups_kept = t->kept,
                          .group_sum2 = t->sum2,
                          .factor = t->factor,
                          .eps = t->eps,
                          .order = op_order(run)};
    if (t->finished >= 0) g.finished = op_optional(run, t->finished, &f);
    if (t->bias >= 0) g.bias = op_optional(run, t->bias, &b);
    if (t->row >= 0) g.row = op_optional(run, t->row, &r);
    if (t->all >= 0) g.all = op_optional(run, t->all, &all);
    return op_done(run, em_gating(&g));
}

static void check_gating(emu_op *op, const emu_view *x, const emu_view *y, const emu_view *e, int64_t k) {
    emu_op_dtype(op, "x", x, emu_op_on(op, EMU_ON(EMU_310P)) ? EMU_DT(FLOAT16) : EMU_FLOATS);
    emu_op_rank(op, "x", x, 2, 3);
    emu_op_same_dtype(op, "yOut", y, "x", x);
    emu_op_dtype(op, "expertIdxOut", e, EMU_DT(INT32));
    emu_op_sign(op, k);
    if (!emu_op_ok(op)) return;
    int64_t experts = x->dim[x->rank - 1], most = experts < 1024 ? experts : 1024, want[3] = {x->dim[0], x->dim[1], k};
    emu_op_need(op, k >= 0 && k <= most, "k is %lld; at most %lld", (long long)k, (long long)most);
    want[x->rank - 1] = k;
    emu_op_shape(op, "yOut", y, x->rank, want);
    emu_op_shape(op, "expertIdxOut", e, x->rank, want);
    if (emu_op_chip(op)->family == EMU_310P)
        emu_op_need(op, experts <= 256 && experts % 16 == 0,
                    "%lld experts: a multiple of 16, at most 256, on this chip", (long long)experts);
    if (emu_op_chip(op)->family == EMU_950)
        emu_op_need(op, experts <= 2048, "%lld experts; at most 2048", (long long)experts);
}

static void check_finished(emu_op *op, const emu_view *f, const emu_view *x) {
    emu_op_dtype(op, "finished", f, EMU_DT(BOOL));
    if (f && emu_op_ok(op))
        emu_op_need(op, f->numel == x->numel / (x->dim[x->rank - 1] ? x->dim[x->rank - 1] : 1),
                    "finished has one number per row");
}

aclnnStatus aclnnMoeGatingTopKSoftmaxGetWorkspaceSize(const aclTensor *x, const aclTensor *finishedOptional, int64_t k,
                                                      const aclTensor *yOut, const aclTensor *expertIdxOut,
                                                      const aclTensor *rowIdxOut, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnMoeGatingTopKSoftmax", workspaceSize, executor);
    const emu_view *xv = emu_op_in(&op, "x", x), *y = emu_op_out(&op, "yOut", yOut),
                   *e = emu_op_out(&op, "expertIdxOut", expertIdxOut);
    const emu_view *r = emu_op_out(&op, "rowIdxOut", rowIdxOut), *f = emu_op_in_opt(&op, "finished", finishedOptional);
    check_gating(&op, xv, y, e, k);
    emu_op_dtype(&op, "rowIdxOut", r, EMU_DT(INT32));
    emu_op_same_shape(&op, "rowIdxOut", r, "yOut", y);
    check_finished(&op, f, xv);
    gating_attrs attrs = {
        .k = k, .groups = 1, .kept = 1, .factor = 1, .row = OTHER, .finished = OTHER + 1, .bias = -1, .all = -1};
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_gating, .attrs = &attrs, .attrs_size = sizeof attrs, .workspace = 32 * 1024});
}
EMU_PHASE_2(aclnnMoeGatingTopKSoftmax)

aclnnStatus aclnnMoeGatingTopKSoftmaxV2GetWorkspaceSize(const aclTensor *x, const aclTensor *finishedOptional,
                                                        int64_t k, int64_t renorm, bool outputSoftmaxResultFlag,
                                                        const aclTensor *yOut, const aclTensor *expertIdxOut,
                                                        const aclTensor *softmaxResultOutOptional, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnMoeGatingTopKSoftmaxV2", workspaceSize, executor);
    const emu_view *xv = emu_op_in(&op, "x", x), *y = emu_op_out(&op, "yOut", yOut),
                   *e = emu_op_out(&op, "expertIdxOut", expertIdxOut);
    bool all = outputSoftmaxResultFlag && !renorm;
    const emu_view *s = all ? emu_op_out(&op, "softmaxResultOut", softmaxResultOutOptional)
                            : emu_op_out_opt(&op, "softmaxResultOut", NULL);
    const emu_view *f = emu_op_in_opt(&op, "finished", finishedOptional);
    check_gating(&op, xv, y, e, k);
    emu_op_sign(&op, renorm);
    emu_op_need(&op, renorm == 0 || renorm == 1, "renorm is %lld, not 0 or 1", (long long)renorm);
    emu_op_dtype(&op, "softmaxResultOut", s, EMU_DT(FLOAT));
    if (s) emu_op_same_shape(&op, "softmaxResultOut", s, "x", xv);
    check_finished(&op, f, xv);
    gating_attrs attrs = {.k = k,
                          .groups = 1,
                          .kept = 1,
                          .factor = 1,
                          .renorm = renorm,
                          .row = -1,
                          .finished = OTHER + 1,
                          .bias = -1,
                          .all = OTHER};
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_gating, .attrs = &attrs, .attrs_size = sizeof attrs, .workspace = 32 * 1024});
}
EMU_PHASE_2(aclnnMoeGatingTopKSoftmaxV2)

aclnnStatus aclnnMoeGatingTopKGetWorkspaceSize(const aclTensor *x, const aclTensor *biasOptional, int64_t k,
                                               int64_t kGroup, int64_t groupCount, int64_t groupSelectMode,
                                               int64_t renorm, int64_t normType, bool outFlag,
                                               double routedScalingFactor, double eps, const aclTensor *yOut,
                                               const aclTensor *expertIdxOut, const aclTensor *outOut, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnMoeGatingTopK", workspaceSize, executor);
    const emu_view *xv = emu_op_in(&op, "x", x), *y = emu_op_out(&op, "yOut", yOut),
                   *e = emu_op_out(&op, "expertIdxOut", expertIdxOut);
    const emu_view *o = outFlag ? emu_op_out(&op, "outOut", outOut) : emu_op_out_opt(&op, "outOut", NULL);
    const emu_view *b = emu_op_in_opt(&op, "bias", biasOptional);
    check_gating(&op, xv, y, e, k);
    emu_op_rank(&op, "x", xv, 2, 2);
    emu_op_same_dtype(&op, "bias", b, "x", xv);
    emu_op_dtype(&op, "outOut", o, EMU_DT(FLOAT));
    if (o) emu_op_same_shape(&op, "outOut", o, "x", xv);
    if (emu_op_ok(&op)) {
        int64_t experts = xv->dim[1];
        emu_op_need(&op, groupCount >= 1 && experts % groupCount == 0 && kGroup >= 1 && kGroup <= groupCount,
                    "%lld of %lld groups of %lld experts", (long long)kGroup, (long long)groupCount,
                    (long long)experts);
        if (emu_op_ok(&op))
            emu_op_need(&op, k >= 1 && k <= experts / groupCount * kGroup, "k is %lld, the groups hold fewer",
                        (long long)k);
        emu_op_need(&op, (groupSelectMode & ~1) == 0 && (renorm & ~1) == 0 && normType >= 0 && normType <= 1,
                    "groupSelectMode %lld, renorm %lld, normType %lld: 0 or 1 each", (long long)groupSelectMode,
                    (long long)renorm, (long long)normType);
        emu_op_need(&op, !b || b->numel == experts, "bias has one number per expert");
    }
    gating_attrs attrs = {.k = k,
                          .groups = groupCount,
                          .kept = kGroup,
                          .sum2 = groupSelectMode == 1,
                          .renorm = renorm || normType == 1,
                          .sigmoid = normType == 1,
                          .factor = routedScalingFactor,
                          .eps = eps,
                          .row = -1,
                          .finished = -1,
                          .bias = OTHER + 1,
                          .all = OTHER};
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_gating, .attrs = &attrs, .attrs_size = sizeof attrs, .workspace = 32 * 1024});
}
EMU_PHASE_2(aclnnMoeGatingTopK)

// ---- rows to experts ---------------------------------------------------------------------------------------------------

typedef struct {
    int64_t active, capacity, experts, first, last;
    bool pad, scatter, v3;
    int counts_as;
} init_attrs;

static aclError
run_init(const emu_run *run) { // slots x, expertIdx, scale, expandedX, rowIdx, counts, before, expandedScale
    const init_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0), e = op_view(run, 1), s, ex = op_view(run, 3), row = op_view(run, 4), c, before,
                   es;
    struct em_init_routing r = {.x = &x,
                                .expert = &e,
                                .expanded = &ex,
                                .row_idx = &row,
                                .active = t->active,
                                .capacity = t->capacity,
                                .experts = t->experts,
                                .first = t->first,
                                .last = t->last,
                                .pad = t->pad,
                                .counts_as = t->counts_as,
                                .scatter_index = t->scatter};
    r.scale = op_optional(run, 2, &s), r.counts = op_optional(run, 5, &c);
    r.before = op_optional(run, 6, &before), r.expanded_scale = op_optional(run, 7, &es);
    return op_done(run, em_init_routing(&r));
}

static void check_init(emu_op *op, init_attrs *t, const emu_view *x, const emu_view *e, const emu_view *ex,
                       const emu_view *row) {
    emu_op_dtype(op, "x", x, EMU_FLOATS | EMU_DT(INT8));
    emu_op_dtype(op, "expertIdx", e, EMU_DT(INT32));
    emu_op_rank(op, "x", x, 2, 2);
    emu_op_rank(op, "expertIdx", e, 2, 2);
    emu_op_same_dtype(op, "expandedXOut", ex, "x", x);
    emu_op_dtype(op, "expandedRowIdxOut", row, EMU_DT(INT32));
    if (!emu_op_ok(op)) return;
    int64_t n = e->numel, h = x->dim[1], active = t->active > 0 && t->active < n ? t->active : n;
    emu_op_need(op, x->dim[0] == e->dim[0], "x has %lld rows, expertIdx %lld", (long long)x->dim[0],
                (long long)e->dim[0]);
    emu_op_need(op, t->experts > 0 && t->experts <= 10240, "expertNum is %lld", (long long)t->experts);
    emu_op_need(op, !t->pad || (t->capacity > 0 && t->capacity <= x->dim[0]), "expertCapacity is %lld for %lld rows",
                (long long)t->capacity, (long long)x->dim[0]);
    if (t->pad)
        emu_op_shape(op, "expandedXOut", ex, 3, (int64_t[]){t->experts, t->capacity, h});
    else
        emu_op_shape(op, "expandedXOut", ex, 2, (int64_t[]){active, h});
    emu_op_shape(op, "expandedRowIdxOut", row, 1, (int64_t[]){n});
    if (emu_op_chip(op)->family == EMU_310P)
        emu_op_need(op, h % 32 == 0 && !t->pad, "310P takes H %% 32 == 0 and dropPadMode 0");
    t->active = active;
    t->last = t->last ? t->last : t->experts;
}

aclnnStatus aclnnMoeInitRoutingV2GetWorkspaceSize(
    const aclTensor *x, const aclTensor *expertIdx, int64_t activeNumOptional, int64_t expertCapacityOptional,
    int64_t expertNumOptional, int64_t dropPadModeOptional, int64_t expertTokensCountOrCumsumFlagOptional,
    bool expertTokensBeforeCapacityFlagOptional, const aclTensor *expandedXOut, const aclTensor *expandedRowIdxOut,
    const aclTensor *expertTokensCountOrCumsumOutOptional, const aclTensor *expertTokensBeforeCapacityOutOptional, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnMoeInitRoutingV2", workspaceSize, executor);
    int64_t flag = expertTokensCountOrCumsumFlagOptional;
    init_attrs t = {.active = activeNumOptional,
                    .capacity = expertCapacityOptional,
                    .experts = expertNumOptional,
                    .pad = dropPadModeOptional == 1,
                    .counts_as = (int)flag};
    const emu_view *xv = emu_op_in(&op, "x", x), *e = emu_op_in(&op, "expertIdx", expertIdx);
    emu_op_in_opt(&op, "scale", NULL);
    const emu_view *ex = emu_op_out(&op, "expandedXOut", expandedXOut),
                   *row = emu_op_out(&op, "expandedRowIdxOut", expandedRowIdxOut);
    bool before = expertTokensBeforeCapacityFlagOptional && t.pad, counts = flag && !t.pad;
    const emu_view *c = counts ? emu_op_out(&op, "expertTokensCountOrCumsumOut", expertTokensCountOrCumsumOutOptional)
                               : emu_op_out_opt(&op, "expertTokensCountOrCumsumOut", NULL);
    const emu_view *b = before ? emu_op_out(&op, "expertTokensBeforeCapacityOut", expertTokensBeforeCapacityOutOptional)
                               : emu_op_out_opt(&op, "expertTokensBeforeCapacityOut", NULL);
    emu_op_need(&op, (dropPadModeOptional & ~1) == 0 && flag >= 0 && flag <= 2,
                "dropPadMode %lld is not 0 or 1, or the counts flag %lld not 0 to 2", (long long)dropPadModeOptional,
                (long long)flag);
    // expertNum matters only where counts or a capacity are asked for: without, ids go up to any number
    if (!counts && !t.pad && t.experts == 0) t.experts = 10240;
    check_init(&op, &t, xv, e, ex, row);
    emu_op_dtype(&op, "expertTokensCountOrCumsumOut", c, EMU_DT(INT32));
    emu_op_dtype(&op, "expertTokensBeforeCapacityOut", b, EMU_DT(INT32));
    emu_op_shape(&op, "expertTokensCountOrCumsumOut", c, 1, (int64_t[]){t.experts});
    emu_op_shape(&op, "expertTokensBeforeCapacityOut", b, 1, (int64_t[]){t.experts});
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_init, .attrs = &t, .attrs_size = sizeof t, .workspace = 64 * 1024});
}
EMU_PHASE_2(aclnnMoeInitRoutingV2)

aclnnStatus aclnnMoeInitRoutingV3GetWorkspaceSize(
    const aclTensor *x, const aclTensor *expertIdx, const aclTensor *scaleOptional, const aclTensor *offsetOptional,
    int64_t activeNum, int64_t expertCapacity, int64_t expertNum, int64_t dropPadMode, int64_t expertTokensNumType,
    bool expertTokensNumFlag, int64_t quantMode, const aclIntArray *activeExpertRangeOptional, int64_t rowIdxType,
    const aclTensor *expandedXOut, const aclTensor *expandedRowIdxOut, const aclTensor *expertTokensCountOrCumsumOut,
    const aclTensor *expandedScaleOut, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnMoeInitRoutingV3", workspaceSize, executor);
    init_attrs t = {.active = activeNum,
                    .capacity = expertCapacity,
                    .experts = expertNum,
                    .pad = dropPadMode == 1,
                    .v3 = true,
                    .counts_as = (int)expertTokensNumType + 1,
                    .scatter = rowIdxType == 1};
    const emu_view *xv = emu_op_in(&op, "x", x), *e = emu_op_in(&op, "expertIdx", expertIdx),
                   *s = emu_op_in_opt(&op, "scale", scaleOptional);
    const emu_view *ex = emu_op_out(&op, "expandedXOut", expandedXOut),
                   *row = emu_op_out(&op, "expandedRowIdxOut", expandedRowIdxOut);
    const emu_view *c = expertTokensNumFlag
                            ? emu_op_out(&op, "expertTokensCountOrCumsumOut", expertTokensCountOrCumsumOut)
                            : emu_op_out_opt(&op, "expertTokensCountOrCumsumOut", NULL);
    emu_op_out_opt(&op, "expertTokensBeforeCapacityOut", NULL);
    const emu_view *es = s ? emu_op_out(&op, "expandedScaleOut", expandedScaleOut)
                           : emu_op_out_opt(&op, "expandedScaleOut", expandedScaleOut);
    int n = 0;
    const int64_t *range = emu_op_ints_opt(&op, "activeExpertRange", activeExpertRangeOptional, &n);
    op_absent(&op, "offset", offsetOptional);
    emu_op_need(&op, quantMode == -1, "quantMode %lld is not emulated: pass -1", (long long)quantMode);
    emu_op_need(
        &op, (dropPadMode & ~1) == 0 && (rowIdxType & ~1) == 0 && expertTokensNumType >= 0 && expertTokensNumType <= 2,
        "dropPadMode, rowIdxType or expertTokensNumType out of range");
    emu_op_need(&op, n == 0 || n == 2, "activeExpertRange has %d numbers, not 2", n);
    if (emu_op_ok(&op) && n == 2) t.first = range[0], t.last = range[1];
    emu_op_need(&op, n == 0 || (t.first >= 0 && t.first < t.last && t.last <= expertNum),
                "activeExpertRange [%lld, %lld) of %lld experts", (long long)t.first, (long long)t.last,
                (long long)expertNum);
    if (emu_op_chip(&op)->family == EMU_950 && emu_op_ok(&op))
        emu_op_need(&op, expertTokensNumFlag && activeNum == e->numel,
                    "950 wants the counts and activeNum of all rows");
    check_init(&op, &t, xv, e, ex, row);
    emu_op_dtype(&op, "expertTokensCountOrCumsumOut", c, EMU_DT(INT64)); // UNVERIFIED for types 0 and 1
    if (expertTokensNumType == 2)
        emu_op_shape(&op, "expertTokensCountOrCumsumOut", c, 2, (int64_t[]){expertNum, 2});
    else
        emu_op_shape(&op, "expertTokensCountOrCumsumOut", c, 1, (int64_t[]){t.last - t.first});
    emu_op_dtype(&op, "expandedScaleOut", es, EMU_DT(FLOAT));
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_init, .attrs = &t, .attrs_size = sizeof t, .workspace = 64 * 1024});
}
EMU_PHASE_2(aclnnMoeInitRoutingV3)

// ---- and back ----------------------------------------------------------------------------------------------------------

typedef struct {
    bool row_order;
} finalize_attrs;

static aclError run_finalize(const emu_run *run) { // slots expandedX, rowIdx, x1, x2, bias, scales, expertIdx, out
    const finalize_attrs *t = run->attrs;
    struct em_view v[8];
    const struct em_view *p[8];
    for (int i = 0; i < 8; i++) p[i] = op_optional(run, i, &v[i]);
    struct em_finalize_routing f = {.expanded = p[0],
                                    .row_idx = p[1],
                                    .x1 = p[2],
                                    .x2 = p[3],
                                    .bias = p[4],
                                    .scales = p[5],
                                    .expert = p[6],
                                    .out = p[7],
                                    .row_order = t->row_order,
                                    .order = op_order(run)};
    return op_done(run, em_finalize_routing(&f));
}

aclnnStatus aclnnMoeFinalizeRoutingV2GetWorkspaceSize(const aclTensor *expandedX, const aclTensor *expandedRowIdx,
                                                      const aclTensor *x1Optional, const aclTensor *x2Optional,
                                                      const aclTensor *biasOptional, const aclTensor *scalesOptional,
                                                      const aclTensor *expertIdxOptional, int64_t dropPadMode,
                                                      const aclTensor *out, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnMoeFinalizeRoutingV2", workspaceSize, executor);
    const emu_view *x = emu_op_in(&op, "expandedX", expandedX), *row = emu_op_in(&op, "expandedRowIdx", expandedRowIdx);
    const emu_view *x1 = emu_op_in_opt(&op, "x1", x1Optional),
                   *x2 = x1 ? emu_op_in_opt(&op, "x2", x2Optional) : emu_op_in_opt(&op, "x2", NULL);
    const emu_view *b = emu_op_in_opt(&op, "bias", biasOptional), *s = emu_op_in_opt(&op, "scales", scalesOptional);
    const emu_view *e =
        b ? emu_op_in(&op, "expertIdx", expertIdxOptional) : emu_op_in_opt(&op, "expertIdx", expertIdxOptional);
    const emu_view *o = emu_op_out(&op, "out", out);
    emu_op_sign(&op, dropPadMode);
    emu_op_need(&op, dropPadMode >= 0 && dropPadMode <= 3, "dropPadMode %lld is not between 0 and 3",
                (long long)dropPadMode);
    emu_op_need(&op, dropPadMode == 2 || emu_op_chip(&op)->family != EMU_310P, "310P has dropPadMode 2 only");
    emu_op_need(&op, !x2Optional || x1Optional, "x2 comes with x1");
    emu_op_dtype(&op, "expandedX", x, EMU_FLOATS);
    emu_op_rank(&op, "expandedX", x, dropPadMode & 1 ? 3 : 2, dropPadMode & 1 ? 3 : 2);
    emu_op_rank(&op, "out", o, 2, 2);
    emu_op_same_dtype(&op, "out", o, "expandedX", x);
    emu_op_dtype(&op, "expandedRowIdx", row, EMU_DT(INT32));
    emu_op_dtype(&op, "expertIdx", e, EMU_DT(INT32));
    emu_op_same_dtype(&op, "x1", x1, "expandedX", x);
    emu_op_same_dtype(&op, "x2", x2, "expandedX", x);
    emu_op_same_dtype(&op, "bias", b, "expandedX", x);
    if (emu_op_ok(&op)) {
        bool wide = s && s->dtype == ACL_FLOAT && x->dtype == ACL_BF16 && emu_op_on(&op, EMU_ON_A2_UP);
        emu_op_need(&op, !s || s->dtype == x->dtype || wide, "scales are %s where expandedX is %s",
                    s ? emu_dtype_name(s->dtype) : "", emu_dtype_name(x->dtype));
        int64_t rows = o->dim[0], h = o->dim[1], k = s ? s->dim[1] : rows ? row->numel / rows : 0;
        emu_op_need(&op, x->dim[x->rank - 1] == h, "expandedX has rows of %lld, out of %lld",
                    (long long)x->dim[x->rank - 1], (long long)h);
        emu_op_need(&op, row->numel == rows * k, "expandedRowIdx has %lld entries, not %lld * %lld",
                    (long long)row->numel, (long long)rows, (long long)k);
        if (s) emu_op_shape(&op, "scales", s, 2, (int64_t[]){rows, k});
        if (x1) emu_op_shape(&op, "x1", x1, 2, (int64_t[]){rows, h});
        if (x2) emu_op_shape(&op, "x2", x2, 2, (int64_t[]){rows, h});
        if (e) emu_op_shape(&op, "expertIdx", e, 2, (int64_t[]){rows, k});
        if (b) emu_op_shape(&op, "bias", b, 2, (int64_t[]){-1, h});
        emu_op_need(&op, dropPadMode & 1 || row->numel == 0 || x->dim[0] <= row->numel,
                    "expandedX has more rows than expandedRowIdx");
    }
    finalize_attrs attrs = {.row_order = dropPadMode >= 2};
    return emu_op_finish(
        &op,
        &(emu_op_plan){.kernel = run_finalize, .attrs = &attrs, .attrs_size = sizeof attrs, .workspace = 32 * 1024});
}
EMU_PHASE_2(aclnnMoeFinalizeRoutingV2)
