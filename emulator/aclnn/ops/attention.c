// Fused attention: FusedInferAttentionScore V2 to V5, IncreFlashAttentionV4, PromptFlashAttentionV3 are one operator with
// different lists of arguments.
//
// Two behaviours reported from the field are kept, since programs must not depend on their absence (both UNVERIFIED):
//   * sparse mode 3 without lengths of the keys is aligned to the upper left, as mode 2: the past is not seen
//   * TND without a mask in mode 0 and more than one row of a sequence gives the plain mean of the values
#include "emulator/aclnn/ops/common.h"

#include <string.h>

enum { Q, K, V, PSE, MASK, TABLE, Q_ROPE, K_ROPE, SINK, OUT, LSE }; // slots
enum layout { BSH, BSND, BNSD, NBSD, TND, NTD };

typedef struct { // what is particular to one call, in the vendor's order
    const char *name;
    const aclTensor *query, *pse, *mask, *table, *q_rope, *k_rope, *sink, *out, *lse;
    const aclTensorList *key, *value;
    const aclTensor *key1, *value1; // where they are no lists
    const aclIntArray *q_lens, *kv_lens;
    int64_t heads, kv_heads, sparse, pre, next, precise, block;
    double scale;
    const char *layout;
    bool want_lse, one_row;
    const void *unsupported[24];
} request;

typedef struct {
    enum layout in, out;
    int64_t batch, heads, kv_heads, rows, keys, d, dv, d_rope; // rows, keys: the padded lengths
    int64_t sparse, pre, next, block;
    double scale;
    bool fix_masked, uniform, list, paged_flat, paged_nz;
    const int64_t *q_lens, *kv_lens;
    int n_q_lens, n_kv_lens;
} attention_attrs;

// ---- layouts ---------------------------------------------------------------------------------------------------------

static bool parse_layout(const char *text, attention_attrs *t) {
    static const struct {
        const char *name;
        enum layout in, out;
    } all[] = {{"BSH", BSH, BSH},        {"BSND", BSND, BSND},    {"BNSD", BNSD, BNSD},      {"TND", TND, TND},
               {"NTD", NTD, NTD},        {"BSH_BNSD", BSH, BNSD}, {"BSND_BNSD", BSND, BNSD}, {"BNSD_BSND", BNSD, BSND},
               {"NTD_TND", NTD, TND},    {"TND_NTD", TND, NTD},   {"BSH_NBSD", BSH, NBSD},   {"BSND_NBSD", BSND, NBSD},
               {"BNSD_NBSD", BNSD, NBSD}};
    for (size_t i = 0; text && i < sizeof all / sizeof *all; i++) {
        if (strcmp(text, all[i].name)) continue;
        t->in = all[i].in, t->out = all[i].out;
        return true;
    }
    return false;
}

static bool flat(enum layout l) { return l == TND || l == NTD; } // sequences one behind the other
static int rank_of(enum layout l) { return l == BSH || flat(l) ? 3 : 4; }

// The dims of a tensor in a layout; b, s (all rows where flat), n, d.
static void dims_of(enum layout l, const int64_t v[4], int64_t *dim) {
    const int64_t b = v[0], s = v[1], n = v[2], d = v[3];
    const int64_t form[6][4] = {{b, s, n * d}, {b, s, n, d}, {b, n, s, d}, {n, b, s, d}, {s, n, d}, {n, s, d}};
    memcpy(dim, form[l], sizeof form[l]);
}

// Sequence b of a contiguous tensor as (row, head, element); `first`: its first row where flat.
static struct em_view sequence(const struct em_view *v, enum layout l, const int64_t n[4], int64_t b, int64_t first) {
    struct em_view r = *v;
    int64_t S = n[1], N = n[2], D = n[3], off = 0, size = (int64_t)em_dtype_size(v->dtype);
    r.rank = 3;
    r.dim[0] = S, r.dim[1] = N, r.dim[2] = D, r.stride[2] = 1;
    switch (l) {
    case BSH:
    case BSND: r.stride[0] = N * D, r.stride[1] = D, off = b * S * N * D; break;
    case BNSD: r.stride[0] = D, r.stride[1] = S * D, off = b * N * S * D; break;
    case NBSD: r.stride[0] = D, r.stride[1] = n[0] * S * D, off = b * S * D; break;
    case TND: r.stride[0] = N * D, r.stride[1] = D, off = first * N * D; break;
    case NTD: r.stride[0] = D, r.stride[1] = S * D, off = first * D; break;
    }
    r.p += off * size;
    return r;
}

// ---- phase 1 ---------------------------------------------------------------------------------------------------------

// Of TND: cumulative, but for keys in pages each sequence's own.
static void check_flat_lengths(emu_op *op, attention_attrs *t, bool paged) {
    int64_t last = 0;
    if (!emu_op_need_tiling(op, t->n_q_lens > 0 && t->n_kv_lens > 0,
                            "TND needs actualSeqLengths and actualSeqLengthsKv"))
        return;
    t->batch = t->n_q_lens;
    for (int i = 0; i < t->n_q_lens; i++) {
        if (!emu_op_need_tiling(op, t->q_lens[i] >= last, "actualSeqLengths of TND are cumulative: %lld after %lld",
                                (long long)t->q_lens[i], (long long)last))
            return;
        last = t->q_lens[i];
    }
    emu_op_need_tiling(op, last == t->rows, "actualSeqLengths end at %lld, there are %lld rows", (long long)last,
                       (long long)t->rows);
    emu_op_need_tiling(op, t->n_kv_lens == t->n_q_lens, "%d lengths of queries, %d of keys", t->n_q_lens, t->n_kv_lens);
    last = 0;
    for (int i = 0; i < t->n_kv_lens && emu_op_ok(op); i++) {
        int64_t n = t->kv_lens[i];
        if (paged)
            emu_op_need_tiling(op, n >= 0 && n <= t->keys,
                               "actualSeqLengthsKv[%d] is %lld, the pages of a sequence hold %lld", i, (long long)n,
                               (long long)t->keys);
        else
            emu_op_need_tiling(op, n >= last, "actualSeqLengthsKv of TND are cumulative: %lld after %lld", (long long)n,
                               (long long)last);
        last = n;
    }
    if (!paged)
        emu_op_need_tiling(op, last <= t->keys, "actualSeqLengthsKv end at %lld, there are %lld keys", (long long)last,
                           (long long)t->keys);
}

