#include "text/byte_map.h"

#include "text/utf8.h"

int32_t byte_map_character(unsigned char b) {
    if (b <= 32) return 256 + b;
    if (b >= 127 && b <= 160) return 256 + 33 + (b - 127);
    if (b == 173) return 256 + 33 + 34;
    return b;
}

int byte_map_byte(int32_t c) {
    if (c >= 33 && c <= 255 && byte_map_character((unsigned char)c) == c) return c;
    if (c >= 256 && c <= 288) return c - 256;
    if (c >= 289 && c <= 322) return c - 289 + 127;
    return c == 323 ? 173 : -1;
}

bool byte_map_decode(str spelled, char *out, size_t *n) {
    *n = 0;
    for (size_t i = 0; i < spelled.len;) {
        int len;
        int byte = byte_map_byte(utf8_decode(spelled.data + i, &len));
        if (byte < 0) return false;
        out[(*n)++] = (char)byte;
        i += (size_t)len;
    }
    return true;
}
