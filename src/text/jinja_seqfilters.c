// Filters of sequences and dicts.
#include "text/jinja_run.h"

#define FILTER(name) \
    static status f_##name(jinja_run *r, const jinja_value *v, const jinja_args *args, jinja_value *out)

// A new list or iterator over the same items.
static status wrap(jinja_run *r, jinja_seq_kind kind, const jinja_seq *items, jinja_value *out) {
    TRY(jinja_make_seq(r, kind, items->n, out));
    if (items->n) memcpy(out->u.seq->items, items->items, items->n * sizeof *items->items);
    return STATUS_OK;
}

FILTER(length) {
    TRY(jinja_bind(r, "length", args, NULL, 0, NULL));
    bool found;
    switch ((jinja_type)v->type) {
    case JINJA_UNDEFINED: *out = jinja_int(0); return STATUS_OK;
    case JINJA_STRING:
        TRY(jinja_step(r, v->u.s.len / 32));
        *out = jinja_int((int64_t)jinja_count(jinja_str(v)));
        return STATUS_OK;
    case JINJA_DICT: *out = jinja_int((int64_t)v->u.dict->n); return STATUS_OK;
    case JINJA_LOOP: return jinja_loop_attr(r, v->u.loop, STR("length"), &found, out);
    case JINJA_SEQ:
        if (v->u.seq->kind == JINJA_ITERATOR) break;
        *out = jinja_int((int64_t)v->u.seq->n);
        return STATUS_OK;
    default: break;
    }
    return jinja_fail(r, STATUS_BAD_ARGUMENT, "a %s has no length", jinja_type_name(v));
}

FILTER(list) {
    jinja_seq items;
    TRY(jinja_bind(r, "list", args, NULL, 0, NULL));
    TRY(jinja_items(r, v, &items));
    TRY(wrap(r, JINJA_LIST, &items, out));
    out->trusted = v->trusted;
    return STATUS_OK;
}

FILTER(first) {
    TRY(jinja_bind(r, "first", args, NULL, 0, NULL));
    jinja_seq items;
    if (jinja_is_seq(v, JINJA_ITERATOR)) { // takes one item and leaves the rest
        jinja_seq *s = v->u.seq;
        if (s->next < s->n) return *out = s->items[s->next++], STATUS_OK;
        return jinja_make_undefined(r, "No first item, sequence was empty.", NULL, (str){0}, out);
    }
    TRY(jinja_items(r, v, &items));
    if (!items.n) return jinja_make_undefined(r, "No first item, sequence was empty.", NULL, (str){0}, out);
    *out = items.items[0];
    return STATUS_OK;
}

FILTER(last) {
    TRY(jinja_bind(r, "last", args, NULL, 0, NULL));
    jinja_seq items;
    if (jinja_is_seq(v, JINJA_ITERATOR)) return jinja_fail(r, STATUS_BAD_ARGUMENT, "last does not take a generator");
    TRY(jinja_items(r, v, &items));
    if (!items.n) return jinja_make_undefined(r, "No last item, sequence was empty.", NULL, (str){0}, out);
    *out = items.items[items.n - 1];
    return STATUS_OK;
}

FILTER(reverse) {
    jinja_seq items;
    TRY(jinja_bind(r, "reverse", args, NULL, 0, NULL));
    if (v->type == JINJA_STRING) {
        jinja_value bounds[3] = {jinja_none(), jinja_none(), jinja_int(-1)};
        return jinja_slice(r, v, bounds, out);
    }
    TRY(jinja_items(r, v, &items));
    TRY(jinja_make_seq(r, jinja_is_seq(v, JINJA_ITERATOR) ? JINJA_LIST : JINJA_ITERATOR, items.n, out));
    for (size_t i = 0; i < items.n; i++) out->u.seq->items[i] = items.items[items.n - 1 - i];
    return STATUS_OK;
}

FILTER(join) {
    static const char *const names[] = {"d", "attribute"};
    jinja_value a[2], part;
    jinja_seq items;
    TRY(jinja_bind(r, "join", args, names, 2, a));
    if (a[0].type == JINJA_MISSING) a[0] = jinja_text(STR(""), true);
    TRY(jinja_items(r, v, &items));
    if (a[1].type == JINJA_MISSING || a[1].type == JINJA_NONE) return jinja_join(r, &a[0], &items, out);
    TRY(jinja_make_seq(r, JINJA_LIST, items.n, &part));
    for (size_t i = 0; i < items.n; i++) TRY(jinja_path(r, &items.items[i], &a[1], NULL, &part.u.seq->items[i]));
    return jinja_join(r, &a[0], part.u.seq, out);
}

