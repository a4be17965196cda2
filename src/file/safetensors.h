// The tensors of a Hugging Face folder: model.safetensors, or the shards that model.safetensors.index.json lists.
//
// Opening reads and checks the headers: JSON, shapes against byte spans, spans against the file, no overlaps, no name twice.
// Types that tally does not compute with (I64, F8_E4M3, ...) are kept with `supported` false: old checkpoints carry
// buffers of such types that nobody reads. Facts: docs/formats.md.
#ifndef TALLY_FILE_SAFETENSORS_H
#define TALLY_FILE_SAFETENSORS_H

#include "base/arena.h"
#include "base/map.h"
#include "base/mapfile.h"
#include "base/status.h"
#include "tensor/dtype.h"

typedef struct safetensors_entry {
    str name;
    dtype type;
    bool supported; // F32, F16, BF16 or I32, 1 to 4 dimensions, none of them 0
    const char *type_name;
    int n_dims;
    int64_t dim[4];
    uint64_t offset, n_bytes; // in the file
    int file;
} safetensors_entry;

typedef struct safetensors_file {
    char *path; // in the arena
    mapfile map;
} safetensors_file;

typedef struct safetensors {
    arena arena; // names and paths
    safetensors_file *files;
    int n_files;
    safetensors_entry *entries;
    size_t n_entries, cap_entries;
    struct map names; // index into entries
} safetensors;

// STATUS_NOT_FOUND when the folder has no safetensors (the sentence says what it has instead).
status safetensors_open(safetensors **out, const char *folder, error *err);
void safetensors_close(safetensors *s);

#endif
