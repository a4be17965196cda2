#include "text/bpe.h"

#include <stdlib.h>

#include "base/hash.h"

enum { SHORT_SYMBOLS = 40 }; // up to so many, scanning all pairs for every merge beats a heap

typedef struct bpe_symbol {
    int32_t id;         // -1: merged into its left neighbour
    int32_t prev, next; // -1: none
} bpe_symbol;

// A pair that may merge: its rank, then (lower half) its left symbol. A pair of another rank standing there now means that the
// candidate is stale.
typedef uint64_t bpe_candidate;

void bpe_init(bpe *b) {
    *b = (bpe){.unknown_id = -1};
    for (int i = 0; i < 256; i++) b->byte_id[i] = -1;
}

void bpe_deinit(bpe *b) {
    free(b->pairs);
    bpe_init(b);
}

static size_t pair_slot(int32_t left, int32_t right, size_t n_slots) {
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return (size_t)((key * 0x9e3779b97f4a7c15u) >> 32) & (n_slots - 1);
}

// The pair's slot, or the empty one where it belongs; the table is never full.
static bpe_pair *pair_find(bpe_pair *pairs, size_t n_slots, int32_t left, int32_t right) {
    for (size_t i = pair_slot(left, right, n_slots);; i = (i + 1) & (n_slots - 1)) {
        bpe_pair *p = &pairs[i];
        if (p->left < 0 || (p->left == left && p->right == right)) return p;
    }
}

bool bpe_reserve(bpe *b, size_t n) {
    size_t want = 64;
    while (want / 8 * 5 < n) { // at most 5/8 full
        if (want > SIZE_MAX / 2 / sizeof(bpe_pair)) return false;
        want *= 2;
    }
    if (want <= b->n_slots) return true;
    bpe_pair *pairs = malloc(want * sizeof *pairs);
    if (!pairs) return false;
    for (size_t i = 0; i < want; i++) pairs[i].left = -1;
    for (size_t i = 0; i < b->n_slots; i++) {
        const bpe_pair *p = &b->pairs[i];
        if (p->left >= 0) *pair_find(pairs, want, p->left, p->right) = *p;
    }
    free(b->pairs);
    b->pairs = pairs;
    b->n_slots = want;
    return true;
}

bool bpe_add_merge(bpe *b, bpe_pair pair) {
    if (!bpe_reserve(b, b->count + 1)) return false;
    bpe_pair *p = pair_find(b->pairs, b->n_slots, pair.left, pair.right);
    if (p->left < 0) b->count++;
    *p = pair;
    return true;
}

static const bpe_pair *pair_get(const bpe *b, int32_t left, int32_t right) {
    if (b->n_slots == 0) return NULL;
    const bpe_pair *p = pair_find(b->pairs, b->n_slots, left, right);
    return p->left < 0 ? NULL : p;
}

// The first symbols of a piece: one per byte, without bytes the vocabulary does not know. `ids` has room for piece.len.
static size_t first_symbols(const bpe *b, str piece, int32_t *ids) {
    size_t n = 0;
    bool after_unknown = false;
    for (size_t i = 0; i < piece.len; i++) {
        int32_t id = b->byte_id[(unsigned char)piece.data[i]];
        bool unknown = id < 0;
        if (unknown) id = b->unknown_id;
        if (id >= 0 && !(unknown && after_unknown && b->fuse_unknown)) ids[n++] = id;
        after_unknown = unknown;
    }
    return n;
}

static void encode_short(const bpe *b, str piece, token_list *out) {
    int32_t id[SHORT_SYMBOLS], merged[SHORT_SYMBOLS];
    uint32_t rank[SHORT_SYMBOLS]; // of the pair (i, i + 1); UINT32_MAX: none
    size_t n = first_symbols(b, piece, id);
    for (size_t i = 0; i + 1 < n; i++) {
        const bpe_pair *p = pair_get(b, id[i], id[i + 1]);
        rank[i] = p ? p->rank : UINT32_MAX;
        merged[i] = p ? p->merged : -1;
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++) best = rank[i] < rank[best] ? i : best;
        if (rank[best] == UINT32_MAX) break;
        id[best] = merged[best];
        n--;
        size_t moved = n - best - 1; // symbols behind the pair
        memmove(id + best + 1, id + best + 2, moved * sizeof *id);
        memmove(rank + best, rank + best + 1, moved * sizeof *rank);
        memmove(merged + best, merged + best + 1, moved * sizeof *merged);
        for (size_t i = best ? best - 1 : 0; i <= best && i + 1 < n; i++) {
            const bpe_pair *p = pair_get(b, id[i], id[i + 1]);
            rank[i] = p ? p->rank : UINT32_MAX;
            merged[i] = p ? p->merged : -1;
        }
    }
    for (size_t i = 0; i < n; i++) token_list_add(out, id[i]);
}

enum { HEAP_WAYS = 8 }; // children per node: shallower, and they share a cache line

