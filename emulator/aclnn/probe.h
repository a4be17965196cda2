// An operator of the emulator's own, for tests of the machinery: out = a + b over contiguous FLOAT tensors of one shape; it exists on
// every chip and in every version.
#ifndef TALLY_EMULATOR_ACLNN_PROBE_H
#define TALLY_EMULATOR_ACLNN_PROBE_H

#include "cann/aclnn_base.h"

aclnnStatus tally_emu_probe_get_workspace_size(const aclTensor *a, const aclTensor *b, aclTensor *out,
                                               uint64_t *workspace_size, aclOpExecutor **executor);
aclnnStatus tally_emu_probe(void *workspace, uint64_t workspace_size, aclOpExecutor *executor, aclrtStream stream);

// The sum of a list's tensors, begun at one of them that perturbation chooses. On A2 that choice differs from run to run unless
// determinism is switched on.
aclnnStatus tally_emu_probe_list_get_workspace_size(const aclTensorList *list, aclTensor *out, uint64_t *workspace_size,
                                                    aclOpExecutor **executor);
aclnnStatus tally_emu_probe_list(void *workspace, uint64_t workspace_size, aclOpExecutor *executor, aclrtStream stream);

#endif
