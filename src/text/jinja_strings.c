// Operations on strings that methods and filters share: split, join, replace, strip, case. All keep every byte's provenance.
#include "text/jinja_run.h"

typedef struct pieces {
    jinja_value *items;
    size_t n, cap;
} pieces;

static status add_piece(jinja_run *r, pieces *p, jinja_value v) {
    TRY(jinja_step(r, 1));
    if (p->n == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 8;
        jinja_value *items = NULL;
        TRY(jinja_alloc(r, cap, sizeof *items, &items));
        if (p->n) memcpy(items, p->items, p->n * sizeof *items);
        p->items = items;
        p->cap = cap;
    }
    p->items[p->n++] = v;
    return STATUS_OK;
}

static status split_space(jinja_run *r, const jinja_value *s, int64_t max, pieces *out) {
    str text = jinja_str(s);
    int32_t c;
    size_t at = 0;
    for (;;) {
        at = text.len - jinja_lstrip((str){text.data + at, text.len - at}, (str){0}).len;
        if (at == text.len) return STATUS_OK;
        if (max == 0) return add_piece(r, out, jinja_substring(s, at, text.len));
        size_t from = at, n;
        while (at < text.len && (n = jinja_decode(text, at, &c), !jinja_is_space(c))) at += n;
        TRY(add_piece(r, out, jinja_substring(s, from, at)));
        max--;
    }
}

static status split_at(jinja_run *r, const jinja_value *s, str sep, int64_t max, pieces *out) {
    size_t at = 0;
    while (max-- != 0) {
        ptrdiff_t p = jinja_find(jinja_str(s), sep, at);
        if (p < 0) break;
        TRY(add_piece(r, out, jinja_substring(s, at, (size_t)p)));
        at = (size_t)p + sep.len;
    }
    return add_piece(r, out, jinja_substring(s, at, s->u.s.len));
}

status jinja_split(jinja_run *r, const jinja_value *s, const jinja_value *sep, int64_t max, jinja_value *out) {
    pieces p = {0};
    TRY(jinja_step(r, s->u.s.len / 16));
    if (sep->type == JINJA_MISSING || sep->type == JINJA_NONE) {
        TRY(split_space(r, s, max, &p));
    } else if (sep->type != JINJA_STRING || sep->u.s.len == 0) {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "split needs a separator that is a string and not empty");
    } else {
        TRY(split_at(r, s, jinja_str(sep), max, &p));
    }
    TRY(jinja_make_seq(r, JINJA_LIST, 0, out));
    out->u.seq->items = p.items;
    out->u.seq->n = p.n;
    return STATUS_OK;
}

// old_new: two strings. An empty `old` stands between all characters, as in Python.
status jinja_replace(jinja_run *r, const jinja_value *s, const jinja_value *old_new, int64_t max, jinja_value *out) {
    str text = jinja_str(s), old = jinja_str(&old_new[0]);
    size_t mark = r->text->len, at = 0;
    int32_t c;
    TRY(jinja_step(r, text.len / 16));
    while (max-- != 0) {
        ptrdiff_t p = jinja_find(text, old, at);
        if (p < 0) break;
        TRY(jinja_step(r, 1));
        TRY(jinja_put_part(r, s, at, (size_t)p));
        TRY(jinja_put_string(r, &old_new[1]));
        at = (size_t)p + old.len;
        if (old.len) continue;
        if (at == text.len) break;
        size_t n = jinja_decode(text, at, &c);
        TRY(jinja_put_part(r, s, at, at + n));
        at += n;
    }
    TRY(jinja_put_part(r, s, at, text.len));
    TRY(jinja_take(r, mark, out));
    out->markup = s->markup;
    return STATUS_OK;
}

status jinja_join(jinja_run *r, const jinja_value *sep, const jinja_seq *items, jinja_value *out) {
    size_t mark = r->text->len;
    for (size_t i = 0; i < items->n; i++) {
        TRY(jinja_step(r, 1));
        if (i) TRY(jinja_print(r, sep));
        TRY(jinja_print(r, &items->items[i]));
    }
    return jinja_take(r, mark, out);
}

status jinja_strip(jinja_run *r, const jinja_value *s, const jinja_value *chars, const char *sides, jinja_value *out) {
    str text = jinja_str(s), set = {0};
    if (chars->type == JINJA_STRING) {
        set = chars->u.s.len ? jinja_str(chars) : STR("");
    } else if (chars->type == JINJA_UNDEFINED) {
        return jinja_fail_undefined(r, chars);
    } else if (chars->type != JINJA_MISSING && chars->type != JINJA_NONE) {
        return jinja_fail(r, STATUS_BAD_ARGUMENT, "strip takes a string of characters, not a %s",
                          jinja_type_name(chars));
    }
    TRY(jinja_step(r, text.len / 64 * (1 + set.len / 16)));
    if (strchr(sides, 'l')) text = jinja_lstrip(text, set);
    if (strchr(sides, 'r')) text = jinja_rstrip(text, set);
    size_t from = text.len ? (size_t)(text.data - s->u.s.data) : 0;
    *out = jinja_substring(s, from, from + text.len);
    return STATUS_OK;
}

