// The dot step of quant_tmpl.h where an instruction multiplies two rows of 8 weights with two rows of 8 activations (smmla), for even
// numbers of rows; a single row takes the step of dot_quads_tmpl.h. During a block isum[r] and isum[r + 1], r even, hold the sums of
// outputs 0, 1 and of outputs 2, 3 for both rows, as (output, row) (0, r) (0, r + 1) (1, r) (1, r + 1); finish_rows gives each row its own.
#define QUANT_DOT_MATRIX
#include "backend/cpu/simd/dot_quads_tmpl.h"

INLINE void matrix_rows(quant_format f, block_rows b, vi *isum, const vi *w, int64_t at, vi scale) {
    const int n = step_groups(f) / 2;
    const vi wide = wide_scale(scale), scales[2] = {vi_zip_low(wide, wide), vi_zip_high(wide, wide)};
    vi eights[2][GROUPS / 2]; // 8 k of outputs 0, 1; of outputs 2, 3
    UNROLL for (int g = 0; g < n; g++) {
        eights[0][g] = vi_zip_low(w[2 * g], w[2 * g + 1]);
        eights[1][g] = vi_zip_high(w[2 * g], w[2 * g + 1]);
    }
    UNROLL for (int r = 0; r < b.n_rows; r += 2) {
        const char *x = b.x + r * b.x_stride + at;
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

INLINE void step_rows(quant_format f, block_rows b, vi *isum, const vi *w, int64_t at, vi scale) {
    if (b.n_rows % 2 == 0) {
        matrix_rows(f, b, isum, w, at, scale);
    } else {
        quad_rows(f, b, isum, w, at, scale);
    }
}

INLINE void finish_rows(vi *isum, int n_rows) {
    if (n_rows % 2) return;
    UNROLL for (int r = 0; r < n_rows; r += 2) {
        const vi low = isum[r], high = isum[r + 1];
        isum[r] = vi_even(low, high);
        isum[r + 1] = vi_odd(low, high);
    }
}
