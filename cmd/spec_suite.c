// tally bench --spec-suite: a set of prompts, each answered without drafts and with them by the same engine.
//
// First an untimed answer of each kind, with log-probabilities, from a session of its own: ids, log-probabilities, and the logits
// computed behind the last token from the cache that the answer left must be equal to the last bit. Then timed pairs, the order
// alternating, whose ids must equal those of the first plain answer. What is timed is an answer's way from its first token to its last.
#include "cmd/spec_suite.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpuinfo.h"
#include "base/hash.h"
#include "cmd/bench.h"
#include "cmd/common.h"
#include "cmd/engines.h"
#include "cmd/request.h"
#include "cmd/spec_plain.h"
#include "cmd/speculation.h"

enum { DEFAULT_GEN = 256, BEST = 4, SPARE_POSITIONS = 192 }; // BEST: log-probabilities compared beside the chosen one's

static const char DEFAULT_SET[] = "bench/prompts/spec.txt";

typedef struct token_list {
    int32_t *ids; // owned (tally_free)
    size_t n;
} token_list;

typedef struct suite_state {
    const options *o;
    const char *spec;
    tally_spec_mode mode;
    int_list gens, threads, parallel;
    int max_parallel, context;
    bool terminal;
    spec_prompt_list prompts;
    tally_model *model;
    token_list *tokens; // owned [prompts.n]
    draft_engine draft;
    tally_engine *engine;
    tally_session **sessions;       // [max_parallel]
    tally_generation **generations; // [max_parallel]
    spec_answer (*answers)[N_ARMS]; // [max_parallel]: untimed
    spec_plain kept;
    suite_cell cell;
    json_t *json;
    int n_different, n_compared;
} suite_state;

static int interrupted(const suite_state *s) {
    if (s->terminal) fputs("\r\033[K", stderr);
    fail("interrupted");
    return EXIT_INTERRUPTED;
}

static void progress(const suite_state *s, int first, int pair, int arm) {
    if (!s->terminal) return;
    const spec_prompt *p = &s->prompts.items[first];
    char what[32] = "compared";
    if (pair >= 0) snprintf(what, sizeof what, "pair %d of %d", pair + 1, s->o->repetitions);
    fprintf(stderr, "\rthreads %d, parallel %d: prompt %d of %d (%s/%s), %s, %s\033[K", s->cell.threads,
            s->cell.parallel, first + 1, s->prompts.n, p->class_name, p->name, what,
            arm == ARM_PLAIN ? "plain" : s->spec);
}

// ---- answers ---------------------------------------------------------------------------------------------------------------

static int start_answer(suite_state *s, int prompt, int slot, int arm, bool timed) {
    const options *o = s->o;
    const suite_row *row = &s->cell.rows[prompt];
    tally_request r = request_from_options(o, NULL, (int64_t)row->seed);
    r.ids = s->tokens[prompt].ids;
    r.n_ids = (int)s->tokens[prompt].n;
    r.max_tokens = s->cell.n_gen;
    r.ignore_eos = !o->spec_stops;
    r.stops = &row->prompt->stop;
    r.n_stops = o->spec_stops && row->prompt->stop;
    r.logprobs = timed ? 0 : BEST;
    r.speculation = arm == ARM_PLAIN ? TALLY_SPEC_OFF : s->mode;
    r.session = timed ? NULL : s->sessions[slot];
    tally_error err;
    return tally_generate(s->engine, &r, &s->generations[slot], &err) == TALLY_OK ? 0 : fail_with(&err);
}

static void close_answers(suite_state *s) {
    for (int j = 0; j < s->max_parallel; j++) {
        tally_generation_close(s->generations[j]);
        tally_session_close(s->sessions[j]);
        s->generations[j] = NULL;
        s->sessions[j] = NULL;
    }
}

// Answers prompts first .. first + n - 1 at once; they stay open.
static int run_answers(suite_state *s, int first, int n, int arm, bool timed) {
    tally_error err;
    int rc = 0;
    for (int j = 0; j < n && !rc; j++) {
        if (!timed && tally_session_open(&s->sessions[j], s->engine, &err) != TALLY_OK) rc = fail_with(&err);
        if (!rc) rc = start_answer(s, first + j, j, arm, timed);
    }
    for (bool idle = false; !rc && !idle;) {
        if (interrupt_pending()) rc = interrupted(s);
        if (!rc && tally_engine_step(s->engine, &idle, &err) != TALLY_OK) rc = fail_with(&err);
    }
    for (int j = 0; j < n && !rc; j++) {
        if (tally_generation_status(s->generations[j], &err) == TALLY_OK) continue;
        const spec_prompt *p = &s->prompts.items[first + j];
        rc = fail("%s/%s, %s: %s", p->class_name, p->name, arm == ARM_PLAIN ? "plain" : s->spec, err.text);
    }
    return rc;
}

