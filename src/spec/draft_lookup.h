// Prompt lookup: proposes what followed an earlier occurrence of the last tokens, in the request's own history or in those of finished
// requests (spec/lookup_corpus.h).
//
// The rule. For length L from max down to min: if the last L tokens occurred before in the history (ending earlier than its end; they may
// overlap themselves), what followed the most recent occurrence is the proposal. If that text runs into the end of the history it goes on
// from the occurrence again, so that "a b a b" proposes "a b a b ..." for as long as asked. If not, the corpus is asked for the same L: the
// most recent occurrence there, up to the end of its request. Then the next L. No match of min tokens: no proposal.
// draft.kind is lookup_kind(tokens matched, where), the match extended backwards to LOOKUP_EXTEND tokens at most: for the class only.
//
// A tree: of each length's occurrences, own then corpus, the most recent for each following token, LOOKUP_WAYS of them at most, as long as
// there are fewer than LOOKUP_BRANCHES. The k-th continuation's node at depth j (both from 0) gets h_k^(j+1) (1 - h_0) ... (1 - h_(k-1)),
// where h is draft_policy_prior of its own match's class; where continuations agree, nodes are one and the sums count. The max_nodes nodes
// that got most are proposed, most first. draft.kind is the first continuation's.
//
// An index of the history (one hash table a length, slots checked against the tokens) is brought up to date at every call: O(max) a new
// token, O(max_nodes) a proposal, whatever the text. Memory is fixed at creation by `context`; tokens beyond it are not indexed.
#ifndef TALLY_SPEC_DRAFT_LOOKUP_H
#define TALLY_SPEC_DRAFT_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>

#include "spec/drafter.h"
#include "spec/lookup_corpus.h"

enum {
    LOOKUP_EXTEND = 32,   // tokens of a match that are counted
    LOOKUP_MAX_GRAM = 16, // the longest length
    LOOKUP_BRANCHES = 12, // continuations that a tree is made of
};

typedef struct lookup_options {
    int min, max; // lengths tried, 1 <= min <= max <= LOOKUP_MAX_GRAM
    int context;  // tokens of history that are indexed
    bool tree;    // several continuations, not one
} lookup_options;

// corpus: NULL, or what requests of this engine share; it must live longer than the drafter and hold lengths min .. max (those it lacks
// are looked for in the own history only).
status draft_lookup_create(drafter **out, const lookup_options *o, lookup_corpus *corpus, error *err);

// What a drafter created so allocates, in bytes; the corpus not counted.
size_t draft_lookup_bytes(const lookup_options *o);

// The class of a match of n >= 1 tokens: DRAFT_OWN + 0..9 or DRAFT_CORPUS + 0..5, rising with n.
int lookup_kind(int n, bool from_corpus);

#endif
