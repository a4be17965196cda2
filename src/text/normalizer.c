#include "text/normalizer.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "text/utf8.h"

// An ASCII character never composes with what stands before it, and never moves: the text can be cut before every one and the
// parts normalised alone. Most parts are untouched by a look at their characters only.
typedef struct part_work {
    utf8proc_int32_t *cp; // owned; grows
    size_t cap;
    utf8proc_int32_t *sorted; // owned; as large as cp
} part_work;

// Characters that have no decomposition that NFC would keep, combine with nothing before them, and, since only such characters
// follow, with nothing behind them: U+0080..U+02FF; kana without the voicing marks; CJK ideographs; Hangul syllables.
static bool is_plain_nfc(int32_t c) {
    return c < 0x300 || (c >= 0x3041 && c <= 0x3096) || (c >= 0x30a1 && c <= 0x30fa) || (c >= 0x4e00 && c <= 0x9fff) ||
           (c >= 0xac00 && c <= 0xd7a3) || (c >= 0x2010 && c <= 0x2027) || (c >= 0x3001 && c <= 0x3020) ||
           (c >= 0xff01 && c <= 0xff9d);
}

// Characters younger than Unicode 9 that decompose, compose or have a combining class. The reference (the Rust crate of Hugging
// Face tokenizers 0.23) normalises by Unicode 9 and leaves them as they are; models were trained on what it makes, so tally
// does too, whatever the version of utf8proc. Found by trying every character (up to Unicode 14; 15 and 16 by their charts).
static const struct {
    int32_t first, last;
} YOUNG[] = {
    {0x7fd, 0x7fd},     {0x897, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xc3c, 0xc3c},
    {0xcf3, 0xcf3},     {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0xece, 0xece},     {0x1715, 0x1715},
    {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},   {0x32ff, 0x32ff},   {0xa7f1, 0xa7f4},   {0xa82c, 0xa82c},
    {0xab69, 0xab69},   {0x105c9, 0x105c9}, {0x105d2, 0x105d2}, {0x105da, 0x105da}, {0x105e4, 0x105e4},
    {0x10781, 0x10785}, {0x10787, 0x107b0}, {0x107b2, 0x107ba}, {0x10d24, 0x10d27}, {0x10d69, 0x10d6d},
    {0x10eab, 0x10eac}, {0x10efc, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070},
    {0x11241, 0x11241}, {0x1133b, 0x1133b}, {0x11383, 0x11383}, {0x11385, 0x11385}, {0x1138e, 0x1138e},
    {0x11391, 0x11391}, {0x113b8, 0x113c0}, {0x113c2, 0x113c2}, {0x113c5, 0x113c5}, {0x113c7, 0x113ca},
    {0x113cc, 0x113d0}, {0x113d2, 0x113d2}, {0x113e1, 0x113e2}, {0x1145e, 0x1145e}, {0x11839, 0x1183a},
    {0x11930, 0x11930}, {0x11938, 0x11938}, {0x1193d, 0x1193e}, {0x11943, 0x11943}, {0x119e0, 0x119e0},
    {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42}, {0x11d44, 0x11d45},
    {0x11d97, 0x11d97}, {0x11f00, 0x11f01}, {0x11f03, 0x11f03}, {0x11f34, 0x11f3a}, {0x11f3e, 0x11f42},
    {0x11f5a, 0x11f5a}, {0x13440, 0x13440}, {0x13447, 0x13455}, {0x1611e, 0x1612f}, {0x16d63, 0x16d63},
    {0x16d67, 0x16d6a}, {0x16ff0, 0x16ff1}, {0x1ccd6, 0x1ccf9}, {0x1e030, 0x1e06d}, {0x1e08f, 0x1e08f},
    {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}, {0x1e5ee, 0x1e5ef},
    {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9},
};

static bool is_young(int32_t c) {
    if (c < YOUNG[0].first) return false;
    size_t low = 0, high = sizeof YOUNG / sizeof YOUNG[0];
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (c > YOUNG[mid].last) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < sizeof YOUNG / sizeof YOUNG[0] && c >= YOUNG[low].first;
}

static bool part_is_plain(str part, normal_form form) {
    if (form != NORMAL_NFC) return false;
    for (size_t i = 0; i < part.len;) {
        int n;
        if (!is_plain_nfc(utf8_decode(part.data + i, &n))) return false;
        i += (size_t)n;
    }
    return true;
}

static bool work_reserve(part_work *w, size_t n) {
    if (n <= w->cap) return true;
    size_t cap = n + n / 2 + 256;
    utf8proc_int32_t *cp = realloc(w->cp, cap * sizeof *cp);
    if (cp) w->cp = cp;
    utf8proc_int32_t *sorted = realloc(w->sorted, cap * sizeof *sorted);
    if (sorted) w->sorted = sorted;
    if (!cp || !sorted) return false;
    w->cap = cap;
    return true;
}

// Canonical ordering: a stable sort of each run of marks by combining class, here by counting, since a run may be as long as
// the text. (utf8proc's own is quadratic in the run.)
static void order_marks(part_work *w, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (utf8proc_get_property(w->cp[i])->combining_class == 0) continue;
        size_t count[257] = {0}, start = i;
        for (; i < n; i++) {
            unsigned ccc = (unsigned)utf8proc_get_property(w->cp[i])->combining_class;
            if (ccc == 0) break;
            w->sorted[i] = w->cp[i];
            count[ccc + 1]++;
        }
        for (int c = 1; c <= 256; c++) count[c] += count[c - 1];
        for (size_t k = start; k < i; k++) {
            w->cp[start + count[utf8proc_get_property(w->sorted[k])->combining_class]++] = w->sorted[k];
        }
    }
}

