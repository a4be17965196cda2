// Rows of `tally bench --spec-suite` as Markdown and as JSON.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cmd/build_commit.h"
#include "cmd/common.h"
#include "cmd/spec_suite.h"
#include "cmd/speculation.h"

// Reorders v. NAN for none.
static double median(double *v, int n) {
    for (int i = 1; i < n; i++) {
        for (int j = i; j > 0 && v[j] < v[j - 1]; j--) {
            double t = v[j];
            v[j] = v[j - 1];
            v[j - 1] = t;
        }
    }
    return n == 0 ? NAN : n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

// Fills v with what the timed pairs say of the row: ratios (arm < 0) or an arm's times. An answer of one token takes no time.
static int samples(const suite_row *r, int arm, double *v) {
    int n = 0;
    for (int i = 0; i < r->n_pairs; i++) {
        double plain = r->ms[ARM_PLAIN][i], drafted = r->ms[ARM_DRAFTED][i];
        if (plain > 0 && drafted > 0) v[n++] = arm < 0 ? plain / drafted : r->ms[arm][i];
    }
    return n;
}

static double median_of(const suite_row *r, int arm) {
    double few[16], *v = r->n_pairs > 16 ? malloc((size_t)r->n_pairs * sizeof *v) : few;
    if (!v) return NAN;
    double m = median(v, samples(r, arm, v));
    if (v != few) free(v);
    return m;
}

double suite_ratio(const suite_row *r) { return median_of(r, -1); }
double suite_speed(const suite_row *r, int arm) { return 1e3 * r->n_decode / median_of(r, arm); }

static double acceptance(const tally_spec_counts *c) { return c->drafted ? (double)c->accepted / c->drafted : NAN; }
static double per_step(const tally_spec_counts *c) {
    return c->verify_steps ? (double)c->emitted / c->verify_steps : NAN;
}

// ---- Markdown --------------------------------------------------------------------------------------------------------------

// A number with its unit into text, or "-".
static const char *show(char text[32], const char *format, double v) {
    if (isnan(v)) {
        snprintf(text, 32, "-");
    } else {
        snprintf(text, 32, format, v);
    }
    return text;
}

typedef struct class_sum {
    const char *name;
    int n, n_equal;
    tally_spec_counts counts;
    double speed[N_ARMS], ratio; // medians over prompts
    const suite_row *worst;      // of the ratios; NULL: nothing was timed
    char labels[N_ARMS][160];    // "OK 5, LOOP_3 1"
} class_sum;

static void count_labels(const suite_row *rows, int n, int arm, char *text, size_t size) {
    size_t len = 0;
    text[0] = 0;
    for (int i = 0; i < n && len < size; i++) {
        int seen = 0, count = 0;
        for (int j = 0; j < n; j++) {
            bool same = strcmp(rows[i].label[arm], rows[j].label[arm]) == 0;
            count += same;
            seen |= same && j < i;
        }
        if (!seen)
            len += (size_t)snprintf(text + len, size - len, "%s%s %d", len ? ", " : "", rows[i].label[arm], count);
    }
}

// Sums up rows[0 .. n) of one class. `v`: room for n numbers.
static class_sum sum_class(const suite_row *rows, int n, double *v) {
    class_sum c = {.name = rows->prompt->class_name, .n = n};
    for (int arm = 0; arm < N_ARMS; arm++) {
        int k = 0;
        for (int i = 0; i < n; i++) {
            double speed = suite_speed(&rows[i], arm);
            if (!isnan(speed)) v[k++] = speed;
        }
        c.speed[arm] = median(v, k);
        count_labels(rows, n, arm, c.labels[arm], sizeof c.labels[arm]);
    }
    int k = 0;
    for (int i = 0; i < n; i++) {
        double ratio = suite_ratio(&rows[i]);
        if (!isnan(ratio) && (!c.worst || ratio < suite_ratio(c.worst))) c.worst = &rows[i];
        if (!isnan(ratio)) v[k++] = ratio;
        c.n_equal += !rows[i].difference.what;
        speculation_add(&c.counts, &rows[i].counts);
    }
    c.ratio = median(v, k);
    return c;
}

static void print_class(const class_sum *c) {
    char plain[32], drafted[32], ratio[32], accepted[32], step[32], worst[160] = "-";
    if (c->worst) snprintf(worst, sizeof worst, "%.3f %s", suite_ratio(c->worst), c->worst->prompt->name);
    printf("| %s | %d | %s | %s | %s | %s | %s | %s | %s | %s | %d of %d |\n", c->name, c->n,
           show(plain, "%.2f", c->speed[ARM_PLAIN]), show(drafted, "%.2f", c->speed[ARM_DRAFTED]),
           show(ratio, "%.3f", c->ratio), worst, show(accepted, "%.0f %%", 100 * acceptance(&c->counts)),
           show(step, "%.2f", per_step(&c->counts)), c->labels[ARM_PLAIN], c->labels[ARM_DRAFTED], c->n_equal, c->n);
}

static void print_row(const suite_row *r) {
    char plain[32], drafted[32], ratio[32], step[32];
    const tally_spec_counts *c = &r->counts;
    printf("| %s/%s | %d | %d | %s | %s | %s | %d | %d | %d | %s | %s | %s | ", r->prompt->class_name, r->prompt->name,
           r->n_prompt, r->n_tokens, show(plain, "%.2f", suite_speed(r, ARM_PLAIN)),
           show(drafted, "%.2f", suite_speed(r, ARM_DRAFTED)), show(ratio, "%.3f", suite_ratio(r)), c->drafted,
           c->accepted, c->verify_steps, show(step, "%.2f", per_step(c)), r->label[ARM_PLAIN], r->label[ARM_DRAFTED]);
    if (r->difference.what) {
        printf("NO: %s %d |\n", r->difference.what, r->difference.at);
    } else {
        puts("yes |");
    }
}

static void print_setting(const suite_cell *cell) {
    const options *o = cell->o;
    printf("%s%s%s, --spec %s, %d threads, parallel %d, ", o->model, o->model_draft ? " with " : "",
           o->model_draft ? o->model_draft : "", cell->spec, cell->threads, cell->parallel);
    if (o->temperature > 0) {
        printf("temperature %g, seeds from %lld, ", o->temperature, (long long)o->seed);
    } else {
        printf("greedy, ");
    }
    printf("%d tokens%s, %d timed pairs, build %s\n\n", cell->n_gen, o->spec_stops ? " or until a stop" : "",
           o->repetitions, build_commit());
}

void suite_print(const suite_cell *cell) {
    double *v = malloc((size_t)cell->n * sizeof *v);
    if (!v) return; // main reports what standard output lacks; nothing can be summed without memory
    print_setting(cell);
    printf(
        "Speeds count from an answer's first token to its last (prompts are not in them); t/s and ratio are medians "
        "over the "
        "prompts of the\nmedian of each prompt's pairs. Drafted and accepted tokens and verify steps are sums over the "
        "pairs; tokens/step: of steps with drafts.\n\n");

    printf("| class | prompts | plain t/s | drafted t/s | ratio | worst prompt | accepted | tokens/step | plain text | "
           "drafted text | equals plain |\n"
           "| --- | ---: | ---: | ---: | ---: | --- | ---: | ---: | --- | --- | --- |\n");
    for (int i = 0, n; i < cell->n; i += n) {
        n = 1;
        while (i + n < cell->n && strcmp(cell->rows[i].prompt->class_name, cell->rows[i + n].prompt->class_name) == 0)
            n++;
        class_sum c = sum_class(&cell->rows[i], n, v);
        print_class(&c);
    }
    class_sum all = sum_class(cell->rows, cell->n, v);
    all.name = "all";
    print_class(&all);
    printf("\n| prompt | its tokens | answer | plain t/s | drafted t/s | ratio | drafted | accepted | verify steps | "
           "tokens/step | plain text | drafted text | equals plain |\n"
           "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- | --- |\n");
    for (int i = 0; i < cell->n; i++) print_row(&cell->rows[i]);
    puts("");
    fflush(stdout);
    free(v);
}

// ---- JSON ------------------------------------------------------------------------------------------------------------------

static json_t *real(double v) { return isnan(v) ? json_null() : json_real(v); }

static json_t *difference_json(const spec_difference *d) {
    if (!d->what) return json_null();
    return json_pack("{s:s, s:i, s:i, s:i, s:o}", "what", d->what, "at", d->at, "plain_id", (int)d->ids[0],
                     "drafted_id", (int)d->ids[1], "gap", real(d->gap));
}

static json_t *row_json(const suite_cell *cell, const suite_row *r) {
    const options *o = cell->o;
    char hash[32];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)r->ids_hash);
    json_t *ratios = json_array();
    for (int i = 0; i < r->n_pairs; i++) {
        double drafted = r->ms[ARM_DRAFTED][i];
        json_array_append_new(ratios, drafted > 0 ? json_real(r->ms[ARM_PLAIN][i] / drafted) : json_null());
    }
    json_t *row =
        json_pack("{s:s, s:s, s:o, s:o, s:s, s:i, s:i, s:f, s:I, s:i, s:b, s:s, s:s, s:i, s:i, s:s}", "build_commit",
                  build_commit(), "build_version", tally_version(), "model_filename", json_text(o->model),
                  "draft_filename", o->model_draft ? json_text(o->model_draft) : json_null(), "spec", cell->spec,
                  "n_threads", cell->threads, "n_parallel", cell->parallel, "temp", o->temperature, "seed",
                  (json_int_t)r->seed, "n_gen", cell->n_gen, "stops", o->spec_stops, "class", r->prompt->class_name,
                  "name", r->prompt->name, "n_prompt", r->n_prompt, "n_tokens", r->n_tokens, "ids_hash", hash);
    json_t *results = json_pack(
        "{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:s, s:b, s:o}", "n_pairs", r->n_pairs, "plain_ts",
        real(suite_speed(r, ARM_PLAIN)), "drafted_ts", real(suite_speed(r, ARM_DRAFTED)), "ratio", real(suite_ratio(r)),
        "ratios", ratios, "acceptance", real(acceptance(&r->counts)), "tokens_per_step", real(per_step(&r->counts)),
        "plain_repetition", r->label[ARM_PLAIN], "drafted_repetition", r->label[ARM_DRAFTED], "equals_plain",
        !r->difference.what, "difference", difference_json(&r->difference));
    if (row && results) json_object_update(row, results);
    if (row) speculation_json(row, &r->counts);
    json_decref(results);
    return row;
}

void suite_json(const suite_cell *cell, json_t *list) {
    for (int i = 0; i < cell->n; i++) json_array_append_new(list, row_json(cell, &cell->rows[i]));
}
