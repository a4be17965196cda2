// UNROLL before a loop whose bounds are constants of its instance, so that its arrays become registers.
#ifndef TALLY_BACKEND_CPU_SIMD_UNROLL_H
#define TALLY_BACKEND_CPU_SIMD_UNROLL_H

#if defined(TALLY_ALL_X86_LEVELS) // emulated instructions (tests): nothing becomes a register
#define UNROLL
#elif defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
