#include "op/plan.h"

#include <stdlib.h>

static status use_temp(op_list *g, const tensor *t, int at, bool writes, error *err) {
    if (t->where != STORAGE_TEMP) return STATUS_OK;
    op_temp *temp = &g->temps[t->id];
    if (temp->first < 0) {
        if (!writes) {
            return error_set(err, STATUS_INTERNAL, "operation %d (%s) reads temporary %d before anything wrote it", at,
                             g->ops[at].label, t->id);
        }
        temp->first = at;
    }
    temp->last = at;
    return STATUS_OK;
}

static status find_lifetimes(op_list *g, error *err) {
    for (int i = 0; i < g->n_temps; i++) g->temps[i].first = g->temps[i].last = -1;
    for (int i = 0; i < g->n_ops; i++) {
        const op *o = &g->ops[i];
        for (int j = 0; j < o->n_in; j++) TRY(use_temp(g, &o->in[j], i, false, err));
        for (int j = 0; j < o->n_out; j++) TRY(use_temp(g, &o->out[j], i, true, err));
    }
    return use_temp(g, &g->logits, g->n_ops - 1, false, err); // the result outlives the list
}

typedef struct placed {
    int id;
    int64_t bytes;
} placed;

static int larger_first(const void *a, const void *b) {
    const placed *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->id - y->id;
}

// The lowest offset at which `bytes` fit beside the already placed temporaries that live at the same time.
static int64_t first_fit(const op_list *g, const placed *done, int n_done, const op_temp *t, int64_t bytes) {
    int64_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < n_done; i++) {
            const op_temp *o = &g->temps[done[i].id];
            bool same_time = o->first <= t->last && t->first <= o->last;
            if (same_time && at < o->offset + done[i].bytes && o->offset < at + bytes) {
                at = o->offset + done[i].bytes;
                moved = true;
            }
        }
    }
    return at;
}

status plan_memory(op_list *g, int64_t max_rows, int64_t max_out, int64_t *bytes, error *err) {
    TRY(find_lifetimes(g, err));
    placed *order = arena_calloc(g->memory, (size_t)g->n_temps + 1, sizeof *order);
    if (!order) return error_no_memory(err, (unsigned long long)g->n_temps * sizeof *order);
    int n = 0;
    for (int i = 0; i < g->n_temps; i++) {
        const op_temp *t = &g->temps[i];
        if (t->first < 0) continue;
        int64_t rows = t->rows == ROWS_OUT ? max_out : max_rows;
        order[n++] = (placed){i, (rows * dtype_row_bytes(t->type, t->width) + 63) & ~(int64_t)63};
    }
    qsort(order, (size_t)n, sizeof *order, larger_first);
    *bytes = 0;
    for (int i = 0; i < n; i++) {
        op_temp *t = &g->temps[order[i].id];
        t->offset = first_fit(g, order, i, t, order[i].bytes);
        if (t->offset + order[i].bytes > *bytes) *bytes = t->offset + order[i].bytes;
    }
    return STATUS_OK;
}
