// tally bench: speeds, each beside what it is worth: the share of the memory bandwidth, whether the ids are right, and whether the
// text repeats itself.
//
// First a plain engine (one thread, one sequence, no merged operations, no scheduler) decodes every sequence greedily; then an
// engine for each number of threads is timed, and every id it gives is compared with those. Sequences begin differently, so that
// none shares what another has in the cache; a session of its own holds each sequence's depth before the clock starts.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpuinfo.h"
#include "cmd/bench.h"
#include "cmd/commands.h"
#include "cmd/common.h"
#include "cmd/engines.h"
#include "cmd/speculation.h"
#include "cmd/spec_suite.h"

enum { SPARE_POSITIONS = 192, DEFAULT_STEP_ROWS = 512 }; // spare: partial blocks of a session and of its generation

typedef struct bench_state {
    const options *o;
    int_list prompts, gens, depths, threads, parallel;
    int context, max_parallel, max_gen;
    bool terminal;
    tally_model *model;
    draft_engine draft;
    tally_engine *engine;
    int32_t *text; // [max_parallel][context]: the tokens of each sequence
    // greedy ids: [max_parallel][depth][prompt], one each; [max_parallel][depth][max_gen]
    int32_t *after_prompt, *generated;
    tally_session **sessions;       // [max_parallel]
    tally_generation **generations; // [max_parallel]
    bench_ceiling ceiling;
    bench_report report;
} bench_state;

int bench_list(const char *option, const char *text, int min, int max, int otherwise, int_list *out) {
    *out = (int_list){.n = 1, .v = {otherwise}};
    if (!text) return 0;
    out->n = 0;
    for (const char *p = text;; p++) {
        char *end;
        errno = 0;
        long v = strtol(p, &end, 10);
        long to = v;
        const char *second = end[0] == '.' && end[1] == '.' ? end + 2 : NULL; // 1..17
        if (second) to = strtol(second, &end, 10);
        if (end == p || end == second || (*end && *end != ',') || errno || v < min || to < v || to > max)
            return usage_error("%s takes whole numbers from %d to %d with commas (128,512), not '%s'", option, min, max,
                               text);
        if (to - v >= BENCH_LIST_MAX - out->n)
            return usage_error("%s takes %d numbers at most", option, BENCH_LIST_MAX);
        for (; v <= to; v++) out->v[out->n++] = (int)v;
        p = end;
        if (!*p) return 0;
    }
}

static int largest(const int_list *l) {
    int most = 0;
    for (int i = 0; i < l->n; i++) most = l->v[i] > most ? l->v[i] : most;
    return most;
}

static int parse_lists(bench_state *s) {
    enum { LONGEST = 1 << 24 };
    const options *o = s->o;
    int rc = bench_list("-p", o->bench_prompt, 0, LONGEST, 512, &s->prompts);
    if (!rc) rc = bench_list("-n", o->bench_gen, 0, LONGEST, 128, &s->gens);
    if (!rc) rc = bench_list("-d", o->bench_depth, 0, LONGEST, 0, &s->depths);
    if (!rc) rc = bench_list("-t", o->bench_threads, 1, 1024, 0, &s->threads);
    if (!rc) rc = bench_list("--parallel", o->bench_parallel, 1, 4096, 1, &s->parallel);
    if (rc) return rc;
    s->max_parallel = largest(&s->parallel);
    s->max_gen = largest(&s->gens);
    int most = largest(&s->prompts) > s->max_gen ? largest(&s->prompts) : s->max_gen;
    s->context = largest(&s->depths) + most + 1;
    if (most == 0) return usage_error("both -p and -n are 0, so there is nothing to time");
    return 0;
}

// ---- what is computed ------------------------------------------------------------------------------------------------------

static const char sample_text[] =
    "The harbour was quiet when the first boats came back. Men carried baskets over the wet stones, and gulls waited "
    "on the "
    "wall for what would fall. In the house above the market a clerk opened his book, wrote the date, and began to "
    "count: "
    "forty crates of herring, twelve of mackerel, three barrels of salt returned unopened. He had kept these books for "
    "nineteen years, and two people who read them had never come to different sums. When the rain began he lit the "
    "lamp, "
    "turned the page, and wrote down the weather as well, because a number without its circumstances is only half a "
    "fact. ";

