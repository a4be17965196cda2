// Attributes, items, slices, and walking over values.
#include "text/jinja_run.h"

static status no_attribute(jinja_run *r, const jinja_value *v, str name, jinja_value *out) {
    return jinja_make_undefined(r, NULL, v, name, out);
}

static status make_method(jinja_run *r, const jinja_value *v, str name, jinja_value *out) {
    jinja_callable *m = NULL;
    TRY(jinja_alloc(r, 1, sizeof *m, &m));
    m->kind = JINJA_METHOD;
    m->name = name;
    m->self = *v;
    *out = (jinja_value){.type = JINJA_CALLABLE, .trusted = true, .u.callable = m};
    return STATUS_OK;
}

// What getattr finds on the Python object itself, before its items.
static status own_attribute(jinja_run *r, const jinja_value *v, str name, bool *found, jinja_value *out) {
    *found = true;
    if (v->type == JINJA_NAMESPACE) {
        ptrdiff_t i = jinja_dict_find(v->u.dict, name);
        if (i >= 0) return *out = v->u.dict->values[i], STATUS_OK;
    }
    if (v->type == JINJA_LOOP) {
        TRY(jinja_loop_attr(r, v->u.loop, name, found, out));
        if (*found) return STATUS_OK;
    }
    *found = true;
    if (name.len && name.data[0] == '_') { // there is such an attribute or not: undefined either way
        return jinja_make_undefined(r, "access to an attribute with a leading underscore is unsafe", v, name, out);
    }
    switch (jinja_find_method(v, name)) {
    case JINJA_HAS_METHOD: return make_method(r, v, name, out);
    case JINJA_UNSAFE_METHOD:
        return jinja_make_undefined(r, "access to a method that changes a list or dict is unsafe", v, name, out);
    case JINJA_NO_METHOD: break;
    }
    static const char *const of_numbers[] = {"real",       "imag",       "numerator", "denominator",      "conjugate",
                                             "bit_length", "is_integer", "hex",       "as_integer_ratio", "fromhex",
                                             "to_bytes",   "from_bytes", "bit_count"};
    for (size_t i = 0; i < sizeof of_numbers / sizeof *of_numbers; i++) {
        if (v->type >= JINJA_BOOL && v->type <= JINJA_FLOAT && str_is(name, of_numbers[i])) {
            return jinja_fail(r, STATUS_UNSUPPORTED, "the attribute '%s' of a number is not supported", of_numbers[i]);
        }
    }
    *found = false;
    return STATUS_OK;
}

status jinja_getattr(jinja_run *r, const jinja_value *v, str name, jinja_value *out) {
    if (v->type == JINJA_UNDEFINED) return jinja_fail_undefined(r, v);
    bool found;
    if (v->type == JINJA_DICT && name.len && name.data[0] == '_' && !str_starts(name, STR("__"))) {
        found = false; // a dict has no such attribute, but may have such a key
    } else {
        TRY(own_attribute(r, v, name, &found, out));
    }
    if (found) return STATUS_OK;
    if (v->type == JINJA_DICT) {
        TRY(jinja_step(r, v->u.dict->n / 8));
        ptrdiff_t i = jinja_dict_find(v->u.dict, name);
        if (i >= 0) return *out = v->u.dict->values[i], STATUS_OK;
    }
    return no_attribute(r, v, name, out);
}

// v[index] of a sequence or string; false: out of range.
static bool item_at(const jinja_value *v, int64_t index, jinja_value *out) {
    if (v->type == JINJA_SEQ) {
        int64_t n = (int64_t)v->u.seq->n;
        if (index < 0) index += n;
        if (index < 0 || index >= n) return false;
        *out = v->u.seq->items[index];
        return true;
    }
    str s = jinja_str(v);
    int64_t n = (int64_t)jinja_count(s);
    if (index < 0) index += n;
    if (index < 0 || index >= n) return false;
    size_t from = jinja_offset(s, (size_t)index);
    int32_t c;
    *out = jinja_substring(v, from, from + jinja_decode(s, from, &c));
    return true;
}

