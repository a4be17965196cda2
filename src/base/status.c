#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// snprintf may cut a UTF-8 character in two; drop the incomplete tail.
static void trim_partial_character(char *text) {
    size_t n = strlen(text);
    if (n + 1 < ERROR_TEXT_MAX) return;
    while (n > 0 && ((unsigned char)text[n - 1] & 0xc0) == 0x80) n--;
    if (n > 0 && (unsigned char)text[n - 1] >= 0xc0) n--;
    text[n] = 0;
}

// A message is one line, whatever a file put into it; no terminal obeys it either.
static void blank_controls(char *text) {
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = ' ';
    }
}

status error_set(error *err, status code, const char *fmt, ...) {
    if (!err) return code;
    err->code = code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    trim_partial_character(err->text);
    blank_controls(err->text);
    return code;
}

status error_prefix(error *err, status code, const char *fmt, ...) {
    if (!err) return code;
    char old[ERROR_TEXT_MAX];
    memcpy(old, err->text, sizeof old);
    char prefix[ERROR_TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(prefix, sizeof prefix, fmt, ap);
    va_end(ap);
    return error_set(err, code, "%s: %s", prefix, old);
}

status error_no_memory(error *err, unsigned long long n) {
    return error_set(err, STATUS_NO_MEMORY, "out of memory: an allocation of %llu bytes failed", n);
}