// The logits behind the answer's last token, of its own cache.
static int take_logits(suite_state *s, int slot, spec_answer *a) {
    tally_error err;
    const float *logits;
    if (tally_session_adopt(s->sessions[slot], s->generations[slot], &err) != TALLY_OK ||
        tally_session_logits(s->sessions[slot], &logits, &err) != TALLY_OK)
        return fail_with(&err);
    a->n_vocab = tally_model_n_vocab(s->model);
    a->logits = malloc((size_t)a->n_vocab * sizeof *a->logits);
    if (!a->logits) return fail("memory ran out for %d logits", a->n_vocab);
    memcpy(a->logits, logits, (size_t)a->n_vocab * sizeof *a->logits);
    return 0;
}

static void note_difference(suite_state *s, suite_row *row, const spec_answer *plain, const spec_answer *drafted,
                            const char *when) {
    spec_difference d = spec_answer_compare(plain, drafted);
    if (!d.what || row->difference.what) return;
    row->difference = d;
    if (s->terminal) fputs("\r\033[K", stderr);
    fail(
        "%s/%s differs with --spec %s (%d threads, parallel %d, %s): %s %d (from 0), token %d without drafts, %d with; "
        "the two best log-probabilities there are %g apart",
        row->prompt->class_name, row->prompt->name, s->spec, s->cell.threads, s->cell.parallel, when, d.what, d.at,
        (int)d.ids[0], (int)d.ids[1], d.gap);
}

static void note_counts(suite_row *row, const tally_generation *g, bool timed) {
    tally_spec_counts counts;
    tally_generation_spec_counts(g, &counts);
    if (timed && !row->has_counts) row->counts = (tally_spec_counts){0}, row->has_counts = true;
    speculation_add(&row->counts, &counts);
}

static spec_plain_key key_of(const suite_state *s, int prompt) {
    const token_list *t = &s->tokens[prompt];
    return (spec_plain_key){&s->prompts.items[prompt], hash_bytes(t->ids, t->n * sizeof *t->ids),
                            s->cell.rows[prompt].seed};
}

// Plain answers first .. first + n - 1 from the file, if it has all of them: *found.
static int find_answers(suite_state *s, int first, int n, bool *found) {
    *found = s->kept.path != NULL;
    for (int j = 0; j < n && *found; j++) {
        spec_plain_key key = key_of(s, first + j);
        int how = spec_plain_find(&s->kept, &key, &s->answers[j][ARM_PLAIN]);
        if (how < 0) return fail("memory ran out for an answer");
        *found = how > 0;
    }
    for (int j = 0; j < n && !*found; j++) spec_answer_deinit(&s->answers[j][ARM_PLAIN]);
    return 0;
}

// Answers that ended, from their generations.
static int take_answers(suite_state *s, int first, int n, int arm) {
    for (int j = 0; j < n; j++) {
        spec_answer *a = &s->answers[j][arm];
        if (!spec_answer_take(a, s->generations[j])) return fail("memory ran out for an answer");
        int rc = take_logits(s, j, a);
        if (rc) return rc;
        spec_plain_key key = key_of(s, first + j);
        if (arm == ARM_PLAIN && !spec_plain_add(&s->kept, &key, a)) return fail("memory ran out for an answer");
        if (arm == ARM_DRAFTED) note_counts(&s->cell.rows[first + j], s->generations[j], false);
    }
    return 0;
}

static int compare_answers(suite_state *s, int first, int n) {
    for (int arm = 0; arm < N_ARMS; arm++) {
        bool found = false;
        int rc = arm == ARM_PLAIN ? find_answers(s, first, n, &found) : 0;
        if (!rc && !found) {
            progress(s, first, -1, arm);
            rc = run_answers(s, first, n, arm, false);
            if (!rc) rc = take_answers(s, first, n, arm);
            close_answers(s);
        }
        if (rc) return rc;
        for (int j = 0; j < n; j++) {
            const spec_answer *a = &s->answers[j][arm];
            suite_row *row = &s->cell.rows[first + j];
            repetition_label(a->ids, a->n, row->label[arm]);
            if (arm == ARM_DRAFTED) {
                note_difference(s, row, &s->answers[j][ARM_PLAIN], a, "untimed");
            } else {
                row->n_tokens = a->n;
                row->ids_hash = hash_bytes(a->ids, (size_t)a->n * sizeof *a->ids);
            }
        }
    }
    return 0;
}

