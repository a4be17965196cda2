// Strings as pointer and length (they may hold zero bytes), and a growable buffer of bytes.
#ifndef TALLY_BASE_STR_H
#define TALLY_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct str {
    const char *data; // borrowed, not terminated unless the maker says so
    size_t len;       // bytes
} str;

#define STR(literal) ((str){(literal), sizeof(literal) - 1}) // of a string literal
#define STR_ARG(s) (int)(s).len, (s).data                    // for "%.*s"

static inline str str_from(const char *zero_terminated) { return (str){zero_terminated, strlen(zero_terminated)}; }
static inline bool str_eq(str a, str b) { return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0); }
static inline bool str_is(str a, const char *b) { return str_eq(a, str_from(b)); }
bool str_starts(str s, str prefix);
bool str_ends(str s, str suffix);
// Position of the first `needle` at or after `from`, or -1. An empty needle is found at `from`.
ptrdiff_t str_find(str s, str needle, size_t from);

// A growable byte buffer. A failed growth sets `failed` and drops what follows, so that writers check once at the end.
// Always zero-terminated behind `len` once anything was added (strbuf_text gives "" for an empty one).
typedef struct strbuf {
    char *data; // owned
    size_t len, cap;
    bool failed; // memory ran out
} strbuf;

void strbuf_deinit(strbuf *b);
void strbuf_clear(strbuf *b);
void strbuf_add(strbuf *b, str s);
void strbuf_add_char(strbuf *b, char c);
void strbuf_addf(strbuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *strbuf_text(const strbuf *b);
static inline str strbuf_str(const strbuf *b) { return (str){b->data, b->len}; }

#endif
