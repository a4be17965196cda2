// What the operations of a step take: the device's observer adds up times, the cost tables say what there was to read and compute.
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/backends.h"

typedef struct engine_trace {
    tally_engine *engine;
    run_observer observer;
    pool_times pool, seen; // seen: `pool` when the last operation ended
    op_cost *cost;         // owned [n_ops]
    tally_op_trace *op;    // owned [n_ops]
    tally_trace result;
} engine_trace;

static void observe_op(void *user, int i, uint64_t begin_ns, uint64_t end_ns) {
    engine_trace *t = user;
    tally_op_trace *o = &t->op[i];
    o->calls++;
    o->seconds += (double)(end_ns - begin_ns) * 1e-9;
    o->loops += t->pool.loops - t->seen.loops;
    o->loop_s += (double)(t->pool.loop_ns - t->seen.loop_ns) * 1e-9;
    o->wake_s += (double)(t->pool.wake_ns - t->seen.wake_ns) * 1e-9;
    o->wait_s += (double)(t->pool.wait_ns - t->seen.wait_ns) * 1e-9;
    t->seen = t->pool;
}

static void observe_step(void *user, const step_inputs *in, uint64_t begin_ns, uint64_t end_ns) {
    engine_trace *t = user;
    const engine_plan *p = &t->engine->plan;
    t->result.steps++;
    t->result.rows += in->n_rows;
    t->result.seconds += (double)(end_ns - begin_ns) * 1e-9;
    t->seen = t->pool; // the backend's work behind the last operation belongs to none
    backends_count_step(&p->model.list, &p->model.cache, in, t->cost);
}

static engine_trace *trace_create(tally_engine *e) {
    size_t n = (size_t)e->plan.model.list.n_ops;
    engine_trace *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    e->trace = t;
    t->engine = e;
    t->observer = (run_observer){t, observe_op, observe_step};
    t->cost = malloc(n * sizeof *t->cost + 1);
    t->op = malloc(n * sizeof *t->op + 1);
    return t;
}

void engine_trace_free(tally_engine *e) {
    engine_trace *t = e->trace;
    if (!t) return;
    pool_watch(e->plan.threads, NULL);
    e->plan.device->vt->observe(e->plan.device, NULL);
    free(t->cost);
    free(t->op);
    free(t);
    e->trace = NULL;
}

tally_status tally_engine_trace_start(tally_engine *e, tally_error *user_err) {
    error *err = (error *)user_err;
    const op_list *g = &e->plan.model.list;
    if (!e->plan.device->vt->observe) {
        return (tally_status)error_set(err, STATUS_UNSUPPORTED, "device %s does not tell what its operations take",
                                       e->plan.device->vt->name);
    }
    engine_trace *t = e->trace ? e->trace : trace_create(e);
    if (!t || !t->cost || !t->op) {
        engine_trace_free(e);
        return (tally_status)error_set(err, STATUS_NO_MEMORY, "out of memory for the times of %d operations", g->n_ops);
    }
    memset(t->cost, 0, (size_t)g->n_ops * sizeof *t->cost);
    for (int i = 0; i < g->n_ops; i++) {
        const op *o = &g->ops[i];
        t->op[i] = (tally_op_trace){.op = opcode_name(o->code), .label = o->label, .layer = o->layer};
    }
    t->result = (tally_trace){.n_ops = g->n_ops, .ops = t->op};
    t->pool = t->seen = (pool_times){0};
    pool_watch(e->plan.threads, &t->pool);
    e->plan.device->vt->observe(e->plan.device, &t->observer);
    return TALLY_OK;
}

// Matrices are read as they were packed, which may be more than they take in the file.
static double packed_share(const engine_plan *p, const op *o) {
    if (o->code != OP_LINEAR && o->code != OP_EXPERT_LINEAR) return 1;
    const weight *w = &p->model.weights.w[o->in[1].id];
    double packed = (double)p->device->vt->weight_bytes(p->device, w);
    return packed > 0 ? packed / (double)weight_file_bytes(w) : 1;
}

// Of the types that cost counts by, all but those of matrices are computed in F32.
static void fill_costs(const engine_plan *p, const op *o, const op_cost *c, tally_op_trace *out) {
    bool matrix = o->code == OP_LINEAR || o->code == OP_EXPERT_LINEAR;
    out->weight_bytes = c->weight_bytes * packed_share(p, o);
    out->cache_bytes = o->code == OP_KV_STORE ? 0 : c->cache_bytes;
    out->f32 = c->flops[FLOPS_F32] + c->flops[FLOPS_F16] + (matrix ? 0 : c->flops[FLOPS_BF16] + c->flops[FLOPS_INT8]);
    out->bf16 = matrix ? c->flops[FLOPS_BF16] : 0;
    out->q8 = matrix ? c->flops[FLOPS_INT8] : 0;
}

void tally_engine_trace_stop(tally_engine *e, tally_trace *out) {
    *out = (tally_trace){0};
    engine_trace *t = e->trace;
    if (!t) return;
    pool_watch(e->plan.threads, NULL);
    e->plan.device->vt->observe(e->plan.device, NULL);
    const op_list *g = &e->plan.model.list;
    for (int i = 0; i < g->n_ops; i++) fill_costs(&e->plan, &g->ops[i], &t->cost[i], &t->op[i]);
    *out = t->result;
}
