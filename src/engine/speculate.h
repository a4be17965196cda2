// Speculation in the engine: per generation the drafters and what is known of them, per step the drafts it verifies (speculate.c) and
// what becomes of them (verify_step.c). Drafts take only rows, logits and cache blocks that no generation needs for its own
// tokens, and touch a sequence only once they are accepted.
#ifndef TALLY_ENGINE_SPECULATE_H
#define TALLY_ENGINE_SPECULATE_H

#include "engine/engine.h"

typedef enum drafter_kind { DRAFTER_LOOKUP, DRAFTER_MODEL, DRAFTER_KINDS } drafter_kind;

typedef struct speculation {
    tally_spec_mode mode;            // never TALLY_SPEC_DEFAULT
    drafter *drafter[DRAFTER_KINDS]; // owned; NULL: none, or one that failed
    draft draft;                     // what the step being built verifies; n = 0: nothing
    double draft_seconds;            // what proposing took for this step, and reading for it
    int model_start;                 // where the draft model is to begin reading the history
    bool asked_model;                // for this step
    int tokens_before;               // tokens known before this step
    draft_policy policy;
    tally_spec_counts counts;
    int since_shadow; // verify steps since the last shadow check
    int n_agreed;     // tokens that the ranks have compared
} speculation;

// The engine's part, from its options; closing what was opened half is fine.
status speculation_open(tally_engine *e, const tally_engine_options *o, error *err);
void speculation_close(tally_engine *e);
// What speculation will allocate with these options, for as many requests at once as they expect; a draft engine has a plan of its own.
int64_t speculation_bytes(const tally_engine_options *o, int context, int n_vocab);

// A generation's drafters. On failure it must still be deinitialised.
status speculation_init(struct tally_generation *g, tally_spec_mode mode, error *err);
void speculation_deinit(speculation *s);

// Gives parts of a step, whose own rows have been reserved, drafts to verify.
void speculation_plan(tally_engine *e, step_part *parts, struct tally_generation **owner, int n);
// The step ran and took so long; its tokens are committed. Teaches the table of step times and the policies.
void speculation_learn(tally_engine *e, const step_part *parts, struct tally_generation **owner, int n, double seconds);

// ---- verify_step.c -------------------------------------------------------------------------------------------------------

// The row whose logits a shadow check is to reproduce.
typedef struct shadow_row {
    struct tally_generation *g; // NULL: none in this step
    int position, n_accepted;
} shadow_row;

typedef struct verify_step { // the context of a choice
    struct tally_generation *g;
    const part_result *result;
    bool failed; // the row on the path is not finite: the generation has ended with an error
} verify_step;

// The choice of a row (verify_choose): the sampler's, accepted by the generation with all it may cause.
int32_t verify_step_choose(void *ctx, int row, bool *stop);

// What a part's rows lead to: tokens, an error, committed drafts. The cache of a generation that ends is kept.
void verify_step_finish(tally_engine *e, struct tally_generation *g, const part_result *r, shadow_row *shadow);
// Computes the row again, alone, and ends its generation if a bit differs.
void verify_step_shadow(tally_engine *e, const shadow_row *shadow);
// Whether all ranks committed the same tokens so far.
status verify_step_agree(tally_engine *e, struct tally_generation **owner, int n, error *err);

#endif
