// aclnnMatmul and its relatives.
#include "emulator/aclnn/ops/common.h"
#include "emulator/core/state.h"

#include <string.h>

// Where the documents do not call products deterministic: K may be split.
#define NO_CLAIM (EMU_ON(EMU_A2) | EMU_ON(EMU_A3))

typedef struct {
    enum em_precision precision;
    float alpha, beta;
    int add_slot; // of what is added; 0: nothing is
} matmul_attrs;

// ---- checks ----------------------------------------------------------------------------------------------------------

static void check_format(emu_op *op, const emu_view *a, const emu_view *b, bool want_nz) {
    op_no_nz(op, "self", a);
    if (!emu_op_ok(op)) return;
    bool nz = b->format == ACL_FORMAT_FRACTAL_NZ;
    emu_op_need(op, nz || !want_nz, "mat2 of a WeightNz operator is FRACTAL_NZ");
    if (!nz) return;
    emu_op_need(op, emu_op_chip(op)->family != EMU_910A, "FRACTAL_NZ weights do not exist on the first generation");
    bool turned = op_nz_turned(b);
    op_need_nz(op, "mat2", b, turned);
    if (!emu_op_ok(op)) return;
    int64_t k = b->dim[b->rank - 2], n = b->dim[b->rank - 1];
    emu_op_need(op, !want_nz || (k != 1 && n != 1), "k and n of a FRACTAL_NZ weight are not 1");
    if (b->storage_rank < 4) return; // a flat length, as some programs give it
    int64_t r = turned ? n : k, c = turned ? k : n, c0 = 32 * 8 / emu_dtype_bits(b->dtype);
    const int64_t *s = b->storage_dim + b->storage_rank - 4;
    emu_op_need(op, s[0] == (c + c0 - 1) / c0 && s[1] == (r + 15) / 16 && s[2] == 16 && s[3] == c0,
                "the storage shape [%lld, %lld, %lld, %lld] is not the FRACTAL_NZ of [%lld, %lld]", (long long)s[0],
                (long long)s[1], (long long)s[2], (long long)s[3], (long long)r, (long long)c);
}

static void check_types(emu_op *op, const emu_view *a, const emu_view *b, const emu_view *out, int8_t cube) {
    emu_op_dtype(op, "self", a, EMU_FLOATS);
    emu_op_dtype(op, "mat2", b, EMU_FLOATS);
    if (!emu_op_ok(op)) return;
    bool mixed = (a->dtype == ACL_BF16) != (b->dtype == ACL_BF16);
    emu_op_need(op, !mixed, "BF16 is multiplied with BF16 only, not with %s",
                emu_dtype_name(a->dtype == ACL_BF16 ? b->dtype : a->dtype));
    aclDataType type = (aclDataType)em_promote((int)a->dtype, (int)b->dtype);
    // UNVERIFIED: some products or versions give FP32 results of half inputs
    bool wide = out->dtype == ACL_FLOAT && emu()->config.lenient && emu_op_on(op, EMU_ON_A2_UP);
    emu_op_need(op, out->dtype == type || wide, "out is %s where the operands give %s", emu_dtype_name(out->dtype),
                emu_dtype_name(type));
    bool old = emu_op_on(op, EMU_ON(EMU_910A) | EMU_ON(EMU_310P));
    int most = emu_op_cann(op) == EMU_CANN_9_1 ? 4 : 3;
    emu_op_need(op, cube >= 0 && cube <= most, "cubeMathType %d is not between 0 and %d", cube, most);
    emu_op_need(op, !old || cube != 3, "cubeMathType 3 (HF32) does not exist on %s", emu_op_chip(op)->name);
    emu_op_need(op, !old || type != ACL_FLOAT || cube != 0, "FP32 with cubeMathType 0 is refused on %s",
                emu_op_chip(op)->name);
}

static enum em_precision precision_of(emu_op *op, int8_t cube) {
    emu_op_sign(op, cube);
    bool old = emu_op_on(op, EMU_ON(EMU_910A) | EMU_ON(EMU_310P));
    if (cube == 1) return old ? EM_AS_F16 : EM_HF32;
    return cube == 2 ? EM_AS_F16 : cube == 3 ? EM_HF32 : EM_KEEP;
}

