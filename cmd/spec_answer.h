// An answer as --spec-suite keeps it, and whether two are equal to the last bit.
#ifndef TALLY_CMD_SPEC_ANSWER_H
#define TALLY_CMD_SPEC_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "tally.h"

typedef struct spec_answer { // everything owned
    int32_t *ids;
    int n;
    tally_logprob *logprobs; // [n][n_logprobs]: the chosen token, then the best; NULL: not asked for
    int n_logprobs;
    const char *reason; // static
    float *logits;      // [n_vocab] behind the last token, from the cache that the answer left; NULL: not kept
    int n_vocab;
    // Of an answer that was kept in a file: hashes in the place of log-probabilities and logits.
    bool has_digests;
    uint64_t logprobs_digest, logits_digest;
} spec_answer;

// What a finished generation said. False: memory ran out.
bool spec_answer_take(spec_answer *a, const tally_generation *g);
void spec_answer_deinit(spec_answer *a);
// Hashes of all bytes of the log-probabilities and of the logits; 0: it has none.
uint64_t spec_answer_logprobs_digest(const spec_answer *a);
uint64_t spec_answer_logits_digest(const spec_answer *a);

typedef struct spec_difference {
    const char *what; // "id", "length", "finish reason", "log-probability", "last logits"; NULL: equal
    int at;           // first token, or for logits the first id, that differs
    int32_t ids[2];   // there, of the plain and of the drafted answer; -1: none
    double gap;       // of the two best log-probabilities in the plain answer there; NAN: not known
} spec_difference;

// Log-probabilities and logits are compared as bytes, where both answers have them; with a plain answer that has digests, as hashes.
spec_difference spec_answer_compare(const spec_answer *plain, const spec_answer *drafted);

#endif
