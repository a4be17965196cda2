// Operators that move elements or write constants, and reductions.
#include "emulator/aclnn/ops/common.h"

#include <math.h>
#include <string.h>

#define NUMBERS (EMU_FLOATS | EMU_INTS | EMU_DT(BOOL))

typedef struct {
    int dim, n;
    const int64_t *list, *dims;
    int n_dims;
    int64_t start, step, times;
    double value, by;
    bool upper;
    enum em_reduce reduce;
    uint32_t reduced; // bit per dimension
} shape_attrs;

static aclnnStatus done(emu_op *op, emu_kernel *kernel, const shape_attrs *t) {
    return emu_op_finish(op,
                         &(emu_op_plan){.kernel = kernel, .attrs = t, .attrs_size = sizeof *t, .workspace = 16 * 1024});
}

static void begin(emu_op *op, const char *name, const aclTensor *self, const aclTensor *out, const emu_view *v[2], WS) {
    emu_op_begin(op, name, workspaceSize, executor);
    v[0] = emu_op_in(op, "self", self), v[1] = emu_op_out(op, "out", out);
    emu_op_dtype(op, "self", v[0], NUMBERS);
    emu_op_same_dtype(op, "out", v[1], "self", v[0]);
    op_no_nz(op, "self", v[0]);
}

// ---- views of the input copied --------------------------------------------------------------------------------------------

static aclError run_permute(const emu_run *run) {
    const shape_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0), out = op_view(run, 1), p = x;
    for (int i = 0; i < t->n; i++) {
        int64_t d = t->list[i] < 0 ? t->list[i] + x.rank : t->list[i];
        p.dim[i] = x.dim[d], p.stride[i] = x.stride[d];
    }
    return op_done(run, em_copy(&p, &out));
}

aclnnStatus aclnnPermuteGetWorkspaceSize(const aclTensor *self, const aclIntArray *dims, aclTensor *out, WS) {
    emu_op op;
    const emu_view *v[2];
    shape_attrs t = {0};
    begin(&op, "aclnnPermute", self, out, v, workspaceSize, executor);
    t.list = emu_op_ints(&op, "dims", dims, &t.n);
    if (emu_op_ok(&op) &&
        emu_op_need(&op, t.n == v[0]->rank, "dims has %d entries, self has rank %d", t.n, v[0]->rank)) {
        int64_t want[EMU_MAX_RANK];
        unsigned seen = 0;
        for (int i = 0; i < t.n; i++) {
            int64_t d = t.list[i] < 0 ? t.list[i] + t.n : t.list[i];
            if (!emu_op_need(&op, d >= 0 && d < t.n && !(seen >> d & 1), "dims[%d] is %lld", i, (long long)t.list[i]))
                break;
            seen |= 1u << d, want[i] = v[0]->dim[d];
        }
        if (emu_op_ok(&op)) emu_op_shape(&op, "out", v[1], t.n, want);
    }
    return done(&op, run_permute, &t);
}
EMU_PHASE_2(aclnnPermute)

static aclError run_slice(const emu_run *run) {
    const shape_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0), out = op_view(run, 1);
    x.p += t->start * x.stride[t->dim] * (int64_t)em_dtype_size(x.dtype);
    x.dim[t->dim] = out.dim[t->dim];
    x.stride[t->dim] *= t->step;
    return op_done(run, em_copy(&x, &out));
}

aclnnStatus aclnnSliceGetWorkspaceSize(const aclTensor *self, int64_t dim, int64_t start, int64_t end, int64_t step,
                                       aclTensor *out, WS) {
    emu_op op;
    const emu_view *v[2];
    begin(&op, "aclnnSlice", self, out, v, workspaceSize, executor);
    emu_op_rank(&op, "self", v[0], 1, 8);
    shape_attrs t = {.dim = op_dim(&op, dim, v[0]), .step = step};
    if (emu_op_ok(&op) && emu_op_need(&op, step > 0, "step is %lld", (long long)step)) {
        int64_t n = v[0]->dim[t.dim], want[EMU_MAX_RANK];
        if (start < 0) start += n;
        if (end < 0) end += n;
        start = start < 0 ? 0 : start > n ? n : start;
        end = end < start ? start : end > n ? n : end;
        t.start = start;
        memcpy(want, v[0]->dim, sizeof want);
        want[t.dim] = (end - start + step - 1) / step;
        emu_op_shape(&op, "out", v[1], v[0]->rank, want);
        emu_op_sign(&op, start);
    }
    return done(&op, run_slice, &t);
}
EMU_PHASE_2(aclnnSlice)

