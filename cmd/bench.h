// What the files of `tally bench` share.
#ifndef TALLY_CMD_BENCH_H
#define TALLY_CMD_BENCH_H

#include "cmd/args.h"
#include "cmd/repetition.h"
#include "tally.h"

enum { BENCH_LIST_MAX = 32 };

typedef struct int_list {
    int n, v[BENCH_LIST_MAX];
} int_list;

// "512,4096" or "1..17" of an option; NULL: one entry, `otherwise`. 0 or an exit code.
int bench_list(const char *option, const char *text, int min, int max, int otherwise, int_list *out);

// What the machine does at best: bytes read, arithmetic operations of each type (a multiplication and an addition are two). All zero: not
// known, as on an NPU, whose limits are not the processor's.
typedef struct bench_ceiling {
    double read_bytes_per_s, f32, bf16, q8;
    double loop_s; // an empty parallel loop
    char level[32];
} bench_ceiling;

// What steps had to do and what they took: operations that are shown as one row, or the sum of all.
typedef struct bench_work {
    char name[64];
    int64_t calls, loops;
    double seconds, weight_bytes, cache_bytes, f32, bf16, q8, wake_s, wait_s;
} bench_work;

typedef struct bench_trace {
    int64_t steps, rows;
    double seconds; // of the repetition, what lies between operations included
    bench_work all;
    bench_work *groups; // owned [n]
    int n;
} bench_trace;

typedef struct bench_row {
    int n_prompt, n_gen; // one of them is 0
    int n_depth, n_threads, n_parallel;
    double *seconds; // owned [n]
    int n;
    bench_ceiling ceiling;                 // with these threads
    bench_trace work;                      // of one repetition
    tally_spec_counts counts;              // of all repetitions, and of the one that warms up
    bool differs;                          // an id was not that of plain greedy decoding
    char repetition[REPETITION_LABEL_MAX]; // of tg rows
} bench_row;

typedef struct bench_report {
    const char *model;
    int64_t weights; // bytes
    int step_rows, chunk_rows;
    bool traced;     // the operations of each row are shown
    bench_row *rows; // owned
    int n_rows;
} bench_report;

// bench_trace.c. Ends the engine's trace and sums it up by kind of operation, or by kind and label. 0 or an exit code.
int bench_trace_take(bench_trace *out, tally_engine *engine, bool by_label, double seconds);
void bench_trace_free(bench_trace *t);
bool bench_ceiling_known(const bench_ceiling *c);
// The least time that the work can take, and which limit that is.
double bench_least_seconds(const bench_work *w, const bench_ceiling *c, const char **bound);
void bench_trace_print(const bench_row *r, const char *test);
struct json_t *bench_trace_json(const bench_row *r);

// tally_session_sync in pieces, between which Ctrl-C counts: TALLY_CANCELLED.
tally_status bench_sync(tally_session *session, const int32_t *ids, int n, tally_error *err);

int bench_report_print(const bench_report *r, bool json); // to standard output; 0 or an exit code
int bench_machine(const options *o);                      // `tally bench --machine`
// What the machine does at best with so many threads at the level that engines take: measured now, or read from --measured. 0 or an exit code.
int bench_limits(const options *o, int threads, tally_machine *out);
const char *bench_sample_text(void);
// The least probability of acceptance for which m - 1 drafts pay when T(m) = ratio T(1): 0 .. 1, NAN when none does.
double bench_break_even(int m, double ratio);
int bench_verify_rows(const options *o); // `tally bench --verify-rows`

#endif
