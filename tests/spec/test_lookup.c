// Prompt lookup against its rule written down naively, its corpus, its bounds, and what a step of it costs.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "spec/draft_lookup.h"
#include "spec/draft_policy.h"

#include "tests/support/sanitized.h"

// ---- the rule, naively -----------------------------------------------------------------------------------------------------

enum { N_TEXTS = 64 };

// Finished requests, oldest first, and how much of them the corpus still holds.
typedef struct naive_corpus {
    const int32_t *token[N_TEXTS];
    int n[N_TEXTS], n_texts;
    int held; // tokens, separators included, from the end
    int min, max;
} naive_corpus;

typedef struct naive_branch {
    const int32_t *text;
    int n, place, first; // the text, the place in it, its first token still held
    bool from_corpus;
    int kind;
} naive_branch;

static bool ends_alike(const int32_t *a, int end_a, const int32_t *b, int end_b, int length) {
    return length <= end_a && length <= end_b &&
           !memcmp(a + end_a - length, b + end_b - length, (size_t)length * sizeof(*a));
}

static int naive_kind(const naive_branch *b, const int32_t *token, int n) {
    int length = 0;
    while (length < LOOKUP_EXTEND && length < n && b->place - length > b->first &&
           token[n - 1 - length] == b->text[b->place - 1 - length])
        length++;
    return lookup_kind(length, b->from_corpus);
}

// The places of one text where the last `length` tokens occurred, latest first, one for each following token and `ways` of them.
static int naive_places(naive_branch *out, int ways, const naive_branch *text, const int32_t *token, int n,
                        int length) {
    int32_t next[LOOKUP_WAYS];
    int found = 0;
    for (int place = text->n - 1; place - length >= text->first; place--) {
        if (!ends_alike(text->text, place, token, n, length)) continue;
        bool had = false;
        for (int i = 0; i < found; i++) had |= next[i] == text->text[place];
        if (had) continue;
        if (found == ways) break;
        next[found] = text->text[place];
        out[found] = *text;
        out[found].place = place;
        out[found].kind = naive_kind(&out[found], token, n);
        found++;
    }
    return found;
}

static int naive_corpus_places(naive_branch *out, const naive_corpus *c, const int32_t *token, int n, int length) {
    if (!c || length < c->min || length > c->max) return 0;
    int32_t next[LOOKUP_WAYS];
    int found = 0;
    for (int i = c->n_texts - 1, end = 0; i >= 0; i--) {
        end += 1 + c->n[i]; // from the corpus' end back to this text's beginning
        naive_branch text = {.text = c->token[i], .n = c->n[i], .from_corpus = true};
        text.first = end > c->held ? end - c->held : 0;
        naive_branch places[LOOKUP_WAYS];
        int k = naive_places(places, LOOKUP_WAYS, &text, token, n, length);
        for (int j = 0; j < k && found < LOOKUP_WAYS; j++) {
            bool had = false;
            for (int h = 0; h < found; h++) had |= next[h] == text.text[places[j].place];
            if (had) continue;
            next[found] = text.text[places[j].place];
            out[found++] = places[j];
        }
    }
    return found;
}

static int naive_branches(naive_branch *out, const lookup_options *o, const naive_corpus *c, const int32_t *token,
                          int n) {
    int n_out = 0, limit = o->tree ? LOOKUP_BRANCHES : 1;
    for (int length = o->max; length >= o->min && n_out < limit; length--) {
        naive_branch places[2 * LOOKUP_WAYS], own = {.text = token, .n = n};
        int k = naive_places(places, o->tree ? LOOKUP_WAYS : 1, &own, token, n, length);
        k += naive_corpus_places(places + k, c, token, n, length);
        for (int i = 0; i < k && n_out < limit; i++) {
            bool known = false;
            for (int j = 0; j < n_out; j++) known |= out[j].text == places[i].text && out[j].place == places[i].place;
            if (!known) out[n_out++] = places[i];
        }
    }
    return n_out;
}

static int naive_text(const naive_branch *b, int32_t *out, int max) {
    int k = 0;
    for (; k < max; k++) {
        int at = b->place + k;
        if (b->from_corpus && at >= b->n) break;
        out[k] = b->text[at < b->n ? at : b->place + (at - b->place) % (b->n - b->place)];
    }
    return k;
}

