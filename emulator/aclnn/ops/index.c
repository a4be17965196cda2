// Gathering, scattering, sorting.
#include "emulator/aclnn/ops/common.h"

#include <stdlib.h>
#include <string.h>

#define NUMBERS (EMU_FLOATS | EMU_INTS | EMU_DT(BOOL))
#define INDEX (EMU_DT(INT32) | EMU_DT(INT64))

typedef struct {
    int dim, values, indices; // slots; -1: not wanted
    int64_t k;
    bool descending, accumulate, kept, any_ties;
    double value;
    const int64_t *list;
    int n;
    bool heads_first; // of a cache: (blocks, N, block, D)
} index_attrs;

static aclnnStatus done(emu_op *op, emu_kernel *kernel, const index_attrs *t) {
    return emu_op_finish(op,
                         &(emu_op_plan){.kernel = kernel, .attrs = t, .attrs_size = sizeof *t, .workspace = 16 * 1024});
}

// ---- gather ------------------------------------------------------------------------------------------------------------

static aclError run_gather(const emu_run *run) { // slots self, index, out
    const index_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0), i = op_view(run, 1), out = op_view(run, 2);
    return op_done(run, em_gather(&x, t->dim, &i, &out));
}

static aclnnStatus gather(const char *name, const aclTensor *self, int64_t dim, const aclTensor *index,
                          const aclTensor *out, WS) {
    emu_op op;
    emu_op_begin(&op, name, workspaceSize, executor);
    const emu_view *x = emu_op_in(&op, "self", self), *i = emu_op_in(&op, "index", index),
                   *o = emu_op_out(&op, "out", out);
    emu_op_dtype(&op, "self", x, NUMBERS);
    emu_op_dtype(&op, "index", i, INDEX);
    emu_op_same_dtype(&op, "out", o, "self", x);
    op_no_nz(&op, "self", x);
    if (!strcmp(name, "aclnnIndexSelect")) emu_op_rank(&op, "index", i, 0, 1);
    if (!strcmp(name, "aclnnEmbedding")) emu_op_rank(&op, "weight", x, 2, 2);
    index_attrs t = {.dim = op_dim(&op, dim, x)};
    if (emu_op_ok(&op)) {
        int64_t want[2 * EMU_MAX_RANK];
        int n = 0;
        for (int d = 0; d < t.dim; d++) want[n++] = x->dim[d];
        for (int d = 0; d < i->rank; d++) want[n++] = i->dim[d];
        if (i->rank == 0 && !strcmp(name, "aclnnIndexSelect")) want[n++] = 1;
        for (int d = t.dim + 1; d < x->rank; d++) want[n++] = x->dim[d];
        if (emu_op_need(&op, n <= EMU_MAX_RANK, "out would have rank %d", n)) emu_op_shape(&op, "out", o, n, want);
    }
    return done(&op, run_gather, &t);
}

aclnnStatus aclnnGatherV2GetWorkspaceSize(const aclTensor *self, int64_t dim, const aclTensor *index, aclTensor *out,
                                          WS) {
    return gather("aclnnGatherV2", self, dim, index, out, workspaceSize, executor);
}
EMU_PHASE_2(aclnnGatherV2)
aclnnStatus aclnnIndexSelectGetWorkspaceSize(const aclTensor *self, int64_t dim, const aclTensor *index, aclTensor *out,
                                             WS) {
    return gather("aclnnIndexSelect", self, dim, index, out, workspaceSize, executor);
}
EMU_PHASE_2(aclnnIndexSelect)
aclnnStatus aclnnEmbeddingGetWorkspaceSize(const aclTensor *weight, const aclTensor *indices, const aclTensor *out,
                                           WS) {
    return gather("aclnnEmbedding", weight, 0, indices, out, workspaceSize, executor);
}
EMU_PHASE_2(aclnnEmbedding)

// ---- scatter -----------------------------------------------------------------------------------------------------------

static aclError run_index_copy(const emu_run *run) { // slots selfRef, index, source, out
    const index_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0), i = op_view(run, 1), s = op_view(run, 2), out = op_view(run, 3);
    int rc = out.absent ? EM_OK : em_copy(&x, &out);
    return op_done(run, rc ? rc : em_scatter(out.absent ? &x : &out, t->dim, &i, &s));
}

