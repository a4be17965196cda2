#include "backend/cpu/cpu_attention_tile.h"

#include <limits.h>
#include <string.h>

#include "backend/cpu/kv_store.h"

_Static_assert(KV_PIECE % KV_BLOCK == 0, "pieces are whole blocks");

// Queries whose scores of a piece stay in the nearest cache.
enum { QUERY_BLOCK = 24, SCORE_STRIDE = KV_PIECE + 16 };

int cpu_attention_queries(const op_list *g) {
    int most = ATTENTION_QUERIES;
    for (int i = 0; i < g->n_ops; i++) {
        const op *o = &g->ops[i];
        if (o->code != OP_ATTENTION) continue;
        int group = (int)o->in[0].dim[1] / o->args.attention.n_kv_heads;
        if (group > most) most = group;
    }
    return most;
}

int64_t attention_padded_head(const op_list *g) {
    int64_t d = 0;
    for (int i = 0; i < g->n_ops; i++) {
        if (g->ops[i].code == OP_ATTENTION && g->ops[i].in[0].dim[2] > d) d = g->ops[i].in[0].dim[2];
    }
    return padded_head(d);
}

int64_t cpu_attention_thread_bytes(const op_list *g) {
    int64_t d_pad = attention_padded_head(g), n_q = cpu_attention_queries(g), floats = n_q * (3 * d_pad + 4);
    floats += QUERY_BLOCK * SCORE_STRIDE + (2 * KV_PIECE + KV_PANEL) * d_pad; // no key type is wider than F32
    return (floats * (int64_t)sizeof(float) + 63) & ~(int64_t)63;
}

static attention_tile make_tile(const attention_job *j, int row0, int n_rows, int thread) {
    attention_tile t = {.n_q = n_rows * j->group, .group = j->group, .d = j->b->cache.head_dim, .row0 = row0};
    t.d_pad = padded_head(t.d);
    t.table = j->b->in->block_table[j->b->in->seq[row0]];
    float *p = (float *)(void *)(j->b->thread_scratch + thread * j->b->thread_bytes);
    t.gather = (unsigned char *)p, p += KV_PANEL * t.d_pad;
    t.keys = p, p += KV_PIECE * t.d_pad;
    t.values = p, p += KV_PIECE * t.d_pad;
    t.scores = p, p += QUERY_BLOCK * SCORE_STRIDE;
    t.q = p, p += t.n_q * t.d_pad;
    t.o = p, p += t.n_q * t.d_pad;
    t.piece_o = p, p += t.n_q * t.d_pad;
    t.m = p, p += t.n_q;
    t.l = p, p += t.n_q;
    t.piece_m = p, p += t.n_q;
    t.piece_l = p;
    return t;
}

static const unsigned char *key_panel(const attention_job *j, const attention_tile *t, int pos) {
    const cpu_backend *b = j->b;
    return cpu_key_block(b, j->o->layer, t->table[pos / KV_BLOCK], t->kv_head) +
           pos % KV_BLOCK / KV_PANEL * kv_key_panel_bytes(b->cache.k_type, t->d);
}

static const unsigned char *value_row(const attention_job *j, const attention_tile *t, int slot) {
    const cpu_backend *b = j->b;
    return cpu_value_block(b, j->o->layer, t->table[slot / KV_BLOCK], t->kv_head) +
           slot % KV_BLOCK * kv_value_row_bytes(b->cache.v_type, t->d);
}

// ---- rows of a tree --------------------------------------------------------------------------------------------------------

// Where the n positions from pos on, none behind the row's own, are kept on the path of the tile's row.
static void path_slots(const attention_job *j, const attention_tile *t, int row, int pos, int n, int32_t *slot) {
    const step_inputs *in = j->b->in;
    for (int i = 0; i < n && pos + i < t->first[row]; i++) slot[i] = pos + i;
    int least = pos > t->first[row] ? pos : t->first[row];
    for (int r = t->row0 + row; r >= 0 && in->pos[r] >= least; r = cpu_parent(in, r)) {
        if (in->pos[r] < pos + n) slot[in->pos[r] - pos] = cpu_slot(in, r);
    }
}

// Tokens of [pos, pos + most) that count for a row.
static int32_t tokens_from(const attention_tile *t, int row, int pos, int most) {
    int n = t->limit[row] - pos;
    return n < 0 ? 0 : n > most ? most : n;
}

// The panel of keys at pos as the tile's row sees it, its first n columns: the cache's own, where they lie there by position.
static const unsigned char *path_panel(const attention_job *j, const attention_tile *t, int row, int pos, int n) {
    int32_t slot[KV_PANEL];
    path_slots(j, t, row, pos, n, slot);
    bool in_place = true;
    for (int i = 0; i < n; i++) in_place &= slot[i] == pos + i;
    if (in_place) return key_panel(j, t, pos);
    for (int i = 0; i < n; i++)
        kv_copy_key(j->b->cache.k_type, t->gather, i, key_panel(j, t, slot[i]), slot[i] % KV_PANEL, t->d);
    return t->gather;
}

