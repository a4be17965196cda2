// Descriptions of devices that come with the program, so that they can be named where a file can.
//
// The notes of each say where every number is from; none was measured by us.
#ifndef TALLY_BACKEND_COST_NAMED_DEVICES_H
#define TALLY_BACKEND_COST_NAMED_DEVICES_H

#include "op/passes.h"

#define NAMED_DEVICES_TEXT "ascend-a3, ascend-a2, ascend-910b3, ascend-910b4, ascend-910a"

// What the Ascend backend asks of the list (engine.c): all of these are Ascend NPUs.
enum { NAMED_DEVICE_PASSES = PASS_FUSE_ADD_NORM | PASS_MERGE_GATED | PASS_MERGE_NORMED };

// The JSON text of a device's description (hardware.h), or NULL.
const char *named_device(const char *name);

#endif