// Whether a capital sigma at [at, end) is the last letter of a word (Unicode's Final_Sigma, as Python does it).
static bool final_sigma(str s, size_t at, size_t end) {
    int32_t c = 0;
    bool before = false;
    while (at > 0) {
        at = jinja_previous(s, at);
        jinja_decode(s, at, &c);
        if (jinja_is_case_ignorable(c)) continue;
        before = jinja_is_cased(c);
        break;
    }
    if (!before) return false;
    while (end < s.len) {
        end += jinja_decode(s, end, &c);
        if (!jinja_is_case_ignorable(c)) return !jinja_is_cased(c);
    }
    return true;
}

static status put_mapped(jinja_run *r, const jinja_value *s, size_t from, size_t to, jinja_case how) {
    int32_t c, mapped[JINJA_CASE_MAX];
    char text[4 * JINJA_CASE_MAX];
    size_t n = 0;
    jinja_decode(jinja_str(s), from, &c);
    if (how == JINJA_LOWER && c == 0x3a3 && final_sigma(jinja_str(s), from, to)) c = 0x3c2;
    size_t count = jinja_map_case(c, how, mapped);
    for (size_t i = 0; i < count; i++) n += jinja_encode(mapped[i], text + n);
    return jinja_put(r, (str){text, n}, s->u.s.mask ? s->u.s.mask[from] != 0 : s->trusted);
}

static bool word_break(int32_t c) { return jinja_is_space(c) || (c > 0 && c < 0x80 && strchr("-([{<", (int)c)); }

// how: "lower", "upper", "capitalize", "title" (the method) or "words" (the filter title).
status jinja_change_case(jinja_run *r, const jinja_value *s, const char *how, jinja_value *out) {
    str text = jinja_str(s);
    size_t mark = r->text->len;
    int32_t c;
    bool start = true; // of the text or of a word
    TRY(jinja_step(r, text.len / 4));
    for (size_t at = 0; at < text.len;) {
        size_t n = jinja_decode(text, at, &c);
        jinja_case k = JINJA_LOWER;
        if (how[0] == 'u') k = JINJA_UPPER;
        if (how[0] == 'c' && start) k = JINJA_TITLE;
        if (how[0] == 't' && start) k = JINJA_TITLE;
        if (how[0] == 'w' && start) k = JINJA_UPPER;
        TRY(put_mapped(r, s, at, at + n, k));
        start = how[0] == 't' ? !jinja_is_cased(c) : how[0] == 'w' && c != 0 && word_break(c);
        at += n;
    }
    TRY(jinja_take(r, mark, out));
    out->markup = s->markup;
    return STATUS_OK;
}

// The last piece of text[0, end) in front of which there is a separator: [*from, end), *cut where the rest ends. False: none.
static bool last_piece(str text, str sep, size_t *end, size_t *from, size_t *cut) {
    if (sep.data) {
        ptrdiff_t p = jinja_rfind((str){text.data, *end}, sep);
        if (p < 0) return false;
        *from = (size_t)p + sep.len;
        *cut = (size_t)p;
        return true;
    }
    *end = jinja_rstrip((str){text.data, *end}, (str){0}).len;
    if (*end == 0) return false;
    int32_t c;
    *from = *end;
    while (*from > 0) {
        size_t p = jinja_previous(text, *from);
        jinja_decode(text, p, &c);
        if (jinja_is_space(c)) break;
        *from = p;
    }
    *cut = *from;
    return true;
}

status jinja_rsplit(jinja_run *r, const jinja_value *s, const jinja_value *sep, int64_t max, jinja_value *out) {
    if (max < 0) return jinja_split(r, s, sep, -1, out);
    str text = jinja_str(s), cut_at = {0};
    TRY(jinja_step(r, text.len / 16));
    if (sep->type != JINJA_MISSING && sep->type != JINJA_NONE) {
        if (sep->type != JINJA_STRING || !sep->u.s.len) {
            return jinja_fail(r, STATUS_BAD_ARGUMENT, "rsplit needs a separator that is a string and not empty");
        }
        cut_at = jinja_str(sep);
    }
    pieces p = {0};
    size_t end = text.len, from, cut;
    while (max-- > 0 && last_piece(text, cut_at, &end, &from, &cut)) {
        TRY(jinja_step(r, 1 + (end - cut) / 16));
        TRY(add_piece(r, &p, jinja_substring(s, from, end)));
        end = cut;
    }
    if (!cut_at.data) end = jinja_rstrip((str){text.data, end}, (str){0}).len;
    if (cut_at.data || end) TRY(add_piece(r, &p, jinja_substring(s, 0, end)));
    TRY(jinja_make_seq(r, JINJA_LIST, p.n, out));
    for (size_t i = 0; i < p.n; i++) out->u.seq->items[i] = p.items[p.n - 1 - i];
    return STATUS_OK;
}

status jinja_splitlines(jinja_run *r, const jinja_value *s, bool keep_ends, jinja_value *out) {
    str text = jinja_str(s);
    pieces p = {0};
    size_t start = 0;
    int32_t c;
    TRY(jinja_step(r, text.len / 4));
    for (size_t at = 0; at < text.len;) {
        size_t end = at;
        at += jinja_decode(text, at, &c);
        if (!jinja_is_break(c)) continue;
        if (c == '\r' && at < text.len && text.data[at] == '\n') at++;
        TRY(add_piece(r, &p, jinja_substring(s, start, keep_ends ? at : end)));
        start = at;
    }
    if (start < text.len) TRY(add_piece(r, &p, jinja_substring(s, start, text.len)));
    TRY(jinja_make_seq(r, JINJA_LIST, 0, out));
    out->u.seq->items = p.items;
    out->u.seq->n = p.n;
    return STATUS_OK;
}
