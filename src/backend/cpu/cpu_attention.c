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
            if (!cpu_below(cpu_row(b, t, r) + h * t->stride[1], b->cache.head_dim, limit)) cpu_mark_fault(b, o, t, r);
        }
    }
}

static void store_row(void *ctx, int r, int thread) {
    (void)thread;
    const store_job *j = ctx;
    cpu_backend *b = j->b;
    const tensor *k = &j->o->in[0], *v = &j->o->in[1];
    int slot = slot_of(b->in, r), block = b->in->block_table[b->in->seq[r]][slot / KV_BLOCK], at = slot % KV_BLOCK;
    int64_t d = b->cache.head_dim;
    check_store(b, j->o, r);
    for (int h = 0; h < b->cache.n_kv_heads; h++) {
        unsigned char *panel =
            cpu_key_block(b, j->o->layer, block, h) + at / KV_PANEL * kv_key_panel_bytes(b->cache.k_type, d);
        b->k.attention[b->cache.k_type]->store_key(panel, at % KV_PANEL, cpu_row(b, k, r) + h * k->stride[1], d);
        unsigned char *row = cpu_value_block(b, j->o->layer, block, h) + at * kv_value_row_bytes(b->cache.v_type, d);
        b->k.attention[b->cache.v_type]->store_value(row, cpu_row(b, v, r) + h * v->stride[1], d);
    }
}

// Rows of one panel share cache lines but no bytes, so rows may be stored in any order, by any thread.
void cpu_kv_store(cpu_backend *b, const op *o) {
    store_job j = {b, o};
    int n = cpu_rows(b, &o->in[0]);
    cpu_for(b, n, n * tensor_row_len(&o->in[0]) * 4, store_row, &j);
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
    int64_t d;
    float *q, *o, *m, *l;               // [n_q][d], [n_q][d], [n_q], [n_q]
    float *scores;                      // [n_q][KV_PIECE]
    float *piece_o, *piece_m, *piece_l; // as o, m, l, of the piece at hand
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
    int64_t d_pad = padded_head(g), n_q = cpu_attention_queries(g), floats = n_q * (3 * d_pad + KV_PIECE + 4);
    return ((floats + KV_PANEL * d_pad) * (int64_t)sizeof(float) + 63) & ~(int64_t)63; // no key type is wider than F32
}

static attention_tile make_tile(const attention_job *j, int row0, int n_rows, int thread) {
    attention_tile t = {.n_q = n_rows * j->group, .group = j->group, .d = j->b->cache.head_dim, .row0 = row0};
    int64_t d = (t.d + 15) & ~(int64_t)15; // rows start on vector borders
    t.table = j->b->in->block_table[j->b->in->seq[row0]];
    float *p = (float *)(void *)(j->b->thread_scratch + thread * j->b->thread_bytes);
    t.gather = (unsigned char *)p, p += KV_PANEL * d;
    t.q = p, p += t.n_q * d;
    t.o = p, p += t.n_q * d;
    t.piece_o = p, p += t.n_q * d;
    t.scores = p, p += t.n_q * KV_PIECE;
    t.m = p, p += t.n_q;
    t.l = p, p += t.n_q;
    t.piece_m = p, p += t.n_q;
    t.piece_l = p;
    return t;
}

