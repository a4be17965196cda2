// GGUF metadata and tensor directory, versions 2 and 3, little-endian. Facts: docs/formats.md.
//
// gguf_open reads and checks the header of one file, or of all files of a split set; values stay in the mapping.
#ifndef TALLY_FILE_GGUF_H
#define TALLY_FILE_GGUF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

typedef enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64
} gguf_type;

typedef struct gguf gguf; // opened by checkpoint.c

// Metadata of the first file. The getters return false when the key is absent; a key of another kind is a BAD_FILE error that
// names key, found and expected type. Integers of every width are accepted where they fit.
bool gguf_has(const gguf *g, const char *key);
status gguf_get_int(const gguf *g, const char *key, int64_t *value, bool *found, error *err);
status gguf_get_float(const gguf *g, const char *key, double *value, bool *found,
                      error *err); // integers are accepted too
status gguf_get_bool(const gguf *g, const char *key, bool *value, bool *found, error *err);
status gguf_get_str(const gguf *g, const char *key, str *value, bool *found, error *err);
// Arrays: the length, then elements one by one. Strings borrow from the mapping and are found in O(1) after gguf_open.
status gguf_get_array(const gguf *g, const char *key, gguf_type *elem, int64_t *n, bool *found, error *err);
str gguf_array_str(const gguf *g, const char *key, int64_t i);
int64_t gguf_array_int(const gguf *g, const char *key, int64_t i);
double gguf_array_float(const gguf *g, const char *key, int64_t i);

#endif
