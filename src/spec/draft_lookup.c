#include "spec/draft_lookup.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "spec/draft_policy.h"
#include "spec/gram_index.h"

_Static_assert((int)LOOKUP_MAX_GRAM == (int)GRAM_MAX, "one limit for both");

typedef struct draft_lookup {
    drafter base;
    lookup_options o;
    lookup_corpus *corpus; // or NULL
    gram_index index;      // grams that end before token[1 .. indexed], with that token behind them
    int indexed;
} draft_lookup;

// A continuation: tokens from `place` on, of the own history or of the corpus.
typedef struct branch {
    int64_t place;
    bool from_corpus;
    int kind;
} branch;

typedef struct branches {
    branch of[LOOKUP_BRANCHES];
    int n, max;
} branches;

int lookup_kind(int n, bool from_corpus) {
    if (from_corpus) return DRAFT_CORPUS + (n < 3 ? 0 : n < 4 ? 1 : n < 6 ? 2 : n < 10 ? 3 : n < 20 ? 4 : 5);
    return DRAFT_OWN + (n < 6 ? n - 1 : n < 8 ? 5 : n < 12 ? 6 : n < 20 ? 7 : n < LOOKUP_EXTEND ? 8 : 9);
}

static int ways_of(const lookup_options *o) { return o->tree ? LOOKUP_WAYS : 1; }

size_t draft_lookup_bytes(const lookup_options *o) {
    return sizeof(draft_lookup) + gram_index_bytes(o->min, o->max, ways_of(o), o->context);
}

static void lookup_destroy(drafter *d) {
    draft_lookup *l = (draft_lookup *)d;
    gram_index_destroy(&l->index);
    free(l);
}

static gram_text text_of(const int32_t *token) { return (gram_text){token, UINT32_MAX}; }

// The last gram is not indexed before it is known what follows it, so that a lookup never finds the end itself.
static void index_history(draft_lookup *l, const int32_t *token, int n) {
    if (n - 1 < l->indexed) {
        gram_index_clear(&l->index);
        l->indexed = 0;
    }
    int end = n - 1 < l->o.context ? n - 1 : l->o.context;
    for (int place = l->indexed + 1; place <= end; place++) {
        uint32_t tag[GRAM_MAX + 1];
        int longest = place < l->o.max ? place : l->o.max;
        gram_tags(token + place, longest, tag);
        for (int length = l->o.min; length <= longest; length++)
            gram_index_add(&l->index, text_of(token), (gram_key){token + place - length, length, tag[length]},
                           (uint32_t)place);
        l->indexed = place;
    }
}

static int match_length(const draft_lookup *l, const int32_t *token, int n, const branch *b, int length) {
    int32_t before;
    while (length < LOOKUP_EXTEND && length < n) {
        if (b->from_corpus) {
            if (!lookup_corpus_before(l->corpus, b->place, length, &before)) break;
        } else {
            if (b->place - 1 - length < 0) break;
            before = token[b->place - 1 - length];
        }
        if (before != token[n - 1 - length]) break;
        length++;
    }
    return length;
}

// Appends the continuations of one length; those known from a longer one are left out.
static void add_branches(const draft_lookup *l, const int32_t *token, int n, gram_key key, branches *out) {
    int64_t place[2 * LOOKUP_WAYS];
    uint32_t own[LOOKUP_WAYS];
    int n_own = gram_index_find(&l->index, text_of(token), key, own, LOOKUP_WAYS), n_places = n_own;
    for (int i = 0; i < n_own; i++) place[i] = own[i];
    if (l->corpus) n_places += lookup_corpus_find(l->corpus, key.token, key.length, place + n_own, LOOKUP_WAYS);
    for (int i = 0; i < n_places && out->n < out->max; i++) {
        branch b = {.place = place[i], .from_corpus = i >= n_own};
        bool known = false;
        for (int k = 0; k < out->n && !known; k++)
            known = out->of[k].place == b.place && out->of[k].from_corpus == b.from_corpus;
        if (known) continue;
        b.kind = lookup_kind(match_length(l, token, n, &b, key.length), b.from_corpus);
        out->of[out->n++] = b;
    }
}

static void find_branches(const draft_lookup *l, const int32_t *token, int n, branches *out) {
    int longest = n < l->o.max ? n : l->o.max;
    uint32_t tag[GRAM_MAX + 1];
    *out = (branches){.max = l->o.tree ? LOOKUP_BRANCHES : 1};
    gram_tags(token + n, longest, tag);
    for (int length = longest; length >= l->o.min && out->n < out->max; length--)
        add_branches(l, token, n, (gram_key){token + n - length, length, tag[length]}, out);
}

// The branch's tokens, at most max; the own history is read in circles from the place to its end.
static int continuation(const draft_lookup *l, const int32_t *token, int n, const branch *b, int32_t *out, int max) {
    int k = 0;
    if (b->from_corpus) {
        while (k < max && lookup_corpus_next(l->corpus, b->place, k, out + k)) k++;
        return k;
    }
    for (int64_t at = b->place; k < max; k++) {
        out[k] = token[at];
        if (++at == n) at = b->place;
    }
    return k;
}

