// Arenas, strings, maps, and the floating-point environment.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <float.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "base/arena.h"
#include "base/fpenv.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/meminfo.h"
#include "base/pool.h"
#include "base/str.h"
#include "tests/support/temp_folder.h"

// ---- arena ---------------------------------------------------------------------------------------------------------------

static void test_arena(void **state) {
    (void)state;
    enum { N = 3000 };
    static unsigned char *p[N];
    static size_t size[N];
    arena a;
    arena_init(&a);
    for (int round = 0; round < 3; round++) {
        size_t total = 0;
        for (int i = 0; i < N; i++) {
            uint64_t r = hash_mix((uint64_t)(round * N + i));
            size_t align = (size_t)1 << (r >> 8) % 8;
            size[i] = r % 50 == 0 ? (size_t)(r >> 20) % 200000 : (size_t)(r >> 20) % 100;
            p[i] = (r & 64) ? arena_alloc_aligned(&a, size[i], align) : arena_alloc(&a, size[i]);
            assert_non_null(p[i]);
            assert_int_equal((uintptr_t)p[i] % ((r & 64) ? align : _Alignof(max_align_t)), 0);
            memset(p[i], i & 255, size[i]);
            total += size[i];
        }
        assert_true(a.used == total);
        for (int i = 0; i < N; i++) { // nobody wrote into anybody else's bytes
            for (size_t j = 0; j < size[i]; j++) assert_int_equal(p[i][j], i & 255);
        }
        arena_reset(&a);
        assert_true(a.used == 0);
    }
    assert_null(arena_calloc(&a, SIZE_MAX / 2, 3));
    assert_null(arena_calloc(&a, (size_t)1 << 33, (size_t)1 << 33));
    assert_null(arena_alloc(&a, SIZE_MAX));
    unsigned char *zero = arena_calloc(&a, 100, 7); // memory of a reset arena is dirty
    for (int i = 0; i < 700; i++) assert_int_equal(zero[i], 0);
    char bytes[] = {'a', 0, 'b'};
    str s = arena_str(&a, (str){bytes, 3});
    assert_int_equal(s.len, 3);
    assert_memory_equal(s.data, "a\0b", 4);
    assert_string_equal(arena_printf(&a, "%s-%d", "x", 42), "x-42");
    char *long_text = arena_printf(&a, "%0500d", 7);
    assert_int_equal(strlen(long_text), 500);
    arena_deinit(&a);
    arena_deinit(&a);
}

// ---- strings -------------------------------------------------------------------------------------------------------------

static ptrdiff_t plain_find(str s, str needle, size_t from) {
    for (size_t i = from; i + needle.len <= s.len; i++) {
        if (memcmp(s.data + i, needle.data, needle.len) == 0) return (ptrdiff_t)i;
    }
    return -1;
}

static void test_str(void **state) {
    (void)state;
    assert_true(str_starts(STR("abc"), STR("ab")) && str_starts(STR("abc"), STR("")) &&
                !str_starts(STR("ab"), STR("abc")));
    assert_true(str_ends(STR("abc"), STR("bc")) && str_ends(STR("abc"), STR("abc")) &&
                !str_ends(STR("bc"), STR("abc")));
    assert_true(str_eq((str){NULL, 0}, STR("")) && !str_eq(STR("a"), STR("b")));
    assert_int_equal(str_find(STR("abc"), STR(""), 3), 3);
    assert_int_equal(str_find(STR("abc"), STR(""), 4), -1);
    assert_int_equal(str_find((str){NULL, 0}, STR("a"), 0), -1);
    for (uint64_t i = 0; i < 20000; i++) { // all short strings of two letters
        uint64_t r = hash_mix(i);
        char hay[12], needle[4];
        str h = {hay, r % 12}, n = {needle, 1 + (r >> 4) % 4};
        for (size_t j = 0; j < h.len; j++) hay[j] = (char)('a' + ((r >> (8 + j)) & 1));
        for (size_t j = 0; j < n.len; j++) needle[j] = (char)('a' + ((r >> (30 + j)) & 1));
        size_t from = (r >> 40) % 12;
        assert_int_equal(str_find(h, n, from), from > h.len ? -1 : plain_find(h, n, from));
    }
}

static void test_strbuf(void **state) {
    (void)state;
    strbuf b = {0};
    assert_string_equal(strbuf_text(&b), "");
    static char want[40000];
    size_t len = 0;
    for (int i = 0; len < 30000; i++) {
        char piece[64];
        int n = snprintf(piece, sizeof piece, "%d,", i * i);
        memcpy(want + len, piece, (size_t)n);
        len += (size_t)n;
        switch (i % 3) {
        case 0: strbuf_add(&b, (str){piece, (size_t)n}); break;
        case 1: strbuf_addf(&b, "%d,", i * i); break;
        default:
            for (int j = 0; j < n; j++) strbuf_add_char(&b, piece[j]);
        }
        assert_int_equal(b.len, len);
        assert_int_equal(b.data[len], 0);
    }
    assert_memory_equal(b.data, want, len);
    strbuf_addf(&b, "%0900d", 1); // longer than any guess
    assert_int_equal(b.len, len + 900);
    strbuf_clear(&b);
    assert_string_equal(strbuf_text(&b), "");
    strbuf_add(&b, (str){"x\0y", 3});
    assert_int_equal(b.len, 3);
    assert_false(b.failed);
    b.failed = true; // what follows a failure is dropped
    strbuf_add(&b, STR("z"));
    assert_int_equal(b.len, 3);
    strbuf_deinit(&b);
}

