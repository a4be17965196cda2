#include "op/passes.h"

#include <string.h>

// Where a temporary that was merged into another one now lives.
typedef struct moved {
    int id;            // of the merged temporary, or -1
    int64_t offset;    // numbers added to every view's offset
    int64_t row, slot; // new strides of rows and, for expert results, of slots (0: unchanged)
} moved;

static void move_tensor(tensor *t, const moved *map) {
    if (t->where != STORAGE_TEMP || map[t->id].id < 0) return;
    const moved *m = &map[t->id];
    t->id = m->id;
    t->offset += m->offset;
    t->stride[0] = m->row;
    if (m->slot && t->n_dims == 3) t->stride[1] = m->slot;
}

static void move_all(op_list *g, const moved *map) {
    for (int i = 0; i < g->n_ops; i++) {
        op *o = &g->ops[i];
        for (int j = 0; j < o->n_in; j++) move_tensor(&o->in[j], map);
        for (int j = 0; j < o->n_out; j++) move_tensor(&o->out[j], map);
    }
    move_tensor(&g->logits, map);
}

static bool same_view(const tensor *a, const tensor *b) {
    return a->where == b->where && a->id == b->id && a->offset == b->offset && a->n_dims == b->n_dims &&
           memcmp(a->dim, b->dim, sizeof a->dim) == 0;
}

// Whether b may join a's merged projection: the same input, unsplit sums, biases on both or on neither.
static bool can_merge(const op *a, const op *b) {
    if (a->code != b->code || (a->code != OP_LINEAR && a->code != OP_EXPERT_LINEAR) || a->layer != b->layer)
        return false;
    if (a->args.linear.pieces != 1 || b->args.linear.pieces != 1 || !same_view(&a->in[0], &b->in[0])) return false;
    if (a->code == OP_EXPERT_LINEAR) return same_view(&a->in[2], &b->in[2]);
    return (a->in[2].where == STORAGE_NONE) == (b->in[2].where == STORAGE_NONE);
}

// A new entry whose rows are those of the given inputs (in[slot]) of n operations, in order.
static int merged_weight(op_list *g, const op *ops, int n, int slot) {
    weight all = g->weights->w[ops[0].in[slot].id];
    for (int i = 1; i < n; i++) {
        const weight *w = &g->weights->w[ops[i].in[slot].id];
        if (w->role != all.role || w->k != all.k || all.n_parts + w->n_parts > WEIGHT_MAX_PARTS) return -1;
        for (int p = 0; p < w->n_parts; p++) all.part[all.n_parts++] = w->part[p];
        all.n += w->n;
    }
    strbuf label = {0};
    for (int i = 0; i < n; i++) strbuf_addf(&label, "%s%s", i ? "+" : "", g->weights->w[ops[i].in[slot].id].label);
    all.label = label.failed ? NULL : arena_str(g->memory, strbuf_str(&label)).data;
    strbuf_deinit(&label);
    int id = all.label ? weight_add(g->weights, &all) : -1;
    if (id < 0) {
        g->failed = error_set(g->err, STATUS_NO_MEMORY, "out of memory while merging projections");
        return -1;
    }
    for (int i = 0; i < n; i++) g->weights->w[ops[i].in[slot].id].absorbed = true;
    return id;
}

// Replaces ops[at .. at+n) by one projection; fills the map of moved temporaries.
static void merge_at(op_list *g, int at, int n, moved *map) {
    op *ops = &g->ops[at];
    int w = merged_weight(g, ops, n, 1);
    if (w < 0) return;
    bool has_bias = ops[0].code == OP_LINEAR && ops[0].in[2].where == STORAGE_WEIGHT;
    int bias = has_bias ? merged_weight(g, ops, n, 2) : -1;
    if (has_bias && bias < 0 && !g->failed)
        g->failed = error_set(g->err, STATUS_INTERNAL, "the biases of %s cannot be merged", ops[0].label);
    if (g->failed) return;
    op_list scratch = *g; // the builder appends; keep our own record and its temporary
    tensor out;
    if (ops[0].code == OP_LINEAR) {
        out = op_linear(&scratch, ops[0].in[0], w, bias, 1);
    } else {
        out = op_expert_linear(&scratch, ops[0].in[0], ops[0].in[2], w, 1);
    }
    g->temps = scratch.temps, g->n_temps = scratch.n_temps, g->cap_temps = scratch.cap_temps;
    g->failed = scratch.failed;
    if (g->failed) return;
    bool experts = ops[0].code == OP_EXPERT_LINEAR;
    int64_t offset = 0;
    for (int i = 0; i < n; i++) {
        map[ops[i].out[0].id] = (moved){out.id, offset, out.stride[0], experts ? out.stride[1] : 0};
        offset += g->weights->w[ops[i].in[1].id].n;
    }
    op merged = scratch.ops[scratch.n_ops - 1];
    merged.layer = ops[0].layer;
    if (scratch.ops != g->ops) g->ops = scratch.ops, g->cap_ops = scratch.cap_ops;
    ops = &g->ops[at];
    ops[0] = merged;
    memmove(ops + 1, ops + n, (size_t)(g->n_ops - at - n) * sizeof *ops);
    g->n_ops -= n - 1;
}

