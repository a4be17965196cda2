// The attention sums of one key/value type. Before each inclusion define
//   KV(name)                name of a function of this type
//   KV_PANEL_BYTES(d)       bytes of a key panel
//   KV_STEP                 bytes from element to element in a key panel
//   KV_PLACE(j)             where in a value row element j stands, a multiple of 16
//   KV_KEY(panel, j, scales) the v16 of the 16 tokens' element j in a key panel
//   KV_SCALED, KV_SCALES(panel, d, block)  if keys have scales: of how many elements each, and the v16 of a block's; else neither
//   KV_VALUE(row, j, live)  elements j .. j + live - 1 of a value row; live is 16 but for the tail
// and, once for the level,
//   KV_SHAPES(X)            X(queries, vectors): for each number of queries, from 1 to KV_MAX_QUERIES, the vectors (key panels, or
//                           elements of values) that are taken together with them
//   KV_MAX_VECTORS          the largest of these
//   KV_MANY_QUERIES         the number of queries that go together when there are more than KV_MAX_QUERIES
//
// Lanes are tokens in scores and elements in values. Several queries are taken together, so that a key or value is loaded and
// converted once for all of them; several vectors, so that sums hide each other's latency and a query's number is loaded once for all
// of them. The accumulators stay in registers for the whole sum.
#ifdef KV_SCALED
#define KV_RUN(d) KV_SCALED
#else
#define KV_RUN(d) (d)
#define KV_SCALES(panel, d, block) v16_zero()
#endif

// Into the second-level cache where that works: lines that are on their way into the first one hold the few places that it has for
// them.
V16_INLINE void KV(fetch)(const char *from, int64_t n_bytes, bool near) {
    for (int64_t at = 0; at < n_bytes; at += 64) fetch_line(from + at, near);
}

// Queries [first, first + n_q) against panels [panel, panel + n_p). n_q and n_p are constants at every call.
V16_INLINE void KV(scores_block)(const kv_scores *a, int first, int panel, const int n_q, const int n_p) {
    const int64_t panel_bytes = KV_PANEL_BYTES(a->d);
    const char *k = (const char *)a->k + panel * panel_bytes;
    const char *next = a->next ? (const char *)a->next + panel * panel_bytes : NULL;
    const float *q = a->q + first * a->q_stride;
    v16 sum[KV_MAX_QUERIES][KV_MAX_VECTORS];
    UNROLL for (int i = 0; i < n_q; i++) { UNROLL for (int p = 0; p < n_p; p++) sum[i][p] = v16_zero(); }
    for (int64_t j0 = 0; j0 < a->d; j0 += KV_RUN(a->d)) {
        v16 scales[KV_MAX_VECTORS];
        UNROLL for (int p = 0; p < n_p; p++) scales[p] = KV_SCALES(k + p * panel_bytes, a->d, j0 / KV_RUN(a->d));
        for (int64_t j = j0; j < j0 + KV_RUN(a->d); j++) {
            v16 key[KV_MAX_VECTORS];
            if (next) KV(fetch)(next + j * (n_p * KV_STEP), n_p * KV_STEP, a->near);
            UNROLL for (int p = 0; p < n_p; p++) key[p] = KV_KEY(k + p * panel_bytes, j, scales[p]);
            UNROLL for (int i = 0; i < n_q; i++) {
                v16 x = v16_set(q[i * a->q_stride + j]);
                UNROLL for (int p = 0; p < n_p; p++) sum[i][p] = v16_fma(x, key[p], sum[i][p]);
            }
            (void)scales;
        }
    }
    float *s = a->s + first * a->s_stride + panel * KV_PANEL;
    UNROLL for (int i = 0; i < n_q; i++) {
        UNROLL for (int p = 0; p < n_p; p++) {
            v16_store(s + i * a->s_stride + p * KV_PANEL, v16_mul(sum[i][p], v16_set(a->scale)));
        }
    }
}

V16_INLINE void KV(scores_group)(const kv_scores *a, int first, const int n_q, const int n_p) {
    int most = 0, p = 0;
    for (int i = first; i < first + n_q; i++) most = a->n_t[i] > most ? a->n_t[i] : most;
    int n_panels = (most + KV_PANEL - 1) / KV_PANEL;
    for (; p + n_p <= n_panels; p += n_p) KV(scores_block)(a, first, p, n_q, n_p);
    if (n_p > 4) {
        for (; p + 4 <= n_panels; p += 4) KV(scores_block)(a, first, p, n_q, 4);
    }
    for (; p < n_panels; p++) KV(scores_block)(a, first, p, n_q, 1);
}

