// Text to token ids and back: byte-level BPE as Hugging Face's tokenizer.json and GGUF files describe it.
//
// Encoding: (1) added tokens are split out, longest first (special ones only where parsing them is allowed); (2) the rest is
// normalised as the file says; (3) cut by the family's regular expression (pretokenizer.h); (4) mapped to bytes; (5) merged by
// rank (bpe.h). Ids equal those of Hugging Face tokenizers on any input.
// A tokenizer is immutable after open; any number of threads may use it.
#ifndef TALLY_TEXT_TOKENIZER_H
#define TALLY_TEXT_TOKENIZER_H

#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "file/checkpoint.h"

typedef struct token_list { // a growable list of ids; growth failure sets `failed`
    int32_t *data;          // owned
    size_t len, cap;
    bool failed;
} token_list;
void token_list_add(token_list *l, int32_t id);
void token_list_deinit(token_list *l);

typedef struct tokenizer tokenizer;

// From tokenizer.json (+ tokenizer_config.json) of a folder, or from a GGUF file's keys. STATUS_NOT_FOUND: the checkpoint has
// none (ids still work). SentencePiece vocabularies, unknown pre-tokenizers, models other than byte-level BPE: UNSUPPORTED by
// name.
status tokenizer_open(tokenizer **out, const checkpoint *ck, error *err);
void tokenizer_close(tokenizer *t);

enum {
    ENCODE_ADD_SPECIAL = 1,   // what the file's post-processor or add_bos_token says is put around the text
    ENCODE_PARSE_SPECIAL = 2, // special added tokens in the text become their ids
};
// Appends the ids of `text` (any bytes; invalid UTF-8 becomes U+FFFD as in Python's errors="replace"). `trusted`, if not NULL,
// has one byte per byte of text: a special token is recognised only where all its bytes are non-zero. Added tokens that are
// not special match everywhere.
status tokenizer_encode(const tokenizer *t, str text, const unsigned char *trusted, unsigned flags, token_list *out,
                        error *err);

int tokenizer_n_tokens(const tokenizer *t);          // 1 + highest defined id
str tokenizer_bytes(const tokenizer *t, int32_t id); // decoded bytes; empty for undefined and unused ids
bool tokenizer_is_special(const tokenizer *t, int32_t id);
int32_t tokenizer_find(const tokenizer *t,
                       str token); // the id of an added token or vocabulary entry as spelled in the file, or -1
// Decodes ids to UTF-8 text; invalid bytes become U+FFFD. skip_special leaves special tokens out.
status tokenizer_decode(const tokenizer *t, const int32_t *ids, size_t n, bool skip_special, strbuf *out, error *err);

str tokenizer_chat_template(const tokenizer *t); // empty: none. The default one where the file holds several
str tokenizer_tool_template(const tokenizer *t); // the one for chats with tools; empty: chat_template is for them, too
str tokenizer_bos(const tokenizer *t);           // the token's text; empty: none
str tokenizer_eos(const tokenizer *t);
str tokenizer_unk(const tokenizer *t);
str tokenizer_pad(const tokenizer *t);
int tokenizer_stop_ids(const tokenizer *t, int32_t *ids, int max); // eos, eot, eom and known end-of-turn tokens

#endif
