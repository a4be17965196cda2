// Inside the GGUF reader: opening, the tensor directory, and the translation of both into tally's terms. For src/file only.
#ifndef TALLY_FILE_GGUF_INTERNAL_H
#define TALLY_FILE_GGUF_INTERNAL_H

#include "base/arena.h"
#include "base/map.h"
#include "base/mapfile.h"
#include "file/gguf.h"
#include "file/model_config.h"
#include "tensor/dtype.h"

typedef struct gguf_value_type {
    const char *name;
    uint8_t size; // bytes; 0: has its own length
} gguf_value_type;

enum { GGUF_N_VALUE_TYPES = GGUF_F64 + 1 };
extern const gguf_value_type gguf_value_types[GGUF_N_VALUE_TYPES];

typedef struct gguf_value {
    str key;
    gguf_type type, elem;      // elem: of an array
    int64_t n;                 // elements of an array; 1 otherwise
    const unsigned char *data; // the number or the first element; of a string: its bytes
    size_t first_string;       // arrays of strings: index of the first one in gguf_part.strings
    size_t len;                // strings: bytes
} gguf_value;

typedef struct gguf_tensor {
    str name; // GGUF's own
    uint32_t file_type;
    bool supported; // type and n_bytes are known only then
    dtype type;
    int n_dims;
    int64_t dim[4];  // fastest first, as the file has them
    uint64_t offset; // from the start of the file
    uint64_t n_bytes;
} gguf_tensor;

// One file of the set.
typedef struct gguf_part {
    char *path; // owned
    mapfile map;
    gguf_value *values;
    size_t n_values, n_strings, cap_strings;
    str *strings; // elements of all string arrays, in file order
    gguf_tensor *tensors;
    size_t n_tensors;
    uint64_t data_start;
    struct map keys; // index into values
} gguf_part;

struct gguf {
    gguf_part *parts;
    int n_parts;
    struct map tensor_names; // part << 40 | index within the part
};

status gguf_open(gguf **out, const char *path, error *err);
void gguf_close(gguf *g);
const gguf_value *gguf_find_value(const gguf_part *part, const char *key); // NULL: no such key
const gguf_tensor *gguf_find_tensor(const gguf *g, const char *name);      // NULL: none

// The type that GGUF numbers so; false with its name (or "unknown") for those that tally has not.
bool gguf_type_from_id(uint32_t id, dtype *out, const char **name);

status gguf_read_config(const gguf *g, model_config *out, error *err);

// The Hugging Face name of a GGUF tensor, allocated in the arena; the name itself when there is no other. *known tells
// whether the tensor has a place in the families that tally reads. False when memory ran out.
bool tensor_name_from_gguf(arena *a, str name, str *out, bool *known);

#endif