const char *bench_sample_text(void) { return sample_text; }

// Sequence j is the text from its j-th token on, over and over; without a tokenizer, any tokens do.
static int make_text(bench_state *s) {
    int32_t *ids = NULL;
    size_t n = 0;
    tally_error err;
    if (tally_model_has_tokenizer(s->model) &&
        tally_tokenize(s->model, sample_text, sizeof sample_text - 1, 0, &ids, &n, &err) != TALLY_OK)
        return fail_with(&err);
    s->text = malloc((size_t)s->max_parallel * (size_t)s->context * sizeof *s->text);
    if (!s->text) return fail("memory ran out for %d sequences of %d tokens", s->max_parallel, s->context);
    int vocab = tally_model_n_vocab(s->model);
    for (int j = 0; j < s->max_parallel; j++) {
        for (int i = 0; i < s->context; i++) {
            int at = i + 7 * j;
            s->text[(size_t)j * (size_t)s->context + (size_t)i] = n ? ids[(size_t)at % n] : (at * 31 + 7) % vocab;
        }
    }
    tally_free(ids);
    return 0;
}

static int32_t *text_of(const bench_state *s, int j) { return s->text + (size_t)j * (size_t)s->context; }
static int32_t *after_prompt(const bench_state *s, int j, int depth, int prompt) {
    return s->after_prompt + ((size_t)j * (size_t)s->depths.n + (size_t)depth) * (size_t)s->prompts.n + (size_t)prompt;
}
static int32_t *generated(const bench_state *s, int j, int depth) {
    return s->generated + ((size_t)j * (size_t)s->depths.n + (size_t)depth) * (size_t)s->max_gen;
}

static void progress(const bench_state *s, const char *what, int at, int of) {
    if (s->terminal) fprintf(stderr, "\r%s: %d of %d\033[K", what, at, of);
}

static int interrupted(const bench_state *s) {
    if (s->terminal) fputs("\r\033[K", stderr);
    fail("interrupted");
    return EXIT_INTERRUPTED;
}

static bool on_npu(const options *o) { return o->device && strcmp(o->device, "cpu") != 0; }

static int open_for(bench_state *s, int threads, int sequences, bool plain) {
    options o = *s->o;
    o.threads = threads;
    o.context = s->context;
    o.parallel = sequences;
    o.cache_positions = (int64_t)sequences * (s->context + SPARE_POSITIONS);
    o.no_prefix_reuse = true;
    o.no_fuse = (plain && !on_npu(&o)) || o.no_fuse; // merged operators of an NPU have other bits
    bool drafts = !plain && (o.model_draft || (o.spec && strcmp(o.spec, "off") != 0));
    return open_engine(s->model, &o, 0, drafts ? &s->draft : NULL, &s->engine);
}

static void close_engines(bench_state *s) {
    close_engine(s->engine);
    s->engine = NULL;
    close_draft(&s->draft);
}

tally_status bench_sync(tally_session *session, const int32_t *ids, int n, tally_error *err) {
    enum { PIECE = 512 };
    for (int at = tally_session_length(session) + PIECE; at < n; at += PIECE) {
        if (interrupt_pending()) return TALLY_CANCELLED;
        tally_status st = tally_session_sync(session, ids, at, err);
        if (st) return st;
    }
    return interrupt_pending() ? TALLY_CANCELLED : tally_session_sync(session, ids, n, err);
}

// ---- plain greedy decoding -------------------------------------------------------------------------------------------------

static tally_status argmax_of(tally_session *session, int n_vocab, int32_t *id, tally_error *err) {
    const float *logits;
    tally_status st = tally_session_logits(session, &logits, err);
    if (st) return st;
    *id = 0;
    for (int i = 1; i < n_vocab; i++) {
        if (logits[i] > logits[*id]) *id = i;
    }
    return TALLY_OK;
}

