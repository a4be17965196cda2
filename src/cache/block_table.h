// The cache of one sequence: an ordered list of blocks, and how many positions of them are committed.
//
// reserve makes room and, where a block that will be written is shared with another table, gives this table its own copy; only
// commit changes the length. Blocks beyond the length hold nothing anyone may read.
#ifndef TALLY_CACHE_BLOCK_TABLE_H
#define TALLY_CACHE_BLOCK_TABLE_H

#include <stdbool.h>

#include "cache/block_pool.h"
#include "op/backend.h"

typedef struct block_table {
    block_pool *pool; // borrowed
    backend *device;  // borrowed; copies blocks
    int32_t *block;   // owned [cap]
    int n_blocks, cap;
    int length; // committed positions
} block_table;

status block_table_init(block_table *t, block_pool *pool, backend *device, int max_positions, error *err);
void block_table_deinit(block_table *t); // gives all blocks back

// Blocks that room for positions [length, length + n) takes from the pool.
int block_table_lacks(const block_table *t, int n);
// Room for positions [length, length + n). False when the pool has too few blocks (nothing is taken then).
bool block_table_reserve(block_table *t, int n);
void block_table_commit(block_table *t, int n);
// Forgets positions >= length and gives back the blocks that are then unused.
void block_table_truncate(block_table *t, int length);
// Makes `to` (empty, same pool) hold what `from` has committed, sharing the blocks.
void block_table_fork(block_table *to, const block_table *from);

#endif
