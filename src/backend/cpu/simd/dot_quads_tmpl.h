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

// isum[r] += scale * (weights . x), 16 k at a time.
INLINE void quad_rows_16_bits(block_rows b, int first, vi *isum, const vi *w, dot_step step) {
    const vi scale = vi_and(step.scale, vi_set32(0xffff)); // the upper halves of sums are their signs
    UNROLL for (int g0 = 0; g0 < GROUPS; g0 += 4) {
        vi s[TILE_ROWS];
        UNROLL for (int r = first; r < b.n_rows; r++) s[r] = vi_zero();
        UNROLL for (int g = g0; g < g0 + 4; g++) {
            UNROLL for (int r = first; r < b.n_rows; r++) s[r] = vi_dot(s[r], w[g], x_group(b, r, step.x_at + 4 * g));
        }
        UNROLL for (int r = first; r < b.n_rows; r++) isum[r] = VI_MADD16_ADD(isum[r], s[r], scale);
    }
}

// isum[r] += scale * (weights . x) for rows from `first` on. Rows take turns within a group, because each one's sums are a chain
// whose instructions wait for the last one's result.
INLINE void quad_rows(quant_format f, block_rows b, int first, vi *isum, const vi *w, dot_step step) {
    if (sums_are_16_bits(f)) {
        quad_rows_16_bits(b, first, isum, w, step);
        return;
    }
    const vi wide = wide_scale(step.scale);
    vi s[TILE_ROWS];
    UNROLL for (int r = first; r < b.n_rows; r++) s[r] = f.n_sub ? vi_zero() : isum[r];
    UNROLL for (int g = 0; g < step_groups(f); g++) {
        UNROLL for (int r = first; r < b.n_rows; r++) s[r] = vi_dot(s[r], w[g], x_group(b, r, step.x_at + 4 * g));
    }
    UNROLL for (int r = first; r < b.n_rows; r++) isum[r] = f.n_sub ? vi_add32(isum[r], vi_mul32(s[r], wide)) : s[r];
}

INLINE void unpack_step(quant_format f, block_rows b, vi *w, dot_step step) {
    UNROLL for (int g = 0; g < step_groups(f); g++) {
        w[g] = operand(f, unpack_group(f, step.chunk, b.ahead, step.g0 + g));
    }
}

#ifndef QUANT_DOT_MATRIX
enum { STARTS_BELOW = 1 }; // isum begins with what the offset of the weights adds too much

INLINE void step_rows(quant_format f, block_rows b, vi *isum, dot_step step) {
    vi w[GROUPS];
    unpack_step(f, b, w, step);
    quad_rows(f, b, 0, isum, w, step);
}
INLINE void finish_rows(vi *isum, int n_rows) { (void)isum, (void)n_rows; }
#endif