// Every path of the trie by its tokens; no links at all.
typedef struct naive_path {
    int32_t token[DRAFT_MAX];
    int length;
    double value;
} naive_path;

static int naive_find(const naive_path *p, int n, const int32_t *token, int length) {
    for (int i = 0; i < n; i++) {
        if (p[i].length == length && !memcmp(p[i].token, token, (size_t)length * sizeof(*token))) return i;
    }
    return -1;
}

static void naive_tree(const naive_branch *b, int n_b, int max_nodes, draft *out) {
    static naive_path path[LOOKUP_BRANCHES * DRAFT_MAX], taken[DRAFT_MAX];
    int n = 0;
    double none = 1;
    for (int k = 0; k < n_b; k++) {
        int32_t token[DRAFT_MAX];
        int length = naive_text(&b[k], token, max_nodes);
        double value = none;
        for (int j = 0; j < length; j++) {
            value *= draft_policy_prior(b[k].kind);
            int at = naive_find(path, n, token, j + 1);
            if (at < 0) {
                at = n++;
                path[at] = (naive_path){.length = j + 1};
                memcpy(path[at].token, token, sizeof(token));
            }
            path[at].value += value;
        }
        none *= 1 - draft_policy_prior(b[k].kind);
    }
    for (out->n = 0; out->n < max_nodes && out->n < n; out->n++) {
        int best = 0;
        for (int i = 1; i < n; i++) {
            if (path[i].value > path[best].value) best = i;
        }
        taken[out->n] = path[best];
        out->token[out->n] = path[best].token[path[best].length - 1];
        out->parent[out->n] = (int8_t)naive_find(taken, out->n, path[best].token, path[best].length - 1);
        path[best].value = -1;
    }
}

static draft naive(const lookup_options *o, const naive_corpus *c, const int32_t *token, int n, int max_nodes) {
    naive_branch b[LOOKUP_BRANCHES];
    int n_b = naive_branches(b, o, c, token, n);
    draft d = {0};
    if (!n_b) return d;
    if (o->tree) {
        naive_tree(b, n_b, max_nodes, &d);
    } else {
        d.n = naive_text(&b[0], d.token, max_nodes);
        for (int i = 0; i < d.n; i++) d.parent[i] = (int8_t)(i - 1);
    }
    d.kind = b[0].kind;
    return d;
}

// ---- helpers ---------------------------------------------------------------------------------------------------------------

static drafter *create(lookup_options o, lookup_corpus *c) {
    drafter *d;
    error err;
    if (draft_lookup_create(&d, &o, c, &err)) fail_msg("%s", err.text);
    return d;
}

static draft propose(drafter *d, const int32_t *token, int n, int max_nodes) {
    draft out;
    memset(&out, 0x55, sizeof(out));
    assert_int_equal(d->vt->propose(d, token, n, max_nodes, &out, NULL), STATUS_OK);
    assert_in_range(out.kind, 0, DRAFT_CLASSES - 1);
    assert_in_range(out.n, 0, max_nodes);
    return out;
}

static draft propose_once(lookup_corpus *c, const int32_t *token, int n) {
    drafter *d = create((lookup_options){.min = 2, .max = 4, .context = 100}, c);
    draft out = propose(d, token, n, 8);
    d->vt->destroy(d);
    return out;
}

static void assert_draft(const draft *got, const draft *want, int n) {
    bool same = got->n == want->n && (!got->n || got->kind == want->kind);
    for (int i = 0; same && i < got->n; i++)
        same = got->token[i] == want->token[i] && got->parent[i] == want->parent[i];
    if (same) return;
    printf("behind %d tokens: kind %d, by the rule %d\n", n, got->kind, want->kind);
    for (int i = 0; i < got->n; i++) printf(" %d<%d", got->token[i], got->parent[i]);
    printf("\nby the rule:\n");
    for (int i = 0; i < want->n; i++) printf(" %d<%d", want->token[i], want->parent[i]);
    fail_msg("the proposal is not the rule's");
}

