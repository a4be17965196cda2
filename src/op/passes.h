// Passes: rewrites of a list that change its cost and not one bit of its results.
//
// They run after a model has built its list and before the plan. Each can be left out; on the CPU the fused and the unfused list
// are bit-equal (tests/ops).
#ifndef TALLY_OP_PASSES_H
#define TALLY_OP_PASSES_H

#include "op/op.h"

enum {
    PASS_MERGE_LINEAR = 1,  // neighbouring projections of one input become one, with a merged weight: q/k/v, gate/up
    PASS_FUSE_ADD_NORM = 2, // ADD followed by the RMS_NORM of its result becomes ADD_RMS_NORM
    PASS_FUSE_SWIGLU = 4,   // SWIGLU of a merged gate/up projection becomes part of it: both halves are never written
    PASS_LAST_ROWS =
        32, // no rewrite: the model writes its last layer so that only wanted rows go on behind attention (model/blocks.c)
    PASS_ALL = PASS_MERGE_LINEAR | PASS_FUSE_ADD_NORM | PASS_FUSE_SWIGLU | PASS_LAST_ROWS,
    // Of PASS_MERGE_LINEAR, for devices whose operators take strides in part:
    PASS_MERGE_GATED = 8,   // gate/up
    PASS_MERGE_NORMED = 16, // q/k/v where q and k go to norms and v into the cache, not where they are rotated in place
};

status passes_run(op_list *g, unsigned passes);

#endif
