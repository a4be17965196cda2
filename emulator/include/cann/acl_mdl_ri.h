// The C ABI of graph capture in libascendcl. The capture group is in CANN 8.1; aclmdlRIExecute and the build group since 8.3.
#ifndef TALLY_CANN_ACL_MDL_RI_H
#define TALLY_CANN_ACL_MDL_RI_H

#include "cann/acl_errors.h"
#include "cann/acl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode);
aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI *model);
aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus *status, aclmdlRI *model);
aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode);
aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream);
aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp *group);
aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp group);
aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream);
aclError aclmdlRIExecuteAsync(aclmdlRI model, aclrtStream stream);
aclError aclmdlRIExecute(aclmdlRI model, int32_t timeout_ms);
aclError aclmdlRIDestroy(aclmdlRI model);
aclError aclmdlRIDebugPrint(aclmdlRI model);
aclError aclmdlRIDebugJsonPrint(aclmdlRI model, const char *path, uint32_t flags);

aclError aclmdlRIBuildBegin(aclmdlRI *model, uint32_t flag);
aclError aclmdlRIBindStream(aclmdlRI model, aclrtStream stream, uint32_t flag);
aclError aclmdlRIUnbindStream(aclmdlRI model, aclrtStream stream);
aclError aclmdlRIEndTask(aclmdlRI model, aclrtStream stream);
aclError aclmdlRIBuildEnd(aclmdlRI model, void *reserve);

#ifdef __cplusplus
}
#endif

#endif
