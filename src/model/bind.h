// From a family's weight table to checked entries of the weight set.
#ifndef TALLY_MODEL_BIND_H
#define TALLY_MODEL_BIND_H

#include "model/family.h"

// Finds every weight of the family in the checkpoint (NULL: shapes only, of `plan_type`), checks shapes, and fills layers[n_layers]
// and the once-per-model numbers in *top. Missing, misshapen or surplus tensors are BAD_FILE, named with both shapes.
status bind_weights(model *m, const family *f, const checkpoint *ck, dtype plan_type, layer_weights *top,
                    layer_weights *layers, error *err);

// tp_exact: the largest power of two <= 16 that cuts every SPLIT_REDUCED weight at whole heads and whole quantisation blocks.
int bind_pieces(const model *m);

#endif