// Shapes of a (broadcast) product: 1-D operands are rows or columns, as everywhere.
static void check_shapes(emu_op *op, const emu_view *a, const emu_view *b, const emu_view *out) {
    if (!emu_op_ok(op)) return;
    int64_t ka = a->dim[a->rank - 1], kb = b->rank > 1 ? b->dim[b->rank - 2] : b->dim[0];
    if (!emu_op_need(op, ka == kb, "the inner dimensions are %lld and %lld", (long long)ka, (long long)kb)) return;
    int ba = a->rank > 2 ? a->rank - 2 : 0, bb = b->rank > 2 ? b->rank - 2 : 0, batch = ba > bb ? ba : bb, n = 0;
    int64_t want[EMU_MAX_RANK];
    for (int i = 0; i < batch; i++) {
        int64_t da = i - (batch - ba) < 0 ? 1 : a->dim[i - (batch - ba)],
                db = i - (batch - bb) < 0 ? 1 : b->dim[i - (batch - bb)];
        if (!emu_op_need(op, da == db || da == 1 || db == 1, "batch dimension %d is %lld and %lld", i, (long long)da,
                         (long long)db))
            return;
        want[n++] = da == 1 ? db : da;
    }
    if (a->rank > 1) want[n++] = a->dim[a->rank - 2];
    if (b->rank > 1) want[n++] = b->dim[b->rank - 1];
    emu_op_shape(op, "out", out, n, want);
}

// ---- kernel ----------------------------------------------------------------------------------------------------------

static struct em_view matrix_of(const struct em_view *v, int rank_batch, const int64_t *batch, const int64_t *at) {
    struct em_view m = *v;
    int64_t off = 0, block = 0;
    int own = v->rank - 2;
    for (int i = 0; i < own; i++) {
        int64_t x = at[rank_batch - own + i] % v->dim[i];
        off += x * v->stride[i];
        block = block * v->dim[i] + x;
    }
    (void)batch;
    m.rank = 2;
    m.dim[0] = v->dim[own], m.dim[1] = v->dim[own + 1];
    m.stride[0] = v->stride[own], m.stride[1] = v->stride[own + 1];
    if (v->nz) {
        int64_t r = m.nz_turned ? m.dim[1] : m.dim[0], c = m.nz_turned ? m.dim[0] : m.dim[1];
        int64_t c0 = 32 / (int64_t)em_dtype_size(v->dtype);
        off = block * ((c + c0 - 1) / c0) * ((r + 15) / 16) * 16 * c0;
    }
    m.p += off * (int64_t)em_dtype_size(v->dtype);
    return m;
}

static aclError run_matmul(const emu_run *run) {
    const matmul_attrs *t = run->attrs;
    struct em_view a = op_view(run, 0), b = op_view(run, 1), out = op_view(run, 2), add = op_view(run, t->add_slot);
    if (a.rank == 1) { // a row
        a.rank = 2, a.dim[1] = a.dim[0], a.stride[1] = a.stride[0], a.dim[0] = 1, a.stride[0] = 0;
        if (out.rank) out.dim[out.rank] = out.dim[out.rank - 1], out.stride[out.rank] = out.stride[out.rank - 1];
        int at = out.rank ? out.rank - 1 : 0;
        out.dim[at] = 1, out.stride[at] = 0, out.rank++;
    }
    if (b.rank == 1) { // a column
        b.rank = 2, b.dim[1] = 1, b.stride[1] = 0;
        out.dim[out.rank] = 1, out.stride[out.rank] = 0, out.rank++;
    }
    struct em_matmul m = {.alpha = t->alpha, .beta = t->beta, .precision = t->precision, .order = op_order(run)};
    if (t->add_slot && t->beta != 0) {
        if (!em_broadcast(&add, out.rank, out.dim, &add)) return op_done(run, EM_OUT_OF_RANGE);
        m.add = &add;
    }
    int batch_rank = out.rank - 2, rc = EM_OK;
    int64_t count = 1;
    for (int i = 0; i < batch_rank; i++) count *= out.dim[i];
    for (int64_t i = 0; i < count && rc == EM_OK; i++) {
        int64_t at[EM_RANK];
        em_unravel(i, batch_rank, out.dim, at);
        m.a = matrix_of(&a, batch_rank, out.dim, at);
        m.b = matrix_of(&b, batch_rank, out.dim, at);
        m.out = matrix_of(&out, batch_rank, out.dim, at);
        rc = em_matmul(&m);
    }
    return op_done(run, rc);
}

