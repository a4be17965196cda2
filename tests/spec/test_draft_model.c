// A draft model: what it proposes depends on the history alone, whatever was proposed and rejected before; its vocabulary must be the
// target's; and whatever it does, even running out of cache, context or finite numbers, the output is that of plain decoding.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/draft_model.h"
#include "engine/generation.h"
#include "tests/support/eval.h"
#include "tests/support/script_model.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { VOCAB = 300, CONTEXT = 512, N_PROMPT = 40, MAX_TOKENS = 100 };

static temp_folder folder;
static char target_path[300], other_path[300];

static int setup(void **state) {
    (void)state;
    folder = temp_folder_make();
    snprintf(target_path, sizeof target_path, "%s/target.gguf", folder.path);
    snprintf(other_path, sizeof other_path, "%s/other.gguf", folder.path);
    tiny_random_gguf(target_path, DTYPE_Q8_0, false, 7);
    tiny_random_gguf(other_path, DTYPE_Q8_0, false, 8);
    return 0;
}

static int teardown(void **state) { return (void)state, temp_folder_remove(&folder), 0; }

static test_engine open_engine(const char *path, tally_engine *draft_engine, int context, int positions) {
    tally_engine_options o = {
        .threads = 1, .context = context, .cache_positions = positions, .logit_rows = 64, .draft = draft_engine};
    return test_engine_open(path, &o);
}

static test_engine open_draft(const char *path) { return open_engine(path, NULL, CONTEXT, 4 * CONTEXT); }

static void make_ids(int32_t *ids, int n, uint64_t seed) {
    for (int i = 0; i < n; i++) ids[i] = (int32_t)(hash_mix(seed * 1000 + (uint64_t)i) % VOCAB);
}

// ---- proposals -----------------------------------------------------------------------------------------------------------

static const tally_sampling greedy = {0};
static const tally_sampling sampled = {.temperature = 0.9f, .top_k = 50, .seed = 5};

static drafter *make(tally_engine *e, draft_model_options o) {
    drafter *d;
    error err;
    if (!o.n_vocab) o.n_vocab = VOCAB;
    if (!o.sampling) o.sampling = &greedy;
    if (draft_model_create(&d, e, &o, &err)) fail_msg("%s", err.text);
    return d;
}

static draft propose(drafter *d, const int32_t *token, int n, int max_nodes) {
    draft out;
    error err;
    if (d->vt->follow(d, token, n, 0, &err)) fail_msg("%s", err.text);
    if (d->vt->propose(d, token, n, max_nodes, &out, &err)) fail_msg("%s", err.text);
    assert_in_range(out.n, 0, max_nodes);
    assert_in_range(out.kind, DRAFT_MODEL, DRAFT_CLASSES - 1);
    return out;
}

// A history that grows by accepted drafts and others: every proposal is a fresh drafter's for the same history.
static void check_history(tally_engine *e, draft_model_options o) {
    int32_t token[CONTEXT];
    int n = N_PROMPT;
    make_ids(token, n, 1);
    drafter *d = make(e, o);
    for (int cycle = 0; cycle < 45; cycle++) {
        int max_nodes = 1 + (int)(hash_mix((uint64_t)cycle) % DRAFT_MAX);
        draft a = propose(d, token, n, max_nodes);
        drafter *fresh = make(e, o);
        draft b = propose(fresh, token, n, max_nodes);
        fresh->vt->destroy(fresh);
        assert_int_equal(a.n, max_nodes);
        assert_int_equal(b.n, max_nodes);
        assert_int_equal(a.kind, b.kind);
        assert_memory_equal(a.token, b.token, (size_t)a.n * sizeof *a.token);
        assert_memory_equal(a.parent, b.parent, (size_t)a.n);
        draft c = a;
        draft_clip(&c, DRAFT_MAX, DRAFT_MAX, VOCAB);
        assert_int_equal(c.n, a.n);   // nothing that cannot be verified
        if (cycle % 5 == 4) continue; // the same history once more
        int keep = (int)(hash_mix((uint64_t)cycle + 100) % (uint64_t)(a.n + 1)), at = -1;
        for (int i = 0; i < keep && (at = draft_child(&a, at, a.token[i])) >= 0; i++) token[n++] = a.token[at];
        token[n++] = (int32_t)(hash_mix((uint64_t)cycle + 200) % VOCAB);
    }
    assert_true(n > N_PROMPT + 32);
    d->vt->destroy(d);
    assert_int_equal(test_blocks_in_use(e), 0);
}

