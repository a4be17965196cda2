// The matrix tile of one float weight type. Before each inclusion define
//   TILE(name)        the name of a function of this type
//   TILE_EVEN(w)      the v16 of the weights at w, k even; TILE_ODD(w): those of the next k
//                     or instead of both, where x has 2 bytes per number and the panel a zero behind an odd k,
//   TILE_DOT(acc, w, x)  acc plus the two products of the pairs of weights in w with the pair at x
//   TILE_PAIR_BYTES   bytes of two steps of k in a panel
// and, once for the level,
//   TILE_SHAPES(X)    X(rows, panels): for each number of rows, from 1 to TILE_MAX_ROWS, the panels computed with it
//   TILE_MAX_PANELS   the largest of these
//   TILE_GROUP_ROWS   more rows than TILE_MAX_ROWS are dealt into groups of at most this many, TILE_GROUP_PANELS panels at a time
//   TILE_GROUP_K      and pieces of k of this size (even), which fit the first-level cache
//   TILE_AHEAD        bytes from the weights being read to those being prefetched
//
#ifdef TILE_DOT
#define TILE_X_BYTES 2
#else
#define TILE_X_BYTES 4
#endif

// A block of n_r rows and n_p panels keeps its n_r * n_p accumulators in registers over the whole of [k0, k1). Each is a chain
// of fma in ascending k whatever the block's shape, so shapes are chosen for speed alone.

// n_r and n_p are constants at every call: the loops unroll and acc becomes registers.

// The products of one pair of k; `half`: of its first number alone.
V16_INLINE void TILE(pair)(v16 (*acc)[TILE_MAX_PANELS], const char *w, int64_t panel_stride, const char *x,
                           int64_t x_stride, const int n_r, const int n_p, bool half) {
    v16 weights[TILE_MAX_PANELS];
#ifdef TILE_DOT
    (void)half; // both have a zero there
    UNROLL for (int p = 0; p < n_p; p++) weights[p] = v16_load((const float *)(const void *)(w + p * panel_stride));
    UNROLL for (int r = 0; r < n_r; r++) {
        UNROLL for (int p = 0; p < n_p; p++) acc[r][p] = TILE_DOT(acc[r][p], weights[p], x + r * x_stride);
    }
#else
    UNROLL for (int p = 0; p < n_p; p++) weights[p] = TILE_EVEN(w + p * panel_stride);
    UNROLL for (int r = 0; r < n_r; r++) {
        v16 xr = v16_set(*(const float *)(x + r * x_stride));
        UNROLL for (int p = 0; p < n_p; p++) acc[r][p] = v16_fma(weights[p], xr, acc[r][p]);
    }
    if (half) return;
    UNROLL for (int p = 0; p < n_p; p++) weights[p] = TILE_ODD(w + p * panel_stride);
    UNROLL for (int r = 0; r < n_r; r++) {
        v16 xr = v16_set(*(const float *)(x + r * x_stride + 4));
        UNROLL for (int p = 0; p < n_p; p++) acc[r][p] = v16_fma(weights[p], xr, acc[r][p]);
    }
#endif
}

