// Operators over windows of an image or a line: pooling, im2col, convolution. Other programs' graphs want them; the loops are plain.
#include "emulator/aclnn/ops/common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const int64_t *kernel, *stride, *pad, *dilation; // two numbers each, rows before columns
    const int64_t *out_pad;
    bool max, include_pad, transposed;
    int64_t divisor, groups;
    int spatial; // dimensions that windows move over
} window_attrs;

static float get(const struct em_view *v, const int64_t *at) {
    float f = 0;
    em_load_f32(v->dtype, v->p + em_offset(v, at) * (int64_t)em_dtype_size(v->dtype), 1, &f, 1);
    return f;
}
static void put(const struct em_view *v, const int64_t *at, float f) {
    em_store_f32(v->dtype, v->p + em_offset(v, at) * (int64_t)em_dtype_size(v->dtype), 1, &f, 1);
}

static aclnnStatus done(emu_op *op, emu_kernel *kernel, const window_attrs *t) {
    return emu_op_finish(op,
                         &(emu_op_plan){.kernel = kernel, .attrs = t, .attrs_size = sizeof *t, .workspace = 64 * 1024});
}

// ---- pooling -----------------------------------------------------------------------------------------------------------

static aclError run_pool(const emu_run *run) {
    const window_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0), out = op_view(run, 1);
    int h = x.rank - 2;
    for (int64_t i = 0; i < em_count(&out); i++) {
        int64_t at[EM_RANK], from[EM_RANK], inside = 0, count = 0;
        em_unravel(i, out.rank, out.dim, at);
        memcpy(from, at, sizeof from);
        float sum = 0, top = -INFINITY;
        for (int64_t a = 0; a < t->kernel[0]; a++)
            for (int64_t b = 0; b < t->kernel[1]; b++) {
                from[h] = at[h] * t->stride[0] - t->pad[0] + a, from[h + 1] = at[h + 1] * t->stride[1] - t->pad[1] + b;
                count += from[h] < x.dim[h] + t->pad[0] && from[h + 1] < x.dim[h + 1] + t->pad[1];
                if (from[h] < 0 || from[h] >= x.dim[h] || from[h + 1] < 0 || from[h + 1] >= x.dim[h + 1]) continue;
                float v = get(&x, from);
                sum += v, top = v > top ? v : top, inside++;
            }
        int64_t by = t->divisor ? t->divisor : t->include_pad ? count : inside;
        put(&out, at, t->max ? top : sum / (float)by);
    }
    return ACL_SUCCESS;
}

static void check_pool(emu_op *op, const emu_view *x, const emu_view *out, const window_attrs *t, const int n[3]) {
    emu_op_dtype(op, "self", x, EMU_FLOATS);
    emu_op_same_dtype(op, "out", out, "self", x);
    emu_op_rank(op, "self", x, 3, 4);
    emu_op_need(op, n[0] == 2 && n[1] == 2 && n[2] >= 2, "kernel, strides and paddings have two numbers");
    if (!emu_op_ok(op)) return;
    emu_op_need(op, t->kernel[0] > 0 && t->kernel[1] > 0 && t->stride[0] > 0 && t->stride[1] > 0,
                "kernel and strides are positive");
    if (!emu_op_ok(op)) return;
    int64_t want[EMU_MAX_RANK];
    memcpy(want, x->dim, sizeof want);
    for (int i = 0; i < 2; i++) {
        int64_t *d = want + x->rank - 2 + i;
        *d = (*d + 2 * t->pad[i] - t->kernel[i]) / t->stride[i] + 1;
    }
    emu_op_shape(op, "out", out, x->rank, want);
}

