#include "backend/cpu/pack.h"

#include <assert.h>
#include <string.h>

#include "backend/cpu/quant_panels.h"

static bool is_float(dtype type) { return type == DTYPE_F32 || type == DTYPE_F16 || type == DTYPE_BF16; }

// The index of weight (k, j) in a panel of a float type.
static int64_t place(dtype type, int64_t k, int j) {
    return type == DTYPE_BF16 ? k / 2 * (2 * PANEL) + 2 * j + k % 2 : k * PANEL + j;
}

int64_t pack_panel_bytes(dtype type, int64_t k) {
    if (!is_float(type)) return quant_panel_bytes(type, k);
    if (type == DTYPE_F32) return k * PANEL * 4;
    return (k + 1) / 2 * (2 * PANEL * 2); // 2 bytes each; odd k padded to whole cache lines
}

// panel[i][j] = rows[j][i] for n numbers of each row, a line of the cache of every row at a time.
#define INTERLEAVE(name, number) \
    static void name(number *panel, const void *rows, int64_t row_bytes, int n_rows, int64_t n) { \
        enum { LINE = 64 / sizeof(number) }; \
        for (int64_t i = 0; i < n; i += LINE) { \
            int64_t m = n - i < LINE ? n - i : LINE; \
            for (int j = 0; j < n_rows; j++) { \
                number line[LINE]; \
                memcpy(line, (const char *)rows + j * row_bytes + i * (int64_t)sizeof(number), \
                       (size_t)m * sizeof(number)); \
                for (int64_t l = 0; l < m; l++) panel[(i + l) * PANEL + j] = line[l]; \
            } \
        } \
    }
INTERLEAVE(interleave16, uint16_t)
INTERLEAVE(interleave32, uint32_t)

void pack_panel(dtype type, void *panel, const void *rows, int64_t row_bytes, int n_rows, int64_t k) {
    assert(n_rows >= 0 && n_rows <= PANEL);
    if (!is_float(type)) {
        quant_pack_panel(type, panel, rows, row_bytes, n_rows, k);
        return;
    }
    if (n_rows < PANEL || k % 2 != 0) memset(panel, 0, (size_t)pack_panel_bytes(type, k));
    if (type == DTYPE_F16) {
        interleave16(panel, rows, row_bytes, n_rows, k);
    } else {
        interleave32(panel, rows, row_bytes, n_rows, type == DTYPE_F32 ? k : k / 2); // BF16: pairs of k
    }
    for (int j = 0; type == DTYPE_BF16 && k % 2 && j < n_rows; j++)
        memcpy((uint16_t *)panel + place(type, k - 1, j), (const char *)rows + j * row_bytes + (k - 1) * 2, 2);
}

void unpack_row(dtype type, float *dst, const void *panel, int j, int64_t k) {
    if (!is_float(type)) {
        quant_unpack_row(type, dst, panel, j, k);
        return;
    }
    for (int64_t i = 0; i < k; i++) {
        int64_t at = place(type, i, j);
        if (type == DTYPE_F32) {
            dst[i] = ((const float *)panel)[at];
        } else if (type == DTYPE_F16) {
            dst[i] = f16_to_f32(((const uint16_t *)panel)[at]);
        } else {
            dst[i] = bf16_to_f32(((const uint16_t *)panel)[at]);
        }
    }
}

int64_t x_row_bytes(x_format format, int64_t k) {
    switch (format) {
    case X_BLOCK32: return k / 32 * (int64_t)sizeof(quant_block32);
    case X_BLOCK256: return k / 256 * (int64_t)sizeof(quant_block256);
    case X_BF16: return (k + 1) / 2 * 4;
    default: return 4 * k;
    }
}

int64_t x_row_stride(x_format format, int64_t k) { return (x_row_bytes(format, k) + 63) & ~(int64_t)63; }
