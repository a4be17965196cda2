// Grouped matrix products: rows of x in groups, each group by a weight of its own. Only unquantised types, groupType -1 and 0.
#include "emulator/aclnn/ops/common.h"

#include <stdlib.h>
#include <string.h>

enum { X, W, BIAS, LIST, OUT };

typedef struct {
    const char *name;
    const aclTensorList *x, *w, *bias, *out;
    const aclTensor *list;
    const aclIntArray *host_list; // V1 and V2
    int64_t split, type, list_type, act;
    const aclIntArray *tuning;
    bool nz;
    const void *unsupported[12];
} request;

typedef struct {
    int nx, nw, no;
    bool stacked; // one weight (E, K, N)
    int64_t groups, list_type;
    const int64_t *host_list;
} grouped_attrs;

// Row ranges of the groups; a fault where they do not fit M.
static aclError ranges(const emu_run *run, int64_t m, int64_t *from, int64_t *count) {
    const grouped_attrs *t = run->attrs;
    struct em_view list = op_view(run, LIST);
    int64_t at = 0;
    for (int64_t g = 0; g < t->groups; g++) from[g] = count[g] = 0;
    int64_t n = list.absent ? t->groups : list.dim[0];
    for (int64_t g = 0; g < n; g++) {
        int64_t v = list.absent ? t->host_list[g] : em_index(&list, t->list_type == 2 ? 2 * g : g), group = g;
        if (t->list_type == 2) {
            group = v, v = em_index(&list, 2 * g + 1);
            if (v == 0 && g) break; // the list of pairs may be shorter than the groups
            if (group < 0 || group >= t->groups)
                return emu_run_fault(run, "groupList names group %lld of %lld", (long long)group, (long long)t->groups);
        }
        int64_t rows = t->list_type == 0 ? v - at : v;
        if (rows < 0)
            return emu_run_fault(run, "groupList falls from %lld to %lld: groupListType 0 is cumulative, 1 counts",
                                 (long long)at, (long long)v);
        from[group] = at, count[group] = rows;
        at += rows;
        if (at > m)
            return emu_run_fault(run, "groupList wants %lld rows, x has %lld: groupListType 0 is cumulative, 1 counts",
                                 (long long)at, (long long)m);
    }
    return ACL_SUCCESS;
}

static struct em_view rows_of(const struct em_view *v, int64_t from, int64_t count) {
    struct em_view r = *v;
    r.dim[0] = count;
    r.p += from * v->stride[0] * (int64_t)em_dtype_size(v->dtype);
    return r;
}

static struct em_view weight_of(const emu_run *run, const grouped_attrs *t, int64_t g) {
    struct em_view w = op_view_at(run, W, t->stacked ? 0 : (int)g);
    if (w.rank == 2) return w;
    int64_t size = (int64_t)em_dtype_size(w.dtype), step = w.stride[0];
    if (w.nz) {
        int64_t r = w.nz_turned ? w.dim[2] : w.dim[1], c = w.nz_turned ? w.dim[1] : w.dim[2], c0 = 32 / size;
        step = (c + c0 - 1) / c0 * c0 * ((r + 15) / 16 * 16);
    }
    w.p += g * step * size;
    w.rank = 2;
    w.dim[0] = w.dim[1], w.dim[1] = w.dim[2];
    w.stride[0] = w.stride[1], w.stride[1] = w.stride[2];
    return w;
}

static aclError run_grouped(const emu_run *run) {
    const grouped_attrs *t = run->attrs;
    struct em_view x = op_view(run, X), out = op_view(run, OUT);
    bool single = t->nx == 1 && t->no == 1 && (t->host_list || !op_view(run, LIST).absent);
    int64_t *from = calloc((size_t)t->groups * 2 + 1, sizeof *from);
    if (!from) return op_done(run, EM_NO_MEMORY);
    aclError rc = single ? ranges(run, x.dim[0], from, from + t->groups) : ACL_SUCCESS;
    for (int64_t g = 0; rc == ACL_SUCCESS && g < t->groups; g++) {
        struct em_matmul m = {.alpha = 1, .order = op_order(run), .b = weight_of(run, t, g)};
        struct em_view bias = op_view_at(run, BIAS, t->stacked ? 0 : (int)g);
        if (t->stacked && !bias.absent && bias.rank == 2)
            bias.p += g * bias.stride[0] * (int64_t)em_dtype_size(bias.dtype);
        if (!bias.absent) m.bias = &bias;
        m.a = single ? rows_of(&x, from[g], from[t->groups + g]) : op_view_at(run, X, (int)g);
        m.out = single ? rows_of(&out, from[g], from[t->groups + g]) : op_view_at(run, OUT, (int)g);
        rc = op_done(run, em_matmul(&m));
    }
    free(from);
    return rc;
}

