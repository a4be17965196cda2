#include "cache/block_table.h"

#include <assert.h>
#include <stdlib.h>

static int blocks_for(int positions) { return (positions + KV_BLOCK - 1) / KV_BLOCK; }

status block_table_init(block_table *t, block_pool *pool, backend *device, int max_positions, error *err) {
    *t = (block_table){.pool = pool, .device = device, .cap = blocks_for(max_positions)};
    t->block = malloc((size_t)t->cap * sizeof *t->block + 1);
    return t->block ? STATUS_OK : error_no_memory(err, (unsigned long long)t->cap * sizeof *t->block);
}

void block_table_deinit(block_table *t) {
    if (t->pool) block_table_truncate(t, 0);
    free(t->block);
    *t = (block_table){0};
}

// Only the block with the last committed position can be shared and written.
static bool shares_written(const block_table *t) {
    int first_written = t->length / KV_BLOCK;
    return first_written < t->n_blocks && t->pool->holders[t->block[first_written]] > 1;
}

int block_table_lacks(const block_table *t, int n) {
    int want = blocks_for(t->length + n);
    return (want > t->n_blocks ? want - t->n_blocks : 0) + (n > 0 && shares_written(t));
}

bool block_table_reserve(block_table *t, int n) {
    int want = blocks_for(t->length + n), first_written = t->length / KV_BLOCK;
    assert(want <= t->cap);
    if (!block_pool_has(t->pool, block_table_lacks(t, n))) return false;
    if (n > 0 && shares_written(t)) {
        int own = block_pool_take(t->pool);
        t->device->vt->block_copy(t->device, own, t->block[first_written]);
        block_pool_give(t->pool, t->block[first_written]);
        t->block[first_written] = own;
    }
    while (t->n_blocks < want) t->block[t->n_blocks++] = block_pool_take(t->pool);
    return true;
}

void block_table_commit(block_table *t, int n) {
    t->length += n;
    assert(blocks_for(t->length) <= t->n_blocks);
}

void block_table_truncate(block_table *t, int length) {
    assert(length >= 0 && length <= t->length);
    t->length = length;
    while (t->n_blocks > blocks_for(length)) block_pool_give(t->pool, t->block[--t->n_blocks]);
}

void block_table_fork(block_table *to, const block_table *from) {
    assert(to->n_blocks == 0 && to->cap >= blocks_for(from->length));
    while (to->n_blocks < blocks_for(from->length)) {
        int block = from->block[to->n_blocks];
        block_pool_share(to->pool, block);
        to->block[to->n_blocks++] = block;
    }
    to->length = from->length;
}
