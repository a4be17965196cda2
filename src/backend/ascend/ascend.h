// The Ascend backend: operation lists on an NPU through AscendCL and aclnn, or on the emulator of both. docs/ascend.md.
//
// Equal bits for equal rows come from equal shapes: every operator sees a fixed number of rows (the product tile), attention sees the
// 64 queries and the keys of a fixed block of positions, whatever the step's rows are. A step makes no allocation and waits once.
#ifndef TALLY_BACKEND_ASCEND_ASCEND_H
#define TALLY_BACKEND_ASCEND_ASCEND_H

#include "op/backend.h"

typedef struct ascend_options {
    const char *device; // "ascend:0", "emu:910B3,cann=8.5" (spec.h)
    const char *type;   // "f16", "bf16": of weights, activations and cache; NULL: natural
    const char *exact;  // "on", "off"; NULL: as `device` says, else on
    const char *graph;  // "auto", "on", "off"; likewise
    dtype natural;      // of most of the file's weights
} ascend_options;

bool ascend_is_device(const char *device); // whether the name is one of ours
status ascend_backend_create(backend **out, const ascend_options *o, error *err);

// What is installed, for `tally devices`: each library that was looked for, then each device, or why there is none.
typedef struct ascend_device_info {
    int id;
    char chip[64], family[16];
    int version[3];
    int64_t memory_bytes, free_bytes;
} ascend_device_info;

typedef struct ascend_listing {
    void *ctx;
    void (*library)(void *ctx, const char *file, const char *why); // why NULL: found
    void (*device)(void *ctx, const ascend_device_info *info);
} ascend_listing;

status ascend_list_devices(const ascend_listing *to, error *err);

#endif
