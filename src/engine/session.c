// Sessions: one sequence under the caller's control. Everything is built on one contract: the live state equals a token prefix.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpuinfo.h"
#include "base/hash.h"
#include "engine/generation.h"

struct tally_session {
    tally_engine *engine; // borrowed
    sequence seq;
    float *logits; // owned [n_vocab]; behind position logits_at
    int logits_at; // -1: none
};

tally_status tally_session_open(tally_session **out, tally_engine *e, tally_error *user_err) {
    error *err = (error *)user_err;
    *out = NULL;
    tally_session *s = calloc(1, sizeof *s);
    if (!s) return (tally_status)error_no_memory(err, sizeof *s);
    s->engine = e;
    s->logits_at = -1;
    status st = sequence_init(&s->seq, e, err);
    if (!st) {
        s->logits = malloc((size_t)e->n_vocab * sizeof *s->logits);
        if (!s->logits) st = error_no_memory(err, (unsigned long long)e->n_vocab * sizeof *s->logits);
    }
    if (st) {
        tally_session_close(s);
        return (tally_status)st;
    }
    *out = s;
    return TALLY_OK;
}

void tally_session_close(tally_session *s) {
    if (!s) return;
    sequence_deinit(&s->seq);
    free(s->logits);
    free(s);
}

int tally_session_length(const tally_session *s) { return s->seq.n_tokens; }

static void truncate_to(tally_session *s, int length) {
    s->seq.n_tokens = length;
    // also where nothing is cut: blocks that were reserved for rows that failed are given back
    block_table_truncate(&s->seq.cache, s->seq.cache.length < length ? s->seq.cache.length : length);
    if (s->logits_at >= length) s->logits_at = -1;
}

// One step of the next n rows; results are checked, and the sequence forgets the rows if they failed.
static status run_rows(tally_session *s, int n, bool all_logits, part_result *result, error *err) {
    tally_engine *e = s->engine;
    step_part part = {.seq = &s->seq, .n_rows = n, .all_logits = all_logits, .last_logits = true};
    status st = STATUS_OK;
    if (!block_table_reserve(&s->seq.cache, n)) {
        st = error_set(
            err, STATUS_FULL,
            "the cache has %d of %d blocks left, too few for %d more positions; close a session or raise the cache",
            e->blocks.n_free, e->blocks.n_blocks, n);
    }
    if (!st) st = engine_run_parts(e, &part, 1, result, err);
    if (!st && result->fault.code) st = error_set(err, result->fault.code, "%s", result->fault.text);
    if (st) truncate_to(s, s->seq.cache.length);
    return st;
}

// Computes what is known but not cached. Keeps the logits behind the last position.
static status catch_up(tally_session *s, error *err) {
    sequence_adopt_prefix(s->engine, &s->seq);
    while (s->seq.cache.length < s->seq.n_tokens) {
        int n = s->seq.n_tokens - s->seq.cache.length;
        if (n > s->engine->chunk_rows) n = s->engine->chunk_rows;
        part_result r;
        TRY(run_rows(s, n, false, &r, err));
        s->logits_at = s->seq.cache.length - 1;
        memcpy(s->logits, r.logits, (size_t)s->engine->n_vocab * sizeof *s->logits);
    }
    return STATUS_OK;
}

static int agreement(const tally_session *s, const int32_t *ids, int n) {
    int same = 0;
    while (same < n && same < s->seq.n_tokens && s->seq.token[same] == ids[same]) same++;
    return same;
}

tally_status tally_session_sync(tally_session *s, const int32_t *ids, int n, tally_error *err) {
    int same = agreement(s, ids, n);
    truncate_to(s, same);
    status st = sequence_append(s->engine, &s->seq, ids + same, n - same, (error *)err);
    return (tally_status)(st ? st : catch_up(s, (error *)err));
}

tally_status tally_session_logits(tally_session *s, const float **logits, tally_error *user_err) {
    error *err = (error *)user_err;
    if (s->seq.n_tokens == 0)
        return (tally_status)error_set(err, STATUS_BAD_ARGUMENT,
                                       "the session is empty: there are no logits behind nothing");
    if (s->logits_at != s->seq.n_tokens - 1) { // after a truncation: the last row is computed again
        if (s->seq.cache.length == s->seq.n_tokens) block_table_truncate(&s->seq.cache, s->seq.n_tokens - 1);
        status st = catch_up(s, err);
        if (st) return (tally_status)st;
    }
    *logits = s->logits;
    return TALLY_OK;
}

