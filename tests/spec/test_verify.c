// The accept walk, every tree of up to four drafts under every script of choices over three symbols, and what hostile drafts are cut to.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "spec/verify.h"

enum { SYMBOLS = 3, MOST = 4 };

// What the target would choose behind each row, and what was asked.
typedef struct script {
    int32_t choice[MOST + 1];
    int stop_at; // the choice that ends the walk, -1: none
    int n_asked;
    int asked[MOST + 2];
} script;

static int32_t choose(void *ctx, int row, bool *stop) {
    script *s = ctx;
    assert_true(row >= 0 && row <= MOST && s->n_asked <= MOST);
    *stop = s->n_asked == s->stop_at;
    s->asked[s->n_asked++] = row;
    return s->choice[row];
}

// The same by the definition: follow the choices through the tree, node by node, without any function of the engine's.
static int expected_path(const draft *d, const script *s, int *path) {
    int n = 0;
    for (int at = -1;;) {
        int32_t token = s->choice[at + 1];
        int next = -1;
        for (int i = 0; i < d->n; i++) {
            if (d->parent[i] == at && d->token[i] == token) next = i;
        }
        if (next < 0 || n == s->stop_at) return n;
        path[n++] = at = next;
    }
}

typedef struct tally_of {
    long walks, accepted[MOST + 1];
} tally_of;

static void check(const draft *d, script *s, tally_of *count) {
    int path[MOST], n = expected_path(d, s, path);
    s->n_asked = 0;
    verify_result r = verify_walk(d, choose, s);
    assert_int_equal(r.n_accepted, n);
    assert_int_equal(r.n_emitted, n + 1);
    assert_int_equal(s->n_asked, n + 1); // one question for each token, and none off the path
    assert_int_equal(s->asked[0], 0);
    for (int i = 0; i < n; i++) {
        assert_int_equal(r.path[i], path[i]);
        assert_int_equal(s->asked[i + 1], path[i] + 1);
        assert_int_equal(s->choice[i ? path[i - 1] + 1 : 0],
                         d->token[path[i]]); // a draft is accepted as the choice before it
    }
    count->walks++;
    count->accepted[n]++;
}

// Number `code` in base `base`, digit by digit, plus `least`.
static void digits(long code, int base, int n, int least, int32_t *out) {
    for (int i = 0; i < n; i++) out[i] = (int32_t)(code % base) + least, code /= base;
}

static long power(int base, int n) { return n ? base * power(base, n - 1) : 1; }

static bool twins(const draft *d) {
    for (int i = 0; i < d->n; i++) {
        for (int j = 0; j < i; j++) {
            if (d->parent[i] == d->parent[j] && d->token[i] == d->token[j]) return true;
        }
    }
    return false;
}

static void all_scripts(const draft *d, tally_of *count) {
    script s;
    for (long c = 0; c < power(SYMBOLS, d->n + 1); c++) {
        digits(c, SYMBOLS, d->n + 1, 0, s.choice);
        for (s.stop_at = -1; s.stop_at <= d->n; s.stop_at++) check(d, &s, count);
    }
}

static void test_every_chain(void **state) {
    (void)state;
    tally_of count = {0};
    for (int n = 0; n <= MOST; n++) {
        draft d = {.n = n};
        for (int i = 0; i < n; i++) d.parent[i] = (int8_t)(i - 1);
        for (long t = 0; t < power(SYMBOLS, n); t++) {
            digits(t, SYMBOLS, n, 0, d.token);
            all_scripts(&d, &count);
        }
    }
    for (int i = 0; i <= MOST; i++) assert_true(count.accepted[i] > 0);
    print_message("# %ld walks\n", count.walks);
}

static void test_every_tree(void **state) {
    (void)state;
    tally_of count = {0};
    long trees = 0;
    for (int n = 1; n <= MOST; n++) {
        for (long p = 0; p < power(MOST, n);
             p++) { // parents in -1 .. MOST-2; those of later or equal nodes are left out
            int32_t parent[MOST];
            draft d = {.n = n};
            digits(p, MOST, n, -1, parent);
            bool ordered = true;
            for (int i = 0; i < n; i++) d.parent[i] = (int8_t)parent[i], ordered &= parent[i] < i;
            for (long t = 0; ordered && t < power(SYMBOLS, n); t++) {
                digits(t, SYMBOLS, n, 0, d.token);
                if (twins(&d)) continue;
                trees++;
                all_scripts(&d, &count);
            }
        }
    }
    for (int i = 0; i <= MOST; i++) assert_true(count.accepted[i] > 0);
    print_message("# %ld trees, %ld walks\n", trees, count.walks);
}

// ---- clipping ------------------------------------------------------------------------------------------------------------

enum { VOCAB = 5 };

static void clips_to(draft given, const int bounds[2], draft want) {
    draft_clip(&given, bounds[0], bounds[1], VOCAB);
    assert_int_equal(given.n, want.n);
    for (int i = 0; i < want.n; i++) {
        assert_int_equal(given.token[i], want.token[i]);
        assert_int_equal(given.parent[i], want.parent[i]);
    }
    assert_true(given.kind >= 0 && given.kind < DRAFT_CLASSES);
}

#define ALL ((const int[]){DRAFT_MAX, DRAFT_MAX})
#define BOUNDS(nodes, depth) ((const int[]){nodes, depth})

