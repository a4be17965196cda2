// Chips by the name aclrtGetSocName returns, and versions of the vendor's library.
#ifndef TALLY_EMULATOR_CORE_CHIP_H
#define TALLY_EMULATOR_CORE_CHIP_H

#include <stdbool.h>
#include <stdint.h>

typedef enum emu_family { // columns of abi/operators.txt, in this order
    EMU_910A,             // first generation; "Ascend910B" without a digit is one of them
    EMU_310P,
    EMU_A2, // Ascend910B1 .. B4
    EMU_A3, // Ascend910_93xx
    EMU_950,
    EMU_FAMILY_COUNT
} emu_family;

#define EMU_ON(family) (1u << (family))
#define EMU_ON_ALL ((1u << EMU_FAMILY_COUNT) - 1)
#define EMU_ON_A2_UP (EMU_ON(EMU_A2) | EMU_ON(EMU_A3) | EMU_ON(EMU_950))

typedef struct emu_chip {
    const char *name; // what aclrtGetSocName returns
    emu_family family;
    uint64_t memory;             // bytes of device memory
    int n_cube, n_vector;        // cores
    int max_streams, max_events; // per device
    bool bf16, capture, host_register, build_graph, ipc_events;
    uint32_t malloc_extra; // bytes a malloc takes beside its rounding to 32
} emu_chip;

// NULL: unknown. "910B3" and "Ascend910B3" are the same; "Ascend910B" is first generation.
const emu_chip *emu_chip_find(const char *name);
const emu_chip *emu_chip_at(int i); // NULL after the last
const char *emu_family_name(emu_family family);

typedef enum emu_cann { EMU_CANN_8_1, EMU_CANN_8_5, EMU_CANN_9_1, EMU_CANN_COUNT } emu_cann;
const char *emu_cann_name(emu_cann version); // "8.1"
int emu_cann_find(const char *name);         // -1: unknown

#endif
