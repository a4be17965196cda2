// Calls: the functions every template has, methods, macros.
#include <time.h>

#include "text/jinja_run.h"

status jinja_bind(jinja_run *r, const char *what, const jinja_args *args, const char *const *names, size_t n,
                  jinja_value *out) {
    if (args->n > n)
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "%s takes at most %zu argument(s), %zu given", what, n, args->n);
    for (size_t i = 0; i < n; i++) out[i] = i < args->n ? args->positional[i] : (jinja_value){.type = JINJA_MISSING};
    for (size_t i = 0; i < args->n_named; i++) {
        size_t j = 0;
        while (j < n && !str_is(args->names[i], names[j])) j++;
        if (j == n || out[j].type != JINJA_MISSING) {
            return jinja_fail(r, STATUS_BAD_ARGUMENT, "%s does not take the argument '%.*s' here", what,
                              args->names[i].len > 100 ? 100 : (int)args->names[i].len, args->names[i].data);
        }
        out[j] = args->named[i];
    }
    return STATUS_OK;
}

static status call_raise(jinja_run *r, const jinja_args *args, jinja_value *out) {
    static const char *const names[] = {"message"};
    jinja_value message;
    (void)out;
    TRY(jinja_bind(r, "raise_exception", args, names, 1, &message));
    if (message.type == JINJA_MISSING) message = jinja_none();
    TRY(jinja_to_string(r, &message, &message));
    str s = jinja_str(&message);
    return error_set(r->err, STATUS_BAD_ARGUMENT, "the chat template (line %d) refuses the messages: %.*s", r->line,
                     s.len > 800 ? 800 : (int)s.len, s.len ? s.data : "");
}

static status call_range(jinja_run *r, const jinja_args *args, jinja_value *out) {
    int64_t v[3] = {0, 0, 1};
    if (args->n_named || args->n < 1 || args->n > 3)
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "range takes 1 to 3 arguments");
    for (size_t i = 0; i < args->n; i++) {
        const jinja_value *a = &args->positional[i];
        if (a->type == JINJA_UNDEFINED) return jinja_fail_undefined(r, a);
        if (!jinja_as_int(a, &v[args->n == 1 ? 1 : i])) {
            return jinja_fail(r, STATUS_BAD_ARGUMENT, "range takes integers, not a %s", jinja_type_name(a));
        }
    }
    if (v[2] == 0) return jinja_fail(r, STATUS_BAD_ARGUMENT, "the step of range is zero");
    // The distance fits 64 unsigned bits whatever the bounds.
    uint64_t span = v[2] > 0 ? (uint64_t)v[1] - (uint64_t)v[0] : (uint64_t)v[0] - (uint64_t)v[1];
    uint64_t step = v[2] > 0 ? (uint64_t)v[2] : 0 - (uint64_t)v[2];
    bool empty = v[2] > 0 ? v[1] <= v[0] : v[1] >= v[0];
    uint64_t n = empty ? 0 : (span - 1) / step + 1;
    if (n > JINJA_MAX_RANGE)
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "a range has more than %d items", JINJA_MAX_RANGE);
    TRY(jinja_make_seq(r, JINJA_RANGE, (size_t)n, out));
    jinja_seq *s = out->u.seq;
    for (size_t i = 0; i < n; i++) s->items[i] = jinja_int((int64_t)((uint64_t)v[0] + i * (uint64_t)v[2]));
    s->start = v[0];
    s->stop = v[1];
    s->step = v[2];
    return STATUS_OK;
}

