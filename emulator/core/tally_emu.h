// What the emulator offers beside the vendor's functions: its settings and what tests ask it. Exported by libtally_emu.so.
//
// Settings are one line of words between commas, the first of which may be a chip:
//
//     910B3,cann=8.5,seed=7,perturb=on
//
// emulator/README.md lists them. The line is taken from the environment variable TALLY_EMU by the first call of the vendor's API,
// unless tally_emu_configure was called before. Later calls of tally_emu_configure may change the words of fault injection, seed,
// order, watchdog and trace, and no others; counters of injection start again.
//
// Everything here may be called from any thread.
#ifndef TALLY_EMULATOR_CORE_TALLY_EMU_H
#define TALLY_EMULATOR_CORE_TALLY_EMU_H

#include <stddef.h>
#include <stdint.h>

// 0, or -1 and a sentence in aclGetRecentErrMsg.
int tally_emu_configure(const char *settings);

// What gave the emulator its settings: 0: nothing yet, 1: the environment, 2: tally_emu_configure.
int tally_emu_configured(void);

// Objects the program made and has not destroyed: contexts, streams, events, device and host blocks, descriptors, executors, graphs.
// The default context and stream of a device are not counted. kinds (may be NULL): "2 tensor, 1 stream", cut to size.
int tally_emu_live_objects(char *kinds, size_t size);

// How often a rule (its id of rules.h, "race") was broken since the last tally_emu_reset; -1: no such rule.
int tally_emu_rule_count(const char *id);
const char *tally_emu_last_rule(void); // of this thread; "" when none was broken

uint64_t tally_emu_launches(void);   // operators launched so far
uint64_t tally_emu_executions(void); // operators that ran, each replay counted

// Forgets everything, as if the process had just started: every handle and address made so far is invalid. For tests.
void tally_emu_reset(void);

#endif