static aclError run_cat(const emu_run *run) {
    const shape_attrs *t = run->attrs;
    struct em_view out = op_view(run, 1);
    int64_t at = 0, size = (int64_t)em_dtype_size(out.dtype);
    int rc = EM_OK;
    for (int i = 0; i < t->n && rc == EM_OK; i++) {
        struct em_view x = op_view_at(run, 0, i), part = out;
        if (x.rank == 1 && x.dim[0] == 0) continue; // an empty list element of any rank is skipped
        part.dim[t->dim] = x.dim[t->dim];
        part.p += at * out.stride[t->dim] * size;
        at += x.dim[t->dim];
        rc = em_copy(&x, &part);
    }
    return op_done(run, rc);
}

aclnnStatus aclnnCatGetWorkspaceSize(const aclTensorList *tensors, int64_t dim, aclTensor *out, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnCat", workspaceSize, executor);
    shape_attrs t = {0};
    const emu_view *x = emu_op_in_list(&op, "tensors", tensors, &t.n), *o = emu_op_out(&op, "out", out);
    emu_op_dtype(&op, "out", o, NUMBERS);
    emu_op_need(&op, t.n > 0, "tensors is empty");
    t.dim = op_dim(&op, dim, o);
    int64_t sum = 0;
    for (int i = 0; i < t.n && emu_op_ok(&op); i++) {
        emu_op_same_dtype(&op, "tensors", &x[i], "out", o);
        if (x[i].rank == 1 && x[i].dim[0] == 0) continue;
        if (!emu_op_need(&op, x[i].rank == o->rank, "tensor %d has rank %d, out %d", i, x[i].rank, o->rank)) break;
        sum += x[i].dim[t.dim];
        for (int d = 0; d < o->rank; d++)
            emu_op_need(&op, d == t.dim || x[i].dim[d] == o->dim[d], "dimension %d of tensor %d is %lld, of out %lld",
                        d, i, (long long)x[i].dim[d], (long long)o->dim[d]);
    }
    if (emu_op_ok(&op))
        emu_op_need(&op, sum == o->dim[t.dim], "the tensors have %lld together, out has %lld", (long long)sum,
                    (long long)o->dim[t.dim]);
    return done(&op, run_cat, &t);
}
EMU_PHASE_2(aclnnCat)

// Element by element: out[at] = x[source(at)].
static aclError copy_by(const emu_run *run, bool (*source)(const shape_attrs *, const struct em_view *, int64_t *at)) {
    const shape_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0), out = op_view(run, 1);
    int64_t size = (int64_t)em_dtype_size(x.dtype), at[EM_RANK];
    for (int64_t i = 0; i < em_count(&out); i++) {
        em_unravel(i, out.rank, out.dim, at);
        char *dst = out.p + em_offset(&out, at) * size;
        if (source(t, &x, at))
            memcpy(dst, x.p + em_offset(&x, at) * size, (size_t)size);
        else
            em_store_f64(out.dtype, dst, 1, &t->value, 1);
    }
    return ACL_SUCCESS;
}

static bool of_repeat(const shape_attrs *t, const struct em_view *x, int64_t *at) {
    int lead = t->n - x->rank;
    for (int d = 0; d < x->rank; d++) at[d] = at[d + lead] % x->dim[d];
    return true;
}
static aclError run_repeat(const emu_run *run) { return copy_by(run, of_repeat); }

aclnnStatus aclnnRepeatGetWorkspaceSize(const aclTensor *self, const aclIntArray *repeats, aclTensor *out, WS) {
    emu_op op;
    const emu_view *v[2];
    shape_attrs t = {0};
    begin(&op, "aclnnRepeat", self, out, v, workspaceSize, executor);
    t.list = emu_op_ints(&op, "repeats", repeats, &t.n);
    if (emu_op_ok(&op) && emu_op_need(&op, t.n >= v[0]->rank && t.n <= EMU_MAX_RANK,
                                      "repeats has %d entries, self rank %d", t.n, v[0]->rank)) {
        int64_t want[EMU_MAX_RANK];
        for (int i = 0; i < t.n; i++)
            want[i] = t.list[i] * (i < t.n - v[0]->rank ? 1 : v[0]->dim[i - (t.n - v[0]->rank)]);
        emu_op_shape(&op, "out", v[1], t.n, want);
    }
    return done(&op, run_repeat, &t);
}
EMU_PHASE_2(aclnnRepeat)

