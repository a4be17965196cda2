// Weights in panels of 16 outputs, the layout every matrix kernel reads.
//
// A matrix [n, k] becomes ceil(n / 16) panels; a panel holds 16 rows for all of k. Rows beyond n are zeros. Layouts:
//   F32, F16   [k][16]
//   BF16       [k/2][16][2]   (k odd: the last pair's second number is zero)
//   block types: quant_panels.h. They keep the file's bits per weight (scales unpacked to whole bytes at most).
// Packing changes no value: what a kernel computes is defined by the source numbers.
#ifndef TALLY_BACKEND_CPU_PACK_H
#define TALLY_BACKEND_CPU_PACK_H

#include <stdint.h>

#include "backend/cpu/kernels.h"
#include "tensor/dtype.h"

// Bytes of one panel (16 rows of k numbers); a multiple of 64. k must be a multiple of the type's block.
int64_t pack_panel_bytes(dtype type, int64_t k);

// Packs rows [0, n_rows), n_rows <= 16, of a row-major matrix (row_bytes from row to row) into one panel.
void pack_panel(dtype type, void *panel, const void *rows, int64_t row_bytes, int n_rows, int64_t k);

// Reads one packed row back as numbers (the embedding of a tied head, tests): row j (0..15) of a panel to dst[k].
void unpack_row(dtype type, float *dst, const void *panel, int j, int64_t k);

// The quantised part of the above and below, in quant_panels.c.
int64_t quant_panel_bytes(dtype type, int64_t k);
void quant_pack_panel(dtype type, void *panel, const void *rows, int64_t row_bytes, int n_rows, int64_t k);
void quant_unpack_row(dtype type, float *dst, const void *panel, int j, int64_t k);

// Bytes of an activation row of k numbers in a format (block formats: a multiple of the block).
int64_t x_row_bytes(x_format format, int64_t k);
int64_t x_row_stride(x_format format, int64_t k); // from one row to the next: whole lines of the cache

#endif
