// What follows --device: "ascend:N", or "emu:CHIP" with words between commas. See docs/ascend.md.
#ifndef TALLY_BACKEND_ASCEND_SPEC_H
#define TALLY_BACKEND_ASCEND_SPEC_H

#include <stdbool.h>

#include "base/status.h"

// Fused operators that can be switched off, each with the composition that then takes its place.
#define ASCEND_FUSED(X) \
    X(ADD_NORM, "add_norm") \
    X(ROPE, "rope") \
    X(ATTENTION, "attention") \
    X(SWIGLU, "swiglu") \
    X(SCATTER, "scatter") \
    X(BIAS, "bias") \
    X(MOE, "moe") \
    X(TOPK, "topk") \
    X(EXECUTORS, "executors") \
    X(NZ, "nz")

typedef enum ascend_fused {
#define ASCEND_FUSED_ENUM(name, text) ASCEND_FUSED_##name,
    ASCEND_FUSED(ASCEND_FUSED_ENUM)
#undef ASCEND_FUSED_ENUM
        ASCEND_FUSED_COUNT
} ascend_fused;

typedef struct ascend_spec {
    int device;
    bool emulated;
    char cann[8];       // the emulator's library version
    char settings[512]; // what the emulator is configured with, the chip first
    unsigned off;       // bits of ascend_fused
    bool exact;         // equal shapes for equal rows, at the price that docs/ascend.md names
    bool pieces;        // with exact: sums over what ranks share in their fixed pieces (pieces.h)
    int timeout_ms;     // of a step
    bool wide_head;     // the head in F32 where the chip can
    int tile;           // rows that every product is padded to
    enum { ASCEND_GRAPH_AUTO, ASCEND_GRAPH_ON, ASCEND_GRAPH_OFF } graph; // replay of captured steps
} ascend_spec;

status ascend_spec_parse(const char *text, ascend_spec *out, error *err);
// One more word, KEY=value; nothing for a NULL value.
status ascend_spec_set(ascend_spec *s, const char *key, const char *value, error *err);

#endif