static void check_padded_lengths(emu_op *op, const attention_attrs *t) {
    const struct {
        const char *name;
        const int64_t *len;
        int n;
        int64_t most;
    } both[2] = {{"actualSeqLengths", t->rows == 1 ? NULL : t->q_lens, t->n_q_lens, t->rows},
                 {"actualSeqLengthsKv", t->kv_lens, t->n_kv_lens, t->keys}};
    for (int k = 0; k < 2; k++) {
        if (!both[k].len) continue;
        if (!emu_op_need_tiling(op, both[k].n == 1 || both[k].n >= t->batch, "%s has %d entries for a batch of %lld",
                                both[k].name, both[k].n, (long long)t->batch))
            return;
        for (int i = 0; i < both[k].n && (i < t->batch || i == 0); i++)
            emu_op_need_tiling(op, both[k].len[i] >= 0 && both[k].len[i] <= both[k].most,
                               "%s[%d] is %lld, at most %lld fit", both[k].name, i, (long long)both[k].len[i],
                               (long long)both[k].most);
    }
}

static void check_lengths(emu_op *op, attention_attrs *t, const emu_view *table) {
    if (!emu_op_ok(op)) return;
    if (flat(t->in))
        check_flat_lengths(op, t, table != NULL);
    else
        check_padded_lengths(op, t);
    if (table)
        emu_op_need_tiling(op, table->dim[0] >= t->batch, "blockTable has %lld rows for a batch of %lld",
                           (long long)table->dim[0], (long long)t->batch);
}

// Numbers of the tree masks of TND, which lie one behind the other.
static int64_t tree_numbers(const attention_attrs *t) {
    int64_t sum = 0, from = 0;
    for (int i = 0; i < t->n_q_lens; i++) {
        sum += (t->q_lens[i] - from) * (t->q_lens[i] - from);
        from = t->q_lens[i];
    }
    return sum;
}

static void check_mask(emu_op *op, const attention_attrs *t, const emu_view *m) {
    if (!emu_op_ok(op)) return;
    emu_op_dtype(op, "attenMask", m, EMU_DT(BOOL) | EMU_DT(INT8) | EMU_DT(UINT8));
    bool compressed = t->sparse >= 2 && t->sparse <= 4;
    if (!emu_op_need_tiling(op, m || !(compressed || t->sparse == 1 || t->sparse == 9), "sparseMode %lld needs a mask",
                            (long long)t->sparse) ||
        !m || !emu_op_need_tiling(op, m->rank >= 1 && m->rank <= 4, "the mask has %d dimensions", m->rank))
        return;
    int64_t q = m->rank > 1 ? m->dim[m->rank - 2] : 1, kv = m->dim[m->rank - 1], lead = 1;
    for (int i = 0; i + 2 < m->rank; i++) lead *= m->dim[i];
    if (compressed) {
        emu_op_need_tiling(op, q == 2048 && kv == 2048 && lead == 1, "the mask of sparseMode %lld is 2048 x 2048",
                           (long long)t->sparse);
        return;
    }
    if (t->sparse == 9) {
        if (flat(t->in))
            emu_op_need_tiling(op, m->rank == 1 && kv == tree_numbers(t),
                               "the masks of sparseMode 9 for TND are %lld numbers in one dimension",
                               (long long)tree_numbers(t));
        else
            emu_op_need_tiling(op, m->rank == 3 && m->dim[0] == t->batch && q == t->rows && kv == t->rows,
                               "the mask of sparseMode 9 is (B, Q, Q)");
        return;
    }
    if (!emu_op_need_tiling(op, !flat(t->in), "TND takes no full mask")) return;
    if (m->rank == 2 && t->rows == 1) lead = q, q = 1; // (B, KV)
    emu_op_need_tiling(op, m->rank >= 2 && (lead == 1 || lead == t->batch), "the mask has %lld batches, the query %lld",
                       (long long)lead, (long long)t->batch);
    emu_op_need_tiling(op, m->rank != 4 || m->dim[1] == 1, "the mask has one head");
    emu_op_need_tiling(op, q >= t->rows && q < t->rows + 16, "the mask has %lld rows, the query %lld", (long long)q,
                       (long long)t->rows);
    emu_op_need_tiling(op, kv >= t->keys && (t->block || kv < t->keys + 32),
                       "the mask has %lld columns, there are %lld keys", (long long)kv, (long long)t->keys);
}

// Of one rank, and of one size in every dimension but `except`.
static bool alike(const emu_view *a, const emu_view *b, int except) {
    for (int i = 0; i < a->rank; i++)
        if (i != except && a->dim[i] != b->dim[i]) return false;
    return a->rank == b->rank;
}