static aclnnStatus index_copy(const char *name, const aclTensor *self, int64_t dim, const aclTensor *index,
                              const aclTensor *source, const aclTensor *out, bool in_place, WS) {
    emu_op op;
    emu_op_begin(&op, name, workspaceSize, executor);
    const emu_view *x = emu_op_inout(&op, "selfRef", self), *i = emu_op_in(&op, "index", index),
                   *s = emu_op_in(&op, "source", source);
    const emu_view *o = in_place ? emu_op_out_opt(&op, "outRef", NULL) : emu_op_out(&op, "outRef", out);
    emu_op_dtype(&op, "selfRef", x, NUMBERS);
    emu_op_dtype(&op, "index", i, INDEX);
    emu_op_rank(&op, "index", i, 0, 1);
    emu_op_same_dtype(&op, "source", s, "selfRef", x);
    emu_op_same_dtype(&op, "outRef", o, "selfRef", x);
    if (o) emu_op_same_shape(&op, "outRef", o, "selfRef", x);
    index_attrs t = {.dim = op_dim(&op, dim, x)};
    if (emu_op_ok(&op)) {
        int64_t want[EMU_MAX_RANK];
        memcpy(want, x->dim, sizeof want);
        want[t.dim] = i->numel;
        emu_op_shape(&op, "source", s, x->rank, want);
    }
    return done(&op, run_index_copy, &t);
}

aclnnStatus aclnnInplaceIndexCopyGetWorkspaceSize(aclTensor *selfRef, int64_t dim, const aclTensor *index,
                                                  const aclTensor *source, WS) {
    return index_copy("aclnnInplaceIndexCopy", selfRef, dim, index, source, NULL, true, workspaceSize, executor);
}
EMU_PHASE_2(aclnnInplaceIndexCopy)
aclnnStatus aclnnIndexCopyGetWorkspaceSize(aclTensor *selfRef, int64_t dim, const aclTensor *index,
                                           const aclTensor *source, aclTensor *outRef, WS) {
    return index_copy("aclnnIndexCopy", selfRef, dim, index, source, outRef, false, workspaceSize, executor);
}
EMU_PHASE_2(aclnnIndexCopy)

// Whether each of n rows of indices names a place of x's leading dimensions, and no two the same.
static int check_places(const emu_run *run, const index_attrs *t, const struct em_view *x, int64_t n) {
    int64_t places = 1;
    for (int d = 0; d < t->n; d++) places *= x->dim[d];
    unsigned char *seen = calloc((size_t)places + 1, 1);
    int rc = seen ? EM_OK : EM_NO_MEMORY;
    for (int64_t i = 0; i < n && rc == EM_OK; i++) {
        int64_t place = 0;
        for (int d = 0; d < t->n && rc == EM_OK; d++) {
            struct em_view index = op_view_at(run, 1, d);
            int64_t at = em_index(&index, i);
            if (at < 0) at += x->dim[d];
            if (at < 0 || at >= x->dim[d]) rc = EM_OUT_OF_RANGE;
            place = place * x->dim[d] + at;
        }
        if (rc == EM_OK && seen[place]++) rc = EM_DUPLICATE;
    }
    free(seen);
    return rc;
}

static aclError run_index_put(const emu_run *run) { // slots selfRef, indices (leading dimensions), values
    const index_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0), v = op_view(run, 2), lead = op_view(run, 1);
    int64_t n = em_count(&lead), inner = 1, at[EM_RANK] = {0}, size = (int64_t)em_dtype_size(x.dtype);
    for (int d = t->n; d < x.rank; d++) inner *= x.dim[d];
    int64_t dims[EM_RANK] = {n};
    struct em_view flat;
    for (int d = t->n; d < x.rank; d++) dims[d - t->n + 1] = x.dim[d];
    if (!em_broadcast(&v, x.rank - t->n + 1, dims, &flat)) return op_done(run, EM_OUT_OF_RANGE);
    int rc = t->accumulate ? EM_OK : check_places(run, t, &x, n);
    if (rc) return op_done(run, rc);
    for (int64_t i = 0; i < n * inner; i++) {
        int64_t from[EM_RANK];
        em_unravel(i, flat.rank, flat.dim, from);
        for (int d = 0; d < t->n; d++) {
            struct em_view index = op_view_at(run, 1, d);
            at[d] = em_index(&index, i / inner);
            if (at[d] < 0) at[d] += x.dim[d];
            if (at[d] < 0 || at[d] >= x.dim[d]) return op_done(run, EM_OUT_OF_RANGE);
        }
        for (int d = t->n; d < x.rank; d++) at[d] = from[d - t->n + 1];
        char *dst = x.p + em_offset(&x, at) * size;
        double a, b;
        if (t->accumulate) {
            em_load_f64(x.dtype, dst, 1, &a, 1), em_load_f64(v.dtype, flat.p + em_offset(&flat, from) * size, 1, &b, 1);
            a += b;
            em_store_f64(x.dtype, dst, 1, &a, 1);
        } else
            memcpy(dst, flat.p + em_offset(&flat, from) * size, (size_t)size);
    }
    return ACL_SUCCESS;
}

