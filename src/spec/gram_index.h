// Where n-grams of a growing text occurred: for each length one hash table, from the gram to the place behind its most recent occurrence,
// or behind the most recent for each following token. Hits are checked against the text, so that a table's answer is always true.
// A place is the position of the token that follows; positions fit into 31 bits.
#ifndef TALLY_SPEC_GRAM_INDEX_H
#define TALLY_SPEC_GRAM_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { GRAM_MAX = 16 }; // the longest gram

// A text that keeps its last mask + 1 tokens: position p is token[p & mask].
typedef struct gram_text {
    const int32_t *token;
    uint32_t mask;
} gram_text;

typedef struct gram_key {
    const int32_t *token; // [length]
    int length;
    uint32_t tag; // gram_tag of them
} gram_key;

typedef struct gram_index {
    int min, max, ways;
    int bits; // 2^bits slots a length
    uint32_t
        *slot; // [max - min + 1][2^bits][1 + ways]: tag (0: free), places + 1, most recent first, 0 behind the last
} gram_index;

// Room for n grams a length, half of the slots free. ways: occurrences kept, each with another token behind it.
size_t gram_index_bytes(int min, int max, int ways, int n);
status gram_index_create(gram_index *x, int min, int max, int ways, int n, error *err);
void gram_index_destroy(gram_index *x);
void gram_index_clear(gram_index *x);

// tag[L] for L = 1 .. max: of the L tokens before `end`.
void gram_tags(const int32_t *end, int max, uint32_t *tag);

// The gram occurred with the token at `place` behind it, which is in the text already; more recent than all that was added.
void gram_index_add(gram_index *x, gram_text text, gram_key key, uint32_t place);
// Forgets the occurrence before `place`, whose tokens are still in the text.
void gram_index_remove(gram_index *x, gram_text text, gram_key key, uint32_t place);
// Up to max_places places, most recent first; returns their number.
int gram_index_find(const gram_index *x, gram_text text, gram_key key, uint32_t *place, int max_places);

#endif
