// safetensors: reading, sharding, and every kind of damaged or hostile file.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <unistd.h>

#include "file/safetensors.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_folder.h"

static temp_folder folder;

static int make_folder(void **state) {
    (void)state;
    folder = temp_folder_make();
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    temp_folder_remove(&folder);
    return 0;
}

static void expect_refused(status want, const char *part) {
    safetensors *s;
    error err = {0};
    status code = safetensors_open(&s, folder.path, &err);
    if (code != want || !strstr(err.text, part))
        fail_msg("status %d: \"%s\", expected %d: \"%s\"", code, err.text, want, part);
    assert_null(s);
}

static void save(const safetensors_writer *w, const char *name) {
    assert_true(safetensors_writer_save(w, temp_folder_path(&folder, name)));
}

static void write_tiny(safetensors_writer *w) {
    static const float x[6] = {0, 1, 2, 3, 4, 5};
    static const uint16_t h[4] = {0x3c00, 0x4000, 0, 0x8000};
    safetensors_writer_init(w);
    safetensors_writer_tensor(w, "a.weight", "F32", 2, (int64_t[]){2, 3}, x, sizeof x);
    safetensors_writer_tensor(w, "odd", "U8", 1, (int64_t[]){3}, x, 3); // the next one starts at an odd byte
    safetensors_writer_tensor(w, "b.bias", "BF16", 1, (int64_t[]){4}, h, sizeof h);
    safetensors_writer_tensor(w, "c", "F16", 4, (int64_t[]){1, 2, 1, 2}, h, sizeof h);
    safetensors_writer_tensor(w, "empty", "F32", 2, (int64_t[]){0, 3}, NULL, 0);
    safetensors_writer_tensor(w, "scalar", "F32", 0, NULL, x, 4);
    safetensors_writer_tensor(w, "deep", "F32", 5, (int64_t[]){1, 1, 1, 1, 1}, x, 4);
}

static void test_single_file(void **state) {
    (void)state;
    safetensors_writer w;
    write_tiny(&w);
    save(&w, "model.safetensors");
    safetensors_writer_deinit(&w);
    safetensors *s;
    error err = {0};
    if (safetensors_open(&s, folder.path, &err) != STATUS_OK) fail_msg("%s", err.text);
    assert_int_equal(s->n_entries, 7);
    const safetensors_entry *e = &s->entries[0];
    float last;
    memcpy(&last, s->files[0].map.data + e->offset + 20, 4);
    assert_true(str_is(e->name, "a.weight") && e->type == DTYPE_F32 && e->n_dims == 2 && e->dim[0] == 2 &&
                e->dim[1] == 3 && last == 5);
    const bool supported[] = {true, false, true, true, false, false, false};
    for (int i = 0; i < 7; i++) assert_int_equal(s->entries[i].supported, supported[i]);
    assert_true(s->entries[2].type == DTYPE_BF16 && s->entries[2].n_bytes == 8);
    safetensors_close(s);
}

static void test_bad_lengths(void **state) {
    (void)state;
    const struct {
        uint64_t len;
        size_t size;
        const char *part;
    } cases[] = {
        {0, 4, "4 bytes are no safetensors file"},
        {0, 0, "0 bytes are no safetensors file"},
        {0, 64, "claims a header of 0 bytes"},
        {UINT64_MAX, 64, "claims a header of 18446744073709551615 bytes"},
        {57, 64, "claims a header of 57 bytes, expected 1 to 56"},
        {56, 64, "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char file[64] = {0};
        memcpy(file, &cases[i].len, 8);
        temp_folder_write(&folder, "model.safetensors", file, cases[i].size);
        expect_refused(STATUS_BAD_FILE, cases[i].part);
    }
}

static void test_bad_entries(void **state) {
    (void)state;
    const struct {
        const char *json, *part;
    } cases[] = {
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,20]}}",
         "spans 20 bytes, its shape and type F32 need 24"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[16],\"data_offsets\":[8,72]}}",
         "spans bytes 8 to 72 of the data, which has 64"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", "spans bytes -4 to 0"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,4]}}", "spans bytes 8 to 4"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", "no \"data_offsets\" of two whole numbers"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4.0]}}",
         "no \"data_offsets\" of two whole numbers"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1]}}", "no \"data_offsets\""},
        {"{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", "no array \"shape\""},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}",
         "dimension 0 of tensor t is no whole number"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}",
         "more than 2^63 bytes"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[18446744073709551615],\"data_offsets\":[0,4]}}", "not valid JSON"},
        {"{\"t\":{\"dtype\":\"Q9\",\"shape\":[1],\"data_offsets\":[0,4]}}",
         "the type \"Q9\", which safetensors does not define"},
        {"{\"t\":{\"shape\":[1],\"data_offsets\":[0,4]}}", "the type \"\""},
        {"{\"t\":[]}", "the type \"\""},
        {"[1]", "holds an array, expected an object"},
        {"{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
         "duplicate"},
        {"{\"t\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"u\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[3,7]}}",
         "tensors t and u overlap"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        strbuf f = {0};
        uint64_t len = strlen(cases[i].json);
        char data[64] = {0};
        strbuf_add(&f, (str){(const char *)&len, 8});
        strbuf_add(&f, str_from(cases[i].json));
        strbuf_add(&f, (str){data, sizeof data});
        temp_folder_write(&folder, "model.safetensors", f.data, f.len);
        strbuf_deinit(&f);
        expect_refused(STATUS_BAD_FILE, cases[i].part);
    }
}

