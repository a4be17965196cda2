// Open addressing with linear probing; a slot's home is the top bits of its tag, so that removing can move later slots back and leaves no
// tombstones. Probing is bounded: a text made to collide loses entries, not time.
#include "spec/gram_index.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { PROBES = 256 };

static int bits_for(int n) {
    int bits = 4;
    while (bits < 31 && ((int64_t)1 << bits) < 2 * (int64_t)n) bits++;
    return bits;
}

static size_t slots_of(int min, int max, int bits) { return (size_t)(max - min + 1) << bits; }

size_t gram_index_bytes(int min, int max, int ways, int n) {
    return slots_of(min, max, bits_for(n)) * (size_t)(1 + ways) * sizeof(uint32_t);
}

status gram_index_create(gram_index *x, int min, int max, int ways, int n, error *err) {
    assert(min >= 1 && min <= max && max <= GRAM_MAX && ways >= 1 && n >= 1);
    *x = (gram_index){.min = min, .max = max, .ways = ways, .bits = bits_for(n)};
    x->slot = calloc(slots_of(min, max, x->bits), (size_t)(1 + ways) * sizeof(uint32_t));
    if (!x->slot) return error_no_memory(err, gram_index_bytes(min, max, ways, n));
    return STATUS_OK;
}

void gram_index_destroy(gram_index *x) {
    free(x->slot);
    x->slot = NULL;
}

void gram_index_clear(gram_index *x) {
    memset(x->slot, 0, slots_of(x->min, x->max, x->bits) * (size_t)(1 + x->ways) * sizeof(uint32_t));
}

void gram_tags(const int32_t *end, int max, uint32_t *tag) {
    uint64_t h = 0;
    for (int i = 1; i <= max; i++) {
        h = hash_mix(h ^ (uint32_t)end[-i]);
        tag[i] = (uint32_t)(h >> 32) | 1; // 0 is a free slot
    }
}

static uint32_t *slot_at(const gram_index *x, int length, uint32_t i) {
    return x->slot + (((size_t)(length - x->min) << x->bits) + i) * (size_t)(1 + x->ways);
}

static bool same_gram(gram_text text, gram_key key, uint32_t place) {
    for (int i = 1; i <= key.length; i++) {
        if (text.token[(place - (uint32_t)i) & text.mask] != key.token[key.length - i]) return false;
    }
    return true;
}

// The gram's slot or else the free slot where it belongs (*is_free); -1: neither within the probes.
static int64_t find_slot(const gram_index *x, gram_text text, gram_key key, bool *is_free) {
    uint32_t mask = ((uint32_t)1 << x->bits) - 1, at = key.tag >> (32 - x->bits);
    *is_free = false;
    for (int i = 0; i < PROBES && (uint32_t)i <= mask; i++, at = (at + 1) & mask) {
        const uint32_t *s = slot_at(x, key.length, at);
        if (!s[0]) return *is_free = true, at;
        if (s[0] == key.tag && same_gram(text, key, s[1] - 1)) return at;
    }
    return -1;
}

void gram_index_add(gram_index *x, gram_text text, gram_key key, uint32_t place) {
    bool is_free;
    int64_t at = find_slot(x, text, key, &is_free);
    if (at < 0) return;
    uint32_t *s = slot_at(x, key.length, (uint32_t)at);
    s[0] = key.tag;
    int32_t next = text.token[place & text.mask];
    int way = 1; // the entry that makes room: free, of the same following token, or the oldest
    while (way < x->ways && s[way] && text.token[(s[way] - 1) & text.mask] != next) way++;
    memmove(s + 2, s + 1, (size_t)(way - 1) * sizeof(*s));
    s[1] = place + 1;
}

// Empties slot `at`: what probed past it moves back.
static void free_slot(gram_index *x, int length, uint32_t at) {
    uint32_t mask = ((uint32_t)1 << x->bits) - 1;
    for (uint32_t i = (at + 1) & mask; slot_at(x, length, i)[0]; i = (i + 1) & mask) {
        uint32_t home = slot_at(x, length, i)[0] >> (32 - x->bits);
        if (((i - home) & mask) < ((i - at) & mask)) continue; // its home is behind the hole
        memcpy(slot_at(x, length, at), slot_at(x, length, i), (size_t)(1 + x->ways) * sizeof(uint32_t));
        at = i;
    }
    memset(slot_at(x, length, at), 0, (size_t)(1 + x->ways) * sizeof(uint32_t));
}

void gram_index_remove(gram_index *x, gram_text text, gram_key key, uint32_t place) {
    bool is_free;
    int64_t at = find_slot(x, text, key, &is_free);
    if (at < 0 || is_free) return;
    uint32_t *s = slot_at(x, key.length, (uint32_t)at);
    for (int way = 1; way <= x->ways; way++) {
        if (s[way] != place + 1) continue;
        memmove(s + way, s + way + 1, (size_t)(x->ways - way) * sizeof(*s));
        s[x->ways] = 0;
        break;
    }
    if (!s[1]) free_slot(x, key.length, (uint32_t)at);
}

int gram_index_find(const gram_index *x, gram_text text, gram_key key, uint32_t *place, int max_places) {
    bool is_free;
    int64_t at = find_slot(x, text, key, &is_free);
    if (at < 0 || is_free) return 0;
    const uint32_t *s = slot_at(x, key.length, (uint32_t)at);
    int n = 0;
    while (n < max_places && n < x->ways && s[1 + n]) place[n] = s[1 + n] - 1, n++;
    return n;
}
