// Loading: options to decisions, the memory plan, weights to the device; and the step that users call.
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpuinfo.h"
#include "base/fpenv.h"
#include "base/meminfo.h"
#include "engine/backends.h"
#include "engine/generation.h"
#include "op/passes.h"
#include "op/plan.h"

enum { DEFAULT_STEP_ROWS = 512, DEFAULT_LOGIT_ROWS = 32, MAX_STEP_ROWS = 1 << 16 };
enum { DRAFT_LOGIT_ROWS = 2 }; // of every sequence, beside its own row

static status cache_type(const char *option, const char *value, dtype natural, const model_config *c, dtype *out,
                         error *err) {
    *out = natural;
    if (!value) return STATUS_OK;
    bool known = dtype_from_name(str_from(value), out) &&
                 (*out == DTYPE_F32 || *out == DTYPE_F16 || *out == DTYPE_BF16 || *out == DTYPE_Q8_0);
    if (!known)
        return error_set(err, STATUS_BAD_ARGUMENT, "%s %s: a cache type is one of f32, f16, bf16, q8_0", option, value);
    if (*out == DTYPE_Q8_0 && c->head_dim % 32 != 0) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s q8_0 needs heads whose size is a multiple of 32, this model's are %d; use f16", option,
                         c->head_dim);
    }
    return STATUS_OK;
}

status engine_plan_cache_types(model *m, const char *k, const char *v, error *err) {
    dtype natural = model_is_f32(m) ? DTYPE_F32 : DTYPE_F16;
    TRY(cache_type("-ctk", k, natural, &m->config, &m->cache.k_type, err));
    return cache_type("-ctv", v, natural, &m->config, &m->cache.v_type, err);
}

status engine_plan_level(const char *name, cpu_level *level, error *err) {
    if (!name) {
        *level = cpu_level_best();
        while (!cpu_level_enable(*level)) (*level)--;
        return STATUS_OK;
    }
    if (!cpu_level_from_name(str_from(name), level)) {
        return error_set(err, STATUS_BAD_ARGUMENT, "there is no CPU level named %s; this processor's best is %s", name,
                         cpu_level_name(cpu_level_best()));
    }
    if (cpu_level_enable(*level)) return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED, "this processor does not have level %s; its best is %s", name,
                     cpu_level_name(cpu_level_best()));
}

status engine_in_range(const char *option, int64_t value, int64_t low, int64_t high, error *err) {
    if (value >= low && value <= high) return STATUS_OK;
    return error_set(err, STATUS_BAD_ARGUMENT, "%s is %lld, it must be between %lld and %lld", option, (long long)value,
                     (long long)low, (long long)high);
}

static status check_options(const tally_engine_options *o, const model_config *c, error *err) {
    TRY(engine_in_range("the number of threads", o->threads, 0, 1024, err));
    TRY(engine_in_range("the context", o->context, 0, INT_MAX / 2, err));
    TRY(engine_in_range("the cache's positions", o->cache_positions, 0, (int64_t)(INT_MAX / 2) * KV_BLOCK, err));
    TRY(engine_in_range("the rows of a step", o->step_rows, 0, MAX_STEP_ROWS, err));
    TRY(engine_in_range("the rows of a prompt's chunk", o->chunk_rows, 0, MAX_STEP_ROWS, err));
    TRY(engine_in_range("the rows of a step with logits", o->logit_rows, 0, MAX_STEP_ROWS, err));
    TRY(engine_in_range("the number of sequences", o->sequences, 0, MAX_STEP_ROWS, err));
    if (o->context > c->context_length) {
        return error_set(err, STATUS_BAD_ARGUMENT,
                         "a context of %d positions exceeds what this model was made for (%d); lower -c", o->context,
                         c->context_length);
    }
    return STATUS_OK;
}

static status plan_memory_of(engine_plan *p, const tally_engine_options *o, error *err);

static status fix_cache_type(const tally_engine_options *o, cache_desc *cache, dtype only, error *err) {
    if ((o->cache_k && cache->k_type != only) || (o->cache_v && cache->v_type != only)) {
        return error_set(err, STATUS_UNSUPPORTED, "the cache of this device is of type %s; leave -ctk and -ctv out",
                         dtype_get(only)->name);
    }
    cache->k_type = cache->v_type = only;
    return STATUS_OK;
}

