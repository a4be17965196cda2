// The memory plan of a list: where each temporary lives in one workspace, so that a step allocates nothing.
//
// Two temporaries whose lifetimes (first writer to last reader, both included) do not overlap may share bytes; offsets are found
// first-fit, largest first, and are multiples of 64.
#ifndef TALLY_OP_PLAN_H
#define TALLY_OP_PLAN_H

#include "op/op.h"

// Fills first, last and offset of every temporary for steps of at most max_rows rows and max_out wanted rows, and returns the
// workspace's size in *bytes. A temporary that is read before it is written is STATUS_INTERNAL.
status plan_memory(op_list *g, int64_t max_rows, int64_t max_out, int64_t *bytes, error *err);

#endif