aclnnStatus aclnnIndexPutImplGetWorkspaceSize(aclTensor *selfRef, const aclTensorList *indices, const aclTensor *values,
                                              const bool accumulate, const bool unsafe, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnIndexPutImpl", workspaceSize, executor);
    index_attrs t = {.accumulate = accumulate};
    (void)unsafe; // only lets the vendor skip a check
    const emu_view *x = emu_op_inout(&op, "selfRef", selfRef), *i = emu_op_in_list(&op, "indices", indices, &t.n),
                   *v = emu_op_in(&op, "values", values);
    emu_op_dtype(&op, "selfRef", x, NUMBERS);
    emu_op_same_dtype(&op, "values", v, "selfRef", x);
    for (int d = 0; d < t.n && emu_op_ok(&op); d++) {
        emu_op_dtype(&op, "indices", &i[d], INDEX);
        emu_op_same_shape(&op, "indices", &i[d], "the first index", &i[0]);
    }
    if (emu_op_ok(&op)) {
        emu_op_need(&op, t.n >= 1 && t.n <= x->rank && i[0].rank == 1,
                    "1-D indices for up to %d leading dimensions, not %d", x->rank, t.n);
        struct em_view w = {.rank = v->rank};
        int64_t dims[EM_RANK] = {i[0].numel};
        memcpy(w.dim, v->dim, sizeof w.dim);
        for (int d = t.n; d < x->rank; d++) dims[d - t.n + 1] = x->dim[d];
        emu_op_need(&op, em_broadcast(&w, x->rank - t.n + 1, dims, &w),
                    "values do not broadcast to what the indices select");
    }
    return done(&op, run_index_put, &t);
}
EMU_PHASE_2(aclnnIndexPutImpl)

static aclError run_index_fill(const emu_run *run) {
    const index_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0);
    int64_t size = (int64_t)em_dtype_size(x.dtype);
    for (int i = 0; i < t->n; i++) {
        struct em_view line = x;
        int64_t at = t->list[i] < 0 ? t->list[i] + x.dim[t->dim] : t->list[i];
        if (at < 0 || at >= x.dim[t->dim]) return op_done(run, EM_OUT_OF_RANGE);
        line.p += at * x.stride[t->dim] * size;
        line.dim[t->dim] = 1;
        em_fill(&line, t->value);
    }
    return ACL_SUCCESS;
}

aclnnStatus aclnnInplaceIndexFillTensorGetWorkspaceSize(aclTensor *selfRef, int64_t dim, const aclIntArray *index,
                                                        const aclScalar *value, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnInplaceIndexFillTensor", workspaceSize, executor);
    const emu_view *x = emu_op_inout(&op, "selfRef", selfRef);
    emu_op_dtype(&op, "selfRef", x, NUMBERS);
    index_attrs t = {.dim = op_dim(&op, dim, x)};
    t.list = emu_op_ints(&op, "index", index, &t.n);
    t.value = emu_op_scalar(&op, "value", value);
    return done(&op, run_index_fill, &t);
}
EMU_PHASE_2(aclnnInplaceIndexFillTensor)

// ---- keys and values into the pages of a cache ---------------------------------------------------------------------------

