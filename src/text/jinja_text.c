#include "text/jinja_text.h"

size_t jinja_decode(str s, size_t at, int32_t *c) {
    const unsigned char *p = (const unsigned char *)s.data + at;
    size_t left = s.len - at;
    *c = p[0];
    if (p[0] < 0x80) return 1;
    size_t n = p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : 1;
    if (n > 1 && n <= left) {
        int32_t v = p[0] & (0x7f >> n);
        size_t i = 1;
        while (i < n && (p[i] & 0xc0) == 0x80) v = v << 6 | (p[i++] & 0x3f);
        bool overlong = (n == 3 && v < 0x800) || (n == 4 && v < 0x10000);
        if (i == n && !overlong && v <= 0x10ffff && !(v >= 0xd800 && v < 0xe000)) {
            *c = v;
            return n;
        }
    }
    *c = 0xdc00 | p[0]; // a lone byte, as Python's surrogateescape has it
    return 1;
}

size_t jinja_previous(str s, size_t end) {
    int32_t c;
    for (size_t back = 4; back > 1; back--) {
        if (back <= end && jinja_decode((str){s.data, end}, end - back, &c) == back) return end - back;
    }
    return end - 1;
}

size_t jinja_encode(int32_t c, char out[4]) {
    if (c < 0x80) return out[0] = (char)c, 1;
    if (c >= 0xdc80 && c <= 0xdcff) return out[0] = (char)(c & 0xff), 1; // what jinja_decode made of a lone byte
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

size_t jinja_count(str s) {
    size_t n = 0;
    int32_t c;
    for (size_t at = 0; at < s.len; n++) at += jinja_decode(s, at, &c);
    return n;
}

size_t jinja_offset(str s, size_t index) {
    size_t at = 0;
    int32_t c;
    while (index > 0 && at < s.len) {
        at += jinja_decode(s, at, &c);
        index--;
    }
    return at;
}

// Whether the strip functions take the character away.
static bool strips(int32_t c, str chars) {
    if (!chars.data) return jinja_is_space(c);
    int32_t d;
    for (size_t at = 0; at < chars.len;) {
        at += jinja_decode(chars, at, &d);
        if (c == d) return true;
    }
    return false;
}

str jinja_lstrip(str s, str chars) {
    int32_t c;
    while (s.len > 0) {
        size_t n = jinja_decode(s, 0, &c);
        if (!strips(c, chars)) break;
        s.data += n;
        s.len -= n;
    }
    return s;
}

str jinja_rstrip(str s, str chars) {
    int32_t c;
    while (s.len > 0) {
        size_t at = jinja_previous(s, s.len);
        jinja_decode(s, at, &c);
        if (!strips(c, chars)) break;
        s.len = at;
    }
    return s;
}

ptrdiff_t jinja_find(str s, str needle, size_t from) {
    if (from > s.len || needle.len > s.len - from) return -1;
    if (needle.len == 0) return (ptrdiff_t)from;
    const char *p = memmem(s.data + from, s.len - from, needle.data, needle.len);
    return p ? p - s.data : -1;
}

ptrdiff_t jinja_rfind(str s, str needle) {
    if (needle.len == 0) return (ptrdiff_t)s.len;
    ptrdiff_t last = -1, p = jinja_find(s, needle, 0);
    while (p >= 0) {
        last = p;
        p = jinja_find(s, needle, (size_t)p + 1);
    }
    return last;
}

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// \xhh, \uhhhh, \Uhhhhhhhh: n digits at s.data[at].
static bool unescape_hex(str s, size_t at, size_t n, int32_t *c) {
    int64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        int d = at + i < s.len ? hex_value(s.data[at + i]) : -1;
        if (d < 0) return false;
        v = v << 4 | d;
    }
    *c = (int32_t)v;
    return v <= 0x10ffff && !(v >= 0xd800 && v < 0xe000);
}

// The escape after a backslash at s.data[*at]. Writes at most 11 bytes to out; 0: invalid.
static size_t unescape_one(str s, size_t *at, char *out, bool *drop) {
    static const char names[] = "\\'\"abfnrtv", values[] = "\\'\"\a\b\f\n\r\t\v";
    char e = s.data[*at];
    const char *known = e ? strchr(names, e) : NULL;
    int32_t c;
    *drop = e == '\n';
    if (*drop || known) {
        *at += 1;
        out[0] = known ? values[known - names] : 0;
        return 1;
    }
    if (e == 'x' || e == 'u' || e == 'U') {
        size_t n = e == 'x' ? 2 : e == 'u' ? 4 : 8;
        if (!unescape_hex(s, *at + 1, n, &c)) return 0;
        *at += 1 + n;
        return jinja_encode(c, out);
    }
    if (e >= '0' && e <= '7') {
        c = 0;
        for (int i = 0; i < 3 && *at < s.len && s.data[*at] >= '0' && s.data[*at] <= '7'; i++)
            c = c * 8 + s.data[(*at)++] - '0';
        return jinja_encode(c, out);
    }
    if (e == 'N' || (unsigned char)e >= 0x80) return 0;
    out[0] = '\\'; // Python keeps the backslash of an escape it does not know
    return 1;
}

bool jinja_unescape(arena *mem, str s, str *out, const char **wrong) {
    char *p = arena_alloc(mem, s.len * 3 + 16);
    if (!p) return false;
    size_t n = 0;
    for (size_t at = 0; at < s.len;) {
        if (s.data[at] != '\\') {
            p[n++] = s.data[at++];
            continue;
        }
        at++;
        bool drop = false;
        size_t len = at < s.len ? unescape_one(s, &at, p + n, &drop) : 0;
        if (!len) {
            *wrong = "a string holds an escape that is invalid or not supported (a surrogate, \\N{...}, or too few hex "
                     "digits)";
            return false;
        }
        if (!drop) n += len;
    }
    p[n] = 0;
    *out = (str){p, n};
    return true;
}