static void test_history_decides(void **state) {
    (void)state;
    test_engine e = open_draft(other_path);
    check_history(e.engine, (draft_model_options){0});
    check_history(e.engine, (draft_model_options){.sampling = &sampled});
    check_history(e.engine, (draft_model_options){.tree = true});
    test_engine_close(&e);
}

// One that was told to read the last part of a history says what follows that part alone, at the positions of the whole.
static void test_reads_a_part(void **state) {
    (void)state;
    enum { FROM = 30, N = 150 };
    test_engine e = open_draft(other_path);
    int32_t token[N];
    make_ids(token, N, 3);
    error err;
    drafter *d = make(e.engine, (draft_model_options){0}), *part = make(e.engine, (draft_model_options){0});
    drafter_window w = d->vt->window(d, token, N);
    assert_true(w.start == 0 && w.known == 0 && w.most == CONTEXT);
    assert_int_equal(d->vt->follow(d, token, N, N - FROM, &err), 0);
    w = d->vt->window(d, token, N);
    assert_true(w.start == N - FROM && w.known == N - 1);
    tally_stats stats;
    tally_engine_stats(e.engine, &stats);
    assert_int_equal(stats.rows, FROM - 1);
    for (int max = 1; max <= DRAFT_MAX; max += 5) { // it goes on from there
        draft a, b;
        assert_int_equal(d->vt->propose(d, token, N, max, &a, &err), 0);
        assert_int_equal(part->vt->propose(part, token + N - FROM, FROM, max, &b, &err), 0);
        assert_int_equal(a.n, max);
        assert_memory_equal(a.token, b.token, (size_t)max * sizeof *a.token);
    }
    assert_int_equal(d->vt->follow(d, token, N, 0, &err), 0); // and begins anew
    drafter *fresh = make(e.engine, (draft_model_options){0});
    draft a, b = propose(fresh, token, N, DRAFT_MAX);
    fresh->vt->destroy(fresh);
    assert_int_equal(d->vt->propose(d, token, N, DRAFT_MAX, &a, &err), 0);
    assert_memory_equal(a.token, b.token, sizeof a.token);
    assert_int_equal(d->vt->window(d, token, N).start, 0);
    part->vt->destroy(part);

    // Drawn with the random numbers of the whole's positions.
    drafter *all = make(e.engine, (draft_model_options){.sampling = &sampled});
    int differ = 0;
    for (int i = 0; i < 8; i++) {
        draft_model_options o = {.sampling = &sampled};
        drafter *q = make(e.engine, o);
        int32_t twice[2 * FROM];
        for (int k = 0; k < 2 * FROM; k++) twice[k] = token[k < FROM ? i : k]; // the first half is not read
        assert_int_equal(q->vt->follow(q, twice, 2 * FROM, FROM, &err), 0);
        assert_int_equal(q->vt->propose(q, twice, 2 * FROM, DRAFT_MAX, &a, &err), 0);
        assert_int_equal(all->vt->propose(all, token + FROM, FROM, DRAFT_MAX, &b, &err), 0);
        differ += memcmp(a.token, b.token, sizeof a.token) != 0; // other positions, other numbers
        q->vt->destroy(q);
    }
    assert_int_equal(differ, 8);
    all->vt->destroy(all);
    d->vt->destroy(d);
    test_engine_close(&e);
}

