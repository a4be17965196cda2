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
    // Who holds blocks for convenience only; NULL: nobody does. reclaim gives up one that nobody else holds; false: there is none.
    bool (*reclaim)(void *ctx);
    bool (*reclaimable)(const void *ctx, int block); // whether one of the block's holders is such a one
    void *reclaim_ctx;                               // borrowed
} block_pool;

status block_pool_init(block_pool *p, int n_blocks, error *err);
void block_pool_deinit(block_pool *p);

// Whether n blocks are free, after reclaiming what is missing; nothing is reclaimed if that does not suffice.
bool block_pool_has(block_pool *p, int n);
int block_pool_obtainable(const block_pool *p);  // blocks that are free or can be reclaimed
int block_pool_take(block_pool *p);              // a free block, held once; -1: none is left
void block_pool_share(block_pool *p, int block); // one more holder
void block_pool_give(block_pool *p, int block);  // one holder less; free at none

#endif
