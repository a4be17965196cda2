// Tokens of a template. Follows the rules of jinja2's lexer with trim_blocks and lstrip_blocks: a newline right after a block or
// comment is dropped, blanks before a block or comment on its line too; `-` strips all whitespace, `+` keeps it.
#include <stdlib.h>

#include "text/jinja_ast.h"
#include "text/jinja_text.h"

typedef struct lexer {
    arena *mem;
    str src;
    size_t at;
    int line;
    bool line_starting; // the last match ended in a newline
    jinja_token *tokens;
    size_t n, cap;
    error *err;
    char closers[256]; // brackets open inside a tag
    size_t n_open;
} lexer;

static status lex_fail(lexer *lx, const char *what) {
    return error_set(lx->err, STATUS_BAD_FILE, "chat template line %d: %s", lx->line, what);
}

static status push(lexer *lx, jinja_token t) {
    if (lx->n == lx->cap) {
        size_t cap = lx->cap ? lx->cap * 2 : 256;
        jinja_token *p = arena_calloc(lx->mem, cap, sizeof *p);
        if (!p) return error_no_memory(lx->err, cap * sizeof *p);
        if (lx->n) memcpy(p, lx->tokens, lx->n * sizeof *p);
        lx->tokens = p;
        lx->cap = cap;
    }
    lx->tokens[lx->n++] = t;
    return STATUS_OK;
}

static bool looking_at(const lexer *lx, size_t at, const char *text) {
    size_t n = strlen(text);
    return at <= lx->src.len && lx->src.len - at >= n && memcmp(lx->src.data + at, text, n) == 0;
}

static char char_at(const lexer *lx, size_t at) { return at < lx->src.len ? lx->src.data[at] : 0; }

static size_t skip_space(const lexer *lx, size_t at) {
    int32_t c;
    while (at < lx->src.len) {
        size_t n = jinja_decode(lx->src, at, &c);
        if (!jinja_is_space(c)) break;
        at += n;
    }
    return at;
}

// Moves to `to`, counting lines.
static void advance(lexer *lx, size_t to) {
    for (size_t i = lx->at; i < to; i++) lx->line += lx->src.data[i] == '\n';
    lx->line_starting = to > lx->at ? lx->src.data[to - 1] == '\n' : false;
    lx->at = to;
}

// Where the tag that closes with `close` ("%}", "}}", "#}") ends if it ends at `at`; 0 if it does not.
static size_t tag_end(const lexer *lx, size_t at, const char *close) {
    bool variable = close[0] == '}';
    if (char_at(lx, at) == '-' && looking_at(lx, at + 1, close)) return skip_space(lx, at + 3);
    if (!variable && char_at(lx, at) == '+' && looking_at(lx, at + 1, close)) return at + 3;
    if (!looking_at(lx, at, close)) return 0;
    return !variable && char_at(lx, at + 2) == '\n' ? at + 3 : at + 2;
}

// End of a `{% raw %}` or `{% endraw %}` tag whose "{%" is at `at`, 0 if it is none.
static size_t raw_tag_end(const lexer *lx, size_t at, const char *word) {
    size_t p = at + 2;
    if (char_at(lx, p) == '-' || char_at(lx, p) == '+') p++;
    p = skip_space(lx, p);
    if (!looking_at(lx, p, word)) return 0;
    p = skip_space(lx, p + strlen(word));
    if (strcmp(word, "endraw") == 0) return tag_end(lx, p, "%}");
    if (char_at(lx, p) == '-' && looking_at(lx, p + 1, "%}")) return skip_space(lx, p + 3);
    return looking_at(lx, p, "%}") ? p + 2 : 0;
}

// The text [at, tag) in front of a tag with the given sign ('-', '+' or 0), as one data token.
static status push_data(lexer *lx, size_t tag, char sign, bool variable) {
    str text = {lx->src.data + lx->at, tag - lx->at};
    if (sign == '-') {
        text.len = jinja_rstrip(text, (str){0}).len;
    } else if (sign != '+' && !variable) {
        size_t line = text.len;
        while (line > 0 && text.data[line - 1] != '\n') line--;
        if ((line > 0 || lx->line_starting) && jinja_rstrip(text, (str){0}).len <= line) text.len = line;
    }
    if (!text.len) return STATUS_OK;
    return push(lx, (jinja_token){.kind = JINJA_T_DATA, .line = lx->line, .text = text});
}