// Before anything is looked up by the number of a weight.
static void check_counts(emu_op *op, const grouped_attrs *t, int nb) {
    emu_op_need(op, t->nx >= 1 && t->nw >= 1 && t->no >= 1, "x, weight and out hold %d, %d and %d tensors", t->nx,
                t->nw, t->no);
    emu_op_need(op, (t->nx == 1 || t->nx == t->nw) && (t->no == 1 || t->no == t->nw) && (nb <= 1 || nb == t->nw),
                "%d of x, %d biases and %d of out for %d weights: one, or as many", t->nx, nb, t->no, t->nw);
}

static void check_types(emu_op *op, const emu_view *x, const emu_view *w, const emu_view *b, const emu_view *o,
                        bool nz) {
    emu_op_rank(op, "x", x, 2, 2);
    emu_op_rank(op, "weight", w, 2, 3);
    emu_op_dtype(op, "x", x, emu_op_on(op, EMU_ON(EMU_310P)) ? EMU_DT(FLOAT16) : EMU_FLOATS);
    emu_op_same_dtype(op, "weight", w, "x", x);
    emu_op_same_dtype(op, "out", o, "x", x);
    if (!emu_op_ok(op)) return;
    if (b) {
        aclDataType want = x->dtype == ACL_BF16 ? ACL_FLOAT : x->dtype;
        emu_op_need(op, b->dtype == want, "the bias of %s is %s, not %s", emu_dtype_name(x->dtype),
                    emu_dtype_name(want), emu_dtype_name(b->dtype));
    }
    emu_op_contiguous(op, "x", x);
    emu_op_contiguous(op, "out", o);
    bool is_nz = w->format == ACL_FORMAT_FRACTAL_NZ;
    emu_op_need(op, is_nz || !nz, "the weight of this operator is FRACTAL_NZ");
    emu_op_need(op, !is_nz || x->dtype != ACL_FLOAT, "a FRACTAL_NZ weight is FP16 or BF16 here");
    if (is_nz && emu_op_ok(op)) op_need_nz(op, "weight", w, op_nz_turned(w));
    // transposed: the last two strides swapped; nothing else is allowed
    int r = w->rank;
    bool turned =
        w->stride[r - 2] == 1 && w->stride[r - 1] == w->dim[r - 2] && (r < 3 || w->stride[0] == w->dim[1] * w->dim[2]);
    emu_op_need(op, turned || is_nz || emu_view_contiguous(w),
                "the weight is contiguous, or transposed in its last two dimensions");
    emu_op_need(op, x->dim[x->rank - 1] < 65536 && w->dim[r - 1] < 65536, "the last dimension is under 65536");
}

// (groups, N) of a stacked weight, else (N) of each.
static void check_bias(emu_op *op, const grouped_attrs *t, const emu_view *w, const emu_view *b, int nb) {
    if (!b) return;
    emu_op_need(op, nb == t->nw, "%d biases for %d weights", nb, t->nw);
    for (int i = 0; i < nb && emu_op_ok(op); i++) {
        const int64_t dim[2] = {t->groups, w[i].dim[w[i].rank - 1]};
        emu_op_shape(op, "bias", &b[i], t->stacked ? 2 : 1, t->stacked ? dim : dim + 1);
    }
}

static void check_list(emu_op *op, const grouped_attrs *t, const emu_view *list, int n_host) {
    emu_op_dtype(op, "groupList", list, EMU_DT(INT64));
    emu_op_shape(op, "groupList", list, t->list_type == 2 ? 2 : 1, (int64_t[]){t->groups, 2});
    emu_op_need(op, list || n_host == t->groups, "groupList has %d entries for %lld groups", n_host,
                (long long)t->groups);
}

static void check_pair(emu_op *op, const emu_view *x, const emu_view *w, const emu_view *o, int64_t rows) {
    if (!emu_op_ok(op)) return;
    int64_t k = w->dim[w->rank - 2], n = w->dim[w->rank - 1];
    emu_op_need(op, x->rank == 2 && x->dim[1] == k, "x has rows of %lld, the weight takes %lld",
                (long long)x->dim[x->rank - 1], (long long)k);
    emu_op_shape(op, "out", o, 2, (int64_t[]){rows, n});
}

