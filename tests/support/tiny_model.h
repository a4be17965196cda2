// Tiny models for tests: the golden variants of tests/golden/models with weights made by their rule, and random models of any type.
//
// Failures of the support code end the test (assert), because a test that cannot set up has not passed.
#ifndef TALLY_TESTS_TINY_MODEL_H
#define TALLY_TESTS_TINY_MODEL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "file/model_config.h"
#include "tensor/dtype.h"

typedef struct tiny_tensor {
    char name[128];
    int n_dims;
    int64_t dim[3];
    float offset, scale;
} tiny_tensor;

typedef struct tiny_model { // a golden variant, read from its folder; everything owned
    char name[64], folder[160];
    uint64_t seed;
    int n_tensors;
    tiny_tensor *tensors;
    int n_ids, n_greedy, n_vocab;
    int32_t *ids, *greedy;
    float *gap;    // [n_greedy]
    float *logits; // [n_ids][n_vocab], transformers in F32
    // What transformers' own runs in BF16 and F16 are off by, relative to a row's largest logit (ids and greedy ids).
    double bf16_max, f16_max;
    json_t *config;
} tiny_model;

tiny_model tiny_model_read(const char *variant);
void tiny_model_free(tiny_model *m);
char **tiny_model_variants(int *n); // names of the index; free each and the array

// The numbers of a tensor by the rule, in F32; owned by the caller.
float *tiny_tensor_values(const tiny_model *m, const tiny_tensor *t);

// A Hugging Face folder (config.json, generation_config.json, safetensors in `n_shards` files) with weights of F32, F16 or BF16.
void tiny_model_write_folder(const tiny_model *m, const char *folder, dtype type, int n_shards);
// The same model as GGUF, norms and biases in F32 as converters do, q and k of llama permuted. False: GGUF has no keys for it.
bool tiny_model_write_gguf(const tiny_model *m, const char *path, dtype type);

// A random GGUF model whose matrices all have one type (any block type): 2 layers, 256 wide, 8 heads of 64 (so that heads and width
// differ) over 2, ffn 512; with `moe`, 8 experts of 256 of which 3 are used. No tokenizer.
void tiny_random_gguf(const char *path, dtype type, bool moe, uint64_t seed);
void tiny_random_gguf_heads(const char *path, dtype type, bool moe, int head_dim,
                            uint64_t seed); // heads of another size
void tiny_random_gguf_ends(const char *path, dtype type, dtype ends,
                           uint64_t seed); // embedding and head of another type
// The same with a byte-level tokenizer (ids 0 to 255 are bytes, 256 <|im_start|>, 257 <|im_end|>: the end, 258 <think>, 259 </think>,
// 260 "th") and a chat template.
void tiny_text_gguf(const char *path, dtype type, uint64_t seed, const char *chat_template);

#endif
