// Sources: product names and limits of docs for CANN 8.1 to 9.1; memory sizes and cores of the vendor's performance model. The
// memory of 910A, 310P and 950 variants differs by board; one common size stands for each (mem= changes it).
#include "emulator/core/chip.h"

#include <stdlib.h>
#include <string.h>

#define GIB(n) ((uint64_t)(n) << 30)
#define FIRST(label) \
    { \
        .name = label, .family = EMU_910A, .memory = GIB(32), .n_cube = 32, .n_vector = 32, .max_streams = 2048, \
        .max_events = 65535, .build_graph = true, .malloc_extra = 32 \
    }
#define DUO(label) \
    { \
        .name = label, .family = EMU_310P, .memory = GIB(24), .n_cube = 8, .n_vector = 8, .max_streams = 1024, \
        .max_events = 65536, .capture = true, .build_graph = true, .ipc_events = true, .malloc_extra = 32 \
    }
#define SECOND(label, kind, gib, cube) \
    { \
        .name = label, .family = kind, .memory = GIB(gib), .n_cube = cube, .n_vector = 2 * (cube), \
        .max_streams = 1984, .max_events = 65536, .bf16 = true, .capture = true, .host_register = true, \
        .build_graph = true, .ipc_events = true, .malloc_extra = 32 \
    }
#define FIFTH(label, ipc) \
    { \
        .name = label, .family = EMU_950, .memory = GIB(128), .n_cube = 32, .n_vector = 64, .max_streams = 1984, \
        .max_events = 65536, .bf16 = true, .capture = true, .host_register = true, .build_graph = true, \
        .ipc_events = ipc, .malloc_extra = 0 \
    }

static const emu_chip chips[] = {
    FIRST("Ascend910A"),
    FIRST("Ascend910ProA"),
    FIRST("Ascend910ProB"),
    FIRST("Ascend910PremiumA"),
    FIRST("Ascend910B"),
    DUO("Ascend310P1"),
    DUO("Ascend310P2"),
    DUO("Ascend310P3"),
    DUO("Ascend310P5"),
    DUO("Ascend310P7"),
    SECOND("Ascend910B1", EMU_A2, 64, 24),
    SECOND("Ascend910B2", EMU_A2, 64, 24),
    SECOND("Ascend910B2C", EMU_A2, 64, 24),
    SECOND("Ascend910B3", EMU_A2, 64, 20),
    SECOND("Ascend910B4", EMU_A2, 32, 20),
    SECOND("Ascend910B4-1", EMU_A2, 64, 20),
    SECOND("Ascend910_9391", EMU_A3, 64, 24),
    SECOND("Ascend910_9392", EMU_A3, 64, 24),
    SECOND("Ascend910_9381", EMU_A3, 64, 24),
    SECOND("Ascend910_9382", EMU_A3, 64, 24),
    SECOND("Ascend910_9372", EMU_A3, 64, 20),
    SECOND("Ascend910_9362", EMU_A3, 64, 20),
    SECOND("Ascend910_9363", EMU_A3, 64, 20),
    FIFTH("Ascend950PR", true),
    FIFTH("Ascend950DT", false),
    FIFTH("Ascend950", true),
};

const emu_chip *emu_chip_at(int i) { return i >= 0 && i < (int)(sizeof chips / sizeof *chips) ? &chips[i] : NULL; }

const emu_chip *emu_chip_find(const char *name) {
    static const char prefix[] = "Ascend";
    for (int i = 0; i < (int)(sizeof chips / sizeof *chips); i++) {
        const char *full = chips[i].name;
        if (strcmp(name, full) == 0 || strcmp(name, full + strlen(prefix)) == 0) return &chips[i];
    }
    return NULL;
}

const char *emu_family_name(emu_family family) {
    static const char *const names[] = {"910A", "310P", "A2", "A3", "950"};
    return names[family];
}

static const char *const cann_names[] = {"8.1", "8.5", "9.1"};

const char *emu_cann_name(emu_cann version) { return cann_names[version]; }

int emu_cann_find(const char *name) {
    for (int i = 0; i < EMU_CANN_COUNT; i++) {
        if (strcmp(name, cann_names[i]) == 0) return i;
    }
    return -1;
}
