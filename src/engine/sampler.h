// From logits to a token: a pure function of the logits, the request's parameters, what was generated, and (seed, sample, position).
//
// Order (docs/exactness.md): penalties (repetition over prompt and output; presence, frequency over output), logit bias,
// temperature, top-k, top-p, min-p. Temperature 0 takes the largest, the lowest id among equals. Otherwise u picks by inverse CDF
// over (probability descending, id ascending), sums in double.
#ifndef TALLY_ENGINE_SAMPLER_H
#define TALLY_ENGINE_SAMPLER_H

#include <stdint.h>

#include "base/status.h"
#include "tally.h"

// What the penalties know. Owned arrays of n_vocab counts, NULL when the request uses no penalty.
typedef struct sampler_history {
    int32_t *prompt, *output; // how often each id occurs
} sampler_history;

typedef struct sampler_scratch {          // one per engine; sized for the vocabulary
    float *logits;                        // [n_vocab]
    struct sampler_candidate *candidates; // [n_vocab]
    int n_vocab;
} sampler_scratch;

status sampler_scratch_init(sampler_scratch *s, int n_vocab, error *err);
void sampler_scratch_deinit(sampler_scratch *s);

// Checks ranges and ids of a request's parameters; the message names field, value and range.
status sampler_check(const tally_sampling *p, int n_vocab, error *err);
bool sampler_needs_history(const tally_sampling *p);

// The token at absolute index `position`. Logits are finite, [n_vocab], and are not changed.
int32_t sampler_choose(const tally_sampling *p, const float *logits, const sampler_history *history, uint64_t position,
                       sampler_scratch *scratch);

// out[0]: the chosen token; out[1 .. n]: the n best by logit (lowest id among equals), n clipped to n_vocab. Natural logarithms of
// the softmax of the untouched logits. Returns how many entries were written.
int sampler_logprobs(const float *logits, int32_t chosen, int n, tally_logprob *out, sampler_scratch *scratch);

// How many of the largest logits the token depends on; 0: on all of them.
int sampler_best(const tally_sampling *p, int n_vocab);

// The token that sampler_choose gives, from the sampler_best(p) largest logits: descending, ids ascending among equals.
int32_t sampler_choose_best(const tally_sampling *p, const int32_t *ids, const float *logits, uint64_t position,
                            sampler_scratch *scratch);

// The largest logit's id, the lowest among equals.
int32_t sampler_argmax(const float *logits, int n);

#endif
