#include "engine/draft_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/elementary.h"
#include "engine/engine.h"

// ---- vocabularies --------------------------------------------------------------------------------------------------------

// A token's bytes for a message: what is not printable ASCII as \xNN, long ones cut.
static void spell(str s, char *out, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        if (n + 8 > size) {
            memcpy(out + n, "...", 3), n += 3;
            break;
        }
        if (c >= 0x20 && c < 0x7f && c != '\\') {
            out[n++] = (char)c;
        } else {
            static const char digits[] = "0123456789abcdef";
            const char escaped[4] = {'\\', 'x', digits[c >> 4], digits[c & 15]};
            memcpy(out + n, escaped, sizeof escaped), n += sizeof escaped;
        }
    }
    out[n] = 0;
}

status draft_model_check(const tally_model *target, const tally_model *smaller, error *err) {
    if (!target->tok || !smaller->tok) {
        if (target->config.n_vocab == smaller->config.n_vocab) return STATUS_OK;
        return error_set(
            err, STATUS_BAD_ARGUMENT,
            "the draft model has %d ids and the model %d, and without two tokenizers it is not known which "
            "of them agree; take a draft model of the same family",
            smaller->config.n_vocab, target->config.n_vocab);
    }
    int n = tokenizer_n_tokens(target->tok), n_draft = tokenizer_n_tokens(smaller->tok);
    for (int32_t id = 0; id < n && id < n_draft; id++) {
        str a = tokenizer_bytes(target->tok, id), b = tokenizer_bytes(smaller->tok, id);
        if (a.len == 0 || b.len == 0 || str_eq(a, b)) continue; // rows that pad a vocabulary have no text
        char a_text[64], b_text[64];
        spell(a, a_text, sizeof a_text);
        spell(b, b_text, sizeof b_text);
        return error_set(
            err, STATUS_BAD_ARGUMENT,
            "the draft model has another vocabulary: token %d is \"%s\" there and \"%s\" in the model; take a "
            "draft model of the same family",
            id, b_text, a_text);
    }
    return STATUS_OK;
}

// ---- the drafter ---------------------------------------------------------------------------------------------------------

typedef struct draft_model {
    drafter base;
    tally_engine *engine; // borrowed; the draft engine
    draft_model_options o;
    tally_sampling sampling; // the request's, for the ids that both models have
    tally_logit_bias *bias;  // owned; what the sampling's biases are
    sampler_scratch scratch; // the draft engine's, cut to those ids
    int start;               // the history's token that is the sequence's first
    sequence seq;            // history from there on, then the drafts of the last proposal
    int n_history;           // tokens of the sequence that are history
    // Of the proposal being made:
    bool is_open;     // it may get more drafts
    int node;         // its last draft on the first branch; -1: none
    double all_right; // probability that every draft on that branch is right
} draft_model;

static void model_destroy(drafter *d) {
    draft_model *m = (draft_model *)d;
    sequence_deinit(&m->seq);
    free(m->bias);
    free(m);
}

static void cut_to(sequence *s, int length) {
    s->n_tokens = length;
    if (s->cache.length > length) block_table_truncate(&s->cache, length);
}

// Makes the sequence equal to the history from `start` on, and leaves at least its last row to be computed.
static status follow_history(draft_model *m, const int32_t *token, int n, error *err) {
    sequence *s = &m->seq;
    token += m->start, n -= m->start;
    int same = m->n_history < n ? m->n_history : n;
    while (same < n && same < s->n_tokens && s->token[same] == token[same]) same++;
    cut_to(s, same);
    status st = sequence_append(m->engine, s, token + same, n - same, err);
    m->n_history = st ? same : n;
    if (st) return st;
    if (s->cache.length == n) block_table_truncate(&s->cache, n - 1);
    sequence_adopt_prefix(m->engine, s);
    return STATUS_OK;
}

static status reserve(draft_model *m, int n, error *err) {
    const tally_engine *e = m->engine;
    if (block_table_reserve(&m->seq.cache, n)) return STATUS_OK;
    return error_set(err, STATUS_FULL,
                     "the draft model's cache has %d of %d blocks left, too few for %d more positions",
                     e->blocks.n_free, e->blocks.n_blocks, n);
}

