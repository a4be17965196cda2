// Tokens proposed for one verify step: a tree under the last committed token. Drafts never enter a sequence before they are
// verified; nothing but speed depends on what a drafter proposes.
#ifndef TALLY_SPEC_DRAFT_H
#define TALLY_SPEC_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    DRAFT_MAX = 16,     // proposed tokens of one verify step
    DRAFT_CLASSES = 16, // kinds of proposals whose acceptance is counted apart (draft.kind)
};

typedef struct draft {
    int n; // 0: no proposal
    int32_t token[DRAFT_MAX];
    // The earlier node that i continues, or -1: the last committed token. A chain: parent[i] = i - 1.
    int8_t parent[DRAFT_MAX];
    int kind;        // 0 .. DRAFT_CLASSES-1: how sure the drafter is, in its own classes (lookup: the match's length)
} draft;

// Removes what cannot be verified: ids outside 0 .. n_vocab-1, a parent that is not an earlier node, a twin (same parent and token as an
// earlier node), nodes deeper than max_depth or beyond max_nodes, and everything below a removed node. Drafters are not trusted.
void draft_clip(draft *d, int max_nodes, int max_depth, int n_vocab);

// The child of node `at` (-1: the root) that holds `token`; -1: none.
int draft_child(const draft *d, int at, int32_t token);

int draft_depth(const draft *d, int node); // tokens from the root to the node; 0: the root, -1
bool draft_is_chain(const draft *d);

#endif