static bool of_interleave(const shape_attrs *t, const struct em_view *x, int64_t *at) {
    (void)x;
    at[t->dim] /= t->times;
    return true;
}
static aclError run_interleave(const emu_run *run) { return copy_by(run, of_interleave); }

aclnnStatus aclnnRepeatInterleaveIntWithDimGetWorkspaceSize(const aclTensor *self, int64_t repeats, int64_t dim,
                                                            int64_t outputSize, aclTensor *out, WS) {
    emu_op op;
    const emu_view *v[2];
    begin(&op, "aclnnRepeatInterleaveIntWithDim", self, out, v, workspaceSize, executor);
    emu_op_rank(&op, "self", v[0], 1, 8);
    shape_attrs t = {.dim = op_dim(&op, dim, v[0]), .times = repeats};
    if (emu_op_ok(&op)) {
        int64_t want[EMU_MAX_RANK];
        memcpy(want, v[0]->dim, sizeof want);
        want[t.dim] *= repeats;
        emu_op_need(&op, repeats > 0 && outputSize == want[t.dim], "outputSize is %lld, not %lld",
                    (long long)outputSize, (long long)want[t.dim]);
        emu_op_shape(&op, "out", v[1], v[0]->rank, want);
    }
    return done(&op, run_interleave, &t);
}
EMU_PHASE_2(aclnnRepeatInterleaveIntWithDim)

static bool of_roll(const shape_attrs *t, const struct em_view *x, int64_t *at) {
    for (int i = 0; i < t->n; i++) {
        int64_t d = t->dims[i] < 0 ? t->dims[i] + x->rank : t->dims[i], n = x->dim[d];
        at[d] = ((at[d] - t->list[i]) % n + n) % n;
    }
    return true;
}
static aclError run_roll(const emu_run *run) { return copy_by(run, of_roll); }

aclnnStatus aclnnRollGetWorkspaceSize(const aclTensor *x, const aclIntArray *shifts, const aclIntArray *dims,
                                      aclTensor *out, WS) {
    emu_op op;
    const emu_view *v[2];
    shape_attrs t = {0};
    begin(&op, "aclnnRoll", x, out, v, workspaceSize, executor);
    t.list = emu_op_ints(&op, "shifts", shifts, &t.n), t.dims = emu_op_ints(&op, "dims", dims, &t.n_dims);
    emu_op_same_shape(&op, "out", v[1], "x", v[0]);
    emu_op_need(&op, t.n == t.n_dims, "%d shifts for %d dims", t.n, t.n_dims);
    for (int i = 0; emu_op_ok(&op) && i < t.n; i++)
        emu_op_need(&op, t.dims[i] >= -v[0]->rank && t.dims[i] < v[0]->rank, "dims[%d] is %lld", i,
                    (long long)t.dims[i]);
    return done(&op, run_roll, &t);
}
EMU_PHASE_2(aclnnRoll)

static bool of_pad(const shape_attrs *t, const struct em_view *x,
                   int64_t *at) { // pairs (before, after), last dimension first
    for (int i = 0; i < t->n / 2; i++) {
        int d = x->rank - 1 - i;
        at[d] -= t->list[2 * i];
        if (at[d] < 0 || at[d] >= x->dim[d]) return false;
    }
    return true;
}
static bool of_mirror(const shape_attrs *t, const struct em_view *x, int64_t *at) {
    int d = x->rank - 1;
    int64_t i = at[d] - t->list[0], n = x->dim[d];
    at[d] = i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
    return true;
}
static aclError run_pad(const emu_run *run) { return copy_by(run, of_pad); }
static aclError run_mirror(const emu_run *run) { return copy_by(run, of_mirror); }

static void check_pad(emu_op *op, const emu_view *const v[2], const shape_attrs *t, bool mirror) {
    if (!emu_op_ok(op) || !emu_op_need(op, t->n % 2 == 0 && t->n / 2 <= v[0]->rank && (!mirror || t->n == 2),
                                       "a padding of %d numbers for rank %d", t->n, v[0]->rank))
        return;
    int64_t want[EMU_MAX_RANK];
    memcpy(want, v[0]->dim, sizeof want);
    for (int i = 0; i < t->n / 2; i++) {
        int d = v[0]->rank - 1 - i;
        want[d] += t->list[2 * i] + t->list[2 * i + 1];
        emu_op_need(op,
                    !mirror ||
                        (t->list[0] >= 0 && t->list[1] >= 0 && t->list[0] < v[0]->dim[d] && t->list[1] < v[0]->dim[d]),
                    "a reflection is shorter than the dimension");
    }
    emu_op_shape(op, "out", v[1], v[0]->rank, want);
}

