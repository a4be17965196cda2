#include "tests/support/safetensors_writer.h"

#include <stdio.h>

void safetensors_writer_init(safetensors_writer *w) { *w = (safetensors_writer){0}; }

void safetensors_writer_deinit(safetensors_writer *w) {
    strbuf_deinit(&w->header);
    strbuf_deinit(&w->data);
}

void safetensors_writer_describe(safetensors_writer *w, const char *name, const char *type, int n_dims,
                                 const int64_t *dims, int64_t start, int64_t end) {
    strbuf_addf(&w->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", w->header.len ? "," : "", name, type);
    for (int d = 0; d < n_dims; d++) strbuf_addf(&w->header, "%s%lld", d ? "," : "", (long long)dims[d]);
    strbuf_addf(&w->header, "],\"data_offsets\":[%lld,%lld]}", (long long)start, (long long)end);
}

void safetensors_writer_tensor(safetensors_writer *w, const char *name, const char *type, int n_dims,
                               const int64_t *dims, const void *bytes, size_t n_bytes) {
    int64_t start = (int64_t)w->data.len;
    safetensors_writer_describe(w, name, type, n_dims, dims, start, start + (int64_t)n_bytes);
    strbuf_add(&w->data, (str){bytes, n_bytes});
}

strbuf safetensors_writer_finish(const safetensors_writer *w) {
    strbuf json = {0}, f = {0};
    strbuf_addf(&json, "{\"__metadata__\":{\"format\":\"pt\"}%s", w->header.len ? "," : "");
    strbuf_add(&json, strbuf_str(&w->header));
    strbuf_add_char(&json, '}');
    while (json.len % 8) strbuf_add_char(&json, ' ');
    uint64_t len = json.len;
    strbuf_add(&f, (str){(const char *)&len, 8});
    strbuf_add(&f, strbuf_str(&json));
    strbuf_add(&f, strbuf_str(&w->data));
    strbuf_deinit(&json);
    return f;
}

bool safetensors_writer_save(const safetensors_writer *w, const char *path) {
    strbuf f = safetensors_writer_finish(w);
    FILE *out = fopen(path, "wb");
    bool ok = out && !f.failed && fwrite(f.data, 1, f.len, out) == f.len;
    if (out) ok = fclose(out) == 0 && ok;
    strbuf_deinit(&f);
    return ok;
}
