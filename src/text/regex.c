#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <pcre2.h>
#include <stdlib.h>

struct regex {
    pcre2_code *code;
    bool jit; // machine code is there; else PCRE2's interpreter runs (where the system forbids executable memory)
};

enum {
    STACK_MIN_BYTES = 64 << 10,
    STACK_MAX_BYTES = 64 << 20,
    STEPS_MIN = 10000000,
    STEPS_PER_BYTE = 64,
    HEAP_KIB = 512 << 10,
};

// White_Space of the Unicode character database, as members of a class: Oniguruma's \s.
#define WHITE_SPACE \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

typedef struct translation {
    str in;
    size_t at;
    bool in_class, class_start; // class_start: right behind [ or [^, where ] is a member
    bool interval, comma;       // inside {n} or {n,m}
    strbuf *out;
    error *err;
} translation;

static status refuse(const translation *t, const char *what) {
    return error_set(t->err, STATUS_UNSUPPORTED,
                     "the regular expression \"%.*s\" uses %s at byte %zu, which tally does not support",
                     STR_ARG(t->in), what, t->at);
}

// In a class, \s becomes several ranges, so a - beside it must not become one end of another: Oniguruma takes it for itself.
static status check_range(translation *t) {
    str out = strbuf_str(t->out), in = t->in;
    if (!t->in_class) return STATUS_OK;
    if (out.len > 1 && out.data[out.len - 1] == '-' && out.data[out.len - 2] != '\\')
        return refuse(t, "- before \\s in a class");
    if (t->at + 2 < in.len && in.data[t->at + 2] == '-') return refuse(t, "- behind \\s in a class");
    return STATUS_OK;
}

// One escape, at t->at (the backslash).
static status translate_escape(translation *t) {
    if (t->at + 1 >= t->in.len) {
        return error_set(t->err, STATUS_BAD_FILE, "the regular expression \"%.*s\" ends in a backslash",
                         STR_ARG(t->in));
    }
    char c = t->in.data[t->at + 1];
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (c == 's') {
        TRY(check_range(t));
        strbuf_add(t->out, t->in_class ? STR(WHITE_SPACE) : STR("[" WHITE_SPACE "]"));
    } else if (c == 'S' && !t->in_class) {
        strbuf_add(t->out, STR("[^" WHITE_SPACE "]"));
    } else if (!letter || strchr("dDpPrntfx", c)) {
        strbuf_add(t->out, (str){t->in.data + t->at, 2});
    } else {
        char what[] = "\\?";
        what[1] = c;
        return refuse(t, t->in_class && c == 'S' ? "\\S inside [...]" : what);
    }
    t->at += 2;
    return STATUS_OK;
}

static status translate(translation *t) {
    while (t->at < t->in.len) {
        char c = t->in.data[t->at];
        bool class_start = t->class_start;
        t->class_start = false;
        if (c == '\\') {
            TRY(translate_escape(t));
            continue;
        }
        if (!t->in_class && c == '[') {
            t->in_class = t->class_start = true;
            if (t->at + 1 < t->in.len && t->in.data[t->at + 1] == '^') {
                strbuf_add_char(t->out, c);
                c = t->in.data[++t->at];
            }
        } else if (t->in_class) {
            if (c == '[') return refuse(t, "a class inside a class");
            if (c == '&' && t->at + 1 < t->in.len && t->in.data[t->at + 1] == '&') return refuse(t, "&& in a class");
            if (c == ']' && !class_start) t->in_class = false;
        } else if (c == '{' && t->at + 1 < t->in.len && t->in.data[t->at + 1] >= '0' && t->in.data[t->at + 1] <= '9') {
            t->interval = true, t->comma = false;
        } else if (t->interval && c == '}') {
            // Oniguruma repeats {n,m}+ and makes {n}? optional; to PCRE2 they are possessive and lazy.
            char next = t->at + 1 < t->in.len ? t->in.data[t->at + 1] : 0;
            if (next == '+') return refuse(t, "{n,m}+");
            if (next == '?' && !t->comma) return refuse(t, "{n}?");
            t->interval = false;
        } else if (t->interval && c == ',') {
            t->comma = true;
        } else if ((c == '(' || c == '{') && t->at + 1 < t->in.len && t->in.data[t->at + 1] == (c == '(' ? '*' : ',')) {
            return refuse(t, c == '(' ? "(*" : "{,n}"); // a verb of PCRE2; a quantifier of Oniguruma
        } else if (c == '(' && t->at + 2 < t->in.len && t->in.data[t->at + 1] == '?') {
            char kind = t->in.data[t->at + 2];
            // Groups that both know: non-capturing, lookaround, atomic, and case-insensitive ones.
            if (!strchr(":=!<>i", kind)) return refuse(t, "a special group (?...)");
        }
        strbuf_add_char(t->out, c);
        t->at++;
    }
    return STATUS_OK;
}

