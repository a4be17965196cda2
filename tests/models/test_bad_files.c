// Damaged models through the public interface: files cut at every length and files with wrong bytes are refused with a sentence, or
// work; nothing crashes, hangs or leaks (run it under CONFIG=asan too).
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "tally.h"
#include "tests/support/script_model.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_gguf.h"
#include "tests/support/tiny_model.h"

static tally_status ignore_logits(void *user, int position, const float *logits, int n_vocab) {
    (void)user, (void)position, (void)logits, (void)n_vocab;
    return TALLY_OK;
}

static tally_status use_text(const tally_model *m, tally_error *err) {
    int32_t *ids = NULL;
    size_t n, len;
    char *text = NULL;
    tally_status s = tally_tokenize(m, "ab c\n<eos>", 10, TALLY_ADD_SPECIAL | TALLY_PARSE_SPECIAL, &ids, &n, err);
    if (!s) s = tally_detokenize(m, ids, n, false, &text, &len, err);
    tally_free(ids);
    tally_free(text);
    return s;
}

static tally_status use_engine(const tally_model *m, tally_error *err) {
    tally_engine *e;
    tally_session *session;
    tally_status s = tally_engine_open(&e, m, &(tally_engine_options){.threads = 1, .context = 8, .step_rows = 8}, err);
    if (s) return s;
    static const int32_t ids[] = {1, 2, 0};
    s = tally_session_open(&session, e, err);
    if (!s) s = tally_session_eval(session, ids, 3, 3, ignore_logits, NULL, err);
    tally_session_close(session);
    tally_engine_close(e);
    return s;
}

// Everything a user can do with a path. A failure has a sentence.
static tally_status use(const char *path) {
    tally_model *m;
    tally_error err = {0};
    tally_status s = tally_model_open(&m, path, &err);
    if (s) {
        assert_null(m);
        assert_true(err.text[0] && err.code == s);
        return s;
    }
    if (tally_model_has_tokenizer(m)) use_text(m, &err);
    char *json = NULL;
    tally_inspect(m, &(tally_engine_options){.threads = 1, .context = 8}, &json, &err);
    tally_free(json);
    err = (tally_error){0};
    s = use_engine(m, &err);
    if (s) assert_true(err.text[0] && err.code == s);
    tally_model_close(m);
    return s;
}

static unsigned char *slurp(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    unsigned char *data = malloc(*n);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *n, f), *n);
    fclose(f);
    return data;
}

// ---- GGUF ----------------------------------------------------------------------------------------------------------------

static void tiny_file(const temp_folder *f, const char *arch) {
    gguf_writer w;
    gguf_writer_init(&w);
    tiny_gguf_keys(&w, arch, NULL);
    tiny_gguf_tensors(&w, arch, NULL);
    assert_true(gguf_writer_save(&w, temp_folder_path(f, "whole.gguf")));
    gguf_writer_deinit(&w);
}

static void test_gguf_cut(void **state) {
    (void)state;
    static const char *const archs[] = {"llama", "qwen3moe"};
    for (int a = 0; a < 2; a++) {
        temp_folder f = temp_folder_make();
        tiny_file(&f, archs[a]);
        size_t n;
        unsigned char *data = slurp(temp_folder_path(&f, "whole.gguf"), &n);
        assert_int_equal(use(temp_folder_path(&f, "whole.gguf")), TALLY_OK);
        for (size_t len = 0; len + 40 < n; len += len < 64 ? 1 : 1 + n / 400) {
            temp_folder_write(&f, "cut.gguf", data, len);
            if (use(temp_folder_path(&f, "cut.gguf")) == TALLY_OK)
                fail_msg("%s: %zu of %zu bytes were accepted", archs[a], len, n);
        }
        free(data);
        temp_folder_remove(&f);
    }
}