// Computes what the cache lacks, without logits.
static status catch_up(draft_model *m, error *err) {
    tally_engine *e = m->engine;
    sequence *s = &m->seq;
    while (s->cache.length < s->n_tokens) {
        int n = s->n_tokens - s->cache.length;
        if (n > e->chunk_rows) n = e->chunk_rows;
        step_part part = {.seq = s, .n_rows = n};
        part_result r;
        TRY(reserve(m, n, err));
        TRY(engine_run_parts(e, &part, 1, &r, err));
        if (r.fault.code) return error_set(err, r.fault.code, "the draft model: %s", r.fault.text);
    }
    return STATUS_OK;
}

// The probability of a token, as the request's temperature has it, without truncations.
static double probability(const draft_model *m, const float *logits, int32_t id) {
    int n = m->scratch.n_vocab;
    float largest = logits[sampler_argmax(logits, n)], t = m->sampling.temperature > 0 ? m->sampling.temperature : 1;
    double sum = 0;
    for (int i = 0; i < n; i++) {
        float x = (logits[i] - largest) / t;
        if (x > -20) sum += (double)elementary_exp(x);
    }
    return (double)elementary_exp((logits[id] - largest) / t) / sum;
}

static int32_t likeliest_but(const float *logits, int n, int32_t but) {
    int32_t best = but == 0;
    for (int32_t i = 0; i < n; i++) {
        if (i != but && logits[i] > logits[best]) best = i;
    }
    return best;
}

static int kind_of(double p) { return DRAFT_MODEL + (p >= 0.5) + (p >= 0.75) + (p >= 0.92); }

static int add_node(draft *d, int32_t token, int parent) {
    d->token[d->n] = token;
    d->parent[d->n] = (int8_t)parent;
    return d->n++;
}

// Whether the history from the start on is longer than the draft engine's context.
static bool too_long(const draft_model *m, int n) { return n - m->start >= m->engine->context; }

// Other requests' prefixes are known without reading.
static drafter_window model_window(drafter *base, const int32_t *token, int n) {
    draft_model *m = (draft_model *)base;
    drafter_window w = {m->start, m->start, m->engine->context};
    if (!too_long(m, n) && !follow_history(m, token, n, NULL)) w.known += m->seq.cache.length;
    return w;
}

static void begin_at(draft_model *m, int start) {
    if (m->start == start) return;
    cut_to(&m->seq, 0);
    m->n_history = 0;
    m->start = start;
}

// All but the last token, if that is much.
static status model_follow(drafter *base, const int32_t *token, int n, int start, error *err) {
    draft_model *m = (draft_model *)base;
    begin_at(m, start);
    if (too_long(m, n) || n - start - m->seq.cache.length <= DRAFT_MAX + 1) return STATUS_OK;
    TRY(follow_history(m, token, n - 1, err));
    return catch_up(m, err);
}

// ---- proposals, made together --------------------------------------------------------------------------------------------

// Ends a proposal. One that has drafts stands: if what failed was no accident, the next one fails.
static void give_up(drafter_request *r, const error *why) {
    ((draft_model *)r->d)->is_open = false;
    if (r->out->n > 0) return;
    r->result = why->code;
    if (r->err) *r->err = *why;
}

static void begin(drafter_request *r) {
    draft_model *m = (draft_model *)r->d;
    error why;
    r->out->n = 0;
    r->result = STATUS_OK;
    m->node = -1;
    m->all_right = 1;
    m->is_open = !too_long(m, r->n);
    if (!m->is_open) { // from here on the draft model cannot follow
        block_table_truncate(&m->seq.cache, 0);
    } else if (follow_history(m, r->token, r->n, &why)) {
        give_up(r, &why);
    }
}

// Adds what the logits behind the last token say, and that token to the sequence if another is to follow.
static void go_on(drafter_request *r, const float *logits) {
    draft_model *m = (draft_model *)r->d;
    sequence *s = &m->seq;
    draft *out = r->out;
    int32_t id = sampler_choose(&m->sampling, logits, m->o.history, (uint64_t)(m->start + s->n_tokens), &m->scratch);
    double p = probability(m, logits, id);
    if (out->n == 0) out->kind = kind_of(p);
    int parent = m->node;
    m->node = add_node(out, id, parent);
    if (m->o.tree && p < DRAFT_MODEL_UNSURE && out->n < r->max_nodes && m->scratch.n_vocab > 1)
        add_node(out, likeliest_but(logits, m->scratch.n_vocab, id), parent);
    m->all_right *= p;
    bool ends = out->n == r->max_nodes || s->n_tokens == m->engine->context ||
                (m->o.stops_early && m->all_right < DRAFT_MODEL_STOP);
    error why;
    if (ends || sequence_append(m->engine, s, &id, 1, &why)) m->is_open = false;
}

