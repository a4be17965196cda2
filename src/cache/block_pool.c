#include "cache/block_pool.h"

#include <assert.h>
#include <stdlib.h>

status block_pool_init(block_pool *p, int n_blocks, error *err) {
    *p = (block_pool){.n_blocks = n_blocks, .n_free = n_blocks};
    p->free_list = malloc((size_t)n_blocks * sizeof *p->free_list);
    p->holders = calloc((size_t)n_blocks, sizeof *p->holders);
    if (!p->free_list || !p->holders) {
        block_pool_deinit(p);
        return error_no_memory(err, (unsigned long long)n_blocks * 2 * sizeof *p->holders);
    }
    for (int i = 0; i < n_blocks; i++) p->free_list[i] = n_blocks - 1 - i; // taken from the end: low numbers first
    return STATUS_OK;
}

void block_pool_deinit(block_pool *p) {
    free(p->free_list);
    free(p->holders);
    *p = (block_pool){0};
}

int block_pool_obtainable(const block_pool *p) {
    int n = 0;
    for (int i = 0; i < p->n_blocks; i++)
        n += p->holders[i] == 0 || (p->holders[i] == 1 && p->reclaim && p->reclaimable(p->reclaim_ctx, i));
    return n;
}

bool block_pool_has(block_pool *p, int n) {
    if (p->n_free < n && block_pool_obtainable(p) < n) return false;
    while (p->n_free < n && p->reclaim && p->reclaim(p->reclaim_ctx)) continue;
    return p->n_free >= n;
}

int block_pool_take(block_pool *p) {
    if (p->n_free == 0) return -1;
    int block = p->free_list[--p->n_free];
    p->holders[block] = 1;
    return block;
}

void block_pool_share(block_pool *p, int block) {
    assert(p->holders[block] > 0);
    p->holders[block]++;
}

void block_pool_give(block_pool *p, int block) {
    assert(p->holders[block] > 0);
    if (--p->holders[block] == 0) p->free_list[p->n_free++] = block;
}
