#include "engine/generation.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static const char *check_request(const tally_request *r, error *err) {
    static const char bad[] = "bad";
    if (r->n_ids <= 0)
        return error_set(err, STATUS_BAD_ARGUMENT, "the prompt is empty: at least one token is needed"), bad;
    if (r->logprobs < 0)
        return error_set(err, STATUS_BAD_ARGUMENT, "logprobs is %d, it must be at least 0", r->logprobs), bad;
    for (int i = 0; i < r->n_stops; i++) {
        if (!r->stops[i] || !r->stops[i][0])
            return error_set(err, STATUS_BAD_ARGUMENT, "stop string %d is empty", i + 1), bad;
    }
    return NULL;
}

static status no_memory(error *err) {
    return error_set(err, STATUS_NO_MEMORY, "out of memory while starting a generation");
}

static status copy_stops(struct tally_generation *g, const tally_request *r, error *err) {
    if (r->n_stops == 0) return STATUS_OK;
    g->stops = calloc((size_t)r->n_stops, sizeof *g->stops);
    g->stop_len = calloc((size_t)r->n_stops, sizeof *g->stop_len);
    if (!g->stops || !g->stop_len) return no_memory(err);
    for (; g->n_stops < r->n_stops; g->n_stops++) {
        g->stop_len[g->n_stops] = strlen(r->stops[g->n_stops]);
        g->stops[g->n_stops] = strdup(r->stops[g->n_stops]);
        if (!g->stops[g->n_stops]) return no_memory(err);
    }
    return STATUS_OK;
}

static status copy_sampling(struct tally_generation *g, const tally_request *r, error *err) {
    const tally_engine *e = g->engine;
    TRY(sampler_check(&r->sampling, e->n_vocab, err));
    g->sampling = r->sampling;
    if (r->sampling.n_logit_bias > 0) {
        g->bias = malloc((size_t)r->sampling.n_logit_bias * sizeof *g->bias);
        if (!g->bias) return no_memory(err);
        memcpy(g->bias, r->sampling.logit_bias, (size_t)r->sampling.n_logit_bias * sizeof *g->bias);
        g->sampling.logit_bias = g->bias;
    }
    if (!sampler_needs_history(&r->sampling)) return STATUS_OK;
    g->history.prompt = calloc((size_t)e->n_vocab, sizeof *g->history.prompt);
    g->history.output = calloc((size_t)e->n_vocab, sizeof *g->history.output);
    if (!g->history.prompt || !g->history.output) return no_memory(err);
    for (int i = 0; i < g->n_prompt; i++) g->history.prompt[g->seq.token[i]]++;
    return STATUS_OK;
}

static status start(struct tally_generation *g, const tally_request *r, error *err) {
    const tally_engine *e = g->engine;
    if (check_request(r, err)) return STATUS_BAD_ARGUMENT;
    if (r->n_stops > 0 && !e->source->tok)
        return error_set(err, STATUS_BAD_ARGUMENT, "stop strings need a tokenizer, and this model has none");
    if (r->n_ids > e->context) {
        return error_set(
            err, STATUS_FULL,
            "the prompt has %d tokens but the context is %d; shorten it or raise -c (the model's maximum is %d)",
            r->n_ids, e->context, e->plan.model.config.context_length);
    }
    if (r->n_ids > (int64_t)e->blocks.n_blocks * KV_BLOCK) {
        return error_set(
            err, STATUS_FULL,
            "the prompt has %d tokens but the whole cache only %d positions; shorten it or raise --cache-positions",
            r->n_ids, e->blocks.n_blocks * KV_BLOCK);
    }
    if (r->session && session_engine(r->session) != e)
        return error_set(err, STATUS_BAD_ARGUMENT, "the session belongs to another engine");
    TRY(sequence_init(&g->seq, g->engine, err));
    TRY(sequence_append(e, &g->seq, r->ids, r->n_ids, err));
    g->n_prompt = r->n_ids;
    int room = e->context - r->n_ids;
    g->max_tokens = r->max_tokens < 0 || r->max_tokens > room ? room : r->max_tokens;
    g->ignore_eos = r->ignore_eos;
    g->n_logprobs = r->logprobs > e->n_vocab ? e->n_vocab : r->logprobs;
    TRY(copy_stops(g, r, err));
    TRY(copy_sampling(g, r, err));
    return speculation_init(g, r->speculation, err);
}

