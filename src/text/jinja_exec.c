// Runs statements: output, assignment, branches, macros. Loops are in jinja_loop.c.
#include "text/jinja_run.h"

status jinja_push_scope(jinja_run *r, jinja_scope *outer) {
    jinja_scope *s = NULL;
    TRY(jinja_alloc(r, 1, sizeof *s, &s));
    s->outer = outer;
    r->scope = s;
    return STATUS_OK;
}

status jinja_set(jinja_run *r, jinja_scope *s, str name, jinja_value v) {
    for (size_t i = 0; i < s->n; i++) {
        if (str_eq(s->names[i], name)) return s->values[i] = v, STATUS_OK;
    }
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 8;
        str *names = NULL;
        jinja_value *values = NULL;
        TRY(jinja_alloc(r, cap, sizeof *names, &names));
        TRY(jinja_alloc(r, cap, sizeof *values, &values));
        if (s->n) memcpy(names, s->names, s->n * sizeof *names);
        if (s->n) memcpy(values, s->values, s->n * sizeof *values);
        s->names = names;
        s->values = values;
        s->cap = cap;
    }
    s->names[s->n] = name;
    s->values[s->n++] = v;
    return STATUS_OK;
}

static status assign_attribute(jinja_run *r, const jinja_node *target, const jinja_value *v) {
    jinja_node name = {.kind = JINJA_NAME, .line = target->line, .name = target->name};
    jinja_value ns;
    TRY(jinja_eval(r, &name, &ns));
    str attr = jinja_str(&target->value);
    if (ns.type != JINJA_NAMESPACE) {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "cannot set the attribute '%.*s' of '%.*s', which is no namespace",
                          (int)(attr.len & 127), attr.data, (int)(target->name.len & 127), target->name.data);
    }
    if (attr.len && attr.data[0] == '_') {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "attributes of a namespace cannot start with an underscore");
    }
    return jinja_dict_set(r, ns.u.dict, target->value, *v);
}

status jinja_assign(jinja_run *r, const jinja_node *target, const jinja_value *v) {
    if (target->kind == JINJA_NAME) return jinja_set(r, r->scope, target->name, *v);
    if (target->kind == JINJA_NSREF) return assign_attribute(r, target, v);
    jinja_seq items;
    r->line = target->line;
    TRY(jinja_items(r, v, &items));
    if (items.n != target->items.n) {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "%zu values cannot be assigned to %zu names", items.n,
                          target->items.n);
    }
    for (size_t i = 0; i < items.n; i++) TRY(jinja_assign(r, target->items.items[i], &items.items[i]));
    return STATUS_OK;
}

// Runs a body in a scope of its own and takes its output as a value. With a break or continue inside, the text is dropped.
static status capture(jinja_run *r, const jinja_list *body, jinja_value *out) {
    jinja_scope *outer = r->scope;
    size_t mark = r->text->len;
    TRY(jinja_push_scope(r, outer));
    TRY(jinja_exec(r, body));
    r->scope = outer;
    return jinja_take(r, mark, out);
}

// A filter chain with an empty place at its start, applied to v.
static status apply_chain(jinja_run *r, const jinja_node *chain, const jinja_value *v, jinja_value *out) {
    jinja_value input = *v;
    jinja_args args;
    if (!chain) return *out = *v, STATUS_OK;
    if (++r->depth > JINJA_MAX_DEPTH) return jinja_fail(r, STATUS_UNSUPPORTED, "a filter chain is too long");
    TRY(apply_chain(r, chain->a, v, &input));
    r->depth--;
    TRY(jinja_eval_args(r, chain->args, &args));
    r->line = chain->line;
    return jinja_apply_filter(r, chain->name, &input, &args, out);
}

static status exec_capture(jinja_run *r, const jinja_node *n) {
    jinja_value v;
    TRY(capture(r, &n->body, &v));
    if (r->flow != JINJA_FLOW_NONE) return STATUS_OK;
    TRY(apply_chain(r, n->b, &v, &v));
    return n->kind == JINJA_SET_BLOCK ? jinja_assign(r, n->a, &v) : jinja_print(r, &v);
}

