#include "tests/support/json_fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

json_t *json_parse(const char *text) {
    json_error_t err;
    json_t *v = json_loads(text, JSON_ALLOW_NUL, &err);
    if (!v) fail_msg("no JSON: %s: %s", err.text, text);
    return v;
}

json_int_t json_int_field(const json_t *o, const char *name) {
    const json_t *v = json_object_get(o, name);
    if (!json_is_integer(v)) fail_msg("%s is no integer", name);
    return json_integer_value(v);
}

double json_real_field(const json_t *o, const char *name) {
    const json_t *v = json_object_get(o, name);
    if (!json_is_real(v)) fail_msg("%s is no real number", name);
    return json_real_value(v);
}

const char *json_text_field(const json_t *o, const char *name) {
    const char *v = json_string_value(json_object_get(o, name));
    if (!v) fail_msg("%s is no string", name);
    return v;
}
