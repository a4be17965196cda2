// The pool of cache blocks and the tables that hold them, against a model: who holds which block, and what is in it.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cache/block_table.h"

enum { N_BLOCKS = 12, N_TABLES = 4, MAX_POSITIONS = 10 * KV_BLOCK };

// A device whose blocks hold one number per position.
typedef struct fake_device {
    backend base;
    int value[N_BLOCKS][KV_BLOCK];
    int n_copies;
} fake_device;

static void copy_block(backend *b, int to, int from) {
    fake_device *d = (fake_device *)b;
    memcpy(d->value[to], d->value[from], sizeof d->value[to]);
    d->n_copies++;
}

static const backend_vtable VTABLE = {.name = "fake", .block_copy = copy_block};

typedef struct fixture {
    fake_device device;
    block_pool pool;
    block_table table[N_TABLES];
    int known[N_TABLES][MAX_POSITIONS]; // what each table must hold
} fixture;

static void start(fixture *f) {
    error err;
    *f = (fixture){.device.base.vt = &VTABLE};
    assert_int_equal(block_pool_init(&f->pool, N_BLOCKS, &err), STATUS_OK);
    for (int i = 0; i < N_TABLES; i++)
        assert_int_equal(block_table_init(&f->table[i], &f->pool, &f->device.base, MAX_POSITIONS, &err), STATUS_OK);
}

static void stop(fixture *f) {
    for (int i = 0; i < N_TABLES; i++) block_table_deinit(&f->table[i]);
    assert_int_equal(f->pool.n_free, N_BLOCKS);
    block_pool_deinit(&f->pool);
}

static bool append(fixture *f, int t, int n, int value) {
    block_table *b = &f->table[t];
    if (!block_table_reserve(b, n)) return false;
    for (int i = 0; i < n; i++) {
        int pos = b->length + i;
        f->device.value[b->block[pos / KV_BLOCK]][pos % KV_BLOCK] = value + i;
        f->known[t][pos] = value + i;
    }
    block_table_commit(b, n);
    return true;
}

// Contents, holders and the free list agree.
static void check(const fixture *f) {
    int holders[N_BLOCKS] = {0}, free_blocks = 0;
    for (int t = 0; t < N_TABLES; t++) {
        const block_table *b = &f->table[t];
        assert_true(b->n_blocks * KV_BLOCK >= b->length);
        for (int i = 0; i < b->n_blocks; i++) holders[b->block[i]]++;
        for (int pos = 0; pos < b->length; pos++) {
            assert_int_equal(f->device.value[b->block[pos / KV_BLOCK]][pos % KV_BLOCK], f->known[t][pos]);
        }
    }
    for (int i = 0; i < N_BLOCKS; i++) {
        assert_int_equal(f->pool.holders[i], holders[i]);
        free_blocks += holders[i] == 0;
    }
    assert_int_equal(f->pool.n_free, free_blocks);
    bool seen[N_BLOCKS] = {false};
    for (int i = 0; i < f->pool.n_free; i++) {
        assert_false(seen[f->pool.free_list[i]]);
        seen[f->pool.free_list[i]] = true;
    }
}

static void test_pool(void **state) {
    (void)state;
    block_pool p;
    error err;
    assert_int_equal(block_pool_init(&p, 3, &err), STATUS_OK);
    int a = block_pool_take(&p), b = block_pool_take(&p), c = block_pool_take(&p);
    assert_true(a == 0 && b == 1 && c == 2);
    assert_int_equal(block_pool_take(&p), -1);
    block_pool_share(&p, b);
    block_pool_give(&p, b);
    assert_int_equal(p.n_free, 0);
    block_pool_give(&p, b);
    assert_int_equal(p.n_free, 1);
    assert_int_equal(block_pool_take(&p), b);
    block_pool_deinit(&p);
}

