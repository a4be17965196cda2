// The one floating-point environment in which tally computes: round to nearest even, subnormals kept, no traps.
//
// A host program (or a library it loaded with -ffast-math) may have switched flush-to-zero on; that would change sums. Whoever
// computes enters, and leaves the environment as it was.
#ifndef TALLY_BASE_FPENV_H
#define TALLY_BASE_FPENV_H

#include <stdint.h>

typedef uint64_t fpenv_state;

fpenv_state fpenv_enter(void); // sets the environment, returns the caller's
void fpenv_leave(fpenv_state saved);

#endif
