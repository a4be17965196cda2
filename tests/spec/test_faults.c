// Mistakes that engines with drafts have made, made on purpose: each must be caught by the check that is named for it, which finds
// nothing when the mistake is taken out again. Masks and rotations are in test_rows.c, ranks in test_ranks.c.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "tests/support/spec_check.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { K = 6, N_PROMPT = 40 };

// ---- choices ---------------------------------------------------------------------------------------------------------------

static const draft *draft_of(const verify_step *v) { return &v->g->spec.draft; }

static int32_t take(verify_step *v, int32_t id, int row, bool *stop) {
    generation_accept(v->g, id, v->result->logits + (int64_t)row * v->g->engine->n_vocab);
    *stop = v->g->finish != FINISH_NONE;
    return id;
}

static int32_t sample(const verify_step *v, int row) {
    struct tally_generation *g = v->g;
    return sampler_choose(&g->sampling, v->result->logits + (int64_t)row * g->engine->n_vocab, &g->history,
                          (uint64_t)g->seq.n_tokens, &g->engine->sampler);
}

static int32_t first_draft_unverified(void *ctx, int row, bool *stop) {
    verify_step *v = ctx;
    if (row == 0 && draft_of(v)->n > 0) return take(v, draft_of(v)->token[0], 0, stop);
    return verify_step_choose(ctx, row, stop);
}

// The token behind the accepted drafts is chosen from another row than theirs.
static int32_t bonus_from(verify_step *v, int row, int other, bool *stop) {
    int32_t id = sample(v, row);
    if (draft_child(draft_of(v), row - 1, id) < 0) id = sample(v, other), row = other;
    return take(v, id, row, stop);
}

static int32_t bonus_from_last_row(void *ctx, int row, bool *stop) {
    return bonus_from(ctx, row, draft_of(ctx)->n, stop);
}

static int32_t bonus_from_row_0(void *ctx, int row, bool *stop) { return bonus_from(ctx, row, 0, stop); }

static int32_t shifted(void *ctx, int row, int by, bool *stop) {
    verify_step *v = ctx;
    int other = row + by;
    if (other < 0 || other > draft_of(v)->n) other = row;
    return take(v, sample(v, other), other, stop);
}

static int32_t rows_shifted_up(void *ctx, int row, bool *stop) { return shifted(ctx, row, 1, stop); }
static int32_t rows_shifted_down(void *ctx, int row, bool *stop) { return shifted(ctx, row, -1, stop); }

// A stop that is not the last token of what was accepted does not end the text.
static int32_t stop_ignored(void *ctx, int row, bool *stop) {
    verify_step *v = ctx;
    int32_t id = verify_step_choose(ctx, row, stop);
    if (v->g->finish == FINISH_STOP && draft_child(draft_of(v), row - 1, id) >= 0)
        v->g->finish = FINISH_NONE, *stop = false;
    return id;
}

// The number that the draw depends on counts from the cycle's first token.
static int32_t draw_at_one_position(void *ctx, int row, bool *stop) {
    verify_step *v = ctx;
    struct tally_generation *g = v->g;
    int depth = draft_depth(draft_of(v), row - 1);
    int32_t id = sampler_choose(&g->sampling, v->result->logits + (int64_t)row * g->engine->n_vocab, &g->history,
                                (uint64_t)(g->seq.n_tokens - depth), &g->engine->sampler);
    return take(v, id, row, stop);
}

// ---- the walk's result, which says what is committed ------------------------------------------------------------------------

static verify_result committing(const draft *d, verify_result r, int n) {
    for (int i = r.n_accepted; i < n && i < d->n; i++) r.path[i] = (int8_t)(i ? r.path[i - 1] + 1 : 0);
    r.n_accepted = n < 0 ? 0 : n > d->n ? d->n : n;
    return r;
}

static verify_result not_rewound(const draft *d, verify_choose *choose, void *ctx) {
    return committing(d, verify_walk(d, choose, ctx), d->n);
}

static verify_result one_too_few(const draft *d, verify_choose *choose, void *ctx) {
    verify_result r = verify_walk(d, choose, ctx);
    return committing(d, r, r.n_accepted + 1);
}

static verify_result rewound_by_k(const draft *d, verify_choose *choose, void *ctx) {
    verify_result r = verify_walk(d, choose, ctx);
    return d->n ? committing(d, r, r.n_accepted - (K - d->n)) : r;
}

static verify_result sampler_holds_rejected(const draft *d, verify_choose *choose, void *ctx) {
    verify_result r = verify_walk(d, choose, ctx);
    verify_step *v = ctx;
    for (int i = r.n_accepted; i < d->n && v->g->history.output; i++) v->g->history.output[d->token[i]]++;
    return r;
}

static verify_result history_holds_rejected(const draft *d, verify_choose *choose, void *ctx) {
    verify_result r = verify_walk(d, choose, ctx);
    verify_step *v = ctx;
    if (r.n_accepted < d->n && !v->g->finish) { // the text the next drafts are looked up in
        v->g->seq.token[v->g->seq.n_tokens++] = d->token[r.n_accepted];
        return committing(d, r, r.n_accepted + 1);
    }
    return r;
}

