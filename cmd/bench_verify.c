// tally bench --verify-rows: T(m), the time of a step of m rows of one sequence. A step that verifies m - 1 drafts computes m rows and
// emits accepted + 1 tokens, so a chain of m - 1 drafts, each accepted with probability a if all before it were, emits
// 1 + a + ... + a^(m-1) = (1 - a^m) / (1 - a) tokens in the time T(m). It is faster than single steps when that is above T(m) / T(1).
//
// Rows are texts' tokens, other ones every time, so that experts are touched as in use; the widths take turns, so that what disturbs
// the machine disturbs all of them.
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpuinfo.h"
#include "base/json.h"
#include "cmd/bench.h"
#include "cmd/build_commit.h"
#include "cmd/common.h"
#include "cmd/engines.h"

enum {
    STEPS = 8,
    SPARE_POSITIONS = 192,
    MOST_ROWS = 64,
    TEXT_TOKENS = 4096,
    PROMPT_ROWS = 512
}; // STEPS: of each width in a round

typedef struct verify_state {
    const options *o;
    int_list rows, depths, threads;
    int most_rows, most_depth;
    bool terminal;
    tally_model *model;
    tally_engine *engine;
    tally_session *session;
    int32_t *text;   // owned [n_text]
    int n_text, at;  // tokens, and the next that a step takes
    double *seconds; // owned [rows.n][STEPS * repetitions]
    json_t *json;    // NULL: a table
    bool printed;
} verify_state;

