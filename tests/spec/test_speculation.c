// Speculation in the engine: damaged drafts, the shadow check, sessions, the auto mode's choice, options, and what is counted.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "tests/support/sanitized.h"
#include "tests/support/spec_check.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { VOCAB = 300, N_PROMPT = 50, NEW = 80 };

static temp_folder folder;
static int32_t ids[N_PROMPT];

static const char *model_of(dtype type, bool moe) {
    const char *path = temp_folder_path(&folder, "model.gguf");
    tiny_random_gguf(path, type, moe, 5);
    return path;
}

static tally_request request(int max_tokens) {
    return (tally_request){.ids = ids, .n_ids = N_PROMPT, .max_tokens = max_tokens, .ignore_eos = true};
}

// ---- numbers that are not finite -----------------------------------------------------------------------------------------

// An engine whose embedding of token `bad` is NaN; the tensors are in memory of the test's own, changed before they are packed.
static test_engine open_damaged(const char *path, const tally_engine_options *options, int bad) {
    test_engine e;
    tally_error err;
    if (tally_model_open(&e.model, path, &err)) fail_msg("%s", err.text);
    assert_int_equal(checkpoint_load_tensors(e.model->ck, false, NULL), STATUS_OK);
    const checkpoint_tensor *t = checkpoint_find(e.model->ck, str_from("model.embed_tokens.weight"));
    assert_non_null(t);
    assert_int_equal(t->type, DTYPE_F32);
    ((float *)(uintptr_t)t->data)[256 * bad + 17] = NAN;
    tally_engine_options o = *options;
    o.no_mmap = true;
    if (tally_engine_open(&e.engine, e.model, &o, &err)) fail_msg("%s", err.text);
    return e;
}

static int32_t bad_token;
static int bad_every;

// Right, but for the damaged token in every so manieth place.
static bool propose_bad(spec_run *run, const spec_plain *t, int at, int max, draft *out) {
    bool more = spec_perfect(run, t, at, max, out);
    for (int i = 0; i < out->n; i++) {
        if ((at + i) % bad_every == 0) out->token[i] = bad_token;
    }
    return more;
}

// A wrong draft whose numbers are not finite is only a wrong draft.
static void test_damaged_drafts(void **state) {
    (void)state;
    const char *path = model_of(DTYPE_F32, false);
    tally_engine_options o = {.threads = 1, .context = 256, .cache_positions = 1024};
    spec_pair p = spec_pair_open(path, &o);
    tally_request r = request(NEW);
    spec_plain *t = spec_plain_run(&p, &r);
    bool used[VOCAB] = {false};
    for (int i = 0; i < t->n_prompt + t->n; i++) used[t->token[i]] = true;
    for (bad_token = 0; used[bad_token];) bad_token++;
    spec_plain_free(t);
    spec_pair_close(&p);
    o.speculation.mode = TALLY_SPEC_LOOKUP;
    p = (spec_pair){
        open_damaged(path, &(tally_engine_options){.threads = 1, .context = 256, .speculation.mode = TALLY_SPEC_OFF},
                     bad_token),
        open_damaged(path, &o, bad_token)};
    spec_pair_hook(&p);
    for (bad_every = 1; bad_every <= 5; bad_every += 2) {
        spec_run run = {.propose = propose_bad, .k = 6};
        spec_must_equal(&p, &run, &r);
        assert_true(run.counts.drafted > run.counts.accepted);
    }
    spec_run run = {.propose = spec_tree, .mode = TALLY_SPEC_TREE};
    spec_must_equal(&p, &run, &r);
    spec_pair_close(&p);
}

// A damaged token that plain decoding meets too: the same error at the same place, behind the same tokens.
static void test_damaged_path(void **state) {
    (void)state;
    const char *path = model_of(DTYPE_F32, false);
    tally_engine_options o = {.threads = 1, .context = 256, .cache_positions = 1024};
    spec_pair p = spec_pair_open(path, &o);
    tally_request r = request(NEW);
    int32_t sound[N_PROMPT + NEW];
    spec_plain *first = spec_plain_run(&p, &r);
    memcpy(sound, first->token, sizeof sound);
    spec_plain_free(first);
    spec_pair_close(&p);
    for (int at = 20; at < 27; at++) {
        int32_t bad = sound[N_PROMPT + at];
        bool before = false;
        for (int i = 0; i < N_PROMPT + at; i++) before |= sound[i] == bad;
        if (before) continue;
        p = (spec_pair){open_damaged(path, &o, bad), open_damaged(path, &o, bad)};
        spec_pair_hook(&p);
        spec_plain *t = spec_plain_run(&p, &r);
        assert_string_equal(t->reason, "error");
        assert_int_equal(t->n, at + 1);
        for (int k = 1; k <= 16; k += 5) {
            spec_run run = {.propose = spec_perfect, .k = k, .drops_cache = true};
            const char *what = spec_differs(&p, &run, &r, &t, 1);
            if (what) fail_msg("damaged token at %d, %d drafts: %s", at, k, what);
        }
        spec_plain_free(t);
        spec_pair_close(&p);
    }
}

