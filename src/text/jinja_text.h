// Characters and bytes: what Python's str does by code point, done on UTF-8. Bytes that are no UTF-8 count as one character each.
#ifndef TALLY_TEXT_JINJA_TEXT_H
#define TALLY_TEXT_JINJA_TEXT_H

#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

typedef enum jinja_case { JINJA_LOWER, JINJA_UPPER, JINJA_TITLE } jinja_case;
enum { JINJA_CASE_MAX = 3 }; // code points one character may map to

// The character at byte `at` < s.len; returns its length in bytes.
size_t jinja_decode(str s, size_t at, int32_t *c);
// Start of the character that ends at byte `end` > 0.
size_t jinja_previous(str s, size_t end);
// Writes a code point; returns 1..4.
size_t jinja_encode(int32_t c, char out[4]);

size_t jinja_count(str s);                // characters in s
size_t jinja_offset(str s, size_t index); // byte offset of character `index`, or s.len

bool jinja_is_space(int32_t c); // as str.isspace and strip see it
bool jinja_is_break(int32_t c); // as splitlines sees it
bool jinja_is_cased(int32_t c);
bool jinja_is_case_ignorable(int32_t c);
bool jinja_has_case(int32_t c, jinja_case how); // is a cased character of that case
bool jinja_is_alpha(int32_t c);
bool jinja_is_number(int32_t c, char kind); // kind: 'd' isdecimal, 'D' isdigit, 'n' isnumeric
bool jinja_is_printable(int32_t c);

// s without leading / trailing characters of `chars`; chars.data NULL: whitespace.
str jinja_lstrip(str s, str chars);
str jinja_rstrip(str s, str chars);

// The full case mapping of one character; returns the number of code points written. (Final sigma is the caller's affair.)
size_t jinja_map_case(int32_t c, jinja_case how, int32_t out[JINJA_CASE_MAX]);

// First occurrence at or after `from`, -1 if none; in linear time whatever the needle.
ptrdiff_t jinja_find(str s, str needle, size_t from);
ptrdiff_t jinja_rfind(str s, str needle);

// The value of a string literal's inside. False with *wrong set: not a valid literal; with *wrong NULL: memory ran out.
bool jinja_unescape(arena *mem, str s, str *out, const char **wrong);

#endif
