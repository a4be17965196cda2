// The cache and attention. Keys and values of a sequence lie in blocks of KV_BLOCK positions; sums are cut by position into pieces
// of KV_PIECE, each computed from zero and merged left to right, whatever the step's rows are (docs/exactness.md).
//
// Rows of a tree are kept at slots, which are not their positions. Panels that lie before the first row of a tile's paths are read in
// place, for all rows together; from there on each row reads panels made for it, in which the keys of its path stand by position, and
// the values of its path one by one. So slots decide where bytes are read, never the order of a sum.
//
// A task is a tile of rows and a kv head, all pieces of it; where that makes too few tasks for the threads, it is one piece, and the
// pieces are merged afterwards in the same order.
#include <limits.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_internal.h"
#include "backend/cpu/kv_store.h"

_Static_assert(KV_PIECE % KV_BLOCK == 0 && KV_BLOCK % KV_PANEL == 0, "pieces are whole blocks, blocks whole panels");

unsigned char *cpu_key_block(const cpu_backend *b, int layer, int block, int head) {
    int64_t plane = (b->key_block_bytes + b->value_block_bytes) * b->limits.n_blocks;
    return b->kv + layer * plane + block * b->key_block_bytes + head * (b->key_block_bytes / b->cache.n_kv_heads);
}

unsigned char *cpu_value_block(const cpu_backend *b, int layer, int block, int head) {
    int64_t plane = (b->key_block_bytes + b->value_block_bytes) * b->limits.n_blocks;
    return b->kv + layer * plane + b->key_block_bytes * b->limits.n_blocks + block * b->value_block_bytes +
           head * (b->value_block_bytes / b->cache.n_kv_heads);
}

// Where a row is kept, and the row before it on its path (-1: the path begins with it).
static int slot_of(const step_inputs *in, int r) { return in->slot ? in->slot[r] : in->pos[r]; }
static int parent_of(const step_inputs *in, int r) {
    if (in->parent) return in->parent[r];
    return r > 0 && in->seq[r - 1] == in->seq[r] ? r - 1 : -1;
}

typedef struct store_job {
    cpu_backend *b;
    const op *o;
} store_job;

// The least magnitude that a cache type would round to infinity. A key of infinity could give a score of -infinity, and vanish
// from the sum without a trace.
static float type_limit(dtype type) {
    switch (type) {
    case DTYPE_F16: return 65520.0f;
    case DTYPE_BF16: return 0x1.ffp+127f;
    case DTYPE_Q8_0: return 127.0f * 65504.0f; // its scale is an F16
    default: return INFINITY;
    }
}

static void check_store(cpu_backend *b, const op *o, int r) {
    for (int i = 0; i < 2; i++) {
        const tensor *t = &o->in[i];
        float limit = type_limit(i ? b->cache.v_type : b->cache.k_type);
        for (int h = 0; h < b->cache.n_kv_heads; h++) {
            const float *x = cpu_row(b, t, r) + h * t->stride[1];
            if (!b->k.all_below(x, b->cache.head_dim, limit)) cpu_mark_fault(b, o, t, r);
        }
    }
}

// Rows [r, r + n) lie in one panel, one behind the other.
static void store_run(const store_job *j, int r, int n) {
    cpu_backend *b = j->b;
    const tensor *k = &j->o->in[0], *v = &j->o->in[1];
    int slot = slot_of(b->in, r), block = b->in->block_table[b->in->seq[r]][slot / KV_BLOCK], at = slot % KV_BLOCK;
    int64_t d = b->cache.head_dim, row_bytes = kv_value_row_bytes(b->cache.v_type, d);
    for (int h = 0; h < b->cache.n_kv_heads; h++) {
        unsigned char *panel =
            cpu_key_block(b, j->o->layer, block, h) + at / KV_PANEL * kv_key_panel_bytes(b->cache.k_type, d);
        b->k.attention[b->cache.k_type]->store_keys(panel, at % KV_PANEL, n, cpu_row(b, k, r) + h * k->stride[1],
                                                    k->stride[0], d);
        unsigned char *row = cpu_value_block(b, j->o->layer, block, h) + at * row_bytes;
        for (int i = 0; i < n; i++) {
            b->k.attention[b->cache.v_type]->store_value(row + i * row_bytes, cpu_row(b, v, r + i) + h * v->stride[1],
                                                         d);
        }
    }
}

