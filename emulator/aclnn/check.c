// The checks of op.h.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "emulator/aclnn/executor.h"

static bool need(emu_op *op, emu_rule rule, const char *format, va_list args) {
    op->status = emu_vfail_as(emu_rule_code(rule), rule, format, args);
    return false;
}

bool emu_op_need_as(emu_op *op, bool condition, emu_rule rule, const char *format, ...) {
    if (op->status) return false;
    if (condition) return true;
    va_list args;
    va_start(args, format);
    need(op, rule, format, args);
    va_end(args);
    return false;
}

bool emu_op_need(emu_op *op, bool condition, const char *format, ...) {
    if (op->status) return false;
    if (condition) return true;
    va_list args;
    va_start(args, format);
    need(op, EMU_RULE_bad_argument, format, args);
    va_end(args);
    return false;
}

bool emu_op_need_tiling(emu_op *op, bool condition, const char *format, ...) {
    if (op->status) return false;
    if (condition) return true;
    va_list args;
    va_start(args, format);
    need(op, EMU_RULE_tiling, format, args);
    va_end(args);
    return false;
}

bool emu_view_contiguous(const emu_view *v) {
    int64_t step = 1;
    for (int i = v->rank - 1; i >= 0; i--) {
        if (v->dim[i] != 1 && v->stride[i] != step) return v->numel == 0;
        step *= v->dim[i];
    }
    return true;
}

bool emu_op_dtype(emu_op *op, const char *arg, const emu_view *v, uint64_t dtypes) {
    if (!v || op->status) return !op->status;
    bool has = (int)v->dtype >= 0 && (dtypes >> v->dtype & 1);
    return emu_op_need(op, has, "%s has the type %s, which the operator does not take", arg, emu_dtype_name(v->dtype));
}

bool emu_op_same_dtype(emu_op *op, const char *arg, const emu_view *v, const char *other, const emu_view *w) {
    if (!v || !w || op->status) return !op->status;
    return emu_op_need(op, v->dtype == w->dtype, "%s is %s but %s is %s", arg, emu_dtype_name(v->dtype), other,
                       emu_dtype_name(w->dtype));
}

bool emu_op_rank(emu_op *op, const char *arg, const emu_view *v, int least, int most) {
    if (!v || op->status) return !op->status;
    return emu_op_need(op, v->rank >= least && v->rank <= most, "%s has %d dimensions, not %d to %d", arg, v->rank,
                       least, most);
}

static bool same_dims(const emu_view *v, const emu_view *w) {
    if (v->rank != w->rank) return false;
    for (int i = 0; i < v->rank; i++) {
        if (v->dim[i] != w->dim[i]) return false;
    }
    return true;
}

bool emu_op_same_shape(emu_op *op, const char *arg, const emu_view *v, const char *other, const emu_view *w) {
    char a[160], b[160];
    if (!v || !w || op->status) return !op->status;
    return emu_op_need(op, same_dims(v, w), "%s is %s but %s is %s", arg, emu_view_text(v, a), other,
                       emu_view_text(w, b));
}

bool emu_op_shape(emu_op *op, const char *arg, const emu_view *v, int rank, const int64_t *dims) {
    if (!v || op->status) return !op->status;
    emu_view want = {.dtype = v->dtype, .rank = rank};
    bool same = v->rank == rank;
    for (int i = 0; i < rank; i++) {
        want.dim[i] = dims[i];
        if (same && dims[i] >= 0 && dims[i] != v->dim[i]) same = false;
    }
    char a[160], b[160];
    return emu_op_need(op, same, "%s is %s, not %s", arg, emu_view_text(v, a), emu_view_text(&want, b));
}

// With strict=off the library makes a copy where the documents want contiguous tensors, as some versions of the vendor's do.
static bool make_dense(emu_op *op, const emu_view *v) {
    emu_body *b = op->executor->body;
    for (int i = 0; i < b->n_slots; i++) {
        emu_slot *slot = &b->slot[i];
        for (int j = 0; j < slot->n && j < 64; j++) {
            if (&slot->views[j] != v || emu_dtype_bits(v->dtype) < 8) continue;
            slot->dense |= UINT64_C(1) << j;
            return true;
        }
    }
    return false;
}

bool emu_op_contiguous(emu_op *op, const char *arg, const emu_view *v) {
    if (!v || op->status) return !op->status;
    if (emu_view_contiguous(v) || (emu()->config.lenient && make_dense(op, v))) return true;
    return emu_op_need_as(op, false, EMU_RULE_not_contiguous, "%s has strides, which the operator does not take", arg);
}

bool emu_op_format(emu_op *op, const char *arg, const emu_view *v, uint64_t formats) {
    if (!v || op->status) return !op->status;
    bool has = (int)v->format >= 0 && (formats >> v->format & 1);
    return emu_op_need(op, has, "%s has the format %d, which the operator does not take", arg, (int)v->format);
}

bool emu_op_not_empty(emu_op *op, const char *arg, const emu_view *v) {
    if (!v || op->status) return !op->status;
    return emu_op_need(op, v->numel > 0, "%s is empty", arg);
}
