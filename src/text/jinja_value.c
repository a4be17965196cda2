#include "text/jinja_value.h"

#include <stdarg.h>
#include <stdio.h>

#include "text/jinja_run.h"

jinja_value jinja_substring(const jinja_value *s, size_t from, size_t to) {
    jinja_value v = *s;
    v.u.s.data += from;
    v.u.s.len = to - from;
    if (v.u.s.mask) v.u.s.mask += from;
    return v;
}

bool jinja_all_trusted(const jinja_value *s) {
    if (!s->u.s.mask) return s->trusted;
    return s->u.s.len == 0 || memchr(s->u.s.mask, 0, s->u.s.len) == NULL;
}

const char *jinja_type_name(const jinja_value *v) {
    switch ((jinja_type)v->type) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED: return "Undefined";
    case JINJA_NONE: return "NoneType";
    case JINJA_BOOL: return "bool";
    case JINJA_INT: return "int";
    case JINJA_FLOAT: return "float";
    case JINJA_STRING: return v->markup ? "Markup" : "str";
    case JINJA_DICT: return "dict";
    case JINJA_NAMESPACE: return "Namespace";
    case JINJA_LOOP: return "LoopContext";
    case JINJA_CALLABLE: return "function";
    case JINJA_SEQ: break;
    }
    switch (v->u.seq->kind) {
    case JINJA_LIST: return "list";
    case JINJA_TUPLE: return "tuple";
    case JINJA_RANGE: return "range";
    case JINJA_KEYS: return "dict_keys";
    case JINJA_VALUES: return "dict_values";
    case JINJA_ITEMS: return "dict_items";
    case JINJA_ITERATOR: return "generator";
    }
    return "object";
}

bool jinja_truth(const jinja_value *v) {
    switch ((jinja_type)v->type) {
    case JINJA_BOOL: return v->u.b;
    case JINJA_INT: return v->u.i != 0;
    case JINJA_FLOAT: return v->u.f != 0;
    case JINJA_STRING: return v->u.s.len > 0;
    case JINJA_SEQ: return v->u.seq->kind == JINJA_ITERATOR || v->u.seq->n > 0;
    case JINJA_DICT: return v->u.dict->n > 0;
    case JINJA_NAMESPACE:
    case JINJA_LOOP:
    case JINJA_CALLABLE: return true;
    default: return false;
    }
}

bool jinja_as_int(const jinja_value *v, int64_t *i) {
    if (v->type != JINJA_INT && v->type != JINJA_BOOL) return false;
    *i = v->type == JINJA_INT ? v->u.i : v->u.b;
    return true;
}

bool jinja_as_float(const jinja_value *v, double *f) {
    int64_t i;
    if (v->type == JINJA_FLOAT) return *f = v->u.f, true;
    if (!jinja_as_int(v, &i)) return false;
    *f = (double)i;
    return true;
}

ptrdiff_t jinja_dict_find(const jinja_dict *d, str key) {
    for (size_t i = 0; i < d->n; i++) {
        if (d->keys[i].type == JINJA_STRING && str_eq(jinja_str(&d->keys[i]), key)) return (ptrdiff_t)i;
    }
    return -1;
}

