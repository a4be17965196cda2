// What a chip is, by the name aclrtGetSocName gives. Beware: "Ascend910B" without a digit is first generation, "Ascend910B3" is A2.
#ifndef TALLY_BACKEND_ASCEND_CHIP_H
#define TALLY_BACKEND_ASCEND_CHIP_H

#include <stdbool.h>

typedef enum ascend_family { ASCEND_910A, ASCEND_310P, ASCEND_A2, ASCEND_A3, ASCEND_950, ASCEND_UNKNOWN } ascend_family;

#define CHIPS(family) (1u << ASCEND_##family)
#define CHIPS_A2_A3 (CHIPS(A2) | CHIPS(A3))
#define CHIPS_950 CHIPS(950)
#define CHIPS_A2_UP (CHIPS_A2_A3 | CHIPS_950)
#define CHIPS_310P_UP (CHIPS(310P) | CHIPS_A2_UP)
#define CHIPS_ALL (CHIPS(910A) | CHIPS_310P_UP)
#define CHIPS_INDEX_PUT (CHIPS(910A) | CHIPS_A2_UP)

ascend_family ascend_family_of(const char *soc_name);
const char *ascend_family_name(ascend_family family); // "A2"
bool ascend_family_has_bf16(ascend_family family);

#endif
