// A finished generation as the JSON object that `run --json` and `run --requests` print.
#ifndef TALLY_CMD_RESULT_JSON_H
#define TALLY_CMD_RESULT_JSON_H

#include <jansson.h>

#include "tally.h"

typedef struct result_source {
    const tally_model *model;
    const tally_generation *generation;
    const int32_t *prompt;
    size_t n_prompt;
    int64_t seed;
    int logprobs; // 0: not asked for
    double load_ms;
} result_source;

// NULL when memory ran out.
json_t *result_json(const result_source *r);

// 9 digits give a float32 back exactly.
#define RESULT_JSON_FLAGS JSON_REAL_PRECISION(9)

#endif
