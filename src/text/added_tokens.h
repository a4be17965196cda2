// Added tokens: strings that become one id wherever they stand in the text, before it is cut and merged.
//
// As in Hugging Face tokenizers: leftmost first, of those the longest; tokens with `normalized` false are found in the text as it
// is, the others in what normalisation made of it.
#ifndef TALLY_TEXT_ADDED_TOKENS_H
#define TALLY_TEXT_ADDED_TOKENS_H

#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

typedef struct added_token {
    str content; // borrowed
    int32_t id;
    bool special;        // control token: found only where special tokens are parsed
    bool single_word;    // not inside a word
    bool lstrip, rstrip; // takes white space on that side along
    bool normalized;
} added_token;

// A trie over contents: children of a node are a list.
typedef struct added_node {
    int32_t child, sibling; // 0: none (the root is no child)
    int32_t token;          // index of the token that ends here; -1: none
    unsigned char byte;
} added_node;

typedef struct added_set {
    const added_token *tokens; // borrowed
    added_node *nodes;         // owned; [0] is the root
    size_t n_nodes, cap;
    int32_t first[256]; // node for each first byte; 0: no token starts so
} added_set;

void added_set_init(added_set *s, const added_token *tokens);
void added_set_deinit(added_set *s);
// Adds tokens[index] under `content` (its own or its normalised one). The first of equal contents stays. False: out of memory.
bool added_set_add(added_set *s, int index, str content);

typedef struct added_match {
    int token;         // index
    size_t start, end; // bytes of the content itself
} added_match;
// The first match at or after `from`.
bool added_set_find(const added_set *s, str text, size_t from, added_match *m);

// What a match takes of the text once single_word, lstrip and rstrip are minded: false when the token may not stand here.
// `floor` is where the match before ended.
bool added_token_extent(const added_token *t, str text, size_t floor, const added_match *m, size_t *start, size_t *end);

#endif
