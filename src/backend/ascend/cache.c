// The cache: per layer, keys and then values, as [block][64][kv heads * head_dim], the layout that paged attention takes. Three blocks
// behind the engine's own: one for the rows that pad a step, two for the path of a tree row.
//
// Attention reads whole blocks and masks; a masked value is multiplied by zero, so what lies in a block must always be finite. It is
// zero to begin with, and rows that came out not finite are cleared.
//
// Attention is told of as many blocks as the model's own context has, be the cache smaller, since an operator's order of sums may
// depend on every number of its shapes. So the view of the last layer reaches behind the cache; no table names a block there.
#include <stdlib.h>
#include <string.h>

#include "backend/ascend/internal.h"

static int64_t row_bytes(const cache_desc *c) { return (int64_t)c->n_kv_heads * c->head_dim * 2; }

int ascend_seen_blocks(const step_limits *l) {
    int unit = (l->model_context + KV_BLOCK - 1) / KV_BLOCK + EXTRA_BLOCKS;
    return ascend_pad(l->n_blocks + EXTRA_BLOCKS, unit);
}

int64_t ascend_block_bytes(const backend *base, const cache_desc *c) {
    (void)base;
    return 2 * c->n_layers * KV_BLOCK * row_bytes(c);
}

void *ascend_cache_of(const ascend_backend *b, int layer, bool values) {
    return (char *)b->kv + (2 * layer + values) * b->layer_bytes;
}

// These have no way to tell a failure; the next step does.
static void remember(const ascend_backend *base, status s, const error *err) {
    ascend_backend *b = (ascend_backend *)(uintptr_t)base;
    if (s && !b->broken.code) b->broken = *err;
}

static char *row_of(const ascend_backend *b, int part, int block, int pos) {
    return (char *)ascend_cache_of(b, part / 2, part % 2) + ((int64_t)block * KV_BLOCK + pos) * row_bytes(&b->cache);
}

static status read_block(ascend_backend *b, int block, char *dst, error *err) {
    size_t n = (size_t)(KV_BLOCK * row_bytes(&b->cache));
    TRY(ascend_device_enter(&b->device, err));
    TRY(ascend_device_sync(&b->device, err));
    for (int part = 0; part < 2 * b->cache.n_layers; part++, dst += n)
        TRY(ascend_device_download(&b->device, dst, row_of(b, part, block, 0), n, err));
    return STATUS_OK;
}

void ascend_block_read(const backend *base, int block, void *dst) {
    ascend_backend *b = (ascend_backend *)(uintptr_t)base; // waiting may find the device broken
    error err = {0};
    status s = read_block(b, block, dst, &err);
    if (s) memset(dst, 0, (size_t)ascend_block_bytes(base, &b->cache));
    remember(b, s, &err);
}

// Rows first .. 63 of a block from src (all layers, keys before values).
static status write_block(ascend_backend *b, int block, int first, const char *src, error *err) {
    size_t n = (size_t)((KV_BLOCK - first) * row_bytes(&b->cache));
    TRY(ascend_device_enter(&b->device, err));
    TRY(ascend_device_sync(&b->device, err));
    for (int part = 0; part < 2 * b->cache.n_layers; part++, src += n)
        TRY(ascend_device_upload(&b->device, row_of(b, part, block, first), src, n, err));
    return STATUS_OK;
}

void ascend_block_write(backend *base, int block, const void *src) {
    ascend_backend *b = (ascend_backend *)base;
    error err = {0};
    remember(b, write_block(b, block, 0, src, &err), &err);
}

static status copy_rows(ascend_backend *b, const int to[2], const int from[2], int n_rows, error *err) {
    size_t n = (size_t)(n_rows * row_bytes(&b->cache));
    TRY(ascend_device_enter(&b->device, err));
    for (int part = 0; part < 2 * b->cache.n_layers; part++) {
        int code = b->device.lib.aclrtMemcpyAsync(row_of(b, part, to[0], to[1]), n, row_of(b, part, from[0], from[1]),
                                                  n, ACL_MEMCPY_DEVICE_TO_DEVICE, b->device.stream);
        TRY(ascend_check(&b->device, code, "aclrtMemcpyAsync", err));
    }
    return STATUS_OK;
}

void ascend_block_copy(backend *base, int to, int from) {
    ascend_backend *b = (ascend_backend *)base;
    error err = {0};
    remember(b, copy_rows(b, (int[]){to, 0}, (int[]){from, 0}, KV_BLOCK, &err), &err);
}

void ascend_position_copy(backend *base, const int to[2], const int from[2]) {
    ascend_backend *b = (ascend_backend *)base;
    error err = {0};
    if (to[0] == from[0] && to[1] == from[1]) return;
    remember(b, copy_rows(b, to, from, 1, &err), &err);
}

// NaN would reach every row through 0 * NaN, also those that mask it rightly. Large numbers are as visible to a row that does not.
void ascend_block_poison(backend *base, int block, int first_pos) {
    ascend_backend *b = (ascend_backend *)base;
    int64_t n = (KV_BLOCK - first_pos) * row_bytes(&b->cache) / 2 * 2 * b->cache.n_layers;
    uint16_t *junk = malloc((size_t)n * sizeof *junk + 1),
             large = b->type == DTYPE_BF16 ? 0x4680 : 0x7000; // 2^14, 2^13
    error err = {0};
    for (int64_t i = 0; junk && i < n; i++) junk[i] = large;
    if (junk) remember(b, write_block(b, block, first_pos, (const char *)junk, &err), &err);
    free(junk);
}

static status clear_row(ascend_backend *b, int block, int pos, int n_rows, error *err) {
    size_t n = (size_t)(n_rows * row_bytes(&b->cache));
    for (int part = 0; part < 2 * b->cache.n_layers; part++)
        TRY(ascend_check(&b->device, b->device.lib.aclrtMemset(row_of(b, part, block, pos), n, 0, n), "aclrtMemset",
                         err));
    return STATUS_OK;
}

status ascend_cache_clear_rows(ascend_backend *b, const step_inputs *in) {
    bool any = false;
    error *err = &b->broken;
    for (int r = 0; r < in->n_rows; r++) {
        if (b->fault[r] == STEP_OK) continue;
        int slot = in->slot ? in->slot[r] : in->pos[r];
        TRY(clear_row(b, in->block_table[in->seq[r]][slot / KV_BLOCK], slot % KV_BLOCK, 1, err));
        any = true;
    }
    for (int i = 0; any && i < EXTRA_BLOCKS; i++) TRY(clear_row(b, b->limits.n_blocks + i, 0, KV_BLOCK, err));
    return STATUS_OK;
}
