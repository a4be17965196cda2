// The engine's own state, shared by the files of this folder; users see tally.h.
//
//   model_api.c  a model on disk          engine.c      loading, options, memory plan
//   step.c       one step of the device   session.c     sequences under the caller's control
//   generation.c requests and their text  sched.c       which rows a step computes
//   trace.c      what operations take
#ifndef TALLY_ENGINE_ENGINE_H
#define TALLY_ENGINE_ENGINE_H

#include "cache/block_table.h"
#include "cache/prefix_index.h"
#include "engine/engine_plan.h"
#include "engine/sampler.h"
#include "file/checkpoint.h"
#include "text/chat.h"
#include "text/tokenizer.h"

struct tally_model {
    checkpoint *ck;
    tokenizer *tok;      // NULL: none; why_no_tokenizer says more
    chat_template *chat; // NULL: none; why_no_chat says more
    bool has_config;
    model_config config; // if has_config; stop_ids joined with the tokenizer's
    error why_no_config, why_no_tokenizer, why_no_chat;
};

// One sequence: the tokens known, and the cache of a prefix of them.
typedef struct sequence {
    int32_t *token; // owned [context]
    int n_tokens;
    block_table cache; // cache.length <= n_tokens
} sequence;

// A part of a step: the next n_rows tokens of a sequence that are not in its cache yet.
typedef struct step_part {
    sequence *seq;
    int n_rows;
    bool all_logits; // of every row; otherwise of the last row, if last_logits
    bool last_logits;
} step_part;

// What became of a part.
typedef struct part_result {
    const float *logits; // [rows asked for][n_vocab], borrowed until the next step; NULL if none was asked for
    error fault; // code STATUS_OK, or STATUS_NON_FINITE with layer and position; the cache is then not committed
} part_result;

struct tally_engine {
    const tally_model *source; // borrowed
    engine_plan plan;
    block_pool blocks;
    prefix_index prefixes;
    bool reuse_prefixes;
    int n_vocab, context, step_rows, chunk_rows, logit_rows;
    sampler_scratch sampler;
    // the step being built
    int32_t *row_token, *row_pos, *row_seq, *out_row; // owned [step_rows], out_row [logit_rows]
    const int32_t **tables;                           // owned [step_rows]
    step_part *parts;                                 // owned [step_rows]
    struct tally_generation **owners;                 // owned [step_rows]
    part_result *results;                             // owned [step_rows]
    struct tally_generation *first, *last;            // live generations, oldest first
    struct tally_generation *turn_first, *turn_last;  // the same, the one served longest ago first
    tally_stats stats;
    struct engine_trace *trace; // owned; NULL: never traced
};

void engine_trace_free(tally_engine *e); // trace.c

// ---- sequences and steps (step.c) ----------------------------------------------------------------------------------------

status sequence_init(sequence *s, tally_engine *e, error *err);
void sequence_deinit(sequence *s);
// An empty cache takes the blocks of a known prefix, all but the last token's (whose logits are still to be computed).
void sequence_adopt_prefix(tally_engine *e, sequence *s);
// Checks ids against the vocabulary and appends them; STATUS_FULL names length and context.
status sequence_append(const tally_engine *e, sequence *s, const int32_t *ids, int n, error *err);

// What a session and a generation know of each other (session.c). The session is cut to what it shares with s->token, and s, whose
// cache is empty, takes that cache, all but the last token's. Returns the positions taken.
int session_lend(struct tally_session *session, sequence *s);
const tally_engine *session_engine(const struct tally_session *session);

// Runs the parts as one step: at most step_rows rows and logit_rows wanted rows in all, at least one row each. Their cache must have
// been reserved. On success every part without a fault is committed.
status engine_run_parts(tally_engine *e, const step_part *parts, int n_parts, part_result *results, error *err);

// ---- scheduling (sched.c) ------------------------------------------------------------------------------------------------

// Chooses the parts of the next step among live generations, within step_rows and logit_rows: decode rows first, the generation
// served longest ago first, so that none starves; then prompt chunks in order of arrival. Reserves their cache; where blocks run out the youngest gives its own up and is computed again later.
// Returns the number of parts; parts[i] belongs to owner[i].
int sched_choose(tally_engine *e, step_part *parts, struct tally_generation **owner);

#endif