FILTER(items) {
    TRY(jinja_bind(r, "items", args, NULL, 0, NULL));
    if (v->type == JINJA_UNDEFINED) return jinja_make_seq(r, JINJA_ITERATOR, 0, out);
    if (v->type != JINJA_DICT) return jinja_fail(r, STATUS_BAD_ARGUMENT, "Can only get item pairs from a mapping.");
    TRY(jinja_call_method(r, v, STR("items"), args, out));
    out->u.seq->kind = JINJA_ITERATOR;
    return STATUS_OK;
}

typedef struct sort_item {
    jinja_value key, value;
} sort_item;

// Stable merge sort; `scratch` has room for n. With `reverse`, larger first, equal ones still in their order.
static status merge_sort(jinja_run *r, sort_item *items, sort_item *scratch, size_t n, bool reverse) {
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t from = 0; from < n; from += 2 * width) {
            size_t mid = from + width < n ? from + width : n, end = from + 2 * width < n ? from + 2 * width : n;
            size_t i = from, j = mid, k = from;
            while (i < mid && j < end) {
                bool swap;
                TRY(reverse ? jinja_less(r, &items[i].key, &items[j].key, &swap)
                            : jinja_less(r, &items[j].key, &items[i].key, &swap));
                scratch[k++] = swap ? items[j++] : items[i++];
            }
            while (i < mid) scratch[k++] = items[i++];
            while (j < end) scratch[k++] = items[j++];
        }
        memcpy(items, scratch, n * sizeof *items);
    }
    return STATUS_OK;
}

// The value by which an item is compared: lower case unless case counts.
static status fold(jinja_run *r, bool case_sensitive, jinja_value *key) {
    if (case_sensitive || key->type != JINJA_STRING) return STATUS_OK;
    return jinja_change_case(r, key, "lower", key);
}

// The key of one item by `attribute`, which may name several, with commas: always a list, so that equal values need no order.
static status sort_key(jinja_run *r, const jinja_value *item, const jinja_value *attribute, bool case_sensitive,
                       jinja_value *out) {
    jinja_value names, comma = jinja_text(STR(","), true);
    if (attribute->type == JINJA_STRING) {
        TRY(jinja_split(r, attribute, &comma, -1, &names));
    } else {
        TRY(jinja_make_seq(r, JINJA_LIST, 1, &names));
        names.u.seq->items[0] = *attribute;
    }
    TRY(jinja_make_seq(r, JINJA_LIST, names.u.seq->n, out));
    for (size_t i = 0; i < names.u.seq->n; i++) {
        TRY(jinja_path(r, item, &names.u.seq->items[i], NULL, &out->u.seq->items[i]));
        TRY(fold(r, case_sensitive, &out->u.seq->items[i]));
    }
    return STATUS_OK;
}

static status sorted(jinja_run *r, sort_item *items, size_t n, bool reverse, jinja_value *out) {
    sort_item *scratch = NULL;
    TRY(jinja_alloc(r, n, sizeof *scratch, &scratch));
    TRY(merge_sort(r, items, scratch, n, reverse));
    TRY(jinja_make_seq(r, JINJA_LIST, n, out));
    for (size_t i = 0; i < n; i++) out->u.seq->items[i] = items[i].value;
    return STATUS_OK;
}

FILTER(sort) {
    static const char *const names[] = {"reverse", "case_sensitive", "attribute"};
    jinja_value a[3];
    jinja_seq items;
    sort_item *s = NULL;
    TRY(jinja_bind(r, "sort", args, names, 3, a));
    TRY(jinja_items(r, v, &items));
    TRY(jinja_alloc(r, items.n, sizeof *s, &s));
    for (size_t i = 0; i < items.n; i++) {
        s[i].value = items.items[i];
        TRY(sort_key(r, &items.items[i], &a[2], jinja_truth(&a[1]), &s[i].key));
    }
    return sorted(r, s, items.n, jinja_truth(&a[0]), out);
}

