// A model: a configuration, its weights as numbered entries, and the operation list of its forward pass.
//
// model_build reads no numbers: it declares the weights of the family (family.h), finds them in the checkpoint and checks their
// shapes, writes the operation list, and runs the passes. Nothing here knows a backend. With no checkpoint the weights have
// shapes but no data: enough to plan and to count.
#ifndef TALLY_MODEL_MODEL_H
#define TALLY_MODEL_MODEL_H

#include "base/arena.h"
#include "file/checkpoint.h"
#include "file/model_config.h"
#include "op/backend.h"
#include "op/op.h"

typedef struct model {
    arena memory;
    model_config config;
    weight_set weights;
    op_list list;
    cache_desc cache; // types are the engine's choice
    int n_pieces;     // tp_exact: pieces of the sums over split dimensions (docs/exactness.md)
    int64_t n_params; // numbers in live weights, the frequency table aside
} model;

// `ck` may be NULL (plan only; weights count as `plan_type`, or its nearest where that does not fit). `passes`: op/passes.h. The
// checkpoint's tensors must be loaded and outlive the uploads. On failure the model is empty and model_deinit is still allowed.
status model_build(model *m, const model_config *config, const checkpoint *ck, dtype plan_type, unsigned passes,
                   error *err);
void model_deinit(model *m);

// True when the matrices of the layers and the head are all F32, so that F32 is the natural type of its cache.
bool model_is_f32(const model *m);

// Of the matrices of the layers: the first one's.
dtype model_layer_type(const model *m);

#endif
