// Which drafts a step verifies. A drafter proposes, the mode or the policy says how many, and what is left of rows, logits, positions
// and cache blocks when every generation has its own bounds them.
#include "engine/speculate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/draft_model.h"
#include "engine/generation.h"

enum { DEFAULT_LOOKUP_MIN = 2, DEFAULT_LOOKUP_MAX = 5 };

// ---- options -------------------------------------------------------------------------------------------------------------

static status decide(tally_speculation *s, error *err) {
    TRY(engine_in_range("the mode of speculation", s->mode, TALLY_SPEC_DEFAULT, TALLY_SPEC_TREE, err));
    if (s->mode == TALLY_SPEC_DEFAULT) s->mode = TALLY_SPEC_AUTO;
    TRY(engine_in_range("--draft-max", s->draft_max, 0, DRAFT_MAX, err));
    if (s->draft_max == 0) s->draft_max = DRAFT_MAX;
    TRY(engine_in_range("--draft-min", s->draft_min, 0, s->draft_max, err));
    if (s->draft_min == 0) s->draft_min = 1;
    TRY(engine_in_range("--lookup-max", s->lookup_max, 0, LOOKUP_MAX_GRAM, err));
    TRY(engine_in_range("--lookup-min", s->lookup_min, 0, LOOKUP_MAX_GRAM, err));
    if (s->lookup_max == 0) s->lookup_max = s->lookup_min > DEFAULT_LOOKUP_MAX ? s->lookup_min : DEFAULT_LOOKUP_MAX;
    TRY(engine_in_range("--lookup-min", s->lookup_min, 0, s->lookup_max, err));
    if (s->lookup_min == 0) s->lookup_min = s->lookup_max < DEFAULT_LOOKUP_MIN ? s->lookup_max : DEFAULT_LOOKUP_MIN;
    TRY(engine_in_range("--lookup-corpus", s->corpus, 0, 1 << 28, err));
    return engine_in_range("--shadow", s->shadow, 0, INT32_MAX, err);
}

// ---- what a step of m rows may cost before any has run --------------------------------------------------------------------

// The part of a weight's time that every further row adds, of what the first takes: arithmetic that reading memory does not hide.
// On the careful side of what was measured (docs/speculation.md); real steps correct it.
static double row_share(const weight *w, cpu_level level) {
    bool vnni = level == CPU_LEVEL_AVX512VNNI || level == CPU_LEVEL_AMX || level == CPU_LEVEL_AVX512BF16;
    bool wide = level == CPU_LEVEL_AVX512 || vnni;
    bool dot = vnni || level == CPU_LEVEL_DOTPROD || level == CPU_LEVEL_I8MM || level == CPU_LEVEL_NEONBF16;
    switch (w->part[0].type) {
    case DTYPE_F32: return wide ? 0.15 : 0.25;
    case DTYPE_F16:
    case DTYPE_BF16: return wide ? 0.25 : 0.4;
    default: return dot ? 0.2 : 0.6;
    }
}

// Experts that m rows touch, of those that one touches: E (1 - (1 - k/E)^m) / k.
static double experts_touched(const model_config *c, int m) {
    double n = c->n_experts, k = c->n_experts_used;
    return n > 0 && k > 0 ? n * (1 - pow(1 - k / n, m)) / k : 1;
}

static void init_times(tally_engine *e) {
    const model_config *c = &e->plan.model.config;
    double ratio[STEP_TIMES_MAX], one = 0;
    for (int m = 1; m <= STEP_TIMES_MAX; m++) {
        double sum = 0;
        for (int i = 0; i < e->plan.model.weights.n; i++) {
            const weight *w = &e->plan.model.weights.w[i];
            if (w->absorbed || w->role == WEIGHT_EMBED || w->role == WEIGHT_VECTOR) continue;
            double share = e->plan.device->row_tile ? 0 : row_share(w, e->plan.level); // a tile is padded anyway
            double bytes = (double)e->plan.device->vt->weight_bytes(e->plan.device, w);
            if (bytes == 0) bytes = (double)weight_file_bytes(w); // it stays in the file
            if (w->role == WEIGHT_EXPERTS) { // each row computes with its own k, what is read is shared
                bytes *= (double)c->n_experts_used / c->n_experts;
                double read = experts_touched(c, m), computed = 1 + share * (m - 1);
                sum += bytes * (read > computed ? read : computed);
            } else {
                sum += bytes * (1 + share * (m - 1));
            }
        }
        if (m == 1) one = sum;
        ratio[m - 1] = one > 0 ? sum / one : 1;
    }
    step_times_init(&e->times, ratio, one > 0 ? STEP_TIMES_MAX : 0);
}

