#define LANES_ROWS 1
#define LANES_TABLE em_lanes_base
#include "emulator/aclnn/math/lanes_tmpl.h"
