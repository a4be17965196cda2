// The attention sums of one key/value type. Before each inclusion define
//   KV(name)                name of a function of this type
//   KV_KEY(panel, d, j)     the v16 of the 16 tokens' element j in a key panel
//   KV_VALUE(row, j, live)  elements j .. j + live - 1 of a value row; live is 16 but for the tail
// and, once for the level,
//   KV_SHAPES(X)            X(queries, vectors): for each number of queries, from 1 to KV_MAX_QUERIES, the vectors of elements
//   KV_MAX_VECTORS          the largest of these
//
// Lanes are tokens in scores and elements in values. Several queries are taken together, so that a key or value is loaded and
// converted once for all of them. The accumulators stay in registers for the whole sum.

// n_q is a constant at every call.
V16_INLINE void KV(scores_block)(const kv_scores *a, int first, const int n_q) {
    const float *q = a->q + first * a->q_stride;
    float *s = a->s + first * a->s_stride;
    v16 sum[KV_MAX_QUERIES];
    UNROLL for (int i = 0; i < n_q; i++) sum[i] = v16_zero();
    for (int64_t j = 0; j < a->d; j++) {
        v16 key = KV_KEY(a->panel, a->d, j);
        UNROLL for (int i = 0; i < n_q; i++) sum[i] = v16_fma(v16_set(q[i * a->q_stride + j]), key, sum[i]);
    }
    UNROLL for (int i = 0; i < n_q; i++) v16_store(s + i * a->s_stride, v16_mul(sum[i], v16_set(a->scale)));
}

static void KV(scores)(float *s, int64_t s_stride, const float *q, int64_t q_stride, int n_q, const void *k_panel,
                       int64_t d, float factor) {
    kv_scores a = {s, q, k_panel, s_stride, q_stride, d, factor};
    for (int i = 0, n; i < n_q; i += n) {
        n = n_q - i < KV_MAX_QUERIES ? n_q - i : KV_MAX_QUERIES;
#define KV_CASE(queries, vectors) \
    case queries: KV(scores_block)(&a, i, queries); break;
        switch (n) { KV_SHAPES(KV_CASE) }
#undef KV_CASE
    }
}

// Elements [j, j + 16 n_v), or the first `live` of them if n_v is 1. n_q and n_v are constants at every call.
V16_INLINE void KV(values_block)(const kv_values *a, int first, const int n_q, int64_t j, const int n_v, int64_t live) {
    const float *p = a->p + first * a->p_stride;
    float *o = a->o + first * a->o_stride + j;
    v16 sum[KV_MAX_QUERIES][KV_MAX_VECTORS];
    UNROLL for (int i = 0; i < n_q; i++) {
        UNROLL for (int v = 0; v < n_v; v++) sum[i][v] = load_live(o + i * a->o_stride + PANEL * v, live);
    }
    const char *row = a->v;
    for (int t = 0; t < a->n_t; t++) {
        UNROLL for (int v = 0; v < n_v; v++) {
            v16 value = KV_VALUE(row, j + PANEL * v, live);
            UNROLL for (int i = 0; i < n_q; i++) sum[i][v] = v16_fma(v16_set(p[i * a->p_stride + t]), value, sum[i][v]);
        }
        row += a->v_stride;
    }
    UNROLL for (int i = 0; i < n_q; i++) {
        UNROLL for (int v = 0; v < n_v; v++) store_live(o + i * a->o_stride + PANEL * v, sum[i][v], live);
    }
}

V16_INLINE void KV(values_group)(const kv_values *a, int first, const int n_q, const int n_v) {
    int64_t j = 0;
    for (; j + PANEL * n_v <= a->d; j += PANEL * n_v) KV(values_block)(a, first, n_q, j, n_v, PANEL);
    for (; j + PANEL <= a->d; j += PANEL) KV(values_block)(a, first, n_q, j, 1, PANEL);
    if (j < a->d) KV(values_block)(a, first, n_q, j, 1, a->d - j);
}

static void KV(values)(float *o, int64_t o_stride, const float *p, int64_t p_stride, int n_q, const void *v,
                       int64_t v_stride, int n_t, int64_t d) {
    kv_values a = {o, p, v, o_stride, p_stride, v_stride, d, n_t};
    for (int i = 0, n; i < n_q; i += n) {
        n = n_q - i < KV_MAX_QUERIES ? n_q - i : KV_MAX_QUERIES;
#define KV_CASE(queries, vectors) \
    case queries: KV(values_group)(&a, i, queries, vectors); break;
        switch (n) { KV_SHAPES(KV_CASE) }
#undef KV_CASE
    }
}

#undef KV
#undef KV_KEY
#undef KV_VALUE
