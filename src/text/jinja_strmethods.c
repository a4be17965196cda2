// Methods of strings.
#include "text/jinja_run.h"

#define METHOD(name) \
    static status m_##name(jinja_run *r, const jinja_value *s, const jinja_args *args, jinja_value *out)

static status need_string(jinja_run *r, const char *what, const jinja_value *v) {
    if (v->type == JINJA_STRING) return STATUS_OK;
    if (v->type == JINJA_UNDEFINED) return jinja_fail_undefined(r, v);
    if (v->type == JINJA_MISSING) return jinja_fail(r, STATUS_BAD_ARGUMENT, "%s lacks an argument", what);
    return jinja_fail(r, STATUS_BAD_ARGUMENT, "%s takes a string here, not a %s", what, jinja_type_name(v));
}

static status need_int(jinja_run *r, const char *what, const jinja_value *v, int64_t fallback, int64_t *out) {
    *out = fallback;
    if (v->type == JINJA_MISSING || jinja_as_int(v, out)) return STATUS_OK;
    if (v->type == JINJA_UNDEFINED) return jinja_fail_undefined(r, v);
    return jinja_fail(r, STATUS_BAD_ARGUMENT, "%s takes an integer here, not a %s", what, jinja_type_name(v));
}

// At most n positional arguments and no named ones.
static status positional(jinja_run *r, const char *what, const jinja_args *args, size_t n, jinja_value *out) {
    static const char *const none[] = {"", "", "", ""};
    return jinja_bind(r, what, args, none, n, out);
}

static status no_args(jinja_run *r, const char *what, const jinja_args *args) {
    return positional(r, what, args, 0, NULL);
}

static status strip(jinja_run *r, const jinja_value *s, const jinja_args *args, const char *sides, jinja_value *out) {
    jinja_value chars;
    TRY(positional(r, "strip", args, 1, &chars));
    return jinja_strip(r, s, &chars, sides, out);
}

METHOD(strip) { return strip(r, s, args, "lr", out); }
METHOD(lstrip) { return strip(r, s, args, "l", out); }
METHOD(rstrip) { return strip(r, s, args, "r", out); }

static const char *const split_names[] = {"sep", "maxsplit"};

METHOD(split) {
    jinja_value a[2];
    int64_t max;
    TRY(jinja_bind(r, "split", args, split_names, 2, a));
    TRY(need_int(r, "split", &a[1], -1, &max));
    if (a[0].type == JINJA_UNDEFINED) return jinja_fail_undefined(r, &a[0]);
    return jinja_split(r, s, &a[0], max, out);
}

METHOD(rsplit) {
    jinja_value a[2];
    int64_t max;
    TRY(jinja_bind(r, "rsplit", args, split_names, 2, a));
    TRY(need_int(r, "rsplit", &a[1], -1, &max));
    if (a[0].type == JINJA_UNDEFINED) return jinja_fail_undefined(r, &a[0]);
    return jinja_rsplit(r, s, &a[0], max, out);
}

METHOD(splitlines) {
    static const char *const names[] = {"keepends"};
    jinja_value keep;
    TRY(jinja_bind(r, "splitlines", args, names, 1, &keep));
    return jinja_splitlines(r, s, jinja_truth(&keep), out);
}

// The part [start:end] of s that find, count, startswith and others look at; false: start is behind the end.
static status window(jinja_run *r, const char *what, const jinja_value *s, const jinja_value *bounds, jinja_value *part,
                     size_t *at) {
    TRY(jinja_step(r, jinja_str(s).len / 16)); // which are counted and compared
    int64_t n = (int64_t)jinja_count(jinja_str(s)), v[2] = {0, n};
    *part = *s;
    *at = 0;
    for (int i = 0; i < 2; i++) {
        if (bounds[i].type == JINJA_NONE) continue;
        TRY(need_int(r, what, &bounds[i], v[i], &v[i]));
        if (v[i] < 0) v[i] = v[i] < -n ? 0 : v[i] + n;
    }
    if (v[1] > n) v[1] = n;
    if (v[0] > v[1]) return part->type = JINJA_MISSING, STATUS_OK;
    size_t from = jinja_offset(jinja_str(s), (size_t)v[0]), to = jinja_offset(jinja_str(s), (size_t)v[1]);
    *part = jinja_substring(s, from, to);
    *at = (size_t)v[0];
    return STATUS_OK;
}

