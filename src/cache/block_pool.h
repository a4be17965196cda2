// The pool of cache blocks: which are free, and how many tables hold each of the others.
//
// The pool knows numbers only; the bytes are the backend's. Used by the engine's thread.
#ifndef TALLY_CACHE_BLOCK_POOL_H
#define TALLY_CACHE_BLOCK_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct block_pool {
    int n_blocks, n_free;
    int32_t *free_list; // owned [n_blocks]; the first n_free entries
    int32_t *holders;   // owned [n_blocks]
    // Gives up one block that is held for convenience only; false when there is none. NULL: nobody holds such blocks.
    bool (*reclaim)(void *ctx);
    void *reclaim_ctx; // borrowed
} block_pool;

status block_pool_init(block_pool *p, int n_blocks, error *err);
void block_pool_deinit(block_pool *p);

// Whether n blocks are free, after reclaiming what can be.
bool block_pool_has(block_pool *p, int n);
int block_pool_take(block_pool *p);              // a free block, held once; -1: none is left
void block_pool_share(block_pool *p, int block); // one more holder
void block_pool_give(block_pool *p, int block);  // one holder less; free at none

#endif
