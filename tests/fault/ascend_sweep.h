// Everything that can fail on an NPU fails once: each call of the vendor's library (descriptors, allocations, copies, both phases of each
// operator, captures, synchronisations), each allocation of device memory, each operator that runs, each synchronisation that finds the
// device lost, and each allocation of our own, alone and with all that follow. Each time the call succeeds with the right numbers or ends in
// one sentence; the next request works, or is told why not; and when the engine is closed, neither the emulator nor the host has anything
// left of it. A failure of any of this ends the test.
//
// Every failure has a process of its own, two at a time; those of steps are forks of one engine that is loaded.
#ifndef TALLY_TESTS_ASCEND_SWEEP_H
#define TALLY_TESTS_ASCEND_SWEEP_H

#include <stdbool.h>

void sweep_load(bool moe);                     // of a tiny dense model or of a mixture
void sweep_steps(bool moe, const char *graph); // three steps; graph: "on", "off"

#endif