// The ids behind one depth of one sequence. `scratch` holds the prompt and what came of it.
static tally_status decode_depth(bench_state *s, tally_session *session, int j, int depth, int32_t *scratch,
                                 tally_error *err) {
    int d = s->depths.v[depth], n_vocab = tally_model_n_vocab(s->model);
    tally_status st = TALLY_OK;
    for (int p = 0; p < s->prompts.n && !st; p++) {
        if (s->prompts.v[p] == 0) continue;
        st = bench_sync(session, text_of(s, j), d + s->prompts.v[p], err);
        if (!st) st = argmax_of(session, n_vocab, after_prompt(s, j, depth, p), err);
    }
    memcpy(scratch, text_of(s, j), (size_t)(d + 1) * sizeof *scratch);
    for (int i = 0; i < s->max_gen && !st; i++) {
        if (interrupt_pending()) return TALLY_CANCELLED;
        progress(s, "plain greedy decoding, token", i + 1, s->max_gen);
        st = bench_sync(session, scratch, d + 1 + i, err);
        if (!st) st = argmax_of(session, n_vocab, &generated(s, j, depth)[i], err);
        if (!st && i + 1 < s->max_gen) scratch[d + 1 + i] = generated(s, j, depth)[i];
    }
    return st;
}

static int decode_plainly(bench_state *s) {
    size_t pairs = (size_t)s->max_parallel * (size_t)s->depths.n;
    s->after_prompt = calloc(pairs * (size_t)s->prompts.n + 1, sizeof *s->after_prompt);
    s->generated = calloc(pairs * (size_t)s->max_gen + 1, sizeof *s->generated);
    int32_t *scratch = malloc((size_t)s->context * sizeof *scratch);
    int rc = s->after_prompt && s->generated && scratch ? open_for(s, 1, 1, true) : fail("memory ran out");
    for (int j = 0; j < s->max_parallel && !rc; j++) {
        tally_session *session = NULL;
        tally_error err = {0};
        tally_status st = tally_session_open(&session, s->engine, &err);
        for (int d = 0; d < s->depths.n && !st; d++) st = decode_depth(s, session, j, d, scratch, &err);
        tally_session_close(session);
        if (st) rc = st == TALLY_CANCELLED ? interrupted(s) : fail_with(&err);
    }
    close_engines(s);
    free(scratch);
    return rc;
}

// ---- timing ----------------------------------------------------------------------------------------------------------------

// prompt, gen: numbers in the lists; one is -1.
static void check_ids(bench_state *s, bench_row *row, int depth, int prompt, const tally_generation *g, int j) {
    int n;
    const int32_t *ids = tally_generation_ids(g, &n);
    const int32_t *expected = prompt >= 0 ? after_prompt(s, j, depth, prompt) : generated(s, j, depth);
    int want = prompt >= 0 ? 1 : row->n_gen;
    tally_spec_counts counts;
    tally_generation_spec_counts(g, &counts);
    speculation_add(&row->counts, &counts);
    if (n != want || memcmp(ids, expected, (size_t)want * sizeof *ids) != 0) row->differs = true;
    if (prompt >= 0 || strcmp(row->repetition, "OK") != 0) return; // the first sequence that repeats itself
    repetition_label(ids, n, row->repetition);
}

static int start_all(bench_state *s, const bench_row *row) {
    for (int j = 0; j < row->n_parallel; j++) {
        tally_request request = {.ids = text_of(s, j),
                                 .n_ids = row->n_depth + (row->n_prompt ? row->n_prompt : 1),
                                 .max_tokens = row->n_prompt ? 1 : row->n_gen,
                                 .ignore_eos = true,
                                 .session = s->sessions[j]};
        tally_error err;
        if (tally_generate(s->engine, &request, &s->generations[j], &err) != TALLY_OK) return fail_with(&err);
    }
    return 0;
}

static void close_all(bench_state *s) {
    for (int j = 0; j < s->max_parallel; j++) {
        tally_generation_close(s->generations[j]);
        s->generations[j] = NULL;
    }
}

static int run_once(bench_state *s, bench_row *row, double *seconds) {
    uint64_t t0 = clock_now_ns();
    int rc = start_all(s, row);
    for (bool idle = false; !rc && !idle;) {
        tally_error err;
        if (interrupt_pending()) rc = interrupted(s);
        if (!rc && tally_engine_step(s->engine, &idle, &err) != TALLY_OK) rc = fail_with(&err);
    }
    *seconds = (double)(clock_now_ns() - t0 + 1) * 1e-9;
    for (int j = 0; j < row->n_parallel && !rc; j++) {
        tally_error err;
        if (tally_generation_status(s->generations[j], &err) != TALLY_OK) rc = fail_with(&err);
    }
    return rc;
}