// Queries [first, end) of the tile, all of one row, and the number of that row.
typedef struct row_queries {
    int row, first, end;
} row_queries;

// The queries of the tile's row that are among [first, end).
static row_queries queries_of(const attention_tile *t, int row, int first, int end) {
    int row_end = (row + 1) * t->group;
    return (row_queries){row, row * t->group > first ? row * t->group : first, row_end < end ? row_end : end};
}

static void path_scores(const attention_job *j, const attention_tile *t, row_queries of, float *s, int pos) {
    const cpu_backend *b = j->b;
    int32_t n = tokens_from(t, of.row, pos, KV_PANEL);
    if (n == 0) return;
    int32_t n_t[QUERY_BLOCK];
    for (int i = 0; i < of.end - of.first; i++) n_t[i] = n;
    kv_scores a = {.s = s, .q = t->q + of.first * t->d_pad, .n_t = n_t, .s_stride = SCORE_STRIDE, .q_stride = t->d_pad};
    a.k = path_panel(j, t, of.row, pos, n), a.d = t->d, a.n_q = of.end - of.first, a.scale = j->o->args.attention.scale;
    b->k.attention[b->cache.k_type]->scores(&a);
}

// Values one by one give the sums that a run of them gives: positions ascend either way.
static void path_values(const attention_job *j, const attention_tile *t, row_queries of, const float *p, int pos) {
    const cpu_backend *b = j->b;
    int64_t row_bytes = kv_value_row_bytes(b->cache.v_type, t->d);
    int32_t slot[KV_PANEL], n_t[QUERY_BLOCK];
    int n = tokens_from(t, of.row, pos, KV_PANEL);
    path_slots(j, t, of.row, pos, n, slot);
    for (int32_t i = 0, run; i < n; i += run) {
        for (run = 1; i + run < n && slot[i + run] == slot[i] + run && slot[i + run] % KV_BLOCK; run++) {}
        for (int q = 0; q < of.end - of.first; q++) n_t[q] = run;
        kv_values a = {.o = t->piece_o + of.first * t->d_pad, .p = p + i, .n_t = n_t, .o_stride = t->d_pad};
        a.p_stride = SCORE_STRIDE, a.v = value_row(j, t, slot[i]), a.v_stride = row_bytes, a.d = t->d;
        a.n_q = of.end - of.first;
        b->k.attention[b->cache.v_type]->values(&a);
    }
}

// Where the rows' paths leave what lies in the cache by position, at row `tree` or behind it, and the panels that all of them share.
// first: [n_rows]; returns the longest limit.
static int find_paths(const attention_job *j, attention_tile *t, int n_rows, int tree, int32_t *first) {
    const step_inputs *in = j->b->in;
    int most = 0;
    for (int row = 0; row < n_rows; row++) {
        int r = t->row0 + row;
        if (t->limit[row] > most) most = t->limit[row];
        while (cpu_parent(in, r) >= tree) r = cpu_parent(in, r);
        first[row] = in->pos[r];
        int shared = first[row] - first[row] % KV_PANEL;
        if (shared < t->shared) t->shared = shared;
    }
    t->first = first;
    return most;
}

// ---- pieces --------------------------------------------------------------------------------------------------------------

// Some queries of a tile, and what each sees of the piece.
typedef struct query_block {
    int first, n, pos; // queries [first, first + n); the piece's first position
    bool widened;
    int most, most_shared; // keys of the piece that any query sees; of these, what lies in the cache for all rows
    int32_t n_t[QUERY_BLOCK];
} query_block;

static query_block make_block(const attention_tile *t, int first, int piece) {
    query_block q = {.first = first, .pos = piece * KV_PIECE};
    q.n = t->n_q - first < QUERY_BLOCK ? t->n_q - first : QUERY_BLOCK;
    for (int i = 0; i < q.n; i++) {
        q.n_t[i] = tokens_from(t, (first + i) / t->group, q.pos, KV_PIECE);
        if (q.n_t[i] > q.most) q.most = q.n_t[i];
    }
    int shared = t->shared > q.pos ? t->shared - q.pos : 0;
    q.most_shared = q.most < shared ? q.most : shared;
    return q;
}