// The documents know pages of TND as (blocks, blockSize, H) of at most 128 rows only. (One text says 1024; UNVERIFIED.)
static void check_paged(emu_op *op, attention_attrs *t, const emu_view *k, const emu_view *v, const emu_view *table) {
    int64_t h = t->kv_heads * t->d, c0 = 16;
    emu_op_dtype(op, "blockTable", table, EMU_DT(INT32));
    emu_op_rank(op, "blockTable", table, 2, 2);
    if (!emu_op_ok(op)) return;
    emu_op_need_tiling(op, t->kv_lens != NULL, "actualSeqLengthsKv is mandatory with a block table");
    emu_op_need_tiling(op, !t->list, "lists of keys take no block table");
    int64_t step = t->rows == 1 || flat(t->in) ? 16 : 128, most = flat(t->in) ? 128 : 512;
    emu_op_need_tiling(op, t->block > 0 && t->block % step == 0 && t->block <= most,
                       "blockSize %lld: a multiple of %lld, at most %lld", (long long)t->block, (long long)step,
                       (long long)most);
    emu_op_need_tiling(op, !flat(t->in) || k->rank == 3, "pages of TND are (blocks, blockSize, H), not of rank %d",
                       k->rank);
    t->paged_flat = k->rank == 3, t->paged_nz = k->rank == 5;
    bool fits = k->rank == 3   ? k->dim[1] == t->block && k->dim[2] == h
                : k->rank == 4 ? k->dim[1] == t->kv_heads && k->dim[2] == t->block && k->dim[3] == t->d
                               : k->rank == 5 && k->dim[1] == t->kv_heads && k->dim[2] * c0 == t->d &&
                                     k->dim[3] == t->block && k->dim[4] == c0;
    emu_op_need_tiling(op, fits, "a paged key is (blocks, %lld, %lld), (blocks, %lld, %lld, %lld) or its NZ form",
                       (long long)t->block, (long long)h, (long long)t->kv_heads, (long long)t->block, (long long)t->d);
    emu_op_need_tiling(op, k->rank != 3 || h <= 65535, "N * D of this layout is at most 65535");
    emu_op_need_tiling(op, alike(k, v, -1), "a paged value has the shape of the key");
    t->keys = table->dim[1] * t->block;
}

// Sizes of query and keys by the layout.
static void measure(emu_op *op, attention_attrs *t, const emu_view *q, const emu_view *k, const emu_view *v,
                    bool paged) {
    int rank = rank_of(t->in);
    emu_op_rank(op, "query", q, rank, rank);
    if (!paged) emu_op_rank(op, "key", k, rank, rank);
    if (!emu_op_ok(op)) return;
    int64_t h = t->heads;
    switch (t->in) {
    case BSH:
        emu_op_need_tiling(op, q->dim[2] % h == 0, "H %lld is not a multiple of %lld heads", (long long)q->dim[2],
                           (long long)h);
        t->batch = q->dim[0], t->rows = q->dim[1], t->d = q->dim[2] / h;
        break;
    case BSND: t->batch = q->dim[0], t->rows = q->dim[1], h = q->dim[2], t->d = q->dim[3]; break;
    case TND: t->rows = q->dim[0], h = q->dim[1], t->d = q->dim[2], t->batch = 1; break;
    case NTD: t->rows = q->dim[1], h = q->dim[0], t->d = q->dim[2], t->batch = 1; break;
    default: t->batch = q->dim[0], h = q->dim[1], t->rows = q->dim[2], t->d = q->dim[3]; break;
    }
    emu_op_need_tiling(op, h == t->heads, "the query has %lld heads, numHeads says %lld", (long long)h,
                       (long long)t->heads);
    emu_op_need_tiling(op, t->d > 0, "heads of no numbers");
    t->dv = t->d;
    if (paged || !emu_op_ok(op)) return;
    int64_t b = t->batch, n = t->kv_heads;
    switch (t->in) {
    case BSH:
        b = k->dim[0], t->keys = k->dim[1], n = k->dim[2] / t->d;
        t->dv = v->rank == 3 ? v->dim[2] / t->kv_heads : 0;
        break;
    case BSND: b = k->dim[0], t->keys = k->dim[1], n = k->dim[2], t->dv = v->rank == 4 ? v->dim[3] : 0; break;
    case TND: t->keys = k->dim[0], n = k->dim[1], t->dv = v->rank == 3 ? v->dim[2] : 0; break;
    case NTD: t->keys = k->dim[1], n = k->dim[0], t->dv = v->rank == 3 ? v->dim[2] : 0; break;
    default: b = k->dim[0], n = k->dim[1], t->keys = k->dim[2], t->dv = v->rank == 4 ? v->dim[3] : 0; break;
    }
    emu_op_need_tiling(op, n == t->kv_heads, "the keys have %lld heads, numKeyValueHeads says %lld", (long long)n,
                       (long long)t->kv_heads);
    emu_op_need_tiling(op, b == (t->list ? 1 : t->batch), "the batch of the keys is %lld, of the query %lld",
                       (long long)b, (long long)t->batch);
    int64_t kd[4], vd[4], sizes[4] = {b, t->keys, n, t->d}, vsizes[4] = {b, t->keys, n, t->dv};
    dims_of(t->in, sizes, kd), dims_of(t->in, vsizes, vd);
    emu_op_need_tiling(op,
                       !memcmp(k->dim, kd, (size_t)rank * sizeof *kd) &&
                           !memcmp(v->dim, vd, (size_t)rank * sizeof *vd) && v->rank == rank,
                       "key and value do not fit each other and the layout");
}

static void check_attributes(emu_op *op, attention_attrs *t, const request *r) {
    if (!emu_op_ok(op)) return;
    emu_op_need_tiling(op, t->heads >= 1 && t->heads <= 256 && t->kv_heads >= 1 && t->heads % t->kv_heads == 0,
                       "%lld heads, %lld of keys: at most 256, the first a multiple of the second", (long long)t->heads,
                       (long long)t->kv_heads);
    bool known = (t->sparse >= 0 && t->sparse <= 4) || t->sparse == 9;
    emu_op_need_tiling(op, known, "sparseMode %lld is not supported", (long long)t->sparse);
    emu_op_need_tiling(op, r->precise >= 0 && r->precise <= 3, "innerPrecise %lld is not between 0 and 3",
                       (long long)r->precise);
    emu_op_need_tiling(op, !r->one_row || t->sparse == 0, "this operator has no sparse modes");
}