static bool on_processor(const tally_engine_options *o) { return !o->device || strcmp(o->device, "cpu") == 0; }

static status create_device(engine_plan *p, const tally_engine_options *o, error *err) {
    if (on_processor(o)) {
        const char *option = o->type ? "--dtype" : o->exact ? "--exact" : o->graph ? "--graph" : NULL;
        if (option) return error_set(err, STATUS_BAD_ARGUMENT, "%s is for NPUs; leave it out on the processor", option);
        TRY(backends_create_cpu(&p->device, p->threads, p->level, err));
        if (o->no_repack) backends_cpu_keep_rows(p->device);
        return STATUS_OK;
    }
    if (!backends_is_ascend(o->device)) {
        return error_set(
            err, STATUS_BAD_ARGUMENT,
            "there is no device '%s'; devices are cpu, ascend:N and emu:CHIP (docs/ascend.md lists the chips)",
            o->device);
    }
    const npu_options npu = {o->device, o->type, o->exact, o->graph, model_layer_type(&p->model)};
    TRY(backends_create_ascend(&p->device, &npu, err));
    return fix_cache_type(o, &p->model.cache, *p->device->only_cache_type, err);
}

status engine_plan_init(engine_plan *p, const tally_model *source, const tally_engine_options *o, error *err) {
    *p = (engine_plan){0};
    if (!source->has_config) return error_set(err, source->why_no_config.code, "%s", source->why_no_config.text);
    TRY(check_options(o, &source->config, err));
    TRY(engine_plan_level(o->cpu_level, &p->level, err));
    TRY(checkpoint_load_tensors(source->ck, !o->no_mmap, err));
    // NPUs rotate and attend to dense tensors; norms and the cache take strides.
    unsigned passes = on_processor(o) ? PASS_ALL : PASS_FUSE_ADD_NORM | PASS_MERGE_GATED | PASS_MERGE_NORMED;
    TRY(model_build(&p->model, &source->config, source->ck, DTYPE_BF16, o->no_fuse ? 0 : passes, err));
    TRY(engine_plan_cache_types(&p->model, o->cache_k, o->cache_v, err));
    TRY(pool_create(&p->threads, o->threads ? o->threads : cpu_physical_cores(), err));
    TRY(create_device(p, o, err));
    for (int i = 0; i < p->model.list.n_ops; i++) {
        TRY(p->device->vt->supports(p->device, &p->model.list.ops[i], &p->model.weights, err));
    }
    return plan_memory_of(p, o, err);
}

void engine_plan_deinit(engine_plan *p) {
    if (p->device) p->device->vt->destroy(p->device);
    pool_destroy(p->threads);
    model_deinit(&p->model);
    *p = (engine_plan){0};
}

static int64_t weights_bytes(const engine_plan *p) {
    int64_t sum = 0;
    for (int i = 0; i < p->model.weights.n; i++) {
        const weight *w = &p->model.weights.w[i];
        if (!w->absorbed) sum += p->device->vt->weight_bytes(p->device, w);
    }
    return sum;
}

static int64_t blocks_for(int64_t positions) { return (positions + KV_BLOCK - 1) / KV_BLOCK; }

// The longest context whose cache fits beside everything else: the model's own, or less. 0: none.
static int64_t largest_context(const engine_plan *p, int64_t other_bytes, int64_t block_bytes) {
    int64_t room = p->memory.available - other_bytes, want = p->model.config.context_length;
    if (room < block_bytes) return 0;
    int64_t fits = room / block_bytes * KV_BLOCK;
    return fits < want ? fits : want;
}

// A row for every sequence, and where drafts are wanted a few more, but not for more than a sixteenth of the memory.
static int default_logit_rows(const tally_engine_options *o, int n_vocab, int64_t available) {
    int64_t own = o->sequences > DEFAULT_LOGIT_ROWS ? o->sequences : DEFAULT_LOGIT_ROWS;
    int64_t want = o->speculation.mode == TALLY_SPEC_OFF ? own : (int64_t)o->sequences * (1 + DRAFT_LOGIT_ROWS);
    int64_t fits = available / 16 / ((int64_t)n_vocab * (int64_t)sizeof(float));
    if (want > fits) want = fits;
    return (int)(want > own ? want : own);
}