// dict(mapping or pairs, name=value, ...), also for namespace().
static status call_dict(jinja_run *r, const jinja_args *args, jinja_value *out) {
    jinja_value v;
    jinja_seq items;
    if (args->n > 1) return jinja_fail(r, STATUS_BAD_ARGUMENT, "dict takes at most one positional argument");
    TRY(jinja_make_dict(r, args->n_named + 4, &v));
    const jinja_value *from = args->n ? &args->positional[0] : NULL;
    if (from && from->type == JINJA_DICT) {
        for (size_t i = 0; i < from->u.dict->n; i++) {
            TRY(jinja_dict_set(r, v.u.dict, from->u.dict->keys[i], from->u.dict->values[i]));
        }
    } else if (from) {
        TRY(jinja_items(r, from, &items));
        for (size_t i = 0; i < items.n; i++) {
            jinja_seq pair;
            TRY(jinja_items(r, &items.items[i], &pair));
            if (pair.n != 2)
                return jinja_fail(r, STATUS_BAD_ARGUMENT, "dict takes pairs; one has %zu elements", pair.n);
            TRY(jinja_dict_set(r, v.u.dict, pair.items[0], pair.items[1]));
        }
    }
    for (size_t i = 0; i < args->n_named; i++) {
        TRY(jinja_dict_set(r, v.u.dict, jinja_text(args->names[i], true), args->named[i]));
    }
    *out = v;
    return STATUS_OK;
}

static status call_namespace(jinja_run *r, const jinja_args *args, jinja_value *out) {
    TRY(call_dict(r, args, out));
    for (size_t i = 0; i < out->u.dict->n; i++) {
        const jinja_value *key = &out->u.dict->keys[i];
        if (key->type == JINJA_STRING && key->u.s.len && key->u.s.data[0] == '_') {
            return jinja_fail(r, STATUS_BAD_ARGUMENT, "attributes of a namespace cannot start with an underscore");
        }
    }
    out->type = JINJA_NAMESPACE;
    return STATUS_OK;
}

static status call_strftime(jinja_run *r, const jinja_args *args, jinja_value *out) {
    static const char *const names[] = {"format"};
    jinja_value format;
    TRY(jinja_bind(r, "strftime_now", args, names, 1, &format));
    if (format.type != JINJA_STRING || format.u.s.len > 200) {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "strftime_now takes a format of at most 200 bytes");
    }
    char text[1024], pattern[256];
    struct tm tm;
    time_t now = time(NULL);
    if (!localtime_r(&now, &tm)) return jinja_fail(r, STATUS_INTERNAL, "the local time cannot be found");
    memcpy(pattern, format.u.s.data, format.u.s.len);
    pattern[format.u.s.len] = 0;
    size_t n = strftime(text, sizeof text, pattern, &tm);
    return jinja_make_string(r, (str){text, n}, jinja_all_trusted(&format), out);
}

typedef struct function {
    const char *name;
    status (*call)(jinja_run *r, const jinja_args *args, jinja_value *out); // NULL: known to jinja2, not supported
} function;

static const function functions[] = {
    {"raise_exception", call_raise},
    {"range", call_range},
    {"namespace", call_namespace},
    {"dict", call_dict},
    {"strftime_now", call_strftime},
    {"cycler", NULL},
    {"joiner", NULL},
    {"lipsum", NULL},
};

static const function *find_function(str name) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (str_is(name, functions[i].name)) return &functions[i];
    }
    return NULL;
}

bool jinja_global(str name) { return find_function(name) != NULL; }

status jinja_call(jinja_run *r, const jinja_value *callee, const jinja_args *args, jinja_value *out) {
    if (callee->type == JINJA_UNDEFINED) return jinja_fail_undefined(r, callee);
    if (callee->type == JINJA_LOOP)
        return jinja_fail(r, STATUS_UNSUPPORTED, "calling a loop (recursive for) is not supported");
    if (callee->type != JINJA_CALLABLE) {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "a %s cannot be called", jinja_type_name(callee));
    }
    const jinja_callable *c = callee->u.callable;
    if (c->kind == JINJA_MACRO_VALUE) return jinja_call_macro(r, c, args, out);
    if (c->kind == JINJA_METHOD) return jinja_call_method(r, &c->self, c->name, args, out);
    const function *f = find_function(c->name);
    if (!f || !f->call)
        return jinja_fail(r, STATUS_UNSUPPORTED, "the function '%.*s' is not supported", STR_ARG(c->name));
    return f->call(r, args, out);
}
