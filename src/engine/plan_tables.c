#include "engine/plan_tables.h"

#include <stdbool.h>
#include <string.h>

typedef enum memory_kind {
    KIND_EMBED,
    KIND_ATTENTION,
    KIND_EXPERTS,
    KIND_FFN,
    KIND_ROUTER,
    KIND_HEAD,
    KIND_VECTOR
} memory_kind;
enum { N_KINDS = KIND_VECTOR + 1 };

static memory_kind kind_of(const weight *w) {
    if (w->role == WEIGHT_VECTOR) return KIND_VECTOR;
    if (w->role == WEIGHT_EXPERTS) return KIND_EXPERTS;
    if (w->role == WEIGHT_ROUTER) return KIND_ROUTER;
    if (w->layer >= 0) return strncmp(w->label, "attn", 4) == 0 ? KIND_ATTENTION : KIND_FFN;
    return w->split == SPLIT_OUT ? KIND_HEAD : KIND_EMBED;
}

static json_t *memory_row(const char *kind, int64_t bytes, int64_t whole) {
    return json_pack("{s:s, s:I, s:I}", "kind", kind, "bytes", (json_int_t)bytes, "whole_bytes", (json_int_t)whole);
}

json_t *plan_memory_json(const model *m, const backend *device, const memory_use *use) {
    static const char *const names[N_KINDS] = {
        "embedding", "attention", "experts", "feed-forward", "routers", "head", "norms, biases, rotary table"};
    int64_t bytes[N_KINDS] = {0}, whole[N_KINDS] = {0};
    for (int i = 0; i < m->weights.n; i++) {
        const weight *w = &m->weights.w[i];
        if (w->absorbed) continue;
        int64_t n = device->vt->weight_bytes(device, w);
        bytes[kind_of(w)] += n;
        if (w->split == SPLIT_NONE) whole[kind_of(w)] += n;
    }
    json_t *list = json_array();
    for (int k = 0; k < N_KINDS; k++) {
        if (bytes[k]) json_array_append_new(list, memory_row(names[k], bytes[k], whole[k]));
    }
    json_array_append_new(list, memory_row("cache", use->cache, 0));
    json_array_append_new(list, memory_row("workspace: temporaries", use->temporaries, 0));
    if (use->exchange) json_array_append_new(list, memory_row("workspace: parts of other ranks", use->exchange, 0));
    return list;
}

json_t *plan_ranks_json(const model *whole, const model *one, int n_ranks) {
    const model_config *a = &whole->config, *c = &one->config;
    json_t *o = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "n", n_ranks, "heads", c->n_heads, "kv_heads",
                          c->n_kv_heads, "kv_copies", c->n_kv_heads * n_ranks / a->n_kv_heads, "ffn_columns",
                          c->ffn_dim, "experts", c->n_experts, "expert_columns", c->expert_ffn_dim, "head_rows",
                          c->head_rows ? c->head_rows : c->n_vocab);
    json_object_set_new(o, "embedding", json_string("whole"));
    json_object_set_new(o, "pieces", json_integer(whole->n_pieces));
    json_object_set_new(o, "exact", json_boolean(whole->n_pieces % n_ranks == 0));
    return o;
}

status plan_check_slices(const model *whole, const model *one, int n_ranks, error *err) {
    const weight *a = whole->weights.w;
    for (int i = 0; i < one->weights.n; i++) {
        const weight *w = &one->weights.w[i];
        if (strcmp(a->label, w->label) != 0) continue; // a rank's rows of a tied head are an entry more
        if (a->part[0].type == w->part[0].type) {
            a++;
            continue;
        }
        const dtype_info *t = dtype_get(a->part[0].type);
        return error_set(err, STATUS_BAD_ARGUMENT,
                         "%d ranks would cut the %lld columns of %s into slices of %lld, no whole blocks of %s (%d); "
                         "take fewer ranks or another --type",
                         n_ranks, (long long)a->k, a->label, (long long)w->k, t->name, (int)t->block_elems);
    }
    return STATUS_OK;
}