FILTER(dictsort) {
    static const char *const names[] = {"case_sensitive", "by", "reverse"};
    jinja_value a[3], pairs;
    sort_item *s = NULL;
    TRY(jinja_bind(r, "dictsort", args, names, 3, a));
    if (v->type == JINJA_UNDEFINED) return jinja_fail_undefined(r, v);
    if (v->type != JINJA_DICT)
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "dictsort takes a dict, not a %s", jinja_type_name(v));
    str by = a[1].type == JINJA_STRING ? jinja_str(&a[1]) : STR("key");
    if (!str_is(by, "key") && !str_is(by, "value"))
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "dictsort: by is 'key' or 'value'");
    TRY(jinja_call_method(r, v, STR("items"), &(jinja_args){0}, &pairs));
    size_t n = pairs.u.seq->n;
    TRY(jinja_alloc(r, n, sizeof *s, &s));
    for (size_t i = 0; i < n; i++) {
        s[i].value = pairs.u.seq->items[i];
        s[i].key = s[i].value.u.seq->items[str_is(by, "value")];
        TRY(fold(r, jinja_truth(&a[0]), &s[i].key));
    }
    return sorted(r, s, n, jinja_truth(&a[2]), out);
}

FILTER(unique) {
    static const char *const names[] = {"case_sensitive", "attribute"};
    jinja_value a[2], key, seen;
    jinja_seq items;
    TRY(jinja_bind(r, "unique", args, names, 2, a));
    TRY(jinja_items(r, v, &items));
    TRY(jinja_make_dict(r, 8, &seen));
    TRY(jinja_make_seq(r, JINJA_ITERATOR, items.n, out));
    size_t n = 0;
    for (size_t i = 0; i < items.n; i++) {
        TRY(jinja_path(r, &items.items[i], &a[1], NULL, &key));
        TRY(fold(r, jinja_truth(&a[0]), &key));
        size_t before = seen.u.dict->n;
        TRY(jinja_dict_set(r, seen.u.dict, key, jinja_none()));
        if (seen.u.dict->n > before) out->u.seq->items[n++] = items.items[i];
    }
    out->u.seq->n = n;
    return STATUS_OK;
}

static status extreme(jinja_run *r, const jinja_value *v, const jinja_args *args, bool max, jinja_value *out) {
    static const char *const names[] = {"case_sensitive", "attribute"};
    jinja_value a[2], best, key;
    jinja_seq items;
    TRY(jinja_bind(r, max ? "max" : "min", args, names, 2, a));
    TRY(jinja_items(r, v, &items));
    if (!items.n) return jinja_make_undefined(r, "No aggregated item, sequence was empty.", NULL, (str){0}, out);
    for (size_t i = 0; i < items.n; i++) {
        bool better = i == 0;
        TRY(jinja_path(r, &items.items[i], &a[1], NULL, &key));
        TRY(fold(r, jinja_truth(&a[0]), &key));
        if (i) TRY(max ? jinja_less(r, &best, &key, &better) : jinja_less(r, &key, &best, &better));
        if (!better) continue;
        best = key;
        *out = items.items[i];
    }
    return STATUS_OK;
}

FILTER(min) { return extreme(r, v, args, false, out); }
FILTER(max) { return extreme(r, v, args, true, out); }

FILTER(sum) {
    static const char *const names[] = {"attribute", "start"};
    jinja_value a[2], part, total;
    jinja_seq items;
    TRY(jinja_bind(r, "sum", args, names, 2, a));
    TRY(jinja_items(r, v, &items));
    total = a[1].type == JINJA_MISSING ? jinja_int(0) : a[1];
    if (total.type == JINJA_STRING) return jinja_fail(r, STATUS_BAD_ARGUMENT, "sum does not add strings; use join");
    for (size_t i = 0; i < items.n; i++) {
        jinja_value before = total;
        TRY(jinja_path(r, &items.items[i], &a[0], NULL, &part));
        TRY(jinja_binary(r, STR("+"), &before, &part, &total));
    }
    *out = total;
    return STATUS_OK;
}

FILTER(batch) {
    static const char *const names[] = {"linecount", "fill_with"};
    jinja_value a[2];
    jinja_seq items;
    int64_t size;
    TRY(jinja_bind(r, "batch", args, names, 2, a));
    if (!jinja_as_int(&a[0], &size) || size < 1)
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "batch needs a positive size");
    TRY(jinja_items(r, v, &items));
    bool fill = a[1].type != JINJA_MISSING && a[1].type != JINJA_NONE;
    if (size > (int64_t)items.n && !fill) size = items.n ? (int64_t)items.n : 1;
    size_t n = items.n ? (items.n - 1) / (size_t)size + 1 : 0;
    TRY(jinja_make_seq(r, JINJA_ITERATOR, n, out));
    for (size_t i = 0; i < n; i++) {
        size_t from = i * (size_t)size, left = items.n - from, len = left < (size_t)size ? left : (size_t)size;
        jinja_value *row = &out->u.seq->items[i];
        TRY(jinja_make_seq(r, JINJA_LIST, fill ? (size_t)size : len, row));
        for (size_t j = 0; j < row->u.seq->n; j++) row->u.seq->items[j] = j < len ? items.items[from + j] : a[1];
    }
    return STATUS_OK;
}

