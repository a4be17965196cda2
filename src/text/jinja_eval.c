// Evaluates expressions.
#include "text/jinja_run.h"

static status eval_name(jinja_run *r, const jinja_node *n, jinja_value *out) {
    for (const jinja_scope *s = r->scope; s; s = s->outer) {
        for (size_t i = s->n; i-- > 0;) {
            if (str_eq(s->names[i], n->name)) return *out = s->values[i], STATUS_OK;
        }
    }
    if (!jinja_global(n->name)) return jinja_make_undefined(r, NULL, NULL, n->name, out);
    jinja_callable *f = NULL;
    TRY(jinja_alloc(r, 1, sizeof *f, &f));
    f->kind = JINJA_FUNCTION;
    f->name = n->name;
    *out = (jinja_value){.type = JINJA_CALLABLE, .trusted = true, .u.callable = f};
    return STATUS_OK;
}

static status eval_items(jinja_run *r, const jinja_node *n, jinja_value *out) {
    jinja_value v;
    TRY(jinja_make_seq(r, n->kind == JINJA_LIST_OF ? JINJA_LIST : JINJA_TUPLE, n->items.n, &v));
    for (size_t i = 0; i < n->items.n; i++) TRY(jinja_eval(r, n->items.items[i], &v.u.seq->items[i]));
    *out = v;
    return STATUS_OK;
}

static status eval_dict(jinja_run *r, const jinja_node *n, jinja_value *out) {
    jinja_value v, key, value;
    TRY(jinja_make_dict(r, n->items.n / 2, &v));
    for (size_t i = 0; i + 1 < n->items.n; i += 2) {
        TRY(jinja_eval(r, n->items.items[i], &key));
        TRY(jinja_eval(r, n->items.items[i + 1], &value));
        TRY(jinja_dict_set(r, v.u.dict, key, value));
    }
    *out = v;
    return STATUS_OK;
}

static status eval_slice(jinja_run *r, const jinja_node *n, jinja_value *out) {
    jinja_value v, bounds[3];
    TRY(jinja_eval(r, n->a, &v));
    for (size_t i = 0; i < 3; i++) {
        bounds[i] = jinja_none();
        if (i < n->items.n && n->items.items[i]) TRY(jinja_eval(r, n->items.items[i], &bounds[i]));
    }
    r->line = n->line;
    return jinja_slice(r, &v, bounds, out);
}

static status eval_concat(jinja_run *r, const jinja_node *n, jinja_value *out) {
    // All parts first: printing one must not interleave with what evaluating the next one captures.
    jinja_value parts;
    TRY(jinja_make_seq(r, JINJA_LIST, n->items.n, &parts));
    for (size_t i = 0; i < n->items.n; i++) TRY(jinja_eval(r, n->items.items[i], &parts.u.seq->items[i]));
    size_t mark = r->text->len;
    r->line = n->line;
    for (size_t i = 0; i < n->items.n; i++) TRY(jinja_print(r, &parts.u.seq->items[i]));
    return jinja_take(r, mark, out);
}

static status eval_compare(jinja_run *r, const jinja_node *n, jinja_value *out) {
    jinja_value left, right;
    TRY(jinja_eval(r, n->a, &left));
    bool yes = true;
    for (size_t i = 0; yes && i < n->items.n; i++) {
        const jinja_node *part = n->items.items[i];
        TRY(jinja_eval(r, part->b, &right));
        r->line = n->line;
        TRY(jinja_compare(r, part->name, &left, &right, &yes));
        left = right;
    }
    *out = jinja_bool(yes);
    return STATUS_OK;
}

// The elements of *star behind the positional arguments, the entries of **star_star behind the named ones.
static status eval_star_args(jinja_run *r, const jinja_arguments *a, jinja_args *out) {
    jinja_seq more = {0};
    jinja_value v, dict = {0};
    if (a->star) {
        TRY(jinja_eval(r, a->star, &v));
        TRY(jinja_items(r, &v, &more));
    }
    if (a->star_star) {
        TRY(jinja_eval(r, a->star_star, &dict));
        if (dict.type != JINJA_DICT) return jinja_fail(r, STATUS_BAD_ARGUMENT, "what stands behind ** is no dict");
    }
    size_t n_dict = dict.type == JINJA_DICT ? dict.u.dict->n : 0;
    TRY(jinja_alloc(r, a->positional.n + more.n, sizeof *out->positional, &out->positional));
    TRY(jinja_alloc(r, a->named.n + n_dict, sizeof *out->named, &out->named));
    TRY(jinja_alloc(r, a->named.n + n_dict, sizeof *out->names, &out->names));
    for (size_t i = 0; i < more.n; i++) out->positional[a->positional.n + i] = more.items[i];
    for (size_t i = 0; i < n_dict; i++) {
        const jinja_value *key = &dict.u.dict->keys[i];
        if (key->type != JINJA_STRING) return jinja_fail(r, STATUS_BAD_ARGUMENT, "a key behind ** is no string");
        out->names[a->named.n + i] = jinja_str(key);
        out->named[a->named.n + i] = dict.u.dict->values[i];
    }
    out->n = a->positional.n + more.n;
    out->n_named = a->named.n + n_dict;
    return STATUS_OK;
}

