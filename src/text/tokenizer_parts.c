// Building a tokenizer, whatever file it comes from.
#include "text/tokenizer_parts.h"

#include <stdlib.h>

#include "text/byte_map.h"

// Ends of a turn or a text that files do not always list as such.
static const char *const END_TOKENS[] = {
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<end_of_turn>",
    "<｜end▁of▁sentence｜>", // DeepSeek: U+FF5C bars, U+2581 between the words
};

status tokenizer_new(tokenizer **out, error *err) {
    tokenizer *t = calloc(1, sizeof *t);
    *out = t;
    if (!t) return error_no_memory(err, sizeof *t);
    arena_init(&t->memory);
    map_init(&t->by_spelling);
    map_init(&t->by_bytes);
    bpe_init(&t->bpe);
    return STATUS_OK;
}

void tokenizer_close(tokenizer *t) {
    if (!t) return;
    added_set_deinit(&t->raw);
    added_set_deinit(&t->normalized);
    pretokenizer_deinit(&t->pre);
    bpe_deinit(&t->bpe);
    map_deinit(&t->by_spelling);
    map_deinit(&t->by_bytes);
    free(t->tokens);
    free(t->added);
    arena_deinit(&t->memory);
    free(t);
}

// Room for ids below n; new ones are undefined.
static status tokens_reserve(tokenizer *t, int n, error *err) {
    if (n > t->tokens_cap) {
        int cap = n + n / 2 + 1024;
        vocab_token *tokens = realloc(t->tokens, (size_t)cap * sizeof *tokens);
        if (!tokens) return error_no_memory(err, (size_t)cap * sizeof *tokens);
        t->tokens = tokens;
        t->tokens_cap = cap;
    }
    if (n > t->n_tokens) {
        memset(t->tokens + t->n_tokens, 0, (size_t)(n - t->n_tokens) * sizeof *t->tokens);
        t->n_tokens = n;
    }
    return STATUS_OK;
}

static status check_id(int64_t id, str spelled, error *err) {
    if (id >= 0 && id <= TOKENIZER_MAX_ID) return STATUS_OK;
    return error_set(err, STATUS_BAD_FILE, "token \"%.*s\" has id %lld, which is not between 0 and %d",
                     STR_ARG(spelled), (long long)id, TOKENIZER_MAX_ID);
}

// The bytes a vocabulary entry stands for. Entries with characters outside the byte alphabet stand for themselves and can not be
// reached by merging.
static status decode_token(tokenizer *t, vocab_token *token, bool *of_alphabet, error *err) {
    size_t n = 0;
    char *bytes = arena_alloc_aligned(&t->memory, token->spelled.len + 1, 1);
    if (!bytes) return error_no_memory(err, token->spelled.len + 1);
    *of_alphabet = byte_map_decode(token->spelled, bytes, &n);
    token->bytes = *of_alphabet ? (str){bytes, n} : token->spelled;
    return STATUS_OK;
}

// arena_str aligns for any type; strings need none.
static status copy_str(tokenizer *t, str *s, error *err) {
    char *p = arena_alloc_aligned(&t->memory, s->len + 1, 1);
    if (!p) return error_no_memory(err, s->len + 1);
    if (s->len) memcpy(p, s->data, s->len);
    p[s->len] = 0;
    s->data = p;
    return STATUS_OK;
}

status tokenizer_set_token(tokenizer *t, int64_t id, str spelled, token_kind kind, error *err) {
    TRY(check_id(id, spelled, err));
    TRY(tokens_reserve(t, (int)id + 1, err));
    TRY(copy_str(t, &spelled, err));
    vocab_token *token = &t->tokens[id];
    *token = (vocab_token){.spelled = spelled, .bytes = spelled, .kind = kind};
    if (kind != TOKEN_UNUSED && !map_put(&t->by_spelling, spelled, id)) return error_no_memory(err, 64);
    if (kind != TOKEN_NORMAL) return STATUS_OK;
    bool of_alphabet = false;
    TRY(decode_token(t, token, &of_alphabet, err));
    if (!of_alphabet) return STATUS_OK;
    if (token->bytes.len == 1) t->bpe.byte_id[(unsigned char)token->bytes.data[0]] = (int32_t)id;
    if (t->whole_pieces && !map_put(&t->by_bytes, token->bytes, id)) return error_no_memory(err, 64);
    return STATUS_OK;
}