static bool heap_push(bpe_scratch *s, bpe_candidate c) {
    if (s->heap_len == s->heap_cap) {
        size_t cap = s->heap_cap ? s->heap_cap * 2 : 256;
        bpe_candidate *heap = realloc(s->heap, cap * sizeof *heap);
        if (!heap) return false;
        s->heap = heap;
        s->heap_cap = cap;
    }
    size_t i = s->heap_len++;
    while (i > 0) {
        size_t parent = (i - 1) / HEAP_WAYS;
        if (c >= s->heap[parent]) break;
        s->heap[i] = s->heap[parent];
        i = parent;
    }
    s->heap[i] = c;
    return true;
}

static bpe_candidate heap_pop(bpe_scratch *s) {
    bpe_candidate top = s->heap[0], moved = s->heap[--s->heap_len];
    size_t i = 0, n = s->heap_len;
    for (;;) {
        size_t child = i * HEAP_WAYS + 1, best = child;
        if (child >= n) break;
        for (size_t k = child + 1; k < n && k < child + HEAP_WAYS; k++) best = s->heap[k] < s->heap[best] ? k : best;
        if (s->heap[best] >= moved) break;
        s->heap[i] = s->heap[best];
        i = best;
    }
    s->heap[i] = moved; // n == 0: slot 0, harmless
    return top;
}

static bool queue_pair(const bpe *b, bpe_scratch *s, int32_t at) {
    if (at < 0 || s->symbols[at].next < 0) return true;
    const bpe_pair *p = pair_get(b, s->symbols[at].id, s->symbols[s->symbols[at].next].id);
    return !p || heap_push(s, (uint64_t)p->rank << 32 | (uint32_t)at);
}

static status symbols_reserve(bpe_scratch *s, size_t n, error *err) {
    if (n <= s->symbols_cap) return STATUS_OK;
    free(s->symbols);
    s->symbols = malloc(n * sizeof *s->symbols);
    s->symbols_cap = s->symbols ? n : 0;
    return s->symbols ? STATUS_OK : error_no_memory(err, n * sizeof *s->symbols);
}

// Lays out the symbols as a list and queues every pair that may merge.
static status start_long(const bpe *b, bpe_scratch *s, str piece, size_t *n, error *err) {
    TRY(symbols_reserve(s, piece.len, err));
    int32_t *ids = malloc(piece.len * sizeof *ids);
    if (!ids) return error_no_memory(err, piece.len * sizeof *ids);
    *n = first_symbols(b, piece, ids);
    for (size_t i = 0; i < *n; i++) {
        s->symbols[i] = (bpe_symbol){.id = ids[i], .prev = (int32_t)i - 1, .next = i + 1 < *n ? (int32_t)i + 1 : -1};
    }
    free(ids);
    s->heap_len = 0;
    for (size_t i = 0; i < *n; i++) {
        if (!queue_pair(b, s, (int32_t)i)) return error_no_memory(err, s->heap_cap * 2 * sizeof *s->heap);
    }
    return STATUS_OK;
}

static status encode_long(const bpe *b, bpe_scratch *s, str piece, token_list *out, error *err) {
    size_t n;
    TRY(start_long(b, s, piece, &n, err));
    while (s->heap_len > 0) {
        bpe_candidate c = heap_pop(s);
        int32_t at = (int32_t)(uint32_t)c;
        bpe_symbol *left = &s->symbols[at];
        if (left->id < 0 || left->next < 0) continue;
        bpe_symbol *right = &s->symbols[left->next];
        const bpe_pair *p = pair_get(b, left->id, right->id);
        if (!p || p->rank != c >> 32) continue;
        left->id = p->merged;
        right->id = -1;
        left->next = right->next;
        if (right->next >= 0) s->symbols[right->next].prev = at;
        if (!queue_pair(b, s, left->prev) || !queue_pair(b, s, at)) {
            return error_no_memory(err, s->heap_cap * 2 * sizeof *s->heap);
        }
    }
    for (int32_t i = n ? 0 : -1; i >= 0; i = s->symbols[i].next) token_list_add(out, s->symbols[i].id);
    return STATUS_OK;
}

status bpe_encode(const bpe *b, bpe_scratch *s, str piece, token_list *out, error *err) {
    int64_t id;
    if (b->whole && map_get(b->whole, piece, &id)) {
        token_list_add(out, (int32_t)id);
        return STATUS_OK;
    }
    if (piece.len <= SHORT_SYMBOLS) {
        encode_short(b, piece, out);
        return STATUS_OK;
    }
    if (piece.len > INT32_MAX / 2) {
        return error_set(err, STATUS_BAD_ARGUMENT,
                         "a piece of text of %zu bytes is longer than the %d that can be tokenized at once", piece.len,
                         INT32_MAX / 2);
    }
    return encode_long(b, s, piece, out, err);
}

void bpe_scratch_deinit(bpe_scratch *s) {
    free(s->symbols);
    free(s->heap);
    *s = (bpe_scratch){0};
}
