#include "cache/prefix_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

typedef struct prefix_entry {
    bool used;
    uint64_t hash;    // of the tokens up to the block's end
    int32_t parent;   // entry of the block before, -1: none
    int32_t next;     // in the bucket
    int32_t children; // entries that build on this one
    uint64_t last_use;
    int32_t token[KV_BLOCK];
} prefix_entry;

static uint64_t extend(uint64_t hash, const int32_t *tokens) {
    return hash_mix(hash ^ hash_bytes(tokens, KV_BLOCK * sizeof *tokens));
}

static int32_t find(const prefix_index *x, uint64_t hash, int32_t parent, const int32_t *tokens) {
    for (int32_t i = x->bucket[hash & (uint64_t)(x->n_buckets - 1)]; i >= 0; i = x->entries[i].next) {
        const prefix_entry *e = &x->entries[i];
        if (e->hash == hash && e->parent == parent && memcmp(e->token, tokens, sizeof e->token) == 0) return i;
    }
    return -1;
}

static void forget(prefix_index *x, int32_t entry) {
    prefix_entry *e = &x->entries[entry];
    int32_t *link = &x->bucket[e->hash & (uint64_t)(x->n_buckets - 1)];
    while (*link != entry) link = &x->entries[*link].next;
    *link = e->next;
    if (e->parent >= 0) x->entries[e->parent].children--;
    e->used = false;
    x->n_held--;
    block_pool_give(x->pool, entry);
}

// The pool is dry: gives up one block that only the index holds.
static bool reclaim(void *ctx) {
    prefix_index *x = ctx;
    int32_t oldest = -1;
    for (int32_t i = 0; i < x->pool->n_blocks; i++) {
        const prefix_entry *e = &x->entries[i];
        if (!e->used || e->children > 0 || x->pool->holders[i] > 1) continue;
        if (oldest < 0 || e->last_use < x->entries[oldest].last_use) oldest = i;
    }
    if (oldest >= 0) forget(x, oldest);
    return oldest >= 0;
}

static bool reclaimable(const void *ctx, int block) { return prefix_index_holds(ctx, block); }

status prefix_index_init(prefix_index *x, block_pool *pool, error *err) {
    *x = (prefix_index){.pool = pool, .n_buckets = 16};
    while (x->n_buckets < pool->n_blocks) x->n_buckets *= 2;
    x->entries = calloc((size_t)pool->n_blocks, sizeof *x->entries);
    x->bucket = malloc((size_t)x->n_buckets * sizeof *x->bucket);
    if (!x->entries || !x->bucket) {
        prefix_index_deinit(x);
        return error_no_memory(err, (unsigned long long)pool->n_blocks * sizeof *x->entries);
    }
    for (int i = 0; i < x->n_buckets; i++) x->bucket[i] = -1;
    pool->reclaim = reclaim;
    pool->reclaimable = reclaimable;
    pool->reclaim_ctx = x;
    return STATUS_OK;
}

void prefix_index_deinit(prefix_index *x) {
    if (x->pool && x->pool->reclaim_ctx == x) x->pool->reclaim = NULL;
    free(x->entries);
    free(x->bucket);
    *x = (prefix_index){0};
}

void prefix_index_clear(prefix_index *x) {
    for (int32_t i = 0; x->pool && i < x->pool->n_blocks; i++) {
        if (!x->entries[i].used) continue;
        x->entries[i].used = false;
        block_pool_give(x->pool, i);
    }
    for (int i = 0; i < x->n_buckets; i++) x->bucket[i] = -1;
    x->n_held = 0;
}

bool prefix_index_holds(const prefix_index *x, int block) { return x->entries && x->entries[block].used; }

int prefix_index_adopt(prefix_index *x, block_table *t, const int32_t *tokens, int n) {
    if (x->n_held == 0) return 0;
    uint64_t hash = 0;
    int32_t parent = -1;
    x->clock++;
    for (int at = 0; at + KV_BLOCK <= n; at += KV_BLOCK) {
        hash = extend(hash, tokens + at);
        int32_t entry = find(x, hash, parent, tokens + at);
        if (entry < 0) break;
        x->entries[entry].last_use = x->clock;
        block_pool_share(x->pool, entry);
        t->block[t->n_blocks++] = entry;
        block_table_commit(t, KV_BLOCK);
        parent = entry;
    }
    return t->length;
}

void prefix_index_add(prefix_index *x, block_table *t, const int32_t *tokens, int from) {
    if (t->length / KV_BLOCK == from / KV_BLOCK || !x->pool) return;
    uint64_t hash = 0;
    int32_t parent = -1;
    x->clock++;
    for (int b = 0; b < t->length / KV_BLOCK; b++) {
        hash = extend(hash, tokens + b * KV_BLOCK);
        int32_t known = find(x, hash, parent, tokens + b * KV_BLOCK);
        if (known < 0) {
            known = t->block[b];
            prefix_entry *e = &x->entries[known];
            if (e->used)
                return; // the block stands for another prefix already, which cannot be: blocks of an entry are full
            int32_t *first = &x->bucket[hash & (uint64_t)(x->n_buckets - 1)];
            *e = (prefix_entry){.used = true, .hash = hash, .parent = parent, .next = *first, .last_use = x->clock};
            memcpy(e->token, tokens + b * KV_BLOCK, sizeof e->token);
            *first = known;
            if (parent >= 0) x->entries[parent].children++;
            block_pool_share(x->pool, known);
            x->n_held++;
        }
        x->entries[known].last_use = x->clock;
        if (t->block[b] != known) { // computed twice, to the same bits
            block_pool_share(x->pool, known);
            block_pool_give(x->pool, t->block[b]);
            t->block[b] = known;
        }
        parent = known;
    }
}