aclnnStatus aclnnConstantPadNdGetWorkspaceSize(const aclTensor *self, const aclIntArray *pad, const aclScalar *value,
                                               aclTensor *out, WS) {
    emu_op op;
    const emu_view *v[2];
    shape_attrs t = {0};
    begin(&op, "aclnnConstantPadNd", self, out, v, workspaceSize, executor);
    t.list = emu_op_ints(&op, "pad", pad, &t.n), t.value = emu_op_scalar(&op, "value", value);
    check_pad(&op, v, &t, false);
    return done(&op, run_pad, &t);
}
EMU_PHASE_2(aclnnConstantPadNd)

aclnnStatus aclnnReflectionPad1dGetWorkspaceSize(const aclTensor *self, const aclIntArray *padding, aclTensor *out,
                                                 WS) {
    emu_op op;
    const emu_view *v[2];
    shape_attrs t = {0};
    begin(&op, "aclnnReflectionPad1d", self, out, v, workspaceSize, executor);
    emu_op_rank(&op, "self", v[0], 2, 3);
    t.list = emu_op_ints(&op, "padding", padding, &t.n);
    check_pad(&op, v, &t, true);
    return done(&op, run_mirror, &t);
}
EMU_PHASE_2(aclnnReflectionPad1d)

static aclError run_nearest(const emu_run *run) {
    struct em_view x = op_view(run, 0), out = op_view(run, 1);
    int64_t size = (int64_t)em_dtype_size(x.dtype), at[EM_RANK];
    for (int64_t i = 0; i < em_count(&out); i++) {
        em_unravel(i, 4, out.dim, at);
        char *dst = out.p + em_offset(&out, at) * size;
        for (int d = 2; d < 4; d++) {
            at[d] = (int64_t)((float)at[d] * ((float)x.dim[d] / (float)out.dim[d]));
            if (at[d] >= x.dim[d]) at[d] = x.dim[d] - 1;
        }
        memcpy(dst, x.p + em_offset(&x, at) * size, (size_t)size);
    }
    return ACL_SUCCESS;
}

aclnnStatus aclnnUpsampleNearest2dGetWorkspaceSize(const aclTensor *self, const aclIntArray *outputSize, aclTensor *out,
                                                   WS) {
    emu_op op;
    const emu_view *v[2];
    shape_attrs t = {0};
    begin(&op, "aclnnUpsampleNearest2d", self, out, v, workspaceSize, executor);
    emu_op_rank(&op, "self", v[0], 4, 4);
    t.list = emu_op_ints(&op, "outputSize", outputSize, &t.n);
    if (emu_op_ok(&op) && emu_op_need(&op, t.n == 2, "outputSize has %d numbers, not 2", t.n))
        emu_op_shape(&op, "out", v[1], 4, (int64_t[]){v[0]->dim[0], v[0]->dim[1], t.list[0], t.list[1]});
    return done(&op, run_nearest, &t);
}
EMU_PHASE_2(aclnnUpsampleNearest2d)

// ---- triangles, constants ---------------------------------------------------------------------------------------------------

static aclError run_triangle(const emu_run *run) {
    const shape_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0), out = op_view(run, t->dim);
    return op_done(run, em_triangle(&x, t->start, t->upper, &out));
}

static aclnnStatus triangle(const char *name, const aclTensor *self, int64_t diagonal, const aclTensor *out, bool upper,
                            WS) {
    emu_op op;
    const emu_view *v[2];
    begin(&op, name, self, out, v, workspaceSize, executor);
    emu_op_rank(&op, "self", v[0], 2, 8);
    emu_op_same_shape(&op, "out", v[1], "self", v[0]);
    return done(&op, run_triangle, &(shape_attrs){.start = diagonal, .upper = upper, .dim = 1});
}
aclnnStatus aclnnTriuGetWorkspaceSize(const aclTensor *self, int64_t diagonal, aclTensor *out, WS) {
    return triangle("aclnnTriu", self, diagonal, out, true, workspaceSize, executor);
}
EMU_PHASE_2(aclnnTriu)
aclnnStatus aclnnTrilGetWorkspaceSize(const aclTensor *self, int64_t diagonal, aclTensor *out, WS) {
    return triangle("aclnnTril", self, diagonal, out, false, workspaceSize, executor);
}
EMU_PHASE_2(aclnnTril)
aclnnStatus aclnnInplaceTriuGetWorkspaceSize(aclTensor *selfRef, int64_t diagonal, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnInplaceTriu", workspaceSize, executor);
    const emu_view *x = emu_op_inout(&op, "selfRef", selfRef);
    emu_op_dtype(&op, "selfRef", x, NUMBERS);
    emu_op_rank(&op, "selfRef", x, 2, 8);
    return done(&op, run_triangle, &(shape_attrs){.start = diagonal, .upper = true});
}
EMU_PHASE_2(aclnnInplaceTriu)