static status exec_if(jinja_run *r, const jinja_node *n) {
    for (; n; n = n->c) {
        jinja_value v = jinja_bool(true);
        if (n->a) TRY(jinja_eval(r, n->a, &v));
        if (jinja_truth(&v)) return jinja_exec(r, &n->body);
    }
    return STATUS_OK;
}

static status make_macro(jinja_run *r, const jinja_node *n, jinja_value *out) {
    jinja_callable *m = NULL;
    TRY(jinja_alloc(r, 1, sizeof *m, &m));
    m->kind = JINJA_MACRO_VALUE;
    m->name = n->name;
    m->node = n;
    m->scope = r->scope;
    *out = (jinja_value){.type = JINJA_CALLABLE, .trusted = true, .u.callable = m};
    return STATUS_OK;
}

static status exec_macro(jinja_run *r, const jinja_node *n) {
    jinja_value v;
    TRY(make_macro(r, n, &v));
    return jinja_set(r, r->scope, n->name, v);
}

// {% call f(args) %}: the call, with the body as its argument `caller`.
static status exec_call_block(jinja_run *r, const jinja_node *n) {
    jinja_value callee, caller, out;
    jinja_args args;
    TRY(make_macro(r, n->b, &caller));
    TRY(jinja_eval(r, n->a->a, &callee));
    TRY(jinja_eval_args(r, n->a->args, &args));
    str *names = NULL;
    jinja_value *named = NULL;
    TRY(jinja_alloc(r, args.n_named + 1, sizeof *names, &names));
    TRY(jinja_alloc(r, args.n_named + 1, sizeof *named, &named));
    for (size_t i = 0; i < args.n_named; i++) {
        names[i] = args.names[i];
        named[i] = args.named[i];
    }
    names[args.n_named] = STR("caller");
    named[args.n_named++] = caller;
    args.names = names;
    args.named = named;
    r->line = n->line;
    TRY(jinja_call(r, &callee, &args, &out));
    return jinja_print(r, &out);
}

// with: the values are seen by the body only, not by one another.
static status exec_with(jinja_run *r, const jinja_node *n) {
    jinja_scope *outer = r->scope;
    jinja_value v;
    TRY(jinja_push_scope(r, outer));
    jinja_scope *inner = r->scope;
    for (size_t i = 0; i + 1 < n->items.n; i += 2) {
        r->scope = outer;
        TRY(jinja_eval(r, n->items.items[i + 1], &v));
        r->scope = inner;
        TRY(jinja_assign(r, n->items.items[i], &v));
    }
    r->scope = inner;
    TRY(jinja_exec(r, &n->body));
    r->scope = outer;
    return STATUS_OK;
}

// The value of parameter `name`: its place among the named arguments, or -1.
static ptrdiff_t find_named(const jinja_args *args, str name) {
    for (size_t i = 0; i < args->n_named; i++) {
        if (str_eq(args->names[i], name)) return (ptrdiff_t)i;
    }
    return -1;
}

// Named arguments that are no parameters: into `kwargs` if the macro uses it, else an error.
static status rest_of_named(jinja_run *r, const jinja_callable *m, const jinja_args *args, jinja_value *kwargs) {
    TRY(jinja_make_dict(r, args->n_named, kwargs));
    for (size_t i = 0; i < args->n_named; i++) {
        bool parameter = m->node->uses_caller && str_is(args->names[i], "caller");
        for (size_t j = 0; !parameter && j < m->node->items.n; j++) {
            parameter = str_eq(m->node->items.items[j]->name, args->names[i]) && j >= args->n;
        }
        if (parameter) continue;
        if (!m->node->uses_kwargs) {
            return jinja_fail(r, STATUS_BAD_ARGUMENT, "the macro '%.*s' takes no keyword argument '%.*s'",
                              STR_ARG(m->name), args->names[i].len > 100 ? 100 : (int)args->names[i].len,
                              args->names[i].data);
        }
        TRY(jinja_dict_set(r, kwargs->u.dict, jinja_text(args->names[i], false), args->named[i]));
    }
    return STATUS_OK;
}