// ---- each is caught ----------------------------------------------------------------------------------------------------------

typedef struct fault {
    const char *name;
    verify_choose *choose;
    verify_result (*walk)(const draft *d, verify_choose *choose, void *ctx);
    spec_propose *propose;
    bool sampled, stops;
    const char *says; // part of the difference
} fault;

static const fault FAULTS[] = {
    {"first draft token unverified", first_draft_unverified, NULL, spec_wrong, .says = "token"},
    {"first draft token unverified, drawn", first_draft_unverified, NULL, spec_in_turn, .sampled = true,
     .says = "token"},
    {"bonus token from the last row", bonus_from_last_row, NULL, spec_in_turn, .says = "of cycle"},
    {"bonus token from row 0", bonus_from_row_0, NULL, spec_in_turn, .says = "of cycle"},
    {"rows shifted up by one", rows_shifted_up, NULL, spec_in_turn, .says = "of cycle"},
    {"rows shifted down by one", rows_shifted_down, NULL, spec_in_turn, .says = "of cycle"},
    {"all rows drawn at one position", draw_at_one_position, NULL, spec_perfect, .sampled = true, .says = "of cycle"},
    {"stop inside a run ignored", stop_ignored, NULL, spec_perfect, .stops = true, .says = "token"},
    {"cache not rewound", NULL, not_rewound, spec_in_turn, .says = "positions are cached"},
    {"cache rewound one too few", NULL, one_too_few, spec_in_turn, .says = "positions are cached"},
    {"cache rewound by K", NULL, rewound_by_k, spec_random, .says = "positions are cached"},
    {"sampler holding rejected drafts", NULL, sampler_holds_rejected, spec_in_turn, .sampled = true, .says = "sampler"},
    {"history holding rejected drafts", NULL, history_holds_rejected, spec_in_turn, .says = "of cycle"},
};
enum { N_FAULTS = sizeof FAULTS / sizeof *FAULTS };

static temp_folder folder;
static spec_pair pair;

static int setup(void **state) {
    (void)state;
    folder = temp_folder_make();
    const char *path = temp_folder_path(&folder, "model.gguf");
    tiny_text_gguf(path, DTYPE_Q8_0, 5, "{{ messages[0].content }}");
    pair = spec_pair_open(path, &(tally_engine_options){.threads = 1, .context = 256, .step_rows = 64});
    return 0;
}

static int teardown(void **state) {
    (void)state;
    spec_pair_close(&pair);
    temp_folder_remove(&folder);
    return 0;
}

// A text of the model's, and a stop string that it reaches after some twenty tokens, or none.
static const char *stop_of(const tally_request *r, char out[8]) {
    spec_plain *t = spec_plain_run(&pair, r);
    size_t from = strlen(t->text) / 2;
    for (; t->text[from]; from++) { // three bytes of ASCII that do not come before
        bool ascii = true;
        for (int i = 0; i < 3; i++) ascii &= t->text[from + (size_t)i] > 0;
        if (!ascii) continue;
        memcpy(out, t->text + from, 3);
        out[3] = 0;
        if (strstr(t->text, out) == t->text + from) break;
    }
    spec_plain_free(t);
    return out;
}

static tally_request request_for(const fault *f, const int32_t *ids, const char *const *stop) {
    tally_request r = {.ids = ids, .n_ids = N_PROMPT, .max_tokens = 60, .ignore_eos = true};
    if (f->sampled)
        r.sampling = (tally_sampling){
            .temperature = 1, .top_p = 0.9f, .frequency_penalty = 0.2f, .repeat_penalty = 1.05f, .seed = 3};
    if (f->stops) r.stops = stop, r.n_stops = 1;
    return r;
}

static void test_every_fault(void **state) {
    (void)state;
    int32_t ids[N_PROMPT];
    for (int i = 0; i < N_PROMPT; i++) ids[i] = (int32_t)(hash_mix((uint64_t)i + 50) % 250);
    char text[8];
    tally_request plain_request = {.ids = ids, .n_ids = N_PROMPT, .max_tokens = 60, .ignore_eos = true};
    const char *stop[] = {stop_of(&plain_request, text)};
    for (int i = 0; i < N_FAULTS; i++) {
        const fault *f = &FAULTS[i];
        tally_request r = request_for(f, ids, stop);
        spec_plain *plain = spec_plain_run(&pair, &r);
        if (f->stops) assert_string_equal(plain->reason, "stop");
        spec_run sound = {.propose = f->propose, .k = K, .seed = 1}, faulty = sound;
        const char *what = spec_differs(&pair, &sound, &r, &plain, 1);
        if (what) fail_msg("without \"%s\": %s", f->name, what);
        faulty.choose = f->choose, faulty.walk = f->walk;
        what = spec_differs(&pair, &faulty, &r, &plain, 1);
        if (!what) fail_msg("\"%s\" is not caught", f->name);
        if (!strstr(what, f->says)) fail_msg("\"%s\" is caught by another check: %s", f->name, what);
        print_message("# %s: %s\n", f->name, what);
        spec_plain_free(plain);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_fault)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