status jinja_fail(jinja_run *r, status code, const char *fmt, ...) {
    char text[ERROR_TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return error_set(r->err, code, "chat template line %d: %s", r->line, text);
}

status jinja_step(jinja_run *r, size_t n) {
    r->steps += n > JINJA_MAX_STEPS ? JINJA_MAX_STEPS : (int64_t)n;
    if (r->steps <= JINJA_MAX_STEPS) return STATUS_OK;
    return jinja_fail(r, STATUS_UNSUPPORTED, "the template takes more than %d steps; a loop in it does not seem to end",
                      JINJA_MAX_STEPS);
}

status jinja_alloc(jinja_run *r, size_t count, size_t size, void *out) {
    if (count > JINJA_MAX_MEMORY / size || r->mem->used + count * size > JINJA_MAX_MEMORY) {
        return jinja_fail(r, STATUS_UNSUPPORTED, "the template needs more than %d MB of memory",
                          JINJA_MAX_MEMORY >> 20);
    }
    void *p = arena_calloc(r->mem, count, size);
    if (!p) return error_no_memory(r->err, count * size);
    memcpy(out, &p, sizeof p);
    return STATUS_OK;
}

// Checks that n more bytes may be put.
static status put_room(jinja_run *r, size_t n) {
    if (n > JINJA_MAX_OUTPUT || r->text->len > JINJA_MAX_OUTPUT - n) {
        return jinja_fail(r, STATUS_UNSUPPORTED, "the template prints more than %d MB", JINJA_MAX_OUTPUT >> 20);
    }
    return jinja_step(r, n / 64);
}

static status put_done(jinja_run *r) {
    return r->text->failed || r->mask->failed ? error_no_memory(r->err, r->text->len) : STATUS_OK;
}

static void put_uniform(jinja_run *r, str s, bool trusted) {
    static const char ones[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const char zeros[64] = {0};
    strbuf_add(r->text, s);
    for (size_t done = 0; done < s.len; done += 64) {
        strbuf_add(r->mask, (str){trusted ? ones : zeros, s.len - done < 64 ? s.len - done : 64});
    }
}

status jinja_put(jinja_run *r, str s, bool trusted) {
    TRY(put_room(r, s.len));
    put_uniform(r, s, trusted);
    return put_done(r);
}

status jinja_put_part(jinja_run *r, const jinja_value *s, size_t from, size_t to) {
    str text = {s->u.s.data + from, to - from};
    if (!s->u.s.mask) return jinja_put(r, text, s->trusted);
    TRY(put_room(r, text.len));
    strbuf_add(r->text, text);
    strbuf_add(r->mask, (str){(const char *)s->u.s.mask + from, text.len});
    return put_done(r);
}

status jinja_put_string(jinja_run *r, const jinja_value *s) { return jinja_put_part(r, s, 0, s->u.s.len); }

status jinja_take(jinja_run *r, size_t mark, jinja_value *out) {
    size_t n = r->text->len - mark;
    char *data = NULL;
    TRY(jinja_alloc(r, n + 1, 1, &data));
    if (n) memcpy(data, r->text->data + mark, n);
    jinja_value v = jinja_text((str){data, n}, true);
    if (n) {
        const char *mask = r->mask->data + mark;
        v.trusted = mask[0] != 0;
        if (memchr(mask, !v.trusted, n)) {
            unsigned char *copy = NULL;
            TRY(jinja_alloc(r, n, 1, &copy));
            memcpy(copy, mask, n);
            v.u.s.mask = copy;
        }
        r->text->len = r->mask->len = mark;
    }
    *out = v;
    return STATUS_OK;
}

status jinja_make_string(jinja_run *r, str s, bool trusted, jinja_value *out) {
    char *data = NULL;
    TRY(jinja_alloc(r, s.len + 1, 1, &data));
    if (s.len) memcpy(data, s.data, s.len);
    *out = jinja_text((str){data, s.len}, trusted);
    return STATUS_OK;
}

status jinja_make_seq(jinja_run *r, jinja_seq_kind kind, size_t n, jinja_value *out) {
    jinja_seq *s = NULL;
    TRY(jinja_step(r, n / 8));
    TRY(jinja_alloc(r, 1, sizeof *s, &s));
    TRY(jinja_alloc(r, n, sizeof *s->items, &s->items));
    s->kind = kind;
    s->n = n;
    *out = (jinja_value){.type = JINJA_SEQ, .trusted = true, .u.seq = s};
    return STATUS_OK;
}

status jinja_make_dict(jinja_run *r, size_t cap, jinja_value *out) {
    jinja_dict *d = NULL;
    TRY(jinja_alloc(r, 1, sizeof *d, &d));
    TRY(jinja_alloc(r, cap, sizeof *d->keys, &d->keys));
    TRY(jinja_alloc(r, cap, sizeof *d->values, &d->values));
    d->cap = cap;
    *out = (jinja_value){.type = JINJA_DICT, .trusted = true, .u.dict = d};
    return STATUS_OK;
}

bool jinja_hashable(const jinja_value *v) {
    if (v->type == JINJA_DICT || v->type == JINJA_NAMESPACE) return false;
    if (v->type != JINJA_SEQ) return true;
    if (v->u.seq->kind != JINJA_TUPLE) return v->u.seq->kind == JINJA_RANGE || v->u.seq->kind == JINJA_ITERATOR;
    return true; // the elements are checked by the comparison, if it comes to one
}

status jinja_dict_set(jinja_run *r, jinja_dict *d, jinja_value key, jinja_value value) {
    if (!jinja_hashable(&key))
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "a %s cannot be the key of a dict", jinja_type_name(&key));
    TRY(jinja_step(r, d->n / 8));
    for (size_t i = 0; i < d->n; i++) {
        bool same;
        TRY(jinja_equal(r, &d->keys[i], &key, &same));
        if (same) return d->values[i] = value, STATUS_OK;
    }
    if (d->n == d->cap) {
        size_t cap = d->cap ? d->cap * 2 : 8;
        jinja_value *keys = NULL, *values = NULL;
        TRY(jinja_alloc(r, cap, sizeof *keys, &keys));
        TRY(jinja_alloc(r, cap, sizeof *values, &values));
        if (d->n) memcpy(keys, d->keys, d->n * sizeof *keys);
        if (d->n) memcpy(values, d->values, d->n * sizeof *values);
        d->keys = keys;
        d->values = values;
        d->cap = cap;
    }
    d->keys[d->n] = key;
    d->values[d->n++] = value;
    return STATUS_OK;
}

status jinja_make_undefined(jinja_run *r, const char *hint, const jinja_value *object, str name, jinja_value *out) {
    jinja_undefined *u = NULL;
    TRY(jinja_alloc(r, 1, sizeof *u, &u));
    u->hint = hint;
    u->object = object ? jinja_type_name(object) : NULL;
    u->name = name;
    *out = (jinja_value){.type = JINJA_UNDEFINED, .trusted = true, .u.undefined = u};
    return STATUS_OK;
}

status jinja_fail_undefined(jinja_run *r, const jinja_value *v) {
    const jinja_undefined *u = v->u.undefined;
    int n = u->name.len > 200 ? 200 : (int)u->name.len;
    if (u->hint) return jinja_fail(r, STATUS_BAD_ARGUMENT, "%s", u->hint);
    if (!u->object) return jinja_fail(r, STATUS_BAD_ARGUMENT, "'%.*s' is undefined", n, u->name.data);
    const char *suffix = strcmp(u->object, "NoneType") == 0 ? "" : " object";
    return jinja_fail(r, STATUS_BAD_ARGUMENT, "'%s%s' has no attribute '%.*s'", *suffix ? u->object : "None", suffix, n,
                      u->name.data);
}
