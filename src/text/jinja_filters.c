// Filters of single values: strings and numbers. Those of sequences are in jinja_seqfilters.c.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/jinja_run.h"

#define FILTER(name) \
    static status f_##name(jinja_run *r, const jinja_value *v, const jinja_args *args, jinja_value *out)

FILTER(trim) {
    static const char *const names[] = {"chars"};
    jinja_value chars, s;
    TRY(jinja_bind(r, "trim", args, names, 1, &chars));
    TRY(jinja_to_string(r, v, &s));
    return jinja_strip(r, &s, &chars, "lr", out);
}

static status change_case(jinja_run *r, const jinja_value *v, const jinja_args *args, const char *how,
                          jinja_value *out) {
    jinja_value s;
    TRY(jinja_bind(r, how, args, NULL, 0, NULL));
    TRY(jinja_to_string(r, v, &s));
    return jinja_change_case(r, &s, how, out);
}

FILTER(upper) { return change_case(r, v, args, "upper", out); }
FILTER(lower) { return change_case(r, v, args, "lower", out); }
FILTER(capitalize) { return change_case(r, v, args, "capitalize", out); }

FILTER(title) {
    TRY(change_case(r, v, args, "words", out));
    out->markup = false;
    return STATUS_OK;
}

FILTER(string) {
    TRY(jinja_bind(r, "string", args, NULL, 0, NULL));
    return jinja_to_string(r, v, out);
}

FILTER(safe) {
    TRY(f_string(r, v, args, out));
    out->markup = true;
    return STATUS_OK;
}

FILTER(escape) {
    static const char special[] = "&<>'\"";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    jinja_value s;
    TRY(f_string(r, v, args, &s));
    size_t mark = r->text->len, done = 0;
    TRY(jinja_step(r, s.u.s.len / 16));
    for (size_t i = 0; !s.markup && i < s.u.s.len; i++) {
        const char *p = s.u.s.data[i] ? strchr(special, s.u.s.data[i]) : NULL;
        if (!p) continue;
        TRY(jinja_put_part(r, &s, done, i));
        TRY(jinja_put(r, str_from(entities[p - special]), s.u.s.mask ? s.u.s.mask[i] != 0 : s.trusted));
        done = i + 1;
    }
    TRY(jinja_put_part(r, &s, done, s.u.s.len));
    TRY(jinja_take(r, mark, out));
    out->markup = true;
    return STATUS_OK;
}

FILTER(replace) {
    static const char *const names[] = {"old", "new", "count"};
    jinja_value a[3], s;
    int64_t max = -1;
    TRY(jinja_bind(r, "replace", args, names, 3, a));
    if (a[1].type == JINJA_MISSING) return jinja_fail(r, STATUS_BAD_ARGUMENT, "replace needs two arguments");
    for (int i = 0; i < 2; i++) TRY(jinja_to_string(r, &a[i], &a[i]));
    if (a[2].type != JINJA_MISSING && a[2].type != JINJA_NONE && !jinja_as_int(&a[2], &max)) {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "replace: count is a %s", jinja_type_name(&a[2]));
    }
    TRY(jinja_to_string(r, v, &s));
    s.markup = false;
    return jinja_replace(r, &s, a, max, out);
}

FILTER(format) {
    jinja_value s, tuple;
    TRY(jinja_to_string(r, v, &s));
    if (args->n && args->n_named)
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "format takes positional or named arguments, not both");
    if (args->n_named)
        return jinja_fail(r, STATUS_UNSUPPORTED, "the filter 'format' with named arguments is not supported");
    TRY(jinja_make_seq(r, JINJA_TUPLE, args->n, &tuple));
    for (size_t i = 0; i < args->n; i++) tuple.u.seq->items[i] = args->positional[i];
    return jinja_percent(r, &s, &tuple, out);
}

