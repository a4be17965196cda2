// The cache: where a sequence's keys and values lie, in blocks of KV_BLOCK positions, and how a step's are put there.
#include <math.h>

#include "backend/cpu/cpu_internal.h"

_Static_assert(KV_BLOCK % KV_PANEL == 0, "blocks are whole panels");

unsigned char *cpu_key_block(const cpu_backend *b, int layer, int block, int head) {
    int64_t plane = (b->key_block_bytes + b->value_block_bytes) * b->limits.n_blocks;
    return b->kv + layer * plane + block * b->key_block_bytes + head * (b->key_block_bytes / b->cache.n_kv_heads);
}

unsigned char *cpu_value_block(const cpu_backend *b, int layer, int block, int head) {
    int64_t plane = (b->key_block_bytes + b->value_block_bytes) * b->limits.n_blocks;
    return b->kv + layer * plane + b->key_block_bytes * b->limits.n_blocks + block * b->value_block_bytes +
           head * (b->value_block_bytes / b->cache.n_kv_heads);
}

// The least magnitude that a cache type would round to infinity. A key of infinity could give a score of -infinity, and vanish
// from the sum without a trace.
static float type_limit(dtype type) {
    switch (type) {
    case DTYPE_F16: return 65520.0f;
    case DTYPE_BF16: return 0x1.ffp+127f;
    case DTYPE_Q8_0: return 127.0f * 65520.0f; // its scale is an F16
    default: return INFINITY;
    }
}

static void check_store(cpu_backend *b, const op *o, int r) {
    for (int i = 0; i < 2; i++) {
        const tensor *t = &o->in[i];
        float limit = type_limit(i ? b->cache.v_type : b->cache.k_type);
        for (int h = 0; h < b->cache.n_kv_heads; h++) {
            const float *x = cpu_row(b, t, r) + h * t->stride[1];
            if (!b->k.all_below(x, b->cache.head_dim, limit)) cpu_mark_fault(b, o, t, r);
        }
    }
}

// Rows [r, r + n) lie in one panel, one behind the other.
static void store_run(const row_job *j, int r, int n) {
    cpu_backend *b = j->b;
    const tensor *k = &j->o->in[0], *v = &j->o->in[1];
    int slot = cpu_slot(b->in, r), block = b->in->block_table[b->in->seq[r]][slot / KV_BLOCK], at = slot % KV_BLOCK;
    int64_t d = b->cache.head_dim, row_bytes = kv_value_row_bytes(b->cache.v_type, d);
    for (int h = 0; h < b->cache.n_kv_heads; h++) {
        unsigned char *panel =
            cpu_key_block(b, j->o->layer, block, h) + at / KV_PANEL * kv_key_panel_bytes(b->cache.k_type, d);
        b->k.attention[b->cache.k_type]->store_keys(panel, at % KV_PANEL, n, cpu_row(b, k, r) + h * k->stride[1],
                                                    k->stride[0], d);
        unsigned char *row = cpu_value_block(b, j->o->layer, block, h) + at * row_bytes;
        for (int i = 0; i < n; i++) {
            b->k.attention[b->cache.v_type]->store_value(row + i * row_bytes, cpu_row(b, v, r + i) + h * v->stride[1],
                                                         d);
        }
    }
}

// Rows of one panel share cache lines, so neighbours go together: a task is a panel's worth of rows.
static void store_task(void *ctx, int task, int thread) {
    (void)thread;
    const row_job *j = ctx;
    const step_inputs *in = j->b->in;
    int end = (task + 1) * KV_PANEL < in->n_rows ? (task + 1) * KV_PANEL : in->n_rows;
    for (int r = task * KV_PANEL, n; r < end; r += n) {
        int slot = cpu_slot(in, r);
        for (n = 1; r + n < end && in->seq[r + n] == in->seq[r] && cpu_slot(in, r + n) == slot + n; n++) {
            if ((slot + n) % KV_PANEL == 0) break;
        }
        for (int i = 0; i < n; i++) check_store(j->b, j->o, r + i);
        store_run(j, r, n);
    }
}

void cpu_kv_store(cpu_backend *b, const op *o) {
    row_job j = {b, o};
    int n = b->in->n_rows;
    cpu_for(b, (n + KV_PANEL - 1) / KV_PANEL, n * tensor_row_len(&o->in[0]) * 4, store_task, &j);
}
