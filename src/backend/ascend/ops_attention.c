// Keys and values into the cache, and attention over it.
//
// One call of attention takes the 64 positions of a cache block as queries and the keys of that block and all before it, masked to the
// right-hand triangle: position p of the block sees keys up to p. Queries that are no rows of the step are computed and dropped. A
// path of a tree that is kept elsewhere is first laid out by position in blocks of its own (rows.c).
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ascend/internal.h"

enum { FUSED_MASK = 2048 }; // of the compressed mask of sparse modes 2 to 4

// ---- what is used, and its memory ------------------------------------------------------------------------------------------

// The fused operator takes sequences one behind the other (TND) with keys in blocks: heads of 64 or 128, or grouped heads of any
// multiple of 16 up to 256.
bool ascend_attention_fused(const ascend_backend *b, const op *o) {
    const ascend_library *lib = &b->device.lib;
    int64_t heads = o->in[0].dim[1], d = o->in[0].dim[2];
    bool there = lib->aclnnFusedInferAttentionScoreV5 || lib->aclnnFusedInferAttentionScoreV4 ||
                 lib->aclnnFusedInferAttentionScoreV3 || lib->aclnnFusedInferAttentionScoreV2;
    if (!there || !ascend_fuses(b, ASCEND_FUSED_ATTENTION) || d % 16 || heads > 256) return false;
    return d == 64 || d == 128 || (heads != o->args.attention.n_kv_heads && d <= 256);
}

static const op *first_attention(const ascend_backend *b) {
    for (int i = 0; i < b->list->n_ops; i++) {
        if (b->list->ops[i].code == OP_ATTENTION) return &b->list->ops[i];
    }
    return NULL;
}

// Fused: the strict upper triangle of 2048 x 2048. Composed: the same of 64 x 64, zeros to its left; a view of its last columns is
// the mask of any block.
static status make_mask(ascend_backend *b, bool fused, error *err) {
    int64_t rows = fused ? FUSED_MASK : ATTENTION_ROWS, columns = FUSED_MASK;
    if (!fused) columns = ascend_pad(b->limits.max_context, KV_BLOCK);
    unsigned char *mask = calloc((size_t)rows, (size_t)columns);
    if (!mask) return error_no_memory(err, (unsigned long long)(rows * columns));
    for (int64_t r = 0; r < rows; r++) {
        int64_t seen = columns - rows + r + 1;
        memset(mask + r * columns + seen, 1, (size_t)(columns - seen));
    }
    b->scratch.mask_columns = columns;
    status s = ascend_device_alloc(&b->device, rows * columns, "the causal mask", &b->scratch.mask, err);
    if (!s) s = ascend_device_upload(&b->device, b->scratch.mask, mask, (size_t)(rows * columns), err);
    free(mask);
    return s;
}

status ascend_attention_prepare(ascend_backend *b, error *err) {
    const op *o = first_attention(b);
    if (!o) return STATUS_OK;
    ascend_device *d = &b->device;
    ascend_scratch *s = &b->scratch;
    int64_t row = tensor_row_len(&o->in[0]) * 2,
            tiles = b->spec.tile < b->limits.max_rows ? b->spec.tile : b->limits.max_rows;
    TRY(ascend_device_alloc(d, tiles * ATTENTION_ROWS * row, "queries by position", &s->queries, err));
    TRY(ascend_device_alloc(d, tiles * ATTENTION_ROWS * row, "attention's results", &s->results, err));
    bool fused = ascend_attention_fused(b, o);
    b->attention_fused = fused;
    TRY(make_mask(b, fused, err));
    if (fused) return STATUS_OK;
    int64_t keys = ascend_pad(b->limits.max_context, KV_BLOCK),
            key_row = (int64_t)b->cache.n_kv_heads * b->cache.head_dim * 2;
    int64_t scores = o->in[0].dim[1] * ATTENTION_ROWS * keys * 2;
    TRY(ascend_device_alloc(d, keys * key_row, "keys of one sequence", &s->keys, err));
    TRY(ascend_device_alloc(d, keys * key_row, "values of one sequence", &s->values, err));
    TRY(ascend_device_alloc(d, scores, "attention's scores", &s->scores, err));
    return ascend_device_alloc(d, scores, "attention's weights", &s->weights, err);
}