static status lex_raw(lexer *lx, size_t tag, char sign) {
    TRY(push_data(lx, tag, sign, false));
    advance(lx, tag);
    advance(lx, raw_tag_end(lx, tag, "raw"));
    for (size_t p = lx->at; p < lx->src.len; p++) {
        if (!looking_at(lx, p, "{%")) continue;
        size_t end = raw_tag_end(lx, p, "endraw");
        if (!end) continue;
        char s = char_at(lx, p + 2);
        TRY(push_data(lx, p, s == '-' || s == '+' ? s : 0, false));
        advance(lx, p);
        advance(lx, end);
        return STATUS_OK;
    }
    return lex_fail(lx, "{% raw %} without {% endraw %}");
}

static status lex_comment(lexer *lx) {
    for (size_t p = lx->at; p < lx->src.len; p++) {
        size_t end = tag_end(lx, p, "#}");
        if (!end) continue;
        advance(lx, end);
        return STATUS_OK;
    }
    return lex_fail(lx, "a comment {# is not closed by #}");
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

// Digits with single underscores between them.
static size_t digits(const lexer *lx, size_t at) {
    while (is_digit(char_at(lx, at)) || (char_at(lx, at) == '_' && is_digit(char_at(lx, at + 1)))) at++;
    return at;
}

static int digit_value(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'z') return c - 'a' + 10;
    if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
    return 99;
}

static status lex_int(lexer *lx) {
    size_t p = lx->at;
    int base = 10;
    if (char_at(lx, p) == '0') {
        char c = (char)(char_at(lx, p + 1) | 32);
        if (c == 'x') base = 16;
        if (c == 'o') base = 8;
        if (c == 'b') base = 2;
        if (base != 10 && digit_value(char_at(lx, p + 2)) >= base) base = 10;
        if (base != 10) p += 2;
    }
    bool zero_only = base == 10 && char_at(lx, p) == '0'; // "007" is 00 and 7 to jinja2
    int64_t v = 0;
    for (;; p++) {
        char c = char_at(lx, p);
        if (c == '_' && digit_value(char_at(lx, p + 1)) < base) continue;
        int d = digit_value(c);
        if (d >= base || (zero_only && d != 0)) break;
        if (v > (INT64_MAX - d) / base) return lex_fail(lx, "an integer is larger than 64 bits");
        v = v * base + d;
    }
    jinja_token t = {.kind = JINJA_T_INT, .line = lx->line, .text = {lx->src.data + lx->at, p - lx->at}, .i = v};
    advance(lx, p);
    return push(lx, t);
}

static status lex_number(lexer *lx) {
    size_t p = digits(lx, lx->at), q = p;
    bool after_dot = lx->at > 0 && lx->src.data[lx->at - 1] == '.';
    bool real = false;
    if (char_at(lx, q) == '.' && is_digit(char_at(lx, q + 1))) {
        q = digits(lx, q + 1);
        real = true;
    }
    if ((char_at(lx, q) | 32) == 'e') {
        size_t e = q + 1;
        if (char_at(lx, e) == '+' || char_at(lx, e) == '-') e++;
        if (is_digit(char_at(lx, e))) {
            q = digits(lx, e);
            real = true;
        }
    }
    if (!real || after_dot) return lex_int(lx);
    char buf[64];
    size_t n = 0;
    for (size_t i = lx->at; i < q; i++) {
        if (lx->src.data[i] == '_') continue;
        if (n + 1 == sizeof buf) return lex_fail(lx, "a number has more than 63 characters");
        buf[n++] = lx->src.data[i];
    }
    buf[n] = 0;
    jinja_token t = {.kind = JINJA_T_FLOAT, .line = lx->line, .f = strtod(buf, NULL)};
    t.text = (str){lx->src.data + lx->at, q - lx->at};
    advance(lx, q);
    return push(lx, t);
}

static status lex_string(lexer *lx) {
    char quote = lx->src.data[lx->at];
    size_t p = lx->at + 1;
    while (p < lx->src.len && lx->src.data[p] != quote) p += lx->src.data[p] == '\\' ? 2 : 1;
    if (p >= lx->src.len) return lex_fail(lx, "a string is not closed");
    str inside = {lx->src.data + lx->at + 1, p - lx->at - 1};
    jinja_token t = {.kind = JINJA_T_STRING, .line = lx->line};
    const char *wrong = NULL;
    if (!jinja_unescape(lx->mem, inside, &t.text, &wrong)) {
        return wrong ? lex_fail(lx, wrong) : error_no_memory(lx->err, inside.len);
    }
    advance(lx, p + 1);
    return push(lx, t);
}

