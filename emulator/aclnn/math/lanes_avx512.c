#if defined(__AVX512F__)
#define LANES_TILE 2
#define LANES_BYTES 64
#define LANES_TABLE em_lanes_avx512
#include "emulator/aclnn/math/lanes_tmpl.h"
#endif
