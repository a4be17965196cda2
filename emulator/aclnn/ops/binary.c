// Elementwise operators of two operands, by one table of macros.
#include "emulator/aclnn/ops/common.h"

#define NUMBERS (EMU_FLOATS | EMU_INTS | EMU_DT(BOOL))

typedef struct {
    enum em_binary kind;
    int a, b, out; // slots; -1: the scalar
    double alpha;
    op_scalar scalar;
} binary_attrs;

static aclError run_binary(const emu_run *run) {
    const binary_attrs *t = run->attrs;
    struct em_view s = op_scalar_view(&t->scalar), out = op_view(run, t->out);
    struct em_view a = t->a < 0 ? s : op_view(run, t->a), b = t->b < 0 ? s : op_view(run, t->b);
    return op_done(run, em_binary(t->kind, &a, &b, t->alpha, &out));
}

static bool compares(enum em_binary kind) { return kind >= EM_EQ; }

// The result can hold what the operands give.
static void check_result(emu_op *op, const binary_attrs *t, int type, const emu_view *out) {
    if (!emu_op_ok(op)) return;
    if (t->kind == EM_DIV && em_is_int(type)) {
        type = EM_F32;
        emu_op_need(op, emu_op_chip(op)->family != EMU_950 || em_is_float((int)out->dtype),
                    "950 has no whole quotients");
    }
    if (compares(t->kind)) return;
    emu_op_need(op, em_is_float((int)out->dtype) || !em_is_float(type), "out is %s where the operands give %s",
                emu_dtype_name(out->dtype), emu_dtype_name((aclDataType)type));
}

typedef struct {
    const char *name;
    enum em_binary kind;
    bool has_alpha;
} what;

static aclnnStatus two(what w, const aclTensor *self, const aclTensor *other, const aclScalar *alpha,
                       const aclTensor *out, bool in_place, WS) {
    emu_op op;
    emu_op_begin(&op, w.name, workspaceSize, executor);
    binary_attrs t = {.kind = w.kind, .a = 0, .b = 1, .out = in_place ? 0 : 2, .alpha = 1};
    const emu_view *a = in_place ? emu_op_inout(&op, "selfRef", self) : emu_op_in(&op, "self", self),
                   *b = emu_op_in(&op, "other", other);
    const emu_view *o = in_place ? a : emu_op_out(&op, "out", out);
    if (w.has_alpha) t.alpha = emu_op_scalar(&op, "alpha", alpha);
    emu_op_dtype(&op, "self", a, NUMBERS);
    emu_op_dtype(&op, "other", b, NUMBERS);
    emu_op_dtype(&op, "out", o, NUMBERS);
    op_no_nz(&op, "self", a);
    op_no_nz(&op, "other", b);
    op_broadcast_to(&op, a, b, o);
    if (emu_op_ok(&op)) check_result(&op, &t, em_promote((int)a->dtype, (int)b->dtype), o);
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_binary, .attrs = &t, .attrs_size = sizeof t, .workspace = 16 * 1024});
}

static aclnnStatus one(what w, const aclTensor *self, const aclScalar *other, const aclScalar *alpha,
                       const aclTensor *out, bool in_place, WS) {
    emu_op op;
    emu_op_begin(&op, w.name, workspaceSize, executor);
    binary_attrs t = {.kind = w.kind, .a = 0, .b = -1, .out = in_place ? 0 : 1, .alpha = 1};
    const emu_view *a = in_place ? emu_op_inout(&op, "selfRef", self) : emu_op_in(&op, "self", self);
    const emu_view *o = in_place ? a : emu_op_out(&op, "out", out);
    t.scalar = op_scalar_arg(&op, "other", other, a);
    if (w.has_alpha) t.alpha = emu_op_scalar(&op, "alpha", alpha);
    emu_op_dtype(&op, "self", a, NUMBERS);
    emu_op_dtype(&op, "out", o, NUMBERS);
    op_no_nz(&op, "self", a);
    emu_op_same_shape(&op, "out", o, "self", a);
    if (emu_op_ok(&op)) check_result(&op, &t, t.scalar.whole || em_is_float((int)a->dtype) ? (int)a->dtype : EM_F32, o);
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_binary, .attrs = &t, .attrs_size = sizeof t, .workspace = 16 * 1024});
}