static void check_head(emu_op *op, const attention_attrs *t, const request *r, const emu_view *mask) {
    if (!emu_op_ok(op)) return;
    emu_op_need_tiling(op, t->d % 16 == 0 && t->d <= 512 && t->d > 0 && t->dv % 16 == 0,
                       "head sizes %lld and %lld: multiples of 16, at most 512", (long long)t->d, (long long)t->dv);
    emu_op_need_tiling(op, t->batch <= 65536, "a batch of %lld; at most 65536", (long long)t->batch);
    emu_op_need_tiling(op, !r->one_row || t->rows == 1, "the query of this operator has one row, not %lld",
                       (long long)t->rows);
    if (!flat(t->in)) return;
    bool grouped = t->heads != t->kv_heads && r->precise == 0 && t->d <= 256;
    emu_op_need_tiling(op, t->d == 64 || t->d == 128 || (t->d == 192 && t->dv == 128) || grouped,
                       "TND does not take heads of %lld", (long long)t->d);
    emu_op_need_tiling(op, t->sparse == 0 ? !mask : t->sparse != 1 && t->sparse != 2,
                       "TND takes sparseMode 0 without a mask, 3, 4 and 9");
}

static void check_pse(emu_op *op, const attention_attrs *t, const emu_view *p, const emu_view *q) {
    if (!p || !emu_op_ok(op)) return;
    emu_op_same_dtype(op, "pseShift", p, "query", q);
    emu_op_rank(op, "pseShift", p, 4, 4);
    if (!emu_op_ok(op)) return;
    emu_op_need_tiling(op, !flat(t->in), "TND takes no pseShift");
    emu_op_need_tiling(op,
                       (p->dim[0] == 1 || p->dim[0] == t->batch) && p->dim[1] == t->heads && p->dim[2] >= t->rows &&
                           p->dim[3] >= t->keys,
                       "pseShift [%lld, %lld, %lld, %lld] does not cover the scores [%lld, %lld, %lld, %lld]",
                       (long long)p->dim[0], (long long)p->dim[1], (long long)p->dim[2], (long long)p->dim[3],
                       (long long)t->batch, (long long)t->heads, (long long)t->rows, (long long)t->keys);
}

// Every batch has a list entry of its own, of any length.
static void check_list(emu_op *op, attention_attrs *t, const emu_view *k, const emu_view *v, int n, int nv) {
    emu_op_need_tiling(op, n == nv && (n < 2 || (n == t->batch && n <= 256)),
                       "%d keys and %d values in the lists, the batch is %lld", n, nv, (long long)t->batch);
    int s = t->in == BNSD ? 2 : 1;
    for (int i = 1; i < n && emu_op_ok(op); i++) {
        emu_op_same_dtype(op, "key", &k[i], "the first key", k);
        emu_op_same_dtype(op, "value", &v[i], "the first value", v);
        emu_op_contiguous(op, "key", &k[i]);
        emu_op_contiguous(op, "value", &v[i]);
        emu_op_need_tiling(op, alike(k, &k[i], s) && alike(v, &v[i], s) && k[i].dim[s] == v[i].dim[s],
                           "list entry %d differs from the first in more than its length", i);
        if (k[i].dim[s] > t->keys) t->keys = k[i].dim[s];
    }
}

// Rope parts have tensors of their own, of the layout and type of query and key.
static void check_rope(emu_op *op, attention_attrs *t, const emu_view *q, const emu_view *qr, const emu_view *kr) {
    if (!emu_op_ok(op) || !qr) return;
    int rank = rank_of(t->in);
    emu_op_same_dtype(op, "queryRope", qr, "query", q);
    emu_op_same_dtype(op, "keyRope", kr, "query", q);
    emu_op_rank(op, "queryRope", qr, rank, rank);
    if (!emu_op_ok(op)) return;
    t->d_rope = qr->dim[rank - 1] / (t->in == BSH ? t->heads : 1);
    int64_t rows[4] = {t->batch, t->rows, t->heads, t->d_rope}, keys[4] = {t->batch, t->keys, t->kv_heads, t->d_rope},
            dim[4];
    dims_of(t->in, rows, dim);
    emu_op_shape(op, "queryRope", qr, rank, dim);
    dims_of(t->in, keys, dim);
    emu_op_shape(op, "keyRope", kr, rank, dim);
}

static aclError run_attention(const emu_run *run);

static void sign(emu_op *op, const attention_attrs *t, const request *r) {
    const int64_t number[] = {t->heads, t->kv_heads, t->sparse, t->pre,   t->next, r->precise,
                              t->block, t->in,       t->out,    t->batch, t->rows, t->keys};
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) emu_op_sign(op, number[i]);
}

