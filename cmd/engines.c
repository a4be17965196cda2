#include "cmd/engines.h"

#include <unistd.h>

#include "cmd/common.h"
#include "cmd/speculation.h"

void engine_options(const tally_model *model, const options *o, size_t needed, tally_engine_options *out) {
    int chunk = (size_t)o->chunk < needed ? o->chunk : (int)needed; // every row of a chunk has logits
    int most = tally_model_context_length(model);
    int context = o->context;
    if (context == CONTEXT_AUTO) {
        context = needed > INT32_MAX ? INT32_MAX : (int)needed;
        if (most > 0 && context > most) context = most;
    }
    *out = (tally_engine_options){
        .threads = o->threads,
        .cpu_level = o->cpu_level,
        .device = o->device,
        .type = o->dtype,
        .exact = o->exact,
        .graph = o->graph,
        .context = context,
        .step_rows = o->batch ? o->batch : chunk,
        .chunk_rows = o->ubatch,
        .logit_rows = chunk,
        .cache_k = o->cache_k,
        .cache_v = o->cache_v,
        .no_mmap = o->no_mmap,
        .no_repack = o->no_repack,
        .no_fuse = o->no_fuse,
        .sequences = o->parallel,
        .cache_positions = o->cache_positions,
        .no_prefix_reuse = o->no_prefix_reuse,
        .speculation = speculation_from_options(o),
    };
}

typedef struct load_progress {
    bool terminal;
    const char *what;
} load_progress;

static bool show_progress(void *user, uint64_t done, uint64_t total) {
    const load_progress *p = user;
    if (p->terminal) {
        fprintf(stderr, "\rloading%s: %.0f of %.0f MB (%.0f %%)\033[K", p->what, (double)done / 1e6,
                (double)total / 1e6, total ? 100.0 * (double)done / (double)total : 100.0);
        if (done >= total) fputs("\r\033[K", stderr);
    }
    return !interrupt_pending();
}

void print_memory(FILE *out, const tally_memory *m, int context) {
    int64_t left = m->available - m->weights - m->cache - m->workspace - m->drafting;
    fprintf(out, "memory             MB\n");
    fprintf(out, "  weights   %9.1f\n", (double)m->weights / 1e6);
    fprintf(out, "  cache     %9.1f  (%d positions)\n", (double)m->cache / 1e6, context);
    fprintf(out, "  workspace %9.1f\n", (double)m->workspace / 1e6);
    if (m->drafting) fprintf(out, "  drafting  %9.1f\n", (double)m->drafting / 1e6);
    fprintf(out, "  free      %9.1f  (of %.1f before loading)\n", (double)left / 1e6, (double)m->available / 1e6);
}

static tally_status open_one(const tally_model *model, tally_engine_options *eo, const char *what, const options *o,
                             tally_engine **out, tally_error *err) {
    load_progress progress = {is_terminal(STDERR_FILENO), what};
    eo->progress = show_progress;
    eo->progress_user = &progress;
    tally_status st = tally_engine_open(out, model, eo, err);
    if (st && progress.terminal) fputs("\r\033[K", stderr);
    if (st || !(progress.terminal || o->verbose)) return st;
    tally_memory m;
    tally_engine_memory(*out, &m);
    if (*what) fprintf(stderr, "%s of %s: ", what + 1, o->model_draft);
    print_memory(stderr, &m, tally_engine_context(*out));
    const char *remark = tally_engine_remark(*out);
    if (remark) fprintf(stderr, "%s\n", remark);
    return TALLY_OK;
}

// Opened for as many positions as the model beside it, or as it was made for if that is less. The cache of that model must fit
// too, so memory does not choose the length here: what does not fit is an error that says so.
static int open_draft(const options *o, const tally_engine_options *target, draft_engine *draft) {
    tally_error err;
    tally_engine_options eo = *target;
    tally_status st = tally_model_open(&draft->model, o->model_draft, &err);
    if (!st) {
        int most = tally_model_context_length(draft->model);
        if (most > 0 && eo.context > most) eo.context = most;
        eo.speculation = (tally_speculation){.mode = TALLY_SPEC_OFF};
        st = open_one(draft->model, &eo, " draft model", o, &draft->engine, &err);
    }
    if (!st || st == TALLY_CANCELLED) return st ? fail_with(&err) : 0;
    return fail("draft model %s: %s", o->model_draft, err.text);
}

int open_engine(const tally_model *model, const options *o, size_t needed, draft_engine *draft, tally_engine **out) {
    tally_engine_options eo;
    engine_options(model, o, needed, &eo);
    if (!draft) eo.speculation.mode = TALLY_SPEC_OFF;
    interrupt_hold();
    if (draft && o->model_draft) {
        int most = tally_model_context_length(model);
        if (eo.context == 0 && most > 0) eo.context = most;
        int rc = open_draft(o, &eo, draft);
        if (rc) return rc;
        eo.draft = draft->engine;
    }
    tally_error err;
    return open_one(model, &eo, "", o, out, &err) == TALLY_OK ? 0 : fail_with(&err);
}

void close_engine(tally_engine *engine) {
    const char *warning = engine ? tally_engine_warning(engine) : NULL;
    if (warning) fprintf(stderr, "tally: %s\n", warning);
    tally_engine_close(engine);
}

void close_draft(draft_engine *draft) {
    close_engine(draft->engine);
    tally_model_close(draft->model);
    *draft = (draft_engine){0};
}