static void choose_rows(const tally_engine_options *o, int n_vocab, int64_t available, step_limits *l) {
    l->max_rows = o->step_rows ? o->step_rows : DEFAULT_STEP_ROWS;
    l->max_out = o->logit_rows ? o->logit_rows : default_logit_rows(o, n_vocab, available);
    bool one = !o->cache_positions && o->sequences <= 1;
    if (one && o->context && l->max_rows > o->context) l->max_rows = o->context;
    if (l->max_out > l->max_rows) l->max_out = l->max_rows;
}

// All sequences at their longest, but at most three quarters of the memory that is left, and one sequence at least.
static int64_t positions_for(const tally_engine_options *o, int64_t context, int64_t room, int64_t block_bytes) {
    if (o->cache_positions || o->sequences <= 1) return o->cache_positions ? o->cache_positions : context;
    int64_t want = blocks_for(context) * KV_BLOCK * o->sequences, fits = room / 4 * 3 / block_bytes * KV_BLOCK;
    int64_t most = want < fits ? want : fits;
    return most < context ? context : most;
}

// What drafters look up lies in the host's memory, also beside a device with its own.
static status check_host_memory(int64_t drafting, error *err) {
    int64_t available = meminfo_available();
    if (drafting <= available) return STATUS_OK;
    return error_set(err, STATUS_NO_MEMORY,
                     "drafting takes %.1f MiB of the host's memory, of which %.1f MiB are available; lower -c or "
                     "--lookup-corpus, or take --spec off",
                     (double)drafting / (1 << 20), (double)available / (1 << 20));
}

static status plan_memory_of(engine_plan *p, const tally_engine_options *o, error *err) {
    step_limits *l = &p->limits;
    const backend_vtable *vt = p->device->vt;
    int n_vocab = p->model.config.n_vocab;
    p->memory.available = vt->memory_available ? vt->memory_available(p->device) : meminfo_available();
    bool own_memory = vt->memory_available != NULL; // the device's, which counts what the draft engine took of it
    if (o->draft && !own_memory && !o->draft->plan.device->vt->memory_available)
        // its cache and workspace are promised, though its pages may not have been touched yet
        p->memory.available -= o->draft->plan.memory.cache + o->draft->plan.memory.workspace;
    choose_rows(o, n_vocab, p->memory.available, l);
    l->model_context = p->model.config.context_length;
    l->max_context = o->context; // 0: not decided yet
    int64_t tile = p->device->row_tile ? p->device->row_tile : 1, rows = (l->max_rows + tile - 1) / tile * tile,
            out = (l->max_out + tile - 1) / tile * tile;
    TRY(plan_memory(&p->model.list, rows, out, &p->workspace_bytes, err));
    p->memory.weights = weights_bytes(p);
    p->memory.workspace = p->workspace_bytes + p->device->vt->scratch_bytes(p->device, &p->model.list, l);
    int64_t block_bytes = p->device->vt->block_bytes(p->device, &p->model.cache),
            other = p->memory.weights + p->memory.workspace;
    // A shadow check needs a block of its own; so does a generation that goes on from a session's last block, which it copies.
    int64_t spare = (o->speculation.shadow > 0) + !o->cache_positions;
    int64_t context = o->context ? o->context : largest_context(p, other + spare * block_bytes, block_bytes);
    if (!o->context && !own_memory) { // what drafters look up grows with the context
        int64_t drafting = speculation_bytes(o, (int)context, n_vocab);
        context = largest_context(p, other + drafting + spare * block_bytes, block_bytes);
    }
    p->memory.drafting = speculation_bytes(o, (int)context, n_vocab);
    if (own_memory) {
        TRY(check_host_memory(p->memory.drafting, err));
    } else {
        other += p->memory.drafting;
    }
    int64_t positions = positions_for(o, context, p->memory.available - other - spare * block_bytes, block_bytes);
    l->max_context = (int)context;
    l->n_blocks = (int)(blocks_for(positions) + spare);
    p->memory.cache = l->n_blocks * block_bytes;
    if (context > 0 && other + p->memory.cache <= p->memory.available) return STATUS_OK;
    double mib = 1024.0 * 1024.0;
    return error_set(
        err, STATUS_NO_MEMORY,
        "the plan does not fit: weights %.1f MiB + cache %.1f MiB (%lld positions) + workspace %.1f MiB "
        "+ drafting %.1f MiB, but %.1f MiB are available; lower -c "
        "(%.1f KiB per position) or --cache-positions, use -ctk/-ctv q8_0, lower -b, or take a smaller quantisation",
        (double)p->memory.weights / mib, (double)p->memory.cache / mib, (long long)positions,
        (double)p->memory.workspace / mib, (double)p->memory.drafting / mib, (double)p->memory.available / mib,
        (double)block_bytes / KV_BLOCK / 1024.0);
}

