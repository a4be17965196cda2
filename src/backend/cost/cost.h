// The cost of operation records, and a backend that runs a list by adding up time instead of computing.
//
// The backend counts for a device described in a file (hardware.h): a step takes the sum of its operations' times, one after the
// other. It needs the weights' shapes and types, not their numbers; logits are zeros. It serves planning, and anything above the
// backends (scheduler, cache, sampler) that wants a step's time rather than its result.
#ifndef TALLY_BACKEND_COST_COST_H
#define TALLY_BACKEND_COST_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "op/backend.h"
#include "op/op_cost.h"

// The parts of a step that costs depend on.
typedef struct cost_step {
    int n_rows, n_out;
    double pairs;     // over rows: positions the row attends to, its own included
    double positions; // over sequences: positions of which keys and values are read, each once
} cost_step;

cost_step cost_step_of(const step_inputs *in);

// Whether an opcode has a row in the table of costs. One without is refused by `supports`.
bool cost_knows(opcode code);

// What record `o` costs in a step, times on `h` included. The opcode must be known.
op_cost cost_of_op(const op *o, const weight_set *weights, const cache_desc *cache, const cost_step *step,
                   const hardware *h);

// What moves between the ranks after record `o` has computed `rows` rows.
typedef struct cost_exchange {
    double calls, bytes; // collectives, and what one rank receives
    double buffer_bytes; // what it keeps them in
    double time_s;
} cost_exchange;
cost_exchange cost_exchange_of(const op *o, const weight_set *weights, double rows, const hardware *h);

// Bytes of keys and values that one position takes in one layer.
int64_t cost_position_bytes(const cache_desc *cache);

// `device`: a name of named_devices.h or a file. The list that runs is the part of one of n_ranks devices.
status cost_backend_create(backend **out, const char *device, int n_ranks, error *err);
const hardware *cost_backend_hardware(const backend *b);
// The costs of the last run; borrowed until the next one.
const step_cost *cost_backend_last(const backend *b);

#endif