#define ALPHA2(name, kind) \
    aclnnStatus aclnn##name##GetWorkspaceSize(const aclTensor *self, const aclTensor *other, const aclScalar *alpha, \
                                              aclTensor *out, WS) { \
        return two((what){"aclnn" #name, kind, true}, self, other, alpha, out, false, workspaceSize, executor); \
    } \
    EMU_PHASE_2(aclnn##name) \
    aclnnStatus aclnn##name##sGetWorkspaceSize(const aclTensor *self, const aclScalar *other, const aclScalar *alpha, \
                                               aclTensor *out, WS) { \
        return one((what){"aclnn" #name "s", kind, true}, self, other, alpha, out, false, workspaceSize, executor); \
    } \
    EMU_PHASE_2(aclnn##name##s)
#define PLAIN2(name, kind) \
    aclnnStatus aclnn##name##GetWorkspaceSize(const aclTensor *self, const aclTensor *other, aclTensor *out, WS) { \
        return two((what){"aclnn" #name, kind, false}, self, other, NULL, out, false, workspaceSize, executor); \
    } \
    EMU_PHASE_2(aclnn##name) \
    aclnnStatus aclnn##name##sGetWorkspaceSize(const aclTensor *self, const aclScalar *other, aclTensor *out, WS) { \
        return one((what){"aclnn" #name "s", kind, false}, self, other, NULL, out, false, workspaceSize, executor); \
    } \
    EMU_PHASE_2(aclnn##name##s) \
    aclnnStatus aclnnInplace##name##GetWorkspaceSize(aclTensor *selfRef, const aclTensor *other, WS) { \
        return two((what){"aclnnInplace" #name, kind, false}, selfRef, other, NULL, NULL, true, workspaceSize, \
                   executor); \
    } \
    EMU_PHASE_2(aclnnInplace##name) \
    aclnnStatus aclnnInplace##name##sGetWorkspaceSize(aclTensor *selfRef, const aclScalar *other, WS) { \
        return one((what){"aclnnInplace" #name "s", kind, false}, selfRef, other, NULL, NULL, true, workspaceSize, \
                   executor); \
    } \
    EMU_PHASE_2(aclnnInplace##name##s)

ALPHA2(Add, EM_ADD)
ALPHA2(Sub, EM_SUB)
PLAIN2(Mul, EM_MUL)
PLAIN2(Div, EM_DIV)

aclnnStatus aclnnInplaceAddGetWorkspaceSize(const aclTensor *selfRef, const aclTensor *other, const aclScalar *alpha,
                                            WS) {
    return two((what){"aclnnInplaceAdd", EM_ADD, true}, selfRef, other, alpha, NULL, true, workspaceSize, executor);
}
EMU_PHASE_2(aclnnInplaceAdd)
aclnnStatus aclnnInplaceAddsGetWorkspaceSize(const aclTensor *selfRef, const aclScalar *other, const aclScalar *alpha,
                                             WS) {
    return one((what){"aclnnInplaceAdds", EM_ADD, true}, selfRef, other, alpha, NULL, true, workspaceSize, executor);
}
EMU_PHASE_2(aclnnInplaceAdds)
aclnnStatus aclnnInplaceSubGetWorkspaceSize(aclTensor *selfRef, const aclTensor *other, const aclScalar *alpha, WS) {
    return two((what){"aclnnInplaceSub", EM_SUB, true}, selfRef, other, alpha, NULL, true, workspaceSize, executor);
}
EMU_PHASE_2(aclnnInplaceSub)
aclnnStatus aclnnInplaceSubsGetWorkspaceSize(aclTensor *selfRef, const aclScalar *other, const aclScalar *alpha, WS) {
    return one((what){"aclnnInplaceSubs", EM_SUB, true}, selfRef, other, alpha, NULL, true, workspaceSize, executor);
}
EMU_PHASE_2(aclnnInplaceSubs)
aclnnStatus aclnnInplacePowTensorTensorGetWorkspaceSize(const aclTensor *self, const aclTensor *exponent, WS) {
    return two((what){"aclnnInplacePowTensorTensor", EM_POW, false}, self, exponent, NULL, NULL, true, workspaceSize,
               executor);
}
EMU_PHASE_2(aclnnInplacePowTensorTensor)
aclnnStatus aclnnEqTensorGetWorkspaceSize(const aclTensor *self, const aclTensor *other, aclTensor *out, WS) {
    return two((what){"aclnnEqTensor", EM_EQ, false}, self, other, NULL, out, false, workspaceSize, executor);
}
EMU_PHASE_2(aclnnEqTensor)
aclnnStatus aclnnGtScalarGetWorkspaceSize(const aclTensor *self, const aclScalar *other, aclTensor *out, WS) {
    return one((what){"aclnnGtScalar", EM_GT, false}, self, other, NULL, out, false, workspaceSize, executor);
}
EMU_PHASE_2(aclnnGtScalar)

aclnnStatus aclnnPowScalarTensorGetWorkspaceSize(const aclScalar *self, const aclTensor *exponent, const aclTensor *out,
                                                 WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnPowScalarTensor", workspaceSize, executor);
    const emu_view *e = emu_op_in(&op, "exponent", exponent), *o = emu_op_out(&op, "out", out);
    binary_attrs t = {.kind = EM_POW, .a = -1, .b = 0, .out = 1, .alpha = 1};
    t.scalar = op_scalar_arg(&op, "self", self, e);
    emu_op_dtype(&op, "exponent", e, NUMBERS);
    emu_op_dtype(&op, "out", o, NUMBERS);
    emu_op_same_shape(&op, "out", o, "exponent", e);
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_binary, .attrs = &t, .attrs_size = sizeof t, .workspace = 16 * 1024});
}
EMU_PHASE_2(aclnnPowScalarTensor)

// ---- selection by a mask -------------------------------------------------------------------------------------------------

static aclError run_where(const emu_run *run) {
    struct em_view c = op_view(run, 0), a = op_view(run, 1), b = op_view(run, 2), out = op_view(run, 3);
    return op_done(run, em_where(&c, &a, &b, &out));
}

aclnnStatus aclnnSWhereGetWorkspaceSize(const aclTensor *condition, const aclTensor *self, const aclTensor *other,
                                        aclTensor *out, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnSWhere", workspaceSize, executor);
    const emu_view *c = emu_op_in(&op, "condition", condition), *a = emu_op_in(&op, "self", self),
                   *b = emu_op_in(&op, "other", other);
    const emu_view *o = emu_op_out(&op, "out", out);
    emu_op_dtype(&op, "condition", c, EMU_DT(BOOL) | EMU_DT(UINT8));
    emu_op_dtype(&op, "self", a, NUMBERS);
    emu_op_same_dtype(&op, "other", b, "self", a);
    emu_op_same_dtype(&op, "out", o, "self", a);
    op_broadcast_to(&op, o, c, o);
    op_broadcast_to(&op, o, a, o);
    op_broadcast_to(&op, o, b, o);
    return emu_op_finish(&op, &(emu_op_plan){.kernel = run_where, .workspace = 16 * 1024});
}
EMU_PHASE_2(aclnnSWhere)

typedef struct {
    double value;
} fill_attrs;

static aclError run_masked(const emu_run *run) {
    const fill_attrs *t = run->attrs;
    struct em_view dst = op_view(run, 0), mask = op_view(run, 1);
    return op_done(run, em_masked_fill(&dst, &mask, t->value));
}

aclnnStatus aclnnInplaceMaskedFillScalarGetWorkspaceSize(aclTensor *selfRef, const aclTensor *mask,
                                                         const aclScalar *value, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnInplaceMaskedFillScalar", workspaceSize, executor);
    const emu_view *x = emu_op_inout(&op, "selfRef", selfRef), *m = emu_op_in(&op, "mask", mask);
    fill_attrs t = {.value = emu_op_scalar(&op, "value", value)};
    emu_op_dtype(&op, "selfRef", x, NUMBERS);
    emu_op_dtype(&op, "mask", m, EMU_DT(BOOL));
    op_broadcast_to(&op, x, m, x);
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_masked, .attrs = &t, .attrs_size = sizeof t, .workspace = 16 * 1024});
}
EMU_PHASE_2(aclnnInplaceMaskedFillScalar)
