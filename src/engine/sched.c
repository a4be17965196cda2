#include "engine/generation.h"

// A step being put together.
typedef struct step_choice {
    tally_engine *e;
    step_part *parts;
    struct tally_generation **owner;
    int n, rows, wanted;
} step_choice;

static int pending(const struct tally_generation *g) { return g->seq.n_tokens - g->seq.cache.length; }

// The youngest live generation that holds cache and is younger than g; NULL if there is none: an older one is never robbed.
static struct tally_generation *younger_holder(tally_engine *e, const struct tally_generation *g) {
    for (struct tally_generation *y = e->last; y != g; y = y->prev) {
        if (y->finish == FINISH_NONE && y->seq.cache.n_blocks > 0) return y;
    }
    return NULL;
}

static void drop_part(step_choice *c, const struct tally_generation *g) {
    for (int i = 0; i < c->n; i++) {
        if (c->owner[i] != g) continue;
        c->rows -= c->parts[i].n_rows;
        c->wanted -= c->parts[i].last_logits;
        c->n--;
        for (int j = i; j < c->n; j++) c->parts[j] = c->parts[j + 1], c->owner[j] = c->owner[j + 1];
        return;
    }
}

// Whether g's next rows would have room if all younger generations gave up their cache.
static bool could_fit(tally_engine *e, const struct tally_generation *g, int rows) {
    bool fits = false;
    for (int pass = 0; pass < 2; pass++) { // their blocks are taken out of their tables to be counted, and put back
        for (struct tally_generation *y = e->last; y != g; y = y->prev) {
            for (int i = 0; i < y->seq.cache.n_blocks && !y->finish; i++)
                e->blocks.holders[y->seq.cache.block[i]] += pass ? 1 : -1;
        }
        if (pass == 0) fits = block_pool_obtainable(&e->blocks) >= block_table_lacks(&g->seq.cache, rows);
    }
    return fits;
}

// Room for g's next rows, taken from younger generations if need be; what those lose is computed again later, to the same bits. Nobody
// loses anything if that does not suffice.
static bool reserve(step_choice *c, struct tally_generation *g, int rows) {
    if (block_table_reserve(&g->seq.cache, rows)) return true;
    if (!could_fit(c->e, g, rows)) return false;
    while (!block_table_reserve(&g->seq.cache, rows)) {
        struct tally_generation *victim = younger_holder(c->e, g);
        if (!victim) return false;
        drop_part(c, victim);
        block_table_truncate(&victim->seq.cache, 0);
        c->e->stats.preemptions++;
    }
    return true;
}

static void choose(step_choice *c, struct tally_generation *g, int max_rows) {
    int left = pending(g), take = left < max_rows ? left : max_rows;
    if (!reserve(c, g, take)) return;
    c->parts[c->n] =
        (step_part){.seq = &g->seq, .n_rows = take, .last_logits = take == left, .best = generation_best(g)};
    c->owner[c->n++] = g;
    c->rows += take;
    c->wanted += take == left;
}

static void count_waits(tally_engine *e, const step_choice *c) {
    for (int i = 0; i < c->n; i++) {
        int64_t wait = e->stats.steps - c->owner[i]->last_served;
        if (wait > e->stats.worst_wait) e->stats.worst_wait = wait;
        c->owner[i]->last_served = e->stats.steps + 1; // the step that is about to run
        generation_served(c->owner[i]);
    }
}

static void choose_decoding(step_choice *c, int max_rows, int max_wanted) {
    for (struct tally_generation *g = c->e->turn_first; g; g = g->turn_next) {
        if (g->finish || pending(g) != 1) continue;
        if (c->rows >= max_rows || c->wanted >= max_wanted) break;
        choose(c, g, 1);
    }
}

int sched_choose(tally_engine *e, step_part *parts, struct tally_generation **owner) {
    step_choice c = {.e = e, .parts = parts, .owner = owner};
    bool prompts = false;
    for (struct tally_generation *g = e->first; g; g = g->next) {
        if (g->finish) continue;
        if (g->seq.cache.n_blocks == 0) sequence_adopt_prefix(e, &g->seq);
        prompts |= pending(g) > 1;
    }
    choose_decoding(&c, e->step_rows - prompts, e->logit_rows - prompts); // a prompt can always finish
    for (struct tally_generation *g = e->first; g; g = g->next) {
        if (g->finish || pending(g) == 1) continue;
        if (c.rows >= e->step_rows || c.wanted >= e->logit_rows) break;
        choose(&c, g, e->step_rows - c.rows < e->chunk_rows ? e->step_rows - c.rows : e->chunk_rows);
    }
    if (c.n == 0) choose_decoding(&c, e->step_rows, e->logit_rows); // no prompt got in
    count_waits(e, &c);
    speculation_plan(e, parts, owner, c.n);
    return c.n;
}