// n keys of the piece count for a row whose limit is `limit`.
static int piece_keys(int limit, int piece) {
    int n = limit - piece * KV_PIECE;
    return n < 0 ? 0 : n > KV_PIECE ? KV_PIECE : n;
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

// Columns of the panel at pos that count for a row.
static int panel_keys(const attention_tile *t, int row, int pos) {
    int n = t->limit[row] - pos;
    return n < 0 ? 0 : n > KV_PANEL ? KV_PANEL : n;
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

static void path_scores(const attention_job *j, const attention_tile *t, int pos) {
    const cpu_backend *b = j->b;
    int64_t d_pad = (t->d + 15) & ~(int64_t)15;
    for (int row = 0; row < t->n_q / t->group; row++) {
        int n = panel_keys(t, row, pos), q = row * t->group;
        if (n == 0) continue;
        b->k.attention[b->cache.k_type]->scores(t->scores + (int64_t)q * KV_PIECE + pos % KV_PIECE, KV_PIECE,
                                                t->q + q * d_pad, d_pad, t->group, path_panel(j, t, row, pos, n), t->d,
                                                j->o->args.attention.scale);
    }
}

// Values one by one give the sums that a run of them gives: positions ascend either way.
static void path_values(const attention_job *j, const attention_tile *t, int pos) {
    const cpu_backend *b = j->b;
    int64_t d_pad = (t->d + 15) & ~(int64_t)15, row_bytes = kv_value_row_bytes(b->cache.v_type, t->d);
    for (int row = 0; row < t->n_q / t->group; row++) {
        int32_t slot[KV_PANEL];
        int n = panel_keys(t, row, pos), q = row * t->group;
        path_slots(j, t, row, pos, n, slot);
        for (int i = 0, run; i < n; i += run) {
            for (run = 1; i + run < n && slot[i + run] == slot[i] + run && slot[i + run] % KV_BLOCK; run++) {}
            b->k.attention[b->cache.v_type]->values(t->piece_o + q * d_pad, d_pad,
                                                    t->scores + (int64_t)q * KV_PIECE + pos % KV_PIECE + i, KV_PIECE,
                                                    t->group, value_row(j, t, slot[i]), row_bytes, run, t->d);
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

// Scores of every query against the piece's panels, up to the longest row's limit. Columns beyond a row's own limit are computed
// from whatever the cache holds and are never read.
static void piece_scores(const attention_job *j, const attention_tile *t, int piece, int n_keys) {
    const cpu_backend *b = j->b;
    int64_t d_pad = (t->d + 15) & ~(int64_t)15;
    for (int key = 0; key < n_keys; key += KV_PANEL) {
        int pos = piece * KV_PIECE + key;
        if (pos >= t->shared) {
            path_scores(j, t, pos);
            continue;
        }
        b->k.attention[b->cache.k_type]->scores(t->scores + key, KV_PIECE, t->q, d_pad, t->n_q, key_panel(j, t, pos),
                                                t->d, j->o->args.attention.scale);
    }
}

// o of the piece: rows whose limit covers the whole panel go together, the others row by row.
static void piece_values(const attention_job *j, const attention_tile *t, int piece, int n_keys) {
    const cpu_backend *b = j->b;
    int64_t d_pad = (t->d + 15) & ~(int64_t)15, row_bytes = kv_value_row_bytes(b->cache.v_type, t->d);
    const attention_kernels *kernels = b->k.attention[b->cache.v_type];
    int n_rows = t->n_q / t->group;
    memset(t->piece_o, 0, (size_t)(t->n_q * d_pad) * sizeof(float));
    for (int key = 0; key < n_keys; key += KV_PANEL) {
        int pos = piece * KV_PIECE + key;
        if (pos >= t->shared) {
            path_values(j, t, pos);
            continue;
        }
        const unsigned char *v = value_row(j, t, pos);
        for (int row = 0; row < n_rows;) { // limits ascend with the rows, or cover all panels that are shared
            int n_t = panel_keys(t, row, pos), n = 1;
            while (row + n < n_rows && n_t == KV_PANEL) n++;
            if (n_t > 0) {
                int q = row * t->group;
                kernels->values(t->piece_o + q * d_pad, d_pad, t->scores + (int64_t)q * KV_PIECE + key, KV_PIECE,
                                n * t->group, v, row_bytes, n_t, t->d);
            }
            row += n;
        }
    }
}

// (m, l, o) of one piece for every query that reaches it.
static void run_piece(const attention_job *j, const attention_tile *t, int piece, int most) {
    int n_keys = piece_keys(most, piece);
    piece_scores(j, t, piece, n_keys);
    for (int i = 0; i < t->n_q; i++) {
        int n = piece_keys(t->limit[i / t->group], piece);
        if (n > 0) t->piece_m[i] = j->b->k.softmax(t->scores + (int64_t)i * KV_PIECE, n, &t->piece_l[i]);
    }
    piece_values(j, t, piece, n_keys);
}

// Merges a piece of query i, in t->piece_*, into its sums; the first piece starts them.
static void merge_piece(const attention_job *j, const attention_tile *t, int i, int piece, float *o) {
    const float *piece_o = t->piece_o + i * ((t->d + 15) & ~(int64_t)15);
    if (piece_keys(t->limit[i / t->group], piece) == 0) return;
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
    int64_t d_pad = (t->d + 15) & ~(int64_t)15;
    for (int i = 0; i < t->n_q; i++) {
        const float *src =
            cpu_row(j->b, q, t->row0 + i / j->group) + (t->kv_head * j->group + i % j->group) * q->stride[1];
        memcpy(t->q + i * d_pad, src, (size_t)t->d * sizeof *src);
    }
}

static float *result_of(const attention_job *j, const attention_tile *t, int i) {
    return cpu_row(j->b, &j->o->out[0], t->row0 + i / j->group) + (t->kv_head * j->group + i % j->group) * t->d;
}

static void attention_task(void *ctx, int unit, int thread) {
    const attention_job *j = ctx;
    tile_rows rows;
    attention_tile t = start_unit(j, unit, thread, &rows);
    int64_t d_pad = (t.d + 15) & ~(int64_t)15;
    copy_queries(j, &t);
    for (int piece = 0; piece * KV_PIECE < rows.most; piece++) {
        run_piece(j, &t, piece, rows.most);
        for (int i = 0; i < t.n_q; i++) merge_piece(j, &t, i, piece, t.o + i * d_pad);
    }
    for (int i = 0; i < t.n_q; i++) {
        float *y = result_of(j, &t, i);
        memcpy(y, t.o + i * d_pad, (size_t)t.d * sizeof *y);
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
    int64_t d_pad = (t->d + 15) & ~(int64_t)15;
    float *p = b->split + task * slot_floats(b->sizes.queries, t->d);
    t->piece_o = p, p += b->sizes.queries * d_pad;
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

void cpu_attention(cpu_backend *b, const op *o) {
    attention_job j = {.b = b, .o = o, .group = (int)o->in[0].dim[1] / b->cache.n_kv_heads};
    int rows_per_task = ATTENTION_QUERIES / j.group;
    int tiles = make_tiles(b, rows_per_task > 0 ? rows_per_task : 1);
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
