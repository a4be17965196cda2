#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

status json_parse_object(json_t **out, const char *data, size_t len, size_t flags, const char *where, error *err) {
    json_error_t e;
    *out = json_loadb(data, len, JSON_REJECT_DUPLICATES | flags, &e);
    if (!*out && e.line < 0 && !e.text[0]) { // jansson leaves the error untouched where an allocation failed
        return error_set(err, STATUS_NO_MEMORY, "%s: out of memory while parsing %zu bytes of JSON", where, len);
    }
    if (!*out) {
        for (char *p = e.text; *p; p++) { // the parser quotes the text, which may hold anything
            if ((unsigned char)*p < ' ' || (unsigned char)*p > '~') *p = '?';
        }
        return error_set(err, STATUS_BAD_FILE, "%s: not valid JSON at line %d, column %d: %s", where, e.line, e.column,
                         e.text);
    }
    if (json_is_object(*out)) return STATUS_OK;
    status code = error_set(err, STATUS_BAD_FILE, "%s: holds %s, expected an object", where, json_kind(*out));
    json_decref(*out);
    *out = NULL;
    return code;
}

json_t *json_text(const char *text) {
    json_t *out = json_string(text);
    if (out) return out;
    size_t n = strlen(text);
    char *ascii = malloc(n + 1);
    if (!ascii) return NULL;
    for (size_t i = 0; i <= n; i++) ascii[i] = (unsigned char)text[i] < 0x80 ? text[i] : '?';
    out = json_string(ascii);
    free(ascii);
    return out;
}

const char *json_kind(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a number";
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    default: return "null";
    }
}

// The field, or NULL where it is absent or null.
static const json_t *field_of(const json_t *object, const char *field, bool *found) {
    const json_t *v = json_object_get(object, field);
    if (v && json_is_null(v)) v = NULL;
    *found = v != NULL;
    return v;
}

static status wrong_kind(const json_t *v, const char *where, const char *field, const char *expected, error *err) {
    return error_set(err, STATUS_BAD_FILE, "%s: %s is %s, expected %s", where, field, json_kind(v), expected);
}

status json_get_int(const json_t *object, const char *where, const char *field, int64_t min, int64_t max,
                    int64_t *value, bool *found, error *err) {
    const json_t *v = field_of(object, field, found);
    if (!v) return STATUS_OK;
    int64_t i = json_integer_value(v);
    if (json_is_real(v)) { // "4096.0" is what some tools write
        double d = json_real_value(v);
        if (!(fabs(d) < 0x1p53) || d != floor(d)) return wrong_kind(v, where, field, "an integer", err);
        i = (int64_t)d;
    } else if (!json_is_integer(v)) {
        return wrong_kind(v, where, field, "an integer", err);
    }
    if (i < min || i > max) {
        return error_set(err, STATUS_BAD_FILE, "%s: %s is %" PRId64 ", expected %" PRId64 " to %" PRId64, where, field,
                         i, min, max);
    }
    *value = i;
    return STATUS_OK;
}

status json_get_number(const json_t *object, const char *where, const char *field, double *value, bool *found,
                       error *err) {
    const json_t *v = field_of(object, field, found);
    if (!v) return STATUS_OK;
    if (!json_is_number(v)) return wrong_kind(v, where, field, "a number", err);
    *value = json_number_value(v);
    return STATUS_OK;
}

status json_get_bool(const json_t *object, const char *where, const char *field, bool *value, bool *found, error *err) {
    const json_t *v = field_of(object, field, found);
    if (!v) return STATUS_OK;
    if (!json_is_boolean(v)) return wrong_kind(v, where, field, "true or false", err);
    *value = json_is_true(v);
    return STATUS_OK;
}

status json_get_text(const json_t *object, const char *where, const char *field, const char **value, bool *found,
                     error *err) {
    const json_t *v = field_of(object, field, found);
    if (!v) return STATUS_OK;
    if (!json_is_string(v)) return wrong_kind(v, where, field, "a string", err);
    *value = json_string_value(v);
    return STATUS_OK;
}