// The same, and what its operations had to do.
static int run_traced(bench_state *s, bench_row *row, double *seconds) {
    tally_error err;
    if (tally_engine_trace_start(s->engine, &err) != TALLY_OK) return fail_with(&err);
    int rc = run_once(s, row, seconds);
    return rc ? rc : bench_trace_take(&row->work, s->engine, s->o->per_op, *seconds);
}

static int add_row(bench_state *s, bench_row row, int depth, int prompt) {
    bench_row *grown = realloc(s->report.rows, (size_t)(s->report.n_rows + 1) * sizeof *grown);
    if (!grown) return fail("memory ran out for %d rows", s->report.n_rows + 1);
    s->report.rows = grown;
    row.ceiling = s->ceiling;
    row.seconds = calloc((size_t)s->o->repetitions, sizeof *row.seconds);
    snprintf(row.repetition, sizeof row.repetition, "OK");
    bench_row *r = &s->report.rows[s->report.n_rows++];
    *r = row;
    int rc = r->seconds ? 0 : fail("memory ran out for %d repetitions", s->o->repetitions);
    int n = s->o->repetitions;
    for (int i = -1; i < n + s->o->trace && !rc; i++) { // the first is to warm up, and counts what there is to do
        char what[96];
        snprintf(what, sizeof what, "%s%d @ d%d x%d, %d threads, repetition", r->n_gen ? "tg" : "pp",
                 r->n_prompt + r->n_gen, r->n_depth, r->n_parallel, r->n_threads);
        progress(s, what, i + 1, n);
        double seconds;
        rc = i < 0 || i == n ? run_traced(s, r, &seconds) : run_once(s, r, &seconds);
        for (int j = 0; j < r->n_parallel && !rc; j++) check_ids(s, r, depth, prompt, s->generations[j], j);
        close_all(s);
        if (i >= 0 && i < n) r->seconds[i] = seconds, r->n = i + 1;
    }
    return rc;
}

static int fill_sessions(bench_state *s, int n, int depth) {
    tally_error err;
    for (int j = 0; j < n; j++) {
        if (interrupt_pending()) return interrupted(s);
        progress(s, "filling the cache, sequence", j + 1, n);
        tally_status st = tally_session_open(&s->sessions[j], s->engine, &err);
        if (!st) st = bench_sync(s->sessions[j], text_of(s, j), depth, &err);
        if (st) return st == TALLY_CANCELLED ? interrupted(s) : fail_with(&err);
    }
    return 0;
}

static void close_sessions(bench_state *s) {
    for (int j = 0; j < s->max_parallel; j++) {
        tally_session_close(s->sessions[j]);
        s->sessions[j] = NULL;
    }
}

static int time_depth(bench_state *s, int threads, int parallel, int depth) {
    bench_row row = {.n_depth = s->depths.v[depth], .n_threads = threads, .n_parallel = parallel};
    int rc = fill_sessions(s, parallel, row.n_depth);
    for (int p = 0; p < s->prompts.n && !rc; p++) {
        row.n_prompt = s->prompts.v[p];
        if (row.n_prompt) rc = add_row(s, row, depth, p);
    }
    row.n_prompt = 0;
    for (int g = 0; g < s->gens.n && !rc; g++) {
        row.n_gen = s->gens.v[g];
        if (row.n_gen) rc = add_row(s, row, depth, -1);
    }
    close_sessions(s);
    return rc;
}

static int measure_ceiling(bench_state *s, int threads) {
    tally_machine machine;
    int rc = bench_limits(s->o, threads, &machine);
    if (rc) return rc;
    const tally_level_speed *peak = &machine.levels[0];
    s->ceiling = (bench_ceiling){.read_bytes_per_s = machine.read_bytes_per_s,
                                 .f32 = 2 * peak->f32,
                                 .bf16 = 2 * peak->bf16,
                                 .q8 = 2 * peak->q8,
                                 .loop_s = machine.loop_s};
    snprintf(s->ceiling.level, sizeof s->ceiling.level, "%s", peak->level);
    return 0;
}

