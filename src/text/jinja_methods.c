// Which methods a value has, and those of dicts and lists.
#include "text/jinja_run.h"

static bool one_of(str name, const char *const *list) {
    for (; *list; list++) {
        if (str_is(name, *list)) return true;
    }
    return false;
}

jinja_lookup jinja_find_method(const jinja_value *self, str name) {
    static const char *const dict[] = {"get", "items", "keys", "values", "copy", "fromkeys", NULL};
    static const char *const dict_unsafe[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    static const char *const list[] = {"index", "count", "copy", NULL};
    static const char *const list_unsafe[] = {"append", "clear",  "pop",    "reverse", "insert",
                                              "sort",   "extend", "remove", NULL};
    static const char *const tuple[] = {"index", "count", NULL};
    static const char *const range[] = {"index", "count", "start", "stop", "step", NULL};
    static const char *const loop[] = {"cycle", "changed", NULL};
    switch ((jinja_type)self->type) {
    case JINJA_STRING: return jinja_is_string_method(name) ? JINJA_HAS_METHOD : JINJA_NO_METHOD;
    case JINJA_DICT:
        if (one_of(name, dict_unsafe)) return JINJA_UNSAFE_METHOD;
        return one_of(name, dict) ? JINJA_HAS_METHOD : JINJA_NO_METHOD;
    case JINJA_LOOP: return one_of(name, loop) ? JINJA_HAS_METHOD : JINJA_NO_METHOD;
    case JINJA_CALLABLE:
        if (self->u.callable->kind == JINJA_FUNCTION && str_is(self->u.callable->name, "dict") &&
            str_is(name, "fromkeys")) {
            return JINJA_HAS_METHOD;
        }
        return JINJA_NO_METHOD;
    case JINJA_SEQ: break;
    default: return JINJA_NO_METHOD;
    }
    if (self->u.seq->kind == JINJA_LIST && one_of(name, list_unsafe)) return JINJA_UNSAFE_METHOD;
    if (self->u.seq->kind == JINJA_LIST) return one_of(name, list) ? JINJA_HAS_METHOD : JINJA_NO_METHOD;
    if (self->u.seq->kind == JINJA_TUPLE) return one_of(name, tuple) ? JINJA_HAS_METHOD : JINJA_NO_METHOD;
    return self->u.seq->kind == JINJA_RANGE && one_of(name, range) ? JINJA_HAS_METHOD : JINJA_NO_METHOD;
}

static status dict_get(jinja_run *r, const jinja_value *self, const jinja_args *args, jinja_value *out) {
    static const char *const none[] = {"", ""};
    jinja_value a[2];
    TRY(jinja_bind(r, "get", args, none, 2, a));
    if (a[0].type == JINJA_MISSING) return jinja_fail(r, STATUS_BAD_ARGUMENT, "get lacks an argument");
    if (!jinja_hashable(&a[0])) {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "a %s cannot be the key of a dict", jinja_type_name(&a[0]));
    }
    const jinja_dict *d = self->u.dict;
    TRY(jinja_step(r, d->n / 8));
    for (size_t i = 0; i < d->n; i++) {
        bool same;
        TRY(jinja_equal(r, &d->keys[i], &a[0], &same));
        if (same) return *out = d->values[i], STATUS_OK;
    }
    *out = a[1].type == JINJA_MISSING ? jinja_none() : a[1];
    return STATUS_OK;
}

static status dict_view(jinja_run *r, const jinja_value *self, jinja_seq_kind kind, jinja_value *out) {
    const jinja_dict *d = self->u.dict;
    TRY(jinja_make_seq(r, kind, d->n, out));
    out->trusted = self->trusted;
    for (size_t i = 0; i < d->n; i++) {
        jinja_value *item = &out->u.seq->items[i];
        if (kind != JINJA_ITEMS) {
            *item = kind == JINJA_KEYS ? d->keys[i] : d->values[i];
            continue;
        }
        TRY(jinja_make_seq(r, JINJA_TUPLE, 2, item));
        item->trusted = self->trusted;
        item->u.seq->items[0] = d->keys[i];
        item->u.seq->items[1] = d->values[i];
    }
    return STATUS_OK;
}

static status dict_copy(jinja_run *r, const jinja_value *self, jinja_value *out) {
    const jinja_dict *d = self->u.dict;
    TRY(jinja_make_dict(r, d->n, out));
    out->trusted = self->trusted;
    out->u.dict->n = d->n;
    if (d->n) memcpy(out->u.dict->keys, d->keys, d->n * sizeof *d->keys);
    if (d->n) memcpy(out->u.dict->values, d->values, d->n * sizeof *d->values);
    return STATUS_OK;
}

static status seq_search(jinja_run *r, const jinja_value *self, str name, const jinja_args *args, jinja_value *out) {
    const jinja_seq *s = self->u.seq;
    if (args->n != 1 || args->n_named)
        return jinja_fail(r, STATUS_UNSUPPORTED, "%.*s of a list takes one argument", STR_ARG(name));
    int64_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        bool same;
        TRY(jinja_equal(r, &s->items[i], &args->positional[0], &same));
        if (same && name.data[0] == 'i') return *out = jinja_int((int64_t)i), STATUS_OK;
        n += same;
    }
    if (name.data[0] == 'i') return jinja_fail(r, STATUS_BAD_ARGUMENT, "index: the value is not in the list");
    *out = jinja_int(n);
    return STATUS_OK;
}

status jinja_call_method(jinja_run *r, const jinja_value *self, str name, const jinja_args *args, jinja_value *out) {
    if (self->type == JINJA_STRING) {
        jinja_method *m = jinja_string_method(name);
        if (m) return m(r, self, args, out);
    }
    if (self->type == JINJA_LOOP) return jinja_loop_method(r, self->u.loop, name, args, out);
    if (self->type == JINJA_DICT) {
        if (str_is(name, "get")) return dict_get(r, self, args, out);
        bool view = str_is(name, "items") || str_is(name, "keys") || str_is(name, "values") || str_is(name, "copy");
        if (view && (args->n || args->n_named)) {
            return jinja_fail(r, STATUS_BAD_ARGUMENT, "%.*s takes no arguments", STR_ARG(name));
        }
        if (str_is(name, "items")) return dict_view(r, self, JINJA_ITEMS, out);
        if (str_is(name, "keys")) return dict_view(r, self, JINJA_KEYS, out);
        if (str_is(name, "values")) return dict_view(r, self, JINJA_VALUES, out);
        if (str_is(name, "copy")) return dict_copy(r, self, out);
    }
    if (jinja_is_seq(self, JINJA_LIST) && str_is(name, "copy") && !args->n && !args->n_named) {
        return jinja_apply_filter(r, STR("list"), self, args, out);
    }
    if (self->type == JINJA_SEQ && (str_is(name, "index") || str_is(name, "count"))) {
        return seq_search(r, self, name, args, out);
    }
    return jinja_fail(r, STATUS_UNSUPPORTED, "the method '%.*s' of a %s is not supported", STR_ARG(name),
                      jinja_type_name(self));
}