FILTER(indent) {
    static const char *const names[] = {"width", "first", "blank"};
    jinja_value a[3], s, lines, by = jinja_text(STR("    "), true), space = jinja_text(STR(" "), true),
                                newline = jinja_text(STR("\n"), true);
    TRY(jinja_bind(r, "indent", args, names, 3, a));
    if (v->type == JINJA_UNDEFINED) return jinja_fail_undefined(r, v);
    if (v->type != JINJA_STRING)
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "indent takes a string, not a %s", jinja_type_name(v));
    if (a[0].type == JINJA_STRING) {
        by = a[0];
    } else if (a[0].type != JINJA_MISSING) {
        TRY(jinja_binary(r, STR("*"), &space, &a[0], &by));
    }
    if (v->markup) return jinja_fail(r, STATUS_UNSUPPORTED, "indent of a string marked safe is not supported");
    TRY(jinja_binary(r, STR("+"), v, &newline, &s));
    TRY(jinja_splitlines(r, &s, false, &lines));
    size_t mark = r->text->len;
    if (jinja_truth(&a[1])) TRY(jinja_put_string(r, &by));
    for (size_t i = 0; i < lines.u.seq->n; i++) {
        const jinja_value *line = &lines.u.seq->items[i];
        if (i) TRY(jinja_put(r, STR("\n"), true));
        if (i && (line->u.s.len || jinja_truth(&a[2]))) TRY(jinja_put_string(r, &by));
        TRY(jinja_put_string(r, line));
    }
    return jinja_take(r, mark, out);
}

FILTER(center) {
    static const char *const names[] = {"width"};
    jinja_value width, s;
    TRY(jinja_bind(r, "center", args, names, 1, &width));
    if (width.type == JINJA_MISSING) width = jinja_int(80);
    TRY(jinja_to_string(r, v, &s));
    return jinja_call_method(r, &s, STR("center"), &(jinja_args){.positional = &width, .n = 1}, out);
}

FILTER(default) {
    static const char *const names[] = {"default_value", "boolean"};
    jinja_value a[2];
    TRY(jinja_bind(r, "default", args, names, 2, a));
    bool replace = v->type == JINJA_UNDEFINED || (jinja_truth(&a[1]) && !jinja_truth(v));
    *out = !replace ? *v : a[0].type == JINJA_MISSING ? jinja_text(STR(""), true) : a[0];
    return STATUS_OK;
}

// float(text) as Python reads it; false: no number.
static bool read_float(str s, double *out) {
    char buf[128];
    size_t n = 0;
    s = jinja_lstrip(jinja_rstrip(s, (str){0}), (str){0});
    if (s.len == 0 || s.len >= sizeof buf) return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.data[i];
        bool digits = i > 0 && i + 1 < s.len && s.data[i - 1] >= '0' && s.data[i - 1] <= '9' && s.data[i + 1] >= '0' &&
                      s.data[i + 1] <= '9';
        if (c == '_' && digits) continue;
        if (!strchr("0123456789+-.eEinfatyINFATY", c) || c == 0) return false;
        buf[n++] = c;
    }
    buf[n] = 0;
    char *end;
    *out = strtod(buf, &end);
    return end != buf && *end == 0;
}

// int(text, base); *big: a valid number beyond 64 bits.
static bool read_int(str s, int64_t base, int64_t *out, bool *big) {
    s = jinja_lstrip(jinja_rstrip(s, (str){0}), (str){0});
    bool minus = s.len && s.data[0] == '-', digit = false;
    size_t i = s.len && (minus || s.data[0] == '+') ? 1 : 0;
    if (s.len > i + 2 && s.data[i] == '0') {
        char c = (char)(s.data[i + 1] | 32);
        int64_t prefix = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
        if (prefix && prefix == base) i += 2;
    }
    int64_t value = 0;
    for (; i < s.len; i++) {
        char c = s.data[i];
        if (c == '_' && digit && i + 1 < s.len) {
            digit = false;
            continue;
        }
        int d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10 : 99;
        if (d >= base) return false;
        digit = true;
        *big |= __builtin_mul_overflow(value, base, &value) || __builtin_sub_overflow(value, (int64_t)d, &value);
    }
    if (!minus) *big |= __builtin_sub_overflow((int64_t)0, value, &value);
    *out = value;
    return digit;
}

