// Handles. Objects behind them live in memory of their own that is never given back and, once destroyed, stays marked for a long
// time, so that any pointer a program hands in can be examined: alive, destroyed, of another kind, or none of ours.
#ifndef TALLY_EMULATOR_CORE_OBJECT_H
#define TALLY_EMULATOR_CORE_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum emu_kind {
    EMU_CONTEXT,
    EMU_STREAM,
    EMU_EVENT,
    EMU_BLOCK, // device memory; counted only
    EMU_HOST,  // pinned host memory; counted only
    EMU_PHYSICAL,
    EMU_TENSOR,
    EMU_SCALAR,
    EMU_INT_ARRAY,
    EMU_FLOAT_ARRAY,
    EMU_BOOL_ARRAY,
    EMU_TENSOR_LIST,
    EMU_SCALAR_LIST,
    EMU_EXECUTOR,
    EMU_GRAPH,
    EMU_GROUP,
    EMU_KIND_COUNT
} emu_kind;

typedef struct emu_object {
    uint64_t mark; // a function of the address while it holds an object
    uint32_t size_class;
    uint16_t kind;
    bool alive, counted;
    uint64_t id;
    struct emu_object *next_free;
} emu_object;

typedef enum emu_look { EMU_ALIVE, EMU_DESTROYED, EMU_OTHER_KIND, EMU_UNKNOWN } emu_look;

// Zeroed, alive. size: of the struct that begins with the head; at most 1 MiB. NULL: no memory.
void *emu_object_create(emu_kind kind, size_t size, bool counted);
void emu_object_destroy(void *object);
emu_look emu_object_look(const void *handle, emu_kind kind);
// 0, or breaks dead_handle or wrong_handle (descriptors: bad_argument's code family is left to the caller).
int emu_object_need(const void *handle, emu_kind kind, const char *what);
const char *emu_kind_name(emu_kind kind);
void emu_object_each(emu_kind kind, void (*fn)(void *object)); // those alive
void emu_objects_forget(void);                                 // all of them

#endif