// ---- the shadow check ----------------------------------------------------------------------------------------------------

static void test_shadow(void **state) {
    (void)state;
    const char *path = model_of(DTYPE_Q8_0, true);
    for (int every = 1; every <= 5; every += 2) {
        spec_pair p =
            spec_pair_open(path, &(tally_engine_options){.threads = 1, .context = 256, .speculation.shadow = every});
        tally_request r = request(NEW);
        spec_propose *const drafters[] = {spec_in_turn, spec_tree, spec_wrong};
        for (int d = 0; d < 3; d++) {
            spec_run run = {.propose = drafters[d], .seed = 3};
            spec_must_equal(&p, &run, &r);
            int due = run.counts.verify_steps / every;
            assert_in_range(run.counts.shadow_checks, due - 1, due);
        }
        spec_pair_close(&p);
    }
}

static const backend_vtable *sound_vt;

// A verify step whose rows are off by one unit in the last place in the least likely token: no token changes.
static status run_nudged(backend *b, const step_inputs *in, step_result *out, error *err) {
    status s = sound_vt->run(b, in, out, err);
    for (int i = 0; i < in->n_out && in->n_rows > 1 && in->n_out == in->n_rows; i++) {
        float *x = (float *)(uintptr_t)out->logits + i * VOCAB;
        int least = 0;
        for (int v = 0; v < VOCAB; v++) least = x[v] < x[least] ? v : least;
        x[least] = nextafterf(x[least], -INFINITY);
    }
    return s;
}

static void test_shadow_finds(void **state) {
    (void)state;
    const char *path = model_of(DTYPE_Q8_0, false);
    test_engine t = test_engine_open(
        path, &(tally_engine_options){.threads = 1, .context = 256, .speculation = {TALLY_SPEC_LOOKUP, .shadow = 2}});
    backend *b = t.engine->plan.device;
    sound_vt = b->vt;
    backend_vtable nudging = *b->vt;
    nudging.run = run_nudged;
    b->vt = &nudging;
    int32_t repeated[60];
    for (int i = 0; i < 60; i++) repeated[i] = 10 + i % 3;
    tally_request r = {.ids = repeated, .n_ids = 60, .max_tokens = 150, .ignore_eos = true};
    tally_generation *g;
    tally_error err;
    assert_int_equal(tally_generate(t.engine, &r, &g, &err), 0);
    while (!tally_generation_done(g)) assert_int_equal(tally_engine_step(t.engine, NULL, &err), 0);
    tally_spec_counts c;
    tally_generation_spec_counts(g, &c);
    assert_int_equal(c.shadow_checks, 1); // the first mismatch ends it
    assert_int_equal(tally_generation_status(g, &err), TALLY_INTERNAL);
    static const char *const parts[] = {"position ", "verify step 2", "accepted", "apart", "--spec off"};
    for (int i = 0; i < 5; i++) {
        if (!strstr(err.text, parts[i])) fail_msg("'%s' should contain '%s'", err.text, parts[i]);
    }
    print_message("# %s\n", err.text);
    tally_generation_close(g);
    assert_int_equal(test_blocks_in_use(t.engine), 0);
    b->vt = sound_vt;
    test_engine_close(&t);
}

// ---- sessions ------------------------------------------------------------------------------------------------------------