// Random, with copies of earlier stretches strewn in.
static void make_text(int32_t *t, int n, int alphabet, uint64_t seed) {
    for (int i = 0; i < n; i++) {
        uint64_t r = hash_mix(seed * 1000003 + (uint64_t)i);
        int from = i ? (int)((r >> 20) % (uint64_t)i) : 0, length = (int)((r >> 8) % 30);
        if (i && r % 16 == 0) {
            for (int k = 0; k < length && i < n - 1; k++, i++) t[i] = t[from + k];
        }
        t[i] = (int32_t)((r >> 40) % (uint64_t)alphabet);
    }
}

// ---- tests -----------------------------------------------------------------------------------------------------------------

static void test_rule(void **state) {
    (void)state;
    enum { N = 400 };
    static int32_t t[N];
    for (int round = 0; round < 96; round++) {
        static const int alphabets[] = {1, 2, 3, 5, 20, 1000};
        make_text(t, N, alphabets[round % 6], (uint64_t)round);
        uint64_t r = hash_mix((uint64_t)round + 77);
        lookup_options o = {.min = 1 + (int)(r % 3), .context = N, .tree = round & 1};
        o.max = o.min + (int)((r >> 8) % 5);
        drafter *steady = create(o, NULL), *jumping = create(o, NULL);
        int jump = 1;
        for (int n = 1; n <= N; n++) {
            int max_nodes = 1 + (int)(hash_mix(r + (uint64_t)n) % DRAFT_MAX);
            draft want = naive(&o, NULL, t, n, max_nodes), got = propose(steady, t, n, max_nodes);
            assert_draft(&got, &want, n);
            if (n != jump && n != N) continue; // the history grows by any number of tokens at once
            jump += 1 + (int)(hash_mix(r ^ (uint64_t)n) % 50);
            got = propose(jumping, t, n, max_nodes);
            assert_draft(&got, &want, n);
        }
        draft want = naive(&o, NULL, t, N / 3, 8), got = propose(steady, t, N / 3, 8); // a history taken back
        assert_draft(&got, &want, N / 3);
        steady->vt->destroy(steady);
        jumping->vt->destroy(jumping);
    }
}

static void test_cycles(void **state) {
    (void)state;
    enum { N = 48 * 3 };
    int32_t t[N + 40];
    for (int i = 0; i < N + 40; i++) t[i] = 100 + i % 3; // "serving" in three pieces, 48 times
    drafter *d = create((lookup_options){.min = 2, .max = 5, .context = N + 40}, NULL);
    int n = N;
    for (int step = 0; step < 8; step++, n += 5) { // each step accepts all, and the token behind
        draft got = propose(d, t, n, 4);
        assert_int_equal(got.n, 4);
        assert_int_equal(got.kind, lookup_kind(LOOKUP_EXTEND, false));
        for (int i = 0; i < 4; i++) assert_int_equal(got.token[i], t[n + i]);
    }
    d->vt->destroy(d);

    d = create((lookup_options){.min = 1, .max = 5, .context = 8}, NULL);
    draft got = propose(d, (int32_t[]){7, 8, 7, 8}, 4, DRAFT_MAX); // as many as asked for, round and round
    assert_int_equal(got.n, DRAFT_MAX);
    for (int i = 0; i < got.n; i++) assert_int_equal(got.token[i], 7 + i % 2);
    assert_int_equal(got.kind, lookup_kind(2, false));
    d->vt->destroy(d);
}

static void test_short(void **state) {
    (void)state;
    int32_t ones[] = {1, 1, 1};
    drafter *d = create((lookup_options){.min = 1, .max = 3, .context = 16}, NULL);
    assert_int_equal(propose(d, ones, 1, 8).n, 0);
    assert_int_equal(propose(d, ones, 2, 8).n, 8);
    draft got = propose(d, ones, 3, 8);
    assert_int_equal(got.n, 8);
    for (int i = 0; i < 8; i++) assert_int_equal(got.token[i], 1);
    assert_int_equal(got.kind, lookup_kind(2, false));
    d->vt->destroy(d);

    d = create((lookup_options){.min = 3, .max = 4, .context = 16}, NULL); // histories shorter than a match
    for (int n = 1; n <= 3; n++) assert_int_equal(propose(d, ones, n, 8).n, 0);
    d->vt->destroy(d);

    int32_t odd[] = {INT32_MIN, INT32_MAX, -1, INT32_MIN, INT32_MAX, -1, INT32_MIN};
    lookup_corpus *c;
    assert_int_equal(lookup_corpus_create(&c, &(lookup_corpus_options){64, 1, 3}, NULL), STATUS_OK);
    for (int i = 0; i < 40; i++) lookup_corpus_add(c, odd + i % 3, 1 + i % 4);
    for (int tree = 0; tree < 2; tree++) {
        d = create((lookup_options){.min = 1, .max = 3, .context = 4, .tree = tree}, c);
        for (int n = 1; n <= 7; n++) propose(d, odd, n, DRAFT_MAX); // beyond the context too
        propose(d, odd, 3, DRAFT_MAX);                              // and back
        d->vt->destroy(d);
    }
    lookup_corpus_destroy(c);
}

