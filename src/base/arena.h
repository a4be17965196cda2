// An arena: many allocations, one release.
//
// For everything that lives as long as one owner: a model's configuration and tables, a vocabulary, a parsed template, an
// operation list. Single-threaded. Memory is returned by arena_deinit (all) or arena_reset (all, keeping the chunks).
#ifndef TALLY_BASE_ARENA_H
#define TALLY_BASE_ARENA_H

#include <stddef.h>

#include "base/str.h"

typedef struct arena {
    struct arena_chunk *first, *current; // owned
    size_t used;                         // bytes handed out since init or reset
} arena;

void arena_init(arena *a);
void arena_deinit(arena *a);
void arena_reset(arena *a);

// n bytes aligned for any type (arena_alloc_aligned: to `align`, a power of two). NULL when memory runs out. n = 0 gives a
// valid pointer. The memory is uninitialised; arena_calloc gives zeros and checks count * size for overflow.
void *arena_alloc(arena *a, size_t n);
void *arena_alloc_aligned(arena *a, size_t n, size_t align);
void *arena_calloc(arena *a, size_t count, size_t size);

// Copies, with a terminating zero byte behind the string. `.data` is NULL when memory runs out.
str arena_str(arena *a, str s);
char *arena_printf(arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