// ---- the cache -------------------------------------------------------------------------------------------------------------

static ascend_view cache_view(const ascend_backend *b, int layer, bool values,
                              int n_blocks) { // [positions, kv heads * d]
    return VIEW(ascend_cache_of(b, layer, values), ascend_act(b), (int64_t)n_blocks * KV_BLOCK,
                (int64_t)b->cache.n_kv_heads * b->cache.head_dim);
}

static status scatter_both(ascend_backend *b, const op *o, const ascend_view kv[2], const ascend_view *slots,
                           error *err) {
    ascend_call *c = &b->call;
    ascend_view cache[2];
    for (int i = 0; i < 2; i++) {
        cache[i] = VIEW(ascend_cache_of(b, o->layer, i), ascend_act(b), b->n_blocks, KV_BLOCK, b->cache.n_kv_heads,
                        b->cache.head_dim);
    }
    ASCEND_CALL(c, aclnnScatterPaKvCache, ascend_tensor(c, &kv[0]), ascend_tensor(c, &cache[0]),
                ascend_tensor(c, slots), ascend_tensor(c, &kv[1]), ascend_tensor(c, &cache[1]), NULL, NULL, NULL, NULL,
                NULL, NULL, NULL);
    return STATUS_OK;
}

// Row by row, where the chip has no operator for it (310P); the slots are on the host, too.
static status copy_rows(ascend_backend *b, const ascend_view *rows, int t, const ascend_view *cache, error *err) {
    size_t n = (size_t)(cache->dim[1] * 2);
    const int32_t *slot = b->rows.host + b->rows.slot + t * b->rows.tile;
    for (int i = 0; i < b->rows.tile && !b->call.dry; i++) {
        const char *from = (const char *)rows->data + (rows->offset + i * rows->stride[0]) * 2;
        int code = b->device.lib.aclrtMemcpyAsync((char *)cache->data + slot[i] * n, n, from, n,
                                                  ACL_MEMCPY_DEVICE_TO_DEVICE, b->device.stream);
        TRY(ascend_check(&b->device, code, "aclrtMemcpyAsync", err));
    }
    return STATUS_OK;
}

static status scatter_one(ascend_backend *b, const op *o, int part, int t, error *err) {
    ascend_call *c = &b->call;
    ascend_view rows = ascend_flat(ascend_rows_view(b, &o->in[part], t)),
                cache = cache_view(b, o->layer, part, b->n_blocks),
                slots = ascend_input_view(b, b->rows.slot + t * b->rows.tile, b->rows.tile);
    if (ASCEND_HAS(c, aclnnInplaceIndexCopy)) {
        ASCEND_CALL(c, aclnnInplaceIndexCopy, ascend_tensor(c, &cache), 0, ascend_tensor(c, &slots),
                    ascend_tensor(c, &rows));
    } else if (ASCEND_HAS(c, aclnnIndexPutImpl)) {
        ASCEND_CALL(c, aclnnIndexPutImpl, ascend_tensor(c, &cache), ascend_list(c, &slots), ascend_tensor(c, &rows),
                    false, false);
    } else {
        TRY(copy_rows(b, &rows, t, &cache, err));
    }
    return STATUS_OK;
}

