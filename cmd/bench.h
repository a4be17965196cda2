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

typedef struct bench_row {
    int n_prompt, n_gen; // one of them is 0
    int n_depth, n_threads, n_parallel;
    double *seconds; // owned [n]
    int n;
    double bytes;                          // read from memory in one repetition, at least
    double read_bytes_per_s;               // what the machine can do with these threads
    tally_spec_counts counts;              // of all repetitions, and of the one that warms up
    bool differs;                          // an id was not that of plain greedy decoding
    char repetition[REPETITION_LABEL_MAX]; // of tg rows
} bench_row;

typedef struct bench_report {
    const char *model;
    int64_t weights; // bytes
    int step_rows, chunk_rows;
    bench_row *rows; // owned
    int n_rows;
} bench_report;

void bench_report_print(const bench_report *r, bool json); // to standard output
int bench_machine(const options *o);                       // `tally bench --machine`
const char *bench_sample_text(void);
// The least probability of acceptance for which m - 1 drafts pay when T(m) = ratio T(1): 0 .. 1, NAN when none does.
double bench_break_even(int m, double ratio);
int bench_verify_rows(const options *o); // `tally bench --verify-rows`

#endif
