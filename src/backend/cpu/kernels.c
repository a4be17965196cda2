#include "backend/cpu/kernels.h"

#include <string.h>

void cpu_kernels_init(cpu_kernels *k, cpu_level level) {
    memset(k, 0, sizeof *k);
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
    if (level >= CPU_LEVEL_AVX512VNNI) kernels_quant_avx512vnni(k);
    if (level == CPU_LEVEL_AMX && cpu_level_enable(level)) kernels_quant_amx(k);
    if (level >= CPU_LEVEL_AVX512BF16) kernels_float_avx512bf16(k);
#elif defined(__aarch64__)
    if (level >= CPU_LEVEL_NEON) {
        kernels_float_neon(k);
        kernels_quant_neon(k);
    }
    if (level >= CPU_LEVEL_DOTPROD) kernels_quant_dotprod(k);
    if (level >= CPU_LEVEL_I8MM) kernels_quant_i8mm(k);
    if (level >= CPU_LEVEL_NEONBF16) kernels_float_neonbf16(k);
#endif
}
