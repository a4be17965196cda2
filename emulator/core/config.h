// The settings of the emulator, one line of words (README.md). The only file of the emulator that reads the environment is config.c.
#ifndef TALLY_EMULATOR_CORE_CONFIG_H
#define TALLY_EMULATOR_CORE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emulator/core/chip.h"

typedef enum emu_order { // when queued work runs
    EMU_ORDER_RANDOM,    // some of it at any call, the rest when someone waits for it; streams mixed by the seed
    EMU_ORDER_LATE,      // only when someone waits for it; streams mixed by the seed
    EMU_ORDER_EAGER      // as soon as it may
} emu_order;

typedef struct emu_config {
    const emu_chip *chip;
    int cann; // an emu_cann; -1: that of the libraries the program loaded
    int n_devices, n_threads;
    uint64_t seed;    // of the order of streams
    uint64_t perturb; // of the order of sums; 0: off
    emu_order order;
    uint64_t memory; // bytes per device; 0: the chip's
    bool poison_edges;
    bool lenient;    // accepts what the documents only advise against: data that is not 32-byte aligned
    int watchdog_ms; // how long a hang or a wait for nothing lasts before the device is given up
    char trace[256]; // path; "": none
    // Fault injection: the n-th since the settings were made fails; 0: none.
    uint64_t fail_call, fail_alloc, fail_phase1, fail_launch, fail_op, lost, hang;
} emu_config;

void emu_config_default(emu_config *c);
// Applies the words of a line. running: only injection, order, seed and trace may change. false and a sentence in why.
bool emu_config_parse(emu_config *c, const char *line, bool running, char why[static 200]);
const char *emu_config_environment(void); // the line of TALLY_EMU, or NULL
int emu_config_visible_devices(void);     // entries of ASCEND_RT_VISIBLE_DEVICES; -1: not set

#endif
