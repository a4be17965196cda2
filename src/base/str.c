#include "base/str.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

bool str_starts(str s, str prefix) { return s.len >= prefix.len && str_eq((str){s.data, prefix.len}, prefix); }

bool str_ends(str s, str suffix) {
    return s.len >= suffix.len && str_eq((str){s.data + s.len - suffix.len, suffix.len}, suffix);
}

ptrdiff_t str_find(str s, str needle, size_t from) {
    if (from > s.len || needle.len > s.len - from) return -1;
    if (needle.len == 0) return (ptrdiff_t)from;
    for (size_t i = from; i + needle.len <= s.len; i++) {
        const char *p = memchr(s.data + i, needle.data[0], s.len - needle.len - i + 1);
        if (!p) return -1;
        i = (size_t)(p - s.data);
        if (memcmp(p, needle.data, needle.len) == 0) return (ptrdiff_t)i;
    }
    return -1;
}

void strbuf_deinit(strbuf *b) {
    free(b->data);
    *b = (strbuf){0};
}

void strbuf_clear(strbuf *b) {
    b->len = 0;
    b->failed = false;
    if (b->data) b->data[0] = 0;
}

// Makes room for n more bytes and the terminator.
static bool strbuf_reserve(strbuf *b, size_t n) {
    if (b->failed) return false;
    if (n < b->cap - b->len) return true; // one byte stays for the terminator
    if (n > SIZE_MAX / 4 || b->len > SIZE_MAX / 4) return b->failed = true, false;
    size_t cap = b->cap ? b->cap : 64;
    while (cap - b->len <= n) cap *= 2;
    char *p = realloc(b->data, cap);
    if (!p) return b->failed = true, false;
    b->data = p;
    b->cap = cap;
    return true;
}

void strbuf_add(strbuf *b, str s) {
    if (!strbuf_reserve(b, s.len)) return;
    if (s.len) memcpy(b->data + b->len, s.data, s.len);
    b->len += s.len;
    b->data[b->len] = 0;
}

void strbuf_add_char(strbuf *b, char c) { strbuf_add(b, (str){&c, 1}); }

void strbuf_addf(strbuf *b, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0 && strbuf_reserve(b, (size_t)n)) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

const char *strbuf_text(const strbuf *b) { return b->data ? b->data : ""; }
