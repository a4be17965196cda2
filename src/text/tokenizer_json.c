// tokenizer.json: the model (vocabulary and merges) and the added tokens. The rest of the file: tokenizer_pipeline.c.
#include <string.h>

#include "text/json_reader.h"
#include "text/tokenizer_parts.h"

// tokenizer.json in two parts.
typedef struct token_file {
    str vocab, merges; // as spelled in the text; empty: absent
    json_t *rest;      // all else; the two are empty there
} token_file;

static status missing(const char *what, error *err) {
    return error_set(err, STATUS_BAD_FILE, "tokenizer.json: %s is missing", what);
}

static status damaged(const json_reader *r, const char *what, size_t i, const char *expected, error *err) {
    if (r->unescaped[0].failed || r->unescaped[1].failed) return error_no_memory(err, r->text.len);
    size_t n = 0;
    while (n < 40 && r->at + n < r->text.len && (unsigned char)r->text.data[r->at + n] >= ' ') n++; // within one line
    return error_set(err, STATUS_BAD_FILE, "tokenizer.json: entry %zu of model.%s must be %s; it goes on with: %.*s", i,
                     what, expected, (int)n, r->text.data + r->at);
}

static status read_vocab(tokenizer *t, str text, error *err) {
    if (text.len == 0) return missing("model.vocab (an object)", err);
    json_reader r = {.text = text};
    status st = STATUS_OK;
    if (!json_take(&r, '{')) return error_set(err, STATUS_BAD_FILE, "tokenizer.json: model.vocab must be an object");
    for (size_t i = 0; st == STATUS_OK && !(i == 0 && json_take(&r, '}')); i++) {
        str token;
        int64_t id;
        if (!json_take_string(&r, &token) || !json_take(&r, ':') || !json_take_int(&r, &id)) {
            st = damaged(&r, "vocab", i, "\"token\": id", err);
            break;
        }
        st = tokenizer_set_token(t, id, token, TOKEN_NORMAL, err);
        if (st != STATUS_OK || json_take(&r, '}')) break;
        if (!json_take(&r, ',')) st = damaged(&r, "vocab", i, "followed by a comma", err);
    }
    json_reader_deinit(&r);
    return st;
}

// The two halves of a merge: "left right", or an array of two strings.
static bool merge_halves(json_reader *r, str *left, str *right) {
    if (json_take(r, '[')) {
        return json_take_string(r, left) && json_take(r, ',') && json_take_string(r, right) && json_take(r, ']');
    }
    str both;
    if (!json_take_string(r, &both)) return false;
    ptrdiff_t space = str_find(both, STR(" "), 0);
    if (space <= 0) return false;
    *left = (str){both.data, (size_t)space};
    *right = (str){both.data + space + 1, both.len - (size_t)space - 1};
    return right->len > 0 && (str_find(*right, STR(" "), 0) < 0 || str_is(*left, "#version:"));
}

static status read_merge(tokenizer *t, json_reader *r, size_t i, strbuf *joined, error *err) {
    str left, right;
    if (i > INT32_MAX || !merge_halves(r, &left, &right)) {
        return damaged(r, "merges", i, "\"left right\" or two strings", err);
    }
    if (i == 0 && str_is(left, "#version:")) return STATUS_OK; // the first line of an old merges.txt
    strbuf_clear(joined);
    strbuf_add(joined, left);
    strbuf_add(joined, right);
    if (joined->failed) return error_no_memory(err, left.len + right.len);
    return tokenizer_merge(t, left, right, strbuf_str(joined), (uint32_t)i, err);
}

static status read_merges(tokenizer *t, str text, error *err) {
    if (text.len == 0) return missing("model.merges (an array)", err);
    json_reader r = {.text = text};
    if (!json_take(&r, '[')) return error_set(err, STATUS_BAD_FILE, "tokenizer.json: model.merges must be an array");
    if (!bpe_reserve(&t->bpe, (size_t)t->n_tokens)) return error_no_memory(err, (size_t)t->n_tokens * sizeof(bpe_pair));
    strbuf joined = {0};
    status st = STATUS_OK;
    for (size_t i = 0; st == STATUS_OK && !(i == 0 && json_take(&r, ']')); i++) {
        st = read_merge(t, &r, i, &joined, err);
        if (st != STATUS_OK || json_take(&r, ']')) break;
        if (!json_take(&r, ',')) st = damaged(&r, "merges", i, "followed by a comma", err);
    }
    strbuf_deinit(&joined);
    json_reader_deinit(&r);
    return st;
}

