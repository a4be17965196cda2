// Operators, with Python's rules: comparison, membership, arithmetic.
#include <math.h>

#include "text/jinja_run.h"

// Compares an integer with a float exactly: -1, 0, 1, or 2 if f is NaN.
static int compare_int_float(int64_t i, double f) {
    if (isnan(f)) return 2;
    if (f >= 9223372036854775808.0) return -1;
    if (f < -9223372036854775808.0) return 1;
    double whole = floor(f);
    int64_t w = (int64_t)whole;
    if (i != w) return i < w ? -1 : 1;
    return f > whole ? -1 : 0;
}

// The order of two numbers as above; false if one is no number.
static bool compare_numbers(const jinja_value *a, const jinja_value *b, int *order) {
    int64_t i, j;
    double f, g;
    bool ai = jinja_as_int(a, &i), bi = jinja_as_int(b, &j);
    if (!jinja_as_float(a, &f) || !jinja_as_float(b, &g)) return false;
    if (ai && bi) {
        *order = i < j ? -1 : i > j;
    } else if (ai) {
        *order = compare_int_float(i, g);
    } else if (bi) {
        *order = compare_int_float(j, f);
        if (*order != 2) *order = -*order;
    } else {
        *order = isnan(f) || isnan(g) ? 2 : f < g ? -1 : f > g;
    }
    return true;
}

static int compare_text(str a, str b) {
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n ? memcmp(a.data, b.data, n) : 0;
    if (c) return c < 0 ? -1 : 1;
    return a.len < b.len ? -1 : a.len > b.len;
}

static status deeper(jinja_run *r) {
    if (++r->depth <= JINJA_MAX_DEPTH) return jinja_step(r, 1);
    return jinja_fail(r, STATUS_UNSUPPORTED, "a value is nested more than %d levels deep", JINJA_MAX_DEPTH);
}

static status equal_seqs(jinja_run *r, const jinja_seq *a, const jinja_seq *b, bool *out) {
    *out = a == b;
    if (*out || a->kind != b->kind || a->kind == JINJA_ITERATOR || a->kind == JINJA_VALUES || a->n != b->n)
        return STATUS_OK;
    *out = true;
    for (size_t i = 0; *out && i < a->n; i++) TRY(jinja_equal(r, &a->items[i], &b->items[i], out));
    return STATUS_OK;
}

static status equal_dicts(jinja_run *r, const jinja_dict *a, const jinja_dict *b, bool *out) {
    *out = a == b;
    if (*out || a->n != b->n) return STATUS_OK;
    for (size_t i = 0; i < a->n; i++) {
        bool found = false;
        TRY(jinja_step(r, b->n / 8));
        for (size_t j = 0; !found && j < b->n; j++) {
            TRY(jinja_equal(r, &a->keys[i], &b->keys[j], &found));
            if (found) TRY(jinja_equal(r, &a->values[i], &b->values[j], out));
        }
        if (!found || !*out) return *out = false, STATUS_OK;
    }
    *out = true;
    return STATUS_OK;
}

static status equal_values(jinja_run *r, const jinja_value *a, const jinja_value *b, bool *out) {
    int order;
    *out = false;
    if (compare_numbers(a, b, &order)) return *out = order == 0, STATUS_OK;
    if (a->type != b->type) return STATUS_OK;
    switch ((jinja_type)a->type) {
    case JINJA_STRING: *out = str_eq(jinja_str(a), jinja_str(b)); return jinja_step(r, jinja_str(a).len / 64);
    case JINJA_SEQ: return equal_seqs(r, a->u.seq, b->u.seq, out);
    case JINJA_DICT: return equal_dicts(r, a->u.dict, b->u.dict, out);
    case JINJA_NAMESPACE: *out = a->u.dict == b->u.dict; return STATUS_OK;
    case JINJA_LOOP: *out = a->u.loop == b->u.loop; return STATUS_OK;
    case JINJA_CALLABLE: *out = a->u.callable == b->u.callable; return STATUS_OK;
    default: *out = true; return STATUS_OK; // undefined, none
    }
}