static status bind_macro(jinja_run *r, const jinja_callable *m, const jinja_args *args) {
    const jinja_list *parameters = &m->node->items;
    jinja_value v, rest;
    TRY(rest_of_named(r, m, args, &rest));
    if (args->n > parameters->n && !m->node->uses_varargs) {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "the macro '%.*s' takes not more than %zu argument(s)",
                          STR_ARG(m->name), parameters->n);
    }
    bool caller = false;
    for (size_t i = 0; i < parameters->n; i++) {
        const jinja_node *p = parameters->items[i];
        ptrdiff_t at = find_named(args, p->name);
        if (i < args->n) {
            v = args->positional[i];
        } else if (at >= 0) {
            v = args->named[at];
        } else if (p->a) {
            TRY(jinja_eval(r, p->a, &v));
        } else {
            TRY(jinja_make_undefined(r, "a parameter of a macro was not provided", NULL, p->name, &v));
        }
        caller |= str_is(p->name, "caller");
        TRY(jinja_set(r, r->scope, p->name, v));
    }
    if (m->node->uses_caller && !caller) {
        ptrdiff_t at = find_named(args, STR("caller"));
        if (at < 0) TRY(jinja_make_undefined(r, "No caller defined", NULL, STR("caller"), &v));
        TRY(jinja_set(r, r->scope, STR("caller"), at < 0 ? v : args->named[at]));
    }
    if (m->node->uses_kwargs) TRY(jinja_set(r, r->scope, STR("kwargs"), rest));
    if (!m->node->uses_varargs) return STATUS_OK;
    size_t n = args->n > parameters->n ? args->n - parameters->n : 0;
    TRY(jinja_make_seq(r, JINJA_TUPLE, n, &v));
    for (size_t i = 0; i < n; i++) v.u.seq->items[i] = args->positional[parameters->n + i];
    return jinja_set(r, r->scope, STR("varargs"), v);
}

status jinja_call_macro(jinja_run *r, const jinja_callable *m, const jinja_args *args, jinja_value *out) {
    jinja_scope *outer = r->scope;
    jinja_flow flow = r->flow;
    size_t mark = r->text->len;
    TRY(jinja_push_scope(r, m->scope));
    TRY(bind_macro(r, m, args));
    TRY(jinja_exec(r, &m->node->body));
    r->scope = outer;
    r->flow = flow;
    return jinja_take(r, mark, out);
}

static status exec_one(jinja_run *r, const jinja_node *n) {
    jinja_value v;
    switch (n->kind) {
    case JINJA_DATA: return jinja_put_string(r, &n->value);
    case JINJA_OUTPUT: TRY(jinja_eval(r, n->a, &v)); return jinja_print(r, &v);
    case JINJA_SET: TRY(jinja_eval(r, n->b, &v)); return jinja_assign(r, n->a, &v);
    case JINJA_SET_BLOCK:
    case JINJA_FILTER_BLOCK: return exec_capture(r, n);
    case JINJA_IF: return exec_if(r, n);
    case JINJA_FOR: return jinja_exec_for(r, n);
    case JINJA_MACRO: return exec_macro(r, n);
    case JINJA_CALL_BLOCK: return exec_call_block(r, n);
    case JINJA_WITH:
    case JINJA_SCOPE: return exec_with(r, n);
    case JINJA_BREAK: r->flow = JINJA_FLOW_BREAK; return STATUS_OK;
    case JINJA_CONTINUE: r->flow = JINJA_FLOW_CONTINUE; return STATUS_OK;
    default: return jinja_fail(r, STATUS_INTERNAL, "an expression stands where a statement should");
    }
}

status jinja_exec(jinja_run *r, const jinja_list *body) {
    if (++r->depth > JINJA_MAX_DEPTH) {
        return jinja_fail(r, STATUS_UNSUPPORTED,
                          "more than %d expressions, statements and macro calls inside one another", JINJA_MAX_DEPTH);
    }
    for (size_t i = 0; i < body->n && r->flow == JINJA_FLOW_NONE; i++) {
        r->line = body->items[i]->line;
        TRY(jinja_step(r, 1));
        TRY(exec_one(r, body->items[i]));
    }
    r->depth--;
    return STATUS_OK;
}