tally_status tally_session_eval(tally_session *s, const int32_t *ids, int n, int chunk, tally_logits_fn *fn, void *user,
                                tally_error *user_err) {
    error *err = (error *)user_err;
    tally_engine *e = s->engine;
    int most = e->step_rows < e->logit_rows ? e->step_rows : e->logit_rows;
    if (chunk < 0)
        return (tally_status)error_set(err, STATUS_BAD_ARGUMENT, "a chunk of %d rows, expected 0 or more", chunk);
    if (chunk == 0 || chunk > most) chunk = most;
    status st = catch_up(s, err);
    if (!st) st = sequence_append(e, &s->seq, ids, n, err);
    while (!st && s->seq.cache.length < s->seq.n_tokens) {
        int pos = s->seq.cache.length, rows = s->seq.n_tokens - pos < chunk ? s->seq.n_tokens - pos : chunk;
        part_result r;
        st = run_rows(s, rows, true, &r, err);
        if (st) break;
        s->logits_at = pos + rows - 1;
        memcpy(s->logits, r.logits + (int64_t)(rows - 1) * e->n_vocab, (size_t)e->n_vocab * sizeof *s->logits);
        for (int i = 0; i < rows && !st; i++)
            st = (status)fn(user, pos + i, r.logits + (int64_t)i * e->n_vocab, e->n_vocab);
    }
    return (tally_status)st;
}

tally_status tally_session_fork(tally_session **out, const tally_session *from, tally_error *err) {
    tally_status st = tally_session_open(out, from->engine, err);
    if (st) return st;
    tally_session *s = *out;
    memcpy(s->seq.token, from->seq.token, (size_t)from->seq.n_tokens * sizeof *s->seq.token);
    s->seq.n_tokens = from->seq.n_tokens;
    block_table_fork(&s->seq.cache, &from->seq.cache);
    s->logits_at = from->logits_at;
    if (from->logits_at >= 0) memcpy(s->logits, from->logits, (size_t)from->engine->n_vocab * sizeof *s->logits);
    return TALLY_OK;
}

// ---- a session and its generations -----------------------------------------------------------------------------------------

const tally_engine *session_engine(const struct tally_session *s) { return s->engine; }

int session_lend(struct tally_session *s, sequence *to) {
    truncate_to(s, agreement(s, to->token, to->n_tokens));
    block_table_fork(&to->cache, &s->seq.cache);
    if (to->cache.length == to->n_tokens) block_table_truncate(&to->cache, to->n_tokens - 1);
    return to->cache.length;
}

tally_status tally_session_adopt(tally_session *s, const tally_generation *g, tally_error *user_err) {
    if (g->engine != s->engine)
        return (tally_status)error_set((error *)user_err, STATUS_BAD_ARGUMENT,
                                       "the generation belongs to another engine");
    const sequence *from = &g->seq;
    s->logits_at = -1;
    memcpy(s->seq.token, from->token, (size_t)from->n_tokens * sizeof *from->token);
    s->seq.n_tokens = from->n_tokens;
    block_table_truncate(&s->seq.cache, 0);
    block_table_fork(&s->seq.cache, &from->cache);
    return TALLY_OK;
}

// ---- snapshots -----------------------------------------------------------------------------------------------------------

// header, tokens, cache blocks. The identity covers what gives the bytes their meaning.
typedef struct snapshot_header {
    char magic[8];
    uint64_t identity;
    int64_t block_bytes;
    int32_t n_tokens, n_cached;
} snapshot_header;

static const char SNAPSHOT_MAGIC[8] = "tallyss1";

static uint64_t model_identity(const tally_engine *e) {
    const cache_desc *c = &e->plan.model.cache;
    const model_config *m = &e->plan.model.config;
    const char *device = e->plan.device->vt->name;
    int64_t parts[] = {c->n_layers,
                       c->n_kv_heads,
                       c->head_dim,
                       c->k_type,
                       c->v_type,
                       m->n_vocab,
                       m->dim,
                       m->n_heads,
                       m->family,
                       e->plan.model.n_params,
                       (int64_t)e->fingerprint,
                       (int64_t)hash_bytes(device, strlen(device)),                 // how blocks lie in memory
                       cpu_level_is_common(e->plan.level) ? 0 : 1 + e->plan.level}; // other bits
    return hash_bytes(parts, sizeof parts);
}