// Of the piece's keys from `key` on, what each query sees within `most`, short of rows' own paths.
static void see(const query_block *q, int key, int most, int32_t *n_t) {
    int end = key + most < q->most_shared ? key + most : q->most_shared;
    for (int i = 0; i < q->n; i++) {
        int n = (q->n_t[i] < end ? q->n_t[i] : end) - key;
        n_t[i] = n > 0 ? n : 0;
    }
}

// What a block's sums will read behind [key, key + KV_BLOCK) of its piece: the next block of keys (`values`: of values), after the
// last one the piece's values (or the next piece's keys). NULL: nothing that this task reads.
static const void *read_next(const attention_job *j, const attention_tile *t, const query_block *q, int key,
                             bool values) {
    int next = key + KV_BLOCK;
    if (next < q->most_shared) return values ? value_row(j, t, q->pos + next) : key_panel(j, t, q->pos + next);
    if (!values) return value_row(j, t, q->pos);
    next = q->pos + KV_PIECE;
    return tokens_from(t, (q->first + q->n - 1) / t->group, next, 1) && next < t->shared ? key_panel(j, t, next) : NULL;
}

// Keys beyond a row's own limit may be computed, from whatever the cache holds, and are never read.
static void block_scores(const attention_job *j, const attention_tile *t, const query_block *q) {
    const cpu_backend *b = j->b;
    int32_t n_t[QUERY_BLOCK];
    kv_scores a = {.q = t->q + q->first * t->d_pad, .n_t = n_t, .s_stride = SCORE_STRIDE, .q_stride = t->d_pad};
    a.d = t->d, a.n_q = q->n, a.scale = j->o->args.attention.scale, a.near = b->fetches_near;
    int key = 0, run = q->widened ? KV_PIECE : KV_BLOCK;
    for (; key < q->most_shared; key += run) {
        see(q, key, run, n_t);
        a.s = t->scores + key;
        a.k = q->widened ? (const void *)t->keys : key_panel(j, t, q->pos + key);
        a.next = q->widened ? NULL : read_next(j, t, q, key, false);
        b->k.attention[q->widened ? DTYPE_F32 : b->cache.k_type]->scores(&a);
    }
    for (key = q->most_shared; key < q->most; key += KV_PANEL) { // whole panels are shared, or all that counts
        int first_row = q->first / t->group, last_row = (q->first + q->n - 1) / t->group;
        for (int row = first_row; row <= last_row; row++) {
            row_queries of = queries_of(t, row, q->first, q->first + q->n);
            path_scores(j, t, of, t->scores + (of.first - q->first) * SCORE_STRIDE + key, q->pos + key);
        }
    }
}

static void block_values(const attention_job *j, const attention_tile *t, const query_block *q) {
    const cpu_backend *b = j->b;
    int32_t n_t[QUERY_BLOCK];
    kv_values a = {.o = t->piece_o + q->first * t->d_pad, .n_t = n_t, .o_stride = t->d_pad, .p_stride = SCORE_STRIDE};
    a.d = t->d, a.n_q = q->n, a.near = b->fetches_near;
    a.v_stride = q->widened ? t->d_pad * (int64_t)sizeof(float) : kv_value_row_bytes(b->cache.v_type, t->d);
    memset(a.o, 0, (size_t)(q->n * t->d_pad) * sizeof(float));
    int key = 0, run = q->widened ? KV_PIECE : KV_BLOCK;
    for (; key < q->most_shared; key += run) {
        see(q, key, run, n_t);
        a.p = t->scores + key;
        a.v = q->widened ? (const void *)t->values : value_row(j, t, q->pos + key);
        a.next = q->widened ? NULL : read_next(j, t, q, key, true);
        b->k.attention[q->widened ? DTYPE_F32 : b->cache.v_type]->values(&a);
    }
    for (key = q->most_shared; key < q->most; key += KV_PANEL) {
        int first_row = q->first / t->group, last_row = (q->first + q->n - 1) / t->group;
        for (int row = first_row; row <= last_row; row++) {
            row_queries of = queries_of(t, row, q->first, q->first + q->n);
            path_values(j, t, of, t->scores + (of.first - q->first) * SCORE_STRIDE + key, q->pos + key);
        }
    }
}

// The first n_keys keys and values of a piece as F32. That changes no bit: the sums are over F32 either way.
static void widen_piece(const attention_job *j, const attention_tile *t, int pos, int n_keys) {
    const cpu_backend *b = j->b;
    int64_t row_bytes = kv_value_row_bytes(b->cache.v_type, t->d);
    for (int key = 0; key < n_keys; key += KV_BLOCK) {
        int n = n_keys - key < KV_BLOCK ? n_keys - key : KV_BLOCK;
        b->k.attention[b->cache.k_type]->widen_keys(t->keys + key * t->d, key_panel(j, t, pos + key),
                                                    (n + KV_PANEL - 1) / KV_PANEL, t->d);
        b->k.attention[b->cache.v_type]->widen_values(t->values + key * t->d_pad, t->d_pad, value_row(j, t, pos + key),
                                                      row_bytes, n, t->d);
    }
}

