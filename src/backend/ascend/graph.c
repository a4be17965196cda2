// Replay of captured steps. A step launches the same operators with the same shapes and addresses whenever its product tiles are as
// many and attention covers the same blocks in each, so the second such step is captured and later ones are replayed: one launch
// instead of hundreds. Decoding meets the same blocks for 64 steps, the chunks of a prompt those of every prompt before it.
// What differs from step to step is in the inputs, which are copied before. The operators are those of the eager step, in their order,
// so the bits are too.
#include <stdio.h>
#include <string.h>

#include "backend/ascend/internal.h"

static void describe(ascend_backend *b) {
    ascend_graphs *g = &b->graphs;
    int rows = GRAPH_MAX_TILES * b->spec.tile;
    if (!g->on) {
        snprintf(g->remark, sizeof g->remark, "no step is replayed: %s", g->why_not);
    } else if (!b->spec.exact && b->attention_fused) {
        snprintf(g->remark, sizeof g->remark,
                 "no step but those of trees is replayed: exact=off gives each its own shapes");
    } else if (b->limits.max_rows > rows) {
        snprintf(g->remark, sizeof g->remark,
                 "steps of more than %d rows are not replayed: a graph would hold more than %d tiles", rows,
                 GRAPH_MAX_TILES);
    }
}

status ascend_graph_prepare(ascend_backend *b, error *err) {
    const ascend_library *lib = &b->device.lib;
    char text[128];
    bool there =
        lib->aclmdlRICaptureBegin && lib->aclmdlRICaptureEnd && lib->aclmdlRIExecuteAsync && lib->aclmdlRIDestroy;
    if (b->spec.graph == ASCEND_GRAPH_OFF) {
        b->graphs.why_not = "switched off";
    } else if (!there) {
        b->graphs.why_not = "the library has no graph capture";
    } else if (b->device.family == ASCEND_910A) {
        b->graphs.why_not = "the chip has no graph capture";
    } else if (b->device.family == ASCEND_310P) {
        b->graphs.why_not = "the cache is written by copies, which cannot be captured";
    } else {
        b->graphs.on = true;
    }
    describe(b);
    if (b->spec.graph != ASCEND_GRAPH_ON || b->graphs.on) return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED, "graph=on: %s on %s; take graph=auto", b->graphs.why_not,
                     ascend_device_text(&b->device, text));
}

void ascend_graph_free(ascend_backend *b) {
    for (int i = 0; i < GRAPH_SLOTS; i++) {
        if (b->graphs.slot[i].model) b->device.lib.aclmdlRIDestroy(b->graphs.slot[i].model);
        b->graphs.slot[i] = (ascend_graph){0};
    }
}

static bool make_key(const ascend_backend *b, ascend_graph_key *key) {
    const ascend_rows *r = &b->rows;
    *key = (ascend_graph_key){.n_tiles = r->n_tiles, .n_out_tiles = r->n_out_tiles, .n_attention = r->n_attention};
    key->n_rows = ascend_gathering_rows(b);
    if (r->direct || r->n_tiles > GRAPH_MAX_TILES || r->n_attention > GRAPH_FEW + 2 * (r->n_tiles - 1)) return false;
    for (int t = 0; t < r->n_tiles; t++) key->first_attention[t] = r->first_attention[t];
    for (int i = 0; i < r->n_attention; i++)
        key->attention[i][0] = r->attention[i].block, key->attention[i][1] = r->attention[i].n_path_blocks;
    return true;
}

// The key's slot, or the one that was used longest ago, emptied.
static ascend_graph *find(ascend_backend *b, const ascend_graph_key *key) {
    ascend_graph *oldest = &b->graphs.slot[0];
    for (int i = 0; i < GRAPH_SLOTS; i++) {
        ascend_graph *g = &b->graphs.slot[i];
        if (g->seen && memcmp(&g->key, key, sizeof *key) == 0) return g;
        if (g->used < oldest->used) oldest = g;
    }
    if (oldest->model) b->device.lib.aclmdlRIDestroy(oldest->model); // no step is in flight
    *oldest = (ascend_graph){.key = *key};
    return oldest;
}

static status capture(ascend_backend *b, ascend_graph *g, error *err) {
    const aclmdlRICaptureMode this_thread = ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
    const ascend_library *lib = &b->device.lib;
    TRY(ascend_check(&b->device, lib->aclmdlRICaptureBegin(b->device.stream, this_thread), "aclmdlRICaptureBegin",
                     err));
    status s = ascend_run_list(b, err);
    aclmdlRI model = NULL;
    int code = lib->aclmdlRICaptureEnd(b->device.stream, &model);
    if (!s) s = ascend_check(&b->device, code, "aclmdlRICaptureEnd", err);
    if (s && !code && model) lib->aclmdlRIDestroy(model);
    if (!s) g->model = model;
    return s;
}

static status replay(ascend_backend *b, ascend_graph *g, error *err) {
    if (!g->model) TRY(capture(b, g, err));
    b->graphs.replays++;
    return ascend_check(&b->device, b->device.lib.aclmdlRIExecuteAsync(g->model, b->device.stream),
                        "aclmdlRIExecuteAsync", err);
}

// A step whose capture or replay was refused is computed operator by operator, and so are all that follow: each new shape would be refused
// first. What else was wrong (a lost device) ends the eager step, too.
static status give_up(ascend_backend *b, error *err) {
    b->graphs.given_up = *err;
    error_prefix(&b->graphs.given_up, err->code, "no step is replayed any more");
    b->graphs.on = false;
    ascend_graph_free(b);
    return ascend_run_list(b, err);
}

status ascend_graph_run(ascend_backend *b, error *err) {
    ascend_graph_key key;
    ascend_graphs *all = &b->graphs;
    all->steps++;
    if (!all->on || !make_key(b, &key)) return ascend_run_list(b, err);
    for (int i = 0; i < GRAPH_SLOTS && all->workspace != b->call.workspace; i++) {
        if (all->slot[i].model) b->device.lib.aclmdlRIDestroy(all->slot[i].model);
        all->slot[i].model = NULL;
    }
    all->workspace = b->call.workspace;
    ascend_graph *g = find(b, &key);
    g->used = all->steps;
    if (++g->seen == 1) return ascend_run_list(b, err);
    status s = replay(b, g, err);
    return s && b->spec.graph != ASCEND_GRAPH_ON ? give_up(b, err) : s;
}
