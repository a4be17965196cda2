// tally bench --machine: the limits beside which speeds are read.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpuinfo.h"
#include "cmd/bench.h"
#include "cmd/build_commit.h"
#include "cmd/common.h"

static json_t *machine_json(const tally_machine *m) {
    char cpu[128];
    json_t *levels = json_array();
    for (int i = 0; i < m->n_levels; i++) {
        const tally_level_speed *l = &m->levels[i];
        json_array_append_new(levels, json_pack("{s:s, s:f, s:f, s:f}", "level", l->level, "f32_mul_add_per_s", l->f32,
                                                "bf16_mul_add_per_s", l->bf16, "q8_mul_add_per_s", l->q8));
    }
    return json_pack("{s:s, s:s, s:i, s:f, s:f, s:o}", "build_commit", build_commit(), "cpu_info",
                     cpu_model_name(cpu, sizeof cpu), "n_threads", m->threads, "read_bytes_per_s", m->read_bytes_per_s,
                     "loop_s", m->loop_s, "levels", levels);
}

static void print_machine(const tally_machine *m, bool first) {
    if (first) {
        printf("| threads | level | read GB/s | empty loop, us | F32 | BF16 | Q8_0 (10^9 multiply-adds/s) |\n");
        printf("| ---: | --- | ---: | ---: | ---: | ---: | ---: |\n");
    }
    for (int i = 0; i < m->n_levels; i++) {
        const tally_level_speed *l = &m->levels[i];
        printf("| %d | %s | %.2f | %.2f | %.1f | %.1f | %.1f |\n", m->threads, l->level, m->read_bytes_per_s / 1e9,
               m->loop_s * 1e6, l->f32 / 1e9, l->bf16 / 1e9, l->q8 / 1e9);
    }
}

int bench_machine(const options *o) {
    int_list threads;
    int rc = bench_list("-t", o->bench_threads, 1, 1024, 1, &threads);
    if (rc) return rc;
    int cores = cpu_physical_cores();
    if (!o->bench_threads && cores > 1) threads.v[threads.n++] = cores;
    bool json = o->bench_format && strcmp(o->bench_format, "json") == 0;
    json_t *list = json_array();
    for (int i = 0; i < threads.n && !rc; i++) {
        tally_machine m;
        tally_error err;
        if (tally_measure_machine(threads.v[i], "all", &m, &err) != TALLY_OK) {
            rc = fail_with(&err);
        } else if (json) {
            json_array_append_new(list, machine_json(&m));
        } else {
            print_machine(&m, i == 0);
        }
    }
    if (!rc && json) {
        json_dumpf(list, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        putchar('\n');
    }
    json_decref(list);
    return rc;
}

// ---- limits measured before ------------------------------------------------------------------------------------------------

static double limit(const json_t *o, const char *name) { return json_number_value(json_object_get(o, name)); }

static bool is_text(const json_t *o, const char *name, const char *text) {
    const char *found = json_string_value(json_object_get(o, name));
    return found && strcmp(found, text) == 0;
}

static bool find_limits(const json_t *list, const char *level, tally_machine *m) {
    char cpu[128];
    size_t i, k;
    const json_t *row, *l;
    json_array_foreach(list, i, row) {
        if (!is_text(row, "cpu_info", cpu_model_name(cpu, sizeof cpu))) continue;
        if (json_integer_value(json_object_get(row, "n_threads")) != m->threads) continue;
        m->read_bytes_per_s = limit(row, "read_bytes_per_s");
        m->loop_s = limit(row, "loop_s");
        json_array_foreach(json_object_get(row, "levels"), k, l) {
            if (!is_text(l, "level", level)) continue;
            m->n_levels = 1;
            m->levels[0] = (tally_level_speed){level, limit(l, "f32_mul_add_per_s"), limit(l, "bf16_mul_add_per_s"),
                                               limit(l, "q8_mul_add_per_s")};
            return m->read_bytes_per_s > 0 && m->levels[0].f32 > 0 && m->levels[0].bf16 > 0 && m->levels[0].q8 > 0;
        }
    }
    return false;
}

int bench_limits(const options *o, int threads, tally_machine *out) {
    tally_error err;
    if (!o->measured) {
        const char *level = o->cpu_level ? o->cpu_level : "best";
        return tally_measure_machine(threads, level, out, &err) == TALLY_OK ? 0 : fail_with(&err);
    }
    const char *level = o->cpu_level ? o->cpu_level : cpu_level_name(cpu_level_best());
    char *text;
    size_t len;
    int rc = read_file(o->measured, &text, &len);
    if (rc) return rc;
    *out = (tally_machine){.threads = threads ? threads : cpu_physical_cores()};
    json_t *list = json_loadb(text, len, 0, NULL);
    if (!find_limits(list, level, out))
        rc = fail("%s does not hold what this processor does with %d threads at level %s; write it with tally bench "
                  "--machine -t %d -o json",
                  o->measured, out->threads, level, out->threads);
    json_decref(list);
    free(text);
    return rc;
}
