// Time as an object, so that a simulation can bring its own.
#ifndef TALLY_BASE_CLOCK_H
#define TALLY_BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_now_ns(void); // monotonic, from an arbitrary start

#endif
