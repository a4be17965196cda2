// Executors and launches.
//
// A body is what phase 1 made of an operator's arguments: never changed afterwards, shared by its executor and by all launches. A
// launch is one issue of it: the addresses of its tensors and its workspace, frozen when phase 2 is called. Graphs keep launches.
#ifndef TALLY_EMULATOR_ACLNN_EXECUTOR_H
#define TALLY_EMULATOR_ACLNN_EXECUTOR_H

#include "emulator/aclnn/descriptor.h"
#include "emulator/core/state.h"

typedef struct emu_slot {
    const char *name;
    int access; // emu_access
    bool is_list;
    int first, n;    // of the body's tensors
    emu_view *views; // [n]
    uint64_t dense;  // bit j: the kernel gets tensor j contiguous, by a copy (strict=off only)
} emu_slot;

typedef struct emu_body {
    int references;
    const char *name;
    emu_slot slot[EMU_MAX_SLOTS];
    int n_slots, n_tensors;
    emu_kernel *kernel;
    void *attrs;
    uint64_t workspace; // bytes phase 1 asked for
    uint64_t signature;
    bool not_repeatable;
    unsigned varies_on;
    struct emu_chunk *chunks; // memory of emu_op_alloc
} emu_body;

typedef struct emu_held { // an argument that is no tensor; memory of the body
    struct emu_held *next;
    const void *handle;
    emu_kind kind;
    const char *name;
} emu_held;

struct aclOpExecutor {
    emu_object head;
    emu_body *body;
    emu_held *held;
    aclTensor **sources; // [n_tensors] of the body; memory of the body
    void **addresses;    // as phase 1 saw them, or as set since
    bool repeatable, launched, rebound;
};

struct emu_launch {
    int references;
    emu_body *body;
    void *workspace;
    uint64_t workspace_size;
    bool varies;            // at each run: determinism was off at phase 2
    bool private_workspace; // the program's overlaps a tensor, and strict=off lets that pass
    uint64_t addresses[];   // [n_tensors] of the first byte of storage
};

const char *emu_launch_name(const emu_launch *l);
void emu_launch_drop(emu_launch *l);                     // gives up one reference; NULL is fine
int emu_launch_run(emu_launch *l, int device);           // computes it now
emu_task *emu_launch_task(emu_stream *s, emu_launch *l); // with its ranges; owns the launch, dropped on failure (NULL)
void emu_body_drop(emu_body *b);
void *emu_body_alloc(emu_body *b, size_t size); // zeroed

// First byte and number of bytes of a view's elements in memory, relative to the tensor's address. false: empty.
bool emu_view_bytes(const emu_view *v, uint64_t *first, uint64_t *size);

#endif