// Fetches share i of n of the keys and values in [pos, pos + n_keys) from memory. One share for every query, so that what the next
// piece needs arrives while this one is computed.
static void fetch_share(const attention_job *j, const attention_tile *t, int pos, int n_keys, int i) {
    const cpu_backend *b = j->b;
    int64_t key_bytes = KV_BLOCK / KV_PANEL * kv_key_panel_bytes(b->cache.k_type, t->d);
    int64_t bytes = key_bytes + KV_BLOCK * kv_value_row_bytes(b->cache.v_type, t->d);
    int64_t all = (n_keys + KV_BLOCK - 1) / KV_BLOCK * bytes, at = all * i / t->n_q, end = all * (i + 1) / t->n_q;
    while (at < end) {
        int block_pos = pos + (int)(at / bytes) * KV_BLOCK;
        int64_t within = at % bytes, left = within < key_bytes ? key_bytes - within : bytes - within;
        const unsigned char *from =
            within < key_bytes ? key_panel(j, t, block_pos) + within : value_row(j, t, block_pos) + within - key_bytes;
        if (left > end - at) left = end - at;
        for (int64_t line = 0; line < left; line += 64) fetch_line(from + line, b->fetches_near);
        at += left;
    }
}

static int keys_within(int end, int pos) { return end - pos < KV_PIECE ? end - pos : KV_PIECE; }

void attention_tile_run(const attention_job *j, const attention_tile *t, int piece, int most) {
    int pos = piece * KV_PIECE, end = most < t->shared ? most : t->shared;
    bool widened = t->n_q >= WIDEN_FROM && end > pos;
    int next = keys_within(end, pos + KV_PIECE);
    if (widened) widen_piece(j, t, pos, keys_within(end, pos));
    for (int first = 0; first < t->n_q; first += QUERY_BLOCK) {
        query_block q = make_block(t, first, piece);
        q.widened = widened;
        block_scores(j, t, &q);
        for (int i = 0; i < q.n; i++) {
            if (widened && next > 0) fetch_share(j, t, pos + KV_PIECE, next, first + i);
            if (q.n_t[i] == 0) continue;
            float *s = t->scores + i * SCORE_STRIDE;
            t->piece_m[first + i] = j->b->k.softmax(s, q.n_t[i], &t->piece_l[first + i]);
        }
        block_values(j, t, &q);
    }
}

void attention_tile_merge(const attention_job *j, const attention_tile *t, int i, int piece, float *o) {
    const float *piece_o = t->piece_o + i * t->d_pad;
    if (tokens_from(t, i / t->group, piece * KV_PIECE, 1) == 0) return;
    if (piece == 0) {
        memcpy(o, piece_o, (size_t)t->d * sizeof *o);
        t->m[i] = t->piece_m[i], t->l[i] = t->piece_l[i];
    } else {
        j->b->k.attention_merge(o, &t->m[i], &t->l[i], piece_o, t->piece_m[i], t->piece_l[i], t->d);
    }
}

// ---- tiles -----------------------------------------------------------------------------------------------------------------

attention_tile attention_tile_start(const attention_job *j, int unit, int thread, tile_rows *rows) {
    cpu_backend *b = j->b;
    int tile = unit / b->cache.n_kv_heads, row0 = b->tile_first[tile], n_rows = b->tile_first[tile + 1] - row0;
    attention_tile t = make_tile(j, row0, n_rows, thread);
    t.kv_head = unit % b->cache.n_kv_heads;
    for (int r = 0; r < n_rows; r++) rows->limit[r] = b->in->pos[row0 + r] + 1;
    t.limit = rows->limit;
    t.shared = INT_MAX;
    int tree = b->tile_tree[tile];
    rows->most = tree >= 0 ? find_paths(j, &t, n_rows, tree, rows->first) : rows->limit[n_rows - 1];
    return t;
}

void attention_tile_copy_queries(const attention_job *j, const attention_tile *t) {
    const tensor *q = &j->o->in[0];
    for (int i = 0; i < t->n_q; i++) {
        const float *src =
            cpu_row(j->b, q, t->row0 + i / j->group) + (t->kv_head * j->group + i % j->group) * q->stride[1];
        memcpy(t->q + i * t->d_pad, src, (size_t)t->d * sizeof *src);
    }
}

float *attention_tile_result(const attention_job *j, const attention_tile *t, int i) {
    return cpu_row(j->b, &j->o->out[0], t->row0 + i / j->group) + (t->kv_head * j->group + i % j->group) * t->d;
}
