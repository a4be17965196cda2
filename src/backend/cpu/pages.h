// Large blocks of memory.
#ifndef TALLY_BACKEND_CPU_PAGES_H
#define TALLY_BACKEND_CPU_PAGES_H

#include <stdint.h>

// Zeroed, aligned to a page (from 2 MiB on to 2 MiB), with big pages where the kernel grants them; NULL when memory ran out. pages_free
// wants the same number.
void *pages_alloc(int64_t bytes);
void pages_free(void *p, int64_t bytes);

#endif