static aclError scatter_rows(const emu_run *run, const index_attrs *t, struct em_view src, struct em_view cache) {
    struct em_view slots = op_view(run, 2);
    int64_t block = cache.dim[t->heads_first ? 2 : 1], size = (int64_t)em_dtype_size(src.dtype);
    int64_t step = cache.stride[t->heads_first ? 2 : 1], head = cache.stride[t->heads_first ? 1 : 2];
    for (int64_t i = 0; i < src.dim[0]; i++) {
        int64_t slot = em_index(&slots, i);
        if (slot < 0 || slot >= cache.dim[0] * block)
            return emu_run_fault(run, "slot %lld of row %lld is outside of the cache's %lld", (long long)slot,
                                 (long long)i, (long long)(cache.dim[0] * block));
        for (int64_t j = 0; j < i; j++)
            if (em_index(&slots, j) == slot)
                return emu_run_fault(run, "rows %lld and %lld share slot %lld", (long long)j, (long long)i,
                                     (long long)slot);
        for (int64_t h = 0; h < src.dim[1]; h++)
            memcpy(cache.p + (slot / block * cache.stride[0] + slot % block * step + h * head) * size,
                   src.p + (i * src.stride[0] + h * src.stride[1]) * size, (size_t)(src.dim[2] * size));
    }
    return ACL_SUCCESS;
}

static aclError run_scatter_cache(const emu_run *run) { // slots key, keyCache, slotMapping, value, valueCache
    const index_attrs *t = run->attrs;
    aclError rc = scatter_rows(run, t, op_view(run, 0), op_view(run, 1));
    return rc || op_view(run, 3).absent ? rc : scatter_rows(run, t, op_view(run, 3), op_view(run, 4));
}

static void check_cache(emu_op *op, const char *name, const emu_view *row, const emu_view *cache, bool heads_first) {
    emu_op_rank(op, name, row, 3, 3);
    emu_op_rank(op, "cache", cache, 4, 4);
    emu_op_same_dtype(op, "cache", cache, name, row);
    emu_op_contiguous(op, "cache", cache);
    if (!emu_op_ok(op)) return;
    int64_t n = cache->dim[heads_first ? 1 : 2];
    emu_op_need(op, n == row->dim[1] && cache->dim[3] == row->dim[2],
                "%s has rows of %lld x %lld, its cache of %lld x %lld", name, (long long)row->dim[1],
                (long long)row->dim[2], (long long)n, (long long)cache->dim[3]);
    emu_op_need(op, row->stride[2] == 1, "the last dimension of %s is dense", name);
}

aclnnStatus aclnnScatterPaKvCacheGetWorkspaceSize(const aclTensor *key, aclTensor *keyCacheRef,
                                                  const aclTensor *slotMapping, const aclTensor *value,
                                                  aclTensor *valueCacheRef, const aclTensor *compressLensOptional,
                                                  const aclTensor *compressSeqOffsetOptional,
                                                  const aclTensor *seqLensOptional, char *cacheModeOptional,
                                                  char *scatterModeOptional, const aclIntArray *stridesOptional,
                                                  const aclIntArray *offsetsOptional, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnScatterPaKvCache", workspaceSize, executor);
    const emu_view *k = emu_op_in(&op, "key", key), *kc = emu_op_inout(&op, "keyCacheRef", keyCacheRef),
                   *s = emu_op_in(&op, "slotMapping", slotMapping);
    const emu_view *v = emu_op_in_opt(&op, "value", value),
                   *vc = v ? emu_op_inout(&op, "valueCacheRef", valueCacheRef)
                           : emu_op_inout_opt(&op, "valueCacheRef", valueCacheRef);
    op_absent(&op, "compressLens", compressLensOptional);
    op_absent(&op, "compressSeqOffset", compressSeqOffsetOptional);
    op_absent(&op, "seqLens", seqLensOptional);
    op_absent(&op, "strides", stridesOptional);
    op_absent(&op, "offsets", offsetsOptional);
    const char *mode = cacheModeOptional && *cacheModeOptional ? cacheModeOptional : "Norm";
    const char *how = scatterModeOptional && *scatterModeOptional ? scatterModeOptional : "None";
    emu_op_need(&op, !strcmp(mode, "Norm") || !strcmp(mode, "NHSD"),
                "cacheMode \"%.16s\" is not emulated: Norm or NHSD", mode);
    emu_op_need(&op, !strcmp(how, "None"), "scatterMode \"%.16s\" is not emulated: None", how);
    index_attrs t = {.heads_first = !strcmp(mode, "NHSD")};
    emu_op_dtype(&op, "key", k, EMU_HALVES | EMU_DT(INT8));
    emu_op_dtype(&op, "slotMapping", s, INDEX);
    emu_op_rank(&op, "slotMapping", s, 1, 1);
    check_cache(&op, "key", k, kc, t.heads_first);
    if (v) check_cache(&op, "value", v, vc, t.heads_first);
    if (emu_op_ok(&op))
        emu_op_need(&op, s->dim[0] == k->dim[0] && (!v || v->dim[0] == k->dim[0]), "%lld slots for %lld rows",
                    (long long)s->dim[0], (long long)k->dim[0]);
    return done(&op, run_scatter_cache, &t);
}
EMU_PHASE_2(aclnnScatterPaKvCache)

