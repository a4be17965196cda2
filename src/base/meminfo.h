// How much memory a process may still take.
#ifndef TALLY_BASE_MEMINFO_H
#define TALLY_BASE_MEMINFO_H

#include <stdint.h>

// Bytes: the system's available memory, or less where a control group or RLIMIT_AS sets a lower limit. INT64_MAX: unknown.
int64_t meminfo_available(void);

#endif