static status dict_item(jinja_run *r, const jinja_value *v, const jinja_value *key, bool *found, jinja_value *out) {
    const jinja_dict *d = v->u.dict;
    TRY(jinja_step(r, d->n / 8));
    *found = false;
    for (size_t i = 0; i < d->n; i++) {
        TRY(jinja_equal(r, &d->keys[i], key, found));
        if (*found) return *out = d->values[i], STATUS_OK;
    }
    return STATUS_OK;
}

status jinja_getitem(jinja_run *r, const jinja_value *v, const jinja_value *key, jinja_value *out) {
    if (v->type == JINJA_UNDEFINED) return jinja_fail_undefined(r, v);
    int64_t index;
    bool found = false;
    if (v->type == JINJA_DICT) TRY(dict_item(r, v, key, &found, out));
    bool indexable = v->type == JINJA_STRING || (v->type == JINJA_SEQ && v->u.seq->kind <= JINJA_RANGE);
    if (indexable && jinja_as_int(key, &index)) {
        if (v->type == JINJA_STRING) TRY(jinja_step(r, v->u.s.len / 64));
        found = item_at(v, index, out);
    }
    if (!found && key->type == JINJA_STRING) TRY(own_attribute(r, v, jinja_str(key), &found, out));
    if (found) return STATUS_OK;
    return no_attribute(r, v, key->type == JINJA_STRING ? jinja_str(key) : STR("(an index)"), out);
}

// Python's slice.indices: the bounds of v[a:b:c] for a length.
static status slice_bounds(jinja_run *r, const jinja_value bounds[3], int64_t n, int64_t at[3]) {
    int64_t v[3] = {0, 0, 1};
    bool given[3];
    for (int i = 0; i < 3; i++) {
        if (bounds[i].type == JINJA_UNDEFINED) return jinja_fail_undefined(r, &bounds[i]);
        given[i] = jinja_as_int(&bounds[i], &v[i]);
        if (!given[i] && bounds[i].type != JINJA_NONE) {
            return jinja_fail(r, STATUS_BAD_ARGUMENT, "a bound of a slice is a %s", jinja_type_name(&bounds[i]));
        }
    }
    int64_t step = v[2];
    if (step == 0) return jinja_fail(r, STATUS_BAD_ARGUMENT, "the step of a slice is zero");
    if (step < -(INT64_C(1) << 62)) step = -(INT64_C(1) << 62);
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    for (int i = 0; i < 2; i++) {
        if (!given[i]) {
            v[i] = (i == 0) == (step > 0) ? low : high;
            continue;
        }
        if (v[i] < 0) v[i] = v[i] < -n ? -1 : v[i] + n;
        if (v[i] < low) v[i] = low;
        if (v[i] > high) v[i] = high;
    }
    at[0] = v[0];
    at[1] = v[1];
    at[2] = step;
    return STATUS_OK;
}

static size_t slice_length(const int64_t at[3]) {
    if (at[2] > 0) return at[1] > at[0] ? (size_t)((at[1] - at[0] - 1) / at[2] + 1) : 0;
    return at[0] > at[1] ? (size_t)((at[0] - at[1] - 1) / -at[2] + 1) : 0;
}

static status slice_string(jinja_run *r, const jinja_value *v, const int64_t at[3], jinja_value *out) {
    str s = jinja_str(v);
    size_t n = slice_length(at), chars = jinja_count(s), *offsets;
    if (at[2] == 1) {
        size_t from = jinja_offset(s, (size_t)at[0]);
        size_t len = jinja_offset((str){s.data + from, s.len - from}, n);
        *out = jinja_substring(v, from, from + len);
        return STATUS_OK;
    }
    TRY(jinja_alloc(r, chars + 1, sizeof *offsets, &offsets));
    int32_t c;
    for (size_t i = 0; i < chars; i++) offsets[i + 1] = offsets[i] + jinja_decode(s, offsets[i], &c);
    size_t mark = r->text->len;
    TRY(jinja_step(r, n));
    int64_t i = at[0];
    for (size_t k = 0; k < n; k++, i += at[2]) TRY(jinja_put_part(r, v, offsets[i], offsets[i + 1]));
    TRY(jinja_take(r, mark, out));
    out->markup = v->markup;
    return STATUS_OK;
}