static status refuse_option(const char *option, const char *value, error *err) {
    return error_set(err, STATUS_UNSUPPORTED,
                     "tokenizer.json: model.%s is %s; tally reads byte-level BPE only, where it is not used", option,
                     value);
}

static status check_options(const json_t *model, error *err) {
    static const char where[] = "tokenizer.json: model";
    static const char *const affix[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    str s;
    TRY(json_field_str(model, where, "type", &s, err));
    if (!str_is(s, "BPE") && !(s.len == 0 && json_object_get(model, "merges"))) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "tokenizer.json: model.type is \"%.*s\"; tally reads byte-level BPE only", STR_ARG(s));
    }
    bool byte_fallback;
    TRY(json_field_bool(model, where, "byte_fallback", false, &byte_fallback, err));
    if (byte_fallback) {
        return error_set(
            err, STATUS_UNSUPPORTED,
            "tokenizer.json: model.byte_fallback is true, so this is a SentencePiece vocabulary; tally reads "
            "byte-level BPE only");
    }
    for (int i = 0; i < 2; i++) {
        TRY(json_field_str(model, where, affix[i], &s, err));
        if (s.len) return refuse_option(affix[i], "not empty", err);
    }
    const json_t *dropout = json_object_get(model, "dropout");
    if (dropout && !json_is_null(dropout) && json_number_value(dropout) != 0.0)
        return refuse_option("dropout", "not 0", err);
    return STATUS_OK;
}

static status read_model(tokenizer *t, const token_file *file, error *err) {
    static const char where[] = "tokenizer.json: model";
    const json_t *model;
    TRY(json_field_object(file->rest, "tokenizer.json", "model", &model, err));
    if (!model) return missing("model (an object)", err);
    TRY(check_options(model, err));
    TRY(json_field_bool(model, where, "ignore_merges", false, &t->whole_pieces, err));
    TRY(json_field_bool(model, where, "fuse_unk", false, &t->bpe.fuse_unknown, err));
    TRY(read_vocab(t, file->vocab, err));
    TRY(read_merges(t, file->merges, err));
    str unknown;
    TRY(json_field_str(model, where, "unk_token", &unknown, err));
    if (unknown.len) {
        t->bpe.unknown_id = tokenizer_find(t, unknown);
        if (t->bpe.unknown_id < 0) {
            return error_set(err, STATUS_BAD_FILE, "tokenizer.json: model.unk_token \"%.*s\" is not in the vocabulary",
                             STR_ARG(unknown));
        }
    }
    return STATUS_OK;
}

status tokenizer_read_added(tokenizer *t, const json_t *entry, const char *where, int64_t id, error *err) {
    if (!json_is_object(entry)) {
        return error_set(err, STATUS_BAD_FILE, "%s must be an object, but it is %s", where, json_kind(entry));
    }
    added_token token = {0};
    TRY(json_field_int(entry, where, "id", id, &id, err));
    TRY(json_field_str(entry, where, "content", &token.content, err));
    TRY(json_field_bool(entry, where, "special", false, &token.special, err));
    TRY(json_field_bool(entry, where, "single_word", false, &token.single_word, err));
    TRY(json_field_bool(entry, where, "lstrip", false, &token.lstrip, err));
    TRY(json_field_bool(entry, where, "rstrip", false, &token.rstrip, err));
    TRY(json_field_bool(entry, where, "normalized", !token.special, &token.normalized, err));
    if (id < 0 || id > TOKENIZER_MAX_ID) {
        return error_set(err, STATUS_BAD_FILE, "%s.id is %lld, which is not between 0 and %d", where, (long long)id,
                         TOKENIZER_MAX_ID);
    }
    int32_t known = tokenizer_find(t, token.content); // the vocabulary's id counts, as in Hugging Face tokenizers
    token.id = known >= 0 ? known : (int32_t)id;
    return tokenizer_add(t, token, err);
}

static status read_added_tokens(tokenizer *t, const json_t *root, error *err) {
    const json_t *list;
    TRY(json_field_array(root, "tokenizer.json", "added_tokens", &list, err));
    for (size_t i = 0; i < json_array_size(list); i++) {
        char where[64];
        snprintf(where, sizeof where, "tokenizer.json: added_tokens[%zu]", i);
        TRY(tokenizer_read_added(t, json_array_get(list, i), where, -1, err));
    }
    return STATUS_OK;
}

