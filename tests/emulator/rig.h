// What the emulator's tests share: a fresh emulator per test, a few buffers, one operator to launch.
#ifndef TALLY_TESTS_EMULATOR_RIG_H
#define TALLY_TESTS_EMULATOR_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cann/acl_mdl_ri.h"
#include "cann/acl_rt.h"
#include "cann/aclnn_base.h"
#include "emulator/aclnn/probe.h"
#include "emulator/core/tally_emu.h"

enum { RIG_N = 64, RIG_BYTES = RIG_N * 4, RIG_WS = 65536 };

// Starts over with these settings, initialises, sets device 0.
void rig_start(const char *settings);
void rig_end(void); // checks nothing; forgets everything

#define OK(call) rig_ok((call), #call, __FILE__, __LINE__)
void rig_ok(int code, const char *call, const char *file, int line);

// The call returns the code and broke the rule.
#define BREAKS(rule, code, call) rig_breaks((call), (code), (rule), #call, __FILE__, __LINE__)
void rig_breaks(int got, int code, const char *rule, const char *call, const char *file, int line);

void *rig_malloc(size_t size);
void *rig_floats(float first, float step); // a device vector of RIG_N: first, first + step, ...
float rig_read(const void *device, int i); // one element, by a blocking copy
aclTensor *rig_tensor(void *device);       // a FLOAT vector of RIG_N

// out = a + b by the probe operator, with descriptors that live only for the call; the code of phase 2 (phase 1 must work).
int rig_add(const void *a, const void *b, void *out, void *workspace, aclrtStream stream);

#endif
