// A request in the engine: its sequence, its sampler's memory, and the text that has become certain.
#ifndef TALLY_ENGINE_GENERATION_H
#define TALLY_ENGINE_GENERATION_H

#include "engine/speculate.h"
#include "text/utf8_stream.h"

typedef enum finish { FINISH_NONE, FINISH_STOP, FINISH_LENGTH, FINISH_ERROR } finish;

struct tally_generation {
    tally_engine *engine;                           // borrowed; NULL: not linked
    struct tally_generation *next, *prev;           // by arrival
    struct tally_generation *turn_next, *turn_prev; // by last service
    int64_t last_served;                            // number of the step; when it arrived, at first
    sequence seq;
    int n_prompt, max_tokens; // max_tokens: already clipped to the context
    tally_sampling sampling;
    tally_logit_bias *bias; // owned copy
    bool ignore_eos;
    bool keeps_cache; // when done, until closed: started from a session
    int n_logprobs;
    char **stops; // owned copies
    size_t *stop_len;
    int n_stops;
    sampler_history history; // owned
    speculation spec;

    finish finish;
    error error;
    utf8_stream utf8;
    strbuf text;             // whole characters, a possible stop string included
    size_t n_shown;          // bytes of text that are certain
    tally_logprob *logprobs; // owned [tokens][1 + n_logprobs], grown by doubling
    int *n_logprob_entries;  // owned [tokens]
    int cap_logprobs;
    uint64_t t_start, t_first, t_last; // ns; 0: not yet
    int n_chosen;                      // tokens, a stop id included
};

// Joins and leaves the engine's two lists; moves to the end of the turn order.
void generation_link(struct tally_generation *g);
void generation_unlink(struct tally_generation *g);
void generation_served(struct tally_generation *g);

// Of each wanted row of the next step, how many of the largest logits suffice; 0: all are wanted.
int generation_best(const struct tally_generation *g);
// A token was chosen for the generation: stops, text, bookkeeping. logits are those it was chosen from; NULL where
// generation_best said that the largest suffice.
void generation_accept(struct tally_generation *g, int32_t id, const float *logits);
void generation_fail(struct tally_generation *g, const error *why);

#endif