static aclnnStatus attention(const request *r, WS) {
    emu_op op;
    attention_attrs t = {.heads = r->heads,
                         .kv_heads = r->kv_heads ? r->kv_heads : r->heads,
                         .sparse = r->sparse,
                         .pre = r->pre,
                         .next = r->next,
                         .scale = r->scale,
                         .block = r->table ? r->block : 0,
                         .fix_masked = r->precise & 2};
    if (t.pre > INT32_MAX) t.pre = INT32_MAX;
    if (t.next > INT32_MAX) t.next = INT32_MAX;
    emu_op_begin(&op, r->name, workspaceSize, executor);
    int nk = 1, nv = 1;
    const emu_view *q = emu_op_in(&op, "query", r->query);
    const emu_view *k = r->key1 || !r->key ? emu_op_in(&op, "key", r->key1) : emu_op_in_list(&op, "key", r->key, &nk);
    const emu_view *v =
        r->value1 || !r->value ? emu_op_in(&op, "value", r->value1) : emu_op_in_list(&op, "value", r->value, &nv);
    const emu_view *pse = emu_op_in_opt(&op, "pseShift", r->pse), *mask = emu_op_in_opt(&op, "attenMask", r->mask);
    const emu_view *table = emu_op_in_opt(&op, "blockTable", r->table);
    const emu_view *qr = emu_op_in_opt(&op, "queryRope", r->q_rope), *kr = emu_op_in_opt(&op, "keyRope", r->k_rope);
    const emu_view *sink = emu_op_in_opt(&op, "learnableSink", r->sink), *out = emu_op_out(&op, "attentionOut", r->out);
    const emu_view *lse = r->want_lse ? emu_op_out(&op, "softmaxLse", r->lse) : emu_op_out_opt(&op, "softmaxLse", NULL);
    t.q_lens = emu_op_ints_opt(&op, "actualSeqLengths", r->q_lens, &t.n_q_lens);
    t.kv_lens = emu_op_ints_opt(&op, "actualSeqLengthsKv", r->kv_lens, &t.n_kv_lens);
    if (!t.n_q_lens) t.q_lens = NULL;
    if (!t.n_kv_lens) t.kv_lens = NULL;
    for (size_t i = 0; i < sizeof r->unsupported / sizeof *r->unsupported; i++)
        op_absent(&op, "a quantisation, padding or prefix argument", r->unsupported[i]);
    emu_op_need_tiling(&op, parse_layout(r->layout, &t), "inputLayout \"%.16s\" does not exist",
                       r->layout ? r->layout : "(null)");
    emu_op_dtype(&op, "query", q, emu_op_on(&op, EMU_ON(EMU_310P)) ? EMU_DT(FLOAT16) : EMU_HALVES);
    emu_op_same_dtype(&op, "key", k, "query", q);
    emu_op_same_dtype(&op, "value", v, "query", q);
    emu_op_same_dtype(&op, "attentionOut", out, "query", q);
    const emu_view *dense[] = {q, k, v, mask, table, qr, kr, out, lse};
    static const char *const names[] = {"query",     "key",     "value",        "attenMask", "blockTable",
                                        "queryRope", "keyRope", "attentionOut", "softmaxLse"};
    for (size_t i = 0; i < sizeof dense / sizeof *dense; i++) emu_op_contiguous(&op, names[i], dense[i]);
    t.list = nk > 1;
    check_attributes(&op, &t, r);
    if (emu_op_ok(&op)) measure(&op, &t, q, k, v, table != NULL);
    if (table && emu_op_ok(&op)) check_paged(&op, &t, k, v, table);
    check_list(&op, &t, k, v, nk, nv);
    check_lengths(&op, &t, table);
    if (emu_op_ok(&op) && t.rows == 1 && !flat(t.in)) t.sparse = 0, t.pre = t.next = INT32_MAX;
    check_mask(&op, &t, mask);
    check_head(&op, &t, r, mask);
    check_pse(&op, &t, pse, q);
    emu_op_need_tiling(&op, !qr == !kr && !(qr && (table || t.list)),
                       "queryRope and keyRope come together, and without pages or lists here");
    check_rope(&op, &t, q, qr, kr);
    if (emu_op_ok(&op)) {
        int64_t sizes[4] = {t.batch, t.rows, t.heads, t.dv}, dim[4];
        dims_of(t.out, sizes, dim);
        emu_op_shape(&op, "attentionOut", out, rank_of(t.out), dim);
        int64_t rows[4] = {flat(t.in) ? t.rows : t.batch, t.heads, flat(t.in) ? 1 : t.rows, 1};
        if (lse) emu_op_shape(&op, "softmaxLse", lse, flat(t.in) ? 3 : 4, rows);
        emu_op_dtype(&op, "softmaxLse", lse, EMU_DT(FLOAT));
        emu_op_need_tiling(&op, !sink || sink->numel == t.heads, "learnableSink has one number per head");
        t.uniform = flat(t.in) && t.sparse == 0 && !mask;
    }
    sign(&op, &t, r);
    return emu_op_finish(
        &op, &(emu_op_plan){.kernel = run_attention, .attrs = &t, .attrs_size = sizeof t, .workspace = 41 * MIB});
}

// ---- kernel ----------------------------------------------------------------------------------------------------------

struct batch_job {
    const emu_run *run;
    const attention_attrs *t;
    struct em_view q, k, v, pse, mask, q_rope, k_rope, sink, out, lse;
    const int32_t *table;
    int64_t table_width, blocks;
    int rc;
};

static void set_paged(struct em_attention *a, const struct batch_job *j, int64_t b) {
    const attention_attrs *t = j->t;
    struct em_view *kv[2] = {&a->k, &a->v};
    const struct em_view *from[2] = {&j->k, &j->v};
    a->blocks = j->table + b * j->table_width;
    a->block_size = t->block, a->block_count = j->blocks;
    for (int i = 0; i < 2; i++) {
        int64_t d = i ? t->dv : t->d;
        *kv[i] = *from[i];
        kv[i]->rank = 3;
        kv[i]->dim[0] = t->keys, kv[i]->dim[1] = t->kv_heads, kv[i]->dim[2] = d;
        kv[i]->stride[2] = 1;
        kv[i]->stride[0] = t->paged_flat ? t->kv_heads * d : d;
        kv[i]->stride[1] = t->paged_flat ? d : t->block * d;
    }
    a->block_stride_k = t->block * t->kv_heads * t->d, a->block_stride_v = t->block * t->kv_heads * t->dv;
}

static int64_t length_of(const int64_t *len, int n, int64_t b, int64_t otherwise) {
    return !len ? otherwise : n == 1 ? len[0] : len[b];
}

