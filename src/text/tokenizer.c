#include "text/tokenizer.h"

#include <stdlib.h>

#include "text/tokenizer_parts.h"
#include "text/utf8.h"
#include "text/utf8_stream.h"

void token_list_add(token_list *l, int32_t id) {
    if (l->failed) return;
    if (l->len == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 64;
        int32_t *data = cap > SIZE_MAX / sizeof *data ? NULL : realloc(l->data, cap * sizeof *data);
        if (!data) {
            l->failed = true;
            return;
        }
        l->data = data;
        l->cap = cap;
    }
    l->data[l->len++] = id;
}

void token_list_deinit(token_list *l) {
    free(l->data);
    *l = (token_list){0};
}

// A file of the folder as text; an absent one is empty.
static status read_optional(const checkpoint *ck, const char *name, char **data, str *text, error *err) {
    size_t len = 0;
    status st = checkpoint_read_file(ck, name, data, &len, err);
    if (st == STATUS_NOT_FOUND) {
        *data = NULL;
        st = STATUS_OK;
    }
    *text = (str){*data, *data ? len : 0};
    return st;
}

static status open_folder(tokenizer **out, const checkpoint *ck, error *err) {
    static const char *const name[] = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                                       "chat_template.jinja", "additional_chat_templates/tool_use.jinja"};
    enum { N = 5 };
    char *data[N] = {0};
    str text[N];
    status st = STATUS_OK;
    for (int i = 0; i < N && st == STATUS_OK; i++) st = read_optional(ck, name[i], &data[i], &text[i], err);
    if (st == STATUS_OK && !data[0]) {
        char *model = NULL;
        str model_text;
        bool sentencepiece = read_optional(ck, "tokenizer.model", &model, &model_text, NULL) == STATUS_OK && model;
        free(model);
        st = sentencepiece
                 ? error_set(err, STATUS_UNSUPPORTED,
                             "%s has a SentencePiece vocabulary (tokenizer.model) and no tokenizer.json; tally reads "
                             "byte-level BPE only; use token ids",
                             checkpoint_path(ck))
                 : error_set(err, STATUS_NOT_FOUND, "%s has no tokenizer.json; use token ids", checkpoint_path(ck));
    }
    if (st == STATUS_OK) {
        st = tokenizer_from_files(out, &(tokenizer_files){text[0], text[1], text[2], text[3], text[4]}, err);
        if (st != STATUS_OK) error_prefix(err, st, "%s", checkpoint_path(ck));
    }
    for (int i = 0; i < N; i++) free(data[i]);
    return st;
}

status tokenizer_open(tokenizer **out, const checkpoint *ck, error *err) {
    *out = NULL;
    const gguf *g = checkpoint_gguf(ck);
    if (!g) return open_folder(out, ck, err);
    status st = tokenizer_from_gguf(out, g, err);
    bool named = err && str_starts(str_from(err->text), str_from(checkpoint_path(ck))); // by gguf.c
    return st == STATUS_OK || named ? st : error_prefix(err, st, "%s", checkpoint_path(ck));
}

// One call of tokenizer_encode.
typedef struct encoder {
    const tokenizer *t;
    bool parse_special;
    regex_scratch regex;
    bpe_scratch bpe;
    token_list *out;
} encoder;

typedef struct marked { // text with its trust; trusted NULL: all of it
    str text;
    const unsigned char *trusted;
} marked;

static status encode_piece(void *arg, str piece, error *err) {
    encoder *e = arg;
    return bpe_encode(&e->t->bpe, &e->bpe, piece, e->out, err);
}

static status encode_plain(encoder *e, marked m, error *err) {
    return pretokenizer_cut(&(pretokenizer_run){&e->t->pre, &e->regex, encode_piece, e}, m.text, err);
}

static marked marked_part(marked m, size_t start, size_t end) {
    return (marked){{m.text.data + start, end - start}, m.trusted ? m.trusted + start : NULL};
}

static bool may_match(const encoder *e, const added_token *token, marked m, const added_match *match) {
    if (!token->special) return true;
    if (!e->parse_special) return false;
    return !m.trusted || !memchr(m.trusted + match->start, 0, match->end - match->start);
}

// Emits the set's tokens and passes what lies between them to `rest`. A match that may not be one hides what it covers, as in
// Hugging Face tokenizers with encode_special_tokens.
static status split_added(encoder *e, const added_set *set, marked m, status (*rest)(encoder *, marked, error *),
                          error *err) {
    size_t done = 0, from = 0;
    added_match match;
    while (added_set_find(set, m.text, from, &match)) {
        from = match.end;
        const added_token *token = &set->tokens[match.token];
        size_t start, end;
        if (!may_match(e, token, m, &match)) continue;
        if (!added_token_extent(token, m.text, done, &match, &start, &end)) continue;
        if (start > done) TRY(rest(e, marked_part(m, done, start), err));
        token_list_add(e->out, token->id);
        done = end;
    }
    return done < m.text.len ? rest(e, marked_part(m, done, m.text.len), err) : STATUS_OK;
}