tally_status tally_generate(tally_engine *e, const tally_request *request, tally_generation **out,
                            tally_error *user_err) {
    error *err = (error *)user_err;
    *out = NULL;
    struct tally_generation *g = calloc(1, sizeof *g);
    if (!g) return (tally_status)no_memory(err);
    g->engine = e;
    status s = start(g, request, err);
    if (s) {
        g->engine = NULL; // not linked yet
        tally_generation_close(g);
        return (tally_status)s;
    }
    if (request->session) {
        e->stats.reused_positions += session_lend(request->session, &g->seq);
        g->keeps_cache = true;
    }
    g->last_served = e->stats.steps;
    generation_link(g);
    if (g->max_tokens == 0) g->finish = FINISH_LENGTH;
    *out = g;
    return TALLY_OK;
}

static void turn_append(struct tally_generation *g) {
    tally_engine *e = g->engine;
    g->turn_prev = e->turn_last;
    g->turn_next = NULL;
    *(e->turn_last ? &e->turn_last->turn_next : &e->turn_first) = g;
    e->turn_last = g;
}

static void turn_remove(struct tally_generation *g) {
    tally_engine *e = g->engine;
    *(g->turn_prev ? &g->turn_prev->turn_next : &e->turn_first) = g->turn_next;
    *(g->turn_next ? &g->turn_next->turn_prev : &e->turn_last) = g->turn_prev;
}

void generation_link(struct tally_generation *g) {
    tally_engine *e = g->engine;
    g->prev = e->last;
    g->next = NULL;
    *(e->last ? &e->last->next : &e->first) = g;
    e->last = g;
    turn_append(g);
}

void generation_unlink(struct tally_generation *g) {
    tally_engine *e = g->engine;
    *(g->prev ? &g->prev->next : &e->first) = g->next;
    *(g->next ? &g->next->prev : &e->last) = g->prev;
    turn_remove(g);
}

void generation_served(struct tally_generation *g) {
    turn_remove(g);
    turn_append(g);
}

void tally_generation_close(tally_generation *g) {
    if (!g) return;
    if (g->engine) generation_unlink(g);
    speculation_deinit(&g->spec);
    sequence_deinit(&g->seq);
    for (int i = 0; i < g->n_stops; i++) free(g->stops[i]);
    free(g->stops);
    free(g->stop_len);
    free(g->bias);
    free(g->history.prompt);
    free(g->history.output);
    free(g->logprobs);
    free(g->n_logprob_entries);
    strbuf_deinit(&g->text);
    free(g);
}

void generation_fail(struct tally_generation *g, const error *why) {
    g->error = *why;
    g->finish = FINISH_ERROR;
    if (g->text.data) g->text.len = g->n_shown, g->text.data[g->n_shown] = 0; // what was held back is no text
    block_table_truncate(&g->seq.cache, 0);
}

// ---- text ----------------------------------------------------------------------------------------------------------------

// The first place at or behind `from` where any stop string stands, or -1.
static ptrdiff_t find_stop(const struct tally_generation *g, size_t from) {
    ptrdiff_t first = -1;
    for (int i = 0; i < g->n_stops; i++) {
        ptrdiff_t at = str_find(strbuf_str(&g->text), (str){g->stops[i], g->stop_len[i]}, from);
        if (at >= 0 && (first < 0 || at < first)) first = at;
    }
    return first;
}

// Bytes at the end of the text that may be the start of a stop string.
static size_t held_back(const struct tally_generation *g) {
    size_t most = 0;
    for (int i = 0; i < g->n_stops; i++) {
        size_t n = g->stop_len[i] - 1 < g->text.len ? g->stop_len[i] - 1 : g->text.len;
        for (; n > most; n--) {
            if (memcmp(g->text.data + g->text.len - n, g->stops[i], n) == 0) most = n;
        }
    }
    return most;
}

// Cuts the text at a stop string if there is one; otherwise shows what is certain.
static void show_text(struct tally_generation *g, size_t searched) {
    ptrdiff_t at = find_stop(g, searched);
    if (at >= 0) {
        g->text.len = (size_t)at;
        g->text.data[at] = 0;
        g->n_shown = g->text.len;
        g->finish = FINISH_STOP;
        return;
    }
    g->n_shown = g->text.len - held_back(g);
}

static void add_text(struct tally_generation *g, int32_t id) {
    const tokenizer *tok = g->engine->source->tok;
    if (!tok || tokenizer_is_special(tok, id)) return;
    size_t longest = 0;
    for (int i = 0; i < g->n_stops; i++) longest = g->stop_len[i] > longest ? g->stop_len[i] : longest;
    size_t searched = g->text.len >= longest ? g->text.len - longest + (longest > 0) : 0;
    utf8_stream_push(&g->utf8, tokenizer_bytes(tok, id), &g->text);
    if (g->text.len) show_text(g, searched);
}

// The end of the text, when no stop string ended it: nothing is held back any more.
static void finish_text(struct tally_generation *g) {
    utf8_stream_finish(&g->utf8, &g->text);
    g->n_shown = g->text.len;
}