// int(f); refused beyond 64 bits, `fallback` where Python has an error.
static status float_to_int(jinja_run *r, double f, const jinja_value *fallback, jinja_value *out) {
    if (isnan(f) || isinf(f)) return *out = *fallback, STATUS_OK;
    if (!(f >= -9223372036854775808.0 && f < 9223372036854775808.0)) {
        return jinja_fail(r, STATUS_UNSUPPORTED, "int: the number does not fit 64 bits");
    }
    *out = jinja_int((int64_t)f);
    return STATUS_OK;
}

FILTER(int) {
    static const char *const names[] = {"default", "base"};
    jinja_value a[2];
    int64_t base = 10, i;
    bool big = false;
    double f;
    TRY(jinja_bind(r, "int", args, names, 2, a));
    if (a[0].type == JINJA_MISSING) a[0] = jinja_int(0);
    if (a[1].type != JINJA_MISSING && !jinja_as_int(&a[1], &base))
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "int: base is no integer");
    if (base < 2 || base > 36) return jinja_fail(r, STATUS_UNSUPPORTED, "int: a base outside 2 to 36 is not supported");
    if (v->type == JINJA_UNDEFINED) return jinja_fail_undefined(r, v);
    if (v->type == JINJA_STRING) {
        if (read_int(jinja_str(v), base, &i, &big)) {
            if (big) return jinja_fail(r, STATUS_UNSUPPORTED, "int: the number does not fit 64 bits");
            *out = jinja_int(i);
        } else if (read_float(jinja_str(v), &f)) {
            TRY(float_to_int(r, f, &a[0], out));
        } else {
            return *out = a[0], STATUS_OK;
        }
        out->trusted = jinja_all_trusted(v);
        return STATUS_OK;
    }
    if (!jinja_as_float(v, &f)) return *out = a[0], STATUS_OK;
    if (jinja_as_int(v, &i)) {
        *out = jinja_int(i);
    } else {
        if (isinf(f)) return jinja_fail(r, STATUS_BAD_ARGUMENT, "int: infinity is no integer");
        TRY(float_to_int(r, f, &a[0], out));
    }
    out->trusted = v->trusted;
    return STATUS_OK;
}

FILTER(float) {
    static const char *const names[] = {"default"};
    jinja_value a;
    double f;
    TRY(jinja_bind(r, "float", args, names, 1, &a));
    if (v->type == JINJA_UNDEFINED) return jinja_fail_undefined(r, v);
    bool ok = v->type == JINJA_STRING ? read_float(jinja_str(v), &f) : jinja_as_float(v, &f);
    if (!ok) return *out = a.type == JINJA_MISSING ? jinja_float(0) : a, STATUS_OK;
    *out = jinja_float(f);
    out->trusted = v->type == JINJA_STRING ? jinja_all_trusted(v) : v->trusted;
    return STATUS_OK;
}

FILTER(abs) {
    int64_t i;
    TRY(jinja_bind(r, "abs", args, NULL, 0, NULL));
    if (v->type == JINJA_UNDEFINED) return jinja_fail(r, STATUS_BAD_ARGUMENT, "abs of an undefined value");
    if (v->type == JINJA_FLOAT) {
        *out = jinja_float(fabs(v->u.f));
    } else if (jinja_as_int(v, &i)) {
        jinja_value positive = jinja_int(i);
        *out = positive;
        if (i < 0) TRY(jinja_unary(r, STR("-"), &positive, out));
    } else {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "abs takes a number, not a %s", jinja_type_name(v));
    }
    out->trusted = v->trusted;
    return STATUS_OK;
}

// Python's round of a float to `digits` >= 0 decimals: the nearest decimal, ties as the exact value decides.
static double round_common(double f, int digits) {
    char text[512];
    if (!isfinite(f) || digits > 22) return f;
    snprintf(text, sizeof text, "%.*f", digits, f);
    return strtod(text, NULL);
}

