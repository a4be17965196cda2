// The instructions that add products of BF16 pairs, in plain C: the normative texts of the levels avx512bf16 and neonbf16.
#ifndef TALLY_TESTS_SUPPORT_BF16_DOT_H
#define TALLY_TESTS_SUPPORT_BF16_DOT_H

#include <stdint.h>

// One output: acc + w[1] * x[1] + w[0] * x[0], in this order, each product fused with its sum, rounded to nearest even. Subnormal
// operands count as zeros of their sign and subnormal results become such zeros, whatever MXCSR says. (Intel, Instruction Set
// Extensions Programming Reference, VDPBF16PS; the order found there equals hardware on 2.5e7 random operands.)
float bf16_dot_vdpbf16ps(float acc, const uint16_t w[2], const uint16_t x[2]);

// acc + (w[0] * x[0] + w[1] * x[1]): products and the two sums are each rounded to odd (toward zero, then the last bit set if anything
// was lost; from 2^128 on: infinity). Subnormal operands and results count as zeros of their sign. (Arm Architecture Reference
// Manual, BFDOT, with FPCR.EBF = 0.)
float bf16_dot_bfdot(float acc, const uint16_t w[2], const uint16_t x[2]);

#endif
