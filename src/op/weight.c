#include "op/weight.h"

#include <string.h>

int weight_add(weight_set *set, const weight *w) {
    if (set->n == set->cap) {
        int cap = set->cap ? set->cap * 2 : 256;
        weight *grown = arena_calloc(set->memory, (size_t)cap, sizeof *grown);
        if (!grown) return -1;
        if (set->n) memcpy(grown, set->w, (size_t)set->n * sizeof *grown);
        set->w = grown;
        set->cap = cap;
    }
    set->w[set->n] = *w;
    return set->n++;
}

int64_t weight_file_bytes(const weight *w) {
    int64_t sum = 0;
    for (int i = 0; i < w->n_parts; i++)
        sum += w->n_experts * w->part[i].n_rows * dtype_row_bytes(w->part[i].type, w->k);
    return sum;
}
