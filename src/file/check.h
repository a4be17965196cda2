// Small checks that both tensor file formats need.
#ifndef TALLY_FILE_CHECK_H
#define TALLY_FILE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

// At most 63 characters of a name from a file, fit for a terminal: what is not printable ASCII becomes '?'.
typedef struct shown_name {
    char text[64];
} shown_name;
shown_name show_name(str name);

// Ranges of bytes in one file, for the check that no two tensors share bytes (which would let a small file stand for any
// amount of memory). Sorts `e`; returns false and the two that overlap.
typedef struct extent {
    uint64_t start, end;
    size_t tensor;
} extent;
bool extents_disjoint(extent *e, size_t n, size_t *first, size_t *second);

#endif