static int blocks_of(int positions) { return (positions + KV_BLOCK - 1) / KV_BLOCK; }

static int64_t block_bytes(const tally_engine *e) {
    return e->plan.device->vt->block_bytes(e->plan.device, &e->plan.model.cache);
}

tally_status tally_session_save(const tally_session *s, void **bytes, size_t *n, tally_error *user_err) {
    const tally_engine *e = s->engine;
    snapshot_header h = {.identity = model_identity(e),
                         .block_bytes = block_bytes(e),
                         .n_tokens = s->seq.n_tokens,
                         .n_cached = s->seq.cache.length};
    memcpy(h.magic, SNAPSHOT_MAGIC, sizeof h.magic);
    size_t tokens = (size_t)h.n_tokens * sizeof *s->seq.token;
    *n = sizeof h + tokens + (size_t)blocks_of(h.n_cached) * (size_t)h.block_bytes;
    char *at = *bytes = malloc(*n);
    if (!at) return (tally_status)error_no_memory((error *)user_err, *n);
    memcpy(at, &h, sizeof h);
    at += sizeof h;
    memcpy(at, s->seq.token, tokens);
    at += tokens;
    for (int i = 0; i < blocks_of(h.n_cached); i++, at += h.block_bytes)
        e->plan.device->vt->block_read(e->plan.device, s->seq.cache.block[i], at);
    return TALLY_OK;
}

static status check_snapshot(const tally_engine *e, const snapshot_header *h, size_t n, error *err) {
    if (memcmp(h->magic, SNAPSHOT_MAGIC, sizeof h->magic) != 0)
        return error_set(err, STATUS_BAD_FILE, "these %zu bytes are no tally snapshot", n);
    if (h->identity != model_identity(e) || h->block_bytes != block_bytes(e)) {
        return error_set(
            err, STATUS_BAD_ARGUMENT,
            "the snapshot was taken with another model, other cache types or on another device (a block of %lld "
            "bytes; here %lld)",
            (long long)h->block_bytes, (long long)block_bytes(e));
    }
    if (h->n_tokens < 0 || h->n_cached < 0 || h->n_cached > h->n_tokens) {
        return error_set(err, STATUS_BAD_FILE, "the snapshot claims %d cached of %d tokens", h->n_cached, h->n_tokens);
    }
    size_t want =
        sizeof *h + (size_t)h->n_tokens * sizeof(int32_t) + (size_t)blocks_of(h->n_cached) * (size_t)h->block_bytes;
    if (n != want) return error_set(err, STATUS_BAD_FILE, "the snapshot has %zu bytes, expected %zu", n, want);
    return STATUS_OK;
}

tally_status tally_session_restore(tally_session *s, const void *bytes, size_t n, tally_error *user_err) {
    error *err = (error *)user_err;
    tally_engine *e = s->engine;
    snapshot_header h;
    if (n < sizeof h) return (tally_status)error_set(err, STATUS_BAD_FILE, "these %zu bytes are no tally snapshot", n);
    memcpy(&h, bytes, sizeof h);
    status st = check_snapshot(e, &h, n, err);
    if (st) return (tally_status)st;
    const char *at = (const char *)bytes + sizeof h;
    int32_t *tokens = malloc((size_t)h.n_tokens * sizeof *tokens + 1);
    if (!tokens) return (tally_status)error_no_memory(err, (unsigned long long)h.n_tokens * sizeof *tokens);
    memcpy(tokens, at, (size_t)h.n_tokens * sizeof *tokens);
    at += (size_t)h.n_tokens * sizeof *tokens;
    truncate_to(s, 0);
    st = sequence_append(e, &s->seq, tokens, h.n_tokens, err);
    free(tokens);
    if (!st && !block_table_reserve(&s->seq.cache, h.n_cached)) {
        truncate_to(s, 0);
        st = error_set(err, STATUS_FULL, "the snapshot's %d positions do not fit the %d free blocks of the cache",
                       h.n_cached, e->blocks.n_free);
    }
    if (st) return (tally_status)st;
    for (int i = 0; i < blocks_of(h.n_cached); i++, at += h.block_bytes)
        e->plan.device->vt->block_write(e->plan.device, s->seq.cache.block[i], at);
    block_table_commit(&s->seq.cache, h.n_cached);
    return TALLY_OK;
}
