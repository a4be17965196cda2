// How much memory a process may still take.
#ifndef TALLY_BASE_MEMINFO_H
#define TALLY_BASE_MEMINFO_H

#include <stdint.h>

// Bytes: the system's available memory, or less where a control group or RLIMIT_AS sets a lower limit. INT64_MAX: unknown.
int64_t meminfo_available(void);

// What a control group (v2) still allows, by the files of its folder; INT64_MAX: no limit.
int64_t meminfo_of_group(const char *folder);

#endif
