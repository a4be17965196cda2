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

// isum[r] += scale * (weights . x) over the groups of one step, whose activations begin `at` bytes into the block.
INLINE void quad_rows(quant_format f, block_rows b, vi *isum, const vi *w, int64_t at, vi scale) {
    const int n = step_groups(f);
    const vi wide = wide_scale(scale);
    UNROLL for (int r = 0; r < b.n_rows; r++) {
        vi s = f.n_sub ? vi_zero() : isum[r];
        UNROLL for (int g = 0; g < n; g++) s = vi_dot(s, w[g], x_group(b, r, at + 4 * g));
        isum[r] = f.n_sub ? vi_add32(isum[r], vi_mul32(s, wide)) : s;
    }
}

#ifndef QUANT_DOT_MATRIX
INLINE void step_rows(quant_format f, block_rows b, vi *isum, const vi *w, int64_t at, vi scale) {
    quad_rows(f, b, isum, w, at, scale);
}
INLINE void finish_rows(vi *isum, int n_rows) { (void)isum, (void)n_rows; }
#endif
