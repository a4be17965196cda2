#include "tests/support/published_shape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

void published_shape_write(const published_shape *k, const temp_folder *folder) {
    json_t *c =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:b, s:s, s:s}", "model_type", k->arch,
                  "hidden_size", k->hidden, "intermediate_size", k->ffn, "num_hidden_layers", k->layers,
                  "num_attention_heads", k->heads, "num_key_value_heads", k->kv_heads, "head_dim", k->head_dim,
                  "vocab_size", k->vocab, "max_position_embeddings", 40960, "rms_norm_eps", 1e-6, "rope_theta", 1e6,
                  "tie_word_embeddings", (int)k->tied, "hidden_act", "silu", "torch_dtype", "bfloat16");
    if (k->experts) {
        json_object_update_new(c, json_pack("{s:i, s:i, s:i, s:b, s:i, s:[]}", "num_experts", k->experts,
                                            "num_experts_per_tok", k->used, "moe_intermediate_size", k->expert_ffn,
                                            "norm_topk_prob", 1, "decoder_sparse_step", 1, "mlp_only_layers"));
    }
    char *text = json_dumps(c, 0);
    assert_non_null(text);
    temp_folder_write_text(folder, "config.json", text);
    free(text);
    json_decref(c);
}