static status encode_normalized(encoder *e, marked m, error *err) {
    return split_added(e, &e->t->normalized, m, encode_plain, err);
}

static status encode_raw(encoder *e, marked m, error *err) {
    if (e->t->norm.n_steps == 0) return encode_normalized(e, m, err);
    strbuf text = {0}, trusted = {0};
    status st = normalizer_apply(&e->t->norm, m.text, m.trusted, &text, &trusted, err);
    marked n = {strbuf_str(&text), m.trusted ? (const unsigned char *)strbuf_text(&trusted) : NULL};
    if (st == STATUS_OK) st = encode_normalized(e, n, err);
    strbuf_deinit(&text);
    strbuf_deinit(&trusted);
    return st;
}

// Damaged UTF-8 becomes U+FFFD, trusted where all the bytes it stands for were.
static status encode_repaired(encoder *e, marked m, error *err) {
    strbuf text = {0}, trusted = {0};
    for (size_t i = 0; i < m.text.len;) {
        utf8_kind kind;
        size_t n = (size_t)utf8_step((const unsigned char *)m.text.data + i, m.text.len - i, &kind);
        str piece = kind == UTF8_CHARACTER ? (str){m.text.data + i, n} : UTF8_REPLACEMENT;
        strbuf_add(&text, piece);
        if (m.trusted) {
            char all = memchr(m.trusted + i, 0, n) == NULL;
            for (size_t k = 0; k < piece.len; k++)
                strbuf_add_char(&trusted, kind == UTF8_CHARACTER ? (char)m.trusted[i + k] : all);
        }
        i += n;
    }
    status st = STATUS_OK;
    if (text.failed || trusted.failed) st = error_no_memory(err, m.text.len * 3);
    marked repaired = {strbuf_str(&text), m.trusted ? (const unsigned char *)strbuf_text(&trusted) : NULL};
    if (st == STATUS_OK) st = split_added(e, &e->t->raw, repaired, encode_raw, err);
    strbuf_deinit(&text);
    strbuf_deinit(&trusted);
    return st;
}

status tokenizer_encode(const tokenizer *t, str text, const unsigned char *trusted, unsigned flags, token_list *out,
                        error *err) {
    size_t before = out->len;
    encoder e = {.t = t, .parse_special = flags & ENCODE_PARSE_SPECIAL, .out = out};
    marked m = {text, trusted};
    bool add = flags & ENCODE_ADD_SPECIAL;
    for (int i = 0; add && i < t->prefix.n; i++) token_list_add(out, t->prefix.id[i]);
    status st = STATUS_OK;
    if (text.len && utf8_valid_prefix(text) == text.len) {
        st = split_added(&e, &t->raw, m, encode_raw, err);
    } else if (text.len) {
        st = encode_repaired(&e, m, err);
    }
    for (int i = 0; add && i < t->suffix.n; i++) token_list_add(out, t->suffix.id[i]);
    if (st == STATUS_OK && out->failed) st = error_no_memory(err, out->cap * 2 * sizeof *out->data);
    regex_scratch_deinit(&e.regex);
    bpe_scratch_deinit(&e.bpe);
    if (st != STATUS_OK) out->len = before;
    return st;
}

int tokenizer_n_tokens(const tokenizer *t) { return t->n_tokens; }

str tokenizer_bytes(const tokenizer *t, int32_t id) {
    if (id < 0 || id >= t->n_tokens || t->tokens[id].kind == TOKEN_UNUSED) return STR("");
    return t->tokens[id].bytes.data ? t->tokens[id].bytes : STR("");
}

bool tokenizer_is_special(const tokenizer *t, int32_t id) {
    return id >= 0 && id < t->n_tokens && t->tokens[id].kind == TOKEN_SPECIAL;
}

int32_t tokenizer_find(const tokenizer *t, str token) {
    int64_t id;
    return map_get(&t->by_spelling, token, &id) ? (int32_t)id : -1;
}

status tokenizer_decode(const tokenizer *t, const int32_t *ids, size_t n, bool skip_special, strbuf *out, error *err) {
    utf8_stream s = {0};
    for (size_t i = 0; i < n; i++) {
        if (skip_special && tokenizer_is_special(t, ids[i])) continue;
        utf8_stream_push(&s, tokenizer_bytes(t, ids[i]), out);
    }
    utf8_stream_finish(&s, out);
    return out->failed ? error_no_memory(err, out->len) : STATUS_OK;
}

str tokenizer_chat_template(const tokenizer *t) { return t->chat_template; }
str tokenizer_tool_template(const tokenizer *t) { return t->tool_template; }
str tokenizer_unk(const tokenizer *t) { return t->unk; }
str tokenizer_pad(const tokenizer *t) { return t->pad; }
str tokenizer_bos(const tokenizer *t) { return t->bos; }
str tokenizer_eos(const tokenizer *t) { return t->eos; }

int tokenizer_stop_ids(const tokenizer *t, int32_t *ids, int max) {
    int n = t->n_stop < max ? t->n_stop : max;
    for (int i = 0; i < n; i++) ids[i] = t->stop[i];
    return n;
}