static int time_threads(bench_state *s, int threads) {
    if (threads == 0) threads = cpu_physical_cores();
    int rc = 0;
    s->ceiling = (bench_ceiling){0};
    if (!on_npu(s->o)) rc = measure_ceiling(s, threads);
    if (rc) return rc;
    rc = open_for(s, threads, s->max_parallel, false);
    if (!rc) {
        tally_memory memory;
        tally_engine_memory(s->engine, &memory);
        s->report.weights = memory.weights;
    }
    for (int d = 0; d < s->depths.n && !rc; d++) {
        for (int n = 0; n < s->parallel.n && !rc; n++) rc = time_depth(s, threads, s->parallel.v[n], d);
    }
    close_engines(s);
    return rc;
}

static int start(bench_state *s) {
    const options *o = s->o;
    tally_error err;
    int rc = parse_lists(s);
    if (rc) return rc;
    if (tally_model_open(&s->model, o->model, &err) != TALLY_OK) return fail_with(&err);
    int most = tally_model_context_length(s->model);
    if (most > 0 && s->context > most)
        return fail("-d and -p or -n need %d positions, and this model was made for %d; lower them", s->context, most);
    tally_engine_options sized;
    engine_options(s->model, o, 0, &sized);
    s->report.model = o->model;
    s->report.traced = o->trace;
    s->report.step_rows = sized.step_rows ? sized.step_rows : DEFAULT_STEP_ROWS;
    s->report.chunk_rows = sized.chunk_rows ? sized.chunk_rows : s->report.step_rows;
    s->sessions = calloc((size_t)s->max_parallel, sizeof *s->sessions);
    s->generations = calloc((size_t)s->max_parallel, sizeof *s->generations);
    if (!s->sessions || !s->generations) return fail("memory ran out for %d sequences", s->max_parallel);
    rc = make_text(s);
    return rc ? rc : decode_plainly(s);
}

// What is measured, and options that belong to something else.
static int check_kind(const options *o) {
    if (o->spec_suite && o->verify_rows) return usage_error("--spec-suite and --verify-rows are two runs; give one");
    if (o->spec_suite && (o->bench_prompt || o->bench_depth))
        return usage_error("--spec-suite brings its own prompts; leave out -p and -d");
    if (o->verify_rows && (o->bench_prompt || o->bench_gen || o->bench_parallel))
        return usage_error("--verify-rows times steps of one sequence; leave out -p, -n and --parallel");
    if (o->verify_rows && (o->spec || o->model_draft || o->trace || o->measured))
        return usage_error("--verify-rows times steps alone; leave out --spec, -md, --trace and --measured");
    if (o->spec_suite && (o->trace || o->measured))
        return usage_error("--spec-suite compares answers and speeds; leave out --trace and --measured");
    if (o->measured && on_npu(o))
        return usage_error("--measured holds limits of the processor; leave it out with --device %s", o->device);
    if (!o->spec_suite && o->repetitions == 0) return usage_error("-r 0 times nothing; it belongs to --spec-suite");
    return speculation_check(o);
}

int cmd_bench(const options *o) {
    ignore_closed_pipe();
    if (o->machine) return bench_machine(o);
    int checked = check_kind(o);
    if (checked) return checked;
    if (o->spec_suite) return spec_suite_run(o);
    if (o->verify_rows) return bench_verify_rows(o);
    bench_state s = {.o = o, .terminal = is_terminal(STDERR_FILENO)};
    int rc = start(&s);
    for (int t = 0; t < s.threads.n && !rc; t++) rc = time_threads(&s, s.threads.v[t]);
    if (s.terminal && !rc) fputs("\r\033[K", stderr);
    if (!rc) rc = bench_report_print(&s.report, o->bench_format && strcmp(o->bench_format, "json") == 0);
    for (int i = 0; i < s.report.n_rows; i++) {
        free(s.report.rows[i].seconds);
        bench_trace_free(&s.report.rows[i].work);
    }
    free(s.report.rows);
    free(s.sessions);
    free(s.generations);
    free(s.text);
    free(s.after_prompt);
    free(s.generated);
    tally_model_close(s.model);
    return rc;
}