status jinja_equal(jinja_run *r, const jinja_value *a, const jinja_value *b, bool *out) {
    TRY(deeper(r));
    TRY(equal_values(r, a, b, out));
    r->depth--;
    return STATUS_OK;
}

static status less_values(jinja_run *r, const jinja_value *a, const jinja_value *b, bool *out) {
    int order;
    if (a->type == JINJA_UNDEFINED) return jinja_fail_undefined(r, a);
    if (b->type == JINJA_UNDEFINED) return jinja_fail_undefined(r, b);
    if (compare_numbers(a, b, &order)) return *out = order == -1, STATUS_OK;
    if (a->type == JINJA_STRING && b->type == JINJA_STRING) {
        return *out = compare_text(jinja_str(a), jinja_str(b)) < 0, STATUS_OK;
    }
    if (a->type == JINJA_SEQ && b->type == JINJA_SEQ && a->u.seq->kind == b->u.seq->kind &&
        a->u.seq->kind <= JINJA_TUPLE) {
        const jinja_seq *x = a->u.seq, *y = b->u.seq;
        for (size_t i = 0; i < x->n && i < y->n; i++) {
            bool same;
            TRY(jinja_equal(r, &x->items[i], &y->items[i], &same));
            if (!same) return jinja_less(r, &x->items[i], &y->items[i], out);
        }
        return *out = x->n < y->n, STATUS_OK;
    }
    return jinja_fail(r, STATUS_BAD_ARGUMENT, "a %s and a %s have no order", jinja_type_name(a), jinja_type_name(b));
}

status jinja_less(jinja_run *r, const jinja_value *a, const jinja_value *b, bool *out) {
    TRY(deeper(r));
    TRY(less_values(r, a, b, out));
    r->depth--;
    return STATUS_OK;
}

status jinja_contains(jinja_run *r, const jinja_value *item, const jinja_value *in, bool *out) {
    *out = false;
    if (in->type == JINJA_STRING) {
        if (item->type == JINJA_UNDEFINED) return jinja_fail_undefined(r, item);
        if (item->type != JINJA_STRING) {
            return jinja_fail(r, STATUS_BAD_ARGUMENT, "'in' a string needs a string on its left, not a %s",
                              jinja_type_name(item));
        }
        TRY(jinja_step(r, in->u.s.len / 64));
        *out = jinja_find(jinja_str(in), jinja_str(item), 0) >= 0;
        return STATUS_OK;
    }
    jinja_value *items = NULL;
    size_t n, i = 0;
    if (in->type == JINJA_DICT && !jinja_hashable(item)) {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "a %s cannot be the key of a dict", jinja_type_name(item));
    }
    if (in->type == JINJA_DICT) {
        items = in->u.dict->keys;
        n = in->u.dict->n;
    } else if (in->type == JINJA_SEQ) {
        items = in->u.seq->items;
        n = in->u.seq->n;
        if (in->u.seq->kind == JINJA_ITERATOR) i = in->u.seq->next;
    } else if (in->type == JINJA_UNDEFINED) {
        return STATUS_OK;
    } else {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "'in' needs a string, list or dict on its right, not a %s",
                          jinja_type_name(in));
    }
    while (!*out && i < n) TRY(jinja_equal(r, item, &items[i++], out));
    if (jinja_is_seq(in, JINJA_ITERATOR)) in->u.seq->next = i;
    return STATUS_OK;
}

status jinja_compare(jinja_run *r, str op, const jinja_value *a, const jinja_value *b, bool *out) {
    bool less, same;
    int order;
    if (str_is(op, "==")) return jinja_equal(r, a, b, out);
    if (str_is(op, "in")) return jinja_contains(r, a, b, out);
    if (str_is(op, "!=") || str_is(op, "not in")) {
        TRY(op.data[0] == '!' ? jinja_equal(r, a, b, &same) : jinja_contains(r, a, b, &same));
        *out = !same;
        return STATUS_OK;
    }
    bool swap = op.data[0] == '>';
    if (swap) {
        const jinja_value *t = a;
        a = b;
        b = t;
    }
    if (compare_numbers(a, b, &order)) {
        *out = order == -1 || (op.len == 2 && order == 0);
        return STATUS_OK;
    }
    TRY(jinja_less(r, a, b, &less));
    *out = less;
    if (!less && op.len == 2) TRY(jinja_equal(r, a, b, out));
    return STATUS_OK;
}