// What the draft model says is what it would generate.
static void test_drafts_are_the_models(void **state) {
    (void)state;
    test_engine e = open_draft(other_path);
    int32_t ids[N_PROMPT];
    make_ids(ids, N_PROMPT, 2);
    int n;
    int32_t *want = test_greedy(&e, ids, N_PROMPT, DRAFT_MAX, &n);
    drafter *d = make(e.engine, (draft_model_options){0});
    draft got = propose(d, ids, N_PROMPT, DRAFT_MAX);
    assert_int_equal(got.n, DRAFT_MAX);
    assert_memory_equal(got.token, want, sizeof got.token);
    assert_true(draft_is_chain(&got));
    got = propose(d, ids, 1, 1);
    assert_int_equal(got.n, 1);
    d->vt->destroy(d);
    free(want);
    test_engine_close(&e);
}

// Ids beyond the target's are not drafted, even if a bias asks for them or the history's counts end there.
static void test_smaller_target(void **state) {
    (void)state;
    test_engine e = open_draft(other_path);
    enum { FEW = 50 };
    int32_t ids[N_PROMPT], *counts = calloc(FEW, sizeof *counts);
    assert_non_null(counts);
    for (int i = 0; i < N_PROMPT; i++) ids[i] = i;
    tally_logit_bias bias[] = {{7, 1}, {FEW, 100}, {VOCAB + 5000, 100}};
    tally_sampling s = {.temperature = 1, .seed = 3, .logit_bias = bias, .n_logit_bias = 3, .presence_penalty = 0.5f};
    sampler_history history = {counts, counts};
    drafter *d =
        make(e.engine, (draft_model_options){.sampling = &s, .history = &history, .n_vocab = FEW, .tree = true});
    for (int n = 1; n <= N_PROMPT; n++) {
        draft got = propose(d, ids, n, DRAFT_MAX);
        for (int i = 0; i < got.n; i++) assert_in_range(got.token[i], 0, FEW - 1);
    }
    d->vt->destroy(d);
    free(counts);
    test_engine_close(&e);
}

// A neighbour of the likeliest token is the second likeliest, and every node has one as long as there is room: tiny models are unsure.
static void test_tree(void **state) {
    (void)state;
    test_engine e = open_draft(other_path);
    int32_t ids[N_PROMPT + 1];
    make_ids(ids, N_PROMPT, 3);
    drafter *d = make(e.engine, (draft_model_options){.tree = true});
    draft got = propose(d, ids, N_PROMPT, 7);
    static const int8_t parents[] = {-1, -1, 0, 0, 2, 2, 4};
    assert_int_equal(got.n, 7);
    assert_memory_equal(got.parent, parents, sizeof parents);
    tally_session *s;
    tally_error err;
    const float *logits;
    assert_int_equal(tally_session_open(&s, e.engine, &err), 0);
    for (int depth = 0; depth < 3; depth++) {
        int best = got.token[2 * depth], second = got.token[2 * depth + 1], above = 0;
        assert_int_equal(tally_session_sync(s, ids, N_PROMPT, &err), 0);
        for (int i = 0; i < depth; i++) { // the path so far
            float sink[(N_PROMPT + 8) * VOCAB];
            assert_int_equal(tally_session_eval(s, &got.token[2 * i], 1, 1, test_collect, sink, &err), 0);
        }
        assert_int_equal(tally_session_logits(s, &logits, &err), 0);
        for (int i = 0; i < VOCAB; i++) above += logits[i] > logits[second];
        assert_int_equal(above, 1);
        assert_true(logits[best] > logits[second]);
    }
    tally_session_close(s);
    d->vt->destroy(d);
    test_engine_close(&e);
}

