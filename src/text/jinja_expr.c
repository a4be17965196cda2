// Expressions of a template: jinja2's precedence, from `x if y else z` down to names and literals.
#include "text/jinja_ast.h"

static status parse_or(jinja_parser *p, jinja_node **out);
static status parse_unary(jinja_parser *p, bool with_filter, jinja_node **out);

static status make(jinja_parser *p, jinja_kind kind, jinja_node *a, jinja_node *b, jinja_node **out) {
    TRY(jinja_new_node(p, kind, p->at->line, out));
    (*out)->a = a;
    (*out)->b = b;
    return STATUS_OK;
}

static status parse_condition(jinja_parser *p, jinja_node **out) {
    TRY(parse_or(p, out));
    while (jinja_skip_name(p, "if")) {
        jinja_node *n, *value = *out;
        TRY(make(p, JINJA_COND, NULL, value, &n));
        TRY(parse_or(p, &n->a));
        if (jinja_skip_name(p, "else")) {
            TRY(jinja_enter(p));
            TRY(parse_condition(p, &n->c));
            p->depth--;
        }
        *out = n;
    }
    return STATUS_OK;
}

status jinja_parse_expression(jinja_parser *p, jinja_node **out) {
    TRY(jinja_enter(p));
    TRY(parse_condition(p, out));
    p->depth--;
    return STATUS_OK;
}

status jinja_parse_no_condition(jinja_parser *p, jinja_node **out) {
    TRY(jinja_enter(p));
    TRY(parse_or(p, out));
    p->depth--;
    return STATUS_OK;
}

// math: the binary operators of one precedence, left to right.
typedef status operand_parser(jinja_parser *p, jinja_node **out);

static status parse_binary(jinja_parser *p, const char *const *ops, operand_parser *operand, jinja_node **out) {
    TRY(operand(p, out));
    for (;;) {
        const char *const *op = ops;
        while (*op && !jinja_at_op(p, *op)) op++;
        if (!*op) return STATUS_OK;
        jinja_node *n = NULL;
        TRY(make(p, JINJA_BINARY, *out, NULL, &n));
        n->name = p->at++->text;
        TRY(operand(p, &n->b));
        *out = n;
    }
}

static status parse_plain_unary(jinja_parser *p, jinja_node **out) { return parse_unary(p, true, out); }

static status parse_power(jinja_parser *p, jinja_node **out) {
    static const char *const ops[] = {"**", NULL};
    return parse_binary(p, ops, parse_plain_unary, out);
}

static status parse_product(jinja_parser *p, jinja_node **out) {
    static const char *const ops[] = {"*", "/", "//", "%", NULL};
    return parse_binary(p, ops, parse_power, out);
}

static status parse_concat(jinja_parser *p, jinja_node **out) {
    TRY(parse_product(p, out));
    if (!jinja_at_op(p, "~")) return STATUS_OK;
    jinja_node *n = NULL, *part = NULL;
    TRY(make(p, JINJA_CONCAT, NULL, NULL, &n));
    TRY(jinja_append(p, &n->items, *out));
    while (jinja_skip_op(p, "~")) {
        TRY(parse_product(p, &part));
        TRY(jinja_append(p, &n->items, part));
    }
    *out = n;
    return STATUS_OK;
}

static status parse_sum(jinja_parser *p, jinja_node **out) {
    static const char *const ops[] = {"+", "-", NULL};
    return parse_binary(p, ops, parse_concat, out);
}

// The comparison operator at the parser's place, read; false: none.
static bool read_comparison(jinja_parser *p, str *op) {
    static const char *const ops[] = {"==", "!=", ">", ">=", "<", "<="};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (jinja_skip_op(p, ops[i])) return *op = str_from(ops[i]), true;
    }
    if (jinja_skip_name(p, "in")) return *op = STR("in"), true;
    if (jinja_at_name(p, "not") && p->at[1].kind == JINJA_T_NAME && str_is(p->at[1].text, "in")) {
        p->at += 2;
        return *op = STR("not in"), true;
    }
    return false;
}

