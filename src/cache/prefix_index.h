// Which full blocks of which token prefixes are in the cache, so that a sequence that starts alike need not compute them again.
//
// An entry is one full block: its KV_BLOCK tokens, and the entry of the block before it. Hashes only find candidates; tokens and
// parent are compared, so a collision cannot hand out a wrong block. The index holds its blocks like any table does; when
// the pool runs dry it gives up the entry used longest ago that no sequence holds and no other entry builds on.
// Because every row's numbers depend on its prefix only, a reused block has the bits that computing it again would give.
#ifndef TALLY_CACHE_PREFIX_INDEX_H
#define TALLY_CACHE_PREFIX_INDEX_H

#include "cache/block_table.h"

typedef struct prefix_index {
    block_pool *pool;             // borrowed
    struct prefix_entry *entries; // owned [pool->n_blocks]; a block has at most one entry, which has the block's number
    int32_t *bucket;              // owned [n_buckets]: first entry, -1: none
    int n_buckets;                // power of two
    uint64_t clock;               // of uses
    int n_held;                   // entries
} prefix_index;

// Registers itself as the pool's reclaimer.
status prefix_index_init(prefix_index *x, block_pool *pool, error *err);
void prefix_index_deinit(prefix_index *x);
void prefix_index_clear(prefix_index *x); // gives every block back

bool prefix_index_holds(const prefix_index *x, int block); // whether one of the block's holders is the index

// Fills an empty table with the longest known run of full blocks of tokens[0 .. n). Returns the positions found.
int prefix_index_adopt(prefix_index *x, block_table *t, const int32_t *tokens, int n);

// Makes the full blocks of a table known; `from` positions were committed (and known) before. A block that is known already takes
// the place of the table's own copy, so that who holds an entry holds those it builds on, and none is stuck beneath a live one.
void prefix_index_add(prefix_index *x, block_table *t, const int32_t *tokens, int from);

#endif
