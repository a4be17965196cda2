// Elementwise operators of one tensor, by one table of macros; cast and copy.
#include "emulator/aclnn/ops/common.h"

#define ANY (EMU_FLOATS | EMU_INTS | EMU_DT(BOOL) | EMU_DT(DOUBLE) | EMU_DT(UINT16) | EMU_DT(UINT32) | EMU_DT(UINT64))

typedef struct {
    enum em_unary kind;
    int out; // slot
    double par[3];
} unary_attrs;

static aclError run_unary(const emu_run *run) {
    const unary_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0), out = op_view(run, t->out);
    return op_done(run, em_unary(t->kind, &x, t->par, &out));
}

static aclnnStatus finish(emu_op *op, const unary_attrs *t) {
    return emu_op_finish(
        op, &(emu_op_plan){.kernel = run_unary, .attrs = t, .attrs_size = sizeof *t, .workspace = 16 * 1024});
}

static void begin(emu_op *op, const char *name, uint64_t dtypes, const aclTensor *self, const aclTensor *out, WS) {
    emu_op_begin(op, name, workspaceSize, executor);
    const emu_view *x = emu_op_in(op, "self", self), *y = emu_op_out(op, "out", out);
    emu_op_dtype(op, "self", x, dtypes);
    emu_op_dtype(op, "out", y, dtypes);
    emu_op_same_shape(op, "out", y, "self", x);
    op_no_nz(op, "self", x);
    if (emu_op_ok(op))
        emu_op_need(op, em_is_float((int)y->dtype) || !em_is_float((int)x->dtype),
                    "out is a whole number, self is not");
}

static void begin_in_place(emu_op *op, const char *name, uint64_t dtypes, const aclTensor *self, WS) {
    emu_op_begin(op, name, workspaceSize, executor);
    const emu_view *x = emu_op_inout(op, "selfRef", self);
    emu_op_dtype(op, "selfRef", x, dtypes);
    op_no_nz(op, "selfRef", x);
}

static aclnnStatus simple(const char *name, enum em_unary kind, uint64_t dtypes, const aclTensor *self,
                          const aclTensor *out, WS) {
    emu_op op;
    begin(&op, name, dtypes, self, out, workspaceSize, executor);
    return finish(&op, &(unary_attrs){.kind = kind, .out = 1});
}
static aclnnStatus simple_in_place(const char *name, enum em_unary kind, uint64_t dtypes, const aclTensor *self, WS) {
    emu_op op;
    begin_in_place(&op, name, dtypes, self, workspaceSize, executor);
    return finish(&op, &(unary_attrs){.kind = kind});
}

#define UNARY(name, kind, dtypes) \
    aclnnStatus name##GetWorkspaceSize(const aclTensor *self, aclTensor *out, WS) { \
        return simple(#name, kind, dtypes, self, out, workspaceSize, executor); \
    } \
    EMU_PHASE_2(name)
#define UNARY_CONST(name, kind, dtypes) \
    aclnnStatus name##GetWorkspaceSize(const aclTensor *self, const aclTensor *out, WS) { \
        return simple(#name, kind, dtypes, self, out, workspaceSize, executor); \
    } \
    EMU_PHASE_2(name)
#define IN_PLACE(name, kind, dtypes) \
    aclnnStatus name##GetWorkspaceSize(aclTensor *self, WS) { \
        return simple_in_place(#name, kind, dtypes, self, workspaceSize, executor); \
    } \
    EMU_PHASE_2(name)

