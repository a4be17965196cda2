// Where each row of a step goes, as integers that operators on the device read.
//
// A row's attention is computed in a tile of 64 queries, those of the positions of its cache block, at place position % 64, against
// the keys of that block and of those before it. So the shapes, and with them the order of sums, depend on the position alone.
// A row of a tree whose path is kept elsewhere than at its positions gets a table that ends in blocks made for the path.
#include <stdlib.h>
#include <string.h>

#include "backend/ascend/internal.h"

static int most_ints(const ascend_backend *b) {
    int rows = ascend_pad(b->limits.max_rows, b->spec.tile), out = ascend_pad(b->limits.max_out, b->spec.tile);
    int blocks = (b->limits.max_context + KV_BLOCK - 1) / KV_BLOCK;
    int each = ATTENTION_ROWS + PATH_BLOCKS * KV_BLOCK + ascend_pad(blocks, 8); // of an attention tile
    return 5 * rows + out + b->limits.max_rows * each + 64;
}

status ascend_rows_alloc(ascend_backend *b, error *err) {
    ascend_rows *r = &b->rows;
    size_t n = (size_t)b->limits.max_rows;
    r->cap_ints = most_ints(b);
    r->cap_attention = b->limits.max_rows;
    r->attention = malloc(n * sizeof *r->attention);
    r->first_attention = malloc((n + 1) * sizeof *r->first_attention);
    r->group = malloc(n * sizeof *r->group);
    r->q_end = malloc(n * sizeof *r->q_end);
    r->kv_len = malloc(n * sizeof *r->kv_len);
    if (!r->attention || !r->first_attention || !r->group || !r->q_end || !r->kv_len)
        return error_no_memory(err, n * sizeof *r->attention);
    void *host;
    size_t bytes = (size_t)r->cap_ints * sizeof *r->host;
    TRY(ascend_check(&b->device, b->device.lib.aclrtMallocHost(&host, bytes), "aclrtMallocHost", err));
    r->host = host;
    return ascend_device_alloc(&b->device, (int64_t)bytes, "the step's inputs", &b->inputs, err);
}

void ascend_rows_free(ascend_backend *b) {
    free(b->rows.attention);
    free(b->rows.first_attention);
    free(b->rows.group);
    free(b->rows.q_end);
    free(b->rows.kv_len);
    if (b->rows.host) b->device.lib.aclrtFreeHost(b->rows.host);
    b->rows = (ascend_rows){0};
}

// Room for n integers, 32-byte aligned, all zero.
static int take(ascend_rows *r, int n) {
    int at = r->n_ints;
    memset(r->host + at, 0, (size_t)n * sizeof *r->host);
    r->n_ints += ascend_pad(n, 8);
    return at;
}

static int slot_of(const step_inputs *in, int r) { return in->slot ? in->slot[r] : in->pos[r]; }

// A row lies in place when its path is kept at its positions.
static bool in_place(const step_inputs *in, int r) {
    if (!in->parent) return true;
    for (; r >= 0; r = in->parent[r]) {
        if (slot_of(in, r) != in->pos[r]) return false;
    }
    return true;
}

static int32_t place(const step_inputs *in, int r, int slot) {
    return in->block_table[in->seq[r]][slot / KV_BLOCK] * KV_BLOCK + slot % KV_BLOCK;
}

// Rows of one product tile have different ones.
static int32_t padding_slot(const ascend_backend *b, int row) { return b->limits.n_blocks * KV_BLOCK + row % KV_BLOCK; }

// ---- attention tiles -----------------------------------------------------------------------------------------------------------

// The tile of row r's sequence and block, with the blocks' numbers.
static ascend_attention_tile *add_tile(ascend_rows *r, const step_inputs *in, int row) {
    ascend_attention_tile *t = &r->attention[r->n_attention++];
    *t = (ascend_attention_tile){.block = in->pos[row] / KV_BLOCK, .source = -1};
    t->table = take(r, t->block + 1);
    memcpy(r->host + t->table, in->block_table[in->seq[row]], (size_t)(t->block + 1) * sizeof *r->host);
    return t;
}

// The path that ends in `leaf`, laid out by position in blocks of its own. What comes before its first row out of place is copied
// from where it is kept; positions behind the leaf are seen by nobody, and filled with the leaf's own row: what weighs nothing must still be
// finite, and no other row is sure to be while the leaf is.
static void lay_out_path(ascend_backend *b, const step_inputs *in, ascend_attention_tile *t, int leaf) {
    ascend_rows *r = &b->rows;
    int first = in->pos[leaf];
    for (int row = leaf; row >= 0; row = in->parent[row]) {
        if (slot_of(in, row) != in->pos[row]) first = in->pos[row];
    }
    int from = first / KV_BLOCK;
    t->n_path_blocks = t->block - from + 1;
    t->source = take(r, t->n_path_blocks * KV_BLOCK);
    for (int i = 0; i < t->n_path_blocks * KV_BLOCK; i++) {
        int pos = from * KV_BLOCK + i;
        r->host[t->source + i] = place(in, leaf, pos < first ? pos : slot_of(in, leaf));
    }
    for (int row = leaf; row >= 0 && in->pos[row] >= first; row = in->parent[row])
        r->host[t->source + in->pos[row] - from * KV_BLOCK] = place(in, leaf, slot_of(in, row));
    for (int i = 0; i < t->n_path_blocks; i++) r->host[t->table + from + i] = b->limits.n_blocks + 1 + i;
}