// A conversation whose turns draft: after every turn the session holds exactly what plain decoding's would.
static void test_sessions(void **state) {
    (void)state;
    const char *path = model_of(DTYPE_Q8_0, true);
    tally_engine_options o = {.threads = 1, .context = 1024, .speculation.mode = TALLY_SPEC_TREE};
    test_engine drafting = test_engine_open(path, &o);
    o.speculation.mode = TALLY_SPEC_OFF;
    test_engine plain = test_engine_open(path, &o);
    test_engine *both[2] = {&drafting, &plain};
    tally_session *s[2];
    tally_error err;
    int32_t text[1024];
    int n = 0;
    for (int i = 0; i < 2; i++) assert_int_equal(tally_session_open(&s[i], both[i]->engine, &err), 0);
    for (int turn = 0; turn < 8; turn++) {
        for (int i = 0; i < 20; i++) text[n++] = 50 + i % 4 + turn % 2;
        int32_t said[2][60];
        for (int i = 0; i < 2; i++) {
            tally_request r = {.ids = text, .n_ids = n, .max_tokens = 60, .ignore_eos = true, .session = s[i]};
            tally_generation *g;
            assert_int_equal(tally_generate(both[i]->engine, &r, &g, &err), 0);
            while (!tally_generation_done(g)) assert_int_equal(tally_engine_step(both[i]->engine, NULL, &err), 0);
            int n_new;
            memcpy(said[i], tally_generation_ids(g, &n_new), sizeof said[i]);
            assert_int_equal(n_new, 60);
            assert_int_equal(tally_session_adopt(s[i], g, &err), 0);
            tally_generation_close(g);
        }
        assert_memory_equal(said[0], said[1], sizeof said[0]);
        memcpy(text + n, said[0], sizeof said[0]);
        n += 60;
        const float *a, *b;
        assert_int_equal(tally_session_logits(s[0], &a, &err), 0);
        assert_int_equal(tally_session_logits(s[1], &b, &err), 0);
        assert_memory_equal(a, b, VOCAB * sizeof *a);
        assert_int_equal(test_blocks_in_use(drafting.engine), test_blocks_in_use(plain.engine));
    }
    for (int i = 0; i < 2; i++) tally_session_close(s[i]), test_engine_close(both[i]);
}

// ---- auto ----------------------------------------------------------------------------------------------------------------

// A clock of the test's own: what steps and drafts cost is said, not measured.
static uint64_t test_ns;
static double row_cost;
enum { STEP_NS = 3000000, DRAFT_NS = 300000 };

static uint64_t test_now(void) { return test_ns; }

static status run_priced(backend *b, const step_inputs *in, step_result *out, error *err) {
    test_ns += (uint64_t)(STEP_NS * (1 + row_cost * (in->n_rows - 1)));
    return sound_vt->run(b, in, out, err);
}

static status run_draft_priced(backend *b, const step_inputs *in, step_result *out, error *err) {
    test_ns += DRAFT_NS;
    return sound_vt->run(b, in, out, err);
}

static tally_spec_counts run_auto(const spec_pair *p, spec_propose *propose, double cost, int *steps) {
    backend *b = p->spec.engine->plan.device;
    sound_vt = b->vt;
    backend_vtable priced = *b->vt;
    priced.run = run_priced;
    b->vt = &priced;
    p->spec.engine->spec.now = test_now;
    row_cost = cost;
    tally_request r = request(150);
    spec_run run = {.propose = propose, .mode = TALLY_SPEC_AUTO, .no_cache_check = true};
    spec_must_equal(p, &run, &r);
    b->vt = sound_vt;
    *steps = run.cycles;
    return run.counts;
}

// Where rows are nearly free a drafter that is right pays and is used; where a row costs as much as a step it is not; one that is always
// wrong is soon left alone.
static void test_auto(void **state) {
    (void)state;
    tiny_model m = tiny_model_read("llama-gqa4");
    const char *path = temp_folder_path(&folder, "golden.gguf");
    assert_true(tiny_model_write_gguf(&m, path, DTYPE_F32));
    tiny_model_free(&m);
    for (int i = 0; i < N_PROMPT; i++) ids[i] = (int32_t)(hash_mix((uint64_t)i + 3) % 190);
    int steps;
    for (int i = 0; i < 3; i++) {
        spec_pair p = spec_pair_open(path, &(tally_engine_options){.threads = 1, .context = 256});
        static spec_propose *const drafters[] = {spec_perfect, spec_wrong, spec_perfect};
        static const double costs[] = {0.02, 0.3, 2};
        tally_spec_counts c = run_auto(&p, drafters[i], costs[i], &steps);
        print_message("# row cost %.2f: %d of %d drafts accepted, %d steps\n", costs[i], c.accepted, c.drafted, steps);
        if (i == 0) assert_true(steps < 75);
        if (i == 1) assert_true(c.drafted < 150);
        if (i == 2) assert_true(c.drafted < 75);
        spec_pair_close(&p);
    }
}

