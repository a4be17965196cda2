#include "text/added_tokens.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "text/utf8.h"

void added_set_init(added_set *s, const added_token *tokens) { *s = (added_set){.tokens = tokens}; }

void added_set_deinit(added_set *s) {
    free(s->nodes);
    *s = (added_set){0};
}

static int32_t node_new(added_set *s, unsigned char byte) {
    if (s->n_nodes + 1 >= s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 256;
        added_node *nodes = cap > INT32_MAX ? NULL : realloc(s->nodes, cap * sizeof *nodes);
        if (!nodes) return 0;
        s->nodes = nodes;
        s->cap = cap;
    }
    if (s->n_nodes == 0) s->nodes[s->n_nodes++] = (added_node){.token = -1};
    s->nodes[s->n_nodes] = (added_node){.token = -1, .byte = byte};
    return (int32_t)s->n_nodes++;
}

static int32_t node_child(const added_set *s, int32_t node, unsigned char byte) {
    int32_t c = s->nodes[node].child;
    while (c && s->nodes[c].byte != byte) c = s->nodes[c].sibling;
    return c;
}

bool added_set_add(added_set *s, int index, str content) {
    int32_t node = 0;
    for (size_t i = 0; i < content.len; i++) {
        unsigned char byte = (unsigned char)content.data[i];
        int32_t next = i == 0 ? s->first[byte] : node_child(s, node, byte);
        if (!next) {
            next = node_new(s, byte);
            if (!next) return false;
            if (i == 0) {
                s->first[byte] = next;
            } else {
                s->nodes[next].sibling = s->nodes[node].child;
                s->nodes[node].child = next;
            }
        }
        node = next;
    }
    if (content.len && s->nodes[node].token < 0) s->nodes[node].token = index;
    return true;
}

bool added_set_find(const added_set *s, str text, size_t from, added_match *m) {
    if (s->n_nodes == 0) return false;
    for (size_t i = from; i < text.len; i++) {
        int32_t node = s->first[(unsigned char)text.data[i]];
        int found = -1;
        size_t end = 0;
        for (size_t j = i + 1; node; j++) {
            if (s->nodes[node].token >= 0) {
                found = s->nodes[node].token;
                end = j;
            }
            node = j < text.len ? node_child(s, node, (unsigned char)text.data[j]) : 0;
        }
        if (found >= 0) {
            *m = (added_match){found, i, end};
            return true;
        }
    }
    return false;
}

static bool is_white_space(int32_t c) {
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

// A word character: alphabetic, mark, decimal digit, connector or joiner (Unicode technical standard 18, \w). Alphabetic beyond
// the letter categories: letter numbers, marks, circled and squared Latin letters.
static bool is_word(int32_t c) {
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: break;
    }
    return c == 0x200c || c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
           (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

// The character that ends before `at`, at > 0.
static int32_t character_before(str text, size_t at, size_t *start) {
    size_t i = at - 1;
    while (i > 0 && ((unsigned char)text.data[i] & 0xc0) == 0x80) i--;
    *start = i;
    int n;
    return utf8_decode(text.data + i, &n);
}

bool added_token_extent(const added_token *t, str text, size_t floor, const added_match *m, size_t *start,
                        size_t *end) {
    size_t before;
    int n;
    *start = m->start;
    *end = m->end;
    if (t->single_word) {
        if (m->start > 0 && is_word(character_before(text, m->start, &before))) return false;
        if (m->end < text.len && is_word(utf8_decode(text.data + m->end, &n))) return false;
    }
    if (t->lstrip) {
        while (*start > floor && is_white_space(character_before(text, *start, &before)) && before >= floor)
            *start = before;
    }
    if (t->rstrip) {
        while (*end < text.len && is_white_space(utf8_decode(text.data + *end, &n))) *end += (size_t)n;
    }
    return true;
}
