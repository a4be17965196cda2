#include "model/rank.h"

static status share(const char *what, int whole, int n_ranks, int *one, error *err) {
    *one = whole / n_ranks;
    if (whole % n_ranks == 0) return STATUS_OK;
    return error_set(err, STATUS_BAD_ARGUMENT, "%d ranks cannot share the model's %d %s: %d is no multiple of %d",
                     n_ranks, whole, what, whole, n_ranks);
}

static status share_kv_heads(int whole, int n_ranks, int *one, error *err) {
    *one = whole > n_ranks ? whole / n_ranks : 1;
    if (whole % n_ranks == 0 || n_ranks % whole == 0) return STATUS_OK;
    return error_set(err, STATUS_BAD_ARGUMENT,
                     "%d ranks cannot share the model's %d key/value heads: neither number is a multiple of the other",
                     n_ranks, whole);
}

status rank_config(const model_config *whole, int n_ranks, model_config *one, error *err) {
    *one = *whole;
    if (n_ranks == 1) return STATUS_OK;
    bool dense = false, moe = false;
    for (int i = 0; i < whole->n_layers; i++) *(whole->layer_is_moe[i] ? &moe : &dense) = true;
    TRY(share("query heads", whole->n_heads, n_ranks, &one->n_heads, err));
    TRY(share_kv_heads(whole->n_kv_heads, n_ranks, &one->n_kv_heads, err));
    if (dense) TRY(share("columns of the feed-forward layers", whole->ffn_dim, n_ranks, &one->ffn_dim, err));
    if (moe) TRY(share("columns of an expert", whole->expert_ffn_dim, n_ranks, &one->expert_ffn_dim, err));
    one->head_rows = (whole->n_vocab + n_ranks - 1) / n_ranks;
    return STATUS_OK;
}