// With stops_early a chain ends where it has probably gone wrong; a model that is sure of itself goes on.
static void test_stops_early(void **state) {
    (void)state;
    test_engine e = open_draft(other_path);
    int32_t ids[N_PROMPT];
    make_ids(ids, N_PROMPT, 4);
    drafter *d = make(e.engine, (draft_model_options){.stops_early = true});
    draft got = propose(d, ids, N_PROMPT, DRAFT_MAX);
    assert_int_equal(got.n, 1);
    assert_int_equal(got.kind, DRAFT_MODEL);
    d->vt->destroy(d);
    test_engine_close(&e);

    char path[300];
    snprintf(path, sizeof path, "%s/script.gguf", folder.path);
    static const char *const script[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    script_model_write(path, script, 8, NULL);
    e = test_engine_open(path, NULL);
    d = make(e.engine, (draft_model_options){.stops_early = true, .n_vocab = SCRIPT_VOCAB});
    got = propose(d, (int32_t[]){SCRIPT_START}, 1, 6);
    assert_int_equal(got.n, 6);
    for (int i = 0; i < 6; i++) assert_int_equal(got.token[i], 'a' + i);
    assert_int_equal(got.kind, DRAFT_CLASSES - 1);
    d->vt->destroy(d);
    test_engine_close(&e);
}

// Proposals made together are those made one by one, in as few steps as the longest takes, whatever the others are and however few rows
// a step holds; one that fails leaves the others alone.
static void check_together(tally_engine *e, int64_t most_steps) {
    enum { N = DRAFTER_TOGETHER, FAILS = 5, TOO_LONG = 9 };
    int32_t token[N][CONTEXT + 1];
    draft alone[N], got[N];
    error err[N];
    drafter_request r[N];
    for (int i = 0; i < N; i++) {
        int n = i == TOO_LONG ? CONTEXT + 1 : 1 + 3 * i;
        make_ids(token[i], n, (uint64_t)i);
        draft_model_options o = {.sampling = i % 3 ? &sampled : &greedy, .tree = i % 4 == 3};
        int most = 1 + (7 * i + 10) % DRAFT_MAX;
        drafter *d = make(e, o);
        alone[i].n = 0;
        if (i != TOO_LONG) alone[i] = propose(d, token[i], n, most);
        d->vt->destroy(d);
        if (i == FAILS) token[i][2] = VOCAB;
        r[i] = (drafter_request){
            .d = make(e, o), .token = token[i], .n = n, .max_nodes = most, .out = &got[i], .err = &err[i]};
    }
    tally_stats before, after;
    tally_engine_stats(e, &before);
    r[0].d->vt->propose_together(r, N);
    tally_engine_stats(e, &after);
    assert_true(after.steps - before.steps <= most_steps);
    for (int i = 0; i < N; i++) {
        r[i].d->vt->destroy(r[i].d);
        assert_int_equal(r[i].result, i == FAILS ? STATUS_BAD_ARGUMENT : STATUS_OK);
        if (i == FAILS && !strstr(err[i].text, "token 300 at position 2")) fail_msg("%s", err[i].text);
        assert_int_equal(got[i].n, i == FAILS ? 0 : alone[i].n);
        if (got[i].n == 0) continue;
        assert_int_equal(got[i].kind, alone[i].kind);
        assert_memory_equal(got[i].token, alone[i].token, (size_t)got[i].n * sizeof *got[i].token);
        assert_memory_equal(got[i].parent, alone[i].parent, (size_t)got[i].n);
    }
    assert_int_equal(test_blocks_in_use(e), 0);
}

static void test_together(void **state) {
    (void)state;
    tally_engine_options o = {
        .threads = 1, .context = CONTEXT, .cache_positions = 4 * CONTEXT, .logit_rows = 64, .no_prefix_reuse = true};
    test_engine e = test_engine_open(other_path, &o);
    check_together(e.engine, DRAFT_MAX + 1); // 316 rows of prompts are more than a step's
    test_engine_close(&e);
    o.step_rows = 20, o.logit_rows = 3;
    e = test_engine_open(other_path, &o);
    check_together(e.engine, 200);
    test_engine_close(&e);
}

// ---- vocabularies --------------------------------------------------------------------------------------------------------

static void expect_refusal(tally_model *target, tally_engine *draft_engine, const char *part) {
    tally_engine *e;
    tally_error err;
    tally_engine_options o = {.threads = 1, .context = CONTEXT, .draft = draft_engine};
    assert_int_equal(tally_engine_open(&e, target, &o, &err), TALLY_BAD_ARGUMENT);
    if (!strstr(err.text, part)) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
}

static void test_vocabulary(void **state) {
    (void)state;
    char text[300], same[300], script[300], longer[300];
    snprintf(text, sizeof text, "%s/text.gguf", folder.path);
    snprintf(same, sizeof same, "%s/same.gguf", folder.path);
    snprintf(script, sizeof script, "%s/script2.gguf", folder.path);
    snprintf(longer, sizeof longer, "%s/script3.gguf", folder.path);
    tiny_text_gguf(text, DTYPE_Q8_0, 1, "x");
    tiny_text_gguf(same, DTYPE_Q4_0, 2, "y");
    static const char *const words[] = {"word", "other", "third"};
    script_model_write(script, words, 2, NULL);
    script_model_write(longer, words, 3, NULL); // one token more is defined
    test_engine a = open_draft(text);
    test_engine b = open_engine(same, a.engine, CONTEXT, 0);
    test_engine_close(&b);
    test_engine c = test_engine_open(script, NULL);
    expect_refusal(a.model, c.engine, "token 256 is \"<eos>\" there and \"<|im_start|>\" in the model");
    tally_engine_options o = {.threads = 1, .draft = c.engine};
    test_engine d = test_engine_open(longer, &o);
    test_engine_close(&d);
    o.draft = NULL;
    static const char *const others[] = {"word", "\t\xc3\xa4\\"};
    script_model_write(longer, others, 2, NULL);
    d = test_engine_open(longer, NULL);
    expect_refusal(c.model, d.engine, "token 260 is \"\\x09\\xc3\\xa4\\x5c\" there and \"other\" in the model");
    test_engine_close(&d);

    test_engine plain = open_draft(target_path); // without a tokenizer, with 300 ids
    expect_refusal(c.model, plain.engine, "300 ids and the model 320");
    test_engine e = open_engine(text, plain.engine, CONTEXT, 0);
    test_engine_close(&e);
    test_engine_close(&plain);
    test_engine_close(&c);
    test_engine_close(&a);
}

// ---- whole generations ---------------------------------------------------------------------------------------------------

typedef struct outcome {
    int32_t id[MAX_TOKENS];
    int n;
    tally_spec_counts counts;
} outcome;

static void collect(tally_generation *g, outcome *o) {
    tally_error err;
    if (tally_generation_status(g, &err)) fail_msg("%s", err.text);
    const int32_t *ids = tally_generation_ids(g, &o->n);
    memcpy(o->id, ids, (size_t)o->n * sizeof *ids);
    tally_generation_spec_counts(g, &o->counts);
    assert_int_equal(o->counts.emitted, o->counts.accepted + o->counts.verify_steps);
    tally_generation_close(g);
}

static tally_generation *start(const test_engine *e, tally_spec_mode mode, const tally_sampling *s, uint64_t prompt) {
    int32_t ids[N_PROMPT];
    make_ids(ids, N_PROMPT, prompt);
    tally_request r = {.ids = ids,
                       .n_ids = N_PROMPT,
                       .max_tokens = MAX_TOKENS,
                       .ignore_eos = true,
                       .sampling = *s,
                       .speculation = mode};
    tally_generation *g;
    tally_error err;
    if (tally_generate(e->engine, &r, &g, &err)) fail_msg("%s", err.text);
    return g;
}

static void run_to_end(const test_engine *e, tally_generation *g) {
    tally_error err;
    while (!tally_generation_done(g)) {
        if (tally_engine_step(e->engine, NULL, &err)) fail_msg("%s", err.text);
    }
}

static outcome generate(const test_engine *e, tally_spec_mode mode, const tally_sampling *s, uint64_t prompt) {
    outcome o;
    tally_generation *g = start(e, mode, s, prompt);
    run_to_end(e, g);
    collect(g, &o);
    return o;
}

static void same_output(const outcome *a, const outcome *b) {
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        if (a->id[i] != b->id[i]) fail_msg("token %d is %d with drafts and %d without", i, a->id[i], b->id[i]);
    }
}

