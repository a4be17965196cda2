#include "backend/ascend/executors.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

void ascend_key_add(ascend_key *k, uint64_t word) {
    k->fits = k->n < KEY_WORDS;
    if (k->fits) k->word[k->n++] = word;
}

void ascend_made_destroy(const ascend_library *lib, ascend_made *m) {
    for (int i = 0; i < m->n_tensors; i++) lib->aclDestroyTensor(m->tensor[i]);
    for (int i = 0; i < m->n_lists; i++) lib->aclDestroyTensorList(m->list[i]);
    for (int i = 0; i < m->n_ints; i++) lib->aclDestroyIntArray(m->ints[i]);
    for (int i = 0; i < m->n_scalars; i++) lib->aclDestroyScalar(m->scalar[i]);
    m->n_tensors = m->n_lists = m->n_ints = m->n_scalars = 0;
}

status ascend_executors_init(ascend_executors *e, const ascend_library *lib, int cap, error *err) {
    *e = (ascend_executors){.lib = lib, .n_buckets = 64};
    while (e->n_buckets < cap) e->n_buckets *= 2;
    e->all = calloc((size_t)cap, sizeof *e->all);
    e->bucket = calloc((size_t)e->n_buckets, sizeof *e->bucket);
    if (!e->all || !e->bucket) return error_no_memory(err, (unsigned long long)cap * sizeof *e->all);
    e->cap = cap;
    return STATUS_OK;
}

static void destroy(const ascend_executors *e, ascend_kept *k) {
    e->lib->aclDestroyAclOpExecutor(k->executor);
    ascend_made_destroy(e->lib, &k->made);
}

void ascend_executors_free(ascend_executors *e) {
    for (ascend_kept *k = e->newest; k; k = k->older) destroy(e, k);
    free(e->all);
    free(e->bucket);
    *e = (ascend_executors){0};
}

static ascend_kept **bucket_of(const ascend_executors *e, uint64_t hash) {
    return &e->bucket[hash & (uint64_t)(e->n_buckets - 1)];
}

static void unlink_use(ascend_executors *e, const ascend_kept *k) {
    *(k->newer ? &k->newer->older : &e->newest) = k->older;
    *(k->older ? &k->older->newer : &e->oldest) = k->newer;
}

static void link_newest(ascend_executors *e, ascend_kept *k) {
    k->older = e->newest, k->newer = NULL;
    *(e->newest ? &e->newest->newer : &e->oldest) = k;
    e->newest = k;
}

static uint64_t hash_of(const ascend_key *k) { return hash_bytes(k->word, (size_t)k->n * sizeof *k->word); }

ascend_kept *ascend_executors_find(ascend_executors *e, const ascend_key *key) {
    uint64_t hash = hash_of(key);
    for (ascend_kept *k = *bucket_of(e, hash); k; k = k->next) {
        if (k->hash != hash || k->key.n != key->n ||
            memcmp(k->key.word, key->word, (size_t)key->n * sizeof *key->word) != 0)
            continue;
        unlink_use(e, k);
        link_newest(e, k);
        e->found++;
        return k;
    }
    e->missed++;
    return NULL;
}

static void take_out(ascend_executors *e, ascend_kept *k) {
    ascend_kept **at = bucket_of(e, k->hash);
    while (*at != k) at = &(*at)->next;
    *at = k->next;
    unlink_use(e, k);
    destroy(e, k);
}

void ascend_executors_keep(ascend_executors *e, const ascend_key *key, const ascend_kept *what) {
    ascend_kept *k = e->n < e->cap ? &e->all[e->n++] : e->oldest;
    if (k == e->oldest) take_out(e, k); // its place is free again
    k->key = *key;
    k->hash = hash_of(key);
    k->executor = what->executor, k->made = what->made, k->need = what->need;
    k->next = *bucket_of(e, k->hash);
    *bucket_of(e, k->hash) = k;
    link_newest(e, k);
}

// The last one in use takes its place, so that those in use are the first n.
void ascend_executors_drop(ascend_executors *e, ascend_kept *kept) {
    ascend_kept *last = &e->all[--e->n];
    take_out(e, kept);
    if (last == kept) return;
    *kept = *last;
    ascend_kept **at = bucket_of(e, last->hash);
    while (*at != last) at = &(*at)->next;
    *at = kept;
    *(kept->newer ? &kept->newer->older : &e->newest) = kept;
    *(kept->older ? &kept->older->newer : &e->oldest) = kept;
}
