#include "cmd/spec_answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

bool spec_answer_take(spec_answer *a, const tally_generation *g) {
    *a = (spec_answer){.reason = tally_generation_finish_reason(g)};
    const int32_t *ids = tally_generation_ids(g, &a->n);
    a->ids = malloc((size_t)a->n * sizeof *ids + 1);
    if (!a->ids) return false;
    if (a->n) memcpy(a->ids, ids, (size_t)a->n * sizeof *ids);
    if (a->n == 0 || !tally_generation_logprobs(g, 0, &a->n_logprobs)) return true;
    a->logprobs = calloc((size_t)a->n * (size_t)a->n_logprobs + 1, sizeof *a->logprobs);
    if (!a->logprobs) return false;
    for (int i = 0; i < a->n; i++) {
        int n;
        const tally_logprob *p = tally_generation_logprobs(g, i, &n);
        if (n > a->n_logprobs) n = a->n_logprobs;
        if (p) memcpy(a->logprobs + (size_t)i * (size_t)a->n_logprobs, p, (size_t)n * sizeof *p);
    }
    return true;
}

void spec_answer_deinit(spec_answer *a) {
    free(a->ids);
    free(a->logprobs);
    free(a->logits);
    *a = (spec_answer){0};
}

uint64_t spec_answer_logprobs_digest(const spec_answer *a) {
    if (a->has_digests) return a->logprobs_digest;
    return a->logprobs ? hash_bytes(a->logprobs, (size_t)a->n * (size_t)a->n_logprobs * sizeof *a->logprobs) : 0;
}

uint64_t spec_answer_logits_digest(const spec_answer *a) {
    if (a->has_digests) return a->logits_digest;
    return a->logits ? hash_bytes(a->logits, (size_t)a->n_vocab * sizeof *a->logits) : 0;
}

static int32_t id_at(const spec_answer *a, int i) { return i < a->n ? a->ids[i] : -1; }

static double gap_at(const spec_answer *a, int i) {
    if (!a->logprobs || a->n_logprobs < 3 || i >= a->n) return NAN;
    const tally_logprob *p = a->logprobs + (size_t)i * (size_t)a->n_logprobs;
    return (double)p[1].logprob - (double)p[2].logprob;
}

// The first byte-wise different item, or -1.
static int first_different(const void *a, const void *b, int n, size_t size) {
    for (int i = 0; i < n; i++) {
        if (memcmp((const char *)a + (size_t)i * size, (const char *)b + (size_t)i * size, size) != 0) return i;
    }
    return -1;
}

spec_difference spec_answer_compare(const spec_answer *plain, const spec_answer *drafted) {
    spec_difference d = {.ids = {-1, -1}, .gap = NAN};
    int common = plain->n < drafted->n ? plain->n : drafted->n;
    d.at = first_different(plain->ids, drafted->ids, common, sizeof *plain->ids);
    if (d.at >= 0) {
        d.what = "id";
    } else if (plain->n != drafted->n) {
        d.what = "length";
        d.at = common;
    } else if (strcmp(plain->reason ? plain->reason : "", drafted->reason ? drafted->reason : "") != 0) {
        d.what = "finish reason";
        d.at = common;
    }
    if (d.what) {
        d.ids[0] = id_at(plain, d.at);
        d.ids[1] = id_at(drafted, d.at);
        d.gap = gap_at(plain, d.at);
        return d;
    }
    if (plain->logprobs && drafted->logprobs) {
        size_t row = (size_t)plain->n_logprobs * sizeof *plain->logprobs;
        d.at = plain->n_logprobs == drafted->n_logprobs
                   ? first_different(plain->logprobs, drafted->logprobs, plain->n, row)
                   : 0;
        if (d.at >= 0) d.what = "log-probability";
    }
    if (!d.what && plain->logits && drafted->logits) {
        d.at = plain->n_vocab == drafted->n_vocab
                   ? first_different(plain->logits, drafted->logits, plain->n_vocab, sizeof *plain->logits)
                   : 0;
        if (d.at >= 0) d.what = "last logits";
    }
    if (!d.what && plain->has_digests && drafted->logprobs &&
        plain->logprobs_digest != spec_answer_logprobs_digest(drafted)) {
        d.what = "log-probability";
        d.at = 0;
    }
    if (!d.what && plain->has_digests && drafted->logits &&
        plain->logits_digest != spec_answer_logits_digest(drafted)) {
        d.what = "last logits";
        d.at = 0;
    }
    if (!d.what) d.at = -1;
    return d;
}
