#include "file/config_check.h"

#include <inttypes.h>
#include <math.h>

static status check_rope(const model_config *c, const char *where, error *err) {
    const rope_config *r = &c->rope;
    if (r->dim < 2 || r->dim > c->head_dim || r->dim % 2) {
        return error_set(err, STATUS_BAD_FILE,
                         "%s: %d dimensions of a head of %d are to be rotated, expected an even number up to it", where,
                         r->dim, c->head_dim);
    }
    if (!(r->theta > 1 && r->theta < 1e30)) {
        return error_set(err, STATUS_BAD_FILE,
                         "%s: the base of the rotary frequencies is %g, expected a number above 1", where, r->theta);
    }
    if (!(r->factor > 0 && r->factor < 1e9)) {
        return error_set(err, STATUS_BAD_FILE, "%s: the rope scaling factor is %g, expected a positive number", where,
                         r->factor);
    }
    bool original = r->scaling == ROPE_LLAMA3 || r->scaling == ROPE_YARN;
    if (original && !(r->original_context >= 1 && r->original_context <= INT32_MAX)) {
        return error_set(err, STATUS_BAD_FILE,
                         "%s: the original context of the rope scaling is %g, expected 1 to 2^31 - 1", where,
                         r->original_context);
    }
    if (r->scaling == ROPE_LLAMA3 &&
        !(r->low_freq_factor > 0 && r->high_freq_factor > r->low_freq_factor && r->high_freq_factor < 1e9)) {
        return error_set(err, STATUS_BAD_FILE,
                         "%s: llama3 rope scaling has low_freq_factor %g and high_freq_factor %g, expected "
                         "0 < low < high",
                         where, r->low_freq_factor, r->high_freq_factor);
    }
    if (r->scaling == ROPE_YARN && !(r->beta_slow > 0 && r->beta_fast >= r->beta_slow && r->beta_fast < 1e9)) {
        return error_set(err, STATUS_BAD_FILE,
                         "%s: yarn rope scaling has beta_fast %g and beta_slow %g, expected fast >= slow > 0", where,
                         r->beta_fast, r->beta_slow);
    }
    if (r->scaling == ROPE_YARN && !(r->attention_factor > 0 && r->attention_factor < 1e6)) {
        return error_set(err, STATUS_BAD_FILE, "%s: yarn's attention factor is %g, expected a positive number", where,
                         r->attention_factor);
    }
    return STATUS_OK;
}

static status check_moe(const model_config *c, const char *where, error *err) {
    int dense = -1, moe = -1; // the last of each kind
    for (int i = 0; i < c->n_layers; i++) *(c->layer_is_moe[i] ? &moe : &dense) = i;
    bool any_moe = moe >= 0;
    if (dense >= 0 && c->ffn_dim < 1) {
        return error_set(
            err, STATUS_BAD_FILE,
            "%s: layer %d has a dense MLP, but its width (intermediate_size, feed_forward_length) is not given", where,
            dense);
    }
    if (!any_moe && c->n_experts == 0) return STATUS_OK;
    if (c->n_experts < 1 || c->n_experts_used < 1 || c->n_experts_used > c->n_experts) {
        return error_set(err, STATUS_BAD_FILE,
                         "%s: %d of %d experts are to be used for a token, expected 1 to all of them", where,
                         c->n_experts_used, c->n_experts);
    }
    if (any_moe && c->expert_ffn_dim < 1) {
        return error_set(
            err, STATUS_BAD_FILE,
            "%s: layer %d has experts, but their width (moe_intermediate_size, expert_feed_forward_length) is %d",
            where, moe, c->expert_ffn_dim);
    }
    return STATUS_OK;
}

status config_check(const model_config *c, const char *where, error *err) {
    if (c->n_heads % c->n_kv_heads) {
        return error_set(err, STATUS_BAD_FILE, "%s: %d attention heads are no multiple of %d key-value heads", where,
                         c->n_heads, c->n_kv_heads);
    }
    if ((int64_t)c->n_heads * c->head_dim > MAX_WIDTH) {
        return error_set(err, STATUS_BAD_FILE,
                         "%s: %d attention heads of %d dimensions are more than the %d that tally allows", where,
                         c->n_heads, c->head_dim, MAX_WIDTH);
    }
    if (!(c->rms_eps >= 0 && c->rms_eps < 1)) {
        return error_set(err, STATUS_BAD_FILE, "%s: the epsilon of the norms is %g, expected 0 to 1", where,
                         (double)c->rms_eps);
    }
    TRY(check_rope(c, where, err));
    return check_moe(c, where, err);
}

status config_add_stop_id(model_config *c, int64_t id, const char *where, error *err) {
    if (id < 0 || id >= c->n_vocab) return STATUS_OK;
    for (int i = 0; i < c->n_stop_ids; i++) {
        if (c->stop_ids[i] == id) return STATUS_OK;
    }
    if (c->n_stop_ids == MAX_STOP_IDS) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: more than %d ids end a text", where, MAX_STOP_IDS);
    }
    c->stop_ids[c->n_stop_ids++] = (int32_t)id;
    return STATUS_OK;
}

void config_yarn_context(model_config *c) {
    double stretched = floor(c->rope.original_context * c->rope.factor);
    if (stretched > c->context_length) c->context_length = stretched < INT32_MAX / 2 ? (int)stretched : INT32_MAX / 2;
}

double config_yarn_attention_factor(double factor, double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}
