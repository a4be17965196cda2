#include "text/utf8.h"

#include <stdint.h>

// The Unicode Standard, table 3-7 (well-formed byte sequences): what the second byte may be depends on the first.
int utf8_step(const unsigned char *p, size_t n, utf8_kind *kind) {
    unsigned char c = p[0];
    *kind = UTF8_CHARACTER;
    if (c < 0x80) return 1;
    int len = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    unsigned char low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    unsigned char high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    if (c < 0xc2 || c > 0xf4) {
        *kind = UTF8_BAD;
        return 1;
    }
    for (int i = 1; i < len; i++) {
        if ((size_t)i == n) {
            *kind = UTF8_PARTIAL;
            return i;
        }
        if (p[i] < low || p[i] > high) {
            *kind = UTF8_BAD;
            return i;
        }
        low = 0x80;
        high = 0xbf;
    }
    return len;
}

size_t utf8_valid_prefix(str s) {
    const unsigned char *p = (const unsigned char *)s.data;
    size_t i = 0;
    while (i < s.len) {
        uint64_t word;
        if (s.len - i >= sizeof word) {
            memcpy(&word, p + i, sizeof word);
            if (!(word & 0x8080808080808080u)) {
                i += sizeof word;
                continue;
            }
        }
        utf8_kind kind;
        int n = utf8_step(p + i, s.len - i, &kind);
        if (kind != UTF8_CHARACTER) break;
        i += (size_t)n;
    }
    return i;
}

int32_t utf8_decode(const char *text, int *n) {
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80) return *n = 1, p[0];
    if (p[0] < 0xe0) return *n = 2, (p[0] & 0x1f) << 6 | (p[1] & 0x3f);
    if (p[0] < 0xf0) return *n = 3, (p[0] & 0x0f) << 12 | (p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    return *n = 4, (p[0] & 0x07) << 18 | (p[1] & 0x3f) << 12 | (p[2] & 0x3f) << 6 | (p[3] & 0x3f);
}

int utf8_encode(int32_t c, char out[4]) {
    if (c < 0x80) return out[0] = (char)c, 1;
    int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((0xf00 >> n & 0xff) | c); // 110xxxxx, 1110xxxx, 11110xxx
    return n;
}
