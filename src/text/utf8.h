// UTF-8: stepping through bytes that may be damaged, and through text known to be valid.
#ifndef TALLY_TEXT_UTF8_H
#define TALLY_TEXT_UTF8_H

#include <stdint.h>

#include "base/str.h"

typedef enum utf8_kind {
    UTF8_CHARACTER, // a whole character
    UTF8_BAD,       // a maximal subpart of a character that can not be completed: one U+FFFD
    UTF8_PARTIAL,   // the input ends inside a character that could still be completed
} utf8_kind;

// Looks at the n > 0 bytes at p; returns how many (1..4) the next character or damaged piece takes.
int utf8_step(const unsigned char *p, size_t n, utf8_kind *kind);
// How many bytes at the start of s are valid UTF-8.
size_t utf8_valid_prefix(str s);

// For valid text only. utf8_decode: the character at p, and its length in *n. utf8_encode: writes 1..4 bytes, returns how many.
int32_t utf8_decode(const char *p, int *n);
int utf8_encode(int32_t character, char out[4]);

#define UTF8_REPLACEMENT STR("\xef\xbf\xbd") // U+FFFD

#endif