UNARY(aclnnAbs, EM_ABS, EMU_FLOATS | EMU_INTS)
UNARY(aclnnNeg, EM_NEG, EMU_FLOATS | EMU_INTS)
UNARY(aclnnExp, EM_EXP, EMU_FLOATS)
UNARY(aclnnLog, EM_LOG, EMU_FLOATS)
UNARY(aclnnSqrt, EM_SQRT, EMU_FLOATS)
UNARY(aclnnRsqrt, EM_RSQRT, EMU_FLOATS)
UNARY(aclnnReciprocal, EM_RECIPROCAL, EMU_FLOATS)
UNARY(aclnnSin, EM_SIN, EMU_FLOATS)
UNARY(aclnnCos, EM_COS, EMU_FLOATS)
UNARY(aclnnTanh, EM_TANH, EMU_FLOATS)
UNARY(aclnnSigmoid, EM_SIGMOID, EMU_FLOATS)
UNARY(aclnnSilu, EM_SILU, EMU_FLOATS)
UNARY_CONST(aclnnRelu, EM_RELU, EMU_FLOATS | EMU_INTS)
UNARY(aclnnGelu, EM_GELU, EMU_FLOATS)
UNARY(aclnnHardsigmoid, EM_HARDSIGMOID, EMU_FLOATS)
UNARY_CONST(aclnnHardswish, EM_HARDSWISH, EMU_FLOATS)
UNARY(aclnnSign, EM_SIGN, EMU_FLOATS | EMU_INTS)
IN_PLACE(aclnnInplaceNeg, EM_NEG, EMU_FLOATS | EMU_INTS)
IN_PLACE(aclnnInplaceExp, EM_EXP, EMU_FLOATS)
IN_PLACE(aclnnInplaceSin, EM_SIN, EMU_FLOATS)
IN_PLACE(aclnnInplaceCos, EM_COS, EMU_FLOATS)

// ---- with parameters ---------------------------------------------------------------------------------------------------

aclnnStatus aclnnGeluV2GetWorkspaceSize(const aclTensor *x, int64_t approximate, aclTensor *y, WS) {
    emu_op op;
    begin(&op, "aclnnGeluV2", EMU_FLOATS, x, y, workspaceSize, executor);
    emu_op_need(&op, approximate == 0 || approximate == 1, "approximate is %lld, not 0 or 1", (long long)approximate);
    return finish(&op, &(unary_attrs){.kind = approximate ? EM_GELU_TANH : EM_GELU, .out = 1});
}
EMU_PHASE_2(aclnnGeluV2)

aclnnStatus aclnnLeakyReluGetWorkspaceSize(const aclTensor *self, const aclScalar *negativeSlope, aclTensor *out, WS) {
    emu_op op;
    begin(&op, "aclnnLeakyRelu", EMU_FLOATS, self, out, workspaceSize, executor);
    return finish(&op, &(unary_attrs){EM_LEAKY_RELU, 1, {emu_op_scalar(&op, "negativeSlope", negativeSlope), 0, 0}});
}
EMU_PHASE_2(aclnnLeakyRelu)

aclnnStatus aclnnEluGetWorkspaceSize(const aclTensor *self, const aclScalar *alpha, const aclScalar *scale,
                                     const aclScalar *inputScale, aclTensor *out, WS) {
    emu_op op;
    begin(&op, "aclnnElu", EMU_FLOATS, self, out, workspaceSize, executor);
    unary_attrs t = {.kind = EM_ELU, .out = 1};
    t.par[0] = emu_op_scalar(&op, "alpha", alpha);
    t.par[1] = emu_op_scalar(&op, "scale", scale);
    t.par[2] = emu_op_scalar(&op, "inputScale", inputScale);
    return finish(&op, &t);
}
EMU_PHASE_2(aclnnElu)

aclnnStatus aclnnSoftplusGetWorkspaceSize(const aclTensor *self, const aclScalar *beta, const aclScalar *threshold,
                                          aclTensor *out, WS) {
    emu_op op;
    begin(&op, "aclnnSoftplus", EMU_FLOATS, self, out, workspaceSize, executor);
    unary_attrs t = {.kind = EM_SOFTPLUS, .out = 1};
    t.par[0] = emu_op_scalar(&op, "beta", beta);
    t.par[1] = emu_op_scalar(&op, "threshold", threshold);
    return finish(&op, &t);
}
EMU_PHASE_2(aclnnSoftplus)

aclnnStatus aclnnSwishGetWorkspaceSize(const aclTensor *self, const aclScalar *betaOptional, aclTensor *out, WS) {
    emu_op op;
    begin(&op, "aclnnSwish", EMU_FLOATS, self, out, workspaceSize, executor);
    return finish(&op,
                  &(unary_attrs){EM_SWISH, 1, {betaOptional ? emu_op_scalar(&op, "beta", betaOptional) : 1, 0, 0}});
}
EMU_PHASE_2(aclnnSwish)