static bool affix(const jinja_value *s, const jinja_value *x, bool end) {
    return end ? str_ends(jinja_str(s), jinja_str(x)) : str_starts(jinja_str(s), jinja_str(x));
}

static status starts_or_ends(jinja_run *r, const jinja_value *s, const jinja_args *args, bool end, jinja_value *out) {
    const char *what = end ? "endswith" : "startswith";
    jinja_value a[3], part;
    size_t at;
    TRY(positional(r, what, args, 3, a));
    TRY(window(r, what, s, &a[1], &part, &at));
    bool yes = false;
    if (jinja_is_seq(&a[0], JINJA_TUPLE)) {
        for (size_t i = 0; i < a[0].u.seq->n; i++) {
            TRY(need_string(r, what, &a[0].u.seq->items[i]));
            yes |= part.type == JINJA_STRING && affix(&part, &a[0].u.seq->items[i], end);
        }
    } else {
        TRY(need_string(r, what, &a[0]));
        yes = part.type == JINJA_STRING && affix(&part, &a[0], end);
    }
    *out = jinja_bool(yes);
    return STATUS_OK;
}

METHOD(startswith) { return starts_or_ends(r, s, args, false, out); }
METHOD(endswith) { return starts_or_ends(r, s, args, true, out); }

static status search(jinja_run *r, const jinja_value *s, const jinja_args *args, const char *what, jinja_value *out) {
    jinja_value a[3], part;
    size_t at;
    TRY(positional(r, what, args, 3, a));
    TRY(need_string(r, what, &a[0]));
    TRY(window(r, what, s, &a[1], &part, &at));
    ptrdiff_t p = -1;
    if (part.type == JINJA_STRING) {
        str text = jinja_str(&part);
        TRY(jinja_step(r, text.len / 16 + (what[0] == 'r' ? text.len / 64 * (a[0].u.s.len / 64) : 0)));
        p = what[0] == 'r' ? jinja_rfind(text, jinja_str(&a[0])) : jinja_find(text, jinja_str(&a[0]), 0);
        if (p >= 0) p = (ptrdiff_t)(jinja_count((str){text.data, (size_t)p}) + at);
    }
    if (p < 0 && strstr(what, "index")) return jinja_fail(r, STATUS_BAD_ARGUMENT, "%s: substring not found", what);
    *out = jinja_int(p);
    return STATUS_OK;
}

METHOD(find) { return search(r, s, args, "find", out); }
METHOD(rfind) { return search(r, s, args, "rfind", out); }
METHOD(index) { return search(r, s, args, "index", out); }
METHOD(rindex) { return search(r, s, args, "rindex", out); }

METHOD(count) {
    jinja_value a[3], part;
    size_t at;
    TRY(positional(r, "count", args, 3, a));
    TRY(need_string(r, "count", &a[0]));
    TRY(window(r, "count", s, &a[1], &part, &at));
    int64_t n = 0;
    if (part.type == JINJA_STRING) {
        str text = jinja_str(&part), x = jinja_str(&a[0]);
        TRY(jinja_step(r, text.len / 8));
        if (x.len == 0) n = (int64_t)jinja_count(text) + 1;
        ptrdiff_t p = x.len ? jinja_find(text, x, 0) : -1;
        for (; p >= 0; p = jinja_find(text, x, (size_t)p + x.len)) n++;
    }
    *out = jinja_int(n);
    return STATUS_OK;
}

METHOD(replace) {
    jinja_value a[3];
    int64_t max;
    TRY(positional(r, "replace", args, 3, a));
    TRY(need_string(r, "replace", &a[0]));
    TRY(need_string(r, "replace", &a[1]));
    TRY(need_int(r, "replace", &a[2], -1, &max));
    if (s->markup) TRY(jinja_apply_filter(r, STR("escape"), &a[1], &(jinja_args){0}, &a[1]));
    return jinja_replace(r, s, a, max, out);
}

static status change_case(jinja_run *r, const jinja_value *s, const jinja_args *args, const char *how,
                          jinja_value *out) {
    TRY(no_args(r, how, args));
    return jinja_change_case(r, s, how, out);
}