// Rows of one panel share cache lines, so neighbours go together: a task is a panel's worth of rows.
static void store_task(void *ctx, int task, int thread) {
    (void)thread;
    const store_job *j = ctx;
    const step_inputs *in = j->b->in;
    int end = (task + 1) * KV_PANEL < in->n_rows ? (task + 1) * KV_PANEL : in->n_rows;
    for (int r = task * KV_PANEL, n; r < end; r += n) {
        int slot = slot_of(in, r);
        for (n = 1; r + n < end && in->seq[r + n] == in->seq[r] && slot_of(in, r + n) == slot + n; n++) {
            if ((slot + n) % KV_PANEL == 0) break;
        }
        for (int i = 0; i < n; i++) check_store(j->b, j->o, r + i);
        store_run(j, r, n);
    }
}

void cpu_kv_store(cpu_backend *b, const op *o) {
    store_job j = {b, o};
    int n = b->in->n_rows;
    cpu_for(b, (n + KV_PANEL - 1) / KV_PANEL, n * tensor_row_len(&o->in[0]) * 4, store_task, &j);
}

// ---- attention -----------------------------------------------------------------------------------------------------------

typedef struct attention_job {
    cpu_backend *b;
    const op *o;
    int group; // query heads per kv head
} attention_job;

// The scratch of one task: queries, their running (m, l, o), and one piece.
typedef struct attention_tile {
    int n_q; // queries: rows x group
    int group;
    int64_t d, d_pad;                   // rows of q and o start on vector borders
    float *q, *o, *m, *l;               // [n_q][d_pad], [n_q][d_pad], [n_q], [n_q]
    float *piece_o, *piece_m, *piece_l; // as o, m, l, of the piece at hand
    float *scores;                      // [QUERY_BLOCK][SCORE_STRIDE]
    float *keys, *values;               // the piece as F32, where widening it pays; else not used
    int row0;                           // the first of the n_q / group rows
    const int32_t *limit;               // [n_q / group]: keys of each row (its position + 1)
    // Positions before `shared`, whole panels, are in the cache for every row; those of a row's path begin at first[row]. Not a tree:
    // shared is INT_MAX, and limits ascend.
    int shared;
    const int32_t *first;  // [n_q / group], of a tree
    unsigned char *gather; // one panel of keys
    const int32_t *table;  // the sequence's blocks
    int kv_head;
} attention_tile;

// Queries whose scores of a piece stay in the nearest cache.
enum { QUERY_BLOCK = 24, SCORE_STRIDE = KV_PIECE + 16 };

// So many queries make it cheaper to widen a piece once than to do so for each few of them.
enum { WIDEN_FROM = 24 };

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

static int64_t padded_head(const op_list *g) {
    int64_t d = 0;
    for (int i = 0; i < g->n_ops; i++) {
        if (g->ops[i].code == OP_ATTENTION && g->ops[i].in[0].dim[2] > d) d = g->ops[i].in[0].dim[2];
    }
    return (d + 15) & ~(int64_t)15;
}

int64_t cpu_attention_thread_bytes(const op_list *g) {
    int64_t d_pad = padded_head(g), n_q = cpu_attention_queries(g), floats = n_q * (3 * d_pad + 4);
    floats += QUERY_BLOCK * SCORE_STRIDE + (2 * KV_PIECE + KV_PANEL) * d_pad; // no key type is wider than F32
    return (floats * (int64_t)sizeof(float) + 63) & ~(int64_t)63;
}

