// Rotation frequencies of every scaling the families use. Formulas: docs/models/rope.md.
#ifndef TALLY_MODEL_ROPE_H
#define TALLY_MODEL_ROPE_H

#include "file/model_config.h"

// Writes config->dim / 2 inverse frequencies (radians per position).
// Computed in double without libm, rounded to f32 once, so that all machines agree. `divisors` (dim / 2, or NULL) are the
// per-frequency divisors that GGUF files of Llama 3 carry.
void rope_frequencies(const rope_config *config, const float *divisors, float *inv_freq);

#endif
