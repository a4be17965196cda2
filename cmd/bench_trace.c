// What the operations of a row of `tally bench` had to do and what they took, and the least time it can take: reading the weights
// and the cache once at the measured bandwidth, or the arithmetic at the measured speed of the kernels, whichever is longer.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/bench.h"
#include "cmd/common.h"

static void add(bench_work *sum, const tally_op_trace *o) {
    sum->calls += o->calls;
    sum->loops += o->loops;
    sum->seconds += o->seconds;
    sum->weight_bytes += o->weight_bytes;
    sum->cache_bytes += o->cache_bytes;
    sum->f32 += o->f32;
    sum->bf16 += o->bf16;
    sum->q8 += o->q8;
    sum->wake_s += o->wake_s;
    sum->wait_s += o->wait_s;
}

static void name_of(const tally_op_trace *o, bool by_label, char out[64]) {
    if (by_label && strcmp(o->op, o->label) != 0) {
        snprintf(out, 64, "%s %s", o->op, o->label);
    } else {
        snprintf(out, 64, "%s", o->op);
    }
}

int bench_trace_take(bench_trace *out, tally_engine *engine, bool by_label, double seconds) {
    tally_trace t;
    tally_engine_trace_stop(engine, &t);
    bench_trace_free(out);
    *out = (bench_trace){.steps = t.steps, .rows = t.rows, .seconds = seconds};
    out->groups = calloc((size_t)t.n_ops + 1, sizeof *out->groups);
    if (!out->groups) return fail("memory ran out for the times of %d operations", t.n_ops);
    for (int i = 0; i < t.n_ops; i++) {
        char name[64];
        name_of(&t.ops[i], by_label, name);
        int g = 0;
        while (g < out->n && strcmp(out->groups[g].name, name) != 0) g++;
        if (g == out->n) memcpy(out->groups[out->n++].name, name, sizeof name);
        add(&out->groups[g], &t.ops[i]);
        add(&out->all, &t.ops[i]);
    }
    snprintf(out->all.name, sizeof out->all.name, "all operations");
    return 0;
}

void bench_trace_free(bench_trace *t) {
    free(t->groups);
    *t = (bench_trace){0};
}

double bench_least_seconds(const bench_work *w, const bench_ceiling *c, const char **bound) {
    double memory = (w->weight_bytes + w->cache_bytes) / c->read_bytes_per_s;
    double compute = w->f32 / c->f32 + w->bf16 / c->bf16 + w->q8 / c->q8;
    *bound = memory >= compute ? "memory" : "compute";
    return memory >= compute ? memory : compute;
}

bool bench_ceiling_known(const bench_ceiling *c) { return c->read_bytes_per_s > 0; }

static double bytes_of(const bench_work *w) { return w->weight_bytes + w->cache_bytes; }
static double operations_of(const bench_work *w) { return w->f32 + w->bf16 + w->q8; }

// ---- Markdown ------------------------------------------------------------------------------------------------------------

static void print_work(const bench_row *r, const bench_work *w) {
    double steps = r->work.steps ? (double)r->work.steps : 1, s = w->seconds > 0 ? w->seconds : 1e-12;
    double loops = w->loops ? (double)w->loops * r->n_threads : 1;
    char share[48] = "-";
    const char *bound;
    double least = bench_least_seconds(w, &r->ceiling, &bound);
    if (bench_ceiling_known(&r->ceiling)) snprintf(share, sizeof share, "%.1f %% %s", 100 * least / s, bound);
    printf("| %s | %.0f | %.3f | %.1f %% | %.2f | %.2f | %.2f | %.2f | %s | %.0f | %.2f | %.2f |\n", w->name,
           (double)w->calls / steps, w->seconds / steps * 1e3, 100 * w->seconds / r->work.seconds,
           w->weight_bytes / steps / 1e6, w->cache_bytes / steps / 1e6, bytes_of(w) / s / 1e9,
           operations_of(w) / s / 1e9, share, (double)w->loops / steps, w->wake_s / loops * 1e6,
           w->wait_s / loops * 1e6);
}

void bench_trace_print(const bench_row *r, const char *test) {
    const bench_trace *t = &r->work;
    const bench_ceiling *c = &r->ceiling;
    double steps = t->steps ? (double)t->steps : 1, rest = t->seconds - t->all.seconds;
    printf("\n%s, %d threads, parallel %d: %lld steps of %.1f rows, %.3f ms each.", test, r->n_threads, r->n_parallel,
           (long long)t->steps, (double)t->rows / steps, t->seconds / steps * 1e3);
    if (bench_ceiling_known(c))
        printf(" Ceilings: %.2f GB/s; %.1f F32, %.1f BF16, %.1f Q8 10^9 op/s (%s); an empty loop takes %.2f us.",
               c->read_bytes_per_s / 1e9, c->f32 / 1e9, c->bf16 / 1e9, c->q8 / 1e9, c->level, c->loop_s * 1e6);
    printf("\n\n");
    printf("| operation, per step | calls | ms | share | weights MB | cache MB | GB/s | 10^9 op/s | of its ceiling | "
           "loops | "
           "wake us | wait us |\n");
    printf("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for (int i = 0; i < t->n; i++) print_work(r, &t->groups[i]);
    print_work(r, &t->all);
    printf("| outside of operations | | %.3f | %.1f %% | | | | | | | | |\n", rest / steps * 1e3,
           100 * rest / t->seconds);
}

// ---- JSON ----------------------------------------------------------------------------------------------------------------

static json_t *work_json(const bench_row *r, const bench_work *w) {
    const char *bound;
    double least = bench_least_seconds(w, &r->ceiling, &bound);
    bool known = bench_ceiling_known(&r->ceiling);
    return json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:s?, s:I, s:f, s:f}", "op", w->name, "calls",
                     (json_int_t)w->calls, "seconds", w->seconds, "weight_bytes", w->weight_bytes, "cache_bytes",
                     w->cache_bytes, "f32_ops", w->f32, "bf16_ops", w->bf16, "q8_ops", w->q8, "least_s",
                     known ? json_real(least) : json_null(), "bound", known ? bound : NULL, "loops",
                     (json_int_t)w->loops, "wake_s", w->wake_s, "wait_s", w->wait_s);
}

json_t *bench_trace_json(const bench_row *r) {
    const bench_trace *t = &r->work;
    const bench_ceiling *c = &r->ceiling;
    json_t *ops = json_array();
    for (int i = 0; i < t->n; i++) json_array_append_new(ops, work_json(r, &t->groups[i]));
    json_t *ceilings =
        !bench_ceiling_known(c)
            ? json_null()
            : json_pack("{s:s, s:f, s:f, s:f, s:f, s:f}", "level", c->level, "read_bytes_per_s", c->read_bytes_per_s,
                        "f32_ops_per_s", c->f32, "bf16_ops_per_s", c->bf16, "q8_ops_per_s", c->q8, "loop_s", c->loop_s);
    return json_pack("{s:I, s:I, s:f, s:o, s:o, s:o}", "steps", (json_int_t)t->steps, "rows", (json_int_t)t->rows,
                     "seconds", t->seconds, "ceilings", ceilings, "all", work_json(r, &t->all), "ops", ops);
}
