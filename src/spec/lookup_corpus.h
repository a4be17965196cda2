// The last tokens of finished requests, for prompt lookup by later ones. Shared by the requests of one engine, which calls from one thread
// at a time. Bounded: a ring of tokens; whatever is overwritten is forgotten by the index at that moment. No match spans two requests.
#ifndef TALLY_SPEC_LOOKUP_CORPUS_H
#define TALLY_SPEC_LOOKUP_CORPUS_H

#include <stdbool.h>
#include <stdint.h>

#include <stddef.h>

#include "base/status.h"

enum { LOOKUP_WAYS = 4 }; // occurrences of one n-gram that are told apart, by the token behind them

typedef struct lookup_corpus lookup_corpus;

typedef struct lookup_corpus_options {
    int tokens;   // how many are kept, rounded up to a power of two; each request takes one more
    int min, max; // lengths that are indexed, 1 <= min <= max <= 16
} lookup_corpus_options;

// What a corpus created so allocates, in bytes.
size_t lookup_corpus_bytes(const lookup_corpus_options *o);
status lookup_corpus_create(lookup_corpus **out, const lookup_corpus_options *o, error *err);
void lookup_corpus_destroy(lookup_corpus *c); // NULL is allowed
// A finished request's prompt and output. Longer than the ring: its last part. Allocates nothing.
void lookup_corpus_add(lookup_corpus *c, const int32_t *token, int n);

// Places where gram[0 .. length) occurred with another token of the same request behind it, one for each such token (its most recent
// place), most recent first; at most max_places and LOOKUP_WAYS. A place stays valid until the next lookup_corpus_add. Returns their number.
int lookup_corpus_find(const lookup_corpus *c, const int32_t *gram, int length, int64_t *place, int max_places);
// The i-th token behind a place, asked for i = 0, 1, ... until it is false: the request ends before.
bool lookup_corpus_next(const lookup_corpus *c, int64_t place, int i, int32_t *token);
// The i-th token before a place, i = 0 being the one just before, asked likewise; false: the request begins behind it, or it is forgotten.
bool lookup_corpus_before(const lookup_corpus *c, int64_t place, int i, int32_t *token);

#endif
