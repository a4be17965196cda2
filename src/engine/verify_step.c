// What becomes of the rows of a step: tokens are chosen along the path that the drafts agree with, accepted drafts join the cache.
#include <string.h>

#include "base/hash.h"
#include "engine/generation.h"

int32_t verify_step_choose(void *ctx, int row, bool *stop) {
    verify_step *v = ctx;
    struct tally_generation *g = v->g;
    tally_engine *e = g->engine;
    error fault;
    if (row > 0 && engine_row_fault(e, v->result->draft_row + row - 1, &fault)) {
        generation_fail(g, &fault);
        *stop = v->failed = true;
        return -1;
    }
    const row_best *best = v->result->best ? &v->result->best[row] : NULL;
    const float *logits = best && best->n ? NULL : v->result->logits + (int64_t)row * e->n_vocab;
    uint64_t at = (uint64_t)g->seq.n_tokens;
    int32_t id = logits ? sampler_choose(&g->sampling, logits, &g->history, at, &e->sampler)
                        : sampler_choose_best(&g->sampling, best->id, best->logit, at, &e->sampler);
    if (e->ranks) e->ranks->broadcast(e->ranks, &id, sizeof id);
    generation_accept(g, id, logits);
    *stop = g->finish != FINISH_NONE;
    return id;
}

// A step that an error ends emitted one token less than it asked for, so it counts as none of the verify steps.
static void count(speculation *s, const verify_result *r, bool failed) {
    if (s->draft.n == 0) return;
    s->counts.drafted += s->draft.n;
    s->counts.accepted += r->n_accepted;
    s->counts.emitted += r->n_emitted - failed;
    s->counts.verify_steps += !failed;
    s->since_shadow++;
}

static void keep_shadow_row(tally_engine *e, struct tally_generation *g, const part_result *r, const verify_result *v,
                            shadow_row *shadow) {
    bool due = e->shadow_logits && g->spec.since_shadow >= e->speculation.shadow;
    if (!due || shadow->g || g->spec.draft.n == 0) return;
    int row = v->n_accepted ? 1 + v->path[v->n_accepted - 1] : 0;
    memcpy(e->shadow_logits, r->logits + (int64_t)row * e->n_vocab, (size_t)e->n_vocab * sizeof *e->shadow_logits);
    *shadow = (shadow_row){g, g->seq.cache.length - 1, v->n_accepted};
    g->spec.since_shadow = 0;
}

void verify_step_finish(tally_engine *e, struct tally_generation *g, const part_result *r, shadow_row *shadow) {
    if (r->fault.code) {
        generation_fail(g, &r->fault);
        return;
    }
    if (!r->logits) return;
    verify_step ctx = {g, r, false};
    verify_result v = e->spec.walk(&g->spec.draft, e->spec.choose, &ctx);
    count(&g->spec, &v, ctx.failed);
    if (g->finish == FINISH_ERROR) return; // its cache is gone
    engine_commit_drafts(e, &g->seq, v.path, v.n_accepted);
    keep_shadow_row(e, g, r, &v, shadow);
}

// ---- the shadow check ----------------------------------------------------------------------------------------------------

static float best_gap(const float *logits, int n) {
    int best = sampler_argmax(logits, n), second = best == 0 ? 1 : 0;
    for (int i = 0; i < n; i++) {
        if (i != best && logits[i] > logits[second]) second = i;
    }
    return n > 1 ? logits[best] - logits[second] : 0;
}

static void fail_shadow(tally_engine *e, const shadow_row *shadow) {
    struct tally_generation *g = shadow->g;
    error why;
    error_set(
        &why, STATUS_INTERNAL,
        "the shadow check of position %d, verify step %d with %d drafts accepted, gives other logits alone; the two "
        "best of the verify step are %.9g apart; run with --spec off and report this",
        shadow->position, g->spec.counts.verify_steps, shadow->n_accepted,
        (double)best_gap(e->shadow_logits, e->n_vocab));
    generation_fail(g, &why);
}

void verify_step_shadow(tally_engine *e, const shadow_row *shadow) {
    struct tally_generation *g = shadow->g;
    if (!g || g->finish == FINISH_ERROR) return;
    sequence *s = &e->shadow;
    s->token = g->seq.token, s->n_tokens = shadow->position + 1;
    block_table_fork(&s->cache, &g->seq.cache);
    block_table_truncate(&s->cache, shadow->position);
    step_part part = {.seq = s, .n_rows = 1, .last_logits = true, .scratch = true};
    part_result r;
    if (block_table_reserve(&s->cache, 1) && !engine_run_parts(e, &part, 1, &r, NULL)) {
        g->spec.counts.shadow_checks++;
        if (r.fault.code || memcmp(r.logits, e->shadow_logits, (size_t)e->n_vocab * sizeof *r.logits) != 0)
            fail_shadow(e, shadow);
    }
    block_table_truncate(&s->cache, 0);
    s->token = NULL;
}

// ---- ranks ---------------------------------------------------------------------------------------------------------------

status verify_step_agree(tally_engine *e, struct tally_generation **owner, int n, error *err) {
    if (!e->ranks) return STATUS_OK;
    for (int i = 0; i < n; i++) {
        const sequence *s = &owner[i]->seq;
        int from = owner[i]->spec.n_agreed, n_new = s->n_tokens - from;
        e->rank_hash = hash_mix(e->rank_hash ^ hash_bytes(s->token + from, (size_t)n_new * sizeof *s->token));
        owner[i]->spec.n_agreed = s->n_tokens;
    }
    if (e->ranks->agree(e->ranks, e->rank_hash)) return STATUS_OK;
    return error_set(err, STATUS_INTERNAL, "rank %d committed other tokens than the others in step %lld",
                     e->ranks->rank, (long long)e->stats.steps);
}
