#include "file/check.h"

#include <stdlib.h>

shown_name show_name(str name) {
    shown_name s;
    size_t n = name.len < sizeof s.text - 1 ? name.len : sizeof s.text - 1;
    for (size_t i = 0; i < n; i++) s.text[i] = name.data[i] >= ' ' && name.data[i] <= '~' ? name.data[i] : '?';
    s.text[n] = 0;
    if (n < name.len) memcpy(s.text + n - 3, "...", 3);
    return s;
}

static int compare_extents(const void *a, const void *b) {
    const extent *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

bool extents_disjoint(extent *e, size_t n, size_t *first, size_t *second) {
    if (n == 0) return true;
    qsort(e, n, sizeof *e, compare_extents);
    for (size_t i = 1; i < n; i++) {
        if (e[i].start >= e[i - 1].end) continue;
        *first = e[i - 1].tensor;
        *second = e[i].tensor;
        return false;
    }
    return true;
}
