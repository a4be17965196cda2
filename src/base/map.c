#include "base/map.h"

#include <stdlib.h>

#include "base/hash.h"

typedef struct map_slot {
    str key; // data NULL: empty
    uint64_t hash;
    int64_t value;
} map_slot;

void map_init(map *m) { *m = (map){0}; }

void map_deinit(map *m) {
    free(m->slots);
    *m = (map){0};
}

// The slot that holds the key, or the empty one where it belongs. Linear probing; the table is never full.
static map_slot *map_find(map_slot *slots, size_t n_slots, str key, uint64_t hash) {
    for (size_t i = hash & (n_slots - 1);; i = (i + 1) & (n_slots - 1)) {
        map_slot *s = &slots[i];
        if (!s->key.data || (s->hash == hash && str_eq(s->key, key))) return s;
    }
}

static bool map_grow(map *m) {
    size_t n = m->n_slots ? m->n_slots * 2 : 64;
    map_slot *slots = calloc(n, sizeof *slots);
    if (!slots) return false;
    for (size_t i = 0; i < m->n_slots; i++) {
        if (m->slots[i].key.data) *map_find(slots, n, m->slots[i].key, m->slots[i].hash) = m->slots[i];
    }
    free(m->slots);
    m->slots = slots;
    m->n_slots = n;
    return true;
}

bool map_put(map *m, str key, int64_t value) {
    if (!key.data) key.data = ""; // an empty key still marks its slot as used
    if ((m->count + 1) * 4 > m->n_slots * 3 && !map_grow(m)) return false;
    uint64_t hash = hash_bytes(key.data, key.len);
    map_slot *s = map_find(m->slots, m->n_slots, key, hash);
    if (!s->key.data) m->count++;
    *s = (map_slot){key, hash, value};
    return true;
}

bool map_get(const map *m, str key, int64_t *value) {
    if (m->n_slots == 0) return false;
    if (!key.data) key.data = "";
    const map_slot *s = map_find(m->slots, m->n_slots, key, hash_bytes(key.data, key.len));
    if (!s->key.data) return false;
    if (value) *value = s->value;
    return true;
}
