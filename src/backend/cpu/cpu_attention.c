// Attention of a step: which rows make a tile, and which thread computes what. A task is a tile of rows and a kv head, all pieces of it;
// where that makes too few tasks for the threads, it is one piece, and the pieces are merged afterwards in the same order.
#include <string.h>

#include "backend/cpu/cpu_attention_tile.h"

static void attention_task(void *ctx, int unit, int thread) {
    const attention_job *j = ctx;
    tile_rows rows;
    attention_tile t = attention_tile_start(j, unit, thread, &rows);
    attention_tile_copy_queries(j, &t);
    for (int piece = 0; piece * KV_PIECE < rows.most; piece++) {
        attention_tile_run(j, &t, piece, rows.most);
        for (int i = 0; i < t.n_q; i++) attention_tile_merge(j, &t, i, piece, t.o + i * t.d_pad);
    }
    for (int i = 0; i < t.n_q; i++) {
        float *y = attention_tile_result(j, &t, i);
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
static int64_t slot_floats(int64_t n_q, int64_t d) { return n_q * (padded_head(d) + 2); }

int64_t cpu_attention_split_bytes(const op_list *g, int n_threads) {
    if (n_threads == 1) return 0;
    int64_t n_q = cpu_attention_queries(g);
    int64_t floats = SPLIT_SLOTS * slot_floats(n_q, attention_padded_head(g)) + SPLIT_UNITS * 2 * n_q;
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
    attention_tile t = attention_tile_start(&s->a, task % s->units, thread, &rows);
    if (piece * KV_PIECE >= rows.most) return;
    attention_tile_copy_queries(&s->a, &t);
    use_slot(s, &t, task);
    attention_tile_run(&s->a, &t, piece, rows.most);
}

// The sums stand in the result's rows until they are complete.
static void merge_task(void *ctx, int unit, int thread) {
    const split_job *s = ctx;
    cpu_backend *b = s->a.b;
    tile_rows rows;
    attention_tile t = attention_tile_start(&s->a, unit, thread, &rows);
    t.m = b->split + s->units * s->window * slot_floats(b->sizes.queries, t.d) + unit * 2 * b->sizes.queries;
    t.l = t.m + b->sizes.queries;
    for (int w = 0; w < s->window && (s->piece0 + w) * KV_PIECE < rows.most; w++) {
        use_slot(s, &t, w * s->units + unit);
        for (int i = 0; i < t.n_q; i++)
            attention_tile_merge(&s->a, &t, i, s->piece0 + w, attention_tile_result(&s->a, &t, i));
    }
    if (s->piece0 + s->window <= s->last) return;
    for (int i = 0; i < t.n_q; i++) b->k.scale(attention_tile_result(&s->a, &t, i), 1.0f / t.l[i], t.d);
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

// Too few units for every thread to get as many as the others, or one of them longer, by an eighth, than a thread's share of all.
static bool worth_splitting(const cpu_backend *b, int tiles) {
    int threads = pool_n_threads(b->threads), units = tiles * b->cache.n_kv_heads;
    if (units > SPLIT_UNITS * threads) return false; // no room for their sums
    int64_t pieces = 0, longest = 0;
    for (int i = 0; i < tiles; i++) {
        int64_t most = 0;
        for (int r = b->tile_first[i]; r < b->tile_first[i + 1]; r++) {
            int64_t n = b->in->pos[r] / KV_PIECE + 1;
            if (n > most) most = n;
        }
        pieces += most;
        if (most > longest) longest = most;
    }
    bool uneven = longest * threads * 8 > pieces * b->cache.n_kv_heads * 9;
    return uneven || (units < SPLIT_UNITS * threads && units % threads != 0);
}

// Tiles of neighbouring rows of one sequence; returns their number and fills tile_first and tile_tree. The rows of a sequence up to
// the first that is not a chain's, at its position, are as without trees.
static int make_tiles(cpu_backend *b, int rows_per_task) {
    const step_inputs *in = b->in;
    int n = 0, tree = -1; // the first row of r's sequence that is not plain
    for (int r = 0; r < in->n_rows; r++) {
        bool starts = r == 0 || in->seq[r] != in->seq[r - 1], had_tree = tree >= 0;
        if (starts) tree = -1;
        bool plain = cpu_slot(in, r) == in->pos[r] && cpu_parent(in, r) == (starts ? -1 : r - 1);
        if (tree < 0 && !plain) tree = r;
        if (starts || (tree >= 0) != had_tree || r - b->tile_first[n - 1] == rows_per_task) {
            b->tile_first[n] = r;
            b->tile_tree[n++] = tree;
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
    if (last > 0 && worth_splitting(b, tiles)) {
        run_split(&j, units, last, work);
    } else {
        cpu_for(b, units, work, attention_task, &j);
    }
}