// ---- sorting -------------------------------------------------------------------------------------------------------------

static aclError run_sort(const emu_run *run) {
    const index_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0), v, i;
    struct em_sort s = {.x = &x, .dim = t->dim, .k = t->k, .descending = t->descending};
    if (t->any_ties) s.ties = run->perturb;
    if (t->values >= 0) s.values = op_optional(run, t->values, &v);
    if (t->indices >= 0) s.indices = op_optional(run, t->indices, &i);
    return op_done(run, em_sort(&s));
}

aclnnStatus aclnnTopkGetWorkspaceSize(const aclTensor *self, int64_t k, int64_t dim, bool largest, bool sorted,
                                      aclTensor *valuesOut, aclTensor *indicesOut, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnTopk", workspaceSize, executor);
    const emu_view *x = emu_op_in(&op, "self", self), *v = emu_op_out(&op, "valuesOut", valuesOut),
                   *i = emu_op_out(&op, "indicesOut", indicesOut);
    uint64_t types = emu_op_on(&op, EMU_ON(EMU_910A)) ? EMU_DT(FLOAT16)
                                                      : EMU_FLOATS | EMU_INTS; // the old chip's kernel is FP16 only
    emu_op_dtype(&op, "self", x, types);
    emu_op_same_dtype(&op, "valuesOut", v, "self", x);
    emu_op_dtype(&op, "indicesOut", i, EMU_DT(INT64));
    emu_op_need(&op, sorted, "sorted must be true");
    emu_op_sign(&op, k);
    index_attrs t = {.dim = op_dim(&op, dim, x), .k = k, .descending = largest, .values = 1, .indices = 2};
    t.any_ties = true; // the documents name no order
    if (emu_op_ok(&op)) {
        int64_t want[EMU_MAX_RANK];
        memcpy(want, x->dim, sizeof want);
        emu_op_need(&op, k >= 0 && k <= (x->rank ? x->dim[t.dim] : 1), "k is %lld", (long long)k);
        want[t.dim] = k;
        emu_op_shape(&op, "valuesOut", v, x->rank, want);
        emu_op_shape(&op, "indicesOut", i, x->rank, want);
    }
    return done(&op, run_sort, &t);
}
EMU_PHASE_2(aclnnTopk)

static aclnnStatus sort(const char *name, const aclTensor *self, int64_t dim, bool descending, const aclTensor *values,
                        const aclTensor *indices, bool with_values, WS) {
    emu_op op;
    emu_op_begin(&op, name, workspaceSize, executor);
    const emu_view *x = emu_op_in(&op, "self", self), *v = with_values ? emu_op_out(&op, "valuesOut", values) : NULL;
    const emu_view *i = emu_op_out(&op, "indicesOut", indices);
    emu_op_dtype(&op, "self", x, EMU_FLOATS | EMU_INTS);
    emu_op_same_dtype(&op, "valuesOut", v, "self", x);
    emu_op_dtype(&op, "indicesOut", i, EMU_DT(INT64));
    if (v) emu_op_same_shape(&op, "valuesOut", v, "self", x);
    emu_op_same_shape(&op, "indicesOut", i, "self", x);
    index_attrs t = {.dim = op_dim(&op, dim, x),
                     .descending = descending,
                     .values = with_values ? 1 : -1,
                     .indices = with_values ? 2 : 1};
    if (emu_op_ok(&op)) {
        t.k = x->rank ? x->dim[t.dim] : 1;
        emu_op_need(&op, x->dtype != ACL_BF16 || t.k != 1 || !emu_op_on(&op, EMU_ON(EMU_A2) | EMU_ON(EMU_A3)),
                    "BF16 along an axis of 1 is not supported");
    }
    return done(&op, run_sort, &t);
}

