// The store of executors against a list in order of use: what is found, what gives way, and that each is destroyed once.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "backend/ascend/executors.h"
#include "base/hash.h"

enum { CAP = 7, KEYS = 40, ROUNDS = 20000 };

// An executor's address stands for the number of its making.
static int n_destroyed;
static bool destroyed[ROUNDS + 1];

static aclnnStatus destroy(aclOpExecutor *e) {
    size_t i = (size_t)(uintptr_t)e;
    assert_true(i <= ROUNDS && !destroyed[i]);
    destroyed[i] = true;
    n_destroyed++;
    return 0;
}

typedef struct model { // the same, newest first
    int key[CAP], made[CAP], n;
} model;

static int place_of(const model *m, int key) {
    int i = 0;
    while (i < m->n && m->key[i] != key) i++;
    return i < m->n ? i : -1;
}

static void take_out(model *m, int at) {
    m->n--;
    for (int i = at; i < m->n; i++) m->key[i] = m->key[i + 1], m->made[i] = m->made[i + 1];
}

static void put_first(model *m, int key, int made) {
    for (int i = m->n++; i > 0; i--) m->key[i] = m->key[i - 1], m->made[i] = m->made[i - 1];
    m->key[0] = key, m->made[0] = made;
}

// Keys that differ in their last word, or in their length alone.
static ascend_key key_of(int i) {
    ascend_key k = {.n = 0};
    for (int w = 0; w < 2 + i % 2; w++) ascend_key_add(&k, w == 1 ? (uint64_t)(i / 2) : 9);
    assert_true(k.fits);
    return k;
}

static void test_store(void **state) {
    (void)state;
    const ascend_library lib = {.aclDestroyAclOpExecutor = destroy};
    ascend_executors e;
    error err;
    model m = {.n = 0};
    assert_int_equal(ascend_executors_init(&e, &lib, CAP, &err), STATUS_OK);
    int n_made = 0;
    for (int round = 1; round <= ROUNDS; round++) {
        uint64_t r = hash_mix((uint64_t)round);
        int key = (int)(r % (round % 1000 < 500 ? 10 : KEYS)), at = place_of(&m, key);
        ascend_key k = key_of(key);
        ascend_kept *found = ascend_executors_find(&e, &k);
        assert_int_equal(found != NULL, at >= 0);
        if (found) {
            int made = m.made[at];
            assert_int_equal((int)(uintptr_t)found->executor, made);
            assert_int_equal((int)found->need, key);
            take_out(&m, at);
            if (r >> 32 & 1) {
                put_first(&m, key, made);
            } else {
                ascend_executors_drop(&e, found);
                assert_true(destroyed[made]);
            }
        } else {
            if (m.n == CAP) take_out(&m, CAP - 1);
            put_first(&m, key, round);
            n_made++;
            ascend_executors_keep(&e, &k,
                                  &(ascend_kept){.executor = (aclOpExecutor *)(uintptr_t)round, .need = (uint64_t)key});
        }
        assert_int_equal(e.n, m.n);
        assert_int_equal(n_made - n_destroyed, m.n);
        for (int i = 0; i < m.n; i++) assert_false(destroyed[m.made[i]]);
    }
    ascend_executors_free(&e);
    assert_int_equal(n_made, n_destroyed);
}

// A key that is too long stands for nothing.
static void test_long_key(void **state) {
    (void)state;
    ascend_key k = {.n = 0};
    for (int i = 0; i < KEY_WORDS; i++) ascend_key_add(&k, 1);
    assert_true(k.fits && k.n == KEY_WORDS);
    ascend_key_add(&k, 1);
    assert_true(!k.fits && k.n == KEY_WORDS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_store), cmocka_unit_test(test_long_key)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