// ---- loading -------------------------------------------------------------------------------------------------------------

// Whether some row of these bytes is still looked up in the file: a tied head's may be the embedding's.
static bool is_looked_up(const weight_set *set, const char *data, int64_t n_bytes) {
    for (int i = 0; i < set->n; i++) {
        const weight *w = &set->w[i];
        if (w->absorbed || w->role != WEIGHT_EMBED) continue;
        const char *first = w->part[0].data[0];
        if (data < first + w->part[0].n_rows * dtype_row_bytes(w->part[0].type, w->k) && first < data + n_bytes)
            return true;
    }
    return false;
}

// Drops the file's bytes of a weight that the device has a copy of.
static void drop_source(tally_engine *e, const weight *w) {
    if (w->role == WEIGHT_EMBED) return;
    if (e->plan.device->vt->weight_bytes(e->plan.device, w) == 0) {
        checkpoint_keep_data(e->source->ck);
        return;
    }
    for (int p = 0; p < w->n_parts; p++) {
        int64_t n_bytes = w->part[p].n_rows * dtype_row_bytes(w->part[p].type, w->k);
        for (int64_t x = 0; x < w->n_experts; x++) {
            if (!is_looked_up(&e->plan.model.weights, w->part[p].data[x], n_bytes))
                checkpoint_drop_range(e->source->ck, w->part[p].data[x], (size_t)n_bytes);
        }
    }
}

// Packs every live weight; the file's pages are dropped behind it, so that never both copies of the model are resident.
static status load_weights(tally_engine *e, const tally_engine_options *o, error *err) {
    const weight_set *set = &e->plan.model.weights;
    uint64_t done = 0, total = 0;
    for (int i = 0; i < set->n; i++) total += set->w[i].absorbed ? 0 : (uint64_t)weight_file_bytes(&set->w[i]);
    for (int i = 0; i < set->n; i++) {
        const weight *w = &set->w[i];
        if (w->absorbed) continue;
        TRY(e->plan.device->vt->weight_upload(e->plan.device, set, i, err));
        drop_source(e, w);
        done += (uint64_t)weight_file_bytes(w);
        if (o->progress && !o->progress(o->progress_user, done, total))
            return error_set(err, STATUS_CANCELLED, "loading was cancelled");
    }
    checkpoint_drop_all(e->source->ck);
    return STATUS_OK;
}

static status alloc_step(tally_engine *e, error *err) {
    size_t rows = (size_t)e->step_rows;
    e->row_token = malloc(rows * sizeof *e->row_token);
    e->row_pos = malloc(rows * sizeof *e->row_pos);
    e->row_slot = malloc(rows * sizeof *e->row_slot);
    e->row_parent = malloc(rows * sizeof *e->row_parent);
    e->row_seq = malloc(rows * sizeof *e->row_seq);
    e->out_row = malloc((size_t)e->logit_rows * sizeof *e->out_row);
    e->out_best = malloc((size_t)e->logit_rows * sizeof *e->out_best);
    e->tables = malloc(rows * sizeof *e->tables);
    e->parts = malloc(rows * sizeof *e->parts);
    e->owners = malloc(rows * sizeof *e->owners);
    e->results = malloc(rows * sizeof *e->results);
    if (e->row_token && e->row_pos && e->row_slot && e->row_parent && e->row_seq && e->out_row && e->out_best &&
        e->tables && e->parts && e->owners && e->results)
        return STATUS_OK;
    return error_set(err, STATUS_NO_MEMORY, "out of memory for the rows of a step (%d)", e->step_rows);
}