status jinja_eval_args(jinja_run *r, const jinja_arguments *a, jinja_args *out) {
    *out = (jinja_args){0};
    if (!a) return STATUS_OK;
    TRY(eval_star_args(r, a, out));
    for (size_t i = 0; i < a->positional.n; i++) TRY(jinja_eval(r, a->positional.items[i], &out->positional[i]));
    for (size_t i = 0; i < a->named.n; i++) {
        out->names[i] = a->named.items[i]->name;
        TRY(jinja_eval(r, a->named.items[i]->a, &out->named[i]));
    }
    return STATUS_OK;
}

static status eval_call(jinja_run *r, const jinja_node *n, jinja_value *out) {
    jinja_value callee;
    jinja_args args;
    TRY(jinja_eval(r, n->a, &callee));
    TRY(jinja_eval_args(r, n->args, &args));
    r->line = n->line;
    return jinja_call(r, &callee, &args, out);
}

static status eval_filter(jinja_run *r, const jinja_node *n, jinja_value *out) {
    jinja_value v;
    jinja_args args;
    TRY(jinja_eval(r, n->a, &v));
    TRY(jinja_eval_args(r, n->args, &args));
    r->line = n->line;
    return jinja_apply_filter(r, n->name, &v, &args, out);
}

static status eval_test(jinja_run *r, const jinja_node *n, jinja_value *out) {
    jinja_value v;
    jinja_args args;
    bool yes;
    TRY(jinja_eval(r, n->a, &v));
    TRY(jinja_eval_args(r, n->args, &args));
    r->line = n->line;
    TRY(jinja_apply_test(r, n->name, &v, &args, &yes));
    *out = jinja_bool(yes);
    return STATUS_OK;
}

static status eval_binary(jinja_run *r, const jinja_node *n, jinja_value *out) {
    jinja_value a, b;
    TRY(jinja_eval(r, n->a, &a));
    TRY(jinja_eval(r, n->b, &b));
    r->line = n->line;
    return jinja_binary(r, n->name, &a, &b, out);
}

static status eval_logic(jinja_run *r, const jinja_node *n, jinja_value *out) {
    jinja_value v;
    TRY(jinja_eval(r, n->a, &v));
    switch (n->kind) {
    case JINJA_NOT: *out = jinja_bool(!jinja_truth(&v)); return STATUS_OK;
    case JINJA_AND:
        if (jinja_truth(&v)) return jinja_eval(r, n->b, out);
        break;
    case JINJA_OR:
        if (!jinja_truth(&v)) return jinja_eval(r, n->b, out);
        break;
    default: // JINJA_COND
        if (jinja_truth(&v)) return jinja_eval(r, n->b, out);
        if (n->c) return jinja_eval(r, n->c, out);
        return jinja_make_undefined(r, "the inline if-expression evaluated to false and no else section was defined",
                                    NULL, (str){0}, out);
    }
    *out = v;
    return STATUS_OK;
}

static status eval_access(jinja_run *r, const jinja_node *n, jinja_value *out) {
    jinja_value v, key;
    TRY(jinja_eval(r, n->a, &v));
    if (n->kind == JINJA_GETITEM) TRY(jinja_eval(r, n->b, &key));
    r->line = n->line;
    return n->kind == JINJA_GETITEM ? jinja_getitem(r, &v, &key, out) : jinja_getattr(r, &v, n->name, out);
}

static status eval_unary(jinja_run *r, const jinja_node *n, jinja_value *out) {
    jinja_value v;
    TRY(jinja_eval(r, n->a, &v));
    return jinja_unary(r, n->name, &v, out);
}

static status eval_kind(jinja_run *r, const jinja_node *n, jinja_value *out) {
    switch (n->kind) {
    case JINJA_CONST: *out = n->value; return STATUS_OK;
    case JINJA_NAME: return eval_name(r, n, out);
    case JINJA_LIST_OF:
    case JINJA_TUPLE_OF: return eval_items(r, n, out);
    case JINJA_DICT_OF: return eval_dict(r, n, out);
    case JINJA_GETATTR:
    case JINJA_GETITEM: return eval_access(r, n, out);
    case JINJA_SLICE: return eval_slice(r, n, out);
    case JINJA_CALL: return eval_call(r, n, out);
    case JINJA_FILTER: return eval_filter(r, n, out);
    case JINJA_TEST: return eval_test(r, n, out);
    case JINJA_UNARY: return eval_unary(r, n, out);
    case JINJA_BINARY: return eval_binary(r, n, out);
    case JINJA_CONCAT: return eval_concat(r, n, out);
    case JINJA_COMPARE: return eval_compare(r, n, out);
    default: return eval_logic(r, n, out);
    }
}

status jinja_eval(jinja_run *r, const jinja_node *n, jinja_value *out) {
    r->line = n->line;
    TRY(jinja_step(r, 1));
    if (++r->depth > JINJA_MAX_DEPTH) {
        return jinja_fail(r, STATUS_UNSUPPORTED,
                          "more than %d expressions, statements and macro calls inside one another", JINJA_MAX_DEPTH);
    }
    jinja_value v; // not *out: n may be evaluated into an operand of the caller's
    TRY(eval_kind(r, n, &v));
    r->depth--;
    *out = v;
    return STATUS_OK;
}
