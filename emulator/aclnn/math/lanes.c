#include "emulator/aclnn/math/lanes.h"

const struct em_lanes *em_lanes(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw"))
        return &em_lanes_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &em_lanes_avx2;
#endif
    return &em_lanes_base;
}
