// A drafter that asks a smaller model: it keeps a sequence of its own in the draft engine, makes it equal to the history at every call and
// goes on from there, one step of the draft engine for each draft. Proposals for several requests are made in common steps.
//
// Drafts are drawn as the target would draw them: the target's sampling parameters and the same random number for the position, so that two
// models of one mind draw the same token. Penalties see the committed tokens, not this proposal's own drafts.
// draft.kind is DRAFT_MODEL + 0..3 by the draft model's probability of the first token. What is drafted and then rejected is cut off the sequence;
// what is accepted has been computed already. It may be told to read the last part of a long history only (follow): that costs less, and drafts
// are none the less valid. A tree has, beside a draft of probability below DRAFT_MODEL_UNSURE, the likeliest other token.
#ifndef TALLY_ENGINE_DRAFT_MODEL_H
#define TALLY_ENGINE_DRAFT_MODEL_H

#include "engine/sampler.h"
#include "file/model_config.h"
#include "spec/drafter.h"

typedef struct draft_model_options {
    const tally_sampling *sampling; // of the request; borrowed, as is the next
    const sampler_history *history; // of committed tokens; used if the sampling has penalties
    int n_vocab;                    // of the target: no other ids are drafted
    bool tree;                      // a runner-up where the model is unsure
    bool stops_early;               // as soon as it is unlikely that all drafts so far are right
} draft_model_options;

// Below these probabilities a draft gets a neighbour, and a proposal ends (all its drafts together). The second is where a further draft
// stops paying if making and verifying it takes about 0.4 of a plain step: a guess that fits a draft model of a third of the size.
#define DRAFT_MODEL_UNSURE 0.6
#define DRAFT_MODEL_STOP 0.4

// Whether a model can draft for another: all ids that both tokenizers define have the same bytes. STATUS_BAD_ARGUMENT names the first that
// has not. Models without tokenizers must have equally many ids.
status draft_model_check(const tally_model *target, const tally_model *smaller, error *err);

// e: the draft engine, borrowed. Its errors (no blocks left, numbers that are not finite, an id it does not know) are propose's. Beyond the
// draft engine's context nothing is proposed.
status draft_model_create(drafter **out, tally_engine *e, const draft_model_options *o, error *err);

#endif