// ---- memory --------------------------------------------------------------------------------------------------------------

static lookup_options lookup_of(const tally_speculation *s, tally_spec_mode mode, int context) {
    return (lookup_options){s->lookup_min, s->lookup_max, context, mode == TALLY_SPEC_TREE};
}

static lookup_corpus_options corpus_options(const tally_speculation *s) {
    return (lookup_corpus_options){(int)s->corpus, s->lookup_min, s->lookup_max};
}

int64_t speculation_bytes(const tally_engine_options *o, int context, int n_vocab) {
    tally_speculation s = o->speculation;
    if (decide(&s, NULL) || context < 1) return 0;
    int64_t bytes = 0, n = o->sequences > 1 ? o->sequences : 1;
    lookup_options lookup = lookup_of(&s, s.mode, context);
    lookup_corpus_options corpus = corpus_options(&s);
    if (s.mode != TALLY_SPEC_DRAFT && s.mode != TALLY_SPEC_OFF) bytes += n * (int64_t)draft_lookup_bytes(&lookup);
    if (s.corpus > 0) bytes += (int64_t)lookup_corpus_bytes(&corpus);
    if (s.shadow > 0) bytes += (int64_t)n_vocab * (int64_t)sizeof(float);
    return bytes;
}

// ---- the engine's part ---------------------------------------------------------------------------------------------------

status speculation_open(tally_engine *e, const tally_engine_options *o, error *err) {
    e->speculation = o->speculation;
    e->draft_engine = o->draft;
    e->spec.walk = verify_walk;
    e->spec.choose = verify_step_choose;
    e->spec.now = clock_now_ns;
    TRY(decide(&e->speculation, err));
    if (o->draft) TRY(draft_model_check(e->source, o->draft->source, err));
    if (e->speculation.mode == TALLY_SPEC_DRAFT && !o->draft)
        return error_set(err, STATUS_BAD_ARGUMENT, "--spec draft needs a draft model; name one with -md");
    init_times(e);
    size_t rows = (size_t)e->step_rows;
    e->policy_request = malloc(rows * sizeof *e->policy_request);
    e->policy_owner = malloc(rows * sizeof *e->policy_owner);
    e->policy_n = malloc(rows * sizeof *e->policy_n);
    if (!e->policy_request || !e->policy_owner || !e->policy_n)
        return error_set(err, STATUS_NO_MEMORY, "out of memory for the rows of a step (%d)", e->step_rows);
    if (e->speculation.corpus > 0) {
        lookup_corpus_options c = corpus_options(&e->speculation);
        TRY(lookup_corpus_create(&e->corpus, &c, err));
    }
    if (e->speculation.shadow == 0) return STATUS_OK;
    e->shadow_logits = malloc((size_t)e->n_vocab * sizeof *e->shadow_logits);
    if (!e->shadow_logits) return error_no_memory(err, (unsigned long long)e->n_vocab * sizeof *e->shadow_logits);
    return block_table_init(&e->shadow.cache, &e->blocks, e->plan.device, e->context, err);
}

void speculation_close(tally_engine *e) {
    block_table_deinit(&e->shadow.cache);
    lookup_corpus_destroy(e->corpus);
    free(e->shadow_logits);
    free(e->policy_request);
    free(e->policy_owner);
    free(e->policy_n);
}

// ---- a generation's part -------------------------------------------------------------------------------------------------

static status make_drafters(struct tally_generation *g, error *err) {
    tally_engine *e = g->engine;
    speculation *s = &g->spec;
    if (e->draft_engine && s->mode != TALLY_SPEC_LOOKUP) {
        draft_model_options o = {.sampling = &g->sampling,
                                 .history = &g->history,
                                 .n_vocab = e->n_vocab,
                                 .tree = s->mode == TALLY_SPEC_TREE,
                                 .stops_early = s->mode == TALLY_SPEC_AUTO};
        TRY(draft_model_create(&s->drafter[DRAFTER_MODEL], e->draft_engine, &o, err));
    }
    if (e->spec.make_drafter) return e->spec.make_drafter(e->spec.make_ctx, &s->drafter[DRAFTER_LOOKUP], err);
    if (s->mode == TALLY_SPEC_DRAFT) return STATUS_OK;
    lookup_options o = lookup_of(&e->speculation, s->mode, e->context);
    return draft_lookup_create(&s->drafter[DRAFTER_LOOKUP], &o, e->corpus, err);
}

