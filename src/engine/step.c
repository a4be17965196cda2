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

// Lays the parts out as rows.
static step_inputs build_inputs(tally_engine *e, const step_part *parts, int n_parts) {
    step_inputs in = {.n_seqs = n_parts,
                      .token = e->row_token,
                      .pos = e->row_pos,
                      .seq = e->row_seq,
                      .block_table = e->tables,
                      .out_row = e->out_row};
    for (int p = 0; p < n_parts; p++) {
        const sequence *s = parts[p].seq;
        assert(parts[p].n_rows > 0 && s->cache.length + parts[p].n_rows <= s->n_tokens);
        e->tables[p] = s->cache.block;
        for (int i = 0; i < parts[p].n_rows; i++) {
            int r = in.n_rows++, pos = s->cache.length + i;
            e->row_token[r] = s->token[pos];
            e->row_pos[r] = pos;
            e->row_seq[r] = p;
            bool wanted = parts[p].all_logits || (parts[p].last_logits && i == parts[p].n_rows - 1);
            if (wanted) e->out_row[in.n_out++] = r;
        }
    }
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

status engine_run_parts(tally_engine *e, const step_part *parts, int n_parts, part_result *results, error *err) {
    step_inputs in = build_inputs(e, parts, n_parts);
    step_result out;
    TRY(e->plan.device->vt->run(e->plan.device, &in, &out, err));
    e->stats.steps++;
    e->stats.rows += in.n_rows;
    int row = 0, wanted = 0;
    for (int p = 0; p < n_parts; p++) {
        int n_out = parts[p].all_logits ? parts[p].n_rows : parts[p].last_logits;
        results[p] = (part_result){.logits = n_out ? out.logits + (int64_t)wanted * e->n_vocab : NULL};
        for (int i = 0; i < parts[p].n_rows && !results[p].fault.code; i++) {
            if (out.fault[row + i] != STEP_OK) describe_fault(&results[p].fault, &out, row + i, e->row_pos[row + i]);
        }
        if (!results[p].fault.code) commit_rows(e, parts[p].seq, parts[p].n_rows);
        row += parts[p].n_rows;
        wanted += n_out;
    }
    return STATUS_OK;
}
