// The tojson filter, as transformers defines it: Python's json.dumps with ensure_ascii=False unless told otherwise.
#include <math.h>
#include <stdio.h>

#include "text/jinja_run.h"

typedef struct json_style {
    bool ascii, sort;
    bool pretty;
    jinja_value indent;    // a string per level, when pretty
    jinja_value item, key; // separators
} json_style;

static status put_json(jinja_run *r, const json_style *st, const jinja_value *v, int level);

static status put_escape(jinja_run *r, const json_style *st, const jinja_value *s, size_t from, size_t to) {
    static const char plain[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    int32_t c;
    char text[16];
    jinja_decode(jinja_str(s), from, &c);
    bool trusted = s->u.s.mask ? s->u.s.mask[from] != 0 : s->trusted;
    const char *p = c > 0 && c < 0x80 ? strchr(plain, (int)c) : NULL;
    if (p) {
        snprintf(text, sizeof text, "\\%c", letters[p - plain]);
    } else if (c < 0x20 || (st->ascii && c >= 0x7f && c < 0x10000)) {
        snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    } else if (st->ascii && c >= 0x10000) {
        snprintf(text, sizeof text, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((c - 0x10000) >> 10)),
                 (unsigned)(0xdc00 + ((c - 0x10000) & 0x3ff)));
    } else {
        return jinja_put_part(r, s, from, to);
    }
    return jinja_put(r, str_from(text), trusted);
}

static status put_json_string(jinja_run *r, const json_style *st, const jinja_value *s) {
    str text = jinja_str(s);
    bool trusted = jinja_all_trusted(s);
    TRY(jinja_put(r, STR("\""), trusted));
    TRY(jinja_step(r, text.len / 8));
    size_t done = 0;
    for (size_t at = 0; at < text.len;) {
        unsigned char c = (unsigned char)text.data[at];
        if (c >= 0x20 && c != '"' && c != '\\' && (c < 0x7f || !st->ascii)) {
            at++;
            continue;
        }
        int32_t cp;
        size_t n = jinja_decode(text, at, &cp);
        TRY(jinja_put_part(r, s, done, at));
        TRY(put_escape(r, st, s, at, at + n));
        done = at += n;
    }
    TRY(jinja_put_part(r, s, done, text.len));
    return jinja_put(r, STR("\""), trusted);
}

static status put_newline(jinja_run *r, const json_style *st, bool trusted, int level) {
    if (!st->pretty) return STATUS_OK;
    TRY(jinja_put(r, STR("\n"), trusted));
    for (int i = 0; i < level; i++) TRY(jinja_put_part(r, &st->indent, 0, st->indent.u.s.len));
    return STATUS_OK;
}

static status put_separator(jinja_run *r, const jinja_value *separator, bool trusted) {
    jinja_value s = *separator;
    if (!s.u.s.mask && !trusted) s.trusted = false;
    return jinja_put_string(r, &s);
}

static status put_scalar(jinja_run *r, const jinja_value *v) {
    char text[40];
    if (v->type == JINJA_NONE) return jinja_put(r, STR("null"), v->trusted);
    if (v->type == JINJA_BOOL) return jinja_put(r, v->u.b ? STR("true") : STR("false"), v->trusted);
    if (v->type == JINJA_INT) {
        snprintf(text, sizeof text, "%lld", (long long)v->u.i);
        return jinja_put(r, str_from(text), v->trusted);
    }
    if (isnan(v->u.f)) return jinja_put(r, STR("NaN"), v->trusted);
    if (isinf(v->u.f)) return jinja_put(r, v->u.f > 0 ? STR("Infinity") : STR("-Infinity"), v->trusted);
    return jinja_put(r, (str){text, jinja_float_text(v->u.f, text)}, v->trusted);
}

static status put_key(jinja_run *r, const json_style *st, const jinja_value *key) {
    if (key->type == JINJA_STRING) return put_json_string(r, st, key);
    if (key->type < JINJA_NONE || key->type > JINJA_FLOAT) {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "a %s cannot be a key in JSON", jinja_type_name(key));
    }
    TRY(jinja_put(r, STR("\""), key->trusted));
    TRY(put_scalar(r, key));
    return jinja_put(r, STR("\""), key->trusted);
}