status ascend_kv_store(ascend_backend *b, const op *o, int *skip, error *err) {
    (void)skip;
    bool both = ascend_fuses(b, ASCEND_FUSED_SCATTER) && ASCEND_HAS(&b->call, aclnnScatterPaKvCache);
    for (int t = 0; t < ascend_tiles(b, &o->in[0]); t++) {
        const ascend_view kv[2] = {ascend_rows_view(b, &o->in[0], t), ascend_rows_view(b, &o->in[1], t)};
        ascend_view slots = ascend_input_view(b, b->rows.slot + t * b->rows.tile, b->rows.tile);
        if (both) {
            TRY(scatter_both(b, o, kv, &slots, err));
            continue;
        }
        for (int i = 0; i < 2; i++) TRY(scatter_one(b, o, i, t, err));
    }
    return STATUS_OK;
}

// A path's kept rows, by position, into the blocks for paths.
static status lay_out_path(ascend_backend *b, const op *o, const ascend_attention_tile *a, error *err) {
    int n = a->n_path_blocks * KV_BLOCK;
    for (int i = 0; i < 2 && a->source >= 0; i++) {
        ascend_view from = cache_view(b, o->layer, i, b->limits.n_blocks + 1),
                    to = cache_view(b, o->layer, i, b->n_blocks), source = ascend_input_view(b, a->source, n);
        to.offset = (int64_t)(b->limits.n_blocks + 1) * KV_BLOCK * to.dim[1];
        to.dim[0] = n;
        TRY(ascend_select(&b->call, &from, &source, &to, err));
    }
    return STATUS_OK;
}

// ---- the fused operator ----------------------------------------------------------------------------------------------------

typedef struct fused_views {
    ascend_view q, key, value, mask, table, out;
    int64_t q_end, kv_end; // of the one sequence of an attention tile
    const int64_t *q_len, *kv_len;
    int n_seqs;
} fused_views;

static fused_views fused_views_of(const ascend_backend *b, const op *o, const ascend_attention_tile *a, int at) {
    int64_t heads = o->in[0].dim[1], d = o->in[0].dim[2], row = (int64_t)b->cache.n_kv_heads * d;
    fused_views v = {.q = VIEW(b->scratch.queries, ascend_act(b), ATTENTION_ROWS, heads, d),
                     .key = VIEW(ascend_cache_of(b, o->layer, false), ascend_act(b), b->n_seen_blocks, KV_BLOCK, row),
                     .value = VIEW(ascend_cache_of(b, o->layer, true), ascend_act(b), b->n_seen_blocks, KV_BLOCK, row),
                     .mask = VIEW(b->scratch.mask, ACL_BOOL, FUSED_MASK, FUSED_MASK),
                     .table = VIEW(b->inputs, ACL_INT32, 1, a->block + 1),
                     .out = VIEW(b->scratch.results, ascend_act(b), ATTENTION_ROWS, heads, d),
                     .q_end = ATTENTION_ROWS,
                     .kv_end = (int64_t)(a->block + 1) * KV_BLOCK,
                     .n_seqs = 1};
    v.q.offset = v.out.offset = (int64_t)at * ATTENTION_ROWS * heads * d;
    v.table.offset = a->table;
    return v;
}