static aclError run_fill(const emu_run *run) {
    const shape_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0);
    return op_done(run, em_fill(&x, t->value));
}
aclnnStatus aclnnInplaceZeroGetWorkspaceSize(aclTensor *selfRef, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnInplaceZero", workspaceSize, executor);
    emu_op_dtype(&op, "selfRef", emu_op_out(&op, "selfRef", selfRef), NUMBERS);
    return done(&op, run_fill, &(shape_attrs){0});
}
EMU_PHASE_2(aclnnInplaceZero)
aclnnStatus aclnnInplaceFillScalarGetWorkspaceSize(aclTensor *selfRef, const aclScalar *value, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnInplaceFillScalar", workspaceSize, executor);
    emu_op_dtype(&op, "selfRef", emu_op_out(&op, "selfRef", selfRef), NUMBERS);
    return done(&op, run_fill, &(shape_attrs){.value = emu_op_scalar(&op, "value", value)});
}
EMU_PHASE_2(aclnnInplaceFillScalar)

static aclError run_arange(const emu_run *run) {
    const shape_attrs *t = run->attrs;
    struct em_view out = op_view(run, 0);
    return op_done(run, em_arange(&out, t->value, t->by));
}
aclnnStatus aclnnArangeGetWorkspaceSize(const aclScalar *start, const aclScalar *end, const aclScalar *step,
                                        aclTensor *out, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnArange", workspaceSize, executor);
    const emu_view *o = emu_op_out(&op, "out", out);
    emu_op_dtype(&op, "out", o, EMU_FLOATS | EMU_DT(INT32) | EMU_DT(INT64));
    shape_attrs t = {.value = emu_op_scalar(&op, "start", start), .by = emu_op_scalar(&op, "step", step)};
    double last = emu_op_scalar(&op, "end", end);
    if (emu_op_ok(&op) &&
        emu_op_need(&op, t.by != 0 && (last - t.value) / t.by >= 0, "from %g to %g by %g", t.value, last, t.by)) {
        int64_t n = (int64_t)ceil((last - t.value) / t.by);
        emu_op_need(&op, o->numel == n, "out has %lld elements, the range %lld", (long long)o->numel, (long long)n);
    }
    return done(&op, run_arange, &t);
}
EMU_PHASE_2(aclnnArange)

// ---- reductions -------------------------------------------------------------------------------------------------------------

static aclError run_reduce(const emu_run *run) {
    const shape_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0), out = op_view(run, 1), wide = out;
    int from = 0;
    wide.rank = x.rank;
    for (int d = 0; d < x.rank; d++) {
        bool gone = t->reduced >> d & 1;
        wide.dim[d] = gone ? 1 : x.dim[d];
        wide.stride[d] = gone ? 0 : out.rank == x.rank ? out.stride[d] : out.stride[from];
        if (!gone) from++;
    }
    if (!x.rank) x.rank = wide.rank = 1, wide.dim[0] = 1;
    struct em_order o = op_order(run);
    return op_done(run, em_reduce(t->reduce, &x, &wide, t->value, &o));
}

// dims empty: all. The result without, or with 1 in place of, the reduced dimensions.
static void check_reduce(emu_op *op, shape_attrs *t, const emu_view *const v[2], bool kept) {
    if (!emu_op_ok(op)) return;
    int64_t want[EMU_MAX_RANK];
    int n = 0;
    for (int i = 0; i < t->n; i++) {
        int64_t d = t->list[i] < 0 ? t->list[i] + v[0]->rank : t->list[i];
        if (!emu_op_need(op, d >= 0 && d < v[0]->rank && !(t->reduced >> d & 1), "dim[%d] is %lld", i,
                         (long long)t->list[i]))
            return;
        t->reduced |= 1u << d;
    }
    if (!t->n) t->reduced = 0xff;
    for (int d = 0; d < v[0]->rank; d++) {
        bool gone = t->reduced >> d & 1;
        if (!gone || kept) want[n++] = gone ? 1 : v[0]->dim[d];
    }
    if (!n && v[1]->rank == 1) want[n++] = 1; // one number may have the shape [1], as ggml gives it
    emu_op_shape(op, "out", v[1], n, want);
}

