// Parts of a plan's JSON: what fills a device's memory, and what one of several ranks holds.
#ifndef TALLY_ENGINE_PLAN_TABLES_H
#define TALLY_ENGINE_PLAN_TABLES_H

#include <jansson.h>

#include "model/model.h"

// [{"kind", "bytes", "whole_bytes"}]: live weights by kind, then cache and workspace; what every rank holds the same in whole_bytes.
typedef struct memory_use {
    int64_t cache, temporaries, exchange; // bytes
} memory_use;
json_t *plan_memory_json(const model *m, const backend *device, const memory_use *use);

// The share of one rank, of n_ranks that compute `whole` (`one` has that rank's configuration).
json_t *plan_ranks_json(const model *whole, const model *one, int n_ranks);

// A rank's slice must be made of whole blocks of the type that its weight has: STATUS_BAD_ARGUMENT where one is not.
status plan_check_slices(const model *whole, const model *one, int n_ranks, error *err);

#endif