static aclnnStatus grouped(const request *r, WS) {
    emu_op op;
    emu_op_begin(&op, r->name, workspaceSize, executor);
    grouped_attrs t = {.list_type = r->list_type};
    int nb = 0, nl = 0, nt = 0;
    const emu_view *x = emu_op_in_list(&op, "x", r->x, &t.nx), *w = emu_op_in_list(&op, "weight", r->w, &t.nw);
    const emu_view *b = emu_op_in_list_opt(&op, "bias", r->bias, &nb);
    const emu_view *list = emu_op_in_opt(&op, "groupList", r->list), *o = emu_op_out_list(&op, "out", r->out, &t.no);
    t.host_list = r->host_list ? emu_op_ints_opt(&op, "groupList", r->host_list, &nl) : NULL;
    const int64_t *tuning = r->tuning ? emu_op_ints_opt(&op, "tuningConfig", r->tuning, &nt) : NULL;
    const int64_t number[] = {r->split, r->type, r->list_type, r->act};
    for (int i = 0; i < 4; i++) emu_op_sign(&op, number[i]);
    for (int i = 0; i < 12; i++) op_absent(&op, "a quantisation or activation argument", r->unsupported[i]);
    emu_op_need(&op, r->act == 0, "actType %lld exists for quantised types only", (long long)r->act);
    emu_op_need(&op, r->split >= 0 && r->split <= 3, "splitItem %lld is not between 0 and 3", (long long)r->split);
    emu_op_need(&op, r->type == 0 || r->type == -1, "groupType %lld is not emulated: -1 or 0", (long long)r->type);
    emu_op_need(&op, r->list_type >= 0 && r->list_type <= 2, "groupListType %lld is not between 0 and 2",
                (long long)r->list_type);
    check_counts(&op, &t, nb);
    for (int i = 0; emu_op_ok(&op) && i < t.nw; i++)
        check_types(&op, &x[t.nx > 1 ? i : 0], &w[i], nb ? &b[nb > 1 ? i : 0] : NULL, &o[t.no > 1 ? i : 0], r->nz);
    if (emu_op_ok(&op)) {
        t.stacked = t.nw == 1 && w->rank == 3;
        t.groups = t.stacked ? w->dim[0] : t.nw;
        emu_op_need(&op, t.groups <= (t.stacked ? 1024 : 128), "%lld groups", (long long)t.groups);
        for (int i = 0; i < t.nw; i++) emu_op_rank(&op, "weight", &w[i], t.stacked ? 3 : 2, t.stacked ? 3 : 2);
        check_bias(&op, &t, w, b, nb);
        for (int i = 0; i < nt && emu_op_ok(&op); i++)
            emu_op_need(&op, tuning[i] <= x->dim[0], "tuningConfig[%d] exceeds M", i);
    }
    bool listed = list || t.host_list;
    emu_op_need(&op, r->type != 0 || listed, "groupType 0 needs a groupList");
    if (emu_op_ok(&op) && r->type == 0 && t.nx == 1) {
        emu_op_need(&op, t.no == 1 && r->split >= 2, "groupType 0 with one x has one output and splitItem 2 or 3");
        check_list(&op, &t, list, nl);
        for (int i = 0; i < t.nw; i++) check_pair(&op, x, &w[i], o, x->dim[0]);
    } else if (emu_op_ok(&op)) {
        emu_op_need(&op, t.nx == t.nw && t.no == t.nw && !t.stacked && !listed,
                    "lists of x, weight and out of one length, without groupList");
        for (int i = 0; emu_op_ok(&op) && i < t.nw; i++) check_pair(&op, &x[i], &w[i], &o[i], x[i].dim[0]);
    }
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_grouped, .attrs = &t, .attrs_size = sizeof t, .workspace = 256 * 1024});
}

// ---- the vendor's argument lists ---------------------------------------------------------------------------------------

#define OLD_LISTS \
    const aclTensorList *x, const aclTensorList *weight, const aclTensorList *biasOptional, \
        const aclTensorList *scaleOptional, const aclTensorList *offsetOptional, \
        const aclTensorList *antiquantScaleOptional, const aclTensorList *antiquantOffsetOptional
#define NEW_ARGS \
    const aclTensorList *perTokenScaleOptional, const aclTensor *groupListOptional, \
        const aclTensorList *activationInputOptional, const aclTensorList *activationQuantScaleOptional, \
        const aclTensorList *activationQuantOffsetOptional, int64_t splitItem, int64_t groupType, \
        int64_t groupListType, int64_t actType
