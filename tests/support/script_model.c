#include "tests/support/script_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/gguf_writer.h"
#include "text/byte_map.h"
#include "text/utf8.h"

enum { DIM = SCRIPT_VOCAB, HEADS = 2, HEAD = 16, FFN = 32, CONTEXT = 512, FIRST_PIECE = 259 };

static void must(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "script_model: %s\n", what);
    abort();
}

static char *spell(const char *bytes) {
    char *out = malloc(strlen(bytes) * 4 + 1), *at = out;
    must(out != NULL, "memory");
    for (; *bytes; bytes++) at += utf8_encode(byte_map_character((unsigned char)*bytes), at);
    *at = 0;
    return out;
}

static int32_t named(const char *piece) {
    static const struct {
        const char *name;
        int32_t id;
    } names[] = {
        {"<eos>", SCRIPT_EOS}, {"<eot>", SCRIPT_EOT}, {"<control>", SCRIPT_CONTROL}, {"<unnamed>", SCRIPT_UNNAMED}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(piece, names[i].name) == 0) return names[i].id;
    }
    return piece[0] && !piece[1] ? (unsigned char)piece[0] : -1;
}

static void write_vocabulary(gguf_writer *w, const char *const *script, int n, int32_t *ids) {
    static char bytes[256][4];
    static const char *tokens[SCRIPT_VOCAB] = {
        [SCRIPT_EOS] = "<eos>", [SCRIPT_EOT] = "<eot>", [SCRIPT_CONTROL] = "<control>"};
    int32_t types[SCRIPT_VOCAB];
    int n_tokens = FIRST_PIECE;
    for (int b = 0; b < 256; b++) {
        bytes[b][utf8_encode(byte_map_character((unsigned char)b), bytes[b])] = 0;
        tokens[b] = bytes[b];
    }
    for (int i = 0; i < n; i++) {
        ids[i] = named(script[i]);
        if (ids[i] >= 0) continue;
        must(n_tokens < SCRIPT_UNNAMED, "too many pieces");
        ids[i] = n_tokens;
        tokens[n_tokens++] = spell(script[i]);
    }
    for (int i = 0; i < n_tokens; i++) types[i] = i >= SCRIPT_EOS && i <= SCRIPT_CONTROL ? 3 : 1;
    gguf_writer_str(w, "tokenizer.ggml.model", "gpt2");
    gguf_writer_str(w, "tokenizer.ggml.pre", "gpt-2");
    gguf_writer_str_array(w, "tokenizer.ggml.tokens", tokens, n_tokens);
    gguf_writer_i32_array(w, "tokenizer.ggml.token_type", types, n_tokens);
    gguf_writer_str_array(w, "tokenizer.ggml.merges", NULL, 0);
    gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", SCRIPT_EOS);
    gguf_writer_u32(w, "tokenizer.ggml.eot_token_id", SCRIPT_EOT);
    for (int i = FIRST_PIECE; i < n_tokens; i++) free((void *)(uintptr_t)tokens[i]);
}

// Row j of the head looks at number i of a token's embedding: token j follows token i.
static float *successors(const int32_t *ids, int n) {
    float *head = calloc(SCRIPT_VOCAB * DIM, sizeof *head);
    int next[SCRIPT_VOCAB];
    must(head != NULL, "memory");
    for (int i = 0; i < SCRIPT_VOCAB; i++) next[i] = 'z';
    for (int i = 0; i < n; i++) {
        int32_t from = i ? ids[i - 1] : SCRIPT_START;
        must(next[from] == 'z', "a token occurs twice in the script");
        next[from] = ids[i];
    }
    for (int i = 0; i < SCRIPT_VOCAB; i++) head[next[i] * DIM + i] = 1.0f;
    return head;
}

static void add(gguf_writer *w, const char *name, int64_t n, int64_t k, const float *v) {
    uint64_t dims[2] = {(uint64_t)(k ? k : n), (uint64_t)n};
    gguf_writer_tensor(w, name, 0, k ? 2 : 1, dims, v, (size_t)(n * (k ? k : 1)) * sizeof *v);
}

static void write_tensors(gguf_writer *w, const int32_t *ids, int n) {
    static float zero[DIM * DIM], identity[SCRIPT_VOCAB * DIM], one[DIM];
    for (int i = 0; i < DIM; i++) one[i] = 1.0f, identity[i * DIM + i] = 1.0f;
    float *head = successors(ids, n);
    add(w, "token_embd.weight", SCRIPT_VOCAB, DIM, identity);
    add(w, "output_norm.weight", DIM, 0, one);
    add(w, "output.weight", SCRIPT_VOCAB, DIM, head);
    add(w, "blk.0.attn_norm.weight", DIM, 0, one);
    add(w, "blk.0.ffn_norm.weight", DIM, 0, one);
    add(w, "blk.0.attn_q.weight", HEADS * HEAD, DIM, zero);
    add(w, "blk.0.attn_k.weight", HEADS * HEAD, DIM, zero);
    add(w, "blk.0.attn_v.weight", HEADS * HEAD, DIM, zero);
    add(w, "blk.0.attn_output.weight", DIM, HEADS * HEAD, zero);
    add(w, "blk.0.ffn_gate.weight", FFN, DIM, zero);
    add(w, "blk.0.ffn_up.weight", FFN, DIM, zero);
    add(w, "blk.0.ffn_down.weight", DIM, FFN, zero);
    free(head);
}

void script_model_write(const char *path, const char *const *script, int n, int32_t *ids) {
    int32_t own[SCRIPT_VOCAB];
    if (!ids) ids = own;
    must(n <= SCRIPT_VOCAB, "the script is too long");
    gguf_writer w;
    gguf_writer_init(&w);
    gguf_writer_str(&w, "general.architecture", "llama");
    static const struct {
        const char *key;
        uint32_t value;
    } keys[] = {{"llama.block_count", 1},
                {"llama.context_length", CONTEXT},
                {"llama.embedding_length", DIM},
                {"llama.feed_forward_length", FFN},
                {"llama.attention.head_count", HEADS},
                {"llama.attention.head_count_kv", HEADS},
                {"llama.attention.key_length", HEAD},
                {"llama.attention.value_length", HEAD},
                {"llama.rope.dimension_count", HEAD}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) gguf_writer_u32(&w, keys[i].key, keys[i].value);
    gguf_writer_f32(&w, "llama.attention.layer_norm_rms_epsilon", 1e-6f);
    gguf_writer_f32(&w, "llama.rope.freq_base", 10000.0f);
    write_vocabulary(&w, script, n, ids);
    write_tensors(&w, ids, n);
    must(gguf_writer_save(&w, path), "could not write the file");
    gguf_writer_deinit(&w);
}