static void test_perfect(void **state) {
    (void)state;
    test_engine d = open_draft(target_path), e = open_engine(target_path, d.engine, CONTEXT, 0);
    tally_stats stats;
    int64_t rows = 0;
    for (int k = 0; k < 2; k++) {
        const tally_sampling *s = k ? &sampled : &greedy;
        outcome plain = generate(&e, TALLY_SPEC_OFF, s, 5), drafted = generate(&e, TALLY_SPEC_DRAFT, s, 5);
        same_output(&drafted, &plain);
        assert_int_equal(plain.counts.drafted, 0);
        assert_int_equal(drafted.counts.accepted, drafted.counts.drafted);
        tally_engine_stats(d.engine, &stats); // every token of the history computed once
        assert_in_range(stats.rows - rows, MAX_TOKENS - 1, N_PROMPT + MAX_TOKENS);
        rows = stats.rows;
        assert_int_equal(drafted.counts.verify_steps, (MAX_TOKENS - 1 + DRAFT_MAX) / (DRAFT_MAX + 1));
    }
    test_engine_close(&e);
    assert_int_equal(test_blocks_in_use(d.engine), 0);
    test_engine_close(&d);
}

static void test_other_mind(void **state) {
    (void)state;
    static const tally_logit_bias bias[] = {{3, 2.5f}, {77, -INFINITY}};
    static const tally_sampling all[] = {
        {0},
        {.temperature = 0.9f, .top_k = 50, .seed = 5},
        {.temperature = 0.3f, .seed = 6, .repeat_penalty = 1.3f, .frequency_penalty = 0.4f},
        {.temperature = 0, .presence_penalty = 2},
        {.temperature = 1, .top_p = 0.9f, .seed = 9, .logit_bias = bias, .n_logit_bias = 2}};
    static const tally_spec_mode modes[] = {TALLY_SPEC_DRAFT, TALLY_SPEC_TREE, TALLY_SPEC_AUTO};
    test_engine d = open_draft(other_path), e = open_engine(target_path, d.engine, CONTEXT, 0);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        outcome plain = generate(&e, TALLY_SPEC_OFF, &all[k], k);
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
            outcome drafted = generate(&e, modes[m], &all[k], k);
            same_output(&drafted, &plain);
            if (modes[m] == TALLY_SPEC_DRAFT) assert_in_range(drafted.counts.accepted, 0, drafted.counts.drafted - 1);
        }
    }
    test_engine_close(&e);
    test_engine_close(&d);
}