static status parse_compare(jinja_parser *p, jinja_node **out) {
    TRY(parse_sum(p, out));
    jinja_node *n = NULL, *part;
    str op;
    while (read_comparison(p, &op)) {
        if (!n) TRY(make(p, JINJA_COMPARE, *out, NULL, &n));
        TRY(make(p, JINJA_BINARY, NULL, NULL, &part));
        part->name = op;
        TRY(parse_sum(p, &part->b));
        TRY(jinja_append(p, &n->items, part));
    }
    if (n) *out = n;
    return STATUS_OK;
}

static status parse_not(jinja_parser *p, jinja_node **out) {
    if (!jinja_at_name(p, "not")) return parse_compare(p, out);
    TRY(jinja_enter(p));
    TRY(jinja_new_node(p, JINJA_NOT, p->at++->line, out));
    TRY(parse_not(p, &(*out)->a));
    p->depth--;
    return STATUS_OK;
}

static status parse_and(jinja_parser *p, jinja_node **out) {
    TRY(parse_not(p, out));
    while (jinja_skip_name(p, "and")) {
        jinja_node *n = NULL;
        TRY(make(p, JINJA_AND, *out, NULL, &n));
        TRY(parse_not(p, &n->b));
        *out = n;
    }
    return STATUS_OK;
}

static status parse_or(jinja_parser *p, jinja_node **out) {
    TRY(parse_and(p, out));
    while (jinja_skip_name(p, "or")) {
        jinja_node *n = NULL;
        TRY(make(p, JINJA_OR, *out, NULL, &n));
        TRY(parse_and(p, &n->b));
        *out = n;
    }
    return STATUS_OK;
}

static status parse_arguments(jinja_parser *p, jinja_arguments **out) {
    jinja_arguments *a = arena_calloc(p->mem, 1, sizeof *a);
    if (!a) return error_no_memory(p->err, sizeof *a);
    *out = a;
    TRY(jinja_expect_op(p, "("));
    bool comma = false;
    while (!jinja_at_op(p, ")")) {
        jinja_node *n = NULL;
        if (comma) TRY(jinja_expect_op(p, ","));
        if (comma && jinja_at_op(p, ")")) break;
        comma = true;
        bool star = jinja_at_op(p, "*"), star_star = jinja_at_op(p, "**");
        if (star || star_star) {
            if (a->star_star || (star && a->star))
                return jinja_syntax(p, "the arguments of a call are in a wrong order");
            p->at++;
            TRY(jinja_parse_expression(p, star ? &a->star : &a->star_star));
        } else if (p->at->kind == JINJA_T_NAME && p->at[1].kind == JINJA_T_OPERATOR && str_is(p->at[1].text, "=")) {
            if (a->star_star) return jinja_syntax(p, "the arguments of a call are in a wrong order");
            TRY(jinja_new_node(p, JINJA_NAME, p->at->line, &n));
            n->name = p->at->text;
            p->at += 2;
            TRY(jinja_parse_expression(p, &n->a));
            TRY(jinja_append(p, &a->named, n));
        } else {
            if (a->star || a->star_star || a->named.n)
                return jinja_syntax(p, "a positional argument follows a named one");
            TRY(jinja_parse_expression(p, &n));
            TRY(jinja_append(p, &a->positional, n));
        }
    }
    return jinja_expect_op(p, ")");
}

static status parse_call(jinja_parser *p, jinja_node *callee, jinja_node **out) {
    TRY(make(p, JINJA_CALL, callee, NULL, out));
    return parse_arguments(p, &(*out)->args);
}

// One filter or test name ("a.b" is one name) with its arguments.
static status parse_named_args(jinja_parser *p, jinja_node *n) {
    TRY(jinja_expect_name(p, &n->name));
    if (jinja_at_op(p, ".")) return jinja_syntax(p, "a filter or test with a dot in its name is unknown");
    return jinja_at_op(p, "(") ? parse_arguments(p, &n->args) : STATUS_OK;
}

status jinja_parse_filters(jinja_parser *p, jinja_node *input, bool inline_first, jinja_node **out) {
    *out = input;
    while (jinja_at_op(p, "|") || inline_first) {
        if (!inline_first) p->at++;
        inline_first = false;
        jinja_node *n = NULL;
        TRY(make(p, JINJA_FILTER, *out, NULL, &n));
        TRY(parse_named_args(p, n));
        *out = n;
    }
    return STATUS_OK;
}

