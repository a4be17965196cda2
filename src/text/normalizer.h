// Unicode normalisation before tokens are cut, carrying along which bytes are trusted.
#ifndef TALLY_TEXT_NORMALIZER_H
#define TALLY_TEXT_NORMALIZER_H

#include "base/status.h"
#include "base/str.h"

typedef enum normal_form { NORMAL_NFC, NORMAL_NFD, NORMAL_NFKC, NORMAL_NFKD } normal_form;

enum { NORMALIZER_MAX_STEPS = 4 };

typedef struct normalizer {
    normal_form step[NORMALIZER_MAX_STEPS];
    int n_steps; // 0: text stays as it is
} normalizer;

// Normalises valid UTF-8 and appends it to *out. `trusted` (NULL: no tracking) has one byte per byte of text; the result's is
// appended to *out_trusted. Where characters change, the result is trusted only if all of the text up to the nearest ASCII
// characters was.
status normalizer_apply(const normalizer *n, str text, const unsigned char *trusted, strbuf *out, strbuf *out_trusted,
                        error *err);

#endif
