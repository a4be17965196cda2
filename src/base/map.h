// A hash table from strings to integers: tensor names, vocabulary entries, option names.
//
// Keys are borrowed: the caller keeps the bytes alive as long as the map. Single-threaded while it is filled; any number of
// threads may read a map that no longer changes.
#ifndef TALLY_BASE_MAP_H
#define TALLY_BASE_MAP_H

#include <stdint.h>

#include "base/str.h"

typedef struct map {
    struct map_slot *slots; // owned, n_slots entries
    size_t n_slots;         // power of two, or 0
    size_t count;
} map;

void map_init(map *m);
void map_deinit(map *m);
// Inserts or replaces. False when memory ran out or the key has 4 GiB; the map is then as before.
bool map_put(map *m, str key, int64_t value);
// Room for so many keys, so that filling the map need not grow it step by step. False when memory ran out.
bool map_reserve(map *m, size_t n);
// True and *value (if not NULL) when the key is there.
bool map_get(const map *m, str key, int64_t *value);

#endif
