#include "emulator/aclnn/ops/common.h"
#include "emulator/core/state.h"

#include <string.h>

struct em_view op_view_at(const emu_run *run, int slot, int i) {
    const emu_tensor *t = emu_arg_at(run, slot, i);
    struct em_view v = {.absent = !t};
    if (!t) return v;
    v.dtype = (int)t->view.dtype;
    v.rank = t->view.rank;
    memcpy(v.dim, t->view.dim, sizeof v.dim);
    memcpy(v.stride, t->view.stride, sizeof v.stride);
    v.p = t->data;
    v.nz = t->view.format == ACL_FORMAT_FRACTAL_NZ;
    v.nz_turned = v.nz && op_nz_turned(&t->view);
    if (v.rank == 0) v.dim[0] = v.stride[0] = 1;
    return v;
}

const struct em_view *op_optional(const emu_run *run, int slot, struct em_view *v) {
    *v = op_view(run, slot);
    return v->absent ? NULL : v;
}

aclError op_done(const emu_run *run, int rc) {
    if (rc == EM_OK) return ACL_SUCCESS;
    if (rc == EM_NO_MEMORY) return emu_run_fault(run, "the emulator's own memory is exhausted");
    if (rc == EM_DUPLICATE)
        return emu_run_fault(run, "two indices name one place, and which value it gets is undefined");
    return emu_run_fault(run, "an index points outside of its tensor");
}

int op_dim(emu_op *op, int64_t dim, const emu_view *v) {
    int64_t rank = v->rank ? v->rank : 1;
    if (!emu_op_need(op, dim >= -rank && dim < rank, "dim %lld is outside of rank %lld", (long long)dim,
                     (long long)rank))
        return 0;
    emu_op_sign(op, dim);
    return (int)(dim < 0 ? dim + rank : dim);
}

void op_broadcast_to(emu_op *op, const emu_view *a, const emu_view *b, const emu_view *out) {
    if (!emu_op_ok(op)) return;
    int rank = a->rank > b->rank ? a->rank : b->rank;
    if (!emu_op_need(op, out->rank == rank, "the result has rank %d, its operands broadcast to rank %d", out->rank,
                     rank))
        return;
    for (int i = 0; i < rank; i++) {
        int ia = i - (rank - a->rank), ib = i - (rank - b->rank);
        int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib], d = da == 1 ? db : da;
        if (!emu_op_need(op, da == db || da == 1 || db == 1, "dimension %d of the operands is %lld and %lld", i,
                         (long long)da, (long long)db) ||
            !emu_op_need(op, out->dim[i] == d, "dimension %d of the result is %lld, not %lld", i,
                         (long long)out->dim[i], (long long)d))
            return;
    }
}

void op_no_nz(emu_op *op, const char *arg, const emu_view *v) {
    if (v) emu_op_need(op, v->format != ACL_FORMAT_FRACTAL_NZ, "%s may not be FRACTAL_NZ", arg);
}

static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

int64_t op_nz_elements(const int64_t *dim, int rank, int64_t c0) {
    int64_t n = up(dim[rank - 2], 16) * up(dim[rank - 1], c0);
    for (int i = 0; i + 2 < rank; i++) n *= dim[i];
    return n;
}

bool op_nz_turned(const emu_view *v) {
    return v->rank >= 2 && v->stride[v->rank - 1] != 1 && v->stride[v->rank - 2] == 1;
}

void op_need_nz(emu_op *op, const char *arg, const emu_view *v, bool turned) {
    if (!emu_op_need(op, v->rank >= 2, "%s is FRACTAL_NZ, but no matrix", arg) ||
        !emu_op_need(op, v->offset == 0, "%s is FRACTAL_NZ and cannot be sliced: its offset is %lld", arg,
                     (long long)v->offset))
        return;
    int64_t dim[EMU_MAX_RANK], have = 1;
    memcpy(dim, v->dim, sizeof dim);
    if (turned) dim[v->rank - 2] = v->dim[v->rank - 1], dim[v->rank - 1] = v->dim[v->rank - 2];
    int64_t want = op_nz_elements(dim, v->rank, 32 * 8 / emu_dtype_bits(v->dtype));
    for (int i = 0; i < v->storage_rank; i++) have *= v->storage_dim[i];
    emu_op_need(op, have >= want || emu()->config.lenient,
                "the FRACTAL_NZ storage of %s has %lld elements, %lld are needed", arg, (long long)have,
                (long long)want);
    emu_op_span(op, v, want);
}

void op_absent(emu_op *op, const char *arg, const void *value) {
    emu_op_need(op, !value, "%s is not supported by this operator, or by the emulator: pass NULL", arg);
}

op_scalar op_scalar_arg(emu_op *op, const char *arg, const aclScalar *scalar, const emu_view *with) {
    op_scalar s = {.f = (float)emu_op_scalar(op, arg, scalar)};
    if (!emu_op_ok(op)) return s;
    s.whole = em_is_int((int)with->dtype) && em_is_int((int)emu_scalar_dtype(scalar));
    if (s.whole) s.i = emu_op_scalar_int(op, arg, scalar);
    return s;
}

struct em_view op_scalar_view(const op_scalar *s) {
    return (struct em_view){.dtype = s->whole ? EM_I64 : EM_F32,
                            .p = (char *)(uintptr_t)(s->whole ? (const void *)&s->i : (const void *)&s->f)};
}
