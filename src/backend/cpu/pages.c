#include "backend/cpu/pages.h"

#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BIG_PAGE = 2 << 20 };

// A big page is one that lies whole in the block: one of some size begins where such a page can.
void *pages_alloc(int64_t bytes) {
    if (bytes <= 0) bytes = 1;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = ((size_t)bytes + page - 1) / page * page;
    const size_t spare = size < BIG_PAGE ? 0 : BIG_PAGE - page;
    char *p = mmap(NULL, size + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    const size_t before = spare ? (BIG_PAGE - (uintptr_t)p % BIG_PAGE) % BIG_PAGE : 0;
    if (before) munmap(p, before);
    if (spare > before) munmap(p + before + size, spare - before);
    madvise(p + before, size, MADV_HUGEPAGE);
    return p + before;
}

void pages_free(void *p, int64_t bytes) {
    if (p) munmap(p, (size_t)(bytes > 0 ? bytes : 1));
}
