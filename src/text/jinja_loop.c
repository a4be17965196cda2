// for loops and the `loop` object. The items are fetched one at a time, so that a filter expression (`for x in xs if ...`) sees
// what the body changed, as in jinja2; loop.last and loop.nextitem fetch one ahead, loop.length all.
#include "text/jinja_run.h"

// The next item that passes the filter expression, JINJA_MISSING at the end.
static status fetch(jinja_run *r, jinja_loop *l, jinja_value *out) {
    const jinja_seq *s = l->source.u.seq;
    jinja_scope *scope = r->scope;
    while (l->at < s->n) {
        *out = s->items[l->at++];
        TRY(jinja_step(r, 1));
        if (!l->node->c) return STATUS_OK;
        jinja_value v;
        TRY(jinja_push_scope(r, l->scope));
        TRY(jinja_assign(r, l->node->a, out));
        TRY(jinja_eval(r, l->node->c, &v));
        r->scope = scope;
        if (jinja_truth(&v)) return STATUS_OK;
    }
    *out = (jinja_value){.type = JINJA_MISSING};
    return STATUS_OK;
}

static status peek(jinja_run *r, jinja_loop *l) {
    return l->after.type == JINJA_MISSING ? fetch(r, l, &l->after) : STATUS_OK;
}

static status next(jinja_run *r, jinja_loop *l, bool *more) {
    jinja_value v;
    TRY(peek(r, l));
    v = l->after;
    l->after = (jinja_value){.type = JINJA_MISSING};
    *more = v.type != JINJA_MISSING;
    if (!*more) return STATUS_OK;
    l->index0++;
    l->before = l->current;
    l->current = v;
    return STATUS_OK;
}

// All items that are still to come are fetched now, if a filter expression decides how many there are.
static status count(jinja_run *r, jinja_loop *l) {
    if (l->length >= 0) return STATUS_OK;
    jinja_value rest, v;
    size_t n = 0, left = l->source.u.seq->n - l->at;
    TRY(jinja_make_seq(r, JINJA_LIST, left, &rest));
    for (;;) {
        TRY(fetch(r, l, &v));
        if (v.type == JINJA_MISSING) break;
        rest.u.seq->items[n++] = v;
    }
    rest.u.seq->n = n;
    jinja_node *plain = NULL;
    TRY(jinja_alloc(r, 1, sizeof *plain, &plain));
    *plain = *l->node;
    plain->c = NULL;
    l->node = plain;
    l->source = rest;
    l->at = 0;
    l->length = (int64_t)n + l->index0 + 1 + (l->after.type != JINJA_MISSING);
    return STATUS_OK;
}

static status item_or_undefined(jinja_run *r, const jinja_value *v, const char *hint, jinja_value *out) {
    if (v->type == JINJA_MISSING) return jinja_make_undefined(r, hint, NULL, (str){0}, out);
    *out = *v;
    return STATUS_OK;
}

status jinja_loop_attr(jinja_run *r, jinja_loop *l, str name, bool *found, jinja_value *out) {
    *found = true;
    if (str_is(name, "index")) return *out = jinja_int(l->index0 + 1), STATUS_OK;
    if (str_is(name, "index0")) return *out = jinja_int(l->index0), STATUS_OK;
    if (str_is(name, "first")) return *out = jinja_bool(l->index0 == 0), STATUS_OK;
    if (str_is(name, "depth")) return *out = jinja_int(1), STATUS_OK;
    if (str_is(name, "depth0")) return *out = jinja_int(0), STATUS_OK;
    if (str_is(name, "previtem")) return item_or_undefined(r, &l->before, "there is no previous item", out);
    if (str_is(name, "last") || str_is(name, "nextitem")) {
        TRY(peek(r, l));
        if (str_is(name, "last")) return *out = jinja_bool(l->after.type == JINJA_MISSING), STATUS_OK;
        return item_or_undefined(r, &l->after, "there is no next item", out);
    }
    bool length = str_is(name, "length"), rev = str_is(name, "revindex"), rev0 = str_is(name, "revindex0");
    *found = length || rev || rev0;
    if (!*found) return STATUS_OK;
    TRY(count(r, l));
    *out = jinja_int(length ? l->length : l->length - l->index0 - rev0);
    return STATUS_OK;
}

status jinja_loop_method(jinja_run *r, jinja_loop *l, str name, const jinja_args *args, jinja_value *out) {
    if (args->n_named) return jinja_fail(r, STATUS_BAD_ARGUMENT, "loop.%.*s takes no named arguments", STR_ARG(name));
    if (str_is(name, "cycle")) {
        if (!args->n) return jinja_fail(r, STATUS_BAD_ARGUMENT, "no items for cycling given");
        *out = args->positional[(size_t)l->index0 % args->n];
        return STATUS_OK;
    }
    jinja_value now;
    bool same = false;
    TRY(jinja_make_seq(r, JINJA_TUPLE, args->n, &now));
    for (size_t i = 0; i < args->n; i++) now.u.seq->items[i] = args->positional[i];
    if (l->last_changed.type != JINJA_MISSING) TRY(jinja_equal(r, &l->last_changed, &now, &same));
    if (!same) l->last_changed = now;
    *out = jinja_bool(!same);
    return STATUS_OK;
}

static status open_loop(jinja_run *r, const jinja_node *n, jinja_loop **out) {
    jinja_value v;
    jinja_seq items;
    jinja_loop *l = NULL;
    TRY(jinja_eval(r, n->b, &v));
    r->line = n->line;
    TRY(jinja_items(r, &v, &items));
    TRY(jinja_alloc(r, 1, sizeof *l, &l));
    TRY(jinja_make_seq(r, JINJA_LIST, 0, &l->source));
    *l->source.u.seq = items;
    l->scope = r->scope;
    l->node = n;
    l->index0 = -1;
    l->length = n->c ? -1 : (int64_t)items.n;
    *out = l;
    return STATUS_OK;
}

status jinja_exec_for(jinja_run *r, const jinja_node *n) {
    jinja_loop *l = NULL;
    bool more, completed = false; // completed: a body ran to its end (jinja2's condition for `else`)
    TRY(open_loop(r, n, &l));
    jinja_scope *outer = r->scope;
    TRY(jinja_push_scope(r, outer));
    jinja_scope *inner = r->scope;
    for (;;) {
        r->scope = outer;
        TRY(next(r, l, &more));
        if (!more || r->flow == JINJA_FLOW_BREAK) break;
        r->scope = inner;
        inner->n = 0;
        TRY(jinja_set(r, inner, STR("loop"), (jinja_value){.type = JINJA_LOOP, .trusted = true, .u.loop = l}));
        TRY(jinja_assign(r, n->a, &l->current));
        TRY(jinja_exec(r, &n->body));
        if (r->flow == JINJA_FLOW_BREAK) break;
        completed |= r->flow == JINJA_FLOW_NONE;
        r->flow = JINJA_FLOW_NONE;
    }
    r->flow = JINJA_FLOW_NONE;
    r->scope = outer;
    return completed ? STATUS_OK : jinja_exec(r, &n->other);
}