// A draft model that is right beside matches that never are gets the drafts, as soon as it has won what reading the prompt takes; one that
// cannot be paid in a short answer reads nothing.
static void test_auto_draft_model(void **state) {
    (void)state;
    const char *path = model_of(DTYPE_F32, false);
    test_engine d = test_engine_open(path, &(tally_engine_options){.threads = 1, .context = 512});
    tally_engine_options o = {.threads = 1, .context = 512, .draft = d.engine};
    spec_pair p = spec_pair_open(path, &o);
    backend *b = p.spec.engine->plan.device, *db = d.engine->plan.device;
    sound_vt = b->vt; // both are the processor's
    backend_vtable priced = *sound_vt, draft_priced = *sound_vt;
    priced.run = run_priced;
    draft_priced.run = run_draft_priced;
    b->vt = &priced;
    db->vt = &draft_priced;
    p.spec.engine->spec.now = test_now;
    row_cost = 0.02;
    p.spec.engine->model_seconds = DRAFT_NS * 1e-9; // the first guess is by bytes, and they are equally many
    for (int i = 0; i < N_PROMPT; i++) ids[i] = (int32_t)(hash_mix((uint64_t)i + 3) % VOCAB);
    int64_t before = 0;
    int accepted = 0;
    for (int i = 0; i < 3; i++) {
        tally_request r = request(i ? 200 : 16);
        if (i) p.spec.engine->reading_seconds = 1e-6; // of a random model a part says nothing of the whole
        spec_run run = {.propose = spec_wrong, .mode = TALLY_SPEC_AUTO, .no_cache_check = true};
        spec_must_equal(&p, &run, &r);
        tally_stats stats;
        tally_engine_stats(d.engine, &stats);
        print_message("# %d tokens: %d of %d drafts accepted, %d steps, the draft model computed %d rows\n",
                      r.max_tokens, run.counts.accepted, run.counts.drafted, run.cycles, (int)(stats.rows - before));
        assert_true(i || stats.rows == 0);
        accepted = run.counts.accepted;
        before = stats.rows;
    }
    assert_true(accepted >= 60);
    b->vt = db->vt = sound_vt;
    spec_pair_close(&p);
    test_engine_close(&d);
}

// ---- memory --------------------------------------------------------------------------------------------------------------

static int64_t allocated(void) {
    struct mallinfo2 m = mallinfo2();
    return (int64_t)m.uordblks + (int64_t)m.hblkhd;
}

// What the plan says drafters take is what opening requests takes.
static void test_planned_memory(void **state) {
    (void)state;
    enum { N = 6 };
    const char *path = model_of(DTYPE_F32, false);
    static const tally_speculation how[] = {{0}, {.mode = TALLY_SPEC_TREE, .lookup_min = 1, .lookup_max = 9}};
    for (int i = 0; i < 2; i++) {
        tally_engine_options o = {
            .threads = 1, .context = 1024, .sequences = N, .cache_positions = 64, .speculation = how[i]};
        test_engine e = test_engine_open(path, &o);
        tally_memory with, without, all;
        tally_generation *g[N];
        tally_error err;
        tally_engine_memory(e.engine, &with);
        int64_t before = allocated();
        for (int k = 0; k < N; k++) {
            tally_request r = request(5);
            assert_int_equal(tally_generate(e.engine, &r, &g[k], &err), 0);
        }
        int64_t lookups = allocated() - before;
        for (int k = 0; k < N; k++) tally_generation_close(g[k]);
        before = allocated();
        for (int k = 0; k < N; k++) {
            tally_request r = request(5);
            r.speculation = TALLY_SPEC_OFF;
            assert_int_equal(tally_generate(e.engine, &r, &g[k], &err), 0);
        }
        lookups -= allocated() - before;
        for (int k = 0; k < N; k++) tally_generation_close(g[k]);
        print_message("# planned for lookups: %d bytes, allocated %d\n", (int)with.drafting, (int)lookups);
        if (!SANITIZED) assert_in_range(lookups, with.drafting, with.drafting + N * 20000); // pages
        test_engine_close(&e);

        o.speculation = (tally_speculation){.mode = TALLY_SPEC_OFF};
        e = test_engine_open(path, &o);
        tally_engine_memory(e.engine, &without);
        assert_int_equal(without.drafting, 0);
        test_engine_close(&e);
        before = allocated();
        o.speculation = (tally_speculation){.mode = how[i].mode, .corpus = 5000, .shadow = 3};
        e = test_engine_open(path, &o);
        tally_engine_memory(e.engine, &all);
        assert_in_range(all.drafting, 5000 * 4 + VOCAB * 4, 2000000 + with.drafting);
        test_engine_close(&e);
    }
}