status speculation_init(struct tally_generation *g, tally_spec_mode mode, error *err) {
    TRY(engine_in_range("the mode of speculation", mode, TALLY_SPEC_DEFAULT, TALLY_SPEC_TREE, err));
    speculation *s = &g->spec;
    s->mode = mode == TALLY_SPEC_DEFAULT ? g->engine->speculation.mode : mode;
    draft_policy_init(&s->policy);
    if (s->mode == TALLY_SPEC_DRAFT && !g->engine->draft_engine)
        return error_set(err, STATUS_BAD_ARGUMENT, "drafts of a draft model are asked for, but the engine has none");
    return s->mode == TALLY_SPEC_OFF || g->max_tokens < 2 ? STATUS_OK : make_drafters(g, err);
}

static void drop_drafter(speculation *s, drafter_kind which) {
    if (s->drafter[which]) s->drafter[which]->vt->destroy(s->drafter[which]);
    s->drafter[which] = NULL;
}

void speculation_deinit(speculation *s) {
    for (drafter_kind k = 0; k < DRAFTER_KINDS; k++) drop_drafter(s, k);
}

// ---- proposals -----------------------------------------------------------------------------------------------------------

static int smaller(int a, int b) { return a < b ? a : b; }

// Tokens that may still be chosen behind the next one, which needs no draft.
static int max_depth(const struct tally_generation *g) { return g->max_tokens - (g->seq.n_tokens - g->n_prompt) - 1; }

static int max_nodes(const struct tally_generation *g) {
    return smaller(g->engine->speculation.draft_max, g->engine->context - g->seq.n_tokens);
}

static bool may_draft(const step_part *part, const struct tally_generation *g) {
    const speculation *s = &g->spec;
    return part->last_logits && s->mode != TALLY_SPEC_OFF &&
           (s->drafter[DRAFTER_LOOKUP] || s->drafter[DRAFTER_MODEL]) && max_depth(g) > 0 && max_nodes(g) > 0;
}

static void learn_seconds(double *known, double seen) { *known += *known > 0 ? (seen - *known) / 8 : seen; }

// Lets a drafter read what it has to of the history, from model_start on.
static status read_history(struct tally_generation *g, drafter *d) {
    tally_engine *e = g->engine;
    uint64_t start = e->spec.now();
    drafter_window before = d->vt->window(d, g->seq.token, g->seq.n_tokens);
    TRY(d->vt->follow(d, g->seq.token, g->seq.n_tokens, g->spec.model_start, NULL));
    drafter_window now = d->vt->window(d, g->seq.token, g->seq.n_tokens);
    double seconds = (double)(e->spec.now() - start) * 1e-9;
    int n = now.known - (now.start == before.start ? before.known : now.start);
    if (n > 0) learn_seconds(&e->reading_seconds, seconds / n);
    g->spec.draft_seconds += seconds;
    return STATUS_OK;
}

static void settle(struct tally_generation *g, drafter_kind which, int n, status st) {
    if (st) {
        drop_drafter(&g->spec, which);
        g->spec.draft.n = 0;
    }
    draft_clip(&g->spec.draft, n, max_depth(g), g->engine->n_vocab);
}

static void look_up(struct tally_generation *g, int n) {
    tally_engine *e = g->engine;
    speculation *s = &g->spec;
    drafter *d = s->drafter[DRAFTER_LOOKUP];
    s->draft.n = s->draft.kind = 0;
    if (!d || n <= 0) return;
    uint64_t start = e->spec.now();
    status st = d->vt->propose(d, g->seq.token, g->seq.n_tokens, n, &s->draft, NULL);
    settle(g, DRAFTER_LOOKUP, n, st);
    s->draft_seconds += (double)(e->spec.now() - start) * 1e-9;
}

// Asks the draft model for the generations in policy_owner, up to policy_n tokens each, at most DRAFTER_TOGETHER at once.
static void ask_model_together(tally_engine *e, int from, int to) {
    drafter_request r[DRAFTER_TOGETHER];
    struct tally_generation *owner[DRAFTER_TOGETHER];
    int n = 0, n_drafts = 0;
    for (int i = from; i < to; i++) {
        struct tally_generation *g = e->policy_owner[i];
        speculation *s = &g->spec;
        drafter *d = s->drafter[DRAFTER_MODEL];
        s->draft.n = s->draft.kind = 0;
        if (read_history(g, d)) {
            drop_drafter(s, DRAFTER_MODEL);
            continue;
        }
        owner[n] = g;
        r[n++] = (drafter_request){
            .d = d, .token = g->seq.token, .n = g->seq.n_tokens, .max_nodes = e->policy_n[i], .out = &s->draft};
    }
    if (n == 0) return;
    uint64_t start = e->spec.now();
    r[0].d->vt->propose_together(r, n);
    double seconds = (double)(e->spec.now() - start) * 1e-9;
    for (int i = 0; i < n; i++) {
        settle(owner[i], DRAFTER_MODEL, r[i].max_nodes, r[i].result);
        n_drafts += owner[i]->spec.draft.n;
    }
    if (n_drafts > 0) learn_seconds(&e->model_seconds, seconds / n_drafts);
    for (int i = 0; i < n; i++)
        owner[i]->spec.draft_seconds += n_drafts > 0 ? seconds * owner[i]->spec.draft.n / n_drafts : seconds / n;
}

