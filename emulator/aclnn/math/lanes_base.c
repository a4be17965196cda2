#define LANES_TILE 1
#define LANES_BYTES 16
#define LANES_TABLE em_lanes_base
#include "emulator/aclnn/math/lanes_tmpl.h"