static aclnnStatus reduce(const char *name, enum em_reduce kind, const aclTensor *self, const aclIntArray *dims,
                          bool kept, int dtype, const aclScalar *p, const aclTensor *out, WS) {
    emu_op op;
    emu_op_begin(&op, name, workspaceSize, executor);
    const emu_view *v[2] = {emu_op_in(&op, "self", self), NULL};
    v[1] = emu_op_out(&op, "out", out);
    shape_attrs t = {.reduce = kind, .value = p ? emu_op_scalar(&op, "p", p) : 2};
    t.list = emu_op_ints(&op, "dim", dims, &t.n);
    emu_op_dtype(&op, "self", v[0], NUMBERS);
    emu_op_dtype(&op, "out", v[1], NUMBERS);
    if (emu_op_ok(&op) && dtype >= 0)
        emu_op_need(&op, (int)v[1]->dtype == dtype, "out is %s, dtype says %s", emu_dtype_name(v[1]->dtype),
                    emu_dtype_name((aclDataType)dtype));
    if (dtype < 0) emu_op_same_dtype(&op, "out", v[1], "self", v[0]);
    emu_op_sign(&op, kept);
    check_reduce(&op, &t, v, kept);
    return done(&op, run_reduce, &t);
}

aclnnStatus aclnnReduceSumGetWorkspaceSize(const aclTensor *self, const aclIntArray *dims, bool keepDims,
                                           aclDataType dtype, aclTensor *out, WS) {
    return reduce("aclnnReduceSum", EM_REDUCE_SUM, self, dims, keepDims, (int)dtype, NULL, out, workspaceSize,
                  executor);
}
EMU_PHASE_2(aclnnReduceSum)
aclnnStatus aclnnMeanGetWorkspaceSize(const aclTensor *self, const aclIntArray *dim, bool keepDim, aclDataType dtype,
                                      aclTensor *out, WS) {
    return reduce("aclnnMean", EM_REDUCE_MEAN, self, dim, keepDim, (int)dtype, NULL, out, workspaceSize, executor);
}
EMU_PHASE_2(aclnnMean)
aclnnStatus aclnnAmaxGetWorkspaceSize(const aclTensor *self, const aclIntArray *dim, bool keepDim, aclTensor *out, WS) {
    return reduce("aclnnAmax", EM_REDUCE_MAX, self, dim, keepDim, -1, NULL, out, workspaceSize, executor);
}
EMU_PHASE_2(aclnnAmax)
aclnnStatus aclnnNormGetWorkspaceSize(const aclTensor *self, const aclScalar *pScalar, const aclIntArray *dim,
                                      bool keepdim, aclTensor *out, WS) {
    return reduce("aclnnNorm", EM_REDUCE_NORM, self, dim, keepdim, -1, pScalar, out, workspaceSize, executor);
}
EMU_PHASE_2(aclnnNorm)

static aclError run_cumsum(const emu_run *run) {
    const shape_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0), out = op_view(run, 1);
    return op_done(run, em_cumsum(&x, t->dim, &out));
}
aclnnStatus aclnnCumsumGetWorkspaceSize(const aclTensor *self, int64_t dim, aclDataType dtype, aclTensor *out, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnCumsum", workspaceSize, executor);
    const emu_view *x = emu_op_in(&op, "self", self), *o = emu_op_out(&op, "out", out);
    emu_op_dtype(&op, "self", x, NUMBERS);
    emu_op_same_shape(&op, "out", o, "self", x);
    emu_op_rank(&op, "self", x, 1, 8);
    if (emu_op_ok(&op))
        emu_op_need(&op, o->dtype == dtype, "out is %s, dtype says %s", emu_dtype_name(o->dtype),
                    emu_dtype_name(dtype));
    return done(&op, run_cumsum, &(shape_attrs){.dim = op_dim(&op, dim, x)});
}
EMU_PHASE_2(aclnnCumsum)
