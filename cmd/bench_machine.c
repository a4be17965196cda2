// tally bench --machine: the limits beside which speeds are read.
#include <jansson.h>
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