V16_INLINE void TILE(block)(const matmul_tile *t, int row, int panel, const int n_r, const int n_p, tile_ahead ahead) {
    v16 acc[TILE_MAX_ROWS][TILE_MAX_PANELS];
    const int64_t panel_stride = t->panel_stride, x_stride = t->x_stride;
    float *out = t->acc + row * t->acc_stride + PANEL * panel;
    const char *w = (const char *)t->w + panel * panel_stride + t->k0 / 2 * TILE_PAIR_BYTES,
               *prefetched = w + ahead.distance;
    const char *x = (const char *)t->x + row * x_stride + TILE_X_BYTES * t->k0;
    UNROLL for (int r = 0; r < n_r; r++) {
        UNROLL for (int p = 0; p < n_p; p++) acc[r][p] = v16_load(out + r * t->acc_stride + PANEL * p);
    }
    const int64_t length = (t->k + 1) / 2 * TILE_PAIR_BYTES;
    const int64_t wrap = ahead.wraps && ahead.distance < length ? ahead.distance / TILE_PAIR_BYTES * 2 - (t->k - t->k1)
                                                                : 0; // with so many k left of the piece
    const int pairs = n_r * n_p <= TILE_FEW_SUMS ? 4 : 1;
    int64_t left = t->k1 - t->k0;
    for (; left >= 2 * pairs; left -= 2 * pairs) {
        if ((uint64_t)(wrap - left) < (uint64_t)(2 * pairs)) prefetched += n_p * panel_stride - length;
        UNROLL for (int i = 0; i < pairs; i++) {
            UNROLL for (int p = 0; p < n_p; p++) {
                for (int b = 0; b < TILE_PAIR_BYTES; b += 64) __builtin_prefetch(prefetched + p * panel_stride + b);
            }
            TILE(pair)(acc, w, panel_stride, x, x_stride, n_r, n_p, false);
            w += TILE_PAIR_BYTES;
            prefetched += ahead.step;
            x += 2 * TILE_X_BYTES;
        }
    }
    for (; left > 0; left -= 2) {
        TILE(pair)(acc, w, panel_stride, x, x_stride, n_r, n_p, left == 1);
        w += TILE_PAIR_BYTES;
        x += 2 * TILE_X_BYTES;
    }
    UNROLL for (int r = 0; r < n_r; r++) {
        UNROLL for (int p = 0; p < n_p; p++) v16_store(out + r * t->acc_stride + PANEL * p, acc[r][p]);
    }
}

// n_r rows of panels [panel, panel_end). One panel alone has too few sums to hide their latency: two are left over where four do not fit.
#define TILE_STRIP(n_r, n_p) \
    case n_r: { \
        int p = panel; \
        for (; p + (n_p) <= panel_end; p += (n_p)) TILE(block)(t, row, p, n_r, n_p, ahead); \
        for (; (n_p) > 2 && p + 2 <= panel_end; p += 2) TILE(block)(t, row, p, n_r, 2, ahead); \
        for (; p < panel_end; p++) TILE(block)(t, row, p, n_r, 1, ahead); \
        break; \
    }
static void TILE(strip)(const matmul_tile *t, int row, int n_r, int panel, int panel_end, tile_ahead ahead) {
    switch (n_r) { TILE_SHAPES(TILE_STRIP) }
}
#undef TILE_STRIP

// All groups of rows over one piece of k of a few panels. Each group prefetches its share of the piece that comes next, which
// begins `next` bytes behind this one.
static void TILE(groups)(const matmul_tile *piece, int panel, int panel_end, int64_t next) {
    int n_groups = (piece->n_rows + TILE_GROUP_ROWS - 1) / TILE_GROUP_ROWS;
    for (int g = 0; g < n_groups; g++) {
        int row = (int)((int64_t)piece->n_rows * g / n_groups),
            row_end = (int)((int64_t)piece->n_rows * (g + 1) / n_groups);
        int64_t share = TILE_GROUP_K / 2 * TILE_PAIR_BYTES / n_groups;
        tile_ahead ahead = {next + g * share, TILE_PAIR_BYTES / n_groups, false};
        TILE(strip)(piece, row, row_end - row, panel, panel_end, ahead);
    }
}

static void TILE(tile)(const matmul_tile *t) {
    if (t->n_rows <= TILE_MAX_ROWS) {
        TILE(strip)(t, 0, t->n_rows, 0, t->n_panels, (tile_ahead){TILE_AHEAD, TILE_PAIR_BYTES, true});
        return;
    }
    for (int panel = 0; panel < t->n_panels; panel += TILE_GROUP_PANELS) {
        int panel_end = panel + TILE_GROUP_PANELS < t->n_panels ? panel + TILE_GROUP_PANELS : t->n_panels;
        matmul_tile piece = *t;
        for (int64_t k = t->k0; k < t->k1; k += TILE_GROUP_K) {
            bool last = k + TILE_GROUP_K >= t->k1;
            piece.k0 = k;
            piece.k1 = last ? t->k1 : k + TILE_GROUP_K;
            int64_t next = last ? (panel_end - panel) * t->panel_stride - (k - t->k0) / 2 * TILE_PAIR_BYTES
                                : TILE_GROUP_K / 2 * TILE_PAIR_BYTES;
            TILE(groups)(&piece, panel, panel_end, next);
        }
    }
}

#undef TILE
#undef TILE_EVEN
#undef TILE_ODD
#undef TILE_DOT
#undef TILE_X_BYTES
#undef TILE_PAIR_BYTES
