// What this processor can do, and how many of its cores to use.
#ifndef TALLY_BASE_CPUINFO_H
#define TALLY_BASE_CPUINFO_H

#include <stdbool.h>

#include "base/str.h"

// Kernel levels, lowest first. A level includes those below it of its architecture; `--cpu LEVEL` pins one. Levels share every
// order sheet, so they give the same bits, but for AVX512BF16 and NEONBF16, which have their own for BF16 weights (docs/exactness.md).
// AVX512BF16 does not include AMX.
#define CPU_LEVEL_LIST(X) \
    X(SCALAR, "scalar", "portable C, the reference") \
    X(AVX2, "avx2", "AVX2, FMA and F16C") \
    X(AVX512, "avx512", "AVX-512 F, BW, DQ and VL") \
    X(AVX512VNNI, "avx512vnni", "AVX-512 with VNNI") \
    X(AMX, "amx", "AVX-512 with VNNI and AMX int8 tiles, where the kernel grants them") \
    X(AVX512BF16, "avx512bf16", "AVX-512 with BF16 products; other bits for BF16 weights, so only if asked for") \
    X(NEON, "neon", "AArch64 with Advanced SIMD") \
    X(DOTPROD, "dotprod", "AArch64 with the dot product instructions") \
    X(I8MM, "i8mm", "AArch64 with the int8 matrix instructions") \
    X(NEONBF16, "neonbf16", "AArch64 with BF16 products; other bits for BF16 weights, so only if asked for")

typedef enum cpu_level {
#define CPU_LEVEL_ENUM(name, text, help) CPU_LEVEL_##name,
    CPU_LEVEL_LIST(CPU_LEVEL_ENUM)
#undef CPU_LEVEL_ENUM
        CPU_LEVEL_COUNT
} cpu_level;

const char *cpu_level_name(cpu_level level);
bool cpu_level_from_name(str name, cpu_level *out);
bool cpu_level_available(cpu_level level); // the processor and the operating system both have it
// Asks the system for what an available level needs, for all threads of the process (AMX: its tiles, which Linux refuses where a thread has
// a small signal stack, and beside which it allows none from then on). False: the level cannot be used.
bool cpu_level_enable(cpu_level level);
// True if the level's results have the same bits as those of the scalar level, for every type of weight.
bool cpu_level_is_common(cpu_level level);
cpu_level cpu_level_best(void); // the last available one that is common
// Whether what will be read soon is fetched into the first-level cache, not the second. AMD's processors (Zen 5) take hints for the
// second one at times as if they were none: a decode step's attention then takes 167 us a layer for 93.
bool cpu_fetches_near(void);
// Whether few rows read weights faster as one stream than as two that are computed side by side. So it is on AMD's processors (Zen 5, 4 rows
// of Q8_0: 15.2 ms for 16.9); a Xeon of 2023, whose cores keep less work on its way, took 59.5 ms for 50.5 (4 rows of Q4_K_M).
bool cpu_reads_one_stream(void);
int cpu_physical_cores(void);                 // that this process may run on; at least 1
const char *cpu_model_name(char *buf, int n); // as the system tells it, e.g. "Intel(R) Xeon(R) Processor"

#endif
