// Tests: what stands behind `is`.
#include "text/jinja_run.h"

static const char *const known[] = {
    "boolean",  "callable", "defined",  "divisibleby", "eq",          "equalto", "escaped", "even",
    "false",    "filter",   "float",    "ge",          "greaterthan", "gt",      "in",      "integer",
    "iterable", "le",       "lessthan", "lower",       "lt",          "mapping", "ne",      "none",
    "number",   "odd",      "sameas",   "sequence",    "string",      "test",    "true",    "undefined",
    "upper",    "==",       "!=",       ">",           ">=",          "<",       "<=",
};

bool jinja_has_test(str name) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (str_is(name, known[i])) return true;
    }
    return false;
}

// The operator of a comparing test, or "".
static str operator_of(str name) {
    static const char *const names[][2] = {
        {"eq", "=="}, {"equalto", "=="}, {"ne", "!="}, {"gt", ">"},  {"greaterthan", ">"}, {"ge", ">="},
        {"lt", "<"},  {"lessthan", "<"}, {"le", "<="}, {"in", "in"}, {"==", "=="},         {"!=", "!="},
        {">", ">"},   {">=", ">="},      {"<", "<"},   {"<=", "<="},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (str_is(name, names[i][0])) return str_from(names[i][1]);
    }
    return (str){"", 0};
}

static status divides(jinja_run *r, const jinja_value *v, int64_t by, int64_t rest, bool *out) {
    jinja_value divisor = jinja_int(by), remainder = jinja_int(rest), m;
    TRY(jinja_binary(r, STR("%"), v, &divisor, &m));
    return jinja_equal(r, &m, &remainder, out);
}

static bool same_object(const jinja_value *a, const jinja_value *b) {
    if (a->type != b->type) return false;
    switch ((jinja_type)a->type) {
    case JINJA_BOOL: return a->u.b == b->u.b;
    case JINJA_INT: return a->u.i == b->u.i;
    case JINJA_FLOAT: return a->u.f == b->u.f;
    case JINJA_STRING: return str_eq(jinja_str(a), jinja_str(b));
    case JINJA_SEQ: return a->u.seq == b->u.seq;
    case JINJA_DICT:
    case JINJA_NAMESPACE: return a->u.dict == b->u.dict;
    default: return a->type != JINJA_UNDEFINED;
    }
}

static status case_test(jinja_run *r, const jinja_value *v, const char *method, bool *out) {
    jinja_value s, yes;
    TRY(jinja_to_string(r, v, &s));
    TRY(jinja_call_method(r, &s, str_from(method), &(jinja_args){0}, &yes));
    *out = yes.u.b;
    return STATUS_OK;
}

// Tests of the type alone; false: the name is none of them.
static bool type_test(str name, const jinja_value *v, bool *out) {
    jinja_type t = (jinja_type)v->type;
    bool number = t == JINJA_INT || t == JINJA_FLOAT || t == JINJA_BOOL;
    bool has_items = t == JINJA_STRING || t == JINJA_DICT || t == JINJA_UNDEFINED || t == JINJA_SEQ;
    if (str_is(name, "defined")) return *out = t != JINJA_UNDEFINED, true;
    if (str_is(name, "undefined")) return *out = t == JINJA_UNDEFINED, true;
    if (str_is(name, "none")) return *out = t == JINJA_NONE, true;
    if (str_is(name, "boolean")) return *out = t == JINJA_BOOL, true;
    if (str_is(name, "true")) return *out = t == JINJA_BOOL && v->u.b, true;
    if (str_is(name, "false")) return *out = t == JINJA_BOOL && !v->u.b, true;
    if (str_is(name, "integer")) return *out = t == JINJA_INT, true;
    if (str_is(name, "float")) return *out = t == JINJA_FLOAT, true;
    if (str_is(name, "number")) return *out = number, true;
    if (str_is(name, "string")) return *out = t == JINJA_STRING, true;
    if (str_is(name, "mapping")) return *out = t == JINJA_DICT, true;
    if (str_is(name, "iterable")) return *out = has_items || t == JINJA_LOOP, true;
    if (str_is(name, "sequence")) return *out = has_items && !(t == JINJA_SEQ && v->u.seq->kind > JINJA_RANGE), true;
    if (str_is(name, "callable")) return *out = t == JINJA_CALLABLE || t == JINJA_UNDEFINED || t == JINJA_LOOP, true;
    if (str_is(name, "escaped")) return *out = t == JINJA_STRING && v->markup, true;
    return false;
}

status jinja_apply_test(jinja_run *r, str name, const jinja_value *v, const jinja_args *args, bool *out) {
    jinja_value a = {.type = JINJA_MISSING};
    static const char *const none[] = {""};
    if (!jinja_has_test(name)) {
        return jinja_fail(r, STATUS_UNSUPPORTED, "the test '%.*s' is not supported",
                          name.len > 100 ? 100 : (int)name.len, name.data);
    }
    bool plain = type_test(name, v, out);
    bool alone = plain || str_is(name, "odd") || str_is(name, "even") || str_is(name, "lower") ||
                 str_is(name, "upper") || str_is(name, "filter") || str_is(name, "test");
    if (str_is(name, "divisibleby") && args->n_named == 1 && str_is(args->names[0], "num") && args->n == 0) {
        a = args->named[0];
    } else {
        TRY(jinja_bind(r, "the test", args, none, alone ? 0 : 1, &a));
    }
    if (!alone && a.type == JINJA_MISSING) {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "the test '%.*s' needs an argument", STR_ARG(name));
    }
    if (plain) return STATUS_OK;
    if (str_is(name, "odd")) return divides(r, v, 2, 1, out);
    if (str_is(name, "even")) return divides(r, v, 2, 0, out);
    if (str_is(name, "lower")) return case_test(r, v, "islower", out);
    if (str_is(name, "upper")) return case_test(r, v, "isupper", out);
    if (str_is(name, "sameas")) return *out = same_object(v, &a), STATUS_OK;
    if (str_is(name, "filter") || str_is(name, "test")) {
        bool is_name = v->type == JINJA_STRING;
        *out = is_name && (name.data[0] == 'f' ? jinja_has_filter(jinja_str(v)) : jinja_has_test(jinja_str(v)));
        return STATUS_OK;
    }
    if (str_is(name, "divisibleby")) {
        jinja_value m, zero = jinja_int(0);
        TRY(jinja_binary(r, STR("%"), v, &a, &m));
        return jinja_equal(r, &m, &zero, out);
    }
    return jinja_compare(r, operator_of(name), v, &a, out);
}
