// The inside of a tokenizer, and what its two readers (tokenizer_json.c, tokenizer_gguf.c) build it with.
//
// Order: tokenizer_new, tokenizer_set_token for the vocabulary, tokenizer_merge, tokenizer_add for added tokens, the fields of
// the pipeline, tokenizer_finish. All strings are copied.
#ifndef TALLY_TEXT_TOKENIZER_PARTS_H
#define TALLY_TEXT_TOKENIZER_PARTS_H

#include <jansson.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"
#include "text/tokenizer.h"

typedef enum token_kind { TOKEN_UNDEFINED, TOKEN_NORMAL, TOKEN_USER, TOKEN_SPECIAL, TOKEN_UNUSED } token_kind;

typedef struct vocab_token {
    str spelled; // as in the file
    str bytes;   // decoded
    token_kind kind;
} vocab_token;

enum {
    TOKENIZER_MAX_ID = 1 << 22, // an id above it is a damaged file
    TOKENIZER_MAX_AFFIX = 8,
    TOKENIZER_MAX_STOP = 32
};

typedef struct token_affix {
    int32_t id[TOKENIZER_MAX_AFFIX];
    int n;
} token_affix;

struct tokenizer {
    arena memory;
    vocab_token *tokens; // owned, n_tokens entries
    int n_tokens, tokens_cap;
    int32_t last_joined; // while merges are added
    map by_spelling;
    map by_bytes; // vocabulary entries; filled where the file ignores merges for whole pieces
    bool whole_pieces;
    added_token *added; // owned
    int n_added, added_cap;
    added_set raw, normalized; // matched before and after normalisation
    bool byte_level;           // tokenizer.json: the pre-tokenizer's last step was read
    normalizer norm;
    pretokenizer pre;
    bpe bpe;
    token_affix prefix, suffix; // ENCODE_ADD_SPECIAL
    str chat_template, tool_template, bos, eos, unk, pad;
    int32_t stop[TOKENIZER_MAX_STOP];
    int n_stop;
};

status tokenizer_new(tokenizer **out, error *err);
status tokenizer_set_token(tokenizer *t, int64_t id, str spelled, token_kind kind, error *err);
// `joined` is the spelling of the result. All three must be in the vocabulary.
status tokenizer_merge(tokenizer *t, str left, str right, str joined, uint32_t rank, error *err);
status tokenizer_add(tokenizer *t, added_token token, error *err);
void tokenizer_add_stop(tokenizer *t, int64_t id);
status tokenizer_finish(tokenizer *t, error *err);

// The texts of a folder's files; an empty one is absent. Only tokenizer_json is needed.
typedef struct tokenizer_files {
    str tokenizer_json, tokenizer_config, special_tokens_map, chat_template, tool_template;
} tokenizer_files;
status tokenizer_from_files(tokenizer **out, const tokenizer_files *files, error *err);
status tokenizer_from_gguf(tokenizer **out, const gguf *g, error *err);

// Parts of tokenizer_from_files: tokenizer.json without its model, and tokenizer_config.json with special_tokens_map.json (either
// may be NULL).
status tokenizer_read_pipeline(tokenizer *t, const json_t *root, error *err);
status tokenizer_read_config(tokenizer *t, const json_t *config, const json_t *special_map, error *err);
status tokenizer_read_added(tokenizer *t, const json_t *entry, const char *where, int64_t id, error *err);

// Typed fields of a JSON object. `where` names the object in messages ("tokenizer.json: model"). Absent or null: the fallback,
// an empty string, NULL. Other than base/json.h's, these know strings with zero bytes, arrays and objects.
status json_field_bool(const json_t *o, const char *where, const char *key, bool fallback, bool *out, error *err);
status json_field_int(const json_t *o, const char *where, const char *key, int64_t fallback, int64_t *out, error *err);
status json_field_str(const json_t *o, const char *where, const char *key, str *out, error *err);
status json_field_array(const json_t *o, const char *where, const char *key, const json_t **out, error *err);
status json_field_object(const json_t *o, const char *where, const char *key, const json_t **out, error *err);

#endif