// The id of a merge's result. Most files number results in the order of the merges, so the one after the last is tried first.
static bool find_joined(tokenizer *t, str joined, int64_t *id) {
    int32_t next = t->last_joined + 1;
    bool hit = next < t->n_tokens && t->tokens[next].kind == TOKEN_NORMAL && str_eq(t->tokens[next].spelled, joined);
    *id = next;
    if (!hit && !map_get(&t->by_spelling, joined, id)) return false;
    t->last_joined = (int32_t)*id;
    return true;
}

status tokenizer_merge(tokenizer *t, str left, str right, str joined, uint32_t rank, error *err) {
    int64_t l, r, j;
    str missing = !map_get(&t->by_spelling, left, &l)    ? left
                  : !map_get(&t->by_spelling, right, &r) ? right
                  : !find_joined(t, joined, &j)          ? joined
                                                         : (str){0};
    if (missing.data) {
        return error_set(err, STATUS_BAD_FILE,
                         "merge %u (\"%.*s\" and \"%.*s\") needs the token \"%.*s\", which the vocabulary lacks", rank,
                         STR_ARG(left), STR_ARG(right), STR_ARG(missing));
    }
    bpe_pair pair = {.left = (int32_t)l, .right = (int32_t)r, .rank = rank, .merged = (int32_t)j};
    return bpe_add_merge(&t->bpe, pair) ? STATUS_OK : error_no_memory(err, sizeof pair);
}

status tokenizer_add(tokenizer *t, added_token token, error *err) {
    if (token.content.len == 0) return STATUS_OK;
    TRY(check_id(token.id, token.content, err));
    TRY(tokens_reserve(t, token.id + 1, err));
    if (t->n_added == t->added_cap) {
        int cap = t->added_cap ? t->added_cap * 2 : 64;
        added_token *added = realloc(t->added, (size_t)cap * sizeof *added);
        if (!added) return error_no_memory(err, (size_t)cap * sizeof *added);
        t->added = added;
        t->added_cap = cap;
    }
    TRY(copy_str(t, &token.content, err));
    token_kind kind = token.special ? TOKEN_SPECIAL : TOKEN_USER;
    t->tokens[token.id] = (vocab_token){.spelled = token.content, .bytes = token.content, .kind = kind};
    t->added[t->n_added++] = token;
    return map_put(&t->by_spelling, token.content, token.id) ? STATUS_OK : error_no_memory(err, 64);
}

void tokenizer_add_stop(tokenizer *t, int64_t id) {
    for (int i = 0; i < t->n_stop; i++) {
        if (t->stop[i] == id) return;
    }
    if (id >= 0 && id < t->n_tokens && t->n_stop < TOKENIZER_MAX_STOP) t->stop[t->n_stop++] = (int32_t)id;
}

static status build_sets(tokenizer *t, error *err) {
    added_set_init(&t->raw, t->added);
    added_set_init(&t->normalized, t->added);
    for (int i = 0; i < t->n_added; i++) {
        str content = t->added[i].content;
        bool ok;
        if (t->added[i].normalized) {
            strbuf text = {0};
            status st = normalizer_apply(&t->norm, content, NULL, &text, NULL, err);
            ok = st == STATUS_OK && added_set_add(&t->normalized, i, strbuf_str(&text));
            strbuf_deinit(&text);
            if (st != STATUS_OK) return st;
        } else {
            ok = added_set_add(&t->raw, i, content);
        }
        if (!ok) return error_no_memory(err, sizeof(added_node));
    }
    return STATUS_OK;
}

status tokenizer_finish(tokenizer *t, error *err) {
    for (size_t i = 0; i < sizeof END_TOKENS / sizeof END_TOKENS[0]; i++) {
        int32_t id = tokenizer_find(t, str_from(END_TOKENS[i]));
        if (id >= 0 && t->tokens[id].kind == TOKEN_SPECIAL) tokenizer_add_stop(t, id);
    }
    TRY(copy_str(t, &t->chat_template, err));
    TRY(copy_str(t, &t->bos, err));
    TRY(copy_str(t, &t->eos, err));
    TRY(copy_str(t, &t->tool_template, err));
    TRY(copy_str(t, &t->unk, err));
    TRY(copy_str(t, &t->pad, err));
    while (t->n_tokens > 0) { // ids at the end that stand for nothing
        token_kind kind = t->tokens[t->n_tokens - 1].kind;
        if (kind != TOKEN_UNDEFINED && kind != TOKEN_UNUSED) break;
        t->n_tokens--;
    }
    if (t->whole_pieces) t->bpe.whole = &t->by_bytes;
    return build_sets(t, err);
}