// Where sequence b begins and how long it is, rows and keys.
static void bounds(const struct batch_job *j, int64_t b, int64_t *q0, int64_t *q_len, int64_t *k0, int64_t *k_len) {
    const attention_attrs *t = j->t;
    *q0 = *k0 = 0;
    if (!flat(t->in)) {
        *q_len = t->rows == 1 ? 1 : length_of(t->q_lens, t->n_q_lens, b, t->rows);
        int64_t all = t->list ? op_view_at(j->run, K, (int)b).dim[t->in == BNSD ? 2 : 1] : t->keys;
        *k_len = length_of(t->kv_lens, t->n_kv_lens, b, all);
        return;
    }
    *q0 = b ? t->q_lens[b - 1] : 0;
    *q_len = t->q_lens[b] - *q0;
    *k0 = b && !j->table ? t->kv_lens[b - 1] : 0;
    *k_len = t->kv_lens[b] - *k0;
}

static void set_mask(struct em_attention *a, const struct batch_job *j, int64_t b, int64_t q0, struct em_view *m) {
    const attention_attrs *t = j->t;
    if (j->mask.absent || (t->sparse >= 2 && t->sparse <= 4)) return;
    *m = j->mask;
    m->rank = 2;
    int64_t q = j->mask.rank > 1 ? j->mask.dim[j->mask.rank - 2] : 1, kv = j->mask.dim[j->mask.rank - 1], lead = 1;
    for (int i = 0; i + 2 < j->mask.rank; i++) lead *= j->mask.dim[i];
    if (j->mask.rank == 2 && t->rows == 1) lead = q, q = 1;
    if (j->mask.rank == 1) { // tree masks one behind the other
        int64_t off = 0;
        for (int64_t i = 0; i < b; i++) {
            int64_t n = t->q_lens[i] - (i ? t->q_lens[i - 1] : 0);
            off += n * n;
        }
        kv = a->q_len;
        m->p += off;
    } else if (lead > 1)
        m->p += b * q * kv;
    (void)q0;
    m->stride[0] = kv, m->stride[1] = 1;
    a->mask = m;
}

// The part of (row, head, element) that belongs to the KV head `g`.
static struct em_view heads_of(const struct em_view *v, int64_t g, int64_t count) {
    struct em_view r = *v;
    r.dim[1] = count;
    r.p += g * count * v->stride[1] * (int64_t)em_dtype_size(v->dtype);
    return r;
}

static void one_group(void *ctx, int i, int thread) {
    struct batch_job *j = ctx;
    const attention_attrs *t = j->t;
    (void)thread;
    int64_t b = i / t->kv_heads, g = i % t->kv_heads, group = t->heads / t->kv_heads, q0, k0;
    struct em_attention a = {.scale = t->scale,
                             .sparse = t->sparse,
                             .pre = t->pre,
                             .next = t->next,
                             .fix_masked_rows = t->fix_masked,
                             .order = op_order(j->run)};
    bounds(j, b, &q0, &a.q_len, &k0, &a.kv_len);
    const int64_t qn[4] = {t->batch, t->rows, t->heads, t->d}, on[4] = {t->batch, t->rows, t->heads, t->dv};
    const int64_t kn[4] = {t->batch, t->keys, t->kv_heads, t->d}, vn[4] = {t->batch, t->keys, t->kv_heads, t->dv};
    struct em_view q = sequence(&j->q, t->in, qn, b, q0), out = sequence(&j->out, t->out, on, b, q0), mask, bias, lse,
                   q2, k2, sink;
    if (flat(t->in)) q.dim[0] = out.dim[0] = a.q_len;
    if (j->table)
        set_paged(&a, j, b);
    else if (t->list) {
        struct em_view k = op_view_at(j->run, K, (int)b), v = op_view_at(j->run, V, (int)b);
        int64_t s = k.dim[t->in == BNSD ? 2 : 1], ks[4] = {1, s, t->kv_heads, t->d}, vs[4] = {1, s, t->kv_heads, t->dv};
        a.k = sequence(&k, t->in, ks, 0, 0), a.v = sequence(&v, t->in, vs, 0, 0);
    } else
        a.k = sequence(&j->k, t->in, kn, b, k0), a.v = sequence(&j->v, t->in, vn, b, k0);
    if (!j->q_rope.absent) {
        const int64_t qrn[4] = {t->batch, t->rows, t->heads, t->d_rope},
                      krn[4] = {t->batch, t->keys, t->kv_heads, t->d_rope};
        q2 = sequence(&j->q_rope, t->in, qrn, b, q0), k2 = sequence(&j->k_rope, t->in, krn, b, k0);
        q2 = heads_of(&q2, g, group), k2 = heads_of(&k2, g, 1);
        a.q2 = &q2, a.k2 = &k2;
    }
    set_mask(&a, j, b, q0, &mask);
    if (!j->pse.absent) {
        bias = j->pse;
        int64_t size = (int64_t)em_dtype_size(bias.dtype);
        bias.rank = 3;
        bias.p += ((bias.dim[0] > 1 ? b : 0) * bias.stride[0] + g * group * bias.stride[1]) * size;
        for (int d = 0; d < 3; d++) bias.dim[d] = bias.dim[d + 1], bias.stride[d] = bias.stride[d + 1];
        a.bias = &bias;
    }
    if (!j->lse.absent) {
        lse = j->lse;
        lse.stride[0] = flat(t->in) ? 1 : t->rows, lse.stride[1] = flat(t->in) ? t->heads : 1;
        lse.p += (flat(t->in) ? q0 * t->heads + g * group : (b * t->heads + g * group) * t->rows) * 4;
        a.lse = &lse;
    }
    if (!j->sink.absent) {
        sink = j->sink;
        sink.p += g * group * sink.stride[0] * (int64_t)em_dtype_size(sink.dtype);
        a.sink = &sink;
    }
    if (t->sparse == EM_SPARSE_RIGHT_DOWN && !t->kv_lens) a.sparse = EM_SPARSE_LEFT_UP;
    if (t->uniform && a.q_len > 1) a.scale = 0;
    a.q = heads_of(&q, g, group), a.out = heads_of(&out, g, group);
    a.k = heads_of(&a.k, g, 1), a.v = heads_of(&a.v, g, 1);
    int rc = em_attention(&a);
    if (rc) __atomic_store_n(&j->rc, rc, __ATOMIC_RELAXED);
}