static status open_engine(tally_engine *e, const tally_engine_options *o, error *err) {
    TRY(engine_plan_init(&e->plan, e->source, o, err));
    e->fingerprint = checkpoint_fingerprint(e->source->ck);
    e->n_vocab = e->plan.model.config.n_vocab;
    e->context = e->plan.limits.max_context;
    e->step_rows = e->plan.limits.max_rows;
    e->chunk_rows = o->chunk_rows && o->chunk_rows < e->step_rows ? o->chunk_rows : e->step_rows;
    e->logit_rows = e->plan.limits.max_out;
    TRY(alloc_step(e, err));
    TRY(sampler_scratch_init(&e->sampler, e->n_vocab, err));
    TRY(block_pool_init(&e->blocks, e->plan.limits.n_blocks, err));
    TRY(prefix_index_init(&e->prefixes, &e->blocks, err));
    e->reuse_prefixes = !o->no_prefix_reuse;
    TRY(speculation_open(e, o, err));
    TRY(load_weights(e, o, err));
    return e->plan.device->vt->prepare(e->plan.device, &e->plan.model.list, e->plan.workspace_bytes,
                                       &e->plan.model.cache, &e->plan.limits, err);
}

tally_status tally_engine_open(tally_engine **out, const tally_model *source, const tally_engine_options *options,
                               tally_error *user_err) {
    error *err = (error *)user_err;
    static const tally_engine_options defaults = {0};
    *out = NULL;
    tally_engine *e = calloc(1, sizeof *e);
    if (!e) return (tally_status)error_no_memory(err, sizeof *e);
    e->source = source;
    fpenv_state callers = fpenv_enter();
    status s = open_engine(e, options ? options : &defaults, err);
    fpenv_leave(callers);
    if (s) {
        tally_engine_close(e);
        return (tally_status)s;
    }
    *out = e;
    return TALLY_OK;
}

void tally_engine_close(tally_engine *e) {
    if (!e) return;
    while (e->first) tally_generation_close(e->first);
    engine_trace_free(e);
    speculation_close(e);
    engine_plan_deinit(&e->plan);
    prefix_index_deinit(&e->prefixes);
    block_pool_deinit(&e->blocks);
    sampler_scratch_deinit(&e->sampler);
    free(e->row_token);
    free(e->row_pos);
    free(e->row_slot);
    free(e->row_parent);
    free(e->row_seq);
    free(e->out_row);
    free(e->out_best);
    free(e->tables);
    free(e->parts);
    free(e->owners);
    free(e->results);
    free(e);
}

int64_t tally_engine_step_bytes(const tally_engine *e, int rows, int past) {
    const model_config *c = &e->plan.model.config;
    double experts = c->n_experts ? (double)c->n_experts_used * rows / c->n_experts : 1;
    double bytes = 0;
    for (int i = 0; i < e->plan.model.weights.n; i++) {
        const weight *w = &e->plan.model.weights.w[i];
        if (w->absorbed || w->role == WEIGHT_EMBED) continue;
        double all = (double)e->plan.device->vt->weight_bytes(e->plan.device, w);
        if (all == 0) all = (double)weight_file_bytes(w);
        bytes += w->role == WEIGHT_EXPERTS && experts < 1 ? all * experts : all;
    }
    double position = (double)e->plan.device->vt->block_bytes(e->plan.device, &e->plan.model.cache) / KV_BLOCK;
    return (int64_t)(bytes + position * rows * past);
}

int tally_engine_context(const tally_engine *e) { return e->context; }
void tally_engine_memory(const tally_engine *e, tally_memory *out) { *out = e->plan.memory; }

const char *tally_engine_remark(const tally_engine *e) {
    const backend *device = e->plan.device;
    return device->vt->remark ? device->vt->remark(device) : NULL;
}

const char *tally_engine_warning(const tally_engine *e) {
    const backend *device = e->plan.device;
    return device->vt->warning ? device->vt->warning(device) : NULL;
}

