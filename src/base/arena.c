#include "base/arena.h"

#include <stdarg.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct arena_chunk {
    struct arena_chunk *next;
    size_t size, used; // bytes of data[]
    alignas(64) unsigned char data[];
} arena_chunk;

enum { ARENA_CHUNK_BYTES = 64 << 10 };

void arena_init(arena *a) { *a = (arena){0}; }

void arena_deinit(arena *a) {
    for (arena_chunk *c = a->first, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    *a = (arena){0};
}

void arena_reset(arena *a) {
    for (arena_chunk *c = a->first; c; c = c->next) c->used = 0;
    a->current = a->first;
    a->used = 0;
}

static void *chunk_take(arena_chunk *c, size_t n, size_t align) {
    uintptr_t base = (uintptr_t)c->data;
    size_t at = (size_t)(((base + c->used + align - 1) & ~(uintptr_t)(align - 1)) - base);
    if (at > c->size || n > c->size - at) return NULL;
    c->used = at + n;
    return c->data + at;
}

void *arena_alloc_aligned(arena *a, size_t n, size_t align) {
    for (arena_chunk *c = a->current; c; c = c->next) {
        void *p = chunk_take(c, n, align);
        if (p) {
            a->current = c;
            a->used += n;
            return p;
        }
        if (!c->next) break;
    }
    if (n > SIZE_MAX / 2) return NULL;
    size_t size = n + align > ARENA_CHUNK_BYTES ? n + align : ARENA_CHUNK_BYTES;
    arena_chunk *c = aligned_alloc(64, (sizeof *c + size + 63) & ~(size_t)63);
    if (!c) return NULL;
    *c = (arena_chunk){.size = size};
    if (!a->first) {
        a->first = c;
    } else {
        arena_chunk *last = a->current;
        while (last->next) last = last->next;
        last->next = c;
    }
    a->current = c;
    a->used += n;
    return chunk_take(c, n, align);
}

void *arena_alloc(arena *a, size_t n) { return arena_alloc_aligned(a, n, alignof(max_align_t)); }

void *arena_calloc(arena *a, size_t count, size_t size) {
    if (size && count > SIZE_MAX / size) return NULL;
    void *p = arena_alloc(a, count * size);
    if (p) memset(p, 0, count * size);
    return p;
}

str arena_str(arena *a, str s) {
    char *p = arena_alloc(a, s.len + 1);
    if (!p) return (str){0};
    if (s.len) memcpy(p, s.data, s.len);
    p[s.len] = 0;
    return (str){p, s.len};
}

char *arena_printf(arena *a, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
    if (p) vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}