static void test_clipping(void **state) {
    (void)state;
    draft none = {0};
    draft chain = {3, {1, 2, 3}, {-1, 0, 1}, 2};
    clips_to(chain, ALL, chain);
    clips_to(none, ALL, none);
    clips_to((draft){-7, {1}, {-1}, -3}, ALL, none);
    clips_to(chain, BOUNDS(2, 9), (draft){2, {1, 2}, {-1, 0}, 0});
    clips_to(chain, BOUNDS(9, 1), (draft){1, {1}, {-1}, 0});
    clips_to(chain, BOUNDS(0, 9), none);
    clips_to(chain, BOUNDS(9, 0), none);
    clips_to(chain, BOUNDS(-2, -1), none);
    clips_to((draft){3, {1, -1, 3}, {-1, 0, 1}, 99}, ALL, (draft){1, {1}, {-1}, 0}); // a placeholder and all below it
    clips_to((draft){3, {5, 2, 3}, {-1, 0, 1}, 0}, ALL, none);                       // not in the vocabulary
    clips_to((draft){3, {INT32_MAX, 2, 3}, {-1, -1, 0}, 0}, ALL, (draft){1, {2}, {-1}, 0});
    clips_to((draft){3, {INT32_MIN, 2, 3}, {-1, -1, 1}, 0}, ALL, (draft){2, {2, 3}, {-1, 0}, 0});
    clips_to((draft){3, {1, 2, 3}, {0, 1, 2}, 0}, ALL, none);                                   // its own parent
    clips_to((draft){3, {1, 2, 3}, {-1, 2, 0}, 0}, ALL, (draft){2, {1, 3}, {-1, 0}, 0});        // a later one's child
    clips_to((draft){3, {1, 2, 3}, {-2, -1, 0}, 0}, ALL, (draft){1, {2}, {-1}, 0});             // below a removed one
    clips_to((draft){4, {1, 1, 2, 3}, {-1, -1, 1, 0}, 0}, ALL, (draft){2, {1, 3}, {-1, 0}, 0}); // a twin and its child
    clips_to((draft){4, {1, 2, 1, 2}, {-1, 0, 1, 2}, 0}, ALL, (draft){4, {1, 2, 1, 2}, {-1, 0, 1, 2}, 0}); // no twins
    clips_to((draft){4, {1, 2, 3, 4}, {-1, -1, 0, 1}, 0}, BOUNDS(3, 2), (draft){3, {1, 2, 3}, {-1, -1, 0}, 0});
    draft many = {DRAFT_MAX + 5, {0}, {0}, 0};
    for (int i = 0; i < DRAFT_MAX; i++) many.token[i] = i % VOCAB, many.parent[i] = (int8_t)(i - 1);
    draft most = many;
    most.n = DRAFT_MAX;
    clips_to(many, ALL, most);
}

// Of any bytes whatever a draft that the walk can be trusted with remains.
static void test_any_bytes(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 200000; i++) {
        draft d;
        unsigned char *byte = (unsigned char *)&d;
        for (size_t j = 0; j < sizeof d; j++) byte[j] = (unsigned char)hash_mix(i * 1000 + j);
        d.n = (int)(hash_mix(i) % 40) - 10;
        for (int j = 0; j < DRAFT_MAX; j++) {
            if (hash_mix(i + (uint64_t)j) % 8) d.token[j] = (int32_t)(hash_mix(i * 31 + (uint64_t)j) % (VOCAB + 2)) - 1;
            if (hash_mix(i - (uint64_t)j) % 8)
                d.parent[j] = (int8_t)(hash_mix(i * 37 + (uint64_t)j) % (uint64_t)(j + 2)) - 1;
        }
        int nodes = (int)(hash_mix(i ^ 77) % 18) - 1, depth = (int)(hash_mix(i ^ 78) % 18) - 1;
        draft_clip(&d, nodes, depth, VOCAB);
        assert_true(d.n >= 0 && d.n <= (nodes > 0 ? nodes : 0) && d.n <= DRAFT_MAX);
        for (int j = 0; j < d.n; j++) {
            assert_true(d.token[j] >= 0 && d.token[j] < VOCAB && d.parent[j] >= -1 && d.parent[j] < j);
            assert_true(draft_depth(&d, j) <= depth);
        }
        assert_false(twins(&d));
        draft again = d;
        draft_clip(&again, nodes, depth, VOCAB);
        assert_int_equal(again.n, d.n);
    }
}

static void test_children(void **state) {
    (void)state;
    draft d = {5, {1, 2, 1, 3, 2}, {-1, -1, 0, 0, 2}, 0};
    assert_int_equal(draft_child(&d, -1, 1), 0);
    assert_int_equal(draft_child(&d, -1, 2), 1);
    assert_int_equal(draft_child(&d, -1, 3), -1);
    assert_int_equal(draft_child(&d, 0, 1), 2);
    assert_int_equal(draft_child(&d, 0, 3), 3);
    assert_int_equal(draft_child(&d, 1, 3), -1);
    assert_int_equal(draft_child(&d, 2, 2), 4);
    assert_int_equal(draft_depth(&d, -1), 0);
    assert_int_equal(draft_depth(&d, 4), 3);
    assert_false(draft_is_chain(&d));
    d.n = 1;
    assert_true(draft_is_chain(&d));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_chain), cmocka_unit_test(test_every_tree), cmocka_unit_test(test_clipping),
        cmocka_unit_test(test_any_bytes),   cmocka_unit_test(test_children),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