static status parse_primary(jinja_parser *p, bool with_namespace, jinja_node **out);
static status parse_postfix(jinja_parser *p, jinja_node **out);

// Whether the token can start the single argument of a test without brackets, as in `x is divisibleby 3`.
static bool starts_argument(const jinja_parser *p) {
    switch (p->at->kind) {
    case JINJA_T_NAME: return !jinja_at_name(p, "else") && !jinja_at_name(p, "or") && !jinja_at_name(p, "and");
    case JINJA_T_STRING:
    case JINJA_T_INT:
    case JINJA_T_FLOAT: return true;
    default: return jinja_at_op(p, "[") || jinja_at_op(p, "{");
    }
}

static status parse_test(jinja_parser *p, jinja_node *input, jinja_node **out) {
    p->at++; // is
    bool negated = jinja_skip_name(p, "not");
    jinja_node *n = NULL;
    TRY(make(p, JINJA_TEST, input, NULL, &n));
    TRY(parse_named_args(p, n));
    if (!n->args && starts_argument(p)) {
        if (jinja_at_name(p, "is")) return jinja_syntax(p, "tests with 'is' cannot be chained");
        n->args = arena_calloc(p->mem, 1, sizeof *n->args);
        if (!n->args) return error_no_memory(p->err, sizeof *n->args);
        jinja_node *arg = NULL;
        TRY(parse_primary(p, false, &arg));
        TRY(parse_postfix(p, &arg));
        TRY(jinja_append(p, &n->args->positional, arg));
    }
    *out = n;
    return negated ? make(p, JINJA_NOT, n, NULL, out) : STATUS_OK;
}

static status parse_filter_chain(jinja_parser *p, jinja_node **out) {
    for (;;) {
        if (jinja_at_op(p, "|")) {
            TRY(jinja_parse_filters(p, *out, false, out));
        } else if (jinja_at_name(p, "is")) {
            TRY(parse_test(p, *out, out));
        } else if (jinja_at_op(p, "(")) {
            TRY(parse_call(p, *out, out));
        } else {
            return STATUS_OK;
        }
    }
}

// One index or slice; *n is left NULL for a slice, whose parts go to `bounds`.
static status parse_subscript_part(jinja_parser *p, jinja_node **n, jinja_list *bounds) {
    jinja_node *part = NULL;
    *n = NULL;
    if (!jinja_at_op(p, ":")) {
        TRY(jinja_parse_expression(p, &part));
        if (!jinja_at_op(p, ":")) return *n = part, STATUS_OK;
    }
    TRY(jinja_append(p, bounds, part));
    p->at++;
    for (int i = 0; i < 2; i++) {
        part = NULL;
        if (i == 1 && !jinja_skip_op(p, ":")) return jinja_append(p, bounds, NULL);
        if (!jinja_at_op(p, ":") && !jinja_at_op(p, "]") && !jinja_at_op(p, ",")) TRY(jinja_parse_expression(p, &part));
        TRY(jinja_append(p, bounds, part));
    }
    return STATUS_OK;
}

static status parse_brackets(jinja_parser *p, jinja_node **out) {
    jinja_node *n = NULL, *tuple = NULL;
    TRY(make(p, JINJA_GETITEM, *out, NULL, &n));
    p->at++;
    TRY(parse_subscript_part(p, &n->b, &n->items));
    if (!n->b) n->kind = JINJA_SLICE;
    if (jinja_at_op(p, ",")) {
        if (!n->b) return jinja_syntax(p, "several slices in one pair of brackets are not supported");
        TRY(make(p, JINJA_TUPLE_OF, NULL, NULL, &tuple));
        TRY(jinja_append(p, &tuple->items, n->b));
        while (jinja_skip_op(p, ",")) {
            jinja_node *part = NULL;
            TRY(jinja_parse_expression(p, &part));
            TRY(jinja_append(p, &tuple->items, part));
        }
        n->b = tuple;
    }
    *out = n;
    return jinja_expect_op(p, "]");
}

