// tokenizer_config.json and special_tokens_map.json: added tokens that tokenizer.json lacks, beginning and end of text, the chat
// template.
#include <stdlib.h>

#include "text/tokenizer_parts.h"

static const char WHERE[] = "tokenizer_config.json";

// Tokens of added_tokens_decoder that tokenizer.json does not have (Qwen3.5: the seven highest), in the order of the file.
static status read_added_decoder(tokenizer *t, const json_t *config, error *err) {
    const json_t *decoder;
    TRY(json_field_object(config, WHERE, "added_tokens_decoder", &decoder, err));
    const char *key;
    json_t *entry;
    json_object_foreach((json_t *)decoder, key, entry) {
        char where[96];
        snprintf(where, sizeof where, "%s: added_tokens_decoder[\"%.20s\"]", WHERE, key);
        str content;
        if (!json_is_object(entry)) return error_set(err, STATUS_BAD_FILE, "%s must be an object", where);
        TRY(json_field_str(entry, where, "content", &content, err));
        if (tokenizer_find(t, content) >= 0) continue;
        char *end;
        long long id = strtoll(key, &end, 10);
        if (*key == 0 || *end != 0) return error_set(err, STATUS_BAD_FILE, "%s: the key must be an id", where);
        TRY(tokenizer_read_added(t, entry, where, id, err));
    }
    return STATUS_OK;
}

// A special token's text: a string, or an object with "content"; empty if neither file names it.
static status special_text(const json_t *config, const json_t *special_map, const char *key, str *out, error *err) {
    const json_t *files[] = {config, special_map};
    const char *names[] = {WHERE, "special_tokens_map.json"};
    *out = STR("");
    for (int i = 0; i < 2 && out->len == 0; i++) {
        const json_t *v = json_object_get(files[i], key);
        if (!v || json_is_null(v)) continue;
        if (json_is_object(v)) {
            TRY(json_field_str(v, names[i], "content", out, err));
        } else {
            TRY(json_field_str(files[i], names[i], key, out, err));
        }
    }
    return STATUS_OK;
}

// An explicit add_bos_token or add_eos_token replaces what tokenizer.json's post-processor says, as in transformers 5.
static status read_affixes(tokenizer *t, const json_t *config, error *err) {
    bool add_bos, add_eos;
    TRY(json_field_bool(config, WHERE, "add_bos_token", false, &add_bos, err));
    TRY(json_field_bool(config, WHERE, "add_eos_token", false, &add_eos, err));
    if (!json_object_get(config, "add_bos_token") && !json_object_get(config, "add_eos_token")) return STATUS_OK;
    const struct {
        bool add;
        str token;
        token_affix *affix;
        const char *key;
    } side[] = {{add_bos, t->bos, &t->prefix, "bos_token"}, {add_eos, t->eos, &t->suffix, "eos_token"}};
    for (int i = 0; i < 2; i++) {
        side[i].affix->n = 0;
        if (!side[i].add || side[i].token.len == 0) continue;
        int32_t id = tokenizer_find(t, side[i].token);
        if (id < 0) {
            return error_set(err, STATUS_BAD_FILE, "%s: %s \"%.*s\" is not in the vocabulary", WHERE, side[i].key,
                             STR_ARG(side[i].token));
        }
        side[i].affix->id[side[i].affix->n++] = id;
    }
    return STATUS_OK;
}

// A string, or a list of {name, template}: the one named "default", else the first; and "tool_use".
static status read_chat_template(tokenizer *t, const json_t *config, error *err) {
    const json_t *v = json_object_get(config, "chat_template");
    if (!json_is_array(v)) return json_field_str(config, WHERE, "chat_template", &t->chat_template, err);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *entry = json_array_get(v, i);
        char where[64];
        snprintf(where, sizeof where, "%s: chat_template[%zu]", WHERE, i);
        if (!json_is_object(entry)) return error_set(err, STATUS_BAD_FILE, "%s must be an object", where);
        str name, text;
        TRY(json_field_str(entry, where, "name", &name, err));
        TRY(json_field_str(entry, where, "template", &text, err));
        if (i == 0 || str_is(name, "default")) t->chat_template = text;
        if (str_is(name, "tool_use")) t->tool_template = text;
    }
    return STATUS_OK;
}

// Special tokens that are vocabulary entries only: transformers makes them special added tokens.
static status add_named(tokenizer *t, str content, error *err) {
    int32_t id = content.len ? tokenizer_find(t, content) : -1;
    if (id < 0 || t->tokens[id].kind != TOKEN_NORMAL) return STATUS_OK;
    return tokenizer_add(t, (added_token){.content = content, .id = id, .special = true}, err);
}

status tokenizer_read_config(tokenizer *t, const json_t *config, const json_t *special_map, error *err) {
    TRY(read_added_decoder(t, config, err));
    TRY(special_text(config, special_map, "bos_token", &t->bos, err));
    TRY(special_text(config, special_map, "eos_token", &t->eos, err));
    TRY(special_text(config, special_map, "pad_token", &t->pad, err));
    TRY(special_text(config, special_map, "unk_token", &t->unk, err));
    TRY(add_named(t, t->bos, err));
    TRY(add_named(t, t->eos, err));
    TRY(add_named(t, t->pad, err));
    TRY(add_named(t, t->unk, err));
    TRY(read_affixes(t, config, err));
    tokenizer_add_stop(t, t->eos.len ? tokenizer_find(t, t->eos) : -1);
    return read_chat_template(t, config, err);
}