static void test_side_by_side(void **state) {
    (void)state;
    enum { N = 3 };
    test_engine d = open_draft(other_path), e = open_engine(target_path, d.engine, CONTEXT, 4 * CONTEXT);
    tally_generation *g[N];
    outcome plain[N], drafted[N];
    for (int i = 0; i < N; i++) plain[i] = generate(&e, TALLY_SPEC_OFF, i ? &sampled : &greedy, (uint64_t)i);
    for (int i = 0; i < N; i++)
        g[i] = start(&e, i == 1 ? TALLY_SPEC_TREE : TALLY_SPEC_DRAFT, i ? &sampled : &greedy, (uint64_t)i);
    tally_stats before, after;
    tally_engine_stats(d.engine, &before);
    int64_t n_drafted = 0;
    for (int i = 0; i < N; i++) run_to_end(&e, g[i]);
    tally_engine_stats(d.engine, &after);
    for (int i = 0; i < N; i++) {
        collect(g[i], &drafted[i]);
        same_output(&drafted[i], &plain[i]);
        assert_true(drafted[i].counts.drafted > 0);
        n_drafted += drafted[i].counts.drafted;
    }
    assert_true(after.steps - before.steps < n_drafted / 2); // most hold drafts for all three
    test_engine_close(&e);
    test_engine_close(&d);
}