static void test_gguf_wrong_bytes(void **state) {
    (void)state;
    temp_folder f = temp_folder_make();
    int worked = 0, refused = 0;
    static const char *const archs[] = {"llama", "qwen2", "qwen3", "qwen3moe"};
    for (int a = 0; a < 4; a++) {
        tiny_file(&f, archs[a]);
        size_t n;
        unsigned char *data = slurp(temp_folder_path(&f, "whole.gguf"), &n);
        for (uint64_t i = 0; i < 300; i++) {
            uint64_t r = hash_mix(i + 1000 * (uint64_t)a);
            size_t at = (size_t)(r % (i % 4 ? n * 2 / 5 : n));
            unsigned char old[8];
            size_t len = 1 + (size_t)((r >> 40) % 8);
            if (at + len > n) at = n - len;
            memcpy(old, data + at, len);
            for (size_t j = 0; j < len; j++)
                data[at + j] = (r >> 50) % 3 ? (unsigned char)hash_mix(r + j) : (r >> 52) % 2 ? 0xff : 0;
            temp_folder_write(&f, "wrong.gguf", data, n);
            *(use(temp_folder_path(&f, "wrong.gguf")) ? &refused : &worked) += 1;
            memcpy(data + at, old, len);
        }
        free(data);
    }
    assert_true(refused > 100 && worked > 10); // both kinds were met
    temp_folder_remove(&f);
}

// The keys of a vocabulary lie behind the others in this file.
static void test_gguf_wrong_vocabulary(void **state) {
    (void)state;
    temp_folder f = temp_folder_make();
    char path[300];
    snprintf(path, sizeof path, "%s/whole.gguf", f.path);
    script_model_write(path, (const char *const[]){"ab", "abc", " c"}, 3, NULL);
    size_t n;
    unsigned char *data = slurp(path, &n);
    for (uint64_t i = 0; i < 150; i++) {
        uint64_t r = hash_mix(i + 77);
        size_t at = 400 + (size_t)(r % 7000);
        unsigned char old = data[at];
        data[at] = (unsigned char)(r >> 32);
        temp_folder_write(&f, "wrong.gguf", data, n);
        use(temp_folder_path(&f, "wrong.gguf"));
        data[at] = old;
    }
    free(data);
    temp_folder_remove(&f);
}

// ---- folders -------------------------------------------------------------------------------------------------------------

static void damage(const temp_folder *f, const char *file, bool cut, int rounds, size_t within) {
    size_t n;
    char path[300];
    snprintf(path, sizeof path, "%s/%s", f->path, file);
    unsigned char *data = slurp(path, &n);
    if (within > n) within = n;
    for (int i = 0; i < rounds; i++) {
        uint64_t r = hash_mix((uint64_t)i);
        size_t at = cut ? within * (size_t)i / (size_t)rounds : (size_t)(r % within);
        unsigned char old = data[at];
        data[at] = cut ? old : (unsigned char)(r >> 32);
        temp_folder_write(f, file, data, cut ? at : n);
        if (use(f->path) == TALLY_OK && cut) fail_msg("%s: %zu of %zu bytes were accepted", file, at, n);
        data[at] = old;
    }
    temp_folder_write(f, file, data, n);
    assert_int_equal(use(f->path), TALLY_OK);
    free(data);
}

static void test_folder(void **state) {
    (void)state;
    static const char *const variants[] = {"llama-llama3", "qwen3moe-e8k2-norm"};
    for (int v = 0; v < 2; v++) {
        temp_folder f = temp_folder_make();
        tiny_model m = tiny_model_read(variants[v]);
        tiny_model_write_folder(&m, f.path, DTYPE_BF16, 2);
        damage(&f, "config.json", false, 200, SIZE_MAX);
        damage(&f, "model.safetensors.index.json", true, 30, SIZE_MAX);
        damage(&f, "model.safetensors.index.json", false, 60, SIZE_MAX);
        damage(&f, "model-00001-of-00002.safetensors", true, 60, SIZE_MAX);
        damage(&f, "model-00001-of-00002.safetensors", false, 200, 2000);
        damage(&f, "generation_config.json", false, 30, SIZE_MAX);
        temp_folder_remove(&f);
        tiny_model_free(&m);
    }
}

