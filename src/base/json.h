// Typed access to JSON objects (jansson), with one-sentence errors that name file and field.
//
// `where` is the file (or request) that begins every sentence. A field that is null counts as absent: *found is false and
// *value stays as it was.
#ifndef TALLY_BASE_JSON_H
#define TALLY_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

// Parses text whose top level is an object; a repeated field is an error. flags: 0, or JSON_ALLOW_NUL of a caller that reads strings
// with their lengths. The caller owns *out (json_decref).
status json_parse_object(json_t **out, const char *data, size_t len, size_t flags, const char *where, error *err);

status json_get_int(const json_t *object, const char *where, const char *field, int64_t min, int64_t max,
                    int64_t *value, bool *found, error *err);
status json_get_number(const json_t *object, const char *where, const char *field, double *value, bool *found,
                       error *err);
status json_get_bool(const json_t *object, const char *where, const char *field, bool *value, bool *found, error *err);
status json_get_text(const json_t *object, const char *where, const char *field, const char **value, bool *found,
                     error *err);

// A string of any bytes: where they are no UTF-8, as in a path or a message that was cut, those beyond ASCII become '?'.
json_t *json_text(const char *text);

// "a string", "an array", ... for sentences.
const char *json_kind(const json_t *value);

#endif
