// The dot step of quant_tmpl.h where an instruction multiplies two rows of 8 weights with two rows of 8 activations (smmla): rows go in
// pairs, a last row without another takes the step of dot_quads_tmpl.h. During a block isum[r] and isum[r + 1], r even, hold the sums of
// outputs 0, 1 and of outputs 2, 3 for both rows, as (output, row) (0, r) (0, r + 1) (1, r) (1, r + 1); finish_rows gives each row its own.
#define QUANT_DOT_MATRIX
#include "backend/cpu/simd/dot_quads_tmpl.h"

INLINE void matrix_rows(quant_format f, const block_rows *b, int u, vi *isum, const dot_step *step) {
    const int n = step_groups(f) / 2;
    const vi wide = wide_scale(step->scale[u]), scales[2] = {vi_zip_low(wide, wide), vi_zip_high(wide, wide)};
    vi eights[2][GROUPS / 2]; // 8 k of outputs 0, 1; of outputs 2, 3
    UNROLL for (int g = 0; g < n; g++) {
        const vi first = operand(f, unpack_step_group(f, b, step, u, 2 * g)),
                 second = operand(f, unpack_step_group(f, b, step, u, 2 * g + 1));
        eights[0][g] = vi_zip_low(first, second);
        eights[1][g] = vi_zip_high(first, second);
    }
    UNROLL for (int r = 0; r + 1 < b->n_rows; r += 2) {
        const char *x = b->x + r * b->x_stride + step->x_at;
        vi s[2] = {f.n_sub ? vi_zero() : isum[r], f.n_sub ? vi_zero() : isum[r + 1]};
        UNROLL for (int g = 0; g < n; g++) {
            const vi two = vi_eights(x + 8 * g, x + b->x_stride + 8 * g);
            s[0] = vi_matrix(s[0], eights[0][g], two);
            s[1] = vi_matrix(s[1], eights[1][g], two);
        }
        isum[r] = f.n_sub ? vi_add32(isum[r], vi_mul32(s[0], scales[0])) : s[0];
        isum[r + 1] = f.n_sub ? vi_add32(isum[r + 1], vi_mul32(s[1], scales[1])) : s[1];
    }
}

enum { STARTS_BELOW = 0 }; // the sums of a pair of rows are not a vector of one row's outputs

INLINE void last_row(quant_format f, const block_rows *b, vi (*isum)[TILE_ROWS], const dot_step *step) {
    const int r = b->n_rows - 1;
    block_rows last = *b;
    last.x += r * b->x_stride, last.n_rows = 1;
    vi sum[DECODE_UNITS][TILE_ROWS];
    UNROLL for (int u = 0; u < b->n_units; u++) sum[u][0] = isum[u][r];
    quad_rows(f, &last, sum, step);
    UNROLL for (int u = 0; u < b->n_units; u++) isum[u][r] = sum[u][0];
}

INLINE void step_rows(quant_format f, const block_rows *b, vi (*isum)[TILE_ROWS], const dot_step *step) {
    UNROLL for (int u = 0; u < b->n_units && b->n_rows > 1; u++) matrix_rows(f, b, u, isum[u], step);
    if (b->n_rows % 2) last_row(f, b, isum, step);
}

INLINE void finish_rows(vi *isum, int n_rows) {
    UNROLL for (int r = 0; r + 1 < n_rows; r += 2) {
        const vi low = isum[r], high = isum[r + 1];
        isum[r] = vi_even(low, high);
        isum[r + 1] = vi_odd(low, high);
    }
}