FILTER(round) {
    static const char *const names[] = {"precision", "method"};
    jinja_value a[2];
    int64_t digits = 0, i;
    double f;
    TRY(jinja_bind(r, "round", args, names, 2, a));
    str method = a[1].type == JINJA_STRING ? jinja_str(&a[1]) : STR("common");
    bool common = str_is(method, "common");
    if (a[0].type != JINJA_MISSING && !jinja_as_int(&a[0], &digits))
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "round: precision is no integer");
    if (digits < 0 || digits > 300)
        return jinja_fail(r, STATUS_UNSUPPORTED, "round: a precision outside 0 to 300 is not supported");
    if (!common && !str_is(method, "ceil") && !str_is(method, "floor")) {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "round: method must be common, ceil or floor");
    }
    if (v->type == JINJA_UNDEFINED) return jinja_fail_undefined(r, v);
    if (!jinja_as_float(v, &f))
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "round takes a number, not a %s", jinja_type_name(v));
    if (common && jinja_as_int(v, &i)) {
        *out = jinja_int(i);
    } else if (common) {
        *out = jinja_float(round_common(f, (int)digits));
    } else {
        double scale = pow(10, (double)digits), scaled = f * scale;
        if (!isfinite(scaled)) return jinja_fail(r, STATUS_BAD_ARGUMENT, "round: the number is too large");
        *out = jinja_float((str_is(method, "ceil") ? ceil(scaled) : floor(scaled)) / scale);
    }
    out->trusted = v->trusted;
    return STATUS_OK;
}

FILTER(attr) {
    static const char *const names[] = {"name"};
    jinja_value name;
    TRY(jinja_bind(r, "attr", args, names, 1, &name));
    if (name.type != JINJA_STRING) return jinja_fail(r, STATUS_BAD_ARGUMENT, "attr needs the name of an attribute");
    if (v->type == JINJA_DICT && jinja_find_method(v, jinja_str(&name)) == JINJA_NO_METHOD) {
        return jinja_make_undefined(r, NULL, v, jinja_str(&name), out);
    }
    return jinja_getattr(r, v, jinja_str(&name), out);
}

typedef struct filter_row {
    const char *name;
    jinja_filter *apply; // NULL: jinja2 knows it, tally does not
} filter_row;

static const filter_row rows[] = {
    {"trim", f_trim},         {"upper", f_upper},
    {"lower", f_lower},       {"capitalize", f_capitalize},
    {"title", f_title},       {"string", f_string},
    {"safe", f_safe},         {"escape", f_escape},
    {"e", f_escape},          {"replace", f_replace},
    {"format", f_format},     {"indent", f_indent},
    {"center", f_center},     {"default", f_default},
    {"d", f_default},         {"int", f_int},
    {"float", f_float},       {"abs", f_abs},
    {"round", f_round},       {"attr", f_attr},
    {"filesizeformat", NULL}, {"forceescape", NULL},
    {"groupby", NULL},        {"pprint", NULL},
    {"random", NULL},         {"slice", NULL},
    {"striptags", NULL},      {"truncate", NULL},
    {"urlencode", NULL},      {"urlize", NULL},
    {"wordcount", NULL},      {"wordwrap", NULL},
    {"xmlattr", NULL},        {"tojson", jinja_filter_tojson},
};

static const filter_row *find(str name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (str_is(name, rows[i].name)) return &rows[i];
    }
    return NULL;
}

bool jinja_has_filter(str name) { return find(name) || jinja_find_seq_filter(name); }

status jinja_apply_filter(jinja_run *r, str name, const jinja_value *v, const jinja_args *args, jinja_value *out) {
    const filter_row *row = find(name);
    jinja_filter *f = row ? row->apply : jinja_find_seq_filter(name);
    if (!f) {
        return jinja_fail(r, STATUS_UNSUPPORTED, "the filter '%.*s' is not supported",
                          name.len > 100 ? 100 : (int)name.len, name.data);
    }
    jinja_value result; // not *out: it may be v
    TRY(f(r, v, args, &result));
    *out = result;
    return STATUS_OK;
}