static void ask_model(tally_engine *e, int n) {
    for (int at = 0; at < n; at += DRAFTER_TOGETHER) ask_model_together(e, at, smaller(n, at + DRAFTER_TOGETHER));
}

static void cut(draft *d, int n, int least) {
    if (d->n > n) d->n = n;
    if (d->n < least) d->n = 0;
}

// What a draft of the model takes: measured, or by the bytes that both models read.
static double model_seconds(const tally_engine *e) {
    if (e->model_seconds > 0) return e->model_seconds;
    double theirs = (double)tally_engine_step_bytes(e->draft_engine, 1, 0),
           own = (double)tally_engine_step_bytes(e, 1, 0);
    return step_times_of(&e->times, 1) * theirs / own;
}

// What reading a token takes it: measured, or by what a row of a chunk is thought to take beside a step of one row.
static double reading_seconds(const tally_engine *e) {
    if (e->reading_seconds > 0) return e->reading_seconds;
    const step_times *t = &e->draft_engine->times;
    int n = e->draft_engine->chunk_rows;
    return model_seconds(e) * step_times_of(t, n) / step_times_of(t, 1) / n;
}

// Whether the request can pay what the draft model would have to read before it drafts, and from where.
static bool can_follow(struct tally_generation *g, int rows) {
    tally_engine *e = g->engine;
    speculation *s = &g->spec;
    drafter *d = s->drafter[DRAFTER_MODEL];
    drafter_window w = d->vt->window(d, g->seq.token, g->seq.n_tokens);
    double plain = step_times_of(&e->times, rows) / rows;
    int start = draft_policy_window(&s->policy, &(policy_window){.start = w.start,
                                                                 .known = w.known,
                                                                 .n = g->seq.n_tokens,
                                                                 .most = w.most,
                                                                 .row_cost = reading_seconds(e) / plain});
    if (start >= 0) s->model_start = start;
    return start >= 0;
}

// What a generation in auto mode offers in a step of so many rows without drafts; a draft model is only asked once it is known how much for.
// Whatever is verified, what lookup proposes is remembered, to learn whether it was right.
static bool offer(struct tally_generation *g, int rows, policy_request *r) {
    tally_engine *e = g->engine;
    speculation *s = &g->spec;
    look_up(g, max_nodes(g));
    draft_policy_offer(&s->policy, &s->draft, g->seq.n_tokens);
    *r = (policy_request){.policy = &s->policy, .offered = &s->draft, .min = e->speculation.draft_min};
    if (s->drafter[DRAFTER_MODEL] && can_follow(g, rows)) {
        r->n = smaller(max_nodes(g), max_depth(g));
        r->seconds_per_draft = model_seconds(e);
    }
    return s->draft.n > 0 || r->n > 0;
}

// ---- a step --------------------------------------------------------------------------------------------------------------

typedef struct step_room {
    int rows, left; // the step's own rows; further rows with logits
} step_room;

static step_room room_of(const tally_engine *e, const step_part *parts, int n) {
    int rows = 0, wanted = 0;
    for (int i = 0; i < n; i++) rows += parts[i].n_rows, wanted += parts[i].last_logits;
    return (step_room){rows, smaller(e->step_rows - rows, e->logit_rows - wanted)};
}

