#include "text/json_reader.h"

#include "text/utf8.h"

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

static void skip_space(str s, size_t *at) {
    while (*at < s.len && is_space(s.data[*at])) ++*at;
}

// From the opening quote to behind the closing one.
static bool skip_string(str s, size_t *at) {
    if (*at >= s.len || s.data[*at] != '"') return false;
    for (++*at; *at < s.len; ++*at) {
        if (s.data[*at] == '\\') {
            ++*at;
        } else if (s.data[*at] == '"') {
            ++*at;
            return true;
        }
    }
    return false;
}

// Behind a value: brackets are counted, not matched; what is wrong inside shows when it is read.
static bool skip_value(str s, size_t *at) {
    size_t depth = 0, start = *at;
    while (*at < s.len) {
        char c = s.data[*at];
        if (c == '"') {
            if (!skip_string(s, at)) return false;
            if (depth == 0) return true;
            continue;
        }
        if (c == '{' || c == '[') depth++;
        if (c == '}' || c == ']' || c == ',') {
            if (depth == 0) return *at > start; // the end of a number or word
            if (c != ',') depth--;
            if (c != ',' && depth == 0) {
                ++*at;
                return true;
            }
        }
        ++*at;
    }
    return false;
}

bool json_member(str object, str key, str *value) {
    size_t at = 1;
    bool found = false;
    if (object.len == 0 || object.data[0] != '{') return false;
    for (;;) {
        skip_space(object, &at);
        size_t start = at;
        if (!skip_string(object, &at)) return false;
        str name = {object.data + start + 1, at - start - 2};
        skip_space(object, &at);
        if (at >= object.len || object.data[at++] != ':') return false;
        skip_space(object, &at);
        start = at;
        if (!skip_value(object, &at)) return false;
        if (str_eq(name, key)) {
            *value = (str){object.data + start, at - start};
            found = true;
        }
        skip_space(object, &at);
        if (at >= object.len) return false;
        if (object.data[at] == '}') return found;
        if (object.data[at++] != ',') return false;
    }
}

void json_reader_deinit(json_reader *r) {
    strbuf_deinit(&r->unescaped[0]);
    strbuf_deinit(&r->unescaped[1]);
}

bool json_take(json_reader *r, char c) {
    skip_space(r->text, &r->at);
    if (r->at >= r->text.len || r->text.data[r->at] != c) return false;
    r->at++;
    return true;
}

// The four digits of \uXXXX behind s.data[at]; -1: not four hexadecimal digits.
static int32_t hex4(str s, size_t at) {
    int32_t value = 0;
    if (s.len < 4 || at > s.len - 4) return -1;
    for (size_t i = at; i < at + 4; i++) {
        char c = s.data[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

// Appends what the escape at s.data[*at] (the backslash) stands for.
static bool unescape(str s, size_t *at, strbuf *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (*at + 1 >= s.len) return false;
    char c = s.data[*at + 1];
    const char *known = c ? strchr(from, c) : NULL;
    *at += 2;
    if (known) {
        strbuf_add_char(out, to[known - from]);
        return true;
    }
    int32_t character = c == 'u' ? hex4(s, *at) : -1;
    if (character < 0) return false;
    *at += 4;
    if (character >= 0xd800 && character < 0xe000) { // a surrogate: only as the first of a pair
        bool pair = character < 0xdc00 && *at + 1 < s.len && s.data[*at] == '\\' && s.data[*at + 1] == 'u';
        int32_t low = pair ? hex4(s, *at + 2) : -1;
        if (low < 0xdc00 || low >= 0xe000) return false;
        character = 0x10000 + ((character - 0xd800) << 10) + (low - 0xdc00);
        *at += 6;
    }
    char bytes[4];
    strbuf_add(out, (str){bytes, (size_t)utf8_encode(character, bytes)});
    return true;
}

bool json_take_string(json_reader *r, str *out) {
    skip_space(r->text, &r->at);
    size_t at = r->at, end = r->at;
    if (!skip_string(r->text, &end)) return false;
    str inner = {r->text.data + at + 1, end - at - 2};
    if (utf8_valid_prefix(inner) != inner.len) return false;
    r->at = end;
    *out = inner;
    bool escaped = false;
    for (size_t i = 0; i < inner.len; i++) {
        if ((unsigned char)inner.data[i] < 0x20) return false;
        if (inner.data[i] == '\\') {
            escaped = true;
            i++;
        }
    }
    if (!escaped) return true;
    strbuf *b = &r->unescaped[r->turn];
    r->turn ^= 1;
    strbuf_clear(b);
    for (size_t i = 0; i < inner.len;) {
        if (inner.data[i] == '\\') {
            if (!unescape(inner, &i, b)) return false;
        } else {
            strbuf_add_char(b, inner.data[i++]);
        }
    }
    *out = strbuf_str(b);
    return !b->failed;
}

bool json_take_int(json_reader *r, int64_t *out) {
    skip_space(r->text, &r->at);
    size_t at = r->at;
    bool negative = at < r->text.len && r->text.data[at] == '-';
    if (negative) at++;
    size_t first = at;
    int64_t value = 0;
    while (at < r->text.len && at < first + 18 && r->text.data[at] >= '0' && r->text.data[at] <= '9') {
        value = value * 10 + (r->text.data[at++] - '0');
    }
    if (at == first || (r->text.data[first] == '0' && at > first + 1)) return false;
    char next = at < r->text.len ? r->text.data[at] : ',';
    if (!is_space(next) && next != ',' && next != '}' && next != ']') return false; // a fraction or too many digits
    r->at = at;
    *out = negative ? -value : value;
    return true;
}