aclnnStatus aclnnAvgPool2dGetWorkspaceSize(const aclTensor *self, const aclIntArray *kernelSize,
                                           const aclIntArray *strides, const aclIntArray *paddings, const bool ceilMode,
                                           const bool countIncludePad, const int64_t divisorOverride,
                                           const int8_t cubeMathType, aclTensor *out, WS) {
    emu_op op;
    int n[3] = {0};
    (void)cubeMathType;
    emu_op_begin(&op, "aclnnAvgPool2d", workspaceSize, executor);
    const emu_view *x = emu_op_in(&op, "self", self), *o = emu_op_out(&op, "out", out);
    window_attrs t = {.include_pad = countIncludePad, .divisor = divisorOverride};
    t.kernel = emu_op_ints(&op, "kernelSize", kernelSize, &n[0]),
    t.stride = emu_op_ints(&op, "strides", strides, &n[1]);
    t.pad = emu_op_ints(&op, "paddings", paddings, &n[2]);
    emu_op_need(&op, !ceilMode, "ceilMode is not emulated");
    check_pool(&op, x, o, &t, n);
    return done(&op, run_pool, &t);
}
EMU_PHASE_2(aclnnAvgPool2d)

aclnnStatus aclnnMaxPoolGetWorkspaceSize(const aclTensor *self, const aclIntArray *kernelShape,
                                         const aclIntArray *strides, const int64_t autoPad, const aclIntArray *pads,
                                         const aclIntArray *dilations, const int64_t ceilMode, aclTensor *out, WS) {
    emu_op op;
    int n[3] = {0}, nd = 0;
    emu_op_begin(&op, "aclnnMaxPool", workspaceSize, executor);
    const emu_view *x = emu_op_in(&op, "self", self), *o = emu_op_out(&op, "out", out);
    window_attrs t = {.max = true};
    t.kernel = emu_op_ints(&op, "kernelShape", kernelShape, &n[0]),
    t.stride = emu_op_ints(&op, "strides", strides, &n[1]);
    t.pad = emu_op_ints(&op, "pads", pads, &n[2]), t.dilation = emu_op_ints(&op, "dilations", dilations, &nd);
    emu_op_need(&op, autoPad == 0 && ceilMode == 0, "autoPad and ceilMode are not emulated");
    for (int i = 0; emu_op_ok(&op) && i < n[2]; i++)
        emu_op_need(&op, t.pad[i] == 0, "pads are not emulated: pad before");
    for (int i = 0; emu_op_ok(&op) && i < nd; i++) emu_op_need(&op, t.dilation[i] == 1, "dilations are not supported");
    check_pool(&op, x, o, &t, n);
    return done(&op, run_pool, &t);
}
EMU_PHASE_2(aclnnMaxPool)

// ---- windows as columns ------------------------------------------------------------------------------------------------

// out (N, C * kh * kw, windows)
static aclError run_im2col(const emu_run *run) {
    const window_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0), out = op_view(run, 1);
    int64_t w = (x.dim[3] + 2 * t->pad[1] - t->dilation[1] * (t->kernel[1] - 1) - 1) / t->stride[1] + 1;
    for (int64_t i = 0; i < em_count(&out); i++) {
        int64_t at[EM_RANK];
        em_unravel(i, 3, out.dim, at);
        int64_t k = at[1] % (t->kernel[0] * t->kernel[1]), from[4] = {at[0], at[1] / (t->kernel[0] * t->kernel[1])};
        from[2] = at[2] / w * t->stride[0] - t->pad[0] + k / t->kernel[1] * t->dilation[0];
        from[3] = at[2] % w * t->stride[1] - t->pad[1] + k % t->kernel[1] * t->dilation[1];
        bool inside = from[2] >= 0 && from[2] < x.dim[2] && from[3] >= 0 && from[3] < x.dim[3];
        put(&out, at, inside ? get(&x, from) : 0);
    }
    return ACL_SUCCESS;
}

