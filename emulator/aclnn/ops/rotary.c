// Rotary position embedding: the fused operator for q and k, and the one for a single tensor.
#include "emulator/aclnn/ops/common.h"

#include <string.h>

typedef struct {
    enum em_rotary mode;
} rotary_attrs;

// Numbers per row of q and k together that one vector core's buffer holds. UNVERIFIED: the documentation has a formula.
enum { ROW_LIMIT = 12288 };

static aclError run_pair(const emu_run *run) {
    const rotary_attrs *t = run->attrs;
    struct em_view q = op_view(run, 0), k = op_view(run, 1), c = op_view(run, 2), s = op_view(run, 3);
    int rc = em_rotary(&q, &c, &s, t->mode, &q);
    return op_done(run, rc ? rc : em_rotary(&k, &c, &s, t->mode, &k));
}

static bool parse_mode(emu_op *op, const char *mode, enum em_rotary *m) {
    *m = EM_ROTARY_HALF;
    bool is_950 = emu_op_chip(op)->family == EMU_950;
    if (!mode || !strcmp(mode, "half")) return true;
    if (is_950 && !strcmp(mode, "interleave")) return *m = EM_ROTARY_INTERLEAVE, true;
    if (is_950 && !strcmp(mode, "quarter")) return *m = EM_ROTARY_QUARTER, true;
    return emu_op_need_tiling(op, false, "rotaryMode \"%.32s\" does not exist on %s", mode, emu_op_chip(op)->name);
}

// Where batch, row and head are in each layout; -1: not there.
static const struct {
    int rank, b, s, n;
} layouts[5] = {{0, 0, 0, 0}, {4, 0, 1, 2}, {4, 1, 0, 2}, {4, 0, 2, 1}, {3, -1, 0, 1}};

static void check_pair(emu_op *op, const emu_view *const v[4], int64_t layout, enum em_rotary mode) {
    bool is_950 = emu_op_chip(op)->family == EMU_950;
    if (!emu_op_ok(op) ||
        !emu_op_need_tiling(op, layout == 1 || layout == 4 || (is_950 && layout >= 1 && layout <= 4),
                            "layout %lld does not exist on %s", (long long)layout, emu_op_chip(op)->name))
        return;
    static const char *const names[4] = {"queryRef", "keyRef", "cos", "sin"};
    int rank = layouts[layout].rank, n = layouts[layout].n;
    emu_op_dtype(op, names[0], v[0], EMU_FLOATS);
    for (int i = 0; i < 4; i++) {
        emu_op_rank(op, names[i], v[i], rank, rank);
        emu_op_same_dtype(op, names[i], v[i], names[0], v[0]);
        emu_op_contiguous(op, names[i], v[i]);
    }
    if (!emu_op_ok(op)) return;
    int64_t d = v[0]->dim[rank - 1], rot = v[2]->dim[rank - 1];
    for (int i = 1; i < 4; i++)
        for (int j = 0; j + 1 < rank; j++) {
            int64_t want = j == n ? (i == 1 ? v[1]->dim[j] : 1) : v[0]->dim[j];
            emu_op_need_tiling(op, v[i]->dim[j] == want, "dimension %d of %s is %lld, not %lld", j, names[i],
                               (long long)v[i]->dim[j], (long long)want);
        }
    emu_op_need_tiling(op, v[1]->dim[rank - 1] == d && v[3]->dim[rank - 1] == rot, "the last dimensions differ");
    if (is_950)
        emu_op_need_tiling(op, d <= 1024 && rot <= d && rot % (mode == EM_ROTARY_QUARTER ? 4 : 2) == 0,
                           "a head of %lld, %lld turned", (long long)d, (long long)rot);
    else
        emu_op_need_tiling(op, (d == 64 || d == 128) && rot == d,
                           "a head has 64 or 128 elements, all turned, not %lld, %lld turned", (long long)d,
                           (long long)rot);
    int64_t row = (v[0]->dim[n] + v[1]->dim[n]) * d;
    emu_op_need_tiling(op, row <= ROW_LIMIT, "a row of %lld elements exceeds the vector core's buffer (%d)",
                       (long long)row, ROW_LIMIT);
}

static aclnnStatus pair(const char *name, aclTensor *const qk[2], const aclTensor *const table[2], int64_t layout,
                        const char *mode, WS) {
    emu_op op;
    emu_op_begin(&op, name, workspaceSize, executor);
    const emu_view *v[4] = {emu_op_inout(&op, "queryRef", qk[0]), NULL, NULL, NULL};
    v[1] = emu_op_inout(&op, "keyRef", qk[1]);
    v[2] = emu_op_in(&op, "cos", table[0]);
    v[3] = emu_op_in(&op, "sin", table[1]);
    rotary_attrs attrs;
    parse_mode(&op, mode, &attrs.mode);
    check_pair(&op, v, layout, attrs.mode);
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_pair, .attrs = &attrs, .attrs_size = sizeof attrs, .workspace = 16 * MIB});
}

