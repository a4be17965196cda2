// One rank's part of a model that several devices compute together.
//
// Cut as the weight tables declare (weight_split): q, k, v and what is computed per head by heads; gate and up by columns, o and down by
// the same columns of the dimension they reduce; every expert likewise, so that each rank holds a slice of all of them; the head by rows
// of the vocabulary. Embedding, norms, routers and biases of reduced sums are whole on every rank.
#ifndef TALLY_MODEL_RANK_H
#define TALLY_MODEL_RANK_H

#include "base/status.h"
#include "file/model_config.h"

// The configuration of rank 0 of n_ranks: model_build with it, without a checkpoint, declares what that rank holds and does.
// Key/value heads fewer than ranks are held by n_ranks / n_kv_heads ranks each. Of a vocabulary that n_ranks does not divide, the first
// ranks hold a row more. STATUS_BAD_ARGUMENT where anything else is not divisible, with the numbers.
status rank_config(const model_config *whole, int n_ranks, model_config *one, error *err);

#endif