static void test_deep_nesting(void **state) {
    (void)state;
    strbuf f = {0};
    uint64_t len = 200000;
    strbuf_add(&f, (str){(const char *)&len, 8});
    for (uint64_t i = 0; i < len; i++) strbuf_add_char(&f, '[');
    temp_folder_write(&folder, "model.safetensors", f.data, f.len);
    strbuf_deinit(&f);
    expect_refused(STATUS_BAD_FILE, "not valid JSON");
}

static void test_cut_anywhere(void **state) {
    (void)state;
    safetensors_writer w;
    write_tiny(&w);
    strbuf f = safetensors_writer_finish(&w);
    for (size_t n = 0; n < f.len; n++) {
        temp_folder_write(&folder, "model.safetensors", f.data, n);
        expect_refused(STATUS_BAD_FILE, "model.safetensors");
    }
    strbuf_deinit(&f);
    safetensors_writer_deinit(&w);
}

static void write_shard(const char *file, const char *tensor) {
    safetensors_writer w;
    safetensors_writer_init(&w);
    safetensors_writer_tensor(&w, tensor, "F32", 1, (int64_t[]){1}, (float[]){7}, 4);
    save(&w, file);
    safetensors_writer_deinit(&w);
}

static void write_index(const char *weight_map) {
    char text[1024];
    snprintf(text, sizeof text, "{\"metadata\":{\"total_size\":8},\"weight_map\":%s}", weight_map);
    temp_folder_write_text(&folder, "model.safetensors.index.json", text);
}

static void test_shards(void **state) {
    (void)state;
    safetensors *s;
    error err = {0};
    unlink(temp_folder_path(&folder, "model.safetensors"));
    write_shard("m-1.safetensors", "a");
    write_index("{\"a\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\"}");
    expect_refused(STATUS_NOT_FOUND, "/m-2.safetensors: missing;");
    write_shard("m-2.safetensors", "b");
    if (safetensors_open(&s, folder.path, &err) != STATUS_OK) fail_msg("%s", err.text);
    assert_true(s->n_entries == 2 && s->n_files == 2 && s->entries[1].file == 1);
    safetensors_close(s);
    write_shard("m-2.safetensors", "c");
    expect_refused(STATUS_BAD_FILE, "lists tensor b in m-2.safetensors, which does not hold it");
    write_shard("m-2.safetensors", "a");
    expect_refused(STATUS_BAD_FILE, "m-2.safetensors: tensor a is also in ");
    write_index("{\"a\":\"m-1.safetensors\",\"b\":\"../m-2.safetensors\"}");
    expect_refused(STATUS_BAD_FILE, "is listed in \"../m-2.safetensors\", which is no name of a file in the folder");
    write_index("{\"a\":\"/etc/passwd\"}");
    expect_refused(STATUS_BAD_FILE, "is listed in \"/etc/passwd\"");
    write_index("{\"a\":\"..\"}");
    expect_refused(STATUS_BAD_FILE, "is listed in \"..\"");
    write_index("{\"a\":\"\"}");
    expect_refused(STATUS_BAD_FILE, "is listed in \"\"");
    write_index("{\"a\":5}");
    expect_refused(STATUS_BAD_FILE, "is listed in \"\"");
    write_index("{}");
    expect_refused(STATUS_BAD_FILE, "has no object \"weight_map\"");
    write_index("[]");
    expect_refused(STATUS_BAD_FILE, "has no object \"weight_map\"");
    temp_folder_write_text(&folder, "model.safetensors.index.json", "{");
    expect_refused(STATUS_BAD_FILE, "index.json: not valid JSON");
}

static void test_links_and_other_formats(void **state) {
    (void)state;
    safetensors *s;
    error err = {0};
    // as in the Hugging Face cache: the folder holds links into a store of blobs
    write_shard("blob", "a");
    char target[512];
    snprintf(target, sizeof target, "%s", temp_folder_path(&folder, "blob"));
    unlink(temp_folder_path(&folder, "m-1.safetensors"));
    assert_int_equal(symlink(target, temp_folder_path(&folder, "m-1.safetensors")), 0);
    write_index("{\"a\":\"m-1.safetensors\"}");
    if (safetensors_open(&s, folder.path, &err) != STATUS_OK) fail_msg("%s", err.text);
    safetensors_close(s);
    unlink(temp_folder_path(&folder, "model.safetensors.index.json"));
    expect_refused(STATUS_NOT_FOUND, "holds neither model.safetensors nor model.safetensors.index.json");
    temp_folder_write_text(&folder, "pytorch_model.bin", "x");
    expect_refused(STATUS_NOT_FOUND,
                   "holds pytorch_model.bin but no model.safetensors; tally reads weights from safetensors");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_file),
        cmocka_unit_test(test_bad_lengths),
        cmocka_unit_test(test_bad_entries),
        cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_links_and_other_formats),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