// Reads characters from part[*i] up to a young one, decomposed, into w->cp[0, *n).
static status decompose(part_work *w, str part, size_t *i, size_t *n, utf8proc_option_t option, error *err) {
    *n = 0;
    while (*i < part.len) {
        int len, last_class = 0;
        utf8proc_int32_t c = utf8_decode(part.data + *i, &len);
        if (is_young(c)) break;
        if (!work_reserve(w, *n + 32))
            return error_no_memory(err, (*n + 32) * sizeof c); // 18 is the longest decomposition
        utf8proc_ssize_t k =
            utf8proc_decompose_char(c, w->cp + *n, (utf8proc_ssize_t)(w->cap - *n), option, &last_class);
        if (k < 0 || (size_t)k > w->cap - *n) {
            w->cp[*n] = c;
            k = 1;
        }
        *n += (size_t)k;
        *i += (size_t)len;
    }
    return STATUS_OK;
}

static status normalize_part(part_work *w, str part, normal_form form, strbuf *out, error *err) {
    bool compose = form == NORMAL_NFC || form == NORMAL_NFKC;
    bool compat = form == NORMAL_NFKC || form == NORMAL_NFKD;
    utf8proc_option_t split = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0);
    for (size_t i = 0; i < part.len;) {
        size_t n;
        TRY(decompose(w, part, &i, &n, split, err));
        order_marks(w, n);
        if (compose && n) {
            utf8proc_ssize_t k =
                utf8proc_normalize_utf32(w->cp, (utf8proc_ssize_t)n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
            if (k >= 0) n = (size_t)k;
        }
        for (size_t j = 0; j < n; j++) {
            char bytes[4];
            strbuf_add(out, (str){bytes, (size_t)utf8_encode(w->cp[j], bytes)});
        }
        if (i < part.len) { // a young one: as it is, and nothing combines across it
            int len;
            utf8_decode(part.data + i, &len);
            strbuf_add(out, (str){part.data + i, (size_t)len});
            i += (size_t)len;
        }
    }
    return STATUS_OK;
}

static void add_trust(strbuf *out_trusted, const unsigned char *trusted, str part, size_t n_out, bool changed) {
    if (!trusted) return;
    if (!changed) {
        strbuf_add(out_trusted, (str){(const char *)trusted, part.len});
        return;
    }
    bool all = memchr(trusted, 0, part.len) == NULL;
    for (size_t i = 0; i < n_out; i++) strbuf_add_char(out_trusted, all ? 1 : 0);
}

// The end of the part that starts at i: ASCII up to the last character before a non-ASCII one (`plain`), or that last character
// and everything up to the next ASCII one.
static size_t part_end(str text, size_t i, bool *plain) {
    const signed char *p = (const signed char *)text.data;
    size_t j = i;
    while (j < text.len && p[j] >= 0) j++;
    *plain = j == text.len || j > i + 1;
    if (*plain) return j == text.len ? j : j - 1;
    while (j < text.len && p[j] < 0) j++;
    return j;
}

static status apply_form(normal_form form, str text, const unsigned char *trusted, strbuf *out, strbuf *out_trusted,
                         error *err) {
    part_work w = {0};
    status st = STATUS_OK;
    for (size_t i = 0; i < text.len && st == STATUS_OK;) {
        bool plain;
        size_t end = part_end(text, i, &plain), before = out->len;
        str part = {text.data + i, end - i};
        if (plain || part_is_plain(part, form)) {
            strbuf_add(out, part);
        } else {
            st = normalize_part(&w, part, form, out, err);
        }
        if (st == STATUS_OK && out->failed) st = error_no_memory(err, text.len);
        if (st != STATUS_OK) break;
        size_t n_out = out->len - before;
        bool changed = n_out != part.len || memcmp(out->data + before, part.data, part.len) != 0;
        add_trust(out_trusted, trusted ? trusted + i : NULL, part, n_out, changed);
        i = end;
    }
    free(w.cp);
    free(w.sorted);
    if (st == STATUS_OK && trusted && out_trusted->failed) st = error_no_memory(err, text.len);
    return st;
}

status normalizer_apply(const normalizer *n, str text, const unsigned char *trusted, strbuf *out, strbuf *out_trusted,
                        error *err) {
    if (n->n_steps == 0) {
        strbuf_add(out, text);
        if (trusted) strbuf_add(out_trusted, (str){(const char *)trusted, text.len});
        if (out->failed || (trusted && out_trusted->failed)) return error_no_memory(err, text.len);
        return STATUS_OK;
    }
    if (n->n_steps == 1) return apply_form(n->step[0], text, trusted, out, out_trusted, err);
    // Several forms in a row, e.g. NFD then NFC: each over the whole text.
    normalizer first = {.n_steps = 1, .step = {n->step[0]}}, rest = {.n_steps = n->n_steps - 1};
    memcpy(rest.step, n->step + 1, (size_t)rest.n_steps * sizeof rest.step[0]);
    strbuf mid = {0}, mid_trusted = {0};
    status st = normalizer_apply(&first, text, trusted, &mid, &mid_trusted, err);
    const unsigned char *mid_flags = trusted ? (const unsigned char *)strbuf_text(&mid_trusted) : NULL;
    if (st == STATUS_OK) st = normalizer_apply(&rest, strbuf_str(&mid), mid_flags, out, out_trusted, err);
    strbuf_deinit(&mid);
    strbuf_deinit(&mid_trusted);
    return st;
}