static void destroy_sevens(drafter *d) { free(d); }

static status propose_sevens(drafter *d, const int32_t *token, int n, int max_nodes, draft *out, error *err) {
    (void)d, (void)token, (void)n, (void)err;
    *out = (draft){.n = max_nodes};
    for (int i = 0; i < max_nodes; i++) out->token[i] = 7, out->parent[i] = (int8_t)(i - 1);
    return STATUS_OK;
}

static status make_sevens(void *ctx, drafter **out, error *err) {
    static const drafter_vtable vt = {.name = "sevens", .destroy = destroy_sevens, .propose = propose_sevens};
    (void)ctx, (void)err;
    *out = malloc(sizeof **out);
    assert_non_null(*out);
    (*out)->vt = &vt;
    return STATUS_OK;
}

// More sequences than 32 have rows with logits for drafts too.
static void test_logit_rows(void **state) {
    (void)state;
    enum { N = 40 };
    const char *path = model_of(DTYPE_F32, false);
    static const tally_spec_mode modes[] = {TALLY_SPEC_OFF, TALLY_SPEC_LOOKUP};

    for (int i = 0; i < 2; i++) {
        tally_engine_options o = {
            .threads = 1, .context = 128, .sequences = N, .cache_positions = N * 128, .speculation.mode = modes[i]};
        test_engine e = test_engine_open(path, &o);
        assert_int_equal(e.engine->logit_rows, i ? 3 * N : N);
        e.engine->spec.make_drafter = make_sevens;
        tally_generation *g[N];
        tally_error err;
        for (int k = 0; k < N; k++) {
            tally_request r = request(8);
            assert_int_equal(tally_generate(e.engine, &r, &g[k], &err), 0);
        }
        bool all = false; // a step of all of them
        for (bool idle = false; !idle && !all;) {
            assert_int_equal(tally_engine_step(e.engine, &idle, &err), 0);
            all = true;
            for (int k = 0; k < N; k++) all &= g[k]->seq.n_tokens > N_PROMPT;
        }
        assert_true(all);
        assert_int_equal(tally_engine_step(e.engine, NULL, &err), 0);
        int drafted = 0;
        for (int k = 0; k < N; k++) drafted += g[k]->spec.draft.n;
        assert_int_equal(drafted, i ? 2 * N : 0);
        for (int k = 0; k < N; k++) tally_generation_close(g[k]);
        test_engine_close(&e);
    }
}

// ---- a history that lies -------------------------------------------------------------------------------------------------

static drafter *lookup;

// Prompt lookup in a text of which every so manieth token is another.
static bool propose_polluted(spec_run *run, const spec_plain *t, int at, int max, draft *out) {
    static int32_t text[SPEC_TOKENS];
    (void)run;
    for (int i = 0; i < at; i++) text[i] = hash_mix((uint64_t)i) % 11 == 0 ? (t->token[i] + 1) % VOCAB : t->token[i];
    out->n = 0;
    return lookup->vt->propose(lookup, text, at, max, out, NULL) == STATUS_OK;
}

static void test_polluted_history(void **state) {
    (void)state;
    const char *path = model_of(DTYPE_F32, false);
    spec_pair p = spec_pair_open(path, &(tally_engine_options){.threads = 1, .context = 512});
    int32_t repeated[90];
    for (int i = 0; i < 90; i++) repeated[i] = 30 + i % 9;
    tally_request r = {.ids = repeated, .n_ids = 90, .max_tokens = 300, .ignore_eos = true};
    spec_run clean = {.k = 6}, polluted = {.propose = propose_polluted, .k = 6};
    spec_must_equal(&p, &clean, &r);
    lookup_options o = {1, 4, 512, false};
    assert_int_equal(draft_lookup_create(&lookup, &o, NULL, NULL), STATUS_OK);
    spec_must_equal(&p, &polluted, &r);
    lookup->vt->destroy(lookup);
    print_message("# %d drafts accepted, %d with a history that lies\n", clean.counts.accepted,
                  polluted.counts.accepted);
    assert_int_not_equal(clean.counts.accepted, polluted.counts.accepted);
    spec_pair_close(&p);
}

// ---- options -------------------------------------------------------------------------------------------------------------

