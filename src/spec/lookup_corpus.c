#include "spec/lookup_corpus.h"

#include <stdlib.h>
#include <string.h>

#include "spec/gram_index.h"

enum {
    SEPARATOR = INT32_MIN, // behind every request; no vocabulary has it
    LEAST_TOKENS = 64,
    MOST_TOKENS = 1 << 28,
};

struct lookup_corpus {
    lookup_corpus_options o;
    gram_index index;
    int32_t *ring; // position p at p & mask
    uint32_t mask;
    uint32_t end; // positions used so far
};

static uint32_t ring_size(const lookup_corpus_options *o) {
    uint32_t size = LEAST_TOKENS;
    while (size < (uint32_t)o->tokens) size *= 2;
    return size;
}

size_t lookup_corpus_bytes(const lookup_corpus_options *o) {
    uint32_t size = ring_size(o);
    return sizeof(lookup_corpus) + gram_index_bytes(o->min, o->max, LOOKUP_WAYS, (int)size) + size * sizeof(int32_t);
}

status lookup_corpus_create(lookup_corpus **out, const lookup_corpus_options *o, error *err) {
    *out = NULL;
    if (o->min < 1 || o->min > o->max || o->max > GRAM_MAX)
        return error_set(err, STATUS_BAD_ARGUMENT,
                         "the corpus cannot index n-grams of %d to %d tokens; use lengths within 1 to %d", o->min,
                         o->max, GRAM_MAX);
    if (o->tokens < 1 || o->tokens > MOST_TOKENS)
        return error_set(err, STATUS_BAD_ARGUMENT, "a corpus of %d tokens is outside of 1 to %d", o->tokens,
                         MOST_TOKENS);
    uint32_t size = ring_size(o);
    lookup_corpus *c = calloc(1, sizeof(*c));
    if (!c) return error_no_memory(err, sizeof(*c));
    c->o = *o;
    c->mask = size - 1;
    status st = gram_index_create(&c->index, o->min, o->max, LOOKUP_WAYS, (int)size, err);
    if (!st && !(c->ring = malloc(size * sizeof(*c->ring)))) st = error_no_memory(err, size * sizeof(*c->ring));
    if (st) {
        lookup_corpus_destroy(c);
        return st;
    }
    *out = c;
    return STATUS_OK;
}

void lookup_corpus_destroy(lookup_corpus *c) {
    if (!c) return;
    gram_index_destroy(&c->index);
    free(c->ring);
    free(c);
}

static gram_text text_of(const lookup_corpus *c) { return (gram_text){c->ring, c->mask}; }

// The ring's oldest token is about to be overwritten: the grams that begin with it go. One that spans two requests was never added, and is
// not found.
static void forget_oldest(lookup_corpus *c) {
    int32_t gram[GRAM_MAX];
    uint32_t tag[GRAM_MAX + 1], oldest = c->end - c->mask - 1;
    for (int i = 0; i < c->o.max; i++) gram[i] = c->ring[(oldest + (uint32_t)i) & c->mask];
    for (int length = c->o.min; length <= c->o.max; length++) {
        gram_tags(gram + length, length, tag);
        gram_index_remove(&c->index, text_of(c), (gram_key){gram, length, tag[length]}, oldest + (uint32_t)length);
    }
}

static void append(lookup_corpus *c, int32_t token) {
    if (c->end > c->mask) forget_oldest(c);
    c->ring[c->end++ & c->mask] = token;
}

void lookup_corpus_add(lookup_corpus *c, const int32_t *token, int n) {
    if (n > (int)c->mask) token += n - (int)c->mask, n = (int)c->mask;
    if (n < 1) return;
    if (c->end >
        (uint32_t)INT32_MAX - (uint32_t)n - 1) { // positions run out: begin anew, once in two thousand million tokens
        gram_index_clear(&c->index);
        c->end = 0;
    }
    for (int i = 0; i < n; i++) {
        append(c, token[i]);
        uint32_t tag[GRAM_MAX + 1];
        int longest = i < c->o.max ? i : c->o.max;
        gram_tags(token + i, longest, tag);
        for (int length = c->o.min; length <= longest; length++)
            gram_index_add(&c->index, text_of(c), (gram_key){token + i - length, length, tag[length]}, c->end - 1);
    }
    append(c, SEPARATOR);
}

int lookup_corpus_find(const lookup_corpus *c, const int32_t *gram, int length, int64_t *place, int max_places) {
    if (length < c->o.min || length > c->o.max) return 0;
    uint32_t tag[GRAM_MAX + 1], at[LOOKUP_WAYS];
    gram_tags(gram + length, length, tag);
    if (max_places > LOOKUP_WAYS) max_places = LOOKUP_WAYS;
    int n = gram_index_find(&c->index, text_of(c), (gram_key){gram, length, tag[length]}, at, max_places);
    for (int i = 0; i < n; i++) place[i] = at[i];
    return n;
}

bool lookup_corpus_next(const lookup_corpus *c, int64_t place, int i, int32_t *token) {
    if (place + i >= c->end) return false;
    *token = c->ring[(uint32_t)(place + i) & c->mask];
    return *token != SEPARATOR;
}

bool lookup_corpus_before(const lookup_corpus *c, int64_t place, int i, int32_t *token) {
    int64_t at = place - 1 - i;
    if (at < 0 || at + c->mask + 1 < c->end) return false;
    *token = c->ring[(uint32_t)at & c->mask];
    return *token != SEPARATOR;
}
