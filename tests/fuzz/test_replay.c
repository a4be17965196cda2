// Replays the corpora of the fuzz targets: every input that was ever interesting, in every configuration, without a fuzzer.
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// LLVMFuzzerTestOneInput of each target, under the name that mk/fuzz.mk gives it here. Its abort() fails the test.
int replay_config(const uint8_t *data, size_t size);
int replay_gguf(const uint8_t *data, size_t size);
int replay_options(const uint8_t *data, size_t size);
int replay_requests(const uint8_t *data, size_t size);
int replay_safetensors(const uint8_t *data, size_t size);
int replay_snapshot(const uint8_t *data, size_t size);
int replay_speculation(const uint8_t *data, size_t size);
int replay_template(const uint8_t *data, size_t size);
int replay_tokenizer_json(const uint8_t *data, size_t size);

enum { MOST = 1 << 20 };

static void replay_file(const char *path, int (*target)(const uint8_t *, size_t)) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    uint8_t *data = malloc(MOST);
    assert_non_null(data);
    size_t n = fread(data, 1, MOST, f);
    fclose(f);
    assert_true(n < MOST);
    data = realloc(data, n ? n : 1); // so that a sanitizer sees reading past the end
    assert_non_null(data);
    fprintf(stderr, "%s\n", path); // the last line tells which input ended the program
    assert_int_equal(target(data, n), 0);
    free(data);
}

static void replay(const char *name, int (*target)(const uint8_t *, size_t)) {
    char path[512];
    snprintf(path, sizeof path, "tests/fuzz/corpus/%s", name);
    DIR *dir = opendir(path);
    if (!dir) fail_msg("%s is not there; run this from the root of the repository", path);
    int n = 0;
    for (const struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "tests/fuzz/corpus/%s/%s", name, e->d_name);
        replay_file(path, target);
        n++;
    }
    closedir(dir);
    assert_true(n > 0);
}

#define TEST(name) \
    static void test_##name(void **state) { \
        (void)state; \
        replay(#name, replay_##name); \
    }
TEST(config)
TEST(gguf)
TEST(options)
TEST(requests)
TEST(safetensors)
TEST(snapshot)
TEST(speculation)
TEST(template)
TEST(tokenizer_json)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config),      cmocka_unit_test(test_gguf),        cmocka_unit_test(test_options),
        cmocka_unit_test(test_requests),    cmocka_unit_test(test_safetensors), cmocka_unit_test(test_snapshot),
        cmocka_unit_test(test_speculation), cmocka_unit_test(test_template),    cmocka_unit_test(test_tokenizer_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