static status overflow(jinja_run *r) {
    return jinja_fail(r, STATUS_UNSUPPORTED, "the result of an integer operation does not fit 64 bits");
}

static status divide_by_zero(jinja_run *r) { return jinja_fail(r, STATUS_BAD_ARGUMENT, "division by zero"); }

static status power_int(jinja_run *r, int64_t base, int64_t exponent, int64_t *out) {
    int64_t result = 1;
    while (exponent > 0) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) return overflow(r);
        exponent >>= 1;
        if (exponent && __builtin_mul_overflow(base, base, &base)) return overflow(r);
    }
    *out = result;
    return STATUS_OK;
}

static status int_binary(jinja_run *r, str op, int64_t a, int64_t b, jinja_value *out) {
    int64_t v = 0;
    bool bad = false;
    switch (op.data[0]) {
    case '+': bad = __builtin_add_overflow(a, b, &v); break;
    case '-': bad = __builtin_sub_overflow(a, b, &v); break;
    case '*':
        if (op.len == 2) {
            TRY(power_int(r, a, b, &v));
        } else {
            bad = __builtin_mul_overflow(a, b, &v);
        }
        break;
    default: // '/' is "//" here, or '%': rounded towards minus infinity
        if (b == 0) return divide_by_zero(r);
        if (b == -1) {
            bad = op.data[0] == '/' && __builtin_sub_overflow(0, a, &v);
        } else if (op.data[0] == '/') {
            v = a / b - (a % b != 0 && (a < 0) != (b < 0));
        } else {
            v = a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
        }
    }
    if (bad) return overflow(r);
    *out = jinja_int(v);
    return STATUS_OK;
}

static status float_binary(jinja_run *r, str op, double a, double b, jinja_value *out) {
    double v;
    switch (op.data[0]) {
    case '+': v = a + b; break;
    case '-': v = a - b; break;
    case '*':
        if (op.len == 1) {
            v = a * b;
            break;
        }
        if (a == 0 && b < 0) return divide_by_zero(r);
        v = pow(a, b);
        if (isnan(v) && !isnan(a) && !isnan(b))
            return jinja_fail(r, STATUS_UNSUPPORTED, "a power has a complex result");
        if (isinf(v) && isfinite(a) && isfinite(b)) return jinja_fail(r, STATUS_BAD_ARGUMENT, "a power is too large");
        break;
    default:
        if (b == 0) return divide_by_zero(r);
        if (op.data[0] == '/' && op.len == 1) {
            v = a / b;
        } else {
            double mod = fmod(a, b), div = (a - mod) / b;
            if (mod != 0 && (b < 0) != (mod < 0)) {
                mod += b;
                div -= 1;
            } else if (mod == 0) {
                mod = copysign(0.0, b);
            }
            double whole = floor(div);
            if (div != 0 && div - whole > 0.5) whole += 1;
            if (div == 0) whole = copysign(0.0, a / b);
            v = op.data[0] == '%' ? mod : whole;
        }
    }
    *out = jinja_float(v);
    return STATUS_OK;
}

static status repeat(jinja_run *r, const jinja_value *v, int64_t times, jinja_value *out) {
    size_t n = times > 0 ? (size_t)times : 0, len = v->type == JINJA_STRING ? v->u.s.len : v->u.seq->n;
    if (len && n > (JINJA_MAX_OUTPUT) / len)
        return jinja_fail(r, STATUS_UNSUPPORTED, "a repetition makes more than 64 MB");
    if (!len) n = 0;
    if (v->type == JINJA_STRING) {
        size_t mark = r->text->len;
        TRY(jinja_step(r, n));
        for (size_t i = 0; i < n; i++) TRY(jinja_put_string(r, v));
        TRY(jinja_take(r, mark, out));
        out->markup = v->markup;
        return STATUS_OK;
    }
    TRY(jinja_make_seq(r, v->u.seq->kind, n * len, out));
    for (size_t i = 0; i < n; i++) memcpy(out->u.seq->items + i * len, v->u.seq->items, len * sizeof *v->u.seq->items);
    out->trusted = v->trusted;
    return STATUS_OK;
}

