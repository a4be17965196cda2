// Opening the tiny tokenizers of tests/golden/tokenizers.
#ifndef TALLY_TESTS_TOKENIZER_SUPPORT_H
#define TALLY_TESTS_TOKENIZER_SUPPORT_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/tokenizer_parts.h"
#include "text/utf8.h"

typedef struct family_files {
    char *owned[2];
    tokenizer_files files;
} family_files;

static inline char *read_whole(const char *family, const char *name, size_t *len) {
    char path[256];
    snprintf(path, sizeof path, "tests/golden/tokenizers/%s/%s", family, name);
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot open %s", path);
    fseek(f, 0, SEEK_END);
    *len = (size_t)ftell(f);
    rewind(f);
    char *data = malloc(*len + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *len, f), *len);
    data[*len] = 0;
    fclose(f);
    return data;
}

static inline family_files read_family(const char *family) {
    family_files f = {0};
    size_t len;
    f.owned[0] = read_whole(family, "tokenizer.json", &len);
    f.files.tokenizer_json = (str){f.owned[0], len};
    f.owned[1] = read_whole(family, "tokenizer_config.json", &len);
    f.files.tokenizer_config = (str){f.owned[1], len};
    return f;
}

static inline void free_family(family_files *f) {
    free(f->owned[0]);
    free(f->owned[1]);
}

static inline tokenizer *open_family(const char *family) {
    family_files f = read_family(family);
    tokenizer *t = NULL;
    error err = {0};
    if (tokenizer_from_files(&t, &f.files, &err)) fail_msg("%s: %s", family, err.text);
    free_family(&f);
    return t;
}

static inline json_t *load_cases(const char *family) {
    char path[256];
    json_error_t why;
    snprintf(path, sizeof path, "tests/golden/tokenizers/%s/cases.json", family);
    json_t *cases = json_load_file(path, JSON_ALLOW_NUL, &why);
    if (!cases) fail_msg("%s: %s", path, why.text);
    return cases;
}

#endif