#define NEW_OUTPUTS \
    aclTensorList *out, aclTensorList *activationFeatureOutOptional, aclTensorList *dynQuantScaleOutOptional, WS
#define OLD_UNSUPPORTED scaleOptional, offsetOptional, antiquantScaleOptional, antiquantOffsetOptional
#define NEW_REQUEST(title) \
    request r = {.name = title, \
                 .x = x, \
                 .w = weight, \
                 .bias = biasOptional, \
                 .out = out, \
                 .list = groupListOptional, \
                 .split = splitItem, \
                 .type = groupType, \
                 .list_type = groupListType, \
                 .act = actType, \
                 .unsupported = {OLD_UNSUPPORTED, perTokenScaleOptional, activationInputOptional, \
                                 activationQuantScaleOptional, activationQuantOffsetOptional, \
                                 activationFeatureOutOptional, dynQuantScaleOutOptional}}

aclnnStatus aclnnGroupedMatmulGetWorkspaceSize(OLD_LISTS, const aclIntArray *groupListOptional, int64_t splitItem,
                                               const aclTensorList *y, WS) {
    request r = {.name = "aclnnGroupedMatmul",
                 .x = x,
                 .w = weight,
                 .bias = biasOptional,
                 .out = y,
                 .host_list = groupListOptional,
                 .split = splitItem,
                 .type = groupListOptional ? 0 : -1,
                 .unsupported = {OLD_UNSUPPORTED}};
    return grouped(&r, workspaceSize, executor);
}
EMU_PHASE_2(aclnnGroupedMatmul)

aclnnStatus aclnnGroupedMatmulV2GetWorkspaceSize(OLD_LISTS, const aclIntArray *groupListOptional, int64_t splitItem,
                                                 int64_t groupType, const aclTensorList *y, WS) {
    request r = {.name = "aclnnGroupedMatmulV2",
                 .x = x,
                 .w = weight,
                 .bias = biasOptional,
                 .out = y,
                 .host_list = groupListOptional,
                 .split = splitItem,
                 .type = groupType,
                 .unsupported = {OLD_UNSUPPORTED}};
    return grouped(&r, workspaceSize, executor);
}
EMU_PHASE_2(aclnnGroupedMatmulV2)

aclnnStatus aclnnGroupedMatmulV3GetWorkspaceSize(OLD_LISTS, const aclTensor *groupListOptional, int64_t splitItem,
                                                 int64_t groupType, const aclTensorList *y, WS) {
    request r = {.name = "aclnnGroupedMatmulV3",
                 .x = x,
                 .w = weight,
                 .bias = biasOptional,
                 .out = y,
                 .list = groupListOptional,
                 .split = splitItem,
                 .type = groupType,
                 .unsupported = {OLD_UNSUPPORTED}};
    return grouped(&r, workspaceSize, executor);
}
EMU_PHASE_2(aclnnGroupedMatmulV3)

aclnnStatus aclnnGroupedMatmulV4GetWorkspaceSize(OLD_LISTS, NEW_ARGS, NEW_OUTPUTS) {
    NEW_REQUEST("aclnnGroupedMatmulV4");
    return grouped(&r, workspaceSize, executor);
}
EMU_PHASE_2(aclnnGroupedMatmulV4)

aclnnStatus aclnnGroupedMatmulV5GetWorkspaceSize(OLD_LISTS, NEW_ARGS, const aclIntArray *tuningConfigOptional,
                                                 NEW_OUTPUTS) {
    NEW_REQUEST("aclnnGroupedMatmulV5");
    r.tuning = tuningConfigOptional;
    return grouped(&r, workspaceSize, executor);
}
EMU_PHASE_2(aclnnGroupedMatmulV5)

aclnnStatus aclnnGroupedMatmulWeightNzGetWorkspaceSize(OLD_LISTS, NEW_ARGS, const aclIntArray *tuningConfigOptional,
                                                       int64_t quantGroupSize, NEW_OUTPUTS) {
    NEW_REQUEST("aclnnGroupedMatmulWeightNz");
    (void)quantGroupSize; // of quantised weights, which are refused
    r.tuning = tuningConfigOptional, r.nz = true;
    return grouped(&r, workspaceSize, executor);
}
EMU_PHASE_2(aclnnGroupedMatmulWeightNz)