// ---- what a draft engine may run out of ------------------------------------------------------------------------------------

static void check_ended(test_engine *d, int least, int most) {
    test_engine e = open_engine(target_path, d->engine, CONTEXT, 0);
    outcome plain = generate(&e, TALLY_SPEC_OFF, &greedy, 5), drafted = generate(&e, TALLY_SPEC_DRAFT, &greedy, 5);
    same_output(&drafted, &plain);
    assert_in_range(drafted.counts.drafted, least, most);
    test_engine_close(&e);
    assert_int_equal(test_blocks_in_use(d->engine), 0);
    test_engine_close(d);
}

static void test_no_cache(void **state) {
    (void)state;
    test_engine d = open_engine(target_path, NULL, CONTEXT, 64); // the prompt and 24 tokens
    check_ended(&d, 17, 40);
    d = open_engine(target_path, NULL, CONTEXT, 64);
    tally_session *s; // somebody holds the only block
    tally_error err;
    assert_int_equal(tally_session_open(&s, d.engine, &err), 0);
    assert_int_equal(tally_session_sync(s, (int32_t[]){1}, 1, &err), 0);
    test_engine e = open_engine(target_path, d.engine, CONTEXT, 0);
    outcome plain = generate(&e, TALLY_SPEC_OFF, &greedy, 5), drafted = generate(&e, TALLY_SPEC_DRAFT, &greedy, 5);
    same_output(&drafted, &plain);
    assert_int_equal(drafted.counts.drafted, 0);
    test_engine_close(&e);
    tally_session_close(s);
    test_engine_close(&d);
}

static void test_short_context(void **state) {
    (void)state;
    test_engine d = open_engine(target_path, NULL, 64, 256);
    check_ended(&d, 17, 40);
    d = open_engine(target_path, NULL, N_PROMPT, 256);
    check_ended(&d, 0, 0);
    d = open_engine(target_path, NULL, N_PROMPT + 2, 256); // a draft at its last position
    check_ended(&d, 2, 4);
}

static void test_not_finite(void **state) {
    (void)state;
    test_engine d = open_draft(target_path), e = open_engine(target_path, d.engine, CONTEXT, 0);
    outcome plain = generate(&e, TALLY_SPEC_OFF, &greedy, 5), drafted;
    tally_generation *g = start(&e, TALLY_SPEC_DRAFT, &greedy, 5);
    tally_error err;
    for (int i = 0; i < 3; i++) assert_int_equal(tally_engine_step(e.engine, NULL, &err), 0);
    backend *device = d.engine->plan.device;
    for (int b = 0; b < d.engine->blocks.n_blocks; b++) device->vt->block_poison(device, b, 0);
    run_to_end(&e, g);
    collect(g, &drafted);
    same_output(&drafted, &plain);
    assert_int_equal(drafted.counts.drafted, 3 * DRAFT_MAX);
    test_engine_close(&e);
    test_engine_close(&d);
}

static void test_mode_without_model(void **state) {
    (void)state;
    tally_model *m;
    tally_engine *e;
    tally_error err;
    tally_engine_options o = {.threads = 1, .context = CONTEXT, .speculation.mode = TALLY_SPEC_DRAFT};
    assert_int_equal(tally_model_open(&m, target_path, &err), 0);
    assert_int_equal(tally_engine_open(&e, m, &o, &err), TALLY_BAD_ARGUMENT);
    tally_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_history_decides),
        cmocka_unit_test(test_reads_a_part),
        cmocka_unit_test(test_drafts_are_the_models),
        cmocka_unit_test(test_smaller_target),
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_stops_early),
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_vocabulary),
        cmocka_unit_test(test_perfect),
        cmocka_unit_test(test_other_mind),
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_no_cache),
        cmocka_unit_test(test_short_context),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_mode_without_model),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