// Rows first .. last-1, one product tile, into attention tiles; group[row] tells which.
static void group_rows(ascend_backend *b, const step_inputs *in, int first, int last) {
    ascend_rows *r = &b->rows;
    for (int row = first; row < last; row++) r->group[row] = -1;
    for (int row = first, n = 0; row < last; row++) { // rows in place: neighbours of a sequence and block go together
        if (!in_place(in, row)) continue;
        bool joins = n > 0 && in->seq[n - 1] == in->seq[row] && in->pos[n - 1] / KV_BLOCK == in->pos[row] / KV_BLOCK;
        if (!joins) add_tile(r, in, row);
        r->group[row] = r->n_attention - 1;
        n = row + 1;
    }
    for (int leaf = last - 1; leaf >= first; leaf--) { // the deepest first, so that a path takes all its rows along
        if (r->group[leaf] >= 0) continue;
        ascend_attention_tile *t = add_tile(r, in, leaf);
        lay_out_path(b, in, t, leaf);
        for (int row = leaf; row >= first && r->group[row] < 0 && in->pos[row] / KV_BLOCK == t->block;
             row = in->parent[row])
            r->group[row] = r->n_attention - 1;
    }
}

// ---- exact=off ---------------------------------------------------------------------------------------------------------------

// Sequences as they are, where their rows lie in place.
static bool goes_direct(const ascend_backend *b, const step_inputs *in) {
    if (b->spec.exact || in->parent || !b->attention_fused) return false;
    bool any = false;
    for (int r = 0; r < in->n_rows; r++) any |= b->banned[r];
    return !any;
}

static void lay_out_sequences(ascend_rows *r, const step_inputs *in) {
    r->n_seqs = r->table_width = 0;
    for (int i = 0; i < in->n_rows; i++) {
        if (i == 0 || in->seq[i] != in->seq[i - 1]) r->n_seqs++;
        r->q_end[r->n_seqs - 1] = i + 1;
        r->kv_len[r->n_seqs - 1] = in->pos[i] + 1;
        if (in->pos[i] / KV_BLOCK + 1 > r->table_width) r->table_width = in->pos[i] / KV_BLOCK + 1;
    }
    r->table = take(r, r->n_seqs * r->table_width);
    for (int s = 0; s < r->n_seqs; s++) {
        size_t blocks = (size_t)((r->kv_len[s] + KV_BLOCK - 1) / KV_BLOCK);
        memcpy(r->host + r->table + s * r->table_width, in->block_table[in->seq[r->q_end[s] - 1]],
               blocks * sizeof *r->host);
    }
}

// ---- all of a step -----------------------------------------------------------------------------------------------------------

static void choose_tiles(ascend_backend *b, const step_inputs *in) {
    ascend_rows *r = &b->rows;
    r->n_ints = r->n_attention = 0;
    r->n_rows = in->n_rows, r->n_out = in->n_out;
    r->direct = goes_direct(b, in);
    r->tile = r->direct ? in->n_rows : b->spec.tile;
    r->out_tile = r->direct && in->n_out ? in->n_out : b->spec.tile;
    r->n_tiles = (in->n_rows + r->tile - 1) / r->tile;
    r->n_out_tiles = (in->n_out + r->out_tile - 1) / r->out_tile;
}

void ascend_rows_fill(ascend_backend *b, const step_inputs *in) {
    ascend_rows *r = &b->rows;
    choose_tiles(b, in);
    int tile = r->tile, rows = r->n_tiles * tile;
    r->token = take(r, rows);
    r->pos = take(r, rows);
    r->slot = take(r, rows);
    r->pick = take(r, rows);
    r->expert_row = take(r, rows);
    r->out_row = take(r, r->n_out_tiles * r->out_tile);
    for (int i = 0; i < in->n_rows; i++) {
        r->host[r->token + i] = in->token[i];
        r->host[r->pos + i] = in->pos[i];
        r->host[r->expert_row + i] = i % tile;
        r->host[r->slot + i] = b->banned[i] ? padding_slot(b, i) : place(in, i, slot_of(in, i));
    }
    for (int i = in->n_rows; i < rows; i++) r->host[r->slot + i] = padding_slot(b, i);
    for (int i = 0; i < in->n_out; i++) r->host[r->out_row + i] = in->out_row[i];
    if (r->direct) {
        lay_out_sequences(r, in);
        return;
    }
    for (int t = 0; t < r->n_tiles; t++) {
        r->first_attention[t] = r->n_attention;
        group_rows(b, in, t * tile, (t + 1) * tile < in->n_rows ? (t + 1) * tile : in->n_rows);
    }
    r->first_attention[r->n_tiles] = r->n_attention;
    r->query = take(r, r->n_attention * ATTENTION_ROWS);
    for (int i = 0; i < in->n_rows; i++) {
        int at = r->group[i] - r->first_attention[i / tile], place_in = in->pos[i] % ATTENTION_ROWS;
        r->host[r->query + r->group[i] * ATTENTION_ROWS + place_in] = i % tile;
        r->host[r->pick + i] = at * ATTENTION_ROWS + place_in;
    }
}
