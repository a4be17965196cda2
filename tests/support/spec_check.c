#include "tests/support/spec_check.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

// The run that is under way: the engine's hooks know generations only.
static struct {
    spec_run *run;
    const spec_plain *const *plain;
    tally_generation *g[SPEC_REQUESTS];
    int n, n_made;
    uint64_t logits[SPEC_REQUESTS][SPEC_TOKENS];
    int place[SPEC_REQUESTS][SPEC_TOKENS]; // of a token in its cycle
    int was_length[SPEC_REQUESTS];
    char what[600];
} now;

static const char *differs(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static const char *differs(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    if (!now.what[0]) vsnprintf(now.what, sizeof now.what, fmt, args);
    va_end(args);
    return now.what;
}

static int which(const tally_generation *g) {
    int i = 0;
    while (i < now.n && now.g[i] != g) i++;
    assert_true(i < now.n);
    return i;
}

// ---- hooks ---------------------------------------------------------------------------------------------------------------

static int32_t recording_choose(void *ctx, int row, bool *stop) {
    const verify_step *v = ctx;
    int i = which(v->g), at = v->g->seq.n_tokens, n_vocab = v->g->engine->n_vocab;
    if (at < SPEC_TOKENS) {
        now.logits[i][at] = hash_bytes(v->result->logits + (int64_t)row * n_vocab, (size_t)n_vocab * sizeof(float));
        now.place[i][at] = row;
    }
    return (now.run->choose ? now.run->choose : verify_step_choose)(ctx, row, stop);
}

typedef struct test_drafter {
    drafter base;
    int request;
} test_drafter;

static void destroy(drafter *d) { free(d); }

static status propose(drafter *base, const int32_t *token, int n, int max_nodes, draft *out, error *err) {
    const spec_plain *truth = now.plain[((test_drafter *)base)->request];
    spec_run *run = now.run;
    if (max_nodes < 1 || max_nodes > DRAFT_MAX) differs("a drafter is asked for %d tokens", max_nodes);
    for (int i = 0; i < n; i++) {
        if (i < truth->n_prompt + truth->n && token[i] == truth->token[i]) continue;
        differs("the drafter's history of %d tokens holds %d at %d, which is not committed", n, token[i], i);
        break;
    }
    if (!run->propose(run, truth, n, max_nodes, out)) return error_set(err, STATUS_FULL, "the drafter gives up");
    run->last = *out;
    run->last_at = n;
    run->n_proposed++;
    return STATUS_OK;
}

static status make_drafter(void *ctx, drafter **out, error *err) {
    (void)ctx, (void)err;
    static const drafter_vtable vt = {.name = "test", .destroy = destroy, .propose = propose};
    test_drafter *d = malloc(sizeof *d);
    assert_non_null(d);
    *d = (test_drafter){{&vt}, now.n_made++};
    *out = &d->base;
    return STATUS_OK;
}

// ---- plain decoding --------------------------------------------------------------------------------------------------------

spec_pair spec_pair_open(const char *path, const tally_engine_options *o) {
    tally_engine_options off = *o;
    off.speculation.mode = TALLY_SPEC_OFF;
    off.cache_positions = 0;
    off.sequences = SPEC_REQUESTS;
    off.threads = 1;
    off.draft = NULL;
    tally_engine_options on = *o;
    if (!on.cache_positions) on.cache_positions = (o->context + KV_BLOCK - 1) / KV_BLOCK * KV_BLOCK + KV_BLOCK;
    spec_pair p = {.plain = test_engine_open(path, &off), .spec = test_engine_open(path, &on)};
    spec_pair_hook(&p);
    return p;
}

void spec_pair_hook(const spec_pair *p) { p->spec.engine->spec.choose = recording_choose; }

void spec_pair_close(spec_pair *p) {
    assert_int_equal(test_blocks_in_use(p->spec.engine), 0);
    test_engine_close(&p->plain);
    test_engine_close(&p->spec);
}

static float gap_of(const float *logits, int n) {
    int best = sampler_argmax(logits, n);
    float second = -1e30f;
    for (int i = 0; i < n; i++) {
        if (i != best && logits[i] > second) second = logits[i];
    }
    return logits[best] - second;
}

static spec_plain *plain_now;

static int32_t plain_choose(void *ctx, int row, bool *stop) {
    const verify_step *v = ctx;
    int at = v->g->seq.n_tokens, n_vocab = v->g->engine->n_vocab;
    const float *logits = v->result->logits + (int64_t)row * n_vocab;
    if (at < SPEC_TOKENS) {
        plain_now->logits[at] = hash_bytes(logits, (size_t)n_vocab * sizeof *logits);
        plain_now->gap[at] = gap_of(logits, n_vocab);
    }
    return verify_step_choose(ctx, row, stop);
}

static void copy_text(const tally_generation *g, char out[4096]) {
    size_t len;
    const char *text = tally_generation_text(g, &len);
    snprintf(out, 4096, "%.*s", (int)len, text ? text : "");
}

static void prefill(tally_engine *e, spec_plain *t) {
    error err;
    assert_int_equal(sequence_init(&t->cache, e, &err), STATUS_OK);
    assert_int_equal(sequence_append(e, &t->cache, t->token, t->n_prompt + t->n, &err), STATUS_OK);
    while (t->cache.cache.length < t->cache.n_tokens) {
        int rows = t->cache.n_tokens - t->cache.cache.length;
        if (rows > 64) rows = 64;
        if (rows > e->step_rows) rows = e->step_rows;
        part_result r;
        step_part part = {.seq = &t->cache, .n_rows = rows};
        assert_true(block_table_reserve(&t->cache.cache, rows));
        assert_int_equal(engine_run_parts(e, &part, 1, &r, &err), STATUS_OK);
        if (r.fault.code) break; // a damaged token: what comes before it can be compared
    }
}

spec_plain *spec_plain_run(const spec_pair *p, const tally_request *r) {
    tally_engine *e = p->plain.engine;
    spec_plain *t = calloc(1, sizeof *t);
    assert_non_null(t);
    plain_now = t;
    e->spec.choose = plain_choose;
    tally_generation *g;
    tally_error err;
    tally_request off = *r;
    off.speculation = TALLY_SPEC_OFF;
    if (tally_generate(e, &off, &g, &err)) fail_msg("%s", err.text);
    g->keeps_cache = true;
    while (!tally_generation_done(g)) assert_int_equal(tally_engine_step(e, NULL, &err), TALLY_OK);
    t->n_cached = g->seq.cache.length;
    const int32_t *ids = tally_generation_ids(g, &t->n);
    t->n_prompt = r->n_ids;
    assert_true(r->n_ids + t->n <= SPEC_TOKENS);
    memcpy(t->token, r->ids, (size_t)r->n_ids * sizeof *ids);
    if (t->n) memcpy(t->token + r->n_ids, ids, (size_t)t->n * sizeof *ids);
    snprintf(t->reason, sizeof t->reason, "%s", tally_generation_finish_reason(g));
    copy_text(g, t->text);
    tally_generation_close(g);
    prefill(e, t);
    return t;
}

void spec_plain_free(spec_plain *t) {
    sequence_deinit(&t->cache);
    free(t);
}

// ---- after every cycle -----------------------------------------------------------------------------------------------------

static void check_tokens(int i, const tally_generation *g) {
    const spec_plain *t = now.plain[i];
    int total = t->n_prompt + t->n;
    for (int at = t->n_prompt; at < g->seq.n_tokens; at++) {
        if (at < total && g->seq.token[at] == t->token[at] && now.logits[i][at] == t->logits[at]) continue;
        const char *of = at < total && g->seq.token[at] == t->token[at] ? "logits" : "token";
        differs("request %d: %s %d of cycle %d, place %d of the cycle (%d drafts accepted in all): %d, plain %d; the "
                "two best "
                "logits are %.9g apart",
                i, of, at - t->n_prompt, now.run->cycles, now.place[i][at], g->spec.counts.accepted, g->seq.token[at],
                at < total ? t->token[at] : -1, (double)t->gap[at < total ? at : total - 1]);
        return;
    }
}

static unsigned char *poisoned_block(tally_engine *e, int block, int from) {
    const backend_vtable *vt = e->plan.device->vt;
    unsigned char *bytes = malloc((size_t)vt->block_bytes(e->plan.device, &e->plan.model.cache));
    assert_non_null(bytes);
    int copy = block_pool_has(&e->blocks, 1) ? block_pool_take(&e->blocks) : -1;
    assert_true(copy >= 0);
    vt->block_copy(e->plan.device, copy, block);
    if (from < KV_BLOCK) vt->block_poison(e->plan.device, copy, from);
    vt->block_read(e->plan.device, copy, bytes);
    block_pool_give(&e->blocks, copy);
    return bytes;
}

// The blocks that this cycle wrote, against those of the text computed at once; then what lies beyond the length is poisoned.
static void check_cache(const spec_pair *p, int i, const tally_generation *g) {
    tally_engine *e = p->spec.engine;
    const block_table *t = &g->seq.cache;
    int first = now.was_length[i] / KV_BLOCK;
    if (t->length > now.plain[i]->cache.cache.length) return;
    size_t bytes = (size_t)e->plan.device->vt->block_bytes(e->plan.device, &e->plan.model.cache);
    for (int b = first; b < t->n_blocks; b++) {
        int beyond = t->length - b * KV_BLOCK;
        if (beyond > KV_BLOCK) beyond = KV_BLOCK;
        if (!block_pool_has(&e->blocks, 1)) return; // none to copy to; the next cycle looks again
        unsigned char *want = poisoned_block(p->plain.engine, now.plain[i]->cache.cache.block[b], beyond),
                      *got = poisoned_block(e, t->block[b], beyond);
        if (memcmp(want, got, bytes) != 0)
            differs("request %d: after cycle %d the cache of %d positions differs from a fresh prefill's in block %d",
                    i, now.run->cycles, t->length, b);
        if (beyond < KV_BLOCK && e->blocks.holders[t->block[b]] == 1)
            e->plan.device->vt->block_poison(e->plan.device, t->block[b], beyond);
        free(want);
        free(got);
    }
    now.was_length[i] = t->length;
}

static void check_lengths(int i, const tally_generation *g) {
    const block_table *t = &g->seq.cache;
    bool prompt = g->seq.n_tokens == g->n_prompt; // still, or no token behind it
    int want = g->seq.n_tokens - 1;
    // one that lost its cache may hold what was found of its prefix, and wait for the rest
    bool waits = g->last_served < g->engine->stats.steps && t->length < want && t->length % KV_BLOCK == 0;
    if (!prompt && !g->finish && t->n_blocks > 0 && t->length != want && !waits)
        differs("request %d: after cycle %d %d positions are cached of %d tokens", i, now.run->cycles, t->length,
                g->seq.n_tokens);
    if (t->n_blocks != (t->length + KV_BLOCK - 1) / KV_BLOCK)
        differs("request %d: after cycle %d %d blocks are held for %d positions", i, now.run->cycles, t->n_blocks,
                t->length);
}

static void check_memory(int i, const tally_generation *g) {
    if (!g->history.output) return;
    for (int v = 0; v < g->engine->n_vocab; v++) {
        int n = 0;
        for (int at = g->n_prompt; at < g->seq.n_tokens; at++) n += g->seq.token[at] == v;
        if (g->history.output[v] != n)
            differs("request %d: after cycle %d the sampler counts token %d %d times, the output has it %d times", i,
                    now.run->cycles, v, g->history.output[v], n);
    }
}

static void check_counts(int i, const tally_generation *g) {
    const tally_spec_counts *c = &g->spec.counts;
    if (c->emitted != c->accepted + c->verify_steps || c->accepted > c->drafted || c->drafted < c->verify_steps)
        differs("request %d: emitted %d, accepted %d of %d drafts in %d verify steps", i, c->emitted, c->accepted,
                c->drafted, c->verify_steps);
}

static void check_cycle(const spec_pair *p, int i) {
    const tally_generation *g = now.g[i];
    if (!g || g->finish == FINISH_ERROR) return;
    check_tokens(i, g);
    check_lengths(i, g);
    check_memory(i, g);
    check_counts(i, g);
    if (g->seq.cache.n_blocks == 0) now.was_length[i] = 0;
    if (!now.what[0] && !now.run->no_cache_check && g->seq.cache.n_blocks > 0) check_cache(p, i, g);
}

static void check_end(int i) {
    const tally_generation *g = now.g[i];
    const spec_plain *t = now.plain[i];
    char text[4096];
    copy_text(g, text);
    int n = g->seq.n_tokens - g->n_prompt;
    const char *reason = tally_generation_finish_reason(g);
    if (n != t->n) differs("request %d ends with %d tokens, plain with %d", i, n, t->n);
    if (strcmp(reason, t->reason) != 0)
        differs("request %d ends with \"%s\" (%s), plain with \"%s\"", i, reason, g->error.text, t->reason);
    if (strcmp(text, t->text) != 0) differs("request %d ends with other text", i);
    if (g->seq.cache.length != (now.run->drops_cache ? 0 : t->n_cached))
        differs("request %d ends with %d positions cached, plain with %d", i, g->seq.cache.length, t->n_cached);
}

static void add_counts(spec_run *run, const tally_generation *g) {
    tally_spec_counts c;
    tally_generation_spec_counts(g, &c);
    run->counts.drafted += c.drafted;
    run->counts.accepted += c.accepted;
    run->counts.emitted += c.emitted;
    run->counts.verify_steps += c.verify_steps;
    run->counts.shadow_checks += c.shadow_checks;
}

static void begin(const spec_pair *p, spec_run *run, const tally_request *r, spec_plain *const *plain, int n) {
    tally_engine *e = p->spec.engine;
    memset(&now, 0, sizeof now);
    run->counts = (tally_spec_counts){0};
    run->cycles = run->n_proposed = run->last_at = run->last.n = 0;
    now.run = run;
    now.plain = (const spec_plain *const *)plain;
    e->spec.make_drafter = run->propose ? make_drafter : NULL;
    e->spec.walk = run->walk ? run->walk : verify_walk;
    e->speculation.draft_max = run->k ? run->k : DRAFT_MAX;
    for (int i = 0; i < n; i++) {
        tally_request mine = r[i];
        tally_error err;
        now.n_made = i;
        mine.speculation = run->mode ? run->mode : TALLY_SPEC_LOOKUP;
        if (tally_generate(e, &mine, &now.g[now.n], &err)) fail_msg("%s", err.text);
        now.g[now.n]->keeps_cache = !run->drops_cache;
        now.n++;
    }
}

const char *spec_differs(const spec_pair *p, spec_run *run, const tally_request *r, spec_plain *const *plain, int n) {
    tally_engine *e = p->spec.engine;
    begin(p, run, r, plain, n);
    for (bool idle = false; !idle && !now.what[0];) {
        tally_error err;
        if (tally_engine_step(e, &idle, &err)) differs("the step fails: %s", err.text);
        for (int i = 0; i < n && !now.what[0]; i++) check_cycle(p, i);
        run->cycles++;
        if (run->cycles > 20000) differs("no end after %d cycles", run->cycles);
    }
    for (int i = 0; i < n; i++) {
        if (!now.what[0]) check_end(i);
        add_counts(run, now.g[i]);
        tally_generation_close(now.g[i]);
    }
    if (!now.what[0] && test_blocks_in_use(e) != 0) differs("%d blocks are still held", test_blocks_in_use(e));
    return now.what[0] ? now.what : NULL;
}

void spec_must_equal(const spec_pair *p, spec_run *run, const tally_request *r) {
    spec_plain *t = spec_plain_run(p, r);
    const char *what = spec_differs(p, run, r, &t, 1);
    if (what) fail_msg("%s", what);
    spec_plain_free(t);
}