static void test_options(void **state) {
    (void)state;
    const char *path = model_of(DTYPE_F32, false);
    static const struct {
        tally_speculation s;
        const char *part[2];
    } cases[] = {
        {{.draft_max = 17}, {"--draft-max", "17"}},
        {{.draft_max = -1}, {"--draft-max", "-1"}},
        {{.draft_min = -2}, {"--draft-min", "-2"}},
        {{.draft_max = 3, .draft_min = 4}, {"--draft-min", "4"}},
        {{.lookup_min = 6, .lookup_max = 5}, {"--lookup-min", "6"}},
        {{.lookup_max = 1000}, {"--lookup-max", "1000"}},
        {{.lookup_min = 20}, {"--lookup-min", "20"}},
        {{.corpus = -5}, {"--lookup-corpus", "-5"}},
        {{.shadow = -1}, {"--shadow", "-1"}},
        {{.mode = TALLY_SPEC_DRAFT}, {"--spec draft", "-md"}},
        {{.mode = (tally_spec_mode)9}, {"mode", "9"}},
    };
    tally_model *m;
    tally_error err;
    assert_int_equal(tally_model_open(&m, path, &err), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tally_engine *e = NULL;
        tally_engine_options o = {.threads = 1, .context = 64, .speculation = cases[i].s};
        assert_int_equal(tally_engine_open(&e, m, &o, &err), TALLY_BAD_ARGUMENT);
        assert_null(e);
        for (int p = 0; p < 2; p++) {
            if (!strstr(err.text, cases[i].part[p])) fail_msg("'%s' should contain '%s'", err.text, cases[i].part[p]);
        }
    }
    tally_engine *e;
    tally_generation *g;
    tally_engine_options off = {.threads = 1, .context = 64, .speculation.mode = TALLY_SPEC_OFF};
    assert_int_equal(speculation_bytes(&off, 64, 300), 0);
    off.speculation.corpus = 1000; // kept for requests with a mode of their own
    off.speculation.shadow = 1;
    assert_true(speculation_bytes(&off, 64, 300) > 1000 * (int64_t)sizeof(int32_t) + 300 * (int64_t)sizeof(float));
    assert_int_equal(tally_engine_open(&e, m, &(tally_engine_options){.threads = 1, .context = 64}, &err), 0);
    tally_request r = {.ids = ids, .n_ids = 3, .max_tokens = 5, .speculation = TALLY_SPEC_DRAFT};
    assert_int_equal(tally_generate(e, &r, &g, &err), TALLY_BAD_ARGUMENT);
    assert_null(g);
    r.speculation = (tally_spec_mode)-1;
    assert_int_equal(tally_generate(e, &r, &g, &err), TALLY_BAD_ARGUMENT);
    tally_engine_close(e);
    tally_model_close(m);
}

// Drafts that are fewer than asked for are not verified; the largest number is respected.
static void test_bounds(void **state) {
    (void)state;
    const char *path = model_of(DTYPE_F32, false);
    for (int least = 1; least <= 4; least += 3) {
        spec_pair p = spec_pair_open(
            path,
            &(tally_engine_options){.threads = 1, .context = 256, .speculation = {.draft_max = 5, .draft_min = least}});
        tally_request r = request(NEW);
        spec_run run = {.propose = spec_random, .k = 5, .seed = 7};
        spec_must_equal(&p, &run, &r);
        assert_true(run.counts.drafted >= least * run.counts.verify_steps &&
                    run.counts.drafted <= 5 * run.counts.verify_steps);
        if (least == 1)
            assert_true(run.counts.drafted < 4 * run.counts.verify_steps); // otherwise the other shows nothing
        spec_pair_close(&p);
    }
}

static int setup(void **state) {
    (void)state;
    folder = temp_folder_make();
    for (int i = 0; i < N_PROMPT; i++) ids[i] = (int32_t)(hash_mix((uint64_t)i + 3) % 290);
    return 0;
}
static int teardown(void **state) { return (void)state, temp_folder_remove(&folder), 0; }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged_drafts), cmocka_unit_test(test_damaged_path),
        cmocka_unit_test(test_shadow),         cmocka_unit_test(test_shadow_finds),
        cmocka_unit_test(test_sessions),       cmocka_unit_test(test_polluted_history),
        cmocka_unit_test(test_options),        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_auto),           cmocka_unit_test(test_auto_draft_model),
        cmocka_unit_test(test_planned_memory), cmocka_unit_test(test_logit_rows),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
