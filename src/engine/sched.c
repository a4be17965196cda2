#include "engine/generation.h"

// The youngest live generation that holds cache, other than `keep`; NULL if there is none.
static struct tally_generation *youngest_holder(tally_engine *e, const struct tally_generation *keep) {
    for (struct tally_generation *g = e->last; g; g = g->prev) {
        if (g != keep && g->finish == FINISH_NONE && g->seq.cache.n_blocks > 0) return g;
    }
    return NULL;
}

static void drop_part(step_part *parts, struct tally_generation **owner, int *n, const struct tally_generation *g) {
    for (int i = 0; i < *n; i++) {
        if (owner[i] != g) continue;
        for (int j = i + 1; j < *n; j++) parts[j - 1] = parts[j], owner[j - 1] = owner[j];
        (*n)--;
        return;
    }
}

// Whether the free blocks and those of younger generations are enough for g's rows, so that nobody is robbed in vain.
static bool can_reserve(const tally_engine *e, const struct tally_generation *g, int rows) {
    int available = e->blocks.n_free, want = (g->seq.cache.length + rows + KV_BLOCK - 1) / KV_BLOCK - g->seq.cache.n_blocks;
    for (const struct tally_generation *o = g->next; o; o = o->next) available += o->seq.cache.n_blocks;
    return want <= available;
}

// Makes room for g's rows, taking the cache of younger generations if need be. False: g has to wait (or, alone, cannot fit).
static bool reserve(tally_engine *e, struct tally_generation *g, int rows, step_part *parts,
                    struct tally_generation **owner, int *n) {
    if (!can_reserve(e, g, rows)) return false;
    while (!block_table_reserve(&g->seq.cache, rows)) {
        struct tally_generation *victim = youngest_holder(e, g);
        bool older = false; // an older generation is never robbed for a younger one
        for (const struct tally_generation *o = g; o && victim; o = o->prev) older |= o == victim;
        if (!victim || older) return false;
        drop_part(parts, owner, n, victim);
        block_table_truncate(&victim->seq.cache, 0);
    }
    return true;
}

int sched_choose(tally_engine *e, step_part *parts, struct tally_generation **owner) {
    int n = 0, rows = 0, wanted = 0;
    for (int decode = 1; decode >= 0; decode--) {
        for (struct tally_generation *g = e->first; g; g = g->next) {
            int pending = g->seq.n_tokens - g->seq.cache.length;
            if (g->finish || (pending == 1) != decode || rows >= e->step_rows || wanted >= e->logit_rows) continue;
            int take = pending < e->step_rows - rows ? pending : e->step_rows - rows;
            if (!reserve(e, g, take, parts, owner, &n)) continue;
            bool last = take == pending;
            parts[n] = (step_part){.seq = &g->seq, .n_rows = take, .last_logits = last};
            owner[n++] = g;
            rows = wanted = 0; // a victim's part may have gone: count again
            for (int i = 0; i < n; i++) rows += parts[i].n_rows, wanted += parts[i].last_logits;
        }
    }
    return n;
}
