#include <math.h>

#include "text/tokenizer_parts.h"

// The field, or NULL where it is absent or null; `o` is an object.
static const json_t *field(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    return json_is_null(v) ? NULL : v;
}

static status wrong(const char *where, const char *key, const char *expected, const json_t *v, error *err) {
    return error_set(err, STATUS_BAD_FILE, "%s.%s must be %s, but it is %s", where, key, expected, json_kind(v));
}

status json_field_bool(const json_t *o, const char *where, const char *key, bool fallback, bool *out, error *err) {
    const json_t *v = field(o, key);
    *out = v ? json_is_true(v) : fallback;
    return !v || json_is_boolean(v) ? STATUS_OK : wrong(where, key, "true or false", v, err);
}

status json_field_int(const json_t *o, const char *where, const char *key, int64_t fallback, int64_t *out, error *err) {
    const json_t *v = field(o, key);
    double x = v ? json_number_value(v) : 0; // a whole number may come as a real one (tokenizer_json.c)
    bool whole = v && json_is_real(v) && fabs(x) < 0x1p53 && x == floor(x);
    *out = whole ? (int64_t)x : v ? (int64_t)json_integer_value(v) : fallback;
    return !v || whole || json_is_integer(v) ? STATUS_OK : wrong(where, key, "an integer", v, err);
}

status json_field_str(const json_t *o, const char *where, const char *key, str *out, error *err) {
    const json_t *v = field(o, key);
    *out = v && json_is_string(v) ? (str){json_string_value(v), json_string_length(v)} : STR("");
    return !v || json_is_string(v) ? STATUS_OK : wrong(where, key, "a string", v, err);
}

status json_field_array(const json_t *o, const char *where, const char *key, const json_t **out, error *err) {
    *out = field(o, key);
    return !*out || json_is_array(*out) ? STATUS_OK : wrong(where, key, "an array", *out, err);
}

status json_field_object(const json_t *o, const char *where, const char *key, const json_t **out, error *err) {
    *out = field(o, key);
    return !*out || json_is_object(*out) ? STATUS_OK : wrong(where, key, "an object", *out, err);
}