// Mode 3 masks to the right-hand triangle; it needs the lengths of the keys, or the past is not seen.
static status fused(ascend_backend *b, const op *o, const fused_views *v, error *err) {
    enum { RIGHT_DOWN = 3, PRECISE = 0 };
    ascend_call *c = &b->call;
    int64_t heads = o->in[0].dim[1], n_kv = b->cache.n_kv_heads;
    double scale = (double)o->args.attention.scale;
    char layout[] = "TND";
#define TENSORS \
    ascend_tensor(c, &v->q), ascend_list(c, &v->key), ascend_list(c, &v->value), NULL, ascend_tensor(c, &v->mask), \
        ascend_ints(c, v->q_len ? v->q_len : &v->q_end, v->n_seqs), \
        ascend_ints(c, v->kv_len ? v->kv_len : &v->kv_end, v->n_seqs), NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
        ascend_tensor(c, &v->table), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
#define ATTRIBUTES heads, scale, INT_MAX, INT_MAX, layout, n_kv, RIGHT_DOWN, PRECISE, KV_BLOCK, 0, false, 0, 0
    if (ASCEND_HAS(c, aclnnFusedInferAttentionScoreV5)) { // 950, which has no other
        ASCEND_CALL(c, aclnnFusedInferAttentionScoreV5, TENSORS, NULL, NULL, NULL, NULL, NULL, NULL, NULL, ATTRIBUTES,
                    0, 0, ascend_tensor(c, &v->out), NULL);
    } else if (ASCEND_HAS(c, aclnnFusedInferAttentionScoreV4)) {
        ASCEND_CALL(c, aclnnFusedInferAttentionScoreV4, TENSORS, NULL, NULL, NULL, NULL, NULL, ATTRIBUTES, 0,
                    ascend_tensor(c, &v->out), NULL);
    } else if (ASCEND_HAS(c, aclnnFusedInferAttentionScoreV3)) {
        ASCEND_CALL(c, aclnnFusedInferAttentionScoreV3, TENSORS, NULL, NULL, NULL, ATTRIBUTES,
                    ascend_tensor(c, &v->out), NULL);
    } else {
        ASCEND_CALL(c, aclnnFusedInferAttentionScoreV2, TENSORS, ATTRIBUTES, ascend_tensor(c, &v->out), NULL);
    }
#undef TENSORS
#undef ATTRIBUTES
    return STATUS_OK;
}

// ---- the composition: two products and a softmax ---------------------------------------------------------------------------

// Query heads g of kv head h are heads h * group + g; a product takes [kv heads, group, 64, d] times [kv heads, 1, d, keys].
static ascend_view by_kv_head(const ascend_backend *b, void *data, const op *o, int at) {
    int64_t heads = o->in[0].dim[1], d = o->in[0].dim[2], n_kv = b->cache.n_kv_heads, group = heads / n_kv;
    ascend_view v = VIEW(data, ascend_act(b), n_kv, group, ATTENTION_ROWS, d);
    v.stride[0] = group * d, v.stride[1] = d, v.stride[2] = heads * d;
    v.offset = (int64_t)at * ATTENTION_ROWS * heads * d;
    return v;
}

static status scores_of(ascend_backend *b, const op *o, const ascend_view *q, const ascend_view *k,
                        const ascend_view *s, error *err) {
    ascend_call *c = &b->call;
    ascend_view mask = VIEW(b->scratch.mask, ACL_BOOL, ATTENTION_ROWS, s->dim[3]);
    mask.stride[0] = b->scratch.mask_columns;
    mask.offset = b->scratch.mask_columns - s->dim[3];
    // scaled first: in F16 the products of long heads may exceed its range
    ASCEND_CALL_ONCE(c, aclnnInplaceMuls, ascend_tensor(c, q), ascend_scalar(c, o->args.attention.scale));
    ASCEND_CALL(c, aclnnMatmul, ascend_tensor(c, q), ascend_tensor(c, k), ascend_tensor(c, s), 0);
    ASCEND_CALL(c, aclnnInplaceMaskedFillScalar, ascend_tensor(c, s), ascend_tensor(c, &mask),
                ascend_scalar(c, -60000.0f));
    return STATUS_OK;
}