// ---- tokens --------------------------------------------------------------------------------------------------------------

static bool is_stop_id(const struct tally_generation *g, int32_t id) {
    const model_config *c = &g->engine->source->config;
    for (int i = 0; i < c->n_stop_ids && !g->ignore_eos; i++) {
        if (c->stop_ids[i] == id) return true;
    }
    return false;
}

static bool keep_logprobs(struct tally_generation *g, int at, int32_t id, const float *logits) {
    size_t row = 1 + (size_t)g->n_logprobs;
    if (at == g->cap_logprobs) {
        int cap = at ? at * 2 : 64;
        tally_logprob *p = realloc(g->logprobs, (size_t)cap * row * sizeof *p);
        if (p) g->logprobs = p;
        int *n = realloc(g->n_logprob_entries, (size_t)cap * sizeof *n);
        if (n) g->n_logprob_entries = n;
        if (!p || !n) return false;
        g->cap_logprobs = cap;
    }
    g->n_logprob_entries[at] =
        sampler_logprobs(logits, id, g->n_logprobs, g->logprobs + (size_t)at * row, &g->engine->sampler);
    return true;
}

// A choice that tests put in the place of the engine's may look at all logits; so does the shadow check.
int generation_best(const struct tally_generation *g) {
    const tally_engine *e = g->engine;
    bool shadow =
        e->shadow_logits && g->spec.mode != TALLY_SPEC_OFF && g->spec.since_shadow + 1 >= e->speculation.shadow;
    if (g->n_logprobs > 0 || shadow || e->spec.choose != verify_step_choose) return 0;
    return sampler_best(&g->sampling, e->n_vocab);
}

void generation_accept(struct tally_generation *g, int32_t id, const float *logits) {
    g->t_last = clock_now_ns();
    if (!g->t_first) g->t_first = g->t_last;
    g->n_chosen++;
    if (is_stop_id(g, id)) {
        g->finish = FINISH_STOP;
        finish_text(g);
        return;
    }
    int at = g->seq.n_tokens - g->n_prompt;
    if (g->n_logprobs > 0 && !keep_logprobs(g, at, id, logits)) {
        error why;
        error_no_memory(&why, (unsigned long long)at * sizeof *g->logprobs);
        generation_fail(g, &why);
        return;
    }
    g->seq.token[g->seq.n_tokens++] = id;
    if (g->history.output) g->history.output[id]++;
    add_text(g, id);
    if (!g->finish && at + 1 >= g->max_tokens) {
        g->finish = FINISH_LENGTH;
        finish_text(g);
    }
    if (g->text.failed) {
        error why;
        error_no_memory(&why, (unsigned long long)g->text.cap * 2);
        generation_fail(g, &why);
    }
}

// ---- what a user asks ----------------------------------------------------------------------------------------------------

bool tally_generation_done(const tally_generation *g) { return g->finish != FINISH_NONE; }

const char *tally_generation_finish_reason(const tally_generation *g) {
    static const char *const names[] = {
        [FINISH_NONE] = NULL, [FINISH_STOP] = "stop", [FINISH_LENGTH] = "length", [FINISH_ERROR] = "error"};
    return names[g->finish];
}

tally_status tally_generation_status(const tally_generation *g, tally_error *err) {
    if (g->finish != FINISH_ERROR) return TALLY_OK;
    error_set((error *)err, g->error.code, "%s", g->error.text);
    return (tally_status)g->error.code;
}

const int32_t *tally_generation_ids(const tally_generation *g, int *n) {
    *n = g->seq.n_tokens - g->n_prompt;
    return g->seq.token + g->n_prompt;
}

const char *tally_generation_text(const tally_generation *g, size_t *len) {
    if (len) *len = g->n_shown;
    return strbuf_text(&g->text);
}

const tally_logprob *tally_generation_logprobs(const tally_generation *g, int i, int *n) {
    *n = 0;
    if (g->n_logprobs == 0 || i < 0 || i >= g->seq.n_tokens - g->n_prompt) return NULL;
    *n = g->n_logprob_entries[i];
    return g->logprobs + (size_t)i * (1 + (size_t)g->n_logprobs);
}

void tally_generation_timings(const tally_generation *g, tally_timings *out) {
    *out = (tally_timings){.n_prompt = g->n_prompt};
    if (g->t_first) {
        out->n_decode = g->n_chosen - 1;
        out->prompt_ms = (double)(g->t_first - g->t_start) / 1e6;
        out->decode_ms = (double)(g->t_last - g->t_first) / 1e6;
    }
}

void tally_generation_spec_counts(const tally_generation *g, tally_spec_counts *out) { *out = g->spec.counts; }