static status parse_dot(jinja_parser *p, jinja_node **out) {
    jinja_node *n = NULL;
    p->at++;
    if (p->at->kind == JINJA_T_INT) {
        TRY(make(p, JINJA_GETITEM, *out, NULL, &n));
        TRY(make(p, JINJA_CONST, NULL, NULL, &n->b));
        n->b->value = jinja_int(p->at++->i);
    } else {
        TRY(make(p, JINJA_GETATTR, *out, NULL, &n));
        TRY(jinja_expect_name(p, &n->name));
    }
    *out = n;
    return STATUS_OK;
}

static status parse_postfix(jinja_parser *p, jinja_node **out) {
    for (;;) {
        if (jinja_at_op(p, ".")) {
            TRY(parse_dot(p, out));
        } else if (jinja_at_op(p, "[")) {
            TRY(parse_brackets(p, out));
        } else if (jinja_at_op(p, "(")) {
            TRY(parse_call(p, *out, out));
        } else {
            return STATUS_OK;
        }
    }
}

static status parse_unary(jinja_parser *p, bool with_filter, jinja_node **out) {
    if (jinja_at_op(p, "-") || jinja_at_op(p, "+")) {
        TRY(jinja_enter(p));
        TRY(make(p, JINJA_UNARY, NULL, NULL, out));
        (*out)->name = p->at++->text;
        TRY(parse_unary(p, false, &(*out)->a));
        p->depth--;
    } else {
        TRY(parse_primary(p, false, out));
    }
    TRY(parse_postfix(p, out));
    return with_filter ? parse_filter_chain(p, out) : STATUS_OK;
}

static status parse_name(jinja_parser *p, bool with_namespace, jinja_node **out) {
    str name = p->at->text;
    jinja_node *n = NULL;
    TRY(make(p, JINJA_CONST, NULL, NULL, &n));
    p->at++;
    *out = n;
    if (str_is(name, "true") || str_is(name, "True")) return n->value = jinja_bool(true), STATUS_OK;
    if (str_is(name, "false") || str_is(name, "False")) return n->value = jinja_bool(false), STATUS_OK;
    if (str_is(name, "none") || str_is(name, "None")) return n->value = jinja_none(), STATUS_OK;
    n->kind = JINJA_NAME;
    n->name = name;
    if (p->macro) {
        p->macro->uses_varargs |= str_is(name, "varargs");
        p->macro->uses_kwargs |= str_is(name, "kwargs");
        p->macro->uses_caller |= str_is(name, "caller");
    }
    if (with_namespace && jinja_skip_op(p, ".")) {
        n->kind = JINJA_NSREF;
        str attr;
        TRY(jinja_expect_name(p, &attr));
        n->value = jinja_text(attr, true);
    }
    return STATUS_OK;
}

static status parse_strings(jinja_parser *p, jinja_node **out) {
    TRY(make(p, JINJA_CONST, NULL, NULL, out));
    size_t len = 0, at = 0;
    for (const jinja_token *t = p->at; t->kind == JINJA_T_STRING; t++) len += t->text.len;
    char *data = arena_alloc(p->mem, len + 1);
    if (!data) return error_no_memory(p->err, len + 1);
    for (; p->at->kind == JINJA_T_STRING; p->at++) {
        memcpy(data + at, p->at->text.data, p->at->text.len);
        at += p->at->text.len;
    }
    (*out)->value = jinja_text((str){data, len}, true);
    return STATUS_OK;
}

static status parse_list(jinja_parser *p, jinja_node **out) {
    TRY(make(p, JINJA_LIST_OF, NULL, NULL, out));
    p->at++;
    while (!jinja_at_op(p, "]")) {
        jinja_node *item = NULL;
        if ((*out)->items.n) TRY(jinja_expect_op(p, ","));
        if (jinja_at_op(p, "]")) break;
        TRY(jinja_parse_expression(p, &item));
        TRY(jinja_append(p, &(*out)->items, item));
    }
    return jinja_expect_op(p, "]");
}

static status parse_dict(jinja_parser *p, jinja_node **out) {
    TRY(make(p, JINJA_DICT_OF, NULL, NULL, out));
    p->at++;
    while (!jinja_at_op(p, "}")) {
        jinja_node *item = NULL;
        if ((*out)->items.n) TRY(jinja_expect_op(p, ","));
        if (jinja_at_op(p, "}")) break;
        TRY(jinja_parse_expression(p, &item));
        TRY(jinja_append(p, &(*out)->items, item));
        TRY(jinja_expect_op(p, ":"));
        TRY(jinja_parse_expression(p, &item));
        TRY(jinja_append(p, &(*out)->items, item));
    }
    return jinja_expect_op(p, "}");
}

