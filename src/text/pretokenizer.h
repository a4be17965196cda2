// Cuts text into the pieces that byte-pair merges never cross: a sequence of splits, each applied to the pieces of the one
// before, as tokenizer.json's pre_tokenizer describes.
#ifndef TALLY_TEXT_PRETOKENIZER_H
#define TALLY_TEXT_PRETOKENIZER_H

#include "base/status.h"
#include "base/str.h"
#include "text/regex.h"

typedef enum split_behavior { // what becomes of a match (Hugging Face's names)
    SPLIT_ISOLATED,           // a piece of its own
    SPLIT_REMOVED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS, // neighbouring matches are one piece
} split_behavior;

enum { PRETOKENIZER_MAX_STEPS = 16 };

typedef struct pretokenizer_step {
    regex *re; // owned; NULL: put a space before the piece if it has none (ByteLevel's add_prefix_space)
    split_behavior behavior;
    bool invert; // matches and what lies between them change places
} pretokenizer_step;

typedef struct pretokenizer {
    pretokenizer_step step[PRETOKENIZER_MAX_STEPS];
    int n_steps;
} pretokenizer;

void pretokenizer_deinit(pretokenizer *p);
// Takes the regex, also when it fails (too many steps: UNSUPPORTED).
status pretokenizer_add(pretokenizer *p, pretokenizer_step step, error *err);
status pretokenizer_add_regex(pretokenizer *p, str pattern, split_behavior behavior, error *err);

typedef status (*piece_fn)(void *arg, str piece, error *err);
// Calls fn for every piece in order; no piece is empty. The first failure of fn ends the walk.
typedef struct pretokenizer_run {
    const pretokenizer *p;
    regex_scratch *scratch;
    piece_fn fn;
    void *arg;
} pretokenizer_run;
status pretokenizer_cut(const pretokenizer_run *r, str text, error *err);

// The regular expressions that several files share.
extern const char PRETOKENIZER_GPT2[], PRETOKENIZER_LLAMA3[], PRETOKENIZER_QWEN2[], PRETOKENIZER_QWEN35[];

#endif
