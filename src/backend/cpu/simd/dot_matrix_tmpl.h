// The dot step of quant_tmpl.h where an instruction multiplies two rows of 8 weights with two rows of 8 activations (smmla): rows go in
// pairs, a last row without another takes the step of dot_quads_tmpl.h. During a block isum[r] and isum[r + 1], r even, hold the sums of
// outputs 0, 1 and of outputs 2, 3 for both rows, as (output, row) (0, r) (0, r + 1) (1, r) (1, r + 1); finish_rows gives each row its own.
#define QUANT_DOT_MATRIX
#include "backend/cpu/simd/dot_quads_tmpl.h"

INLINE void matrix_rows(quant_format f, block_rows b, vi *isum, const vi *w, dot_step step) {
    const int n = step_groups(f) / 2;
    const vi wide = wide_scale(step.scale), scales[2] = {vi_zip_low(wide, wide), vi_zip_high(wide, wide)};
    vi eights[2][GROUPS / 2]; // 8 k of outputs 0, 1; of outputs 2, 3
    UNROLL for (int g = 0; g < n; g++) {
        eights[0][g] = vi_zip_low(w[2 * g], w[2 * g + 1]);
        eights[1][g] = vi_zip_high(w[2 * g], w[2 * g + 1]);
    }
    UNROLL for (int r = 0; r + 1 < b.n_rows; r += 2) {
        const char *x = b.x + r * b.x_stride + step.x_at;
        vi s[2] = {f.n_sub ? vi_zero() : isum[r], f.n_sub ? vi_zero() : isum[r + 1]};
        UNROLL for (int g = 0; g < n; g++) {
            const vi two = vi_eights(x + 8 * g, x + b.x_stride + 8 * g);
            s[0] = vi_matrix(s[0], eights[0][g], two);
            s[1] = vi_matrix(s[1], eights[1][g], two);
        }
        isum[r] = f.n_sub ? vi_add32(isum[r], vi_mul32(s[0], scales[0])) : s[0];
        isum[r + 1] = f.n_sub ? vi_add32(isum[r + 1], vi_mul32(s[1], scales[1])) : s[1];
    }
}

enum { STARTS_BELOW = 0 }; // the sums of a pair of rows are not a vector of one row's outputs

INLINE void step_rows(quant_format f, block_rows b, vi *isum, dot_step step) {
    vi w[GROUPS];
    unpack_step(f, b, w, step);
    matrix_rows(f, b, isum, w, step);
    if (b.n_rows % 2) quad_rows(f, b, b.n_rows - 1, isum, w, step);
}

INLINE void finish_rows(vi *isum, int n_rows) {
    UNROLL for (int r = 0; r + 1 < n_rows; r += 2) {
        const vi low = isum[r], high = isum[r + 1];
        isum[r] = vi_even(low, high);
        isum[r + 1] = vi_odd(low, high);
    }
}
