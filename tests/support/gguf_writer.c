#include "tests/support/gguf_writer.h"

#include <stdio.h>

#include "file/gguf.h"

static void add(strbuf *b, const void *p, size_t n) { strbuf_add(b, (str){p, n}); }

static void add_str(strbuf *b, const char *s) {
    uint64_t len = strlen(s);
    add(b, &len, 8);
    add(b, s, len);
}

void gguf_writer_init(gguf_writer *w) { *w = (gguf_writer){.version = 3, .alignment = 32}; }

void gguf_writer_deinit(gguf_writer *w) {
    strbuf_deinit(&w->keys);
    strbuf_deinit(&w->tensors);
    strbuf_deinit(&w->data);
}

void gguf_writer_raw(gguf_writer *w, const char *key, uint32_t type, const void *payload, size_t len) {
    add_str(&w->keys, key);
    add(&w->keys, &type, 4);
    add(&w->keys, payload, len);
    w->n_keys++;
}

void gguf_writer_u8(gguf_writer *w, const char *key, uint8_t v) { gguf_writer_raw(w, key, GGUF_U8, &v, sizeof v); }
void gguf_writer_u16(gguf_writer *w, const char *key, uint16_t v) { gguf_writer_raw(w, key, GGUF_U16, &v, sizeof v); }
void gguf_writer_u32(gguf_writer *w, const char *key, uint32_t v) { gguf_writer_raw(w, key, GGUF_U32, &v, sizeof v); }
void gguf_writer_i32(gguf_writer *w, const char *key, int32_t v) { gguf_writer_raw(w, key, GGUF_I32, &v, sizeof v); }
void gguf_writer_u64(gguf_writer *w, const char *key, uint64_t v) { gguf_writer_raw(w, key, GGUF_U64, &v, sizeof v); }
void gguf_writer_f32(gguf_writer *w, const char *key, float v) { gguf_writer_raw(w, key, GGUF_F32, &v, sizeof v); }
void gguf_writer_f64(gguf_writer *w, const char *key, double v) { gguf_writer_raw(w, key, GGUF_F64, &v, sizeof v); }

void gguf_writer_bool(gguf_writer *w, const char *key, bool v) {
    uint8_t byte = v;
    gguf_writer_raw(w, key, GGUF_BOOL, &byte, 1);
}

void gguf_writer_str(gguf_writer *w, const char *key, const char *v) {
    gguf_writer_raw(w, key, GGUF_STRING, NULL, 0);
    add_str(&w->keys, v);
}

static void begin_array(gguf_writer *w, const char *key, uint32_t elem, int64_t n) {
    gguf_writer_raw(w, key, GGUF_ARRAY, &elem, 4);
    add(&w->keys, &n, 8);
}

void gguf_writer_str_array(gguf_writer *w, const char *key, const char *const *v, int64_t n) {
    begin_array(w, key, GGUF_STRING, n);
    for (int64_t i = 0; i < n; i++) add_str(&w->keys, v[i]);
}

void gguf_writer_i32_array(gguf_writer *w, const char *key, const int32_t *v, int64_t n) {
    begin_array(w, key, GGUF_I32, n);
    add(&w->keys, v, (size_t)n * 4);
}

void gguf_writer_f32_array(gguf_writer *w, const char *key, const float *v, int64_t n) {
    begin_array(w, key, GGUF_F32, n);
    add(&w->keys, v, (size_t)n * 4);
}

void gguf_writer_alignment(gguf_writer *w, uint32_t alignment) {
    gguf_writer_u32(w, "general.alignment", alignment);
    w->alignment = alignment;
}

static void pad(strbuf *b, uint32_t alignment) {
    while (b->len % alignment) strbuf_add_char(b, 0);
}

void gguf_writer_describe(gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                          uint64_t offset) {
    add_str(&w->tensors, name);
    add(&w->tensors, &n_dims, 4);
    for (uint32_t d = 0; d < n_dims && d < 16; d++) add(&w->tensors, &dims[d], 8);
    add(&w->tensors, &type, 4);
    add(&w->tensors, &offset, 8);
    w->n_tensors++;
}

void gguf_writer_tensor(gguf_writer *w, const char *name, uint32_t type, int n_dims, const uint64_t *dims,
                        const void *bytes, size_t n_bytes) {
    pad(&w->data, w->alignment);
    gguf_writer_describe(w, name, type, (uint32_t)n_dims, dims, w->data.len);
    add(&w->data, bytes, n_bytes);
}

strbuf gguf_writer_finish(const gguf_writer *w) {
    strbuf f = {0};
    add(&f, "GGUF", 4);
    add(&f, &w->version, 4);
    add(&f, &w->n_tensors, 8);
    add(&f, &w->n_keys, 8);
    strbuf_add(&f, strbuf_str(&w->keys));
    strbuf_add(&f, strbuf_str(&w->tensors));
    if (w->data.len) pad(&f, w->alignment);
    strbuf_add(&f, strbuf_str(&w->data));
    return f;
}

bool gguf_writer_save(const gguf_writer *w, const char *path) {
    strbuf f = gguf_writer_finish(w);
    FILE *out = fopen(path, "wb");
    bool ok = out && !f.failed && fwrite(f.data, 1, f.len, out) == f.len;
    if (out) ok = fclose(out) == 0 && ok;
    strbuf_deinit(&f);
    return ok;
}
