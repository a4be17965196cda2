// A device described in a JSON file (docs/plan.md): {"name", "memory_bytes", "bandwidth_bytes_per_s", "flops": {"f32", "f16",
// "bf16", "int8"}, "launch_s", "ranks_link": {"bandwidth_bytes_per_s", "latency_s", "collective_s"}, "notes"}.
//
// Peaks of f16, bf16 and int8 that are absent equal f32's, collective_s that is absent launch_s; ranks_link and notes may be absent;
// other fields are refused.
#ifndef TALLY_BACKEND_COST_HARDWARE_H
#define TALLY_BACKEND_COST_HARDWARE_H

#include <stddef.h>

#include "base/status.h"
#include "op/op_cost.h"

status hardware_read(hardware *h, const char *path, error *err);
// `path` is for messages only.
status hardware_parse(hardware *h, const char *text, size_t len, const char *path, error *err);

#endif