METHOD(upper) { return change_case(r, s, args, "upper", out); }
METHOD(lower) { return change_case(r, s, args, "lower", out); }
METHOD(title) { return change_case(r, s, args, "title", out); }
METHOD(capitalize) { return change_case(r, s, args, "capitalize", out); }

METHOD(join) {
    jinja_value a;
    jinja_seq items;
    TRY(positional(r, "join", args, 1, &a));
    if (s->markup) return jinja_fail(r, STATUS_UNSUPPORTED, "join on a string marked safe is not supported");
    if (a.type == JINJA_MISSING) return jinja_fail(r, STATUS_BAD_ARGUMENT, "join lacks an argument");
    TRY(jinja_items(r, &a, &items));
    for (size_t i = 0; i < items.n; i++) {
        if (items.items[i].type == JINJA_STRING) continue;
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "join: item %zu is a %s, not a string", i,
                          jinja_type_name(&items.items[i]));
    }
    return jinja_join(r, s, &items, out);
}

METHOD(format) {
    if (s->markup) return jinja_fail(r, STATUS_UNSUPPORTED, "format on a string marked safe is not supported");
    return jinja_format(r, s, args, out);
}

static status remove_affix(jinja_run *r, const jinja_value *s, const jinja_args *args, bool end, jinja_value *out) {
    jinja_value a;
    TRY(positional(r, end ? "removesuffix" : "removeprefix", args, 1, &a));
    TRY(need_string(r, end ? "removesuffix" : "removeprefix", &a));
    size_t n = s->u.s.len, cut = affix(s, &a, end) ? a.u.s.len : 0;
    *out = end ? jinja_substring(s, 0, n - cut) : jinja_substring(s, cut, n);
    return STATUS_OK;
}

METHOD(removeprefix) { return remove_affix(r, s, args, false, out); }
METHOD(removesuffix) { return remove_affix(r, s, args, true, out); }

static status cut_in_three(jinja_run *r, const jinja_value *s, const jinja_args *args, bool last, jinja_value *out) {
    jinja_value a;
    TRY(positional(r, "partition", args, 1, &a));
    TRY(need_string(r, "partition", &a));
    if (!a.u.s.len) return jinja_fail(r, STATUS_BAD_ARGUMENT, "partition needs a separator that is not empty");
    size_t n = s->u.s.len;
    TRY(jinja_step(r, n / 16 + (last ? n / 64 * (a.u.s.len / 64) : 0)));
    ptrdiff_t p = last ? jinja_rfind(jinja_str(s), jinja_str(&a)) : jinja_find(jinja_str(s), jinja_str(&a), 0);
    size_t from = p >= 0 ? (size_t)p : last ? 0 : n, to = p >= 0 ? from + a.u.s.len : from;
    TRY(jinja_make_seq(r, JINJA_TUPLE, 3, out));
    out->u.seq->items[0] = jinja_substring(s, 0, from);
    out->u.seq->items[1] = jinja_substring(s, from, to);
    out->u.seq->items[2] = jinja_substring(s, to, n);
    return STATUS_OK;
}

METHOD(partition) { return cut_in_three(r, s, args, false, out); }
METHOD(rpartition) { return cut_in_three(r, s, args, true, out); }

// kind: which characters must all be of the class, at least one of them.
static status is_all(jinja_run *r, const jinja_value *s, const jinja_args *args, char kind, jinja_value *out) {
    str text = jinja_str(s);
    int32_t c;
    bool yes = text.len > 0;
    TRY(no_args(r, "an is... method", args));
    TRY(jinja_step(r, text.len / 8));
    for (size_t at = 0; yes && at < text.len;) {
        at += jinja_decode(text, at, &c);
        switch (kind) {
        case 's': yes = jinja_is_space(c); break;
        case 'a': yes = jinja_is_alpha(c); break;
        case 'w': yes = jinja_is_alpha(c) || jinja_is_number(c, 'n'); break;
        default: yes = jinja_is_number(c, kind);
        }
    }
    *out = jinja_bool(yes);
    return STATUS_OK;
}

METHOD(isspace) { return is_all(r, s, args, 's', out); }
METHOD(isalpha) { return is_all(r, s, args, 'a', out); }
METHOD(isalnum) { return is_all(r, s, args, 'w', out); }
METHOD(isdigit) { return is_all(r, s, args, 'D', out); }
METHOD(isdecimal) { return is_all(r, s, args, 'd', out); }
METHOD(isnumeric) { return is_all(r, s, args, 'n', out); }