// Some rows of the compressed mask: above the diagonal 1, the rest 0.
static bool is_triangle(const struct em_view *m) {
    static const int rows[] = {0, 1, 127, 128, 1000, 1919, 2046, 2047};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int c = 0; c < 2048; c++)
            if (!m->p[rows[i] * 2048 + c] != (c <= rows[i])) return false;
    return true;
}

static aclError run_attention(const emu_run *run) {
    struct batch_job j = {.run = run, .t = run->attrs};
    struct em_view *slot[] = {&j.q, &j.k, &j.v, &j.pse, &j.mask, NULL, &j.q_rope, &j.k_rope, &j.sink, &j.out, &j.lse};
    for (int i = 0; i <= LSE; i++)
        if (slot[i]) *slot[i] = op_view(run, i);
    struct em_view table = op_view(run, TABLE);
    if (!table.absent)
        j.table = (const int32_t *)(const void *)table.p, j.table_width = table.dim[1], j.blocks = j.k.dim[0];
    if (j.t->sparse >= 2 && j.t->sparse <= 4 && !is_triangle(&j.mask))
        return emu_run_fault(run, "the mask of sparseMode %lld is not the strict upper triangle",
                             (long long)j.t->sparse);
    if (j.t->paged_nz) return emu_run_fault(run, "paged keys in NZ are not emulated");
    emu_parallel((int)(j.t->batch * j.t->kv_heads), one_group, &j);
    return op_done(run, j.rc);
}

// ---- the vendor's argument lists ---------------------------------------------------------------------------------------

#define COMMON \
    const aclTensor *query, const aclTensorList *key, const aclTensorList *value, const aclTensor *pseShiftOptional, \
        const aclTensor *attenMaskOptional, const aclIntArray *actualSeqLengthsOptional, \
        const aclIntArray *actualSeqLengthsKvOptional, const aclTensor *deqScale1Optional, \
        const aclTensor *quantScale1Optional, const aclTensor *deqScale2Optional, \
        const aclTensor *quantScale2Optional, const aclTensor *quantOffset2Optional, \
        const aclTensor *antiquantScaleOptional, const aclTensor *antiquantOffsetOptional, \
        const aclTensor *blockTableOptional, const aclTensor *queryPaddingSizeOptional, \
        const aclTensor *kvPaddingSizeOptional, const aclTensor *keyAntiquantScaleOptional, \
        const aclTensor *keyAntiquantOffsetOptional, const aclTensor *valueAntiquantScaleOptional, \
        const aclTensor *valueAntiquantOffsetOptional, const aclTensor *keySharedPrefixOptional, \
        const aclTensor *valueSharedPrefixOptional, const aclIntArray *actualSharedPrefixLenOptional
#define ROPE \
    , const aclTensor *queryRopeOptional, const aclTensor *keyRopeOptional, \
        const aclTensor *keyRopeAntiquantScaleOptional
#define V4_TENSORS , const aclTensor *dequantScaleQueryOptional, const aclTensor *learnableSinkOptional
#define ATTRIBUTES \
    , int64_t numHeads, double scaleValue, int64_t preTokens, int64_t nextTokens, char *inputLayout, \
        int64_t numKeyValueHeads, int64_t sparseMode, int64_t innerPrecise, int64_t blockSize, int64_t antiquantMode, \
        bool softmaxLseFlag, int64_t keyAntiquantMode, int64_t valueAntiquantMode
#define OUTPUTS , const aclTensor *attentionOut, const aclTensor *softmaxLse, WS
#define REQUEST(title) \
    request r = {.name = title, \
                 .query = query, \
                 .key = key, \
                 .value = value, \
                 .pse = pseShiftOptional, \
                 .mask = attenMaskOptional, \
                 .q_lens = actualSeqLengthsOptional, \
                 .kv_lens = actualSeqLengthsKvOptional, \
                 .table = blockTableOptional, \
                 .heads = numHeads, \
                 .scale = scaleValue, \
                 .pre = preTokens, \
                 .next = nextTokens, \
                 .layout = inputLayout, \
                 .kv_heads = numKeyValueHeads, \
                 .sparse = sparseMode, \
                 .precise = innerPrecise, \
                 .block = blockSize, \
                 .want_lse = softmaxLseFlag, \
                 .out = attentionOut, \
                 .lse = softmaxLse, \
                 .unsupported = {deqScale1Optional, quantScale1Optional, deqScale2Optional, quantScale2Optional, \
                                 quantOffset2Optional, antiquantScaleOptional, antiquantOffsetOptional, \
                                 queryPaddingSizeOptional, kvPaddingSizeOptional, keyAntiquantScaleOptional, \
                                 keyAntiquantOffsetOptional, valueAntiquantScaleOptional, \
                                 valueAntiquantOffsetOptional, keySharedPrefixOptional, valueSharedPrefixOptional, \
                                 actualSharedPrefixLenOptional}}; \
    (void)antiquantMode, (void)keyAntiquantMode, (void)valueAntiquantMode /* of quantised keys, which are refused */

