// A tiny but complete GGUF model for the file readers' tests: 2 layers, width 8, 2 heads of 4, 1 key-value head, 12 tokens.
#ifndef TALLY_TESTS_TINY_GGUF_H
#define TALLY_TESTS_TINY_GGUF_H

#include "tests/support/gguf_writer.h"

enum { TINY_VOCAB = 12, TINY_DIM = 8, TINY_LAYERS = 2, TINY_FFN = 16, TINY_EXPERTS = 4, TINY_EXPERT_FFN = 4 };

// Keys and tensors of "llama", "qwen2", "qwen3" or "qwen3moe". Keys and tensors whose name ends in `skip` (NULL: none) are
// left out, so that a test can put its own in their place.
void tiny_gguf_keys(gguf_writer *w, const char *arch, const char *skip);
void tiny_gguf_tensors(gguf_writer *w, const char *arch, const char *skip);

#endif