// Elements [j, j + 16 n_v), or the first `live` of them if n_v is 1, of tokens [t0, t1). n_q and n_v are constants at every call.
V16_INLINE void KV(values_block)(const kv_values *a, int first, const int n_q, const int span[2], int64_t j,
                                 const int n_v, int64_t live) {
    const float *p = a->p + first * a->p_stride;
    float *o = a->o + first * a->o_stride + j;
    v16 sum[KV_MAX_QUERIES][KV_MAX_VECTORS];
    UNROLL for (int i = 0; i < n_q; i++) {
        UNROLL for (int v = 0; v < n_v; v++) sum[i][v] = load_live(o + i * a->o_stride + PANEL * v, live);
    }
    const char *row = (const char *)a->v + span[0] * a->v_stride;
    const char *next = a->next ? (const char *)a->next + span[0] * a->v_stride + KV_PLACE(j) : NULL;
    for (int t = span[0]; t < span[1]; t++) {
        v16 value[KV_MAX_VECTORS];
        if (next) {
            KV(fetch)(next, KV_PLACE(PANEL * n_v), a->near);
            next += a->v_stride;
        }
        UNROLL for (int v = 0; v < n_v; v++) value[v] = KV_VALUE(row, j + PANEL * v, live);
        UNROLL for (int i = 0; i < n_q; i++) {
            v16 x = v16_set(p[i * a->p_stride + t]);
            UNROLL for (int v = 0; v < n_v; v++) sum[i][v] = v16_fma(x, value[v], sum[i][v]);
        }
        row += a->v_stride;
    }
    UNROLL for (int i = 0; i < n_q; i++) {
        UNROLL for (int v = 0; v < n_v; v++) store_live(o + i * a->o_stride + PANEL * v, sum[i][v], live);
    }
}

V16_INLINE void KV(values_columns)(const kv_values *a, int first, const int n_q, const int span[2], const int n_v) {
    int64_t j = 0;
    for (; j + PANEL * n_v <= a->d; j += PANEL * n_v) KV(values_block)(a, first, n_q, span, j, n_v, PANEL);
    if (n_v > 4) {
        for (; j + PANEL * 4 <= a->d; j += PANEL * 4) KV(values_block)(a, first, n_q, span, j, 4, PANEL);
    }
    for (; j + PANEL <= a->d; j += PANEL) KV(values_block)(a, first, n_q, span, j, 1, PANEL);
    if (j < a->d) KV(values_block)(a, first, n_q, span, j, 1, a->d - j);
}

static void KV(values_rest)(const kv_values *a, int i, int t0) {
#define KV_CASE(queries, vectors) \
    if (queries == 1) KV(values_columns)(a, i, 1, (const int[]){t0, a->n_t[i]}, vectors);
    KV_SHAPES(KV_CASE)
#undef KV_CASE
}

// The tokens that all of the queries see, then what each sees beyond these.
V16_INLINE void KV(values_group)(const kv_values *a, int first, const int n_q, const int n_v) {
    int least = a->n_t[first];
    for (int i = first; i < first + n_q; i++) least = a->n_t[i] < least ? a->n_t[i] : least;
    if (least > 0) KV(values_columns)(a, first, n_q, (const int[]){0, least}, n_v);
    for (int i = first; n_q > 1 && i < first + n_q; i++) {
        if (a->n_t[i] > least) KV(values_rest)(a, i, least);
    }
}

// How many queries of those from `at` on go together: all, if they are few, else as many as use the registers best.
static int KV(group)(int n_q, int at) {
    return n_q <= KV_MAX_QUERIES ? n_q : n_q - at < KV_MANY_QUERIES ? n_q - at : KV_MANY_QUERIES;
}

static void KV(scores)(const kv_scores *a) {
    for (int i = 0, n; i < a->n_q; i += n) {
        n = KV(group)(a->n_q, i);
#define KV_CASE(queries, vectors) \
    case queries: KV(scores_group)(a, i, queries, vectors); break;
        switch (n) { KV_SHAPES(KV_CASE) }
#undef KV_CASE
    }
}

static void KV(values)(const kv_values *a) {
    for (int i = 0, n; i < a->n_q; i += n) {
        n = KV(group)(a->n_q, i);
#define KV_CASE(queries, vectors) \
    case queries: KV(values_group)(a, i, queries, vectors); break;
        switch (n) { KV_SHAPES(KV_CASE) }
#undef KV_CASE
    }
}

static void KV(widen_keys)(float *dst, const void *k, int n_panels, int64_t d) {
    for (int i = 0; i < n_panels; i++) {
        const char *panel = (const char *)k + i * KV_PANEL_BYTES(d);
        for (int64_t j = 0; j < d; j++, dst += KV_PANEL) {
            v16_store(dst, KV_KEY(panel, j, KV_SCALES(panel, d, j / KV_RUN(d))));
        }
    }
}

static void KV(widen_values)(float *dst, int64_t stride, const void *v, int64_t v_stride, int n_t, int64_t d) {
    for (int t = 0; t < n_t; t++) {
        const char *row = (const char *)v + t * v_stride;
        FOR_VECTORS(j, live, d) store_live(dst + t * stride + j, KV_VALUE(row, j, live), live);
    }
}

#undef KV
#undef KV_PANEL_BYTES
#undef KV_STEP
#undef KV_PLACE
#undef KV_SCALED
#undef KV_SCALES
#undef KV_RUN
#undef KV_KEY
#undef KV_VALUE
