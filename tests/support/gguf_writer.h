// Builds GGUF files for tests: right ones, and with the raw calls wrong ones.
//
//     gguf_writer w;
//     gguf_writer_init(&w);
//     gguf_writer_str(&w, "general.architecture", "llama");
//     gguf_writer_tensor(&w, "token_embd.weight", 0, 2, (uint64_t[]){4, 8}, data, sizeof data);
//     strbuf file = gguf_writer_finish(&w); // or gguf_writer_save
//     gguf_writer_deinit(&w);
#ifndef TALLY_TESTS_GGUF_WRITER_H
#define TALLY_TESTS_GGUF_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

typedef struct gguf_writer {
    strbuf keys, tensors, data;
    uint64_t n_keys, n_tensors;
    uint32_t version;   // 3
    uint32_t alignment; // of tensors added from now on; 32
} gguf_writer;

void gguf_writer_init(gguf_writer *w);
void gguf_writer_deinit(gguf_writer *w);

void gguf_writer_u8(gguf_writer *w, const char *key, uint8_t v);
void gguf_writer_u16(gguf_writer *w, const char *key, uint16_t v);
void gguf_writer_u32(gguf_writer *w, const char *key, uint32_t v);
void gguf_writer_i32(gguf_writer *w, const char *key, int32_t v);
void gguf_writer_u64(gguf_writer *w, const char *key, uint64_t v);
void gguf_writer_f32(gguf_writer *w, const char *key, float v);
void gguf_writer_f64(gguf_writer *w, const char *key, double v);
void gguf_writer_bool(gguf_writer *w, const char *key, bool v);
void gguf_writer_str(gguf_writer *w, const char *key, const char *v);
void gguf_writer_str_array(gguf_writer *w, const char *key, const char *const *v, int64_t n);
void gguf_writer_i32_array(gguf_writer *w, const char *key, const int32_t *v, int64_t n);
void gguf_writer_f32_array(gguf_writer *w, const char *key, const float *v, int64_t n);
// Any type number and payload; what stands behind the type in the file.
void gguf_writer_raw(gguf_writer *w, const char *key, uint32_t type, const void *payload, size_t len);
// Writes general.alignment and uses it for the tensors that follow.
void gguf_writer_alignment(gguf_writer *w, uint32_t alignment);

// `type` is GGUF's number; dims fastest first.
void gguf_writer_tensor(gguf_writer *w, const char *name, uint32_t type, int n_dims, const uint64_t *dims,
                        const void *bytes, size_t n_bytes);
// Only a description, with any offset and any number of dimensions; adds no data.
void gguf_writer_describe(gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                          uint64_t offset);

strbuf gguf_writer_finish(const gguf_writer *w); // the file; owned by the caller (strbuf_deinit)
bool gguf_writer_save(const gguf_writer *w, const char *path);

#endif
