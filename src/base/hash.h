// 64-bit hashes for tables and identities; not for security.
#ifndef TALLY_BASE_HASH_H
#define TALLY_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

// One round of splitmix64's output function: a bijection of 64-bit words that mixes every bit into every other.
static inline uint64_t hash_mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// FNV-1a over n bytes, finished by hash_mix.
static inline uint64_t hash_bytes(const void *data, size_t n) {
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return hash_mix(h);
}

#endif