static void propose_chain(const draft_lookup *l, const int32_t *token, int n, const branch *b, int max_nodes,
                          draft *out) {
    out->n = continuation(l, token, n, b, out->token, max_nodes);
    for (int i = 0; i < out->n; i++) out->parent[i] = (int8_t)(i - 1);
    out->kind = b->kind;
}

// A trie node of all continuations. Children hang in a list: few, and found in the order they were made.
typedef struct trie_node {
    int32_t token;
    int16_t parent, child, sibling; // -1: none
    int16_t proposed;               // its number in the proposal, -1: not yet
    double value;
} trie_node;

enum { TRIE_MAX = LOOKUP_BRANCHES * DRAFT_MAX + 1 }; // node 0 is the root

static int trie_child(trie_node *t, int *n_nodes, int at, int32_t token) {
    int16_t *link = &t[at].child;
    while (*link >= 0 && t[*link].token != token) link = &t[*link].sibling;
    if (*link < 0) {
        *link = (int16_t)*n_nodes;
        t[(*n_nodes)++] =
            (trie_node){.token = token, .parent = (int16_t)at, .child = -1, .sibling = -1, .proposed = -1};
    }
    return *link;
}

// A node's value is no greater than its parent's, and it was made later: taking the greatest, first made among equals, takes parents first.
static void propose_best(trie_node *t, int n_nodes, int max_nodes, draft *out) {
    t[0].proposed = 0; // stands for: the root is there
    for (out->n = 0; out->n < max_nodes; out->n++) {
        int best = -1;
        for (int i = 1; i < n_nodes; i++) {
            if (t[i].proposed < 0 && (best < 0 || t[i].value > t[best].value)) best = i;
        }
        if (best < 0) break;
        int parent = t[best].parent;
        out->token[out->n] = t[best].token;
        out->parent[out->n] = (int8_t)(parent ? t[parent].proposed : -1);
        t[best].proposed = (int16_t)out->n;
    }
}

static void propose_tree(const draft_lookup *l, const int32_t *token, int n, const branches *b, int max_nodes,
                         draft *out) {
    trie_node t[TRIE_MAX];
    int n_nodes = 1;
    double left = 1; // probability that none of the branches so far is right
    t[0] = (trie_node){.parent = -1, .child = -1, .sibling = -1};
    for (int k = 0; k < b->n; k++) {
        int32_t next[DRAFT_MAX];
        int n_next = continuation(l, token, n, &b->of[k], next, max_nodes), at = 0;
        double h = draft_policy_prior(b->of[k].kind), value = left;
        for (int j = 0; j < n_next; j++) {
            at = trie_child(t, &n_nodes, at, next[j]);
            t[at].value += value *= h;
        }
        left *= 1 - h;
    }
    propose_best(t, n_nodes, max_nodes, out);
    out->kind = b->of[0].kind;
}

static status lookup_propose(drafter *d, const int32_t *token, int n, int max_nodes, draft *out, error *err) {
    (void)err;
    draft_lookup *l = (draft_lookup *)d;
    assert(n >= 1 && max_nodes >= 1 && max_nodes <= DRAFT_MAX);
    out->n = 0;
    out->kind = 0;
    index_history(l, token, n);
    branches b;
    find_branches(l, token, n, &b);
    if (b.n && l->o.tree)
        propose_tree(l, token, n, &b, max_nodes, out);
    else if (b.n)
        propose_chain(l, token, n, &b.of[0], max_nodes, out);
    return STATUS_OK;
}

status draft_lookup_create(drafter **out, const lookup_options *o, lookup_corpus *corpus, error *err) {
    static const drafter_vtable vtable = {.name = "lookup", .destroy = lookup_destroy, .propose = lookup_propose};
    *out = NULL;
    if (o->min < 1 || o->min > o->max || o->max > LOOKUP_MAX_GRAM)
        return error_set(err, STATUS_BAD_ARGUMENT,
                         "prompt lookup cannot match %d to %d tokens; use --lookup-min and --lookup-max within 1 to "
                         "%d, the first no greater",
                         o->min, o->max, LOOKUP_MAX_GRAM);
    if (o->context < 1 || o->context > 1 << 28)
        return error_set(err, STATUS_BAD_ARGUMENT, "prompt lookup over a context of %d tokens; use 1 to %d", o->context,
                         1 << 28);
    draft_lookup *l = calloc(1, sizeof(*l));
    if (!l) return error_no_memory(err, sizeof(*l));
    l->base.vt = &vtable;
    l->o = *o;
    l->corpus = corpus;
    status st = gram_index_create(&l->index, o->min, o->max, ways_of(o), o->context, err);
    if (st) {
        free(l);
        return st;
    }
    *out = &l->base;
    return STATUS_OK;
}
