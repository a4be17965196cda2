#include "tests/fault/alloc_fail.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SLOTS = 1 << 16 };

static struct {
    bool armed;
    long count, fail_at;
    bool and_after;
    long live;
    void *slot[SLOTS]; // what was handed out while armed and not freed; open addressing, TOMB where one was
} memory;
static char tomb;
#define TOMB ((void *)&tomb)

void alloc_fail_arm(void) {
    memset(&memory, 0, sizeof memory);
    memory.armed = true;
}

void alloc_fail_at(long n, bool and_after) { memory.count = 0, memory.fail_at = n, memory.and_after = and_after; }
void alloc_fail_disarm(void) { memory.armed = false; }
long alloc_fail_count(void) { return memory.count; }
long alloc_fail_live(void) { return memory.live; }

static size_t slot_of(const void *p) { return (size_t)((uintptr_t)p >> 4) * 0x9E3779B97F4A7C15u >> 48 & (SLOTS - 1); }

static void *track(void *p) {
    if (!p || !memory.armed) return p;
    size_t i = slot_of(p);
    while (memory.slot[i] && memory.slot[i] != TOMB) i = (i + 1) & (SLOTS - 1);
    memory.slot[i] = p;
    memory.live++;
    if (memory.live > SLOTS / 2) abort();
    return p;
}

static bool untrack(const void *p) {
    for (size_t i = slot_of(p); memory.slot[i]; i = (i + 1) & (SLOTS - 1)) {
        if (memory.slot[i] != p) continue;
        memory.slot[i] = TOMB;
        memory.live--;
        return true;
    }
    return false;
}

static bool fails(void) {
    if (!memory.armed) return false;
    memory.count++;
    bool now =
        memory.fail_at && (memory.count == memory.fail_at || (memory.and_after && memory.count > memory.fail_at));
    if (now) errno = ENOMEM;
    return now;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void __wrap_free(void *p);

void *__wrap_malloc(size_t n) { return fails() ? NULL : track(__real_malloc(n)); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : track(__real_calloc(n, size)); }
void *__wrap_aligned_alloc(size_t align, size_t n) { return fails() ? NULL : track(__real_aligned_alloc(align, n)); }
char *__wrap_strdup(const char *s) { return fails() ? NULL : track(__real_strdup(s)); }
char *__wrap_strndup(const char *s, size_t n) { return fails() ? NULL : track(__real_strndup(s, n)); }
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
    return fails() ? MAP_FAILED : __real_mmap(at, n, prot, flags, fd, offset);
}
void *__wrap_realloc(void *p, size_t n) {
    if (fails()) return NULL;
    bool ours = p && untrack(p);
    void *q = __real_realloc(p, n);
    return ours || !p ? track(q) : q;
}
void __wrap_free(void *p) {
    if (p) untrack(p);
    __real_free(p);
}
