// Operations on rows of F32 numbers: everything but matrices and attention.
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_internal.h"
#include "backend/cpu/pack.h"
#include "base/elementary.h"

static void run_rows(cpu_backend *b, const op *o, const tensor *t, pool_fn *fn) {
    row_job job = {b, o};
    cpu_for_rows(b, cpu_rows(b, t), tensor_row_len(t), fn, &job);
}

static void embed_row(void *ctx, int r, int thread) {
    (void)thread;
    const row_job *j = ctx;
    const tensor *out = &j->o->out[0];
    const cpu_weight *w = &j->b->weights[j->o->in[0].id];
    int64_t id = j->b->in->token[r], k = out->dim[1];
    float *y = cpu_row(j->b, out, r);
    if (w->rows) {
        int64_t row_bytes = dtype_row_bytes(w->rows_type, k);
        dtype_get(w->rows_type)->to_f32(y, (const char *)w->rows + id * row_bytes, k);
    } else {
        const cpu_segment *s = &w->segment[0];
        unpack_row(s->type, y, s->panels + id / PANEL * s->panel_bytes, (int)(id % PANEL), k);
    }
}
void cpu_embed(cpu_backend *b, const op *o) { run_rows(b, o, &o->out[0], embed_row); }

static void add_row(void *ctx, int r, int thread) {
    (void)thread;
    const row_job *j = ctx;
    j->b->k.add(cpu_row(j->b, &j->o->out[0], r), cpu_row(j->b, &j->o->in[0], r), cpu_row(j->b, &j->o->in[1], r),
                tensor_row_len(&j->o->in[0]));
}
void cpu_add(cpu_backend *b, const op *o) { run_rows(b, o, &o->out[0], add_row); }

// Norms every group (head, or the whole row) of row r of x into y.
static void norm_groups(const row_job *j, const tensor *x, const tensor *w, const tensor *y, int r) {
    const float *gain = j->b->weights[w->id].vector;
    int64_t groups = x->n_dims == 3 ? x->dim[1] : 1, n = x->dim[x->n_dims - 1];
    bool finite = true;
    for (int64_t i = 0; i < groups; i++) {
        const float *src = cpu_row(j->b, x, r) + (x->n_dims == 3 ? i * x->stride[1] : 0);
        float *dst = cpu_row(j->b, y, r) + (y->n_dims == 3 ? i * y->stride[1] : 0);
        finite &= j->b->k.rms_norm(dst, src, gain, n, j->o->args.norm.eps);
    }
    if (!finite) cpu_mark_fault(j->b, j->o, x, r);
}

static void rms_norm_row(void *ctx, int r, int thread) {
    (void)thread;
    const row_job *j = ctx;
    norm_groups(j, &j->o->in[0], &j->o->in[1], &j->o->out[0], r);
}
void cpu_rms_norm(cpu_backend *b, const op *o) { run_rows(b, o, &o->out[0], rms_norm_row); }

static void add_rms_norm_row(void *ctx, int r, int thread) {
    (void)thread;
    const row_job *j = ctx;
    const op *o = j->o;
    j->b->k.add(cpu_row(j->b, &o->out[1], r), cpu_row(j->b, &o->in[0], r), cpu_row(j->b, &o->in[1], r),
                tensor_row_len(&o->in[0]));
    norm_groups(j, &o->out[1], &o->in[2], &o->out[0], r);
}
void cpu_add_rms_norm(cpu_backend *b, const op *o) { run_rows(b, o, &o->out[0], add_rms_norm_row); }

static void rope_table_row(void *ctx, int r, int thread) {
    (void)thread;
    const row_job *j = ctx;
    const float *freq = j->b->weights[j->o->in[0].id].vector;
    int64_t n = j->o->in[0].dim[0];
    float *cs = cpu_row(j->b, &j->o->out[0], r), pos = (float)j->b->in->pos[r], scale = j->o->args.rope.scale;
    for (int64_t i = 0; i < n; i++) {
        float s, c;
        elementary_sincos(pos * freq[i], &s, &c);
        cs[i] = c * scale;
        cs[n + i] = s * scale;
    }
}
void cpu_rope_table(cpu_backend *b, const op *o) { run_rows(b, o, &o->out[0], rope_table_row); }