// Modes that draft whatever it costs: of the room each request gets an equal share. A draft model is asked where lookup found nothing.
static void plan_forced(tally_engine *e, step_room *room, const step_part *parts, struct tally_generation **owner,
                        int n) {
    int asking = 0, models = 0, least = e->speculation.draft_min;
    for (int i = 0; i < n; i++) asking += owner[i]->spec.mode != TALLY_SPEC_AUTO && may_draft(&parts[i], owner[i]);
    for (int i = 0; i < n && room->left > 0; i++) {
        struct tally_generation *g = owner[i];
        if (g->spec.mode == TALLY_SPEC_AUTO || !may_draft(&parts[i], g)) continue;
        int most = smaller((room->left + asking - 1) / asking, max_nodes(g));
        asking--;
        look_up(g, most);
        bool asks = g->spec.draft.n == 0 && g->spec.drafter[DRAFTER_MODEL];
        if (asks) e->policy_owner[models] = g, e->policy_n[models++] = most;
        cut(&g->spec.draft, most, least);
        int taken = asks ? most : g->spec.draft.n;
        room->rows += taken;
        room->left -= taken;
    }
    ask_model(e, models);
    for (int i = 0; i < models; i++) cut(&e->policy_owner[i]->spec.draft, e->policy_n[i], least);
}

static void plan_auto(tally_engine *e, const step_room *room, const step_part *parts, struct tally_generation **owner,
                      int n) {
    int asking = 0, models = 0;
    for (int i = 0; i < n && room->left > 0; i++) {
        if (owner[i]->spec.mode != TALLY_SPEC_AUTO || !may_draft(&parts[i], owner[i])) continue;
        if (offer(owner[i], room->rows, &e->policy_request[asking])) e->policy_owner[asking++] = owner[i];
    }
    if (asking == 0) return;
    draft_policy_choose(e->policy_request, asking, &e->times, room->rows, room->rows + room->left, e->policy_n);
    for (int i = 0; i < asking; i++) {
        struct tally_generation *g = e->policy_owner[i];
        if (!e->policy_request[i].ask_model || e->policy_n[i] == 0) {
            cut(&g->spec.draft, e->policy_n[i], e->speculation.draft_min);
            continue;
        }
        e->policy_owner[models] = g; // models <= i
        e->policy_n[models++] = e->policy_n[i];
    }
    ask_model(e, models);
    for (int i = 0; i < models; i++) {
        struct tally_generation *g = e->policy_owner[i];
        g->spec.asked_model = true;
        draft_policy_offer(&g->spec.policy, &g->spec.draft, g->seq.n_tokens);
        cut(&g->spec.draft, e->policy_n[i], e->speculation.draft_min);
    }
}

// Blocks for the drafts, if that takes no sequence's (kept prefixes may go): otherwise as many drafts as the blocks at hand hold.
static void reserve(step_part *part, struct tally_generation *g) {
    draft *d = &g->spec.draft;
    block_table *t = &g->seq.cache;
    if (d->n == 0) return;
    if (!block_table_reserve(t, part->n_rows + d->n))
        cut(d, t->n_blocks * KV_BLOCK - t->length - part->n_rows, g->engine->speculation.draft_min);
    if (d->n > 0) part->draft = d;
}

static void begin(struct tally_generation *g) {
    g->spec.draft.n = 0;
    g->spec.draft_seconds = 0;
    g->spec.asked_model = false;
    g->spec.tokens_before = g->seq.n_tokens;
}

void speculation_plan(tally_engine *e, step_part *parts, struct tally_generation **owner, int n) {
    for (int i = 0; i < n; i++) begin(owner[i]);
    step_room room = room_of(e, parts, n);
    plan_forced(e, &room, parts, owner, n);
    plan_auto(e, &room, parts, owner, n);
    for (int i = 0; i < n; i++) {
        if (e->ranks) e->ranks->broadcast(e->ranks, &owner[i]->spec.draft, sizeof owner[i]->spec.draft);
        reserve(&parts[i], owner[i]);
    }
}

void speculation_learn(tally_engine *e, const step_part *parts, struct tally_generation **owner, int n,
                       double seconds) {
    int own = 0, drafts = 0;
    bool chunk = false, asks = false;
    for (int i = 0; i < n; i++) {
        own += parts[i].n_rows;
        drafts += parts[i].draft ? parts[i].draft->n : 0;
        chunk |= parts[i].n_rows > 1;
        asks |= owner[i]->spec.mode == TALLY_SPEC_AUTO;
    }
    if (!asks) return;
    if (!chunk) step_times_seen(&e->times, own + drafts, seconds);
    policy_step step = {&e->times, own, drafts};
    for (int i = 0; i < n; i++) {
        struct tally_generation *g = owner[i];
        const speculation *s = &g->spec;
        if (s->mode != TALLY_SPEC_AUTO || !parts[i].last_logits) continue;
        policy_outcome o = {s->draft.n, g->seq.n_tokens - s->tokens_before, s->asked_model, s->draft_seconds};
        draft_policy_ran(&g->spec.policy, &step, &o);
        draft_policy_learn(&g->spec.policy, g->seq.token, g->seq.n_tokens);
    }
}