// ---- phase 1 ---------------------------------------------------------------------------------------------------------

typedef struct {
    const char *name;
    const aclTensor *a, *b, *out;
    int8_t cube;
    int least, most;
    bool nz;
} product;

static aclnnStatus plain(const product *p, WS) {
    emu_op op;
    emu_op_begin(&op, p->name, workspaceSize, executor);
    const emu_view *a = emu_op_in(&op, "self", p->a), *b = emu_op_in(&op, "mat2", p->b),
                   *out = emu_op_out(&op, "out", p->out);
    emu_op_rank(&op, "self", a, p->least, p->most);
    emu_op_rank(&op, "mat2", b, p->least, p->most);
    check_types(&op, a, b, out, p->cube);
    op_no_nz(&op, "out", out);
    check_format(&op, a, b, p->nz);
    check_shapes(&op, a, b, out);
    matmul_attrs attrs = {.alpha = 1, .precision = precision_of(&op, p->cube)};
    uint64_t copies = emu_op_ok(&op) && !emu_view_contiguous(a) ? (uint64_t)a->numel * 4 : 0;
    return emu_op_finish(&op, &(emu_op_plan){.kernel = run_matmul,
                                             .varies_on = NO_CLAIM,
                                             .attrs = &attrs,
                                             .attrs_size = sizeof attrs,
                                             .workspace = copies + 16 * 1024});
}

aclnnStatus aclnnMatmulGetWorkspaceSize(const aclTensor *self, const aclTensor *mat2, aclTensor *out,
                                        int8_t cubeMathType, WS) {
    return plain(&(product){"aclnnMatmul", self, mat2, out, cubeMathType, 1, 6, false}, workspaceSize, executor);
}
EMU_PHASE_2(aclnnMatmul)

aclnnStatus aclnnMmGetWorkspaceSize(const aclTensor *self, const aclTensor *mat2, aclTensor *out, int8_t cubeMathType,
                                    WS) {
    return plain(&(product){"aclnnMm", self, mat2, out, cubeMathType, 2, 2, false}, workspaceSize, executor);
}
EMU_PHASE_2(aclnnMm)

aclnnStatus aclnnBatchMatMulGetWorkspaceSize(const aclTensor *self, const aclTensor *mat2, aclTensor *out,
                                             int8_t cubeMathType, WS) {
    return plain(&(product){"aclnnBatchMatMul", self, mat2, out, cubeMathType, 3, 3, false}, workspaceSize, executor);
}
EMU_PHASE_2(aclnnBatchMatMul)

aclnnStatus aclnnMatmulWeightNzGetWorkspaceSize(const aclTensor *self, const aclTensor *mat2, aclTensor *out,
                                                int8_t cubeMathType, WS) {
    return plain(&(product){"aclnnMatmulWeightNz", self, mat2, out, cubeMathType, 2, 2, true}, workspaceSize, executor);
}
EMU_PHASE_2(aclnnMatmulWeightNz)

aclnnStatus aclnnBatchMatMulWeightNzGetWorkspaceSize(const aclTensor *self, const aclTensor *mat2, aclTensor *out,
                                                     int8_t cubeMathType, WS) {
    return plain(&(product){"aclnnBatchMatMulWeightNz", self, mat2, out, cubeMathType, 3, 3, true}, workspaceSize,
                 executor);
}
EMU_PHASE_2(aclnnBatchMatMulWeightNz)