// Parses a file's text; an absent one gives NULL. The files beside tokenizer.json (`flags`) may hold integers beyond 64 bits, which nobody
// here reads: transformers writes 10^30 for a model_max_length that is not known.
static status parse(str text, const char *name, size_t flags, json_t **out, error *err) {
    *out = NULL;
    if (text.len == 0) return STATUS_OK;
    json_error_t why;
    *out = json_loadb(text.data, text.len, JSON_ALLOW_NUL | flags, &why);
    if (!*out) {
        for (char *p = why.text; *p; p++) { // jansson quotes the text, which may hold anything
            if ((unsigned char)*p < ' ' || (unsigned char)*p > '~') *p = '?';
        }
        return error_set(err, STATUS_BAD_FILE, "%s is not valid JSON: line %d, column %d: %s", name, why.line,
                         why.column, why.text);
    }
    if (json_is_object(*out)) return STATUS_OK;
    return error_set(err, STATUS_BAD_FILE, "%s must be an object, but it is %s", name, json_kind(*out));
}

// Takes `part` out of `text`, which it lies in, and puts `instead` in its place.
static void copy_without(strbuf *out, str *text, str part, str instead) {
    size_t before = (size_t)(part.data - text->data);
    strbuf_add(out, (str){text->data, before});
    strbuf_add(out, instead);
    *text = (str){part.data + part.len, text->len - before - part.len};
}

static status open_token_file(token_file *f, str text, error *err) {
    *f = (token_file){0};
    if (text.len == 0) return error_set(err, STATUS_BAD_FILE, "tokenizer.json is empty");
    size_t start = 0;
    while (start < text.len && strchr(" \t\r\n", text.data[start])) start++;
    str root = {text.data + start, text.len - start}, model = {0};
    if (json_member(root, STR("model"), &model)) {
        if (!json_member(model, STR("vocab"), &f->vocab)) f->vocab = (str){0};
        if (!json_member(model, STR("merges"), &f->merges)) f->merges = (str){0};
    }
    strbuf rest = {0};
    str left = text;
    bool vocab_first = (uintptr_t)f->vocab.data < (uintptr_t)f->merges.data;
    for (int i = 0; i < 2; i++) {
        bool vocab = (i == 0) == vocab_first;
        str part = vocab ? f->vocab : f->merges;
        if (part.len) copy_without(&rest, &left, part, vocab ? STR("{}") : STR("[]"));
    }
    strbuf_add(&rest, left);
    status st =
        rest.failed ? error_no_memory(err, text.len) : parse(strbuf_str(&rest), "tokenizer.json", 0, &f->rest, NULL);
    if (st == STATUS_BAD_FILE) { // again for the message, whose line should be that of the file
        json_decref(f->rest);
        st = parse(text, "tokenizer.json", 0, &f->rest, err);
        if (st == STATUS_OK) st = error_set(err, STATUS_BAD_FILE, "tokenizer.json: model is damaged");
    }
    strbuf_deinit(&rest);
    return st;
}

static status build(tokenizer *t, const token_file *file, const json_t *config, const json_t *special_map,
                    const tokenizer_files *files, error *err) {
    TRY(read_model(t, file, err));
    TRY(read_added_tokens(t, file->rest, err));
    TRY(tokenizer_read_pipeline(t, file->rest, err));
    TRY(tokenizer_read_config(t, config, special_map, err));
    // templates in files of their own win, as in transformers
    if (files->chat_template.len) t->chat_template = files->chat_template, t->tool_template = STR("");
    if (files->tool_template.len) t->tool_template = files->tool_template;
    return tokenizer_finish(t, err);
}

status tokenizer_from_files(tokenizer **out, const tokenizer_files *files, error *err) {
    *out = NULL;
    token_file file = {0};
    json_t *config = NULL, *special_map = NULL;
    tokenizer *t = NULL;
    status st = open_token_file(&file, files->tokenizer_json, err);
    if (st == STATUS_OK)
        st = parse(files->tokenizer_config, "tokenizer_config.json", JSON_DECODE_INT_AS_REAL, &config, err);
    if (st == STATUS_OK)
        st = parse(files->special_tokens_map, "special_tokens_map.json", JSON_DECODE_INT_AS_REAL, &special_map, err);
    if (st == STATUS_OK) st = tokenizer_new(&t, err);
    if (st == STATUS_OK) st = build(t, &file, config, special_map, files, err);
    json_decref(file.rest);
    json_decref(config);
    json_decref(special_map);
    if (st != STATUS_OK) {
        tokenizer_close(t);
        return st;
    }
    *out = t;
    return STATUS_OK;
}