// The order in which entries are written.
static status entry_order(jinja_run *r, const json_style *st, const jinja_dict *d, size_t **out) {
    size_t *order = NULL;
    TRY(jinja_alloc(r, d->n, sizeof *order, &order));
    for (size_t i = 0; i < d->n; i++) order[i] = i;
    *out = order;
    if (!st->sort) return STATUS_OK;
    for (size_t i = 1; i < d->n; i++) {
        for (size_t j = i; j > 0; j--) {
            bool less;
            TRY(jinja_less(r, &d->keys[order[j]], &d->keys[order[j - 1]], &less));
            if (!less) break;
            size_t t = order[j];
            order[j] = order[j - 1];
            order[j - 1] = t;
        }
    }
    return STATUS_OK;
}

static status put_object(jinja_run *r, const json_style *st, const jinja_value *v, int level) {
    const jinja_dict *d = v->u.dict;
    size_t *order = NULL;
    TRY(entry_order(r, st, d, &order));
    TRY(jinja_put(r, STR("{"), v->trusted));
    for (size_t i = 0; i < d->n; i++) {
        if (i) TRY(put_separator(r, &st->item, v->trusted));
        TRY(put_newline(r, st, v->trusted, level + 1));
        TRY(put_key(r, st, &d->keys[order[i]]));
        TRY(put_separator(r, &st->key, v->trusted));
        TRY(put_json(r, st, &d->values[order[i]], level + 1));
    }
    if (d->n) TRY(put_newline(r, st, v->trusted, level));
    return jinja_put(r, STR("}"), v->trusted);
}

static status put_array(jinja_run *r, const json_style *st, const jinja_value *v, int level) {
    const jinja_seq *s = v->u.seq;
    TRY(jinja_put(r, STR("["), v->trusted));
    for (size_t i = 0; i < s->n; i++) {
        if (i) TRY(put_separator(r, &st->item, v->trusted));
        TRY(put_newline(r, st, v->trusted, level + 1));
        TRY(put_json(r, st, &s->items[i], level + 1));
    }
    if (s->n) TRY(put_newline(r, st, v->trusted, level));
    return jinja_put(r, STR("]"), v->trusted);
}

static status put_json(jinja_run *r, const json_style *st, const jinja_value *v, int level) {
    TRY(jinja_step(r, 1));
    if (++r->depth > JINJA_MAX_DEPTH) {
        return jinja_fail(r, STATUS_UNSUPPORTED, "a value that becomes JSON is nested more than %d levels deep",
                          JINJA_MAX_DEPTH);
    }
    if (v->type == JINJA_STRING) {
        TRY(put_json_string(r, st, v));
    } else if (v->type == JINJA_DICT) {
        TRY(put_object(r, st, v, level));
    } else if (v->type == JINJA_SEQ && v->u.seq->kind <= JINJA_TUPLE) {
        TRY(put_array(r, st, v, level));
    } else if (v->type >= JINJA_NONE && v->type <= JINJA_FLOAT) {
        TRY(put_scalar(r, v));
    } else {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "a value of type %s cannot become JSON", jinja_type_name(v));
    }
    r->depth--;
    return STATUS_OK;
}

static status read_indent(jinja_run *r, const jinja_value *v, json_style *st) {
    int64_t n;
    if (v->type == JINJA_MISSING || v->type == JINJA_NONE) return STATUS_OK;
    st->pretty = true;
    st->indent = *v;
    if (v->type == JINJA_STRING) return STATUS_OK;
    if (!jinja_as_int(v, &n) || n > 1000)
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "tojson: indent is a string or a number up to 1000");
    jinja_value space = jinja_text(STR(" "), true), times = jinja_int(n);
    return jinja_binary(r, STR("*"), &space, &times, &st->indent);
}

status jinja_filter_tojson(jinja_run *r, const jinja_value *v, const jinja_args *args, jinja_value *out) {
    static const char *const names[] = {"ensure_ascii", "indent", "separators", "sort_keys"};
    jinja_value a[4];
    TRY(jinja_bind(r, "tojson", args, names, 4, a));
    json_style st = {.ascii = jinja_truth(&a[0]), .sort = jinja_truth(&a[3])};
    TRY(read_indent(r, &a[1], &st));
    st.item = jinja_text(st.pretty ? STR(",") : STR(", "), true);
    st.key = jinja_text(STR(": "), true);
    if (a[2].type != JINJA_MISSING && a[2].type != JINJA_NONE) {
        jinja_seq pair;
        TRY(jinja_items(r, &a[2], &pair));
        if (pair.n != 2 || pair.items[0].type != JINJA_STRING || pair.items[1].type != JINJA_STRING) {
            return jinja_fail(r, STATUS_BAD_ARGUMENT, "tojson: separators are two strings");
        }
        st.item = pair.items[0];
        st.key = pair.items[1];
    }
    size_t mark = r->text->len;
    TRY(put_json(r, &st, v, 0));
    return jinja_take(r, mark, out);
}