static void test_options(void **state) {
    (void)state;
    static const lookup_options bad[] = {{.min = 0, .max = 3, .context = 9},
                                         {.min = 4, .max = 3, .context = 9},
                                         {.min = 2, .max = 17, .context = 9},
                                         {.min = 2, .max = 3, .context = 0}};
    error err;
    for (int i = 0; i < 4; i++) {
        drafter *d;
        err.text[0] = 0;
        assert_int_equal(draft_lookup_create(&d, &bad[i], NULL, &err), STATUS_BAD_ARGUMENT);
        assert_null(d);
        assert_true(strlen(err.text) > 20);
    }
    lookup_corpus *c;
    assert_int_equal(lookup_corpus_create(&c, &(lookup_corpus_options){0, 1, 2}, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(lookup_corpus_create(&c, &(lookup_corpus_options){9, 3, 2}, &err), STATUS_BAD_ARGUMENT);
    lookup_corpus_destroy(NULL);
    int last = -1;
    for (int n = 1; n <= LOOKUP_EXTEND; n++) { // classes rise with the match, within their range
        int own = lookup_kind(n, false), other = lookup_kind(n, true);
        assert_in_range(own, DRAFT_OWN, DRAFT_CORPUS - 1);
        assert_in_range(other, DRAFT_CORPUS, DRAFT_MODEL - 1);
        assert_true(own >= last);
        last = own;
    }
    lookup_options o = {.min = 2, .max = 5, .context = 32768}; // what the memory is at most
    assert_true(draft_lookup_bytes(&o) <= (size_t)32768 * 4 * 2 * 8 + 4096);
}

// Requests of any length go through a small ring many times round; after each, lookups agree with the naive rule over what is held.
static void test_corpus(void **state) {
    (void)state;
    enum { LONGEST = 200, N = 60, HELD = 128 };
    static int32_t text[N_TEXTS][LONGEST], t[N];
    for (int round = 0; round < 24; round++) {
        naive_corpus c = {.held = HELD, .min = 1 + round % 3, .max = 4};
        lookup_corpus *corpus;
        assert_int_equal(lookup_corpus_create(&corpus, &(lookup_corpus_options){HELD - 10, c.min, c.max}, NULL),
                         STATUS_OK);
        lookup_options o = {.min = 1, .max = 5, .context = N, .tree = round & 1};
        for (int i = 0; i < N_TEXTS; i++) {
            uint64_t r = hash_mix((uint64_t)(round * N_TEXTS + i));
            int n = i % 9 == 8 ? LONGEST : i % 7 == 0 ? 1 : (int)(r % 60), alphabet = round % 4 == 3 ? 2 : 6;
            make_text(text[i], LONGEST, alphabet, r);
            lookup_corpus_add(corpus, text[i], n);
            if (n) { // of the longest only as much as fits is taken; an empty one leaves nothing
                int cut = n > HELD - 1 ? n - (HELD - 1) : 0;
                c.token[c.n_texts] = text[i] + cut;
                c.n[c.n_texts++] = n - cut;
            }
            make_text(t, N, alphabet, r + 1);
            drafter *d = create(o, corpus);
            for (int n_t = 1; n_t <= N; n_t += 3) {
                draft want = naive(&o, &c, t, n_t, DRAFT_MAX), got = propose(d, t, n_t, DRAFT_MAX);
                assert_draft(&got, &want, n_t);
            }
            d->vt->destroy(d);
        }
        lookup_corpus_destroy(corpus);
    }
}

static void test_separators(void **state) {
    (void)state;
    lookup_corpus *c;
    assert_int_equal(lookup_corpus_create(&c, &(lookup_corpus_options){1000, 2, 4}, NULL), STATUS_OK);
    lookup_corpus_add(c, (int32_t[]){1, 2, 3}, 3);
    lookup_corpus_add(c, (int32_t[]){4, 5, 6, 7}, 4);
    assert_int_equal(propose_once(c, (int32_t[]){3, 4}, 2).n, 0); // 3 and 4 are neighbours of two requests
    assert_int_equal(propose_once(c, (int32_t[]){2, 3}, 2).n, 0); // nothing follows
    draft got = propose_once(c, (int32_t[]){9, 4, 5}, 3);
    assert_int_equal(got.n, 2); // ends with its request
    assert_int_equal(got.token[0], 6);
    assert_int_equal(got.token[1], 7);
    assert_int_equal(got.kind, lookup_kind(2, true));
    got = propose_once(c, (int32_t[]){4, 5, 8, 4, 5}, 5); // the own text is asked first
    assert_int_equal(got.token[0], 8);
    assert_int_equal(got.kind, lookup_kind(2, false));
    got = propose_once(c, (int32_t[]){5, 6, 8, 4, 5, 6}, 6); // but the longer match wins
    assert_int_equal(got.token[0], 7);
    assert_int_equal(got.kind, lookup_kind(3, true));
    lookup_corpus_destroy(c);
}

// ---- time ------------------------------------------------------------------------------------------------------------------

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void time_steps(const char *name, const int32_t *t, lookup_options o, lookup_corpus *c) {
    enum { START = 30720, END = 32768 };
    static double us[END];
    drafter *d = create(o, c);
    uint64_t begin = clock_now_ns();
    propose(d, t, START, DRAFT_MAX);
    double first = (double)(clock_now_ns() - begin) * 1e-3;
    int n_us = 0;
    for (int n = START + 1; n <= END; n++) {
        begin = clock_now_ns();
        propose(d, t, n, DRAFT_MAX);
        us[n_us++] = (double)(clock_now_ns() - begin) * 1e-3;
    }
    qsort(us, (size_t)n_us, sizeof(*us), by_value);
    double median = us[n_us / 2], p99 = us[n_us * 99 / 100];
    printf("  %-12s %s%s: median %.2f us, 99%% %.2f us a step; %d tokens at once %.0f us (%.3f us each)\n", name,
           o.tree ? "tree" : "chain", c ? ", corpus" : "", median, p99, START, first, first / START);
    assert_true(median < 200 * (SANITIZED ? 20 : 1));
    d->vt->destroy(d);
}

static void test_time(void **state) {
    (void)state;
    enum { N = 32768 };
    static int32_t t[N];
    lookup_corpus *c;
    assert_int_equal(lookup_corpus_create(&c, &(lookup_corpus_options){1 << 17, 2, 5}, NULL), STATUS_OK);
    for (int i = 0; i < 4; i++) {
        make_text(t, N, 3 + 40 * i, (uint64_t)i);
        lookup_corpus_add(c, t, N);
    }
    static const struct {
        const char *name;
        int alphabet;
    } texts[] = {{"one token", 1}, {"two tokens", 2}, {"words", 300}, {"random", 150000}};
    for (int i = 0; i < 4; i++) {
        make_text(t, N, texts[i].alphabet, 99);
        for (int tree = 0; tree < 2; tree++) {
            lookup_options o = {.min = 2, .max = 5, .context = N, .tree = tree};
            time_steps(texts[i].name, t, o, NULL);
            time_steps(texts[i].name, t, o, c);
        }
    }
    make_text(t, N, 300, 7); // every length there is
    time_steps("1 to 16", t, (lookup_options){.min = 1, .max = 16, .context = N, .tree = true}, c);
    lookup_corpus_destroy(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule),    cmocka_unit_test(test_cycles), cmocka_unit_test(test_short),
        cmocka_unit_test(test_options), cmocka_unit_test(test_corpus), cmocka_unit_test(test_separators),
        cmocka_unit_test(test_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