static attention_tile make_tile(const attention_job *j, int row0, int n_rows, int thread) {
    attention_tile t = {.n_q = n_rows * j->group, .group = j->group, .d = j->b->cache.head_dim, .row0 = row0};
    t.d_pad = (t.d + 15) & ~(int64_t)15;
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
    for (int r = t->row0 + row; r >= 0 && in->pos[r] >= pos; r = parent_of(in, r)) {
        if (in->pos[r] < pos + n) slot[in->pos[r] - pos] = slot_of(in, r);
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
    const void *panel = path_panel(j, t, of.row, pos, n);
    for (int q = of.first; q < of.end; q++, s += SCORE_STRIDE) {
        kv_scores a = {.s = s, .q = t->q + q * t->d_pad, .k = panel, .n_t = &n, .n_q = 1, .d = t->d};
        a.scale = j->o->args.attention.scale;
        b->k.attention[b->cache.k_type]->scores(&a);
    }
}

// Values one by one give the sums that a run of them gives: positions ascend either way.
static void path_values(const attention_job *j, const attention_tile *t, row_queries of, const float *p, int pos) {
    const cpu_backend *b = j->b;
    int64_t row_bytes = kv_value_row_bytes(b->cache.v_type, t->d);
    int32_t slot[KV_PANEL];
    int n = tokens_from(t, of.row, pos, KV_PANEL);
    path_slots(j, t, of.row, pos, n, slot);
    for (int32_t i = 0, run; i < n; i += run) {
        for (run = 1; i + run < n && slot[i + run] == slot[i] + run && slot[i + run] % KV_BLOCK; run++) {}
        for (int q = of.first; q < of.end; q++) {
            kv_values a = {.o = t->piece_o + q * t->d_pad, .p = p + (q - of.first) * SCORE_STRIDE + i, .n_t = &run};
            a.v = value_row(j, t, slot[i]), a.v_stride = row_bytes, a.d = t->d, a.n_q = 1;
            b->k.attention[b->cache.v_type]->values(&a);
        }
    }
}

// Where the rows' paths begin, and the panels that all of them share. first: [n_rows]; returns the longest limit.
static int find_paths(const attention_job *j, attention_tile *t, int n_rows, int32_t *first) {
    const step_inputs *in = j->b->in;
    int most = 0;
    for (int row = 0; row < n_rows; row++) {
        int r = t->row0 + row;
        if (t->limit[row] > most) most = t->limit[row];
        while (parent_of(in, r) >= 0) r = parent_of(in, r);
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
    a.d = t->d, a.n_q = q->n, a.scale = j->o->args.attention.scale;
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
    a.d = t->d, a.n_q = q->n;
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
        for (int64_t line = 0; line < left; line += 64) __builtin_prefetch(from + line, 0, 2);
        at += left;
    }
}

static int keys_within(int end, int pos) { return end - pos < KV_PIECE ? end - pos : KV_PIECE; }

// (m, l, o) of one piece for every query that reaches it.
static void run_piece(const attention_job *j, const attention_tile *t, int piece, int most) {
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

// Merges a piece of query i, in t->piece_*, into its sums; the first piece starts them.
static void merge_piece(const attention_job *j, const attention_tile *t, int i, int piece, float *o) {
    const float *piece_o = t->piece_o + i * t->d_pad;
    if (tokens_from(t, i / t->group, piece * KV_PIECE, 1) == 0) return;
    if (piece == 0) {
        memcpy(o, piece_o, (size_t)t->d * sizeof *o);
        t->m[i] = t->piece_m[i], t->l[i] = t->piece_l[i];
    } else {
        j->b->k.attention_merge(o, &t->m[i], &t->l[i], piece_o, t->piece_m[i], t->piece_l[i], t->d);
    }
}

// What belongs to the rows of a tile.
typedef struct tile_rows {
    int32_t limit[ATTENTION_QUERIES], first[ATTENTION_QUERIES];
    int most; // the longest limit
} tile_rows;

// Unit u is tile u / kv heads with kv head u % kv heads. Queries are not copied yet.
static attention_tile start_unit(const attention_job *j, int unit, int thread, tile_rows *rows) {
    cpu_backend *b = j->b;
    int tile = unit / b->cache.n_kv_heads, row0 = b->tile_first[tile], n_rows = b->tile_first[tile + 1] - row0;
    attention_tile t = make_tile(j, row0, n_rows, thread);
    t.kv_head = unit % b->cache.n_kv_heads;
    for (int r = 0; r < n_rows; r++) rows->limit[r] = b->in->pos[row0 + r] + 1;
    t.limit = rows->limit;
    t.shared = INT_MAX;
    rows->most = b->tile_tree[tile] ? find_paths(j, &t, n_rows, rows->first) : rows->limit[n_rows - 1];
    return t;
}

static void copy_queries(const attention_job *j, const attention_tile *t) {
    const tensor *q = &j->o->in[0];
    for (int i = 0; i < t->n_q; i++) {
        const float *src =
            cpu_row(j->b, q, t->row0 + i / j->group) + (t->kv_head * j->group + i % j->group) * q->stride[1];
        memcpy(t->q + i * t->d_pad, src, (size_t)t->d * sizeof *src);
    }
}

static float *result_of(const attention_job *j, const attention_tile *t, int i) {
    return cpu_row(j->b, &j->o->out[0], t->row0 + i / j->group) + (t->kv_head * j->group + i % j->group) * t->d;
}

static void attention_task(void *ctx, int unit, int thread) {
    const attention_job *j = ctx;
    tile_rows rows;
    attention_tile t = start_unit(j, unit, thread, &rows);
    copy_queries(j, &t);
    for (int piece = 0; piece * KV_PIECE < rows.most; piece++) {
        run_piece(j, &t, piece, rows.most);
        for (int i = 0; i < t.n_q; i++) merge_piece(j, &t, i, piece, t.o + i * t.d_pad);
    }
    for (int i = 0; i < t.n_q; i++) {
        float *y = result_of(j, &t, i);
        memcpy(y, t.o + i * t.d_pad, (size_t)t.d * sizeof *y);
        j->b->k.scale(y, 1.0f / t.l[i], t.d);
    }
}

// ---- pieces as tasks -----------------------------------------------------------------------------------------------------

// Pieces are computed by all threads, then merged left to right, a window of pieces of every unit after the other. So results that
// wait to be merged take memory by the number of threads, not by the length of the context.
typedef struct split_job {
    attention_job a;
    int units, window; // pieces of a window
    int piece0, last;  // the window at hand, and the last piece of the longest row
} split_job;

// Results of a task: o [queries][d], m, l; behind all tasks, the sums' m and l of each unit.
static int64_t slot_floats(int64_t n_q, int64_t d) { return n_q * (((d + 15) & ~(int64_t)15) + 2); }

int64_t cpu_attention_split_bytes(const op_list *g, int n_threads) {
    if (n_threads == 1) return 0;
    int64_t n_q = cpu_attention_queries(g);
    int64_t floats = SPLIT_SLOTS * slot_floats(n_q, padded_head(g)) + SPLIT_UNITS * 2 * n_q;
    return (n_threads * floats * (int64_t)sizeof(float) + 63) & ~(int64_t)63;
}

static void use_slot(const split_job *s, attention_tile *t, int task) {
    cpu_backend *b = s->a.b;
    float *p = b->split + task * slot_floats(b->sizes.queries, t->d);
    t->piece_o = p, p += b->sizes.queries * t->d_pad;
    t->piece_m = p, p += b->sizes.queries;
    t->piece_l = p;
}

static void piece_task(void *ctx, int task, int thread) {
    const split_job *s = ctx;
    int piece = s->piece0 + task / s->units;
    tile_rows rows;
    attention_tile t = start_unit(&s->a, task % s->units, thread, &rows);
    if (piece * KV_PIECE >= rows.most) return;
    copy_queries(&s->a, &t);
    use_slot(s, &t, task);
    run_piece(&s->a, &t, piece, rows.most);
}

// The sums stand in the result's rows until they are complete.
static void merge_task(void *ctx, int unit, int thread) {
    const split_job *s = ctx;
    cpu_backend *b = s->a.b;
    tile_rows rows;
    attention_tile t = start_unit(&s->a, unit, thread, &rows);
    t.m = b->split + s->units * s->window * slot_floats(b->sizes.queries, t.d) + unit * 2 * b->sizes.queries;
    t.l = t.m + b->sizes.queries;
    for (int w = 0; w < s->window && (s->piece0 + w) * KV_PIECE < rows.most; w++) {
        use_slot(s, &t, w * s->units + unit);
        for (int i = 0; i < t.n_q; i++) merge_piece(&s->a, &t, i, s->piece0 + w, result_of(&s->a, &t, i));
    }
    if (s->piece0 + s->window <= s->last) return;
    for (int i = 0; i < t.n_q; i++) b->k.scale(result_of(&s->a, &t, i), 1.0f / t.l[i], t.d);
}

static void run_split(const attention_job *j, int units, int last, int64_t work) {
    int threads = pool_n_threads(j->b->threads), tasks = SPLIT_UNITS * threads;
    split_job s = {.a = *j, .units = units, .window = (tasks + units - 1) / units, .last = last};
    for (; s.piece0 <= last; s.piece0 += s.window) {
        int n = last - s.piece0 + 1 < s.window ? last - s.piece0 + 1 : s.window;
        cpu_for(j->b, units * n, work, piece_task, &s);
        cpu_for(j->b, units, (int64_t)units * n * j->group * j->b->cache.head_dim, merge_task, &s);
    }
}

// Too few units for every thread to get as many as the others.
static bool worth_splitting(const cpu_backend *b, int units) {
    int threads = pool_n_threads(b->threads);
    return units < SPLIT_UNITS * threads && units % threads != 0;
}

// Tiles of neighbouring rows of one sequence; returns their number and fills tile_first and tile_tree. The rows of a sequence up to
// the first that is not a chain's, at its position, are as without trees.
static int make_tiles(cpu_backend *b, int rows_per_task) {
    const step_inputs *in = b->in;
    int n = 0;
    bool plain = true; // row r and those of its sequence before it
    for (int r = 0; r < in->n_rows; r++) {
        bool starts = r == 0 || in->seq[r] != in->seq[r - 1], was_plain = plain;
        plain = (starts || plain) && slot_of(in, r) == in->pos[r] && parent_of(in, r) == (starts ? -1 : r - 1);
        if (starts || plain != was_plain || r - b->tile_first[n - 1] == rows_per_task) {
            b->tile_first[n] = r;
            b->tile_tree[n++] = !plain;
        }
    }
    b->tile_first[n] = in->n_rows;
    return n;
}

// Many rows, because a tile reads all keys and values; few enough that there are some tasks for every thread.
static int rows_per_task(const cpu_backend *b, int group) {
    int most = ATTENTION_QUERIES / group, least = (WIDEN_FROM + group - 1) / group;
    int tasks = SPLIT_UNITS * pool_n_threads(b->threads);
    int fair = (int)(((int64_t)b->in->n_rows * b->cache.n_kv_heads + tasks - 1) / tasks);
    int rows = fair < least ? least : fair;
    return most < 1 ? 1 : rows < most ? rows : most;
}

void cpu_attention(cpu_backend *b, const op *o) {
    attention_job j = {.b = b, .o = o, .group = (int)o->in[0].dim[1] / b->cache.n_kv_heads};
    int tiles = make_tiles(b, rows_per_task(b, j.group));
    int units = tiles * b->cache.n_kv_heads, last = 0;
    int64_t keys = 0;
    for (int r = 0; r < b->in->n_rows; r++) {
        keys += b->in->pos[r] + 1;
        if (b->in->pos[r] / KV_PIECE > last) last = b->in->pos[r] / KV_PIECE;
    }
    int64_t work = keys * tensor_row_len(&o->in[0]) * 2;
    if (last > 0 && worth_splitting(b, units)) {
        run_split(&j, units, last, work);
    } else {
        cpu_for(b, units, work, attention_task, &j);
    }
}