static status lex_operator(lexer *lx) {
    static const char *const ops[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                      "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    size_t i = 0, count = sizeof ops / sizeof *ops;
    while (i < count && !looking_at(lx, lx->at, ops[i])) i++;
    if (i == count) {
        return error_set(lx->err, STATUS_BAD_FILE, "chat template line %d: unexpected character '%c' in a tag",
                         lx->line, lx->src.data[lx->at] >= 32 ? lx->src.data[lx->at] : '?');
    }
    char c = ops[i][0];
    if (c == '(' || c == '[' || c == '{') {
        if (lx->n_open == sizeof lx->closers) return lex_fail(lx, "more than 256 brackets are open");
        lx->closers[lx->n_open++] = c == '(' ? ')' : (char)(c + 2);
    } else if (c == ')' || c == ']' || c == '}') {
        if (!lx->n_open || lx->closers[--lx->n_open] != c) return lex_fail(lx, "a closing bracket matches no open one");
    }
    jinja_token t = {.kind = JINJA_T_OPERATOR, .line = lx->line, .text = str_from(ops[i])};
    advance(lx, lx->at + t.text.len);
    return push(lx, t);
}

static status lex_name(lexer *lx) {
    size_t p = lx->at;
    while (is_word(char_at(lx, p))) {
        if ((unsigned char)lx->src.data[p] >= 0x80)
            return lex_fail(lx, "a name with characters beyond ASCII is not supported");
        p++;
    }
    jinja_token t = {.kind = JINJA_T_NAME, .line = lx->line, .text = {lx->src.data + lx->at, p - lx->at}};
    advance(lx, p);
    return push(lx, t);
}

// The inside of a {{ }} or {% %} tag up to and with its end.
static status lex_tag(lexer *lx, bool variable) {
    lx->n_open = 0;
    for (;;) {
        size_t end = lx->n_open ? 0 : tag_end(lx, lx->at, variable ? "}}" : "%}");
        if (end) {
            int line = lx->line;
            advance(lx, end);
            return push(lx, (jinja_token){.kind = variable ? JINJA_T_VARIABLE_END : JINJA_T_BLOCK_END, .line = line});
        }
        size_t space = skip_space(lx, lx->at);
        if (space != lx->at) {
            advance(lx, space);
            continue;
        }
        if (lx->at >= lx->src.len) return lex_fail(lx, variable ? "{{ is not closed by }}" : "{% is not closed by %}");
        char c = lx->src.data[lx->at];
        if (is_digit(c)) {
            TRY(lex_number(lx));
        } else if (is_word(c)) {
            TRY(lex_name(lx));
        } else if (c == '\'' || c == '"') {
            TRY(lex_string(lx));
        } else {
            TRY(lex_operator(lx));
        }
    }
}

// The next tag at or after lx->at, or the length of the source.
static size_t find_tag(const lexer *lx) {
    for (size_t p = lx->at; p + 1 < lx->src.len; p++) {
        if (lx->src.data[p] != '{') continue;
        char c = lx->src.data[p + 1];
        if (c == '{' || c == '%' || c == '#') return p;
    }
    return lx->src.len;
}

static status lex_next(lexer *lx) {
    size_t tag = find_tag(lx);
    if (tag == lx->src.len) {
        TRY(push_data(lx, tag, '+', true));
        advance(lx, tag);
        return STATUS_OK;
    }
    char kind = lx->src.data[tag + 1], sign = char_at(lx, tag + 2);
    if (sign != '-' && sign != '+') sign = 0;
    if (kind == '%' && raw_tag_end(lx, tag, "raw")) return lex_raw(lx, tag, sign);
    TRY(push_data(lx, tag, sign, kind == '{'));
    advance(lx, tag);
    int line = lx->line;
    advance(lx, tag + 2 + (sign ? 1 : 0));
    if (kind == '#') return lex_comment(lx);
    TRY(push(lx, (jinja_token){.kind = kind == '{' ? JINJA_T_VARIABLE_BEGIN : JINJA_T_BLOCK_BEGIN, .line = line}));
    return lex_tag(lx, kind == '{');
}

status jinja_lex(arena *mem, str source, jinja_token **tokens, error *err) {
    lexer lx = {.mem = mem, .src = source, .line = 1, .line_starting = true, .err = err};
    while (lx.at < lx.src.len) TRY(lex_next(&lx));
    TRY(push(&lx, (jinja_token){.kind = JINJA_T_EOF, .line = lx.line}));
    *tokens = lx.tokens;
    return STATUS_OK;
}
