// The emulator's inner loops as the plainest processor gets them, for test_ops_lanes.
#define LANES_TILE 1
#define LANES_BYTES 16
#define LANES_TABLE lanes_narrow
#include "emulator/aclnn/math/lanes_tmpl.h"
