// Shapes of published models, and a folder with nothing but such a config.json: what `tally plan` needs.
#ifndef TALLY_TESTS_PUBLISHED_SHAPE_H
#define TALLY_TESTS_PUBLISHED_SHAPE_H

#include <stdbool.h>

#include "tests/support/temp_folder.h"

typedef struct published_shape { // from the model's config.json
    const char *name, *arch;
    int hidden, ffn, layers, heads, kv_heads, head_dim, vocab;
    bool tied;
    int experts, used, expert_ffn; // 0: dense
} published_shape;

// config.json in BF16; fails the test if it cannot be written.
void published_shape_write(const published_shape *shape, const temp_folder *folder);

#endif
