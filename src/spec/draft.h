// Tokens proposed for one verify step: a tree under the last committed token. Drafts never enter a sequence before they are
// verified; nothing but speed depends on what a drafter proposes.
#ifndef TALLY_SPEC_DRAFT_H
#define TALLY_SPEC_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    DRAFT_MAX = 16, // proposed tokens of one verify step
};

// Kinds of proposals whose acceptance is counted apart (draft.kind): a drafter's range, and in it how sure it is, rising.
enum {
    DRAFT_OWN = 0,     // lookup in the request's own text, by the match's length: 10 classes
    DRAFT_CORPUS = 10, // lookup in other requests' texts: 6
    DRAFT_MODEL = 16,  // a draft model, by its probability of the first token if it knows it: 4
    DRAFT_CLASSES = 20,
};

typedef struct draft {
    int n; // 0: no proposal
    int32_t token[DRAFT_MAX];
    // The earlier node that i continues, or -1: the last committed token. A chain: parent[i] = i - 1.
    int8_t parent[DRAFT_MAX];
    int kind; // 0 .. DRAFT_CLASSES-1
} draft;

// Removes what cannot be verified: ids outside 0 .. n_vocab-1, a parent that is not an earlier node, a twin (same parent and token as an
// earlier node), nodes deeper than max_depth or beyond max_nodes, and everything below a removed node. Drafters are not trusted.
void draft_clip(draft *d, int max_nodes, int max_depth, int n_vocab);

// The child of node `at` (-1: the root) that holds `token`; -1: none.
int draft_child(const draft *d, int at, int32_t token);

int draft_depth(const draft *d, int node); // tokens from the root to the node; 0: the root, -1
bool draft_is_chain(const draft *d);

#endif