aclnnStatus aclnnIm2colGetWorkspaceSize(const aclTensor *self, const aclIntArray *kernelSize,
                                        const aclIntArray *dilation, const aclIntArray *padding,
                                        const aclIntArray *stride, const aclTensor *out, WS) {
    emu_op op;
    int n[4] = {0};
    emu_op_begin(&op, "aclnnIm2col", workspaceSize, executor);
    const emu_view *x = emu_op_in(&op, "self", self), *o = emu_op_out(&op, "out", out);
    window_attrs t = {.kernel = emu_op_ints(&op, "kernelSize", kernelSize, &n[0])};
    t.dilation = emu_op_ints(&op, "dilation", dilation, &n[1]), t.pad = emu_op_ints(&op, "padding", padding, &n[2]);
    t.stride = emu_op_ints(&op, "stride", stride, &n[3]);
    emu_op_dtype(&op, "self", x, EMU_FLOATS);
    emu_op_same_dtype(&op, "out", o, "self", x);
    emu_op_rank(&op, "self", x, 4, 4);
    for (int i = 0; i < 4; i++) emu_op_need(&op, n[i] == 2, "two numbers for kernel, dilation, padding and stride");
    if (emu_op_ok(&op)) {
        int64_t windows = 1;
        for (int i = 0; i < 2; i++)
            windows *= (x->dim[2 + i] + 2 * t.pad[i] - t.dilation[i] * (t.kernel[i] - 1) - 1) / t.stride[i] + 1;
        emu_op_shape(&op, "out", o, 3, (int64_t[]){x->dim[0], x->dim[1] * t.kernel[0] * t.kernel[1], windows});
    }
    return done(&op, run_im2col, &t);
}
EMU_PHASE_2(aclnnIm2col)

// ---- convolution ---------------------------------------------------------------------------------------------------------

static struct em_view image(struct em_view v) { // a line is an image of one row
    if (v.rank == 4) return v;
    v.dim[3] = v.dim[2], v.stride[3] = v.stride[2];
    v.dim[2] = 1, v.stride[2] = 0, v.rank = 4;
    return v;
}

struct taps { // what an output element sums over
    struct em_view x, w;
    const window_attrs *t;
    int64_t k[2], s[2], p[2], d[2];
};

static int64_t of(const int64_t *v, int spatial, int i, int64_t otherwise) {
    return spatial == 2 ? v[i] : i ? v[0] : otherwise;
}

// The input position of output position `o` at tap `k` along an axis, or -1.
static int64_t source(const struct taps *c, int axis, int64_t o, int64_t k) {
    int64_t n = c->x.dim[2 + axis];
    if (!c->t->transposed) {
        int64_t i = o * c->s[axis] - c->p[axis] + k * c->d[axis];
        return i >= 0 && i < n ? i : -1;
    }
    int64_t i = o + c->p[axis] - k * c->d[axis];
    return i >= 0 && i % c->s[axis] == 0 && i / c->s[axis] < n ? i / c->s[axis] : -1;
}

static int64_t gather_taps(const struct taps *c, const int64_t *at, int64_t outs, float *a, float *b) {
    int64_t groups = c->t->groups, ins = c->x.dim[1] / groups, per = outs / groups, g = at[1] / per, n = 0;
    for (int64_t i = 0; i < ins; i++)
        for (int64_t y = 0; y < c->k[0]; y++)
            for (int64_t x = 0; x < c->k[1]; x++) {
                int64_t from[4] = {at[0], g * ins + i, source(c, 0, at[2], y), source(c, 1, at[3], x)};
                int64_t w[4] = {c->t->transposed ? g * ins + i : at[1], c->t->transposed ? at[1] % per : i, y, x};
                if (from[2] < 0 || from[3] < 0) continue;
                a[n] = get(&c->x, from), b[n++] = get(&c->w, w);
            }
    return n;
}

static aclError run_convolution(const emu_run *run) {
    const window_attrs *t = run->attrs;
    struct em_view out = image(op_view(run, 3)), bias;
    const struct em_view *with = op_optional(run, 2, &bias);
    struct taps c = {.x = image(op_view(run, 0)), .w = image(op_view(run, 1)), .t = t};
    for (int i = 0; i < 2; i++) {
        c.k[i] = c.w.dim[2 + i];
        c.s[i] = of(t->stride, t->spatial, i, 1), c.p[i] = of(t->pad, t->spatial, i, 0),
        c.d[i] = of(t->dilation, t->spatial, i, 1);
    }
    int64_t most = c.x.dim[1] / t->groups * c.k[0] * c.k[1];
    float *a = malloc((size_t)(2 * most + 1) * sizeof *a);
    if (!a) return op_done(run, EM_NO_MEMORY);
    struct em_order order = op_order(run);
    for (int64_t i = 0; i < em_count(&out); i++) {
        int64_t at[EM_RANK];
        em_unravel(i, 4, out.dim, at);
        int64_t n = gather_taps(&c, at, out.dim[1], a, a + most);
        float sum = em_dot(&order, a, a + most, n);
        put(&out, at, with ? sum + get(with, &at[1]) : sum);
    }
    free(a);
    return ACL_SUCCESS;
}