// The arguments behind the first `skip` positional ones.
static jinja_args rest_of(const jinja_args *args, size_t skip) {
    jinja_args rest = *args;
    rest.positional += skip;
    rest.n -= skip;
    return rest;
}

static const jinja_value *named_arg(const jinja_args *args, const char *name) {
    for (size_t i = 0; i < args->n_named; i++) {
        if (str_is(args->names[i], name)) return &args->named[i];
    }
    return NULL;
}

FILTER(map) {
    jinja_seq items;
    const jinja_value *attribute = named_arg(args, "attribute"), *fallback = named_arg(args, "default");
    TRY(jinja_items(r, v, &items));
    TRY(jinja_make_seq(r, JINJA_ITERATOR, items.n, out));
    if (args->n == 0 && attribute) {
        if (args->n_named > (fallback ? 2u : 1u))
            return jinja_fail(r, STATUS_BAD_ARGUMENT, "map has an unexpected named argument");
        if (fallback && fallback->type == JINJA_NONE) fallback = NULL;
        for (size_t i = 0; i < items.n; i++) {
            jinja_value *item = &out->u.seq->items[i];
            TRY(jinja_path(r, &items.items[i], attribute, fallback, item));
        }
        return STATUS_OK;
    }
    if (args->n == 0 || args->positional[0].type != JINJA_STRING) {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "map requires the name of a filter or attribute=...");
    }
    jinja_args rest = rest_of(args, 1);
    for (size_t i = 0; i < items.n; i++) {
        TRY(jinja_apply_filter(r, jinja_str(&args->positional[0]), &items.items[i], &rest, &out->u.seq->items[i]));
    }
    return STATUS_OK;
}

// select, reject, selectattr, rejectattr
static status select_items(jinja_run *r, const jinja_value *v, const jinja_args *args, bool by_attribute, bool keep,
                           jinja_value *out) {
    jinja_seq items = {0};
    if (jinja_truth(v)) TRY(jinja_items(r, v, &items));
    TRY(jinja_make_seq(r, JINJA_ITERATOR, items.n, out));
    size_t skip = by_attribute, n = 0;
    if (args->n < skip) return jinja_fail(r, STATUS_BAD_ARGUMENT, "Missing parameter for attribute name");
    if (args->n > skip && args->positional[skip].type != JINJA_STRING) {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "the name of a test is no string");
    }
    for (size_t i = 0; i < items.n; i++) {
        jinja_value subject = items.items[i];
        if (by_attribute) TRY(jinja_path(r, &items.items[i], &args->positional[0], NULL, &subject));
        bool yes = jinja_truth(&subject);
        if (args->n > skip) {
            jinja_args rest = rest_of(args, skip + 1);
            TRY(jinja_apply_test(r, jinja_str(&args->positional[skip]), &subject, &rest, &yes));
        }
        TRY(jinja_step(r, 1));
        if (yes == keep) out->u.seq->items[n++] = items.items[i];
    }
    out->u.seq->n = n;
    return STATUS_OK;
}

FILTER(select) { return select_items(r, v, args, false, true, out); }
FILTER(reject) { return select_items(r, v, args, false, false, out); }
FILTER(selectattr) { return select_items(r, v, args, true, true, out); }
FILTER(rejectattr) { return select_items(r, v, args, true, false, out); }

jinja_filter *jinja_find_seq_filter(str name) {
    static const struct {
        const char *name;
        jinja_filter *apply;
    } rows[] = {
        {"length", f_length},
        {"count", f_length},
        {"list", f_list},
        {"first", f_first},
        {"last", f_last},
        {"reverse", f_reverse},
        {"join", f_join},
        {"items", f_items},
        {"sort", f_sort},
        {"dictsort", f_dictsort},
        {"unique", f_unique},
        {"min", f_min},
        {"max", f_max},
        {"sum", f_sum},
        {"batch", f_batch},
        {"map", f_map},
        {"select", f_select},
        {"reject", f_reject},
        {"selectattr", f_selectattr},
        {"rejectattr", f_rejectattr},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (str_is(name, rows[i].name)) return rows[i].apply;
    }
    return NULL;
}