// Whether SWIGLU reads the result of the projection at `at`.
static bool is_gated(const op_list *g, int at) {
    const tensor *y = &g->ops[at].out[0];
    for (int i = at + 1; i < g->n_ops; i++) {
        const op *o = &g->ops[i];
        if (o->code == OP_SWIGLU && (same_view(&o->in[0], y) || same_view(&o->in[1], y))) return true;
    }
    return false;
}

// Whether what the n projections from `at` on give is read by norms, which write their result elsewhere, and by the cache alone.
static bool is_normed(const op_list *g, int at, int n) {
    for (int i = at + n; i < g->n_ops; i++) {
        const op *o = &g->ops[i];
        for (int j = 0; j < o->n_in; j++) {
            bool reads = false;
            for (int k = at; k < at + n; k++)
                reads |= o->in[j].where == STORAGE_TEMP && o->in[j].id == g->ops[k].out[0].id;
            if (reads && o->code != OP_RMS_NORM && o->code != OP_KV_STORE) return false;
        }
    }
    return g->ops[at].code == OP_LINEAR;
}

static bool may_merge(const op_list *g, int at, int n, unsigned passes) {
    return passes & PASS_MERGE_LINEAR || (passes & PASS_MERGE_GATED && is_gated(g, at)) ||
           (passes & PASS_MERGE_NORMED && is_normed(g, at, n));
}

static void merge_linear(op_list *g, unsigned passes) {
    int n_map = g->n_temps * 2; // merging adds at most one temporary per projection
    moved *map = arena_alloc(g->memory, (size_t)n_map * sizeof *map);
    if (!map) {
        g->failed = error_set(g->err, STATUS_NO_MEMORY, "out of memory while merging projections");
        return;
    }
    for (int i = 0; i < n_map; i++) map[i] = (moved){.id = -1};
    for (int i = 0; i < g->n_ops && !g->failed; i++) {
        int n = 1;
        while (i + n < g->n_ops && n < WEIGHT_MAX_PARTS && can_merge(&g->ops[i], &g->ops[i + n])) n++;
        if (n > 1 && may_merge(g, i, n, passes)) merge_at(g, i, n, map);
    }
    if (!g->failed) move_all(g, map);
}

// Whether o is a projection whose whole result is the gate and the up that `next` reads. Nothing else reads a gate or an up.
static bool feeds_swiglu(const op_list *g, const op *o, const op *next) {
    if ((o->code != OP_LINEAR && o->code != OP_EXPERT_LINEAR) || o->args.linear.pieces != 1) return false;
    const weight *w = &g->weights->w[o->in[1].id];
    if (w->n_parts != 2 || w->part[0].n_rows != w->part[1].n_rows) return false;
    const tensor *y = &o->out[0], *gate = &next->in[0], *up = &next->in[1];
    return next->code == OP_SWIGLU && gate->where == STORAGE_TEMP && gate->id == y->id && gate->offset == y->offset &&
           up->where == STORAGE_TEMP && up->id == y->id && up->offset == y->offset + w->part[0].n_rows;
}

static void fuse_swiglu(op_list *g) {
    int n = 0;
    for (int i = 0; i < g->n_ops; i++) {
        op both = g->ops[i];
        if (i + 1 < g->n_ops && feeds_swiglu(g, &both, &g->ops[i + 1])) {
            both.args.linear.gated = true;
            both.out[0] = g->ops[++i].out[0];
        }
        g->ops[n++] = both;
    }
    g->n_ops = n;
}

static void fuse_add_norm(op_list *g) {
    int n = 0;
    for (int i = 0; i < g->n_ops; i++) {
        op *o = &g->ops[i], *next = o + 1;
        bool fuse =
            o->code == OP_ADD && i + 1 < g->n_ops && next->code == OP_RMS_NORM && same_view(&next->in[0], &o->out[0]);
        if (fuse) {
            op both = *next;
            both.code = OP_ADD_RMS_NORM;
            both.n_in = 3, both.n_out = 2;
            both.in[0] = o->in[0], both.in[1] = o->in[1], both.in[2] = next->in[1];
            both.out[0] = next->out[0], both.out[1] = o->out[0];
            i++;
            g->ops[n++] = both;
        } else {
            g->ops[n++] = *o;
        }
    }
    g->n_ops = n;
}

status passes_run(op_list *g, unsigned passes) {
    if (g->failed) return g->failed;
    if (passes & (PASS_MERGE_LINEAR | PASS_MERGE_GATED | PASS_MERGE_NORMED)) merge_linear(g, passes);
    if (!g->failed && (passes & PASS_FUSE_SWIGLU)) fuse_swiglu(g);
    if (!g->failed && (passes & PASS_FUSE_ADD_NORM)) fuse_add_norm(g);
    return g->failed;
}
