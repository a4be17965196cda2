#include "backend/cpu/pages.h"

#include <stddef.h>
#include <sys/mman.h>

void *pages_alloc(int64_t bytes) {
    if (bytes <= 0) bytes = 1;
    void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    madvise(p, (size_t)bytes, MADV_HUGEPAGE);
    return p;
}

void pages_free(void *p, int64_t bytes) {
    if (p) munmap(p, (size_t)(bytes > 0 ? bytes : 1));
}
