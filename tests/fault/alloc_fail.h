// Allocations that fail when told to. The linker puts these in the place of the allocator's functions, in the binaries of this folder
// (mk/fuzz.mk), so what fails are our own calls. Those inside libraries do not: jansson loses memory and reads freed memory when its own
// allocations fail in the middle of parsing, which no caller can repair.
#ifndef TALLY_TESTS_ALLOC_FAIL_H
#define TALLY_TESTS_ALLOC_FAIL_H

#include <stdbool.h>

void alloc_fail_arm(void); // from now on allocations are counted and followed; forgets earlier ones
void alloc_fail_at(long n,
                   bool and_after); // the n-th from now fails, perhaps all behind it too; 0: none. Counts from 0
void alloc_fail_disarm(void);
long alloc_fail_count(void); // allocations since alloc_fail_at
long alloc_fail_live(void);  // blocks handed out since alloc_fail_arm and not freed

#endif