static void test_absent(void **state) {
    (void)state;
    temp_folder f = temp_folder_make();
    assert_int_equal(use(temp_folder_path(&f, "nothing.gguf")), TALLY_NOT_FOUND);
    assert_int_not_equal(use(f.path), TALLY_OK); // an empty folder
    temp_folder_write_text(&f, "empty.gguf", "");
    assert_int_equal(use(temp_folder_path(&f, "empty.gguf")), TALLY_BAD_FILE);
    assert_int_not_equal(use(""), TALLY_OK);
    assert_int_not_equal(use("/dev/null"), TALLY_OK);
    temp_folder_remove(&f);
}

// ---- snapshots -----------------------------------------------------------------------------------------------------------

// A snapshot is input too. Whatever became of a session, it can be synced, and then answers as a fresh one.
static void test_snapshots(void **state) {
    (void)state;
    enum { VOCAB = 300, N = 70 };
    temp_folder f = temp_folder_make();
    char path[300];
    snprintf(path, sizeof path, "%s/model.gguf", f.path);
    tiny_random_gguf(path, DTYPE_Q8_0, false, 1);
    tally_model *m;
    tally_engine *e;
    tally_session *s, *fresh;
    tally_error err;
    assert_int_equal(tally_model_open(&m, path, &err), 0);
    assert_int_equal(
        tally_engine_open(&e, m, &(tally_engine_options){.threads = 1, .context = 128, .cache_positions = 512}, &err),
        0);
    assert_int_equal(tally_session_open(&s, e, &err), 0);
    assert_int_equal(tally_session_open(&fresh, e, &err), 0);
    int32_t ids[N];
    for (int i = 0; i < N; i++) ids[i] = i * 3;
    assert_int_equal(tally_session_sync(fresh, ids, N, &err), 0);
    const float *logits;
    float want[VOCAB];
    assert_int_equal(tally_session_logits(fresh, &logits, &err), 0);
    memcpy(want, logits, sizeof want);
    unsigned char *bytes;
    size_t n;
    assert_int_equal(tally_session_save(fresh, (void **)&bytes, &n, &err), 0);
    size_t interesting = 32 + sizeof ids; // header and tokens
    for (size_t i = 0; i < 600; i++) {
        uint64_t r = hash_mix(i);
        size_t len = i < 100 ? i * 3 : n, at = (size_t)(r % interesting);
        unsigned char old = bytes[at];
        if (i >= 100) bytes[at] = (unsigned char)(r >> 32);
        assert_int_equal(tally_session_sync(s, NULL, 0, &err), 0);
        tally_status st = tally_session_restore(s, bytes, len, &err);
        if (i < 100) assert_int_equal(st, TALLY_BAD_FILE);
        if (st) assert_true(tally_session_length(s) == 0 && err.text[0]);
        bytes[at] = old;
        if (i % 20) continue;
        assert_int_equal(tally_session_sync(s, NULL, 0, &err), 0);
        assert_int_equal(tally_session_sync(s, ids, N, &err), 0);
        assert_int_equal(tally_session_logits(s, &logits, &err), 0);
        assert_memory_equal(logits, want, sizeof want);
    }
    assert_int_equal(tally_session_restore(s, bytes, n, &err), 0);
    assert_int_equal(tally_session_length(s), N);
    tally_free(bytes);
    tally_session_close(s);
    tally_session_close(fresh);
    tally_engine_close(e);
    tally_model_close(m);
    temp_folder_remove(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf_cut),
        cmocka_unit_test(test_gguf_wrong_bytes),
        cmocka_unit_test(test_gguf_wrong_vocabulary),
        cmocka_unit_test(test_folder),
        cmocka_unit_test(test_absent),
        cmocka_unit_test(test_snapshots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
