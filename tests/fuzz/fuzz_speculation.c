// Fuzzes speculation: the input says a few requests and then, byte by byte, what their drafters propose: tokens that plain decoding will
// say, others, no ids at all, chains and trees. The output must be plain decoding's. First the accept walk alone, on the same bytes.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/generation.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VOCAB = 192, CONTEXT = 200, REQUESTS = 3, MOST_NEW = 24 };

typedef struct bytes { // what is left of the input; zeros behind its end
    const uint8_t *at;
    size_t left;
} bytes;

static int take(bytes *b) {
    if (b->left == 0) return 0;
    b->left--;
    return *b->at++;
}

// ---- the accept walk -------------------------------------------------------------------------------------------------------

typedef struct script {
    uint8_t choice[DRAFT_MAX + 1];
    int stop_at, n_asked, last;
} script;

static int32_t choose(void *ctx, int row, bool *stop) {
    script *s = ctx;
    if (row < 0 || row > DRAFT_MAX || s->n_asked > DRAFT_MAX) abort();
    s->last = row;
    *stop = s->n_asked++ == s->stop_at;
    return s->choice[row] % 5;
}

static void walk(bytes b) {
    draft d = {.n = take(&b) - 3, .kind = take(&b) - 100};
    for (int i = 0; i < DRAFT_MAX; i++) d.token[i] = take(&b) % 8 - 1, d.parent[i] = (int8_t)(take(&b) % 20 - 2);
    draft_clip(&d, take(&b) % 20, take(&b) % 20, 5);
    script s = {.stop_at = take(&b) % 20};
    for (int i = 0; i <= DRAFT_MAX; i++) s.choice[i] = (uint8_t)take(&b);
    verify_result r = verify_walk(&d, choose, &s);
    if (r.n_emitted != r.n_accepted + 1 || r.n_emitted != s.n_asked || r.n_accepted > d.n) abort();
    int at = -1;
    for (int i = 0; i < r.n_accepted; i++) { // each accepted draft is the choice of the one before it
        int node = r.path[i];
        if (node <= at || node >= d.n || d.parent[node] != at || d.token[node] != s.choice[at + 1] % 5) abort();
        at = node;
    }
    if (s.last != at + 1) abort();
    bool goes_on = false; // and behind the last one there was nothing to accept, or a stop
    for (int i = 0; i < d.n; i++) goes_on |= d.parent[i] == at && d.token[i] == s.choice[at + 1] % 5;
    if (goes_on && s.n_asked <= s.stop_at) abort();
}

// ---- the engine ------------------------------------------------------------------------------------------------------------

typedef struct answer {
    int n_prompt, n;
    int32_t token[CONTEXT];
    finish why;
} answer;

typedef struct fixture {
    tally_model *model;
    tally_engine *plain, *spec;
} fixture;

static struct {
    bytes *input;
    const answer *plain;
    int n_made;
} now;

typedef struct fuzz_drafter {
    drafter base;
    const answer *truth;
} fuzz_drafter;

static void destroy(drafter *d) { free(d); }

static status propose(drafter *base, const int32_t *token, int n, int max_nodes, draft *out, error *err) {
    const answer *t = ((fuzz_drafter *)base)->truth;
    if (max_nodes < 1 || max_nodes > DRAFT_MAX || n > t->n_prompt + t->n) abort();
    if (memcmp(token, t->token, (size_t)n * sizeof *token) != 0) abort(); // the history is what is committed
    int how = take(now.input);
    if (how == 255) return error_set(err, STATUS_FULL, "no more");
    out->n = how % (DRAFT_MAX + 2);
    for (int i = 0; i < out->n && i < DRAFT_MAX; i++) {
        int what = take(now.input), depth = 0;
        out->parent[i] = (int8_t)(i - 1);
        if (how >= 128) out->parent[i] = (int8_t)(take(now.input) % (i + 3) - 1);
        for (int node = out->parent[i]; node >= 0 && node < i && depth < DRAFT_MAX; node = out->parent[node]) depth++;
        int at = n + depth;
        bool known = what < 200 && at < t->n_prompt + t->n;
        out->token[i] = known ? t->token[at] : what < 250 ? take(now.input) % VOCAB : take(now.input) * 7 - 600;
    }
    out->kind = how - 50;
    return STATUS_OK;
}

static status make_drafter(void *ctx, drafter **out, error *err) {
    (void)ctx, (void)err;
    static const drafter_vtable vt = {.name = "fuzz", .destroy = destroy, .propose = propose};
    fuzz_drafter *d = malloc(sizeof *d);
    if (!d) abort();
    *d = (fuzz_drafter){{&vt}, &now.plain[now.n_made++]};
    *out = &d->base;
    return STATUS_OK;
}

