#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

status sequence_init(sequence *s, tally_engine *e, error *err) {
    *s = (sequence){0};
    s->token = malloc((size_t)e->context * sizeof *s->token);
    if (!s->token) return error_no_memory(err, (unsigned long long)e->context * sizeof *s->token);
    status st = block_table_init(&s->cache, &e->blocks, e->plan.device, e->context, err);
    if (st) sequence_deinit(s);
    return st;
}

void sequence_deinit(sequence *s) {
    block_table_deinit(&s->cache);
    free(s->token);
    *s = (sequence){0};
}

status sequence_append(const tally_engine *e, sequence *s, const int32_t *ids, int n, error *err) {
    if (n < 0) return error_set(err, STATUS_BAD_ARGUMENT, "the number of tokens is %d, it must be at least 0", n);
    if (n > e->context - s->n_tokens) {
        return error_set(err, STATUS_FULL,
                         "%d tokens behind %d do not fit a context of %d; raise -c (the model's maximum is %d)", n,
                         s->n_tokens, e->context, e->plan.model.config.context_length);
    }
    for (int i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= e->n_vocab) {
            return error_set(err, STATUS_BAD_ARGUMENT, "token %d at position %d: the model's ids are 0 to %d", ids[i],
                             s->n_tokens + i, e->n_vocab - 1);
        }
    }
    if (n > 0) memcpy(s->token + s->n_tokens, ids, (size_t)n * sizeof *ids);
    s->n_tokens += n;
    return STATUS_OK;
}

void sequence_adopt_prefix(tally_engine *e, sequence *s) {
    if (!e->reuse_prefixes || s->cache.n_blocks > 0) return;
    e->stats.reused_positions += prefix_index_adopt(&e->prefixes, &s->cache, s->token, s->n_tokens - 1);
}

static void commit_rows(tally_engine *e, sequence *s, int n) {
    int before = s->cache.length;
    block_table_commit(&s->cache, n);
    if (e->reuse_prefixes) prefix_index_add(&e->prefixes, &s->cache, s->token, before);
}

static int n_drafts(const step_part *p) { return p->draft ? p->draft->n : 0; }

// best: of the part; -1: the row is not wanted.
static void add_row(tally_engine *e, step_inputs *in, int seq, const int place[3], int best) {
    int r = in->n_rows++; // place: position, slot, parent
    e->row_seq[r] = seq;
    e->row_pos[r] = place[0], e->row_slot[r] = place[1], e->row_parent[r] = place[2];
    if (best < 0) return;
    e->out_best[in->n_out] = best;
    e->out_row[in->n_out++] = r;
}

static void add_part(tally_engine *e, step_inputs *in, const step_part *part, int seq) {
    const sequence *s = part->seq;
    assert(part->n_rows > 0 && s->cache.length + part->n_rows <= s->n_tokens);
    e->tables[seq] = s->cache.block;
    for (int i = 0; i < part->n_rows; i++) {
        int pos = s->cache.length + i;
        e->row_token[in->n_rows] = s->token[pos];
        bool wanted = part->all_logits || (part->last_logits && i == part->n_rows - 1);
        add_row(e, in, seq, (int[]){pos, pos, i ? in->n_rows - 1 : -1}, wanted ? part->best : -1);
    }
    int root = in->n_rows - 1, base = s->cache.length + part->n_rows;
    assert(n_drafts(part) == 0 || (part->last_logits && !part->all_logits && base == s->n_tokens));
    for (int i = 0; i < n_drafts(part); i++) {
        e->row_token[in->n_rows] = part->draft->token[i];
        int pos = base + draft_depth(part->draft, i) - 1;
        add_row(e, in, seq, (int[]){pos, base + i, root + 1 + part->draft->parent[i]}, part->best);
    }
}

// Lays the parts out as rows.
static step_inputs build_inputs(tally_engine *e, const step_part *parts, int n_parts) {
    step_inputs in = {.n_seqs = n_parts,
                      .token = e->row_token,
                      .pos = e->row_pos,
                      .seq = e->row_seq,
                      .block_table = e->tables,
                      .out_row = e->out_row,
                      .best = e->out_best};
    bool trees = false;
    for (int p = 0; p < n_parts; p++) {
        add_part(e, &in, &parts[p], p);
        trees |= n_drafts(&parts[p]) > 0 && !draft_is_chain(parts[p].draft);
    }
    if (trees) in.slot = e->row_slot, in.parent = e->row_parent;
    assert(in.n_rows <= e->step_rows && in.n_out <= e->logit_rows);
    return in;
}

static void describe_fault(error *err, const step_result *r, int row, int pos) {
    const char *label = r->fault_label[row] ? r->fault_label[row] : "?";
    if (r->fault[row] >= 0) {
        error_set(err, STATUS_NON_FINITE,
                  "the numbers of layer %d (%s) at position %d are not finite; a weight is damaged or overflows",
                  r->fault[row], label, pos);
    } else {
        error_set(err, STATUS_NON_FINITE,
                  "the numbers of %s at position %d are not finite; a weight is damaged or overflows", label, pos);
    }
}

bool engine_row_fault(const tally_engine *e, int row, error *out) {
    if (e->ran.fault[row] == STEP_OK) return false;
    describe_fault(out, &e->ran, row, e->row_pos[row]);
    return true;
}

status engine_run_parts(tally_engine *e, const step_part *parts, int n_parts, part_result *results, error *err) {
    step_inputs in = build_inputs(e, parts, n_parts);
    TRY(e->plan.device->vt->run(e->plan.device, &in, &e->ran, err));
    int row = 0, wanted = 0;
    for (int p = 0; p < n_parts; p++) {
        int n = n_drafts(&parts[p]), n_out = parts[p].all_logits ? parts[p].n_rows : parts[p].last_logits + n;
        part_result *r = &results[p];
        *r = (part_result){.logits = n_out ? e->ran.logits + (int64_t)wanted * e->n_vocab : NULL,
                           .best = e->ran.best ? e->ran.best + wanted : NULL,
                           .draft_row = row + parts[p].n_rows};
        for (; row < r->draft_row && !r->fault.code;) engine_row_fault(e, row++, &r->fault);
        if (!r->fault.code && !parts[p].scratch) commit_rows(e, parts[p].seq, parts[p].n_rows);
        row = r->draft_row + n;
        wanted += n_out;
    }
    if (n_parts == 1 && parts[0].scratch) return STATUS_OK;
    e->stats.steps++;
    e->stats.rows += in.n_rows;
    return STATUS_OK;
}

void engine_commit_drafts(tally_engine *e, sequence *s, const int8_t *path, int n) {
    int base = s->cache.length;
    for (int i = 0; i < n; i++) { // ascending: a place is never written before what lies there has moved
        int to = base + i, from = base + path[i];
        if (to == from) continue;
        e->plan.device->vt->position_copy(e->plan.device, (int[]){s->cache.block[to / KV_BLOCK], to % KV_BLOCK},
                                          (int[]){s->cache.block[from / KV_BLOCK], from % KV_BLOCK});
    }
    commit_rows(e, s, n);
    block_table_truncate(&s->cache, s->cache.length); // gives back what only drafts needed
}