aclnnStatus aclnnApplyRotaryPosEmbV2GetWorkspaceSize(aclTensor *queryRef, aclTensor *keyRef, const aclTensor *cos,
                                                     const aclTensor *sin, int64_t layout, char *rotaryMode, WS) {
    return pair("aclnnApplyRotaryPosEmbV2", (aclTensor *[2]){queryRef, keyRef}, (const aclTensor *[2]){cos, sin},
                layout, rotaryMode, workspaceSize, executor);
}
EMU_PHASE_2(aclnnApplyRotaryPosEmbV2)

aclnnStatus aclnnApplyRotaryPosEmbGetWorkspaceSize(aclTensor *queryRef, aclTensor *keyRef, const aclTensor *cos,
                                                   const aclTensor *sin, int64_t layout, WS) {
    return pair("aclnnApplyRotaryPosEmb", (aclTensor *[2]){queryRef, keyRef}, (const aclTensor *[2]){cos, sin}, layout,
                "half", workspaceSize, executor);
}
EMU_PHASE_2(aclnnApplyRotaryPosEmb)

// ---- one tensor --------------------------------------------------------------------------------------------------------

static aclError run_one(const emu_run *run) {
    const rotary_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0), c = op_view(run, 1), s = op_view(run, 2), out = op_view(run, 3);
    return op_done(run, em_rotary(&x, &c, &s, t->mode, &out));
}

static void check_one(emu_op *op, const emu_view *x, const emu_view *c, int64_t mode) {
    if (!emu_op_ok(op)) return;
    int rank = x->rank;
    int64_t d = x->dim[rank - 1], most = emu_op_chip(op)->family == EMU_950 ? 1024 : 895;
    emu_op_need(op, d % 2 == 0 && d <= most, "a head of %lld elements: even and at most %lld", (long long)d,
                (long long)most);
    emu_op_need(op, c->dim[rank - 1] == d, "cos has %lld elements a head, x %lld", (long long)c->dim[rank - 1],
                (long long)d);
    for (int i = 0; i + 1 < rank; i++)
        emu_op_need(op, c->dim[i] == x->dim[i] || c->dim[i] == 1, "dimension %d of cos is %lld, of x %lld", i,
                    (long long)c->dim[i], (long long)x->dim[i]);
    if (!emu_op_ok(op) || rank != 4) return;
    // the layout shows in where cos has the rows: BNSD when dimension 2 is full and 1 is not
    bool bnsd = c->dim[2] == x->dim[2] && c->dim[1] == 1 && x->dim[1] != 1 && x->dim[2] != 1;
    int64_t b = x->dim[0], n = bnsd ? x->dim[1] : x->dim[2], s = bnsd ? x->dim[2] : x->dim[1];
    emu_op_need(op, n < 1000, "%lld heads: under 1000", (long long)n);
    if (bnsd && mode == 0 && d / 2 * emu_dtype_bits(x->dtype) / 8 % 32 == 0)
        emu_op_need_tiling(op, b * n <= 8 * s, "BNSD in half mode needs B * N <= 8 * S: %lld * %lld, %lld rows",
                           (long long)b, (long long)n, (long long)s);
}

aclnnStatus aclnnRotaryPositionEmbeddingGetWorkspaceSize(const aclTensor *x, const aclTensor *cos, const aclTensor *sin,
                                                         int64_t mode, aclTensor *out, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnRotaryPositionEmbedding", workspaceSize, executor);
    const emu_view *xv = emu_op_in(&op, "x", x), *cv = emu_op_in(&op, "cos", cos), *sv = emu_op_in(&op, "sin", sin),
                   *ov = emu_op_out(&op, "out", out);
    emu_op_dtype(&op, "x", xv, EMU_FLOATS);
    emu_op_rank(&op, "x", xv, 3, 4);
    emu_op_same_dtype(&op, "cos", cv, "x", xv);
    emu_op_same_dtype(&op, "sin", sv, "x", xv);
    emu_op_same_dtype(&op, "out", ov, "x", xv);
    emu_op_same_shape(&op, "out", ov, "x", xv);
    emu_op_same_shape(&op, "sin", sv, "cos", cv);
    emu_op_contiguous(&op, "out", ov); // as ggml's authors found; x may have strides
    if (emu_op_ok(&op)) {
        emu_op_rank(&op, "cos", cv, xv->rank, xv->rank);
        int64_t most = emu_op_on(&op, EMU_ON(EMU_950)) ? 3 : emu_op_on(&op, EMU_ON(EMU_310P)) ? 0 : 1;
        emu_op_need(&op, mode >= 0 && mode <= most, "mode %lld does not exist on %s", (long long)mode,
                    emu_op_chip(&op)->name);
    }
    check_one(&op, xv, cv, mode);
    rotary_attrs attrs = {.mode = (enum em_rotary)mode};
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_one, .attrs = &attrs, .attrs_size = sizeof attrs, .workspace = 64 * 1024});
}
EMU_PHASE_2(aclnnRotaryPositionEmbedding)