double bench_break_even(int m, double ratio) {
    if (ratio <= 1) return 0;
    if (ratio > m) return NAN;
    double low = 0, high = 1;
    for (int i = 0; i < 60; i++) {
        double a = (low + high) / 2, emitted = 0;
        for (int j = m; j > 0; j--) emitted = emitted * a + 1;
        if (emitted >= ratio) {
            high = a;
        } else {
            low = a;
        }
    }
    return high;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int parse_lists(verify_state *s) {
    int rc = bench_list("--verify-rows", s->o->verify_rows, 1, MOST_ROWS, 1, &s->rows);
    if (!rc) rc = bench_list("-d", s->o->bench_depth, 0, 1 << 24, 256, &s->depths);
    if (!rc) rc = bench_list("-t", s->o->bench_threads, 1, 1024, cpu_physical_cores(), &s->threads);
    if (rc) return rc;
    bool has_one = false;
    for (int i = 0; i < s->rows.n; i++) {
        if (s->rows.v[i] > s->most_rows) s->most_rows = s->rows.v[i];
        has_one |= s->rows.v[i] == 1;
    }
    for (int i = 0; i < s->depths.n; i++)
        s->most_depth = s->depths.v[i] > s->most_depth ? s->depths.v[i] : s->most_depth;
    return has_one ? 0
                   : usage_error("--verify-rows needs 1 in its list, beside which the others are put: 1,2,4 or 1..17");
}

// Bench's own text over and over, or (no tokenizer) ids spread over the vocabulary.
static int make_text(verify_state *s) {
    int32_t *ids = NULL;
    size_t n = 0;
    tally_error err;
    const char *text = bench_sample_text();
    if (tally_model_has_tokenizer(s->model) &&
        tally_tokenize(s->model, text, strlen(text), 0, &ids, &n, &err) != TALLY_OK)
        return fail_with(&err);
    s->n_text = s->most_depth + TEXT_TOKENS;
    s->text = malloc((size_t)s->n_text * sizeof *s->text);
    if (!s->text) return fail("memory ran out for %d tokens", s->n_text);
    int vocab = tally_model_n_vocab(s->model);
    for (int i = 0; i < s->n_text; i++) s->text[i] = n ? ids[(size_t)i % n] : (i * 31 + i / vocab * 7) % vocab;
    tally_free(ids);
    return 0;
}

static tally_status ignore_logits(void *user, int position, const float *logits, int n_vocab) {
    (void)user, (void)position, (void)logits, (void)n_vocab;
    return TALLY_OK;
}

// STEPS steps of m rows, each behind the same `depth` positions.
static int time_width(verify_state *s, int m, int depth, double *seconds) {
    tally_error err;
    for (int i = 0; i < STEPS; i++) {
        if (interrupt_pending()) {
            if (s->terminal) fputs("\r\033[K", stderr);
            fail("interrupted");
            return EXIT_INTERRUPTED;
        }
        if (s->at + m > s->n_text) s->at = 0;
        tally_status st = bench_sync(s->session, s->text, depth, &err);
        if (st == TALLY_CANCELLED) {
            i--; // the next look tells
            continue;
        }
        if (st) return fail_with(&err);
        uint64_t t0 = clock_now_ns();
        if (tally_session_eval(s->session, s->text + s->at, m, m, ignore_logits, NULL, &err) != TALLY_OK)
            return fail_with(&err);
        seconds[i] = (double)(clock_now_ns() - t0 + 1) * 1e-9;
        s->at += m;
    }
    return 0;
}

static int time_depth(verify_state *s, int threads, int depth) {
    int rounds = s->o->repetitions, n = rounds * STEPS;
    double warm_up[STEPS];
    int rc = 0;
    for (int round = -1; round < rounds && !rc; round++) {
        if (s->terminal)
            fprintf(stderr, "\r%d threads, depth %d: round %d of %d\033[K", threads, depth, round + 1, rounds);
        for (int i = 0; i < s->rows.n && !rc; i++) { // there and back, so that no width always follows the same one
            int k = round % 2 ? s->rows.n - 1 - i : i;
            rc = time_width(s, s->rows.v[k], depth,
                            round < 0 ? warm_up : s->seconds + (size_t)k * (size_t)n + round * STEPS);
        }
    }
    return rc;
}

// ---- the table -------------------------------------------------------------------------------------------------------------

static double median_of(const double *sorted, int n) { return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2; }

static void print_row(const verify_state *s, int threads, int depth, int m, const double *v, double t1) {
    int n = s->o->repetitions * STEPS;
    double t = median_of(v, n), a = bench_break_even(m, t / t1);
    char text[32] = "-";
    if (m > 1) snprintf(text, sizeof text, isnan(a) ? "never" : "%.3f", a);
    printf("| %d | %d | %d | %.3f | %.3f - %.3f | %.3f | %s |\n", threads, depth, m, 1e3 * t, 1e3 * v[n / 4],
           1e3 * v[3 * n / 4], t / t1, text);
}

static json_t *row_json(const verify_state *s, int threads, int depth, int m, const double *v, double t1) {
    char cpu[128];
    int n = s->o->repetitions * STEPS;
    double t = median_of(v, n), a = bench_break_even(m, t / t1);
    return json_pack("{s:s, s:s, s:o, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:o}", "build_commit", build_commit(),
                     "cpu_info", cpu_model_name(cpu, sizeof cpu), "model_filename", json_text(s->o->model), "n_threads",
                     threads, "n_depth", depth, "n_rows", m, "n_samples", n, "median_ms", 1e3 * t, "quarter_ms",
                     1e3 * v[n / 4], "three_quarter_ms", 1e3 * v[3 * n / 4], "ratio", t / t1, "break_even_acceptance",
                     m == 1 || isnan(a) ? json_null() : json_real(a));
}

static void report(verify_state *s, int threads, int depth) {
    size_t n = (size_t)(s->o->repetitions * STEPS);
    double t1 = 0;
    for (int i = 0; i < s->rows.n; i++) {
        double *v = s->seconds + (size_t)i * n;
        qsort(v, n, sizeof *v, by_size);
        if (s->rows.v[i] == 1) t1 = median_of(v, (int)n);
    }
    if (s->terminal) fputs("\r\033[K", stderr);
    if (!s->json && !s->printed) {
        printf("%s, steps of m rows of one sequence, %zu of each width, build %s\n\n", s->o->model, n, build_commit());
        printf("| threads | depth | m | T(m) ms | middle half | T(m)/T(1) | break-even acceptance of m-1 drafts |\n"
               "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
        s->printed = true;
    }
    for (int i = 0; i < s->rows.n; i++) {
        const double *v = s->seconds + (size_t)i * n;
        if (s->json) {
            json_array_append_new(s->json, row_json(s, threads, depth, s->rows.v[i], v, t1));
        } else {
            print_row(s, threads, depth, s->rows.v[i], v, t1);
        }
    }
    fflush(stdout);
}

// ---- the run ---------------------------------------------------------------------------------------------------------------

static int run_threads(verify_state *s, int threads) {
    options o = *s->o;
    o.threads = threads;
    o.context = s->most_depth + s->most_rows;
    o.chunk = s->most_rows; // so many rows have logits
    if (!o.batch) o.batch = PROMPT_ROWS;
    o.cache_positions = o.context + SPARE_POSITIONS;
    o.no_prefix_reuse = true;
    tally_error err;
    int rc = open_engine(s->model, &o, (size_t)s->most_rows, NULL, &s->engine);
    if (!rc && tally_session_open(&s->session, s->engine, &err) != TALLY_OK) rc = fail_with(&err);
    for (int d = 0; d < s->depths.n && !rc; d++) {
        rc = time_depth(s, threads, s->depths.v[d]);
        if (!rc) report(s, threads, s->depths.v[d]);
    }
    tally_session_close(s->session);
    close_engine(s->engine);
    s->session = NULL;
    s->engine = NULL;
    return rc;
}

static int start(verify_state *s) {
    int rc = parse_lists(s);
    if (rc) return rc;
    tally_error err;
    if (tally_model_open(&s->model, s->o->model, &err) != TALLY_OK) return fail_with(&err);
    int most = tally_model_context_length(s->model);
    if (most > 0 && s->most_depth > most - s->most_rows)
        return fail("-d %d and %d rows need %d positions, and this model was made for %d; lower them", s->most_depth,
                    s->most_rows, s->most_depth + s->most_rows, most);
    rc = make_text(s);
    if (rc) return rc;
    s->seconds = calloc((size_t)s->rows.n * STEPS * (size_t)s->o->repetitions, sizeof *s->seconds);
    bool json = s->o->bench_format && strcmp(s->o->bench_format, "json") == 0;
    if (json) s->json = json_array();
    return s->seconds && (s->json || !json) ? 0 : fail("memory ran out for the times");
}

int bench_verify_rows(const options *o) {
    verify_state s = {.o = o, .terminal = is_terminal(STDERR_FILENO)};
    int rc = start(&s);
    for (int t = 0; t < s.threads.n && !rc; t++) rc = run_threads(&s, s.threads.v[t]);
    if (!rc && s.json) {
        json_dumpf(s.json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        putchar('\n');
    }
    json_decref(s.json);
    free(s.seconds);
    free(s.text);
    tally_model_close(s.model);
    return rc;
}
