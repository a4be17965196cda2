// Executors that are used again: what phase 1 made of a call's arguments, kept with its descriptors and found by everything that phase 1
// froze: the place in the source that called it (which decides operator and attributes), the operation, every tensor's address, type,
// shape and strides, every array and scalar. Nothing is rebound, so a kept executor is right whenever its key is.
//
// What is kept lives in memory made once; the executor used longest ago gives way.
#ifndef TALLY_BACKEND_ASCEND_EXECUTORS_H
#define TALLY_BACKEND_ASCEND_EXECUTORS_H

#include <stdbool.h>

#include "backend/ascend/library.h"

enum { CALL_MAX_TENSORS = 16, CALL_MAX_OTHERS = 8, KEY_WORDS = 112 };

typedef struct ascend_key {
    int n;
    bool fits; // in the words; a longer key stands for nothing
    uint64_t word[KEY_WORDS];
} ascend_key;

void ascend_key_add(ascend_key *k, uint64_t word);

typedef struct ascend_made { // descriptors of one call; owned
    const aclTensor *tensor[CALL_MAX_TENSORS];
    const aclTensorList *list[CALL_MAX_OTHERS];
    const aclIntArray *ints[CALL_MAX_OTHERS];
    const aclScalar *scalar[CALL_MAX_OTHERS];
    int n_tensors, n_lists, n_ints, n_scalars;
} ascend_made;

void ascend_made_destroy(const ascend_library *lib, ascend_made *m);

typedef struct ascend_kept {
    struct ascend_kept *next;          // of the same bucket
    struct ascend_kept *older, *newer; // by last use
    uint64_t hash;
    ascend_key key;
    aclOpExecutor *executor; // owned, as is
    ascend_made made;
    uint64_t need; // bytes of workspace
} ascend_kept;

typedef struct ascend_executors {
    const ascend_library *lib;
    int cap, n, n_buckets; // cap 0: none are kept; n_buckets: a power of two
    ascend_kept *all;      // [cap]; the first n are in use
    ascend_kept **bucket;
    ascend_kept *oldest, *newest;
    int64_t found, missed;
} ascend_executors;

status ascend_executors_init(ascend_executors *e, const ascend_library *lib, int cap, error *err);
void ascend_executors_free(ascend_executors *e);

// NULL: none. What is found counts as used now.
ascend_kept *ascend_executors_find(ascend_executors *e, const ascend_key *key);
// Takes over executor and descriptors.
void ascend_executors_keep(ascend_executors *e, const ascend_key *key, const ascend_kept *what);
void ascend_executors_drop(ascend_executors *e, ascend_kept *kept);

#endif
