// The text of values, as Python's str and repr give it.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/jinja_run.h"

size_t jinja_float_text(double f, char out[40]) {
    if (isnan(f)) return (size_t)snprintf(out, 40, "nan");
    if (isinf(f)) return (size_t)snprintf(out, 40, f > 0 ? "inf" : "-inf");
    // The shortest digits that read back as f, as d.ddde+xx.
    char e[40];
    for (int digits = 0; digits < 17; digits++) {
        snprintf(e, sizeof e, "%.*e", digits, f);
        if (strtod(e, NULL) == f) break;
    }
    char digits[24];
    size_t n = 0, at = 0;
    const char *p = e;
    bool minus = *p == '-';
    for (; *p && *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    }
    int exponent = atoi(p + 1);
    if (minus) out[at++] = '-';
    if (exponent < -4 || exponent >= 16) {
        out[at++] = digits[0];
        if (n > 1) out[at++] = '.';
        for (size_t i = 1; i < n; i++) out[at++] = digits[i];
        return at + (size_t)snprintf(out + at, 40 - at, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    }
    if (exponent < 0) {
        out[at++] = '0';
        out[at++] = '.';
        for (int i = -1; i > exponent; i--) out[at++] = '0';
        for (size_t i = 0; i < n; i++) out[at++] = digits[i];
        return at;
    }
    for (int i = 0; i <= exponent || i < (int)n; i++) {
        if (i == exponent + 1) out[at++] = '.';
        out[at++] = i < (int)n ? digits[i] : '0';
    }
    if ((int)n <= exponent + 1) {
        out[at++] = '.';
        out[at++] = '0';
    }
    return at;
}

static status put_text(jinja_run *r, const jinja_value *v, const char *text) {
    return jinja_put(r, str_from(text), v->trusted);
}

// One character of a string's repr.
static status repr_char(jinja_run *r, const jinja_value *v, size_t from, size_t to, char quote) {
    int32_t c;
    char esc[16];
    jinja_decode((str){v->u.s.data, to}, from, &c);
    bool trusted = v->u.s.mask ? v->u.s.mask[from] != 0 : v->trusted;
    if (c == '\n' || c == '\r' || c == '\t') {
        snprintf(esc, sizeof esc, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    } else if (c == '\\' || c == quote) {
        snprintf(esc, sizeof esc, "\\%c", (char)c);
    } else if (jinja_is_printable(c)) {
        return jinja_put_part(r, v, from, to);
    } else {
        snprintf(esc, sizeof esc, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c);
    }
    return jinja_put(r, str_from(esc), trusted);
}

static status repr_string(jinja_run *r, const jinja_value *v) {
    str s = jinja_str(v);
    char quote = s.len && memchr(s.data, '\'', s.len) && !memchr(s.data, '"', s.len) ? '"' : '\'';
    bool trusted = jinja_all_trusted(v);
    TRY(jinja_step(r, s.len / 8));
    if (v->markup) TRY(jinja_put(r, STR("Markup("), trusted));
    TRY(jinja_put(r, (str){&quote, 1}, trusted));
    for (size_t at = 0; at < s.len;) {
        int32_t c;
        size_t n = jinja_decode(s, at, &c);
        TRY(repr_char(r, v, at, at + n, quote));
        at += n;
    }
    TRY(jinja_put(r, (str){&quote, 1}, trusted));
    return v->markup ? jinja_put(r, STR(")"), trusted) : STATUS_OK;
}

static status repr_range(jinja_run *r, const jinja_value *v) {
    char text[96];
    const jinja_seq *s = v->u.seq;
    if (s->step == 1) {
        snprintf(text, sizeof text, "range(%lld, %lld)", (long long)s->start, (long long)s->stop);
    } else {
        snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)s->start, (long long)s->stop,
                 (long long)s->step);
    }
    return put_text(r, v, text);
}