typedef enum tuple_mode { TUPLE_EXPRESSIONS, TUPLE_NO_CONDITION, TUPLE_TARGETS, TUPLE_NS_TARGETS } tuple_mode;

static bool tuple_ends(const jinja_parser *p, tuple_mode mode) {
    jinja_token_kind k = p->at->kind;
    if (k == JINJA_T_VARIABLE_END || k == JINJA_T_BLOCK_END || jinja_at_op(p, ")")) return true;
    return (mode == TUPLE_TARGETS && jinja_at_name(p, "in")) ||
           (mode == TUPLE_NO_CONDITION && jinja_at_name(p, "recursive"));
}

// One element, or with a comma a tuple; `brackets`: () is the empty tuple.
static status parse_tuple(jinja_parser *p, tuple_mode mode, bool brackets, jinja_node **out) {
    jinja_list items = {0};
    bool is_tuple = false;
    for (;;) {
        if (items.n) TRY(jinja_expect_op(p, ","));
        if (tuple_ends(p, mode)) break;
        jinja_node *item = NULL;
        if (mode == TUPLE_EXPRESSIONS) {
            TRY(jinja_parse_expression(p, &item));
        } else if (mode == TUPLE_NO_CONDITION) {
            TRY(jinja_parse_no_condition(p, &item));
        } else {
            TRY(parse_primary(p, mode == TUPLE_NS_TARGETS, &item));
        }
        TRY(jinja_append(p, &items, item));
        if (!jinja_at_op(p, ",")) break;
        is_tuple = true;
    }
    if (!is_tuple && items.n) return *out = items.items[0], STATUS_OK;
    if (!is_tuple && !brackets) return jinja_syntax(p, "an expression is missing");
    TRY(make(p, JINJA_TUPLE_OF, NULL, NULL, out));
    (*out)->items = items;
    return STATUS_OK;
}

static status parse_primary(jinja_parser *p, bool with_namespace, jinja_node **out) {
    switch (p->at->kind) {
    case JINJA_T_NAME: return parse_name(p, with_namespace, out);
    case JINJA_T_STRING: return parse_strings(p, out);
    case JINJA_T_INT:
        TRY(make(p, JINJA_CONST, NULL, NULL, out));
        (*out)->value = jinja_int(p->at++->i);
        return STATUS_OK;
    case JINJA_T_FLOAT:
        TRY(make(p, JINJA_CONST, NULL, NULL, out));
        (*out)->value = jinja_float(p->at++->f);
        return STATUS_OK;
    default: break;
    }
    if (jinja_at_op(p, "[")) return parse_list(p, out);
    if (jinja_at_op(p, "{")) return parse_dict(p, out);
    if (!jinja_skip_op(p, "(")) return jinja_syntax(p, "an expression is missing");
    TRY(jinja_enter(p));
    TRY(parse_tuple(p, TUPLE_EXPRESSIONS, true, out));
    p->depth--;
    return jinja_expect_op(p, ")");
}

status jinja_parse_tuple(jinja_parser *p, bool with_condition, jinja_node **out) {
    return parse_tuple(p, with_condition ? TUPLE_EXPRESSIONS : TUPLE_NO_CONDITION, false, out);
}

static bool assignable(const jinja_node *n) {
    if (n->kind == JINJA_NAME || n->kind == JINJA_NSREF) return true;
    if (n->kind != JINJA_TUPLE_OF) return false;
    for (size_t i = 0; i < n->items.n; i++) {
        if (!assignable(n->items.items[i])) return false;
    }
    return true;
}

status jinja_parse_target(jinja_parser *p, bool with_namespace, jinja_node **out) {
    TRY(parse_tuple(p, with_namespace ? TUPLE_NS_TARGETS : TUPLE_TARGETS, false, out));
    return assignable(*out) ? STATUS_OK : jinja_syntax(p, "what stands left of the assignment cannot be assigned to");
}