void tally_engine_stats(const tally_engine *e, tally_stats *out) {
    *out = e->stats;
    out->blocks = e->blocks.n_blocks;
    for (int i = 0; i < e->blocks.n_blocks; i++) {
        bool kept = prefix_index_holds(&e->prefixes, i);
        out->blocks_in_use += e->blocks.holders[i] > kept;
        out->blocks_kept += kept && e->blocks.holders[i] == 1;
    }
}

const char *tally_cpu_level(int i, const char **help, bool *available) {
    static const char *const helps[] = {
#define LEVEL_HELP(name, text, help_text) help_text,
        CPU_LEVEL_LIST(LEVEL_HELP)
#undef LEVEL_HELP
    };
    if (i < 0 || i >= CPU_LEVEL_COUNT) return NULL;
    if (help) *help = helps[i];
    if (available) *available = cpu_level_available((cpu_level)i);
    return cpu_level_name((cpu_level)i);
}

// ---- the step ------------------------------------------------------------------------------------------------------------

static void fail_unfit(tally_engine *e, struct tally_generation *g) {
    error why;
    error_set(&why, STATUS_FULL,
              "a sequence of %d tokens does not fit the cache of %d positions; raise --cache-positions or shorten the "
              "request",
              g->seq.n_tokens, e->blocks.n_blocks * KV_BLOCK);
    generation_fail(g, &why);
}

// A generation that has outgrown the whole cache ends before it takes the blocks of others in vain.
static void fail_outgrown(tally_engine *e) {
    for (struct tally_generation *g = e->first; g; g = g->next) {
        if (!g->finish && g->seq.n_tokens > (int64_t)e->blocks.n_blocks * KV_BLOCK) fail_unfit(e, g);
    }
}

// Nobody can get a single row in, because sessions hold the blocks: the oldest generation ends.
static void fail_oldest(tally_engine *e) {
    struct tally_generation *g = e->first;
    while (g && g->finish) g = g->next;
    if (!g) return;
    error why;
    error_set(
        &why, STATUS_FULL,
        "a sequence of %d tokens needs %d blocks of the cache; %d of %d can be had, sessions hold the others; close "
        "one or raise --cache-positions",
        g->seq.n_tokens, (g->seq.n_tokens + KV_BLOCK - 1) / KV_BLOCK, block_pool_obtainable(&e->blocks),
        e->blocks.n_blocks);
    generation_fail(g, &why);
}

static void finish_parts(tally_engine *e, int n) {
    shadow_row shadow = {0};
    for (int i = 0; i < n; i++) verify_step_finish(e, e->owners[i], &e->results[i], &shadow);
    verify_step_shadow(e, &shadow);
    for (int i = 0; i < n; i++) {
        struct tally_generation *g = e->owners[i];
        if (!g->finish) continue;
        if (e->corpus && g->finish != FINISH_ERROR) lookup_corpus_add(e->corpus, g->seq.token, g->seq.n_tokens);
        if (!g->keeps_cache) block_table_truncate(&g->seq.cache, 0);
    }
}

static status run_step(tally_engine *e, int n, error *err) {
    uint64_t arrived = clock_now_ns(), start = e->spec.now();
    for (int i = 0; i < n; i++) {
        if (!e->owners[i]->t_start) e->owners[i]->t_start = arrived;
    }
    TRY(engine_run_parts(e, e->parts, n, e->results, err));
    double seconds = (double)(e->spec.now() - start) * 1e-9;
    finish_parts(e, n);
    speculation_learn(e, e->parts, e->owners, n, seconds);
    return verify_step_agree(e, e->owners, n, err);
}

static status choose_and_run(tally_engine *e, error *err) {
    fail_outgrown(e);
    int n = sched_choose(e, e->parts, e->owners);
    if (n) return run_step(e, n, err);
    fail_oldest(e);
    return STATUS_OK;
}

tally_status tally_engine_step(tally_engine *e, bool *idle, tally_error *user_err) {
    fpenv_state callers = fpenv_enter();
    status s = choose_and_run(e, (error *)user_err);
    fpenv_leave(callers);
    if (s) return (tally_status)s;
    if (idle) {
        *idle = true;
        for (const struct tally_generation *g = e->first; g; g = g->next) *idle &= g->finish != FINISH_NONE;
    }
    return TALLY_OK;
}