static status same_case(jinja_run *r, const jinja_value *s, const jinja_args *args, jinja_case how, jinja_value *out) {
    str text = jinja_str(s);
    int32_t c;
    bool cased = false, other = false;
    TRY(no_args(r, how == JINJA_LOWER ? "islower" : "isupper", args));
    TRY(jinja_step(r, text.len / 8));
    for (size_t at = 0; at < text.len;) {
        at += jinja_decode(text, at, &c);
        if (!jinja_is_cased(c)) continue;
        cased = true;
        other |= !jinja_has_case(c, how);
    }
    *out = jinja_bool(cased && !other);
    return STATUS_OK;
}

METHOD(islower) { return same_case(r, s, args, JINJA_LOWER, out); }
METHOD(isupper) { return same_case(r, s, args, JINJA_UPPER, out); }

// Padding to a width: '<' text left, '>' right, '^' in the middle.
static status pad(jinja_run *r, const jinja_value *s, const jinja_args *args, char where, jinja_value *out) {
    jinja_value a[2];
    int64_t width;
    TRY(positional(r, "a padding method", args, 2, a));
    TRY(need_int(r, "a padding method", &a[0], 0, &width));
    if (a[1].type == JINJA_MISSING) a[1] = jinja_text(STR(" "), true);
    if (a[1].type != JINJA_STRING || jinja_count(jinja_str(&a[1])) != 1) {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "padding is done with exactly one character");
    }
    if (s->markup) return jinja_fail(r, STATUS_UNSUPPORTED, "padding a string marked safe is not supported");
    TRY(jinja_step(r, jinja_str(s).len / 16));
    int64_t n = (int64_t)jinja_count(jinja_str(s)), fill = width > n ? width - n : 0;
    if (fill > JINJA_MAX_OUTPUT)
        return jinja_fail(r, STATUS_UNSUPPORTED, "padding to %lld characters", (long long)width);
    int64_t left = where == '<' ? 0 : where == '>' ? fill : fill / 2 + (fill & width & 1);
    size_t mark = r->text->len;
    TRY(jinja_step(r, (size_t)fill));
    for (int64_t i = 0; i < left; i++) TRY(jinja_put_string(r, &a[1]));
    TRY(jinja_put_string(r, s));
    for (int64_t i = left; i < fill; i++) TRY(jinja_put_string(r, &a[1]));
    return jinja_take(r, mark, out);
}

METHOD(ljust) { return pad(r, s, args, '<', out); }
METHOD(rjust) { return pad(r, s, args, '>', out); }
METHOD(center) { return pad(r, s, args, '^', out); }

typedef struct method_row {
    const char *name;
    jinja_method *call;
} method_row;

#define ROW(name) \
    { #name, m_##name }
static const method_row rows[] = {
    ROW(strip),      ROW(lstrip),   ROW(rstrip),       ROW(split),        ROW(rsplit),    ROW(splitlines),
    ROW(startswith), ROW(endswith), ROW(find),         ROW(rfind),        ROW(index),     ROW(rindex),
    ROW(count),      ROW(replace),  ROW(upper),        ROW(lower),        ROW(title),     ROW(capitalize),
    ROW(join),       ROW(format),   ROW(removeprefix), ROW(removesuffix), ROW(partition), ROW(rpartition),
    ROW(isspace),    ROW(isalpha),  ROW(isalnum),      ROW(isdigit),      ROW(isdecimal), ROW(isnumeric),
    ROW(islower),    ROW(isupper),  ROW(ljust),        ROW(rjust),        ROW(center),
};

jinja_method *jinja_string_method(str name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (str_is(name, rows[i].name)) return rows[i].call;
    }
    return NULL;
}

bool jinja_is_string_method(str name) {
    static const char *const others[] = {"casefold",  "encode",       "expandtabs", "format_map",
                                         "isascii",   "isidentifier", "istitle",    "isprintable",
                                         "maketrans", "swapcase",     "translate",  "zfill"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (str_is(name, others[i])) return true;
    }
    return jinja_string_method(name) != NULL;
}