// One step of the draft engine for all open proposals that find room in it. Whether there was one.
static bool step_together(tally_engine *e, drafter_request *r, int n) {
    step_part part[DRAFTER_TOGETHER];
    part_result result[DRAFTER_TOGETHER];
    drafter_request *of[DRAFTER_TOGETHER];
    error why = {0};
    int n_parts = 0, rows = e->step_rows;
    for (int i = 0; i < n && rows > 0 && n_parts < e->logit_rows; i++) {
        draft_model *m = (draft_model *)r[i].d;
        sequence *s = &m->seq;
        if (!m->is_open) continue;
        int left = s->n_tokens - s->cache.length, most = rows < e->chunk_rows ? rows : e->chunk_rows;
        int own = left < most ? left : most;
        if (reserve(m, own, &why)) {
            give_up(&r[i], &why);
            continue;
        }
        part[n_parts] = (step_part){.seq = s, .n_rows = own, .last_logits = own == left};
        of[n_parts++] = &r[i];
        rows -= own;
    }
    if (n_parts == 0) return false;
    status st = engine_run_parts(e, part, n_parts, result, &why);
    for (int i = 0; i < n_parts; i++) {
        if (!st && result[i].fault.code)
            error_set(&why, result[i].fault.code, "the draft model: %s", result[i].fault.text);
        if (st || result[i].fault.code) {
            give_up(of[i], &why);
        } else if (part[i].last_logits) {
            go_on(of[i], result[i].logits);
        }
    }
    return true;
}

static void model_propose_together(drafter_request *r, int n) {
    for (int i = 0; i < n; i++) begin(&r[i]);
    while (step_together(((draft_model *)r[0].d)->engine, r, n)) {}
}

static status model_propose(drafter *base, const int32_t *token, int n, int max_nodes, draft *out, error *err) {
    drafter_request r = {.d = base, .token = token, .n = n, .max_nodes = max_nodes, .out = out, .err = err};
    model_propose_together(&r, 1);
    return r.result;
}

static status copy_bias(draft_model *m, error *err) {
    int n = m->sampling.n_logit_bias, kept = 0;
    m->sampling.logit_bias = NULL;
    m->sampling.n_logit_bias = 0;
    if (n <= 0) return STATUS_OK;
    m->bias = malloc((size_t)n * sizeof *m->bias);
    if (!m->bias) return error_no_memory(err, (unsigned long long)n * sizeof *m->bias);
    for (int i = 0; i < n; i++) {
        if (m->o.sampling->logit_bias[i].id < m->scratch.n_vocab) m->bias[kept++] = m->o.sampling->logit_bias[i];
    }
    m->sampling.logit_bias = m->bias;
    m->sampling.n_logit_bias = kept;
    return STATUS_OK;
}

status draft_model_create(drafter **out, tally_engine *e, const draft_model_options *o, error *err) {
    static const drafter_vtable vtable = {.name = "draft model",
                                          .destroy = model_destroy,
                                          .propose = model_propose,
                                          .propose_together = model_propose_together,
                                          .window = model_window,
                                          .follow = model_follow};
    *out = NULL;
    draft_model *m = calloc(1, sizeof *m);
    if (!m) return error_no_memory(err, sizeof *m);
    m->base.vt = &vtable;
    m->engine = e;
    m->o = *o;
    m->sampling = *o->sampling;
    m->scratch = e->sampler;
    if (m->scratch.n_vocab > o->n_vocab) m->scratch.n_vocab = o->n_vocab;
    status st = copy_bias(m, err);
    if (!st) st = sequence_init(&m->seq, e, err);
    if (st) {
        model_destroy(&m->base);
        return st;
    }
    *out = &m->base;
    return STATUS_OK;
}
