// Builds safetensors files for tests.
#ifndef TALLY_TESTS_SAFETENSORS_WRITER_H
#define TALLY_TESTS_SAFETENSORS_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

typedef struct safetensors_writer {
    strbuf header, data;
} safetensors_writer;

void safetensors_writer_init(safetensors_writer *w);
void safetensors_writer_deinit(safetensors_writer *w);
// `type` is the format's name ("F32"); dims outermost first.
void safetensors_writer_tensor(safetensors_writer *w, const char *name, const char *type, int n_dims,
                               const int64_t *dims, const void *bytes, size_t n_bytes);
// A description with offsets of its own; adds no data.
void safetensors_writer_describe(safetensors_writer *w, const char *name, const char *type, int n_dims,
                                 const int64_t *dims, int64_t start, int64_t end);
strbuf safetensors_writer_finish(const safetensors_writer *w); // the file; owned by the caller (strbuf_deinit)
bool safetensors_writer_save(const safetensors_writer *w, const char *path);

#endif
