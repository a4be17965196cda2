#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

// A vocabulary fills some hundred thousand of these in random order, so they are kept small.
typedef struct map_slot {
    const char *key; // NULL: empty
    uint32_t len, hash;
    int64_t value;
} map_slot;

static uint32_t hash_of(str key) { return (uint32_t)(hash_bytes(key.data, key.len) >> 32); }

void map_init(map *m) { *m = (map){0}; }

void map_deinit(map *m) {
    free(m->slots);
    *m = (map){0};
}

// The slot that holds the key, or the empty one where it belongs. Linear probing; the table is never full.
static map_slot *map_find(map_slot *slots, size_t n_slots, str key, uint32_t hash) {
    for (size_t i = hash & (n_slots - 1);; i = (i + 1) & (n_slots - 1)) {
        map_slot *s = &slots[i];
        if (!s->key || (s->hash == hash && s->len == key.len && memcmp(s->key, key.data, key.len) == 0)) return s;
    }
}

static bool map_resize(map *m, size_t n) {
    if (n > (size_t)1 << 32) return false; // what a hash can tell apart
    map_slot *slots = calloc(n, sizeof *slots);
    if (!slots) return false;
    for (size_t i = 0; i < m->n_slots; i++) {
        const map_slot *s = &m->slots[i];
        if (s->key) *map_find(slots, n, (str){s->key, s->len}, s->hash) = *s;
    }
    free(m->slots);
    m->slots = slots;
    m->n_slots = n;
    return true;
}

bool map_reserve(map *m, size_t n) {
    size_t want = 64;
    while (want / 4 * 3 < n && want <= SIZE_MAX / 2) want *= 2;
    return want <= m->n_slots || map_resize(m, want);
}

bool map_put(map *m, str key, int64_t value) {
    if (!key.data) key.data = ""; // an empty key still marks its slot as used
    if (key.len > UINT32_MAX) return false;
    if ((m->count + 1) * 4 > m->n_slots * 3 && !map_resize(m, m->n_slots ? m->n_slots * 2 : 64)) return false;
    uint32_t hash = hash_of(key);
    map_slot *s = map_find(m->slots, m->n_slots, key, hash);
    if (!s->key) m->count++;
    *s = (map_slot){key.data, (uint32_t)key.len, hash, value};
    return true;
}

bool map_get(const map *m, str key, int64_t *value) {
    if (m->n_slots == 0) return false;
    if (!key.data) key.data = "";
    const map_slot *s = map_find(m->slots, m->n_slots, key, hash_of(key));
    if (!s->key) return false;
    if (value) *value = s->value;
    return true;
}
