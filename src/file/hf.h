// The Hugging Face side of a checkpoint: finding a model's folder, and reading its configuration. For src/file only.
#ifndef TALLY_FILE_HF_H
#define TALLY_FILE_HF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "file/model_config.h"

// Whether a name has the form of a model on the hub: "org/name" of letters, digits, '.', '_' and '-'.
bool hf_is_model_name(const char *name);
// The folder of "org/name" in the first of the cache directories that has it, written to `out`. A cache keeps
// models--ORG--NAME/snapshots/REVISION; refs/main names the revision, else the only one there is taken.
status hf_cache_find(char *out, size_t size, const char *name, const char *const *dirs, int n_dirs, error *err);

// Configuration from the texts of config.json and generation_config.json (NULL: there is none).
typedef struct hf_text {
    const char *data;
    size_t len;
    const char *path; // for messages
} hf_text;
status hf_read_config(model_config *out, const hf_text *config, const hf_text *generation, error *err);

// Whether tensors of this name belong to the model's layers, embedding, head or final norm; others (rotary buffers, vision
// towers) may have types that tally does not read.
bool hf_tensor_is_weight(const char *name);

#endif
