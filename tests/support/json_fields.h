// Fields of JSON that a test expects to be there: one that is missing or of another type fails the test by name.
#ifndef TALLY_TESTS_JSON_FIELDS_H
#define TALLY_TESTS_JSON_FIELDS_H

#include <jansson.h>

json_t *json_parse(const char *text); // owned by the caller
json_int_t json_int_field(const json_t *o, const char *name);
double json_real_field(const json_t *o, const char *name); // a real number, not an integer
const char *json_text_field(const json_t *o, const char *name);

#endif