// ---- map -----------------------------------------------------------------------------------------------------------------

static void test_map(void **state) {
    (void)state;
    enum { N = 5000 };
    static char keys[N][16];
    map m;
    map_init(&m);
    assert_false(map_get(&m, STR("a"), NULL));
    for (int i = 0; i < N; i++) {
        snprintf(keys[i], sizeof keys[i], "key %d", i);
        assert_true(map_put(&m, str_from(keys[i]), i));
    }
    for (int i = 0; i < N; i += 3) assert_true(map_put(&m, str_from(keys[i]), -i));
    assert_true(map_reserve(&m, 10) && map_reserve(&m, 2 * N)); // less than there is; more
    size_t room = m.n_slots;
    assert_true(room >= 2 * N);
    assert_int_equal(m.count, N);
    for (int i = 0; i < N; i++) {
        int64_t value;
        assert_true(map_get(&m, str_from(keys[i]), &value));
        assert_int_equal(value, i % 3 ? i : -i);
        char other[20];
        snprintf(other, sizeof other, "key %d ", i);
        assert_false(map_get(&m, str_from(other), NULL));
    }
    int64_t value = 0;
    assert_false(map_get(&m, (str){NULL, 0}, NULL));
    assert_true(map_put(&m, (str){NULL, 0}, 77)); // the empty key
    assert_true(map_get(&m, STR(""), &value));
    assert_int_equal(value, 77);
    assert_true(map_put(&m, (str){"a\0b", 3}, 1) && map_put(&m, (str){"a\0c", 3}, 2)); // zero bytes count
    assert_true(map_get(&m, (str){"a\0b", 3}, &value));
    assert_int_equal(value, 1);
    map_deinit(&m);
}

// ---- floating-point environment ------------------------------------------------------------------------------------------

static volatile float tiny = FLT_MIN, third = 3.0f;

static void halve(void *ctx, int i, int thread) {
    (void)thread;
    nanosleep(&(struct timespec){.tv_nsec = 100 * 1000}, NULL); // so that every thread gets its share
    ((float *)ctx)[i] = tiny / 2 * (1.0f / third);
}

// A caller with flush-to-zero and another rounding gets the same numbers, on every thread, and its own setting back.
static void test_fpenv(void **state) {
    (void)state;
#if defined(__x86_64__)
    enum { N = 64, FLUSH_AND_TRUNCATE = 0x1f80 | 0x8040 | 0x6000 };
    float want[N], got[N];
    for (int i = 0; i < N; i++) halve(want, i, 0);
    assert_true(want[0] > 0);
    for (int threads = 1; threads <= 4; threads++) {
        pool *p;
        error err;
        unsigned before = _mm_getcsr();
        _mm_setcsr(FLUSH_AND_TRUNCATE); // also in force while the threads start: they inherit it
        halve(got, 0, 0);
        bool flushed = got[0] == 0;
        status s = pool_create(&p, threads, &err);
        pool_for(p, N, halve, got);
        fpenv_state saved = fpenv_enter();
        float inside;
        halve(&inside, 0, 0);
        fpenv_leave(saved);
        unsigned after = _mm_getcsr();
        _mm_setcsr(before);
        assert_int_equal(s, STATUS_OK);
        assert_true(flushed);                                          // otherwise this test shows nothing
        assert_int_equal(after & ~0x3fu, FLUSH_AND_TRUNCATE & ~0x3fu); // the low bits only collect what happened
        assert_memory_equal(got, want, sizeof want);
        assert_memory_equal(&inside, want, sizeof inside);
        pool_destroy(p);
    }
#endif
}

// What a file puts into a message stays on one line and moves no cursor.
static void test_error(void **state) {
    (void)state;
    error err;
    assert_int_equal(error_set(&err, STATUS_BAD_FILE, "pattern '%s' is wrong", "a\n\x1b[2J\x7f\t\xc3\xa9"),
                     STATUS_BAD_FILE);
    assert_string_equal(err.text, "pattern 'a  [2J  \xc3\xa9' is wrong");
    assert_int_equal(error_prefix(&err, STATUS_IO, "x\r"), STATUS_IO);
    assert_string_equal(err.text, "x : pattern 'a  [2J  \xc3\xa9' is wrong");
}

// ---- memory --------------------------------------------------------------------------------------------------------------

static void test_control_group(void **state) {
    (void)state;
    temp_folder t = temp_folder_make();
    assert_true(meminfo_of_group(t.path) == INT64_MAX);
    temp_folder_write_text(&t, "memory.max", "max\n");
    temp_folder_write_text(&t, "memory.current", "7000\n");
    assert_true(meminfo_of_group(t.path) == INT64_MAX);
    temp_folder_write_text(&t, "memory.max", "8000\n");
    assert_int_equal(meminfo_of_group(t.path), 1000);
    temp_folder_write_text(&t, "memory.stat",
                           "anon 500\nfile 6000\nkernel 100\ninactive_file 4000\nactive_file 1500\n");
    assert_int_equal(meminfo_of_group(t.path), 6500); // pages of files give way
    temp_folder_write_text(&t, "memory.current", "20000\n");
    assert_int_equal(meminfo_of_group(t.path), 0);
    temp_folder_remove(&t);
    assert_true(meminfo_available() > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena),         cmocka_unit_test(test_str),   cmocka_unit_test(test_strbuf),
        cmocka_unit_test(test_map),           cmocka_unit_test(test_fpenv), cmocka_unit_test(test_error),
        cmocka_unit_test(test_control_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