aclnnStatus aclnnFusedInferAttentionScoreV2GetWorkspaceSize(COMMON ATTRIBUTES OUTPUTS) {
    REQUEST("aclnnFusedInferAttentionScoreV2");
    return attention(&r, workspaceSize, executor);
}
EMU_PHASE_2(aclnnFusedInferAttentionScoreV2)

aclnnStatus aclnnFusedInferAttentionScoreV3GetWorkspaceSize(COMMON ROPE ATTRIBUTES OUTPUTS) {
    REQUEST("aclnnFusedInferAttentionScoreV3");
    r.q_rope = queryRopeOptional, r.k_rope = keyRopeOptional, r.unsupported[16] = keyRopeAntiquantScaleOptional;
    return attention(&r, workspaceSize, executor);
}
EMU_PHASE_2(aclnnFusedInferAttentionScoreV3)

aclnnStatus aclnnFusedInferAttentionScoreV4GetWorkspaceSize(COMMON ROPE V4_TENSORS ATTRIBUTES,
                                                            int64_t queryQuantMode OUTPUTS) {
    REQUEST("aclnnFusedInferAttentionScoreV4");
    (void)queryQuantMode;
    r.q_rope = queryRopeOptional, r.k_rope = keyRopeOptional, r.sink = learnableSinkOptional;
    r.unsupported[16] = keyRopeAntiquantScaleOptional, r.unsupported[17] = dequantScaleQueryOptional;
    return attention(&r, workspaceSize, executor);
}
EMU_PHASE_2(aclnnFusedInferAttentionScoreV4)

aclnnStatus aclnnFusedInferAttentionScoreV5GetWorkspaceSize(COMMON ROPE V4_TENSORS,
                                                            const aclIntArray *qStartIdxOptional,
                                                            const aclIntArray *kvStartIdxOptional ATTRIBUTES,
                                                            int64_t queryQuantMode, int64_t pseType OUTPUTS) {
    REQUEST("aclnnFusedInferAttentionScoreV5");
    (void)queryQuantMode, (void)pseType;
    r.q_rope = queryRopeOptional, r.k_rope = keyRopeOptional, r.sink = learnableSinkOptional;
    r.unsupported[16] = keyRopeAntiquantScaleOptional, r.unsupported[17] = dequantScaleQueryOptional;
    r.unsupported[18] = qStartIdxOptional, r.unsupported[19] = kvStartIdxOptional;
    return attention(&r, workspaceSize, executor);
}
EMU_PHASE_2(aclnnFusedInferAttentionScoreV5)

aclnnStatus aclnnIncreFlashAttentionV4GetWorkspaceSize(
    const aclTensor *query, const aclTensorList *key, const aclTensorList *value, const aclTensor *pseShift,
    const aclTensor *attenMask, const aclIntArray *actualSeqLengths, const aclTensor *dequantScale1,
    const aclTensor *quantScale1, const aclTensor *dequantScale2, const aclTensor *quantScale2,
    const aclTensor *quantOffset2, const aclTensor *antiquantScale, const aclTensor *antiquantOffset,
    const aclTensor *blocktable, const aclTensor *kvPaddingSize, int64_t numHeads, double scaleValue, char *inputLayout,
    int64_t numKeyValueHeads, int64_t blockSize, int64_t innerPrecise, const aclTensor *attentionOut, WS) {
    request r = {.name = "aclnnIncreFlashAttentionV4",
                 .query = query,
                 .key = key,
                 .value = value,
                 .pse = pseShift,
                 .mask = attenMask,
                 .kv_lens = actualSeqLengths,
                 .table = blocktable,
                 .heads = numHeads,
                 .scale = scaleValue,
                 .layout = inputLayout,
                 .kv_heads = numKeyValueHeads,
                 .block = blockSize,
                 .precise = innerPrecise,
                 .out = attentionOut,
                 .one_row = true,
                 .pre = INT32_MAX,
                 .next = INT32_MAX,
                 .unsupported = {dequantScale1, quantScale1, dequantScale2, quantScale2, quantOffset2, antiquantScale,
                                 antiquantOffset, kvPaddingSize}};
    return attention(&r, workspaceSize, executor);
}
EMU_PHASE_2(aclnnIncreFlashAttentionV4)

aclnnStatus aclnnPromptFlashAttentionV3GetWorkspaceSize(
    const aclTensor *query, const aclTensor *key, const aclTensor *value, const aclTensor *pseShift,
    const aclTensor *attenMask, const aclIntArray *actualSeqLengths, const aclIntArray *actualSeqLengthsKv,
    const aclTensor *deqScale1, const aclTensor *quantScale1, const aclTensor *deqScale2, const aclTensor *quantScale2,
    const aclTensor *quantOffset2, int64_t numHeads, double scaleValue, int64_t preTokens, int64_t nextTokens,
    char *inputLayout, int64_t numKeyValueHeads, int64_t sparseMode, int64_t innerPrecise,
    const aclTensor *attentionOut, WS) {
    request r = {.name = "aclnnPromptFlashAttentionV3",
                 .query = query,
                 .key1 = key,
                 .value1 = value,
                 .pse = pseShift,
                 .mask = attenMask,
                 .q_lens = actualSeqLengths,
                 .kv_lens = actualSeqLengthsKv,
                 .heads = numHeads,
                 .scale = scaleValue,
                 .pre = preTokens,
                 .next = nextTokens,
                 .layout = inputLayout,
                 .kv_heads = numKeyValueHeads,
                 .sparse = sparseMode,
                 .precise = innerPrecise,
                 .out = attentionOut,
                 .unsupported = {deqScale1, quantScale1, deqScale2, quantScale2, quantOffset2}};
    return attention(&r, workspaceSize, executor);
}
EMU_PHASE_2(aclnnPromptFlashAttentionV3)