static fixture open_fixture(void) {
    fixture f;
    temp_folder folder = temp_folder_make();
    const char *path = temp_folder_path(&folder, "tiny.gguf");
    tiny_model m = tiny_model_read("qwen3moe-e8k2-norm");
    if (!tiny_model_write_gguf(&m, path, DTYPE_F32)) abort();
    tiny_model_free(&m);
    tally_engine_options how = {.threads = 1, .context = CONTEXT, .speculation.mode = TALLY_SPEC_OFF};
    if (tally_model_open(&f.model, path, NULL)) abort();
    if (tally_engine_open(&f.plain, f.model, &how, NULL)) abort();
    how.speculation.mode = TALLY_SPEC_LOOKUP;
    how.speculation.shadow = 7;
    how.cache_positions = 3 * 64; // too few for all requests at their longest
    if (tally_engine_open(&f.spec, f.model, &how, NULL)) abort();
    f.spec->spec.make_drafter = make_drafter;
    temp_folder_remove(&folder);
    return f;
}

static tally_generation *start(tally_engine *e, const tally_request *r) {
    tally_generation *g;
    if (tally_generate(e, r, &g, NULL)) abort();
    return g;
}

static void read_answer(const tally_generation *g, answer *a) {
    int n;
    const int32_t *ids = tally_generation_ids(g, &n);
    a->n_prompt = g->n_prompt;
    a->n = n;
    a->why = g->finish;
    memcpy(a->token, ids - a->n_prompt, (size_t)(a->n_prompt + n) * sizeof *ids);
}

static void read_request(bytes *b, tally_request *r, int32_t ids[64]) {
    int how = take(b);
    *r = (tally_request){.ids = ids, .n_ids = 1 + take(b) % 64, .max_tokens = how % 8 ? take(b) % MOST_NEW : -1};
    for (int i = 0; i < r->n_ids; i++) ids[i] = i < 12 ? take(b) % VOCAB : ids[i - 1 - how % 12];
    if (r->max_tokens < 0) r->max_tokens = MOST_NEW;
    r->ignore_eos = how & 16;
    if (how & 32) r->sampling = (tally_sampling){.temperature = 1.5f, .top_p = 0.9f, .seed = (uint64_t)take(b)};
    if (how & 64) r->sampling.repeat_penalty = 1.3f, r->sampling.frequency_penalty = 0.2f;
    r->logprobs = how & 128 ? 1 : 0;
}

static void compare(const tally_generation *g, const answer *want) {
    answer got = {0};
    read_answer(g, &got);
    const tally_spec_counts *c = &g->spec.counts;
    if (g->finish == FINISH_ERROR) abort(); // nothing here is damaged, and each request fits alone
    if (got.n != want->n || got.why != want->why) abort();
    if (memcmp(got.token, want->token, (size_t)(got.n_prompt + got.n) * sizeof *got.token) != 0) abort();
    if (c->emitted != c->accepted + c->verify_steps || c->accepted > c->drafted) abort();
}

static void run(const fixture *f, bytes b) {
    tally_request r[REQUESTS];
    static int32_t ids[REQUESTS][64];
    static answer plain[REQUESTS];
    tally_generation *g[REQUESTS];
    int n = 1 + take(&b) % REQUESTS, settings = take(&b);
    for (int i = 0; i < n; i++) {
        read_request(&b, &r[i], ids[i]);
        tally_generation *alone = start(f->plain, &r[i]);
        while (!tally_generation_done(alone)) {
            if (tally_engine_step(f->plain, NULL, NULL)) abort();
        }
        memset(&plain[i], 0, sizeof plain[i]);
        read_answer(alone, &plain[i]);
        tally_generation_close(alone);
    }
    now.input = &b, now.plain = plain, now.n_made = 0;
    f->spec->speculation.draft_max = 1 + settings % 16;
    f->spec->speculation.draft_min = 1 + settings / 16 % 3 % f->spec->speculation.draft_max;
    f->spec->speculation.mode = settings & 128 ? TALLY_SPEC_AUTO : TALLY_SPEC_TREE;
    f->spec->reuse_prefixes = settings & 64;
    for (int i = 0; i < n; i++) {
        now.n_made = i; // a request of no tokens makes none
        g[i] = start(f->spec, &r[i]);
    }
    for (bool idle = false; !idle;) {
        if (tally_engine_step(f->spec, &idle, NULL)) abort();
    }
    for (int i = 0; i < n; i++) {
        compare(g[i], &plain[i]);
        tally_generation_close(g[i]);
    }
    tally_stats stats;
    tally_engine_stats(f->spec, &stats);
    if (stats.blocks_in_use) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static fixture f;
    if (!f.model) f = open_fixture();
    walk((bytes){data, size});
    run(&f, (bytes){data, size});
    return 0;
}
