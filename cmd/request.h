// Options to a request of the library.
#ifndef TALLY_CMD_REQUEST_H
#define TALLY_CMD_REQUEST_H

#include "cmd/args.h"
#include "tally.h"

// --logit-bias: one entry each and one to spare, owned by the caller (free); NULL after a failure. 0 or an exit code.
int request_biases(const options *o, tally_logit_bias **out);
// The seed asked for, or for SEED_RANDOM one from the system. 0 or an exit code.
int request_seed(int64_t asked, int64_t *seed);
// Everything but the prompt. Stops and biases are borrowed.
tally_request request_from_options(const options *o, const tally_logit_bias *bias, int64_t seed);

#endif