static void test_exhaustion(void **state) {
    (void)state;
    static fixture f;
    start(&f);
    assert_true(append(&f, 0, 9 * KV_BLOCK, 1));
    assert_true(append(&f, 1, 2 * KV_BLOCK + 1, 1000));
    assert_int_equal(f.pool.n_free, 0);
    assert_false(append(&f, 2, 1, 5));
    assert_int_equal(f.table[2].n_blocks, 0);
    assert_true(append(&f, 1, KV_BLOCK - 1, 2000)); // the rest of its last block
    assert_false(append(&f, 1, 1, 3000));
    check(&f);
    block_table_truncate(&f.table[0], 9 * KV_BLOCK - 1); // still needs all nine
    assert_false(append(&f, 2, 1, 5));
    block_table_truncate(&f.table[0], 8 * KV_BLOCK);
    assert_false(append(&f, 2, KV_BLOCK + 1, 5)); // two are too many, and none is taken
    assert_int_equal(f.pool.n_free, 1);
    assert_true(append(&f, 2, 1, 5));
    check(&f);
    stop(&f);
}

// A fork shares; whoever writes into a shared block first gets a copy; full shared blocks are never copied.
static void test_fork(void **state) {
    (void)state;
    static const int lengths[] = {1, KV_BLOCK - 1, KV_BLOCK, KV_BLOCK + 1, 2 * KV_BLOCK};
    for (int i = 0; i < 5; i++) {
        static fixture f;
        start(&f);
        int n = lengths[i], blocks = (n + KV_BLOCK - 1) / KV_BLOCK, whole = n % KV_BLOCK == 0;
        assert_true(append(&f, 0, n, 100));
        block_table_fork(&f.table[1], &f.table[0]);
        memcpy(f.known[1], f.known[0], sizeof f.known[1]);
        assert_int_equal(f.pool.n_free, N_BLOCKS - blocks);
        check(&f);
        assert_true(append(&f, 1, 2, 7000));
        assert_int_equal(f.device.n_copies, whole ? 0 : 1);
        assert_true(append(&f, 0, 3, 8000)); // alone with its block again: no second copy
        assert_int_equal(f.device.n_copies, whole ? 0 : 1);
        check(&f);
        stop(&f);
    }
}

static void test_copy_needs_a_block(void **state) {
    (void)state;
    static fixture f;
    start(&f);
    assert_true(append(&f, 0, 10 * KV_BLOCK - 1, 1));
    assert_true(append(&f, 2, KV_BLOCK, 1));
    block_table_fork(&f.table[1], &f.table[2]);
    memcpy(f.known[1], f.known[2], sizeof f.known[1]);
    block_table_truncate(&f.table[1], 10);
    assert_true(append(&f, 1, 1, 50)); // the copy takes the last free block
    assert_int_equal(f.pool.n_free, 0);
    block_table_fork(&f.table[3], &f.table[1]);
    memcpy(f.known[3], f.known[1], sizeof f.known[3]);
    assert_false(append(&f, 3, 1, 60)); // room in the block, but no block for a copy
    check(&f);
    stop(&f);
}

static void test_random_walk(void **state) {
    (void)state;
    static fixture f;
    start(&f);
    for (int step = 0; step < 4000; step++) {
        uint64_t r = hash_mix((uint64_t)step);
        int t = (int)(r % N_TABLES), other = (int)((r >> 8) % N_TABLES);
        block_table *b = &f.table[t];
        switch ((r >> 16) % 4) {
        case 0:
        case 1: {
            int n = 1 + (int)((r >> 20) % 100);
            if (b->length + n <= MAX_POSITIONS) append(&f, t, n, step * 1000);
            break;
        }
        case 2: block_table_truncate(b, (int)((r >> 20) % (uint64_t)(b->length + 1))); break;
        default:
            if (other == t) break;
            block_table_truncate(b, 0);
            block_table_fork(b, &f.table[other]);
            memcpy(f.known[t], f.known[other], sizeof f.known[t]);
        }
        check(&f);
    }
    stop(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool),        cmocka_unit_test(test_exhaustion),
        cmocka_unit_test(test_fork),        cmocka_unit_test(test_copy_needs_a_block),
        cmocka_unit_test(test_random_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