aclnnStatus aclnnMvGetWorkspaceSize(const aclTensor *self, const aclTensor *vec, aclTensor *out, int8_t cubeMathType,
                                    WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnMv", workspaceSize, executor);
    const emu_view *a = emu_op_in(&op, "self", self), *b = emu_op_in(&op, "vec", vec), *o = emu_op_out(&op, "out", out);
    emu_op_rank(&op, "self", a, 2, 2);
    emu_op_rank(&op, "vec", b, 1, 1);
    check_types(&op, a, b, o, cubeMathType);
    check_format(&op, a, b, false);
    check_shapes(&op, a, b, o);
    matmul_attrs attrs = {.alpha = 1, .precision = precision_of(&op, cubeMathType)};
    return emu_op_finish(&op, &(emu_op_plan){.kernel = run_matmul,
                                             .varies_on = NO_CLAIM,
                                             .attrs = &attrs,
                                             .attrs_size = sizeof attrs,
                                             .workspace = 16 * 1024});
}
EMU_PHASE_2(aclnnMv)

typedef struct {
    const aclTensor *self, *a, *b, *out; // out NULL: in place
    const aclScalar *alpha, *beta;
} sum_of_product;

static aclnnStatus addmm(const char *name, const sum_of_product *p, int8_t cube, WS) {
    emu_op op;
    emu_op_begin(&op, name, workspaceSize, executor);
    const emu_view *a = emu_op_in(&op, "mat1", p->a), *b = emu_op_in(&op, "mat2", p->b), *out, *self;
    if (p->out) {
        out = emu_op_out(&op, "out", p->out);
        self = emu_op_in(&op, "self", p->self);
    } else
        out = self = emu_op_inout(&op, "selfRef", p->self);
    matmul_attrs attrs = {.add_slot = p->out ? 3 : 2};
    attrs.beta = (float)emu_op_scalar(&op, "beta", p->beta);
    attrs.alpha = (float)emu_op_scalar(&op, "alpha", p->alpha);
    emu_op_rank(&op, "mat1", a, 2, 2);
    emu_op_rank(&op, "mat2", b, 2, 2);
    emu_op_dtype(&op, "self", self, EMU_FLOATS);
    check_types(&op, a, b, out, cube);
    op_no_nz(&op, "mat1", a);
    op_no_nz(&op, "mat2", b); // no document allows it here
    check_shapes(&op, a, b, out);
    if (emu_op_ok(&op)) {
        struct em_view v = {.rank = self->rank};
        memcpy(v.dim, self->dim, sizeof v.dim);
        emu_op_need(&op, em_broadcast(&v, 2, out->dim, &v), "self does not broadcast to the shape of out");
    }
    attrs.precision = precision_of(&op, cube);
    return emu_op_finish(&op, &(emu_op_plan){.kernel = run_matmul,
                                             .varies_on = NO_CLAIM,
                                             .attrs = &attrs,
                                             .attrs_size = sizeof attrs,
                                             .workspace = 16 * 1024});
}

aclnnStatus aclnnAddmmGetWorkspaceSize(const aclTensor *self, const aclTensor *mat1, const aclTensor *mat2,
                                       const aclScalar *beta, const aclScalar *alpha, aclTensor *out,
                                       int8_t cubeMathType, WS) {
    if (!out)
        return plain(&(product){"aclnnAddmm", mat1, mat2, NULL, cubeMathType, 2, 2, false}, workspaceSize, executor);
    return addmm("aclnnAddmm", &(sum_of_product){self, mat1, mat2, out, alpha, beta}, cubeMathType, workspaceSize,
                 executor);
}
EMU_PHASE_2(aclnnAddmm)

aclnnStatus aclnnInplaceAddmmGetWorkspaceSize(const aclTensor *selfRef, const aclTensor *mat1, const aclTensor *mat2,
                                              const aclScalar *beta, const aclScalar *alpha, int8_t cubeMathType, WS) {
    return addmm("aclnnInplaceAddmm", &(sum_of_product){selfRef, mat1, mat2, NULL, alpha, beta}, cubeMathType,
                 workspaceSize, executor);
}
EMU_PHASE_2(aclnnInplaceAddmm)
