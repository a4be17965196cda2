#include "spec/draft.h"

int draft_child(const draft *d, int at, int32_t token) {
    for (int i = at + 1; i < d->n; i++) {
        if (d->parent[i] == at && d->token[i] == token) return i;
    }
    return -1;
}

int draft_depth(const draft *d, int node) {
    int depth = 0;
    for (; node >= 0; node = d->parent[node]) depth++;
    return depth;
}

bool draft_is_chain(const draft *d) {
    for (int i = 0; i < d->n; i++) {
        if (d->parent[i] != i - 1) return false;
    }
    return true;
}

void draft_clip(draft *d, int max_nodes, int max_depth, int n_vocab) {
    int given = d->n < 0 ? 0 : d->n > DRAFT_MAX ? DRAFT_MAX : d->n;
    int8_t moved[DRAFT_MAX]; // where a kept node went; -1: removed
    d->n = 0;
    for (int i = 0; i < given && d->n < max_nodes; i++) {
        int32_t token = d->token[i];
        int parent = d->parent[i];
        moved[i] = -1;
        if (token < 0 || token >= n_vocab || parent < -1 || parent >= i) continue;
        if (parent >= 0 && (parent = moved[parent]) < 0) continue;
        if (draft_child(d, parent, token) >= 0 || draft_depth(d, parent) >= max_depth) continue;
        moved[i] = (int8_t)d->n;
        d->token[d->n] = token;
        d->parent[d->n++] = (int8_t)parent;
    }
    if (d->kind < 0) d->kind = 0;
    if (d->kind >= DRAFT_CLASSES) d->kind = DRAFT_CLASSES - 1;
}