static status repr_seq(jinja_run *r, const jinja_value *v) {
    static const char *const opens[] = {"[", "(", "", "dict_keys([", "dict_values([", "dict_items(["};
    static const char *const closes[] = {"]", ")", "", "])", "])", "])"};
    const jinja_seq *s = v->u.seq;
    if (s->kind == JINJA_RANGE) return repr_range(r, v);
    if (s->kind == JINJA_ITERATOR) {
        return jinja_fail(r, STATUS_UNSUPPORTED,
                          "printing a generator (what map, select and others return) is not supported; "
                          "put |list behind it");
    }
    TRY(put_text(r, v, opens[s->kind]));
    for (size_t i = 0; i < s->n; i++) {
        if (i) TRY(put_text(r, v, ", "));
        TRY(jinja_repr(r, &s->items[i]));
    }
    if (s->kind == JINJA_TUPLE && s->n == 1) TRY(put_text(r, v, ","));
    return put_text(r, v, closes[s->kind]);
}

static status repr_dict(jinja_run *r, const jinja_value *v) {
    const jinja_dict *d = v->u.dict;
    TRY(put_text(r, v, v->type == JINJA_NAMESPACE ? "<Namespace {" : "{"));
    for (size_t i = 0; i < d->n; i++) {
        if (i) TRY(put_text(r, v, ", "));
        TRY(jinja_repr(r, &d->keys[i]));
        TRY(put_text(r, v, ": "));
        TRY(jinja_repr(r, &d->values[i]));
    }
    return put_text(r, v, v->type == JINJA_NAMESPACE ? "}>" : "}");
}

static status repr_number(jinja_run *r, const jinja_value *v) {
    char text[40];
    if (v->type == JINJA_FLOAT) return jinja_put(r, (str){text, jinja_float_text(v->u.f, text)}, v->trusted);
    snprintf(text, sizeof text, "%lld", (long long)v->u.i);
    return put_text(r, v, text);
}

static status repr_callable(jinja_run *r, const jinja_value *v) {
    const jinja_callable *c = v->u.callable;
    if (c->kind != JINJA_MACRO_VALUE) {
        return jinja_fail(r, STATUS_UNSUPPORTED, "printing the function '%.*s' is not supported", STR_ARG(c->name));
    }
    TRY(put_text(r, v, "<Macro '"));
    TRY(jinja_put(r, c->name, true));
    return put_text(r, v, "'>");
}

static status repr_value(jinja_run *r, const jinja_value *v) {
    char text[64];
    switch ((jinja_type)v->type) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED: return put_text(r, v, "Undefined");
    case JINJA_NONE: return put_text(r, v, "None");
    case JINJA_BOOL: return put_text(r, v, v->u.b ? "True" : "False");
    case JINJA_INT:
    case JINJA_FLOAT: return repr_number(r, v);
    case JINJA_STRING: return repr_string(r, v);
    case JINJA_SEQ: return repr_seq(r, v);
    case JINJA_DICT:
    case JINJA_NAMESPACE: return repr_dict(r, v);
    case JINJA_CALLABLE: return repr_callable(r, v);
    case JINJA_LOOP: break;
    }
    bool found;
    jinja_value length;
    TRY(jinja_loop_attr(r, v->u.loop, STR("length"), &found, &length));
    snprintf(text, sizeof text, "<LoopContext %lld/%lld>", (long long)v->u.loop->index0 + 1, (long long)length.u.i);
    return put_text(r, v, text);
}

status jinja_repr(jinja_run *r, const jinja_value *v) {
    TRY(jinja_step(r, 1));
    if (++r->depth > JINJA_MAX_DEPTH) {
        return jinja_fail(r, STATUS_UNSUPPORTED, "a value that is printed is nested more than %d levels deep",
                          JINJA_MAX_DEPTH);
    }
    TRY(repr_value(r, v));
    r->depth--;
    return STATUS_OK;
}

status jinja_print(jinja_run *r, const jinja_value *v) {
    if (v->type == JINJA_UNDEFINED) return STATUS_OK;
    if (v->type == JINJA_STRING) return jinja_put_string(r, v);
    return jinja_repr(r, v);
}

status jinja_to_string(jinja_run *r, const jinja_value *v, jinja_value *out) {
    if (v->type == JINJA_STRING) return *out = *v, STATUS_OK;
    size_t mark = r->text->len;
    TRY(jinja_print(r, v));
    return jinja_take(r, mark, out);
}