static status add_seqs(jinja_run *r, const jinja_value *a, const jinja_value *b, jinja_value *out) {
    const jinja_seq *x = a->u.seq, *y = b->u.seq;
    TRY(jinja_make_seq(r, x->kind, x->n + y->n, out));
    if (x->n) memcpy(out->u.seq->items, x->items, x->n * sizeof *x->items);
    if (y->n) memcpy(out->u.seq->items + x->n, y->items, y->n * sizeof *y->items);
    out->trusted = a->trusted && b->trusted;
    return STATUS_OK;
}

static status add_strings(jinja_run *r, const jinja_value *a, const jinja_value *b, jinja_value *out) {
    jinja_value left = *a, right = *b;
    bool markup = a->markup || b->markup;
    if (markup && !a->markup) TRY(jinja_apply_filter(r, STR("escape"), a, &(jinja_args){0}, &left));
    if (markup && !b->markup) TRY(jinja_apply_filter(r, STR("escape"), b, &(jinja_args){0}, &right));
    size_t mark = r->text->len;
    TRY(jinja_put_string(r, &left));
    TRY(jinja_put_string(r, &right));
    TRY(jinja_take(r, mark, out));
    out->markup = markup;
    return STATUS_OK;
}

static bool plain_seq(const jinja_value *v) { return v->type == JINJA_SEQ && v->u.seq->kind <= JINJA_TUPLE; }

status jinja_binary(jinja_run *r, str op, const jinja_value *a, const jinja_value *b, jinja_value *out) {
    int64_t i, j;
    double f, g;
    if (a->type == JINJA_STRING && op.data[0] == '%') return jinja_percent(r, a, b, out);
    if (a->type == JINJA_UNDEFINED) return jinja_fail_undefined(r, a);
    if (b->type == JINJA_UNDEFINED) return jinja_fail_undefined(r, b);
    bool ints = jinja_as_int(a, &i) && jinja_as_int(b, &j), true_division = op.data[0] == '/' && op.len == 1;
    bool fraction = op.data[0] == '*' && op.len == 2 && ints && j < 0;
    if (ints && !true_division && !fraction) {
        TRY(int_binary(r, op, i, j, out));
        out->trusted = a->trusted && b->trusted;
        return STATUS_OK;
    }
    if (jinja_as_float(a, &f) && jinja_as_float(b, &g)) {
        TRY(float_binary(r, op, f, g, out));
        out->trusted = a->trusted && b->trusted;
        return STATUS_OK;
    }
    if (op.data[0] == '+') {
        if (a->type == JINJA_STRING && b->type == JINJA_STRING) return add_strings(r, a, b, out);
        if (plain_seq(a) && plain_seq(b) && a->u.seq->kind == b->u.seq->kind) return add_seqs(r, a, b, out);
    }
    if (op.data[0] == '*' && op.len == 1) {
        if ((a->type == JINJA_STRING || plain_seq(a)) && jinja_as_int(b, &j)) return repeat(r, a, j, out);
        if ((b->type == JINJA_STRING || plain_seq(b)) && jinja_as_int(a, &i)) return repeat(r, b, i, out);
    }
    return jinja_fail(r, STATUS_BAD_ARGUMENT, "the operator %.*s does not take a %s and a %s", STR_ARG(op),
                      jinja_type_name(a), jinja_type_name(b));
}

status jinja_unary(jinja_run *r, str op, const jinja_value *a, jinja_value *out) {
    int64_t i;
    bool minus = op.data[0] == '-';
    if (a->type == JINJA_UNDEFINED) return jinja_fail_undefined(r, a);
    if (a->type == JINJA_FLOAT) {
        *out = jinja_float(minus ? -a->u.f : a->u.f);
    } else if (jinja_as_int(a, &i)) {
        if (minus && i == INT64_MIN) return overflow(r);
        *out = jinja_int(minus ? -i : i);
    } else {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "the sign %.*s does not go before a %s", STR_ARG(op),
                          jinja_type_name(a));
    }
    out->trusted = a->trusted;
    return STATUS_OK;
}
