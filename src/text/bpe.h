// Byte-pair encoding of one piece: of all neighbouring pairs that may merge, the one of lowest rank (leftmost among equals)
// merges first, until none may.
//
// Short pieces are scanned; long ones use a heap, so that time is O(n log n) in the bytes of a piece.
#ifndef TALLY_TEXT_BPE_H
#define TALLY_TEXT_BPE_H

#include <stdint.h>

#include "base/map.h"
#include "base/status.h"
#include "base/str.h"
#include "text/tokenizer.h"

typedef struct bpe_pair {
    int32_t left, right; // left < 0: empty slot
    uint32_t rank;
    int32_t merged;
} bpe_pair;

typedef struct bpe {
    bpe_pair *pairs;       // owned, hash table
    size_t n_slots, count; // n_slots: a power of two, or 0
    int32_t byte_id[256];  // the vocabulary entry of each single byte; -1: none
    int32_t unknown_id;    // stands for bytes without entry; -1: they are left out
    bool fuse_unknown;     // neighbouring unknown bytes become one
    const map *whole;      // bytes to id; a piece found there is one token whatever the merges say. NULL: not looked up
} bpe;

typedef struct bpe_scratch { // of one thread; all zero is a valid start
    struct bpe_symbol *symbols;
    size_t symbols_cap;
    uint64_t *heap;
    size_t heap_len, heap_cap;
} bpe_scratch;

void bpe_init(bpe *b);
void bpe_deinit(bpe *b);
// Makes room for n merges at once. A pair that is already there gets the new rank and result. False: out of memory.
bool bpe_reserve(bpe *b, size_t n);
bool bpe_add_merge(bpe *b, bpe_pair pair);

// Appends the ids of a piece.
status bpe_encode(const bpe *b, bpe_scratch *s, str piece, token_list *out, error *err);
void bpe_scratch_deinit(bpe_scratch *s);

#endif
