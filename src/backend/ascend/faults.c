// Rows whose numbers are not finite.
//
// They are found by 1/rms, which every norm gives: 0 of a row with an infinity, NaN of one with NaN. Attention multiplies the values of
// masked keys by zero, so a value that is NaN also reaches rows of its block that do not see it. Such a row is no fault of its own: the
// step is run again with the keys and values of the culprits kept out of the cache, until no other row is faulty.
#include <math.h>
#include <string.h>

#include "backend/ascend/internal.h"

// The operation that made what `reader` found not to be finite. Sums are traced to their newest summand: the rest was checked before.
static const op *maker(const op_list *g, const op *reader) {
    const tensor *t = &reader->in[reader->code == OP_ADD_RMS_NORM];
    for (const op *o = reader - 1; o >= g->ops; o--) {
        for (int i = 0; i < o->n_out && o->code != OP_ROPE; i++) {
            if (o->out[i].where != t->where || o->out[i].id != t->id) continue;
            if (o->code == OP_GATHER_ROWS) { // the same rows, fewer
                t = &o->in[0];
                break;
            }
            bool sum = o->code == OP_ADD || (o->code == OP_ADD_RMS_NORM && i == 1);
            if (!sum) return o;
            t = &o->in[1];
            break;
        }
    }
    return reader;
}

static void mark(ascend_backend *b, int row, int by) {
    const op *o = &b->list->ops[by], *from = b->norm_slot[by] >= 0 ? maker(b->list, o) : o;
    b->fault_op[row] = by;
    b->fault[row] = (int16_t)(from->layer < 0 ? STEP_FAULT_OUTSIDE : from->layer);
    b->fault_label[row] = from->label;
}

static bool find_faults(ascend_backend *b, const step_inputs *in) {
    const op_list *g = b->list;
    int64_t rows = (int64_t)b->rows.n_tiles * b->rows.tile, vocab = g->logits.dim[1];
    bool any = false;
    for (int r = 0; r < in->n_rows; r++) b->fault[r] = STEP_OK, b->fault_label[r] = NULL;
    for (int i = 0; i < g->n_ops; i++) {
        bool wanted = g->ops[i].in[0].rows == ROWS_OUT;
        for (int j = 0; b->norm_slot[i] >= 0 && j < (wanted ? in->n_out : in->n_rows); j++) {
            int r = wanted ? in->out_row[j] : j;
            float x = b->host_rstd[b->norm_slot[i] * rows + j];
            if ((x > 0 && isfinite(x)) || b->fault[r] != STEP_OK) continue;
            mark(b, r, i);
            any = true;
        }
    }
    for (int i = 0; i < in->n_out; i++) {
        bool finite = true; // as a row is whose largest logits were enough
        if (!b->selection.whole[i]) continue;
        for (int64_t j = 0; j < vocab && finite; j++) finite = isfinite(b->logits[i * vocab + j]);
        if (finite || b->fault[in->out_row[i]] != STEP_OK) continue;
        mark(b, in->out_row[i], g->n_ops - 1);
        any = true;
    }
    return any;
}

static int parent_of(const step_inputs *in, int r) {
    if (in->parent) return in->parent[r];
    return r > 0 && in->seq[r - 1] == in->seq[r] ? r - 1 : -1;
}

// The banned row that r is, or sees; -1: none.
static int banned_above(const ascend_backend *b, const step_inputs *in, int r) {
    while (r >= 0 && !b->banned[r]) r = parent_of(in, r);
    return r;
}

static bool is_fresh(const ascend_backend *b, const step_inputs *in, int r) {
    return b->fault[r] != STEP_OK && banned_above(b, in, r) < 0;
}

// Whether attention lies between a norm and the norm before it: then victims are found where the culprit is.
static bool behind_attention(const ascend_backend *b, int norm) {
    for (int i = norm - 1; i >= 0 && b->norm_slot[i] < 0; i--) {
        if (b->list->ops[i].code == OP_ATTENTION) return true;
    }
    return false;
}

// Bans, of one sequence's rows [from, to), those that were found first; where they and their victims are found at once only the last,
// which no row before it can have made faulty but by being seen.
static void ban_of(ascend_backend *b, const step_inputs *in, int from, int to, bool all) {
    int earliest = b->list->n_ops;
    for (int r = from; r < to; r++) {
        if (is_fresh(b, in, r) && b->fault_op[r] < earliest) earliest = b->fault_op[r];
    }
    if (earliest == b->list->n_ops) return;
    bool one = !all && behind_attention(b, earliest);
    for (int r = to - 1; r >= from; r--) {
        if (!is_fresh(b, in, r) || (!all && b->fault_op[r] != earliest)) continue;
        b->banned[r] = true;
        b->banned_by[r] = b->fault_op[r];
        if (one) break;
    }
}

static bool any_fresh(const ascend_backend *b, const step_inputs *in) {
    bool any = false;
    for (int r = 0; r < in->n_rows; r++) any |= is_fresh(b, in, r);
    return any;
}

status ascend_settle_faults(ascend_backend *b, const step_inputs *in, error *err) {
    enum {
        MOST_ROUNDS = 20
    }; // the drafts of a verify step, one by one; where more rows are faulty, all of them are meant
    if (!find_faults(b, in)) return STATUS_OK;
    for (int round = 1; any_fresh(b, in); round++) {
        for (int from = 0, to; from < in->n_rows; from = to) {
            for (to = from + 1; to < in->n_rows && in->seq[to] == in->seq[from];) to++;
            ban_of(b, in, from, to, round == MOST_ROUNDS);
        }
        if (ascend_cache_clear_rows(b, in)) return error_set(err, b->broken.code, "%s", b->broken.text);
        if (!any_fresh(b, in)) break;
        TRY(ascend_run_step(b, in, err));
        find_faults(b, in);
    }
    for (int r = 0; r < in->n_rows; r++) {
        int by = banned_above(b, in, r);
        if (by >= 0) mark(b, r, b->banned_by[by]);
    }
    return STATUS_OK;
}
