// printf-like formatting: the % operator (%s %r %d %i %f %x %c %%, with a precision for %f) and str.format with plain fields
// ({}, {0}, {name}). Flags, widths, conversions and format specifications are refused.
#include <stdio.h>

#include "text/jinja_run.h"

typedef struct percent_args {
    const jinja_value *items; // a tuple's, or the one argument
    size_t n, next;
    const jinja_value *dict; // for %(name)s
} percent_args;

static status next_arg(jinja_run *r, percent_args *a, jinja_value *out) {
    if (a->next >= a->n) return jinja_fail(r, STATUS_BAD_ARGUMENT, "not enough arguments for the format string");
    *out = a->items[a->next++];
    return STATUS_OK;
}

static status put_number(jinja_run *r, const jinja_value *v, char kind, int precision) {
    char text[512];
    int64_t i = 0;
    double f = 0;
    if (v->type == JINJA_UNDEFINED) return jinja_fail_undefined(r, v);
    if (!jinja_as_float(v, &f))
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "%%%c takes a number, not a %s", kind, jinja_type_name(v));
    if (kind == 'f') {
        snprintf(text, sizeof text, "%.*f", precision < 0 ? 6 : precision, f);
    } else {
        if (!jinja_as_int(v, &i)) {
            if (kind == 'x' || !(f > -9e18 && f < 9e18))
                return jinja_fail(r, STATUS_BAD_ARGUMENT, "%%%c takes an integer", kind);
            i = (int64_t)f;
        }
        if (kind == 'x' && i < 0) return jinja_fail(r, STATUS_UNSUPPORTED, "%%x of a negative number is not supported");
        snprintf(text, sizeof text, kind == 'x' ? "%llx" : "%lld", (long long)i);
    }
    return jinja_put(r, str_from(text), v->trusted);
}

// One conversion; *at is behind the '%'.
static status put_conversion(jinja_run *r, str f, size_t *at, percent_args *a) {
    jinja_value v;
    bool named = *at < f.len && f.data[*at] == '(';
    if (named) {
        ptrdiff_t close = str_find(f, STR(")"), *at);
        if (close < 0 || !a->dict)
            return jinja_fail(r, STATUS_BAD_ARGUMENT, "a format string with %%(name) needs a dict");
        str name = {f.data + *at + 1, (size_t)close - *at - 1};
        ptrdiff_t i = jinja_dict_find(a->dict->u.dict, name);
        if (i < 0) return jinja_fail(r, STATUS_BAD_ARGUMENT, "the format string names a key that the dict lacks");
        v = a->dict->u.dict->values[i];
        *at = (size_t)close + 1;
    }
    int precision = -1;
    if (*at < f.len && f.data[*at] == '.') {
        precision = 0;
        while (++*at < f.len && f.data[*at] >= '0' && f.data[*at] <= '9' && precision < 100) {
            precision = precision * 10 + f.data[*at] - '0';
        }
    }
    char kind = *at < f.len ? f.data[(*at)++] : 0;
    bool known = kind && strchr("srdifxc", kind) && precision <= 100 && (precision < 0 || kind == 'f');
    if (!known)
        return jinja_fail(r, STATUS_UNSUPPORTED,
                          "a format other than %%s %%r %%d %%i %%f %%.Nf %%x %%%% is not supported");
    if (!named) TRY(next_arg(r, a, &v));
    if (kind == 's') return jinja_print(r, &v);
    if (kind == 'r') return jinja_repr(r, &v);
    if (kind == 'c') {
        if (v.type != JINJA_STRING || jinja_count(jinja_str(&v)) != 1) {
            return jinja_fail(r, STATUS_UNSUPPORTED, "%%c of anything but one character is not supported");
        }
        return jinja_put_string(r, &v);
    }
    return put_number(r, &v, kind == 'i' ? 'd' : kind, precision);
}

status jinja_percent(jinja_run *r, const jinja_value *format, const jinja_value *args, jinja_value *out) {
    percent_args a = {.items = args, .n = 1};
    if (format->markup) return jinja_fail(r, STATUS_UNSUPPORTED, "%% on a string marked safe is not supported");
    if (jinja_is_seq(args, JINJA_TUPLE)) {
        a.items = args->u.seq->items;
        a.n = args->u.seq->n;
    }
    if (args->type == JINJA_DICT) a.dict = args;
    str f = jinja_str(format);
    size_t mark = r->text->len;
    for (size_t at = 0; at < f.len;) {
        ptrdiff_t p = str_find(f, STR("%"), at);
        size_t end = p < 0 ? f.len : (size_t)p;
        TRY(jinja_put_part(r, format, at, end));
        if (p < 0) break;
        at = end + 1;
        if (at < f.len && f.data[at] == '%') {
            TRY(jinja_put_part(r, format, at, at + 1));
            at++;
            continue;
        }
        TRY(put_conversion(r, f, &at, &a));
    }
    // What Python takes for a mapping: it may go unused.
    bool lenient = args->type == JINJA_DICT || args->type == JINJA_UNDEFINED ||
                   (args->type == JINJA_SEQ && (args->u.seq->kind == JINJA_LIST || args->u.seq->kind == JINJA_RANGE));
    if (a.next < a.n && !lenient)
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "not all arguments of the format string are used");
    return jinja_take(r, mark, out);
}

// The value of the field `name` ("" is the next positional one).
static status format_field(jinja_run *r, str name, const jinja_args *args, size_t *next, jinja_value *out) {
    size_t index = 0;
    bool number = true;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
        if (!word)
            return jinja_fail(r, STATUS_UNSUPPORTED, "a format field other than {}, {0} or {name} is not supported");
        if (c < '0' || c > '9' || index > 1000) number = false;
        if (number) index = index * 10 + (size_t)(c - '0');
    }
    if (!name.len) index = (*next)++;
    if (number) {
        if (index >= args->n)
            return jinja_fail(r, STATUS_BAD_ARGUMENT, "the format string needs more arguments than the %zu given",
                              args->n);
        return *out = args->positional[index], STATUS_OK;
    }
    for (size_t i = 0; i < args->n_named; i++) {
        if (str_eq(args->names[i], name)) return *out = args->named[i], STATUS_OK;
    }
    return jinja_fail(r, STATUS_BAD_ARGUMENT, "the format string names the argument '%.*s', which is missing",
                      name.len > 100 ? 100 : (int)name.len, name.data);
}

status jinja_format(jinja_run *r, const jinja_value *format, const jinja_args *args, jinja_value *out) {
    str f = jinja_str(format);
    size_t mark = r->text->len, next = 0;
    for (size_t at = 0; at < f.len;) {
        size_t end = at;
        while (end < f.len && f.data[end] != '{' && f.data[end] != '}') end++;
        TRY(jinja_put_part(r, format, at, end));
        at = end;
        if (at == f.len) break;
        if (at + 1 < f.len && f.data[at + 1] == f.data[at]) {
            TRY(jinja_put_part(r, format, at, at + 1));
            at += 2;
            continue;
        }
        ptrdiff_t close = str_find(f, STR("}"), at);
        if (f.data[at] == '}' || close < 0)
            return jinja_fail(r, STATUS_BAD_ARGUMENT, "a single { or } in a format string");
        jinja_value v;
        TRY(format_field(r, (str){f.data + at + 1, (size_t)close - at - 1}, args, &next, &v));
        if (v.type == JINJA_UNDEFINED) return jinja_fail(r, STATUS_BAD_ARGUMENT, "format of an undefined value");
        TRY(jinja_print(r, &v));
        at = (size_t)close + 1;
    }
    return jinja_take(r, mark, out);
}
