// The rows of `tally bench` as a Markdown table or as JSON with llama-bench's names.
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/cpuinfo.h"
#include "base/json.h"
#include "cmd/bench.h"
#include "cmd/build_commit.h"
#include "cmd/common.h"
#include "cmd/speculation.h"

static double tokens_of(const bench_row *r) { return (double)(r->n_prompt + r->n_gen) * r->n_parallel; }

// Mean and deviation (of a sample) of numerator / seconds^power, power 1 or -1.
static void statistics(const bench_row *r, double numerator, bool of_speed, double *mean, double *deviation) {
    double sum = 0, squares = 0;
    for (int i = 0; i < r->n; i++) sum += of_speed ? numerator / r->seconds[i] : numerator * r->seconds[i];
    *mean = sum / r->n;
    for (int i = 0; i < r->n; i++) {
        double d = (of_speed ? numerator / r->seconds[i] : numerator * r->seconds[i]) - *mean;
        squares += d * d;
    }
    *deviation = r->n > 1 ? sqrt(squares / (r->n - 1)) : 0;
}

// Of steps that compute one token of each sequence; several tokens of one step would share what it reads.
static double share_of(const bench_row *r) {
    double mean, deviation;
    statistics(r, r->work.all.weight_bytes + r->work.all.cache_bytes, true, &mean, &deviation);
    return mean / r->ceiling.read_bytes_per_s;
}

// Steps with drafts have no limit of their own: how many there are is what drafts change.
static bool has_limits(const bench_row *r) { return bench_ceiling_known(&r->ceiling) && !r->counts.drafted; }

static json_t *roofline_json(const bench_row *r, double ts) {
    const char *bound;
    double best = tokens_of(r) / bench_least_seconds(&r->work.all, &r->ceiling, &bound);
    return json_pack("{s:s, s:f, s:f}", "bound", bound, "best_ts", best, "reached", ts / best);
}

static json_t *row_json(const bench_report *report, const bench_row *r) {
    char cpu[128];
    double ns, ns_deviation, ts, ts_deviation;
    statistics(r, 1e9, false, &ns, &ns_deviation);
    statistics(r, tokens_of(r), true, &ts, &ts_deviation);
    json_t *samples_ns = json_array(), *samples_ts = json_array();
    for (int i = 0; i < r->n; i++) {
        json_array_append_new(samples_ns, json_integer((json_int_t)(r->seconds[i] * 1e9)));
        json_array_append_new(samples_ts, json_real(tokens_of(r) / r->seconds[i]));
    }
    json_t *o = json_pack("{s:s, s:s, s:s, s:o, s:I, s:i, s:i}", "build_commit", build_commit(), "build_version",
                          tally_version(), "cpu_info", cpu_model_name(cpu, sizeof cpu), "model_filename",
                          json_text(report->model), "model_size", (json_int_t)report->weights, "n_batch",
                          report->step_rows, "n_ubatch", report->chunk_rows);
    json_t *numbers = json_pack(
        "{s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:f, s:f, s:o, s:o, s:o, s:o, s:s}", "n_threads", r->n_threads, "n_prompt",
        r->n_prompt, "n_gen", r->n_gen, "n_depth", r->n_depth, "n_parallel", r->n_parallel, "avg_ns", (json_int_t)ns,
        "stddev_ns", (json_int_t)ns_deviation, "avg_ts", ts, "stddev_ts", ts_deviation, "samples_ns", samples_ns,
        "samples_ts", samples_ts, "read_bytes_per_s",
        bench_ceiling_known(&r->ceiling) ? json_real(r->ceiling.read_bytes_per_s) : json_null(), "bandwidth_share",
        has_limits(r) ? json_real(share_of(r)) : json_null(), "ids", r->differs ? "DIFFERS" : "OK");
    if (o && numbers) json_object_update(o, numbers);
    if (o) json_object_set_new(o, "repetition", r->n_gen ? json_string(r->repetition) : json_null());
    if (o) json_object_set_new(o, "roofline", has_limits(r) ? roofline_json(r, ts) : json_null());
    if (o && report->traced) json_object_set_new(o, "trace", bench_trace_json(r));
    if (o) speculation_json(o, &r->counts);
    json_decref(numbers);
    return o;
}

static void test_name(const bench_row *r, char out[64]) {
    char depth[32] = "";
    if (r->n_depth) snprintf(depth, sizeof depth, " @ d%d", r->n_depth);
    snprintf(out, 64, "%s%d%s", r->n_gen ? "tg" : "pp", r->n_prompt + r->n_gen, depth);
}

static void print_row(const bench_row *r) {
    char test[64], share[32] = "", best[48] = "", reached[32] = "";
    const char *bound;
    double ts, deviation, least = bench_least_seconds(&r->work.all, &r->ceiling, &bound), most = tokens_of(r) / least;
    statistics(r, tokens_of(r), true, &ts, &deviation);
    test_name(r, test);
    if (has_limits(r)) {
        snprintf(share, sizeof share, "%.1f %%", 100 * share_of(r));
        snprintf(best, sizeof best, "%.1f (%s)", most, bound);
        snprintf(reached, sizeof reached, "%.1f %%", 100 * ts / most);
    }
    printf("| %s | %d | %d | %.2f +- %.2f | %s | %s | %s | %s | %s |\n", test, r->n_threads, r->n_parallel, ts,
           deviation, share, best, reached, r->differs ? "DIFFERS" : "OK", r->n_gen ? r->repetition : "");
}

static void print_drafted(const bench_report *report) {
    bool first = true;
    for (int i = 0; i < report->n_rows; i++) {
        const bench_row *r = &report->rows[i];
        char test[64];
        if (!r->counts.drafted) continue;
        if (first) puts("");
        first = false;
        snprintf(test, sizeof test, "tg%d, %d threads, parallel %d: ", r->n_gen, r->n_threads, r->n_parallel);
        speculation_print(stdout, test, &r->counts);
        puts("");
    }
}

static void print_table(const bench_report *report) {
    printf("%s, %.1f MB of weights, build %s\n\n", report->model, (double)report->weights / 1e6, build_commit());
    printf("| test | threads | parallel | t/s | of the bandwidth | at best | reached | ids | repetition |\n");
    printf("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |\n");
    for (int i = 0; i < report->n_rows; i++) print_row(&report->rows[i]);
    print_drafted(report);
    for (int i = 0; i < report->n_rows && report->traced; i++) {
        char test[64];
        test_name(&report->rows[i], test);
        bench_trace_print(&report->rows[i], test);
    }
}

int bench_report_print(const bench_report *report, bool json) {
    if (!json) {
        print_table(report);
        return 0;
    }
    bool good = true;
    puts("[");
    for (int i = 0; i < report->n_rows; i++) {
        json_t *row = row_json(report, &report->rows[i]);
        good &= row && json_dumpf(row, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0;
        json_decref(row);
        puts(i + 1 < report->n_rows ? "," : "");
    }
    puts("]");
    return good ? 0 : fail("a row of the result could not be written as JSON");
}
