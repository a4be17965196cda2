// Regular expressions of tokenizer files, run by PCRE2 with the meaning Oniguruma (Hugging Face tokenizers) gives them.
//
// The two agree on what tokenizers use except: \s (PCRE2 adds U+180E), ^ and $ (Oniguruma: at every line), and escapes such as
// \h or \v that mean something else. Patterns are translated; what would differ is refused by name.
// A compiled regex is immutable and may be used by any number of threads, each with its own scratch.
#ifndef TALLY_TEXT_REGEX_H
#define TALLY_TEXT_REGEX_H

#include "base/status.h"
#include "base/str.h"

typedef struct regex regex;

typedef struct regex_scratch { // what one thread needs while matching; all zero is a valid start
    void *match, *context, *stack;
} regex_scratch;

// `literal`: the pattern is plain text. UNSUPPORTED: something that would not mean the same; BAD_FILE: not a regex.
status regex_open(regex **out, str pattern, bool literal, error *err);
void regex_close(regex *r);

typedef struct regex_span {
    bool found;
    size_t start, end; // byte offsets; start == end: an empty match
} regex_span;

// The first match at or after `from` in valid UTF-8 text. Time is bounded by a number of steps proportional to the text; a
// pattern that needs more is an error.
status regex_find(const regex *r, regex_scratch *s, str text, size_t from, regex_span *span, error *err);
void regex_scratch_deinit(regex_scratch *s);

#endif
