// Reading the two huge values of tokenizer.json (vocabulary and merges) straight from the text.
//
// Building 150,000 JSON objects takes longer than the rest of opening a model's vocabulary. So json_member takes the two values out,
// the small rest goes to jansson, and a json_reader walks through what was taken out.
#ifndef TALLY_TEXT_JSON_READER_H
#define TALLY_TEXT_JSON_READER_H

#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

// The value of member `key` of the object that `object` starts with ('{', no white space before), as spelled in the text; false
// if there is none or the text is damaged. Keys are compared as spelled: one written with escapes is not found. The last of
// several counts.
bool json_member(str object, str key, str *value);

typedef struct json_reader {
    str text;
    size_t at;
    strbuf unescaped[2]; // strings with escapes, in turn
    int turn;
} json_reader;

void json_reader_deinit(json_reader *r);
// Skips white space, then takes `c` if it comes next.
bool json_take(json_reader *r, char c);
// Each takes the next value if it is of that kind. A string may lie in the reader: the one before stays valid, older ones do not.
bool json_take_string(json_reader *r, str *out);
bool json_take_int(json_reader *r, int64_t *out);

#endif
