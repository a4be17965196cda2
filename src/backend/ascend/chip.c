#include "backend/ascend/chip.h"

#include <string.h>

static bool starts(const char *s, const char *prefix) { return strncmp(s, prefix, strlen(prefix)) == 0; }

ascend_family ascend_family_of(const char *name) {
    if (starts(name, "Ascend950")) return ASCEND_950;
    if (starts(name, "Ascend910_93")) return ASCEND_A3;
    if (starts(name, "Ascend910B") && name[10] >= '0' && name[10] <= '9') return ASCEND_A2;
    if (starts(name, "Ascend910")) return ASCEND_910A;
    if (starts(name, "Ascend310P")) return ASCEND_310P;
    return ASCEND_UNKNOWN;
}

const char *ascend_family_name(ascend_family family) {
    static const char *const names[] = {"910A", "310P", "A2", "A3", "950", "an unknown chip"};
    return names[family];
}

bool ascend_family_has_bf16(ascend_family family) {
    return family == ASCEND_A2 || family == ASCEND_A3 || family == ASCEND_950;
}
