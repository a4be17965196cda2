// A tiny GGUF model that says what a test wants: after SCRIPT_START come the given tokens in order, then 'z' for ever.
//
// Its embedding is the identity, its layer adds zero, and its head is the successor table. The vocabulary is byte-level BPE: the 256
// bytes, three special tokens, and the pieces of the script that are longer than one byte.
#ifndef TALLY_TESTS_SCRIPT_MODEL_H
#define TALLY_TESTS_SCRIPT_MODEL_H

#include <stdint.h>

enum {
    SCRIPT_START = 1,     // the byte 0x01, the prompt
    SCRIPT_EOS = 256,     // special, eos_token_id
    SCRIPT_EOT = 257,     // special, eot_token_id: the second stop id
    SCRIPT_CONTROL = 258, // special, ends nothing
    SCRIPT_UNNAMED = 319, // a row of the model that the tokenizer does not know
    SCRIPT_VOCAB = 320,
};

// Tokens of the script: text of any bytes (each piece at most once), or "<eos>", "<eot>", "<control>", "<unnamed>".
// Fills ids[n] (if not NULL) with what the script's pieces became.
void script_model_write(const char *path, const char *const *script, int n, int32_t *ids);

#endif
