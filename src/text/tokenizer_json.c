// tokenizer.json: the model (vocabulary and merges) and the added tokens. The rest of the file: tokenizer_pipeline.c.
#include "text/tokenizer_parts.h"

static status no_tokens(const char *what, error *err) {
    return error_set(err, STATUS_BAD_FILE, "tokenizer.json: %s is missing or not of the right kind", what);
}

static status read_vocab(tokenizer *t, const json_t *model, error *err) {
    const json_t *vocab;
    TRY(json_field_object(model, "tokenizer.json: model", "vocab", &vocab, err));
    if (!vocab) return no_tokens("model.vocab (an object of token to id)", err);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)vocab, key, value) {
        if (!json_is_integer(value)) {
            return error_set(err, STATUS_BAD_FILE,
                             "tokenizer.json: model.vocab[\"%s\"] must be an integer, but it is %s", key,
                             json_kind(value));
        }
        TRY(tokenizer_set_token(t, json_integer_value(value), str_from(key), TOKEN_NORMAL, err));
    }
    return STATUS_OK;
}

// The two halves of a merge: "left right", or an array of two strings.
static status merge_halves(const json_t *merge, size_t i, str *left, str *right, error *err) {
    if (json_is_string(merge)) {
        str s = {json_string_value(merge), json_string_length(merge)};
        ptrdiff_t space = str_find(s, STR(" "), 0);
        *left = (str){s.data, space < 0 ? 0 : (size_t)space};
        *right = (str){s.data + space + 1, s.len - (size_t)(space + 1)};
        if (space > 0 && right->len > 0 && str_find(*right, STR(" "), 0) < 0) return STATUS_OK;
    } else if (json_is_array(merge) && json_array_size(merge) == 2) {
        const json_t *l = json_array_get(merge, 0), *r = json_array_get(merge, 1);
        if (json_is_string(l) && json_is_string(r)) {
            *left = (str){json_string_value(l), json_string_length(l)};
            *right = (str){json_string_value(r), json_string_length(r)};
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_BAD_FILE, "tokenizer.json: model.merges[%zu] must be \"left right\" or two strings",
                     i);
}

static status read_merges(tokenizer *t, const json_t *model, error *err) {
    const json_t *merges;
    TRY(json_field_array(model, "tokenizer.json: model", "merges", &merges, err));
    if (!merges) return no_tokens("model.merges (an array)", err);
    size_t n = json_array_size(merges);
    if (n > INT32_MAX) return no_tokens("model.merges (too many)", err);
    if (!bpe_reserve(&t->bpe, n)) return error_no_memory(err, n * sizeof(bpe_pair));
    strbuf joined = {0};
    status st = STATUS_OK;
    for (size_t i = 0; i < n && st == STATUS_OK; i++) {
        const json_t *merge = json_array_get(merges, i);
        str left, right;
        if (i == 0 && json_is_string(merge) && str_starts(str_from(json_string_value(merge)), STR("#version")))
            continue;
        st = merge_halves(merge, i, &left, &right, err);
        if (st != STATUS_OK) break;
        strbuf_clear(&joined);
        strbuf_add(&joined, left);
        strbuf_add(&joined, right);
        st = joined.failed ? error_no_memory(err, left.len + right.len)
                           : tokenizer_merge(t, left, right, strbuf_str(&joined), (uint32_t)i, err);
        if (st == STATUS_BAD_FILE) error_prefix(err, st, "tokenizer.json");
    }
    strbuf_deinit(&joined);
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

static status read_model(tokenizer *t, const json_t *root, error *err) {
    static const char where[] = "tokenizer.json: model";
    const json_t *model;
    TRY(json_field_object(root, "tokenizer.json", "model", &model, err));
    if (!model) return no_tokens("model (an object)", err);
    TRY(check_options(model, err));
    TRY(json_field_bool(model, where, "ignore_merges", false, &t->whole_pieces, err));
    TRY(json_field_bool(model, where, "fuse_unk", false, &t->bpe.fuse_unknown, err));
    TRY(read_vocab(t, model, err));
    TRY(read_merges(t, model, err));
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

// Parses a file's text; an absent one gives NULL.
static status parse(str text, const char *name, json_t **out, error *err) {
    *out = NULL;
    if (text.len == 0) return STATUS_OK;
    json_error_t why;
    *out = json_loadb(text.data, text.len, JSON_ALLOW_NUL, &why);
    if (!*out) {
        return error_set(err, STATUS_BAD_FILE, "%s is not valid JSON: line %d, column %d: %s", name, why.line,
                         why.column, why.text);
    }
    if (json_is_object(*out)) return STATUS_OK;
    return error_set(err, STATUS_BAD_FILE, "%s must be an object, but it is %s", name, json_kind(*out));
}

static status build(tokenizer *t, const json_t *root, const json_t *config, const json_t *special_map,
                    str chat_template, error *err) {
    TRY(read_model(t, root, err));
    TRY(read_added_tokens(t, root, err));
    TRY(tokenizer_read_pipeline(t, root, err));
    TRY(tokenizer_read_config(t, config, special_map, err));
    if (chat_template.len) t->chat_template = chat_template; // the file of its own wins, as in transformers
    return tokenizer_finish(t, err);
}

status tokenizer_from_files(tokenizer **out, const tokenizer_files *files, error *err) {
    *out = NULL;
    json_t *root = NULL, *config = NULL, *special_map = NULL;
    tokenizer *t = NULL;
    status st = parse(files->tokenizer_json, "tokenizer.json", &root, err);
    if (st == STATUS_OK && !root) st = error_set(err, STATUS_BAD_FILE, "tokenizer.json is empty");
    if (st == STATUS_OK) st = parse(files->tokenizer_config, "tokenizer_config.json", &config, err);
    if (st == STATUS_OK) st = parse(files->special_tokens_map, "special_tokens_map.json", &special_map, err);
    if (st == STATUS_OK) st = tokenizer_new(&t, err);
    if (st == STATUS_OK) st = build(t, root, config, special_map, files->chat_template, err);
    json_decref(root);
    json_decref(config);
    json_decref(special_map);
    if (st != STATUS_OK) {
        tokenizer_close(t);
        return st;
    }
    *out = t;
    return STATUS_OK;
}
