// What the files of `tally bench --spec-suite` share.
#ifndef TALLY_CMD_SPEC_SUITE_H
#define TALLY_CMD_SPEC_SUITE_H

#include <jansson.h>

#include "cmd/args.h"
#include "cmd/repetition.h"
#include "cmd/spec_answer.h"
#include "cmd/spec_prompts.h"
#include "tally.h"

enum { ARM_PLAIN, ARM_DRAFTED, N_ARMS };

typedef struct suite_row { // one prompt in one cell
    const spec_prompt *prompt;
    int n_prompt, n_tokens; // tokens of the prompt, of the plain answer
    int n_decode;           // tokens that the times are of
    uint64_t seed;
    uint64_t ids_hash;  // of the plain answer
    double *ms[N_ARMS]; // owned [n_pairs]: from an answer's first token to its last
    int n_pairs;        // that were timed
    bool has_counts;    // `counts` holds those of the timed answers already
    tally_spec_counts counts;
    char label[N_ARMS][REPETITION_LABEL_MAX];
    spec_difference difference; // the first that was seen
} suite_row;

typedef struct suite_cell {
    int threads, parallel, n_gen;
    const options *o;
    const char *spec; // the mode's name
    suite_row *rows;  // owned [n]
    int n;
} suite_cell;

int spec_suite_run(const options *o);

// Median of the pairs' ratios of plain time to drafted time; NAN: nothing was timed.
double suite_ratio(const suite_row *r);
// Tokens per second of an arm, in the median of its times; NAN: nothing was timed.
double suite_speed(const suite_row *r, int arm);
void suite_print(const suite_cell *cell);              // to standard output, as Markdown
void suite_json(const suite_cell *cell, json_t *list); // appends one object for each row

#endif
