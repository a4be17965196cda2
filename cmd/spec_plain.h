// Plain answers of --spec-suite that are kept in a file (--spec-plain), so that the cells of a matrix of modes, threads and
// parallel sequences compute them once, and an answer is compared with the one of another run too.
#ifndef TALLY_CMD_SPEC_PLAIN_H
#define TALLY_CMD_SPEC_PLAIN_H

#include <jansson.h>
#include <stdint.h>

#include "cmd/args.h"
#include "cmd/spec_answer.h"
#include "cmd/spec_prompts.h"

typedef struct spec_plain {
    const char *path;  // borrowed; NULL: nothing is kept
    char setting[512]; // all that decides what an answer is, but for the prompt and its seed
    json_t *answers;   // owned; "class/name": {"prompt", "seed", "ids", "finish_reason", "logprobs", "logits"}
    bool changed;      // holds answers that the file lacks
} spec_plain;

typedef struct spec_plain_key { // which answer
    const spec_prompt *prompt;
    uint64_t ids_hash; // of the prompt's ids
    uint64_t seed;
} spec_plain_key;

// Reads the file if it is there. path NULL: nothing is kept, nothing is found. Returns 0 or an exit code, with *k to be closed
// in both cases: a file of another model or of other options is refused.
int spec_plain_open(spec_plain *k, const char *path, const options *o, int n_gen);
void spec_plain_close(spec_plain *k);

// The kept answer in *a, with digests instead of log-probabilities and logits: 1; there is none: 0; memory ran out: -1.
int spec_plain_find(const spec_plain *k, const spec_plain_key *key, spec_answer *a);
// Keeps an answer, until spec_plain_write in memory only. False: memory ran out.
bool spec_plain_add(spec_plain *k, const spec_plain_key *key, const spec_answer *a);
// Replaces the file as a whole, if something was added. 0 or an exit code.
int spec_plain_write(spec_plain *k);

#endif
