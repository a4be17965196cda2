// Token bytes in, whole characters out: a stream never shows half a character.
#ifndef TALLY_TEXT_UTF8_STREAM_H
#define TALLY_TEXT_UTF8_STREAM_H

#include "base/str.h"

typedef struct utf8_stream {
    unsigned char held[4]; // the start of a character whose end has not come yet
    int n_held;
} utf8_stream;

// Appends to *out every character that is complete; bytes that can never be part of one become U+FFFD, one for each maximal
// subpart (as Unicode recommends and Python's errors="replace" does). At most 3 bytes are held back.
void utf8_stream_push(utf8_stream *s, str bytes, strbuf *out);
// The end of the text: a held start of a character becomes U+FFFD.
void utf8_stream_finish(utf8_stream *s, strbuf *out);

#endif
