// The dot step of quant_tmpl.h by 16-bit pairs: vi_pairs (unsigned weights) and vi_pairs_signed multiply 4 weights with 4 activations
// of each output and add neighbours, exact in 16 bits; these and the sums of them below never exceed 32767 (chain_length).
// vi_madd16 with (scale, scale) then widens, adds the two halves and applies the sub-block's scale in one step.

// Products of two sums of pairs (2 * 127 * code) that fit in 16 bits. A signed byte: 2 * 127 * 128 fits once.
INLINE int chain_length(quant_format f) {
    if (f.is_signed) return 1;
    const int n = 32767 / (2 * 127 * ((1 << (f.low_bits + f.high_bits)) - 1));
    return n < GROUPS ? n : GROUPS;
}

// Groups unpacked at once: a sub-block's, and no more than registers hold.
INLINE int step_groups(quant_format f) { return f.is_signed || f.n_sub == 16 ? 4 : GROUPS; }

// What sums of x times the weight are too large by: the weight met is code - offset, the one multiplied is the operand.
INLINE int operand_offset(quant_format f) { return f.offset; }
INLINE vi operand(quant_format f, vi code) { return f.is_table ? vi_lookup(iq4_table, code) : code; }

INLINE vi pairs(quant_format f, vi w, vi x) { return f.is_signed ? vi_pairs_signed(w, x) : vi_pairs(w, x); }

enum { STARTS_BELOW = 1 }; // isum begins with what the offset of the weights adds too much

// isum[u][r] += scale * (weights . x) over the groups of one step.
INLINE void step_rows(quant_format f, const block_rows *b, vi (*isum)[TILE_ROWS], const dot_step *step) {
    const int chain = chain_length(f), n = step_groups(f);
    UNROLL for (int u = 0; u < b->n_units; u++) {
        vi w[GROUPS];
        UNROLL for (int g = 0; g < n; g++) w[g] = operand(f, unpack_step_group(f, b, step, u, g));
        UNROLL for (int r = 0; r < b->n_rows; r++) {
            vi s = vi_zero();
            UNROLL for (int g = 0; g < n; g++) {
                const vi product = pairs(f, w[g], x_group(b, r, step->x_at + 4 * g));
                s = g % chain == 0 ? product : vi_add16(s, product);
                if (g % chain != chain - 1 && g != n - 1) continue;
                isum[u][r] = vi_add32(isum[u][r], vi_madd16(s, step->scale[u]));
            }
        }
    }
}

INLINE void finish_rows(vi *isum, int n_rows) { (void)isum, (void)n_rows; }
