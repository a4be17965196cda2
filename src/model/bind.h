// From a family's weight table to checked entries of the weight set.
#ifndef TALLY_MODEL_BIND_H
#define TALLY_MODEL_BIND_H

#include "model/family.h"

// The numbers, in the weight set, of a model's weights.
typedef struct bound_weights {
    layer_weights top;     // once per model
    layer_weights *layers; // [n_layers], in the model's arena
} bound_weights;

// Finds every weight of the family in the checkpoint (NULL: shapes only, of `plan_type`) and checks shapes. Missing, misshapen or
// surplus tensors are BAD_FILE or UNSUPPORTED, named with both shapes.
status bind_weights(model *m, const family *f, const checkpoint *ck, dtype plan_type, bound_weights *out, error *err);

// tp_exact: the largest power of two <= 16 that cuts every SPLIT_REDUCED weight at whole heads and whole quantisation blocks.
int bind_pieces(const model *m);

#endif
