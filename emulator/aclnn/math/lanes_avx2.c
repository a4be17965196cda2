#if defined(__AVX2__)
#define LANES_TILE 1
#define LANES_BYTES 32
#define LANES_TABLE em_lanes_avx2
#include "emulator/aclnn/math/lanes_tmpl.h"
#endif