static void rope_row(void *ctx, int r, int thread) {
    (void)thread;
    const row_job *j = ctx;
    const tensor *x = &j->o->in[0];
    const float *cs = cpu_row(j->b, &j->o->in[1], r);
    for (int64_t h = 0; h < x->dim[1]; h++) {
        j->b->k.rope(cpu_row(j->b, x, r) + h * x->stride[1], cs, j->o->args.rope.dim, j->o->args.rope.interleaved);
    }
}
void cpu_rope(cpu_backend *b, const op *o) { run_rows(b, o, &o->in[0], rope_row); }

static void swiglu_row(void *ctx, int r, int thread) {
    (void)thread;
    const row_job *j = ctx;
    const tensor *g = &j->o->in[0], *u = &j->o->in[1], *y = &j->o->out[0];
    int64_t slots = g->n_dims == 3 ? g->dim[1] : 1, n = g->dim[g->n_dims - 1];
    for (int64_t s = 0; s < slots; s++) {
        j->b->k.swiglu(cpu_row(j->b, y, r) + s * n, cpu_row(j->b, g, r) + (slots > 1 ? s * g->stride[1] : 0),
                       cpu_row(j->b, u, r) + (slots > 1 ? s * u->stride[1] : 0), n);
    }
}
void cpu_swiglu(cpu_backend *b, const op *o) { run_rows(b, o, &o->out[0], swiglu_row); }

// The largest p that is not negative, the lowest id among equals. NaN compares false, so a faulty row still gets valid ids.
static int largest(const float *p, int n) {
    int best = -1;
    for (int e = 0; e < n; e++) {
        if (!(p[e] < 0) && (best < 0 || p[e] > p[best])) best = e;
    }
    return best;
}

static void router_row(void *ctx, int r, int thread) {
    (void)thread;
    const row_job *j = ctx;
    const op *o = j->o;
    int n = (int)o->in[0].dim[1], used = o->args.router.n_used;
    float *p = cpu_row(j->b, &o->in[0], r), *chosen = cpu_row(j->b, &o->out[1], r), l, sum = 0;
    int32_t *ids = (int32_t *)(void *)cpu_row(j->b, &o->out[0], r);
    if (!j->b->k.all_below(p, n, INFINITY)) cpu_mark_fault(j->b, o, &o->in[0], r); // -infinity would only look unlikely
    j->b->k.softmax(p, n, &l);                                                     // the logits have no other reader
    for (int s = 0; s < used; s++) {
        ids[s] = largest(p, n);
        chosen[s] = p[ids[s]] / l;
        p[ids[s]] = -1; // taken
        sum += chosen[s];
    }
    for (int s = 0; o->args.router.normalize && s < used; s++) chosen[s] /= sum;
}
void cpu_router_topk(cpu_backend *b, const op *o) {
    row_job job = {b, o};
    const int n = cpu_rows(b, &o->in[0]);
    cpu_for_rows(b, n, o->in[0].dim[1] * o->args.router.n_used, router_row, &job);
}

static void combine_row(void *ctx, int r, int thread) {
    (void)thread;
    const row_job *j = ctx;
    const tensor *x = &j->o->in[0];
    const float *p = cpu_row(j->b, &j->o->in[1], r);
    float *y = cpu_row(j->b, &j->o->out[0], r);
    memset(y, 0, (size_t)x->dim[2] * sizeof *y);
    for (int64_t s = 0; s < x->dim[1]; s++) j->b->k.axpy(y, p[s], cpu_row(j->b, x, r) + s * x->stride[1], x->dim[2]);
}
void cpu_expert_combine(cpu_backend *b, const op *o) { run_rows(b, o, &o->out[0], combine_row); }

static void gather_row(void *ctx, int r, int thread) {
    (void)thread;
    const row_job *j = ctx;
    memcpy(cpu_row(j->b, &j->o->out[0], r), cpu_row(j->b, &j->o->in[0], j->b->in->out_row[r]),
           (size_t)j->o->out[0].dim[1] * sizeof(float));
}
void cpu_gather_rows(cpu_backend *b, const op *o) { run_rows(b, o, &o->out[0], gather_row); }
