#include "backend/cpu/kernels.h"

#include <string.h>

void cpu_kernels_init(cpu_kernels *k, cpu_level level) {
    memset(k, 0, sizeof *k);
    k->level = level;
    kernels_float_scalar(k);
    kernels_quant_scalar(k);
#if defined(__x86_64__)
    if (level >= CPU_LEVEL_AVX2) {
        kernels_float_avx2(k);
        kernels_quant_avx2(k);
    }
    if (level >= CPU_LEVEL_AVX512) {
        kernels_float_avx512(k);
        kernels_quant_avx512(k);
    }
#endif
}