static int time_answers(suite_state *s, int first, int n, int pair, int arm) {
    progress(s, first, pair, arm);
    int rc = run_answers(s, first, n, arm, true);
    for (int j = 0; j < n && !rc; j++) {
        suite_row *row = &s->cell.rows[first + j];
        tally_timings t;
        tally_generation_timings(s->generations[j], &t);
        row->ms[arm][pair] = t.decode_ms;
        row->n_decode = t.n_decode;
        spec_answer a;
        char when[32];
        snprintf(when, sizeof when, "%s of pair %d", arm == ARM_PLAIN ? "plain" : "drafted", pair + 1);
        if (!spec_answer_take(&a, s->generations[j])) {
            rc = fail("memory ran out for an answer");
        } else {
            note_difference(s, row, &s->answers[j][ARM_PLAIN], &a, when);
        }
        spec_answer_deinit(&a);
        if (arm == ARM_DRAFTED) note_counts(row, s->generations[j], true);
    }
    close_answers(s);
    return rc;
}

static int run_group(suite_state *s, int first, int n) {
    int rc = compare_answers(s, first, n);
    for (int pair = 0; pair < s->o->repetitions && !rc; pair++) {
        for (int k = 0; k < N_ARMS && !rc; k++) rc = time_answers(s, first, n, pair, pair % 2 ? N_ARMS - 1 - k : k);
        for (int j = 0; j < n && !rc; j++) s->cell.rows[first + j].n_pairs = pair + 1;
    }
    for (int j = 0; j < n; j++) {
        for (int arm = 0; arm < N_ARMS; arm++) spec_answer_deinit(&s->answers[j][arm]);
    }
    return rc;
}

// ---- cells -----------------------------------------------------------------------------------------------------------------

static void free_cell(suite_cell *cell) {
    for (int i = 0; i < cell->n; i++) {
        for (int arm = 0; arm < N_ARMS; arm++) free(cell->rows[i].ms[arm]);
    }
    free(cell->rows);
    *cell = (suite_cell){0};
}

static int make_cell(suite_state *s, int threads, int parallel) {
    s->cell = (suite_cell){
        .threads = threads, .parallel = parallel, .n_gen = s->gens.v[0], .o = s->o, .spec = s->spec, .n = s->prompts.n};
    suite_row *rows = s->cell.rows = calloc((size_t)s->prompts.n, sizeof *rows);
    if (!rows) s->cell.n = 0;
    for (int i = 0; i < s->cell.n; i++) {
        rows[i].prompt = &s->prompts.items[i];
        rows[i].n_prompt = (int)s->tokens[i].n;
        rows[i].seed = (uint64_t)s->o->seed + (uint64_t)i;
        for (int arm = 0; arm < N_ARMS; arm++) {
            rows[i].ms[arm] = calloc((size_t)s->o->repetitions + 1, sizeof(double));
            if (!rows[i].ms[arm]) return fail("memory ran out for the times of %d prompts", s->prompts.n);
        }
    }
    return rows ? 0 : fail("memory ran out for %d prompts", s->prompts.n);
}

static int run_cell(suite_state *s, int threads, int parallel) {
    int rc = make_cell(s, threads, parallel);
    for (int i = 0; i < s->prompts.n && !rc; i += parallel) {
        rc = run_group(s, i, s->prompts.n - i < parallel ? s->prompts.n - i : parallel);
    }
    if (s->terminal && !rc) fputs("\r\033[K", stderr);
    if (!rc) rc = spec_plain_write(&s->kept);
    for (int i = 0; i < s->cell.n && !rc; i++) {
        s->n_compared++;
        s->n_different += s->cell.rows[i].difference.what != NULL;
    }
    if (!rc && s->json) suite_json(&s->cell, s->json);
    if (!rc && !s->json) suite_print(&s->cell);
    free_cell(&s->cell);
    return rc;
}

static int run_threads(suite_state *s, int threads) {
    options o = *s->o;
    o.threads = threads;
    o.context = s->context;
    o.parallel = s->max_parallel;
    o.cache_positions = (int64_t)s->max_parallel * (s->context + SPARE_POSITIONS);
    o.spec = s->spec;
    int rc = open_engine(s->model, &o, 0, &s->draft, &s->engine);
    for (int i = 0; i < s->parallel.n && !rc; i++) rc = run_cell(s, threads, s->parallel.v[i]);
    close_engine(s->engine);
    s->engine = NULL;
    close_draft(&s->draft);
    return rc;
}

// ---- the set ---------------------------------------------------------------------------------------------------------------