status regex_open(regex **out, str pattern, bool literal, error *err) {
    *out = NULL;
    strbuf text = {0};
    status st = STATUS_OK;
    if (literal) {
        strbuf_add(&text, pattern);
    } else {
        st = translate(&(translation){.in = pattern, .out = &text, .err = err});
    }
    regex *r = calloc(1, sizeof *r);
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (st == STATUS_OK && (!r || !context || text.failed)) st = error_no_memory(err, sizeof *r + text.len);
    if (st == STATUS_OK) {
        int code;
        PCRE2_SIZE at;
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        uint32_t options = PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE);
        r->code = pcre2_compile((PCRE2_SPTR)strbuf_text(&text), text.len, options, &code, &at, context);
        if (!r->code) {
            PCRE2_UCHAR why[160];
            pcre2_get_error_message(code, why, sizeof why);
            st = error_set(err, code == PCRE2_ERROR_HEAP_FAILED ? STATUS_NO_MEMORY : STATUS_BAD_FILE,
                           "the regular expression \"%.*s\" is wrong: %s", STR_ARG(pattern), (const char *)why);
        } else {
            r->jit = pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE) == 0;
        }
    }
    pcre2_compile_context_free(context);
    strbuf_deinit(&text);
    if (st != STATUS_OK) {
        regex_close(r);
        return st;
    }
    *out = r;
    return STATUS_OK;
}

void regex_close(regex *r) {
    if (!r) return;
    pcre2_code_free(r->code);
    free(r);
}

void regex_scratch_deinit(regex_scratch *s) {
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    *s = (regex_scratch){0};
}

static status scratch_ready(regex_scratch *s, error *err) {
    if (!s->match) s->match = pcre2_match_data_create(1, NULL);
    if (!s->context) s->context = pcre2_match_context_create(NULL);
    if (!s->match || !s->context) return error_no_memory(err, 1024);
    return STATUS_OK;
}

static int run(const regex *r, const regex_scratch *s, str text, size_t from) {
    PCRE2_SPTR p = (PCRE2_SPTR)(text.data ? text.data : "");
    // The text is valid UTF-8: checking it again at every match would make long texts quadratic.
    if (r->jit) return pcre2_jit_match(r->code, p, text.len, from, PCRE2_NO_UTF_CHECK, s->match, s->context);
    return pcre2_match(r->code, p, text.len, from, PCRE2_NO_UTF_CHECK, s->match, s->context);
}

status regex_find(const regex *r, regex_scratch *s, str text, size_t from, regex_span *span, error *err) {
    TRY(scratch_ready(s, err));
    size_t steps =
        text.len > (UINT32_MAX - STEPS_MIN) / STEPS_PER_BYTE ? UINT32_MAX : STEPS_MIN + text.len * STEPS_PER_BYTE;
    pcre2_set_match_limit(s->context, (uint32_t)steps);
    pcre2_set_heap_limit(s->context, HEAP_KIB);
    int rc = run(r, s, text, from);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT && !s->stack) {
        s->stack = pcre2_jit_stack_create(STACK_MIN_BYTES, STACK_MAX_BYTES, NULL);
        if (!s->stack) return error_no_memory(err, STACK_MIN_BYTES);
        pcre2_jit_stack_assign(s->context, NULL, s->stack);
        rc = run(r, s, text, from);
    }
    *span = (regex_span){.found = rc >= 0};
    if (rc >= 0) {
        const PCRE2_SIZE *v = pcre2_get_ovector_pointer(s->match);
        *span = (regex_span){true, v[0], v[1]};
        return STATUS_OK;
    }
    if (rc == PCRE2_ERROR_NOMATCH) return STATUS_OK;
    if (rc == PCRE2_ERROR_NOMEMORY) return error_no_memory(err, text.len);
    PCRE2_UCHAR why[160];
    pcre2_get_error_message(rc, why, sizeof why);
    return error_set(
        err, STATUS_BAD_ARGUMENT,
        "the tokenizer's regular expression gave up %zu bytes into a stretch of %zu bytes: %s; shorten the text", from,
        text.len, (const char *)why);
}