aclnnStatus aclnnSortGetWorkspaceSize(const aclTensor *self, bool stable, int64_t dim, bool descending,
                                      aclTensor *valuesOut, aclTensor *indicesOut, WS) {
    (void)stable; // always is
    return sort("aclnnSort", self, dim, descending, valuesOut, indicesOut, true, workspaceSize, executor);
}
EMU_PHASE_2(aclnnSort)
aclnnStatus aclnnArgsortGetWorkspaceSize(const aclTensor *self, int64_t dim, bool descending, aclTensor *out, WS) {
    return sort("aclnnArgsort", self, dim, descending, NULL, out, false, workspaceSize, executor);
}
EMU_PHASE_2(aclnnArgsort)

static aclError run_arg_max(const emu_run *run) {
    const index_attrs *t = run->attrs;
    struct em_view x = op_view(run, 0), v, i = op_view(run, t->indices), *w[2] = {&i, NULL};
    if (t->values >= 0) v = op_view(run, t->values), w[1] = &v;
    for (int k = 0; k < 2; k++) { // the dimension back in, as one of 1
        if (!w[k] || t->kept) continue;
        for (int d = x.rank - 1; d > t->dim; d--)
            w[k]->dim[d] = w[k]->dim[d - 1], w[k]->stride[d] = w[k]->stride[d - 1];
        w[k]->dim[t->dim] = 1, w[k]->stride[t->dim] = 0, w[k]->rank = x.rank;
    }
    return op_done(run, em_arg_max(&x, t->dim, &i, w[1]));
}

static void check_reduced(emu_op *op, const char *name, const emu_view *x, const emu_view *out, int dim, bool kept) {
    if (!emu_op_ok(op)) return;
    int64_t want[EMU_MAX_RANK];
    int n = 0;
    for (int d = 0; d < x->rank; d++)
        if (d != dim || kept) want[n++] = d == dim ? 1 : x->dim[d];
    emu_op_shape(op, name, out, n, want);
}

aclnnStatus aclnnArgMaxGetWorkspaceSize(const aclTensor *self, int64_t dim, bool keepdim, aclTensor *out, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnArgMax", workspaceSize, executor);
    const emu_view *x = emu_op_in(&op, "self", self), *o = emu_op_out(&op, "out", out);
    emu_op_dtype(&op, "self", x, EMU_FLOATS | EMU_INTS);
    emu_op_dtype(&op, "out", o, INDEX);
    emu_op_rank(&op, "self", x, 1, 8);
    emu_op_not_empty(&op, "self", x);
    index_attrs t = {.dim = op_dim(&op, dim, x), .kept = keepdim, .values = -1, .indices = 1};
    check_reduced(&op, "out", x, o, t.dim, keepdim);
    return done(&op, run_arg_max, &t);
}
EMU_PHASE_2(aclnnArgMax)

aclnnStatus aclnnMaxDimGetWorkspaceSize(const aclTensor *self, int64_t dim, bool keepdim, aclTensor *out,
                                        aclTensor *indices, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnMaxDim", workspaceSize, executor);
    const emu_view *x = emu_op_in(&op, "self", self), *v = emu_op_out(&op, "out", out),
                   *i = emu_op_out(&op, "indices", indices);
    emu_op_dtype(&op, "self", x, EMU_FLOATS | EMU_INTS);
    emu_op_same_dtype(&op, "out", v, "self", x);
    emu_op_dtype(&op, "indices", i, INDEX);
    emu_op_rank(&op, "self", x, 1, 8);
    emu_op_not_empty(&op, "self", x);
    index_attrs t = {.dim = op_dim(&op, dim, x), .kept = keepdim, .values = 1, .indices = 2};
    check_reduced(&op, "out", x, v, t.dim, keepdim);
    check_reduced(&op, "indices", x, i, t.dim, keepdim);
    return done(&op, run_arg_max, &t);
}
EMU_PHASE_2(aclnnMaxDim)