static void check_convolution(emu_op *op, const emu_view *x, const emu_view *w, const emu_view *o,
                              const window_attrs *t) {
    if (!emu_op_ok(op)) return;
    int64_t g = t->groups, outs = o->dim[1];
    emu_op_need(op, g > 0 && x->dim[1] % g == 0 && outs % g == 0, "%lld groups of %lld channels", (long long)g,
                (long long)x->dim[1]);
    if (!emu_op_ok(op)) return;
    int64_t w0 = t->transposed ? x->dim[1] : outs, w1 = t->transposed ? outs / g : x->dim[1] / g;
    emu_op_need(op, w->dim[0] == w0 && w->dim[1] == w1, "the weight is [%lld, %lld, ..], not [%lld, %lld, ..]",
                (long long)w->dim[0], (long long)w->dim[1], (long long)w0, (long long)w1);
    for (int i = 0; i < t->spatial; i++) {
        int64_t n = x->dim[2 + i], k = w->dim[2 + i], reach = t->dilation[i] * (k - 1) + 1;
        int64_t want = t->transposed ? (n - 1) * t->stride[i] - 2 * t->pad[i] + reach + t->out_pad[i]
                                     : (n + 2 * t->pad[i] - reach) / t->stride[i] + 1;
        emu_op_need(op, o->dim[2 + i] == want, "axis %d of output is %lld, not %lld", i, (long long)o->dim[2 + i],
                    (long long)want);
    }
}

aclnnStatus aclnnConvolutionGetWorkspaceSize(const aclTensor *input, const aclTensor *weight, const aclTensor *bias,
                                             const aclIntArray *stride, const aclIntArray *padding,
                                             const aclIntArray *dilation, bool transposed,
                                             const aclIntArray *outputPadding, const int64_t groups, aclTensor *output,
                                             int8_t cubeMathType, WS) {
    emu_op op;
    int n[4] = {0};
    emu_op_begin(&op, "aclnnConvolution", workspaceSize, executor);
    const emu_view *x = emu_op_in(&op, "input", input), *w = emu_op_in(&op, "weight", weight),
                   *b = emu_op_in_opt(&op, "bias", bias), *o = emu_op_out(&op, "output", output);
    window_attrs t = {.transposed = transposed, .groups = groups};
    t.stride = emu_op_ints(&op, "stride", stride, &n[0]), t.pad = emu_op_ints(&op, "padding", padding, &n[1]);
    t.dilation = emu_op_ints(&op, "dilation", dilation, &n[2]),
    t.out_pad = emu_op_ints(&op, "outputPadding", outputPadding, &n[3]);
    emu_op_dtype(&op, "input", x, EMU_FLOATS);
    emu_op_dtype(&op, "weight", w, EMU_FLOATS);
    emu_op_dtype(&op, "output", o, EMU_FLOATS);
    emu_op_rank(&op, "input", x, 3, 4);
    emu_op_need(&op, cubeMathType >= 0 && cubeMathType <= 3, "cubeMathType %d is not between 0 and 3", cubeMathType);
    if (emu_op_ok(&op)) {
        t.spatial = x->rank - 2;
        emu_op_rank(&op, "weight", w, x->rank, x->rank);
        emu_op_rank(&op, "output", o, x->rank, x->rank);
        for (int i = 0; i < 3; i++) emu_op_need(&op, n[i] == t.spatial, "%d numbers for %d axes", n[i], t.spatial);
        emu_op_need(&op, !transposed || n[3] == t.spatial, "outputPadding has %d numbers for %d axes", n[3], t.spatial);
        for (int i = 0; emu_op_ok(&op) && i < t.spatial; i++)
            emu_op_need(&op, t.stride[i] > 0 && t.dilation[i] > 0, "strides and dilations are positive");
    }
    check_convolution(&op, x, w, o, &t);
    if (emu_op_ok(&op))
        emu_op_need(&op, !b || (b->rank == 1 && b->dim[0] == o->dim[1]),
                    "bias has one number per channel of the output");
    return done(&op, run_convolution, &t);
}
EMU_PHASE_2(aclnnConvolution)