static status composed(ascend_backend *b, const op *o, const ascend_attention_tile *a, int at, error *err) {
    ascend_call *c = &b->call;
    int64_t n_kv = b->cache.n_kv_heads, d = b->cache.head_dim, keys = (int64_t)(a->block + 1) * KV_BLOCK;
    int64_t group = o->in[0].dim[1] / n_kv;
    void *to[2] = {b->scratch.keys, b->scratch.values};
    ascend_view blocks = ascend_input_view(b, a->table, a->block + 1);
    for (int i = 0; i < 2; i++) {
        ascend_view all = VIEW(ascend_cache_of(b, o->layer, i), ascend_act(b), b->n_blocks, KV_BLOCK * n_kv * d),
                    own = VIEW(to[i], ascend_act(b), a->block + 1, KV_BLOCK * n_kv * d);
        TRY(ascend_select(c, &all, &blocks, &own, err));
    }
    ascend_view q = by_kv_head(b, b->scratch.queries, o, at), out = by_kv_head(b, b->scratch.results, o, at),
                k = VIEW(b->scratch.keys, ascend_act(b), n_kv, 1, d, keys),
                v = VIEW(b->scratch.values, ascend_act(b), n_kv, 1, keys, d),
                s = VIEW(b->scratch.scores, ascend_act(b), n_kv, group, ATTENTION_ROWS, keys), p = s;
    k.stride[0] = v.stride[0] = d, k.stride[2] = 1, k.stride[3] = v.stride[2] = n_kv * d;
    k.stride[1] = v.stride[1] = keys * n_kv * d; // of one: never stepped
    p.data = b->scratch.weights;
    TRY(scores_of(b, o, &q, &k, &s, err));
    ASCEND_CALL(c, aclnnSoftmax, ascend_tensor(c, &s), -1, ascend_tensor(c, &p));
    ASCEND_CALL_ONCE(c, aclnnMatmul, ascend_tensor(c, &p), ascend_tensor(c, &v), ascend_tensor(c, &out), 0);
    return STATUS_OK;
}

// ---- attention ---------------------------------------------------------------------------------------------------------------

static status attention_of_tile(ascend_backend *b, const op *o, int t, error *err) {
    const ascend_rows *r = &b->rows;
    int first = r->first_attention[t], n = r->first_attention[t + 1] - first, tile = b->rows.tile;
    int64_t width = tensor_row_len(&o->in[0]);
    ascend_view q = ascend_flat(ascend_rows_view(b, &o->in[0], t)), out = ascend_rows_view(b, &o->out[0], t),
                places = ascend_input_view(b, r->query + first * ATTENTION_ROWS, n * ATTENTION_ROWS),
                pick = ascend_input_view(b, r->pick + t * tile, tile),
                queries = VIEW(b->scratch.queries, q.type, (int64_t)n * ATTENTION_ROWS, width), results = queries;
    results.data = b->scratch.results;
    TRY(ascend_select(&b->call, &q, &places, &queries, err));
    for (int i = 0; i < n; i++) {
        const ascend_attention_tile *a = &r->attention[first + i];
        TRY(lay_out_path(b, o, a, err));
        if (ascend_attention_fused(b, o)) {
            fused_views v = fused_views_of(b, o, a, i);
            TRY(fused(b, o, &v, err));
        } else {
            TRY(composed(b, o, a, i, err));
        }
    }
    return ascend_select(&b->call, &results, &pick, &out, err);
}

// exact=off: the step's sequences, each with as many queries and keys as it has.
static status attention_of_step(ascend_backend *b, const op *o, error *err) {
    const ascend_rows *r = &b->rows;
    int64_t heads = o->in[0].dim[1], d = o->in[0].dim[2];
    const ascend_attention_tile none = {0};
    fused_views v = fused_views_of(b, o, &none, 0);
    v.q = ascend_rows_view(b, &o->in[0], 0);
    v.out = ascend_rows_view(b, &o->out[0], 0);
    v.out.rank = 3, v.out.dim[1] = heads, v.out.dim[2] = d;
    v.out.stride[1] = d, v.out.stride[2] = 1;
    v.table = VIEW(b->inputs, ACL_INT32, r->n_seqs, r->table_width);
    v.table.offset = r->table;
    v.q_len = r->q_end, v.kv_len = r->kv_len, v.n_seqs = r->n_seqs;
    return fused(b, o, &v, err);
}

status ascend_attention(ascend_backend *b, const op *o, int *skip, error *err) {
    (void)skip;
    if (b->rows.direct) return attention_of_step(b, o, err);
    for (int t = 0; t < ascend_tiles(b, &o->in[0]); t++) TRY(attention_of_tile(b, o, t, err));
    return STATUS_OK;
}