aclnnStatus aclnnClampGetWorkspaceSize(const aclTensor *self, const aclScalar *clipValueMin,
                                       const aclScalar *clipValueMax, aclTensor *out, WS) {
    emu_op op;
    begin(&op, "aclnnClamp", EMU_FLOATS | EMU_INTS, self, out, workspaceSize, executor);
    unary_attrs t = {EM_CLAMP, 1, {-__builtin_inf(), __builtin_inf(), 0}};
    emu_op_need(&op, clipValueMin || clipValueMax, "one of the two limits must be given");
    if (clipValueMin) t.par[0] = emu_op_scalar(&op, "clipValueMin", clipValueMin);
    if (clipValueMax) t.par[1] = emu_op_scalar(&op, "clipValueMax", clipValueMax);
    return finish(&op, &t);
}
EMU_PHASE_2(aclnnClamp)

aclnnStatus aclnnClampMinGetWorkspaceSize(const aclTensor *self, const aclScalar *clipValueMin, aclTensor *out, WS) {
    emu_op op;
    begin(&op, "aclnnClampMin", EMU_FLOATS | EMU_INTS, self, out, workspaceSize, executor);
    return finish(&op,
                  &(unary_attrs){EM_CLAMP, 1, {emu_op_scalar(&op, "clipValueMin", clipValueMin), __builtin_inf(), 0}});
}
EMU_PHASE_2(aclnnClampMin)

aclnnStatus aclnnInplaceClampMaxGetWorkspaceSize(const aclTensor *selfRef, const aclScalar *clipValueMax, WS) {
    emu_op op;
    begin_in_place(&op, "aclnnInplaceClampMax", EMU_FLOATS | EMU_INTS, selfRef, workspaceSize, executor);
    return finish(&op,
                  &(unary_attrs){EM_CLAMP, 0, {-__builtin_inf(), emu_op_scalar(&op, "clipValueMax", clipValueMax), 0}});
}
EMU_PHASE_2(aclnnInplaceClampMax)

aclnnStatus aclnnInplaceThresholdGetWorkspaceSize(aclTensor *selfRef, const aclScalar *threshold,
                                                  const aclScalar *value, WS) {
    emu_op op;
    begin_in_place(&op, "aclnnInplaceThreshold", EMU_FLOATS | EMU_INTS, selfRef, workspaceSize, executor);
    unary_attrs t = {.kind = EM_THRESHOLD};
    t.par[0] = emu_op_scalar(&op, "threshold", threshold);
    t.par[1] = emu_op_scalar(&op, "value", value);
    return finish(&op, &t);
}
EMU_PHASE_2(aclnnInplaceThreshold)

// ---- cast and copy -------------------------------------------------------------------------------------------------------

aclnnStatus aclnnCastGetWorkspaceSize(const aclTensor *self, const aclDataType dtype, aclTensor *out, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnCast", workspaceSize, executor);
    const emu_view *x = emu_op_in(&op, "self", self), *y = emu_op_out(&op, "out", out);
    emu_op_dtype(&op, "self", x, ANY);
    emu_op_dtype(&op, "out", y, ANY);
    if (emu_op_ok(&op))
        emu_op_need(&op, y->dtype == dtype, "out is %s, dtype says %s", emu_dtype_name(y->dtype),
                    emu_dtype_name(dtype));
    emu_op_same_shape(&op, "out", y, "self", x);
    op_no_nz(&op, "self", x);
    return finish(&op, &(unary_attrs){.kind = EM_COPY, .out = 1});
}
EMU_PHASE_2(aclnnCast)

static aclError run_copy(const emu_run *run) {
    struct em_view dst = op_view(run, 0), src = op_view(run, 1);
    return op_done(run, em_copy(&src, &dst));
}

aclnnStatus aclnnInplaceCopyGetWorkspaceSize(aclTensor *selfRef, const aclTensor *src, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnInplaceCopy", workspaceSize, executor);
    const emu_view *dst = emu_op_inout(&op, "selfRef", selfRef), *s = emu_op_in(&op, "src", src);
    emu_op_dtype(&op, "selfRef", dst, ANY);
    emu_op_dtype(&op, "src", s, ANY);
    op_no_nz(&op, "selfRef", dst);
    op_no_nz(&op, "src", s);
    op_broadcast_to(&op, dst, s, dst);
    bool views = emu_op_ok(&op) && (!emu_view_contiguous(dst) || !emu_view_contiguous(s));
    return emu_op_finish(&op, &(emu_op_plan){.kernel = run_copy, .workspace = 16 * 1024, .not_repeatable = views});
}
EMU_PHASE_2(aclnnInplaceCopy)
