// The engine's own state, shared by the files of this folder; users see tally.h.
//
//   model_api.c  a model on disk          engine.c      loading, options, memory plan
//   step.c       one step of the device   session.c     sequences under the caller's control
//   generation.c requests and their text  sched.c       which rows a step computes
//   trace.c      what operations take
//   speculate.c  which drafts it verifies verify_step.c what becomes of them
#ifndef TALLY_ENGINE_ENGINE_H
#define TALLY_ENGINE_ENGINE_H

#include "cache/block_table.h"
#include "cache/prefix_index.h"
#include "engine/engine_plan.h"
#include "engine/sampler.h"
#include "file/checkpoint.h"
#include "spec/draft_lookup.h"
#include "spec/draft_policy.h"
#include "spec/drafter.h"
#include "spec/verify.h"
#include "text/chat.h"
#include "text/tokenizer.h"

struct tally_model {
    checkpoint *ck;
    tokenizer *tok;           // NULL: none; why_no_tokenizer says more
    chat_template *chat;      // NULL: none; why_no_chat says more
    chat_template *tool_chat; // for chats with tools; NULL: chat
    bool has_config;
    model_config config; // if has_config; stop_ids joined with the tokenizer's
    error why_no_config, why_no_tokenizer, why_no_chat,
        why_no_tool_chat; // the last: STATUS_OK where tool_chat may be NULL
};

// One sequence: the tokens known, and the cache of a prefix of them.
typedef struct sequence {
    int32_t *token; // owned [context]
    int n_tokens;
    block_table cache; // cache.length <= n_tokens
} sequence;

// A part of a step: the next n_rows tokens of a sequence that are not in its cache yet, and drafts behind them.
typedef struct step_part {
    sequence *seq;
    int n_rows;
    bool all_logits; // of every row; otherwise of the last row, if last_logits
    bool last_logits;
    int best;     // of each wanted row, how many of the largest logits suffice; 0: all are wanted
    bool scratch; // the only part of its step: computed, but neither committed nor counted
    const draft *
        draft; // NULL: none. Rows behind the last known token, with their logits; only the sequence's own are committed
} step_part;

// What became of a part.
typedef struct part_result {
    const float *logits;  // [rows asked for][n_vocab], borrowed until the next step; NULL if none was asked for
    const row_best *best; // [rows asked for] where n > 0 instead of the row of logits; NULL: all rows are there
    int draft_row;        // the step's row of draft 0, whose fault is not the part's: engine_row_fault
    error fault; // code STATUS_OK, or STATUS_NON_FINITE with layer and position; the cache is then not committed
} part_result;

// Ranks that compute the same requests together. What rank 0 decides goes to all: drafts, which depend on its clock, and tokens. Every
// step they compare what they committed.
typedef struct rank_group rank_group;
struct rank_group {
    int rank;
    void (*broadcast)(rank_group *r, void *data, size_t n); // rank 0's bytes take the place of the others'
    bool (*agree)(rank_group *r, uint64_t value);           // whether every rank passed the same
};

// What verifying is made of, so that tests can put something wrong in its place.
typedef struct spec_parts {
    verify_result (*walk)(const draft *d, verify_choose *choose, void *ctx);
    verify_choose *choose; // ctx: a verify_step (speculate.h)
    // NULL, or instead of prompt lookup.
    status (*make_drafter)(void *ctx, drafter **out, error *err);
    void *make_ctx; // borrowed
    // The clock, in nanoseconds, that tells what steps and drafts take.
    uint64_t (*now)(void);
} spec_parts;

struct tally_engine {
    const tally_model *source; // borrowed
    uint64_t fingerprint;      // of its tensors
    engine_plan plan;
    block_pool blocks;
    prefix_index prefixes;
    bool reuse_prefixes;
    int n_vocab, context, step_rows, chunk_rows, logit_rows;
    sampler_scratch sampler;
    // the step being built
    int32_t *row_token, *row_pos, *row_slot, *row_parent, *row_seq; // owned [step_rows]
    int32_t *out_row, *out_best;                                    // owned [logit_rows]
    const int32_t **tables;                                         // owned [step_rows]
    step_part *parts;                                               // owned [step_rows]
    struct tally_generation **owners;                               // owned [step_rows]
    part_result *results;                                           // owned [step_rows]
    step_result ran;                                                // borrowed: of the step that ran last
    struct tally_generation *first, *last;                          // live generations, oldest first
    struct tally_generation *turn_first, *turn_last;                // the same, the one served longest ago first
    tally_stats stats;
    struct engine_trace *trace; // owned; NULL: never traced
    // speculation
    tally_speculation speculation; // as decided: zero means zero
    tally_engine *draft_engine;    // borrowed; NULL: none
    lookup_corpus *corpus;         // owned; NULL: none
    spec_parts spec;
    step_times times;
    double model_seconds;           // what a draft of the draft model took lately; 0: none was made
    double reading_seconds;         // what reading a token of a history took it lately, likewise
    policy_request *policy_request; // owned [step_rows], as are the two below: what the policy decides in one step
    struct tally_generation **policy_owner; // likewise; then whom a draft model is asked for
    int *policy_n;                          // and for how many tokens
    float *shadow_logits;                   // owned [n_vocab]; NULL: no shadow checks
    sequence shadow;                        // its table is its own, its tokens are borrowed while a check runs
    rank_group *ranks;                      // borrowed; NULL: one rank
    uint64_t rank_hash;                     // of everything committed
};

void engine_trace_free(tally_engine *e); // trace.c

// STATUS_BAD_ARGUMENT names option, value and range, low and high included.
status engine_in_range(const char *option, int64_t value, int64_t low, int64_t high, error *err);

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
// Whether a row of the step that ran last is not finite; the sentence then is in *out.
bool engine_row_fault(const tally_engine *e, int row, error *out);
// Of the drafts behind a sequence's cache, those on the path become part of it, in their order; the sequence holds their tokens by now.
// The blocks that only the others needed go back.
void engine_commit_drafts(tally_engine *e, sequence *s, const int8_t *path, int n);

// ---- scheduling (sched.c) ------------------------------------------------------------------------------------------------

// Chooses the parts of the next step among live generations, within step_rows and logit_rows: decode rows first, the generation
// served longest ago first, so that none starves; then prompt chunks in order of arrival. Reserves their cache; where blocks run out the youngest gives its own up and is computed again later.
// Returns the number of parts; parts[i] belongs to owner[i].
int sched_choose(tally_engine *e, step_part *parts, struct tally_generation **owner);

#endif
