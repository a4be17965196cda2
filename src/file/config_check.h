// What both readers of configurations do at their end.
#ifndef TALLY_FILE_CONFIG_CHECK_H
#define TALLY_FILE_CONFIG_CHECK_H

#include "base/status.h"
#include "file/model_config.h"

// Limits that no real model comes near, so that sizes computed from a configuration cannot overflow.
enum { MAX_WIDTH = 1 << 24, MAX_HEADS = 1 << 16, MAX_EXPERTS = 1 << 16 };

// Checks that the numbers go together; `where` (a file) begins the sentence.
status config_check(const model_config *c, const char *where, error *err);

// Adds a stop id unless it is there already. What no vocabulary of n_vocab tokens has (-1 is in use for "none") is left
// out: it cannot be sampled.
status config_add_stop_id(model_config *c, int64_t id, const char *where, error *err);

// yarn's factor on cosine and sine where the file gives none: 0.1 ln(factor) + 1, and 1 for factor <= 1.
double config_yarn_attention_factor(double factor, double mscale);

// The context that yarn stretches to, original times factor, where that is more than the file's own number: Qwen's recipe adds the scaling
// and leaves max_position_embeddings as it was.
void config_yarn_context(model_config *c);

#endif