status jinja_slice(jinja_run *r, const jinja_value *v, const jinja_value bounds[3], jinja_value *out) {
    int64_t at[3];
    if (v->type == JINJA_UNDEFINED) return jinja_fail_undefined(r, v);
    if (v->type == JINJA_STRING) {
        TRY(jinja_step(r, v->u.s.len / 32));
        TRY(slice_bounds(r, bounds, (int64_t)jinja_count(jinja_str(v)), at));
        return slice_string(r, v, at, out);
    }
    if (v->type != JINJA_SEQ || v->u.seq->kind > JINJA_RANGE) {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "a %s cannot be sliced", jinja_type_name(v));
    }
    const jinja_seq *s = v->u.seq;
    TRY(slice_bounds(r, bounds, (int64_t)s->n, at));
    TRY(jinja_make_seq(r, s->kind, slice_length(at), out));
    out->trusted = v->trusted;
    jinja_seq *o = out->u.seq;
    for (size_t k = 0; k < o->n; k++) o->items[k] = s->items[at[0] + (int64_t)k * at[2]];
    if (s->kind == JINJA_RANGE) { // unsigned: a huge step may wrap where it is not used
        o->start = (int64_t)((uint64_t)s->start + (uint64_t)at[0] * (uint64_t)s->step);
        o->stop = (int64_t)((uint64_t)s->start + (uint64_t)at[1] * (uint64_t)s->step);
        o->step = (int64_t)((uint64_t)at[2] * (uint64_t)s->step);
    }
    return STATUS_OK;
}

static status characters(jinja_run *r, const jinja_value *v, jinja_seq *out) {
    str s = jinja_str(v);
    jinja_value list;
    TRY(jinja_make_seq(r, JINJA_LIST, jinja_count(s), &list));
    size_t at = 0;
    int32_t c;
    for (size_t i = 0; i < list.u.seq->n; i++) {
        size_t n = jinja_decode(s, at, &c);
        list.u.seq->items[i] = jinja_substring(v, at, at + n);
        list.u.seq->items[i].markup = false;
        at += n;
    }
    *out = *list.u.seq;
    return STATUS_OK;
}

status jinja_items(jinja_run *r, const jinja_value *v, jinja_seq *out) {
    *out = (jinja_seq){.kind = JINJA_LIST};
    switch ((jinja_type)v->type) {
    case JINJA_UNDEFINED: return STATUS_OK;
    case JINJA_STRING: return characters(r, v, out);
    case JINJA_DICT:
        out->items = v->u.dict->keys;
        out->n = v->u.dict->n;
        return STATUS_OK;
    case JINJA_SEQ:
        out->items = v->u.seq->items;
        out->n = v->u.seq->n;
        if (v->u.seq->kind == JINJA_ITERATOR) {
            out->items += v->u.seq->next;
            out->n -= v->u.seq->next;
            v->u.seq->next = v->u.seq->n;
        }
        return STATUS_OK;
    default: return jinja_fail(r, STATUS_BAD_ARGUMENT, "a %s cannot be walked over", jinja_type_name(v));
    }
}

status jinja_path(jinja_run *r, const jinja_value *v, const jinja_value *attribute, const jinja_value *fallback,
                  jinja_value *out) {
    *out = *v;
    if (attribute->type == JINJA_MISSING || attribute->type == JINJA_NONE) return STATUS_OK;
    if (attribute->type != JINJA_STRING) {
        TRY(jinja_getitem(r, v, attribute, out));
        if (fallback && out->type == JINJA_UNDEFINED) *out = *fallback;
        return STATUS_OK;
    }
    str path = jinja_str(attribute);
    for (size_t at = 0; at <= path.len;) {
        ptrdiff_t dot = str_find(path, STR("."), at);
        size_t end = dot < 0 ? path.len : (size_t)dot;
        jinja_value key = jinja_text((str){path.data + at, end - at}, true), base = *out;
        int64_t index = 0;
        bool digits = end > at && end - at < 18;
        for (size_t i = at; digits && i < end; i++) {
            digits = path.data[i] >= '0' && path.data[i] <= '9';
            index = index * 10 + (path.data[i] - '0');
        }
        if (digits) key = jinja_int(index);
        TRY(jinja_getitem(r, &base, &key, out));
        if (fallback && out->type == JINJA_UNDEFINED) *out = *fallback;
        at = end + 1;
    }
    return STATUS_OK;
}
