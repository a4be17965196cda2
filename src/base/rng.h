// Counter-based random numbers: a pure function of (seed, sequence, position), so that a token's draw does not depend on when,
// in which batch, or after how many drafts it is made. Philox-4x32-10 (Salmon et al. 2011).
#ifndef TALLY_BASE_RNG_H
#define TALLY_BASE_RNG_H

#include <stdint.h>

// Uniform in [0, 1), 53 bits. sequence: index of the sample within its request; position: absolute index of the token drawn.
double rng_uniform(uint64_t seed, uint32_t sequence, uint64_t position);

// Four words from a 128-bit counter and a 64-bit key; exposed for its published test vectors.
void rng_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
