// The dot step of quant_tmpl.h where an instruction adds four products to an int32 (vi_dot: vpdpbusd, sdot). SIGNED_BIAS is what it
// wants added to signed weights: 128 where it takes unsigned ones (w ^ 0x80), 0 where it takes signed ones. The bias leaves again by
// the sums of x, like the offset of a code.

INLINE int step_groups(quant_format f) { return f.n_sub == 16 ? 4 : GROUPS; }

INLINE int operand_offset(quant_format f) { return f.is_signed ? SIGNED_BIAS : f.offset; }
INLINE vi operand(quant_format f, vi code) {
    if (f.is_table) code = vi_lookup(iq4_table, code);
    return f.is_signed && SIGNED_BIAS != 0 ? vi_xor(code, vi_set8(SIGNED_BIAS)) : code;
}

// Each output's scale, found in both halves of its lane, as an int32.
INLINE vi wide_scale(vi scale) { return VI_SRA32(scale, 16); }

// Whether the products of 16 k fit 16 bits, so that VI_MADD16_ADD multiplies them with their scale: 15 * 127 * 16 does. Where that is
// one instruction it takes the place of two, of which one is slow.
INLINE bool sums_are_16_bits(quant_format f) {
    return VI_MADD16_IS_FAST && f.n_sub == 8 && f.low_bits == 4 && !f.high_bits && !f.is_signed && !f.is_table;
}

// s[u][r] += weights . x over n groups from g0 on. Rows and vectors take turns within a group, because each one's sums are a chain whose
// instructions wait for the last one's result.
INLINE void quad_sums(quant_format f, const block_rows *b, vi (*s)[TILE_ROWS], const dot_step *step, int g0, int n) {
    UNROLL for (int g = g0; g < g0 + n; g++) {
        vi w[DECODE_UNITS];
        UNROLL for (int u = 0; u < b->n_units; u++) w[u] = operand(f, unpack_step_group(f, b, step, u, g));
        UNROLL for (int r = 0; r < b->n_rows; r++) {
            const vi x = x_group(b, r, step->x_at + 4 * g);
            UNROLL for (int u = 0; u < b->n_units; u++) s[u][r] = vi_dot(s[u][r], w[u], x);
        }
    }
}

// isum[u][r] += scale * (weights . x).
INLINE void quad_rows(quant_format f, const block_rows *b, vi (*isum)[TILE_ROWS], const dot_step *step) {
    if (!f.n_sub) {
        quad_sums(f, b, isum, step, 0, GROUPS);
        return;
    }
    const bool short_sums = sums_are_16_bits(f);
    const int n = short_sums ? 4 : step_groups(f);
    UNROLL for (int g = 0; g < step_groups(f); g += n) {
        vi s[DECODE_UNITS][TILE_ROWS];
        UNROLL for (int u = 0; u < b->n_units; u++) { UNROLL for (int r = 0; r < b->n_rows; r++) s[u][r] = vi_zero(); }
        quad_sums(f, b, s, step, g, n);
        UNROLL for (int u = 0; u < b->n_units; u++) {
            // of short sums the upper halves are their signs
            const vi scale = short_sums ? vi_and(step->scale[u], vi_set32(0xffff)) : wide_scale(step->scale[u]);
            UNROLL for (int r = 0; r < b->n_rows; r++) {
                isum[u][r] = short_sums ? VI_MADD16_ADD(isum[u][r], s[u][r], scale)
                                        : vi_add32(isum[u][r], vi_mul32(s[u][r], scale));
            }
        }
    }
}

#ifndef QUANT_DOT_MATRIX
enum { STARTS_BELOW = 1 }; // isum begins with what the offset of the weights adds too much

INLINE void step_rows(quant_format f, const block_rows *b, vi (*isum)[TILE_ROWS], const dot_step *step) {
    quad_rows(f, b, isum, step);
}
INLINE void finish_rows(vi *isum, int n_rows) { (void)isum, (void)n_rows; }
#endif