static int read_set(suite_state *s) {
    const char *path = s->o->spec_prompts ? s->o->spec_prompts : DEFAULT_SET;
    if (!s->o->spec_prompts && access(path, R_OK) != 0)
        return fail(
            "%s is not here: run this from the root of tally's repository, or name a set with --spec-prompts FILE",
            path);
    int rc = spec_prompts_read(path, &s->prompts);
    if (rc) return rc;
    if (!tally_model_has_tokenizer(s->model))
        return fail("%s has no tokenizer, and the prompts are texts", s->o->model);
    s->tokens = calloc((size_t)s->prompts.n, sizeof *s->tokens);
    if (!s->tokens) return fail("memory ran out for %d prompts", s->prompts.n);
    int most = tally_model_context_length(s->model), n_gen = s->gens.v[0];
    for (int i = 0; i < s->prompts.n; i++) {
        const spec_prompt *p = &s->prompts.items[i];
        token_list *t = &s->tokens[i];
        tally_error err;
        if (tally_tokenize(s->model, p->text, p->len, TALLY_ADD_SPECIAL, &t->ids, &t->n, &err) != TALLY_OK)
            return fail("%s/%s: %s", p->class_name, p->name, err.text);
        if (t->n == 0) return fail("%s/%s gives no tokens", p->class_name, p->name);
        size_t needs = t->n + (size_t)n_gen;
        if (needs > INT32_MAX / 2 || (most > 0 && needs > (size_t)most))
            return fail("%s/%s needs %zu positions with -n %d, and this model was made for %d; lower -n", p->class_name,
                        p->name, needs, n_gen, most);
        if (s->context < (int)needs) s->context = (int)needs;
    }
    return 0;
}

static int start(suite_state *s) {
    const options *o = s->o;
    s->spec = o->spec ? o->spec : "auto";
    s->mode = speculation_mode(s->spec);
    int rc = bench_list("-n", o->bench_gen, 1, 1 << 20, DEFAULT_GEN, &s->gens);
    if (!rc) rc = bench_list("-t", o->bench_threads, 1, 1024, 0, &s->threads);
    if (!rc) rc = bench_list("--parallel", o->bench_parallel, 1, 4096, 1, &s->parallel);
    if (!rc && s->gens.n > 1) rc = usage_error("--spec-suite takes one number with -n, not '%s'", o->bench_gen);
    if (rc) return rc;
    for (int i = 0; i < s->parallel.n; i++) {
        if (s->parallel.v[i] > s->max_parallel) s->max_parallel = s->parallel.v[i];
    }
    tally_error err;
    if (tally_model_open(&s->model, o->model, &err) != TALLY_OK) return fail_with(&err);
    rc = read_set(s);
    if (!rc) rc = spec_plain_open(&s->kept, o->spec_plain, o, s->gens.v[0]);
    if (rc) return rc;
    s->sessions = calloc((size_t)s->max_parallel, sizeof *s->sessions);
    s->generations = calloc((size_t)s->max_parallel, sizeof *s->generations);
    s->answers = calloc((size_t)s->max_parallel, sizeof *s->answers);
    if (!s->sessions || !s->generations || !s->answers) return fail("memory ran out for %d answers", s->max_parallel);
    if (o->bench_format && strcmp(o->bench_format, "json") == 0) {
        s->json = json_array();
        if (!s->json) return fail("memory ran out");
    }
    return 0;
}

static void end(suite_state *s) {
    for (int i = 0; s->tokens && i < s->prompts.n; i++) tally_free(s->tokens[i].ids);
    free(s->tokens);
    free(s->sessions);
    free(s->generations);
    free(s->answers);
    json_decref(s->json);
    spec_plain_close(&s->kept);
    spec_prompts_deinit(&s->prompts);
    tally_model_close(s->model);
}

int spec_suite_run(const options *o) {
    suite_state s = {.o = o, .terminal = is_terminal(STDERR_FILENO)};
    int rc = start(&s);
    for (int i = 0; i < s.threads.n && !rc; i++)
        rc = run_threads(&s, s.threads.v[i] ? s.threads.v[i] : cpu_physical_cores());
    if (!rc && s.json) {
        json_dumpf(s.json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        putchar('\n');
    }
    if (!rc && !s.json) {
        printf("%d of %d answers equal plain decoding in every id, log-probability and kept logit.\n",
               s.n_compared - s.n_different, s.n_compared);
    }
    if (!rc && s.n_different) rc = fail("%d of %d answers differ from plain decoding", s.n_different, s.n_compared);
    end(&s);
    return rc;
}
