// Every function of the vendor's libraries that this backend uses, one line each. Nothing is linked: library.c looks each up at run
// time, so that the program starts where nothing is installed. Prototypes: cann/*.h, our own declarations.
#ifndef TALLY_BACKEND_ASCEND_SYMBOLS_H
#define TALLY_BACKEND_ASCEND_SYMBOLS_H

#include "cann/acl_mdl_ri.h"
#include "cann/acl_rt.h"
#include "cann/aclnn_base.h"
#include "cann/aclnn_ops.h"

// libascendcl and libnnopbase: a library without one of these is not one we can use.
#define ASCEND_REQUIRED(X) \
    X(ascendcl, aclInit) \
    X(ascendcl, aclGetRecentErrMsg) \
    X(ascendcl, aclrtGetSocName) \
    X(ascendcl, aclrtGetVersion) \
    X(ascendcl, aclrtGetDeviceCount) \
    X(ascendcl, aclrtSetDevice) \
    X(ascendcl, aclrtResetDevice) \
    X(ascendcl, aclrtCreateContext) \
    X(ascendcl, aclrtDestroyContext) \
    X(ascendcl, aclrtSetCurrentContext) \
    X(ascendcl, aclrtSetSysParamOpt) \
    X(ascendcl, aclrtCreateStream) \
    X(ascendcl, aclrtDestroyStream) \
    X(ascendcl, aclrtDestroyStreamForce) \
    X(ascendcl, aclrtSynchronizeStreamWithTimeout) \
    X(ascendcl, aclrtMalloc) \
    X(ascendcl, aclrtFree) \
    X(ascendcl, aclrtMallocHost) \
    X(ascendcl, aclrtFreeHost) \
    X(ascendcl, aclrtMemcpy) \
    X(ascendcl, aclrtMemcpyAsync) \
    X(ascendcl, aclrtMemset) \
    X(ascendcl, aclrtGetMemInfo) \
    X(nnopbase, aclCreateTensor) \
    X(nnopbase, aclCreateScalar) \
    X(nnopbase, aclCreateIntArray) \
    X(nnopbase, aclCreateTensorList) \
    X(nnopbase, aclDestroyTensor) \
    X(nnopbase, aclDestroyScalar) \
    X(nnopbase, aclDestroyIntArray) \
    X(nnopbase, aclDestroyTensorList) \
    X(nnopbase, aclDestroyAclOpExecutor)

// Functions that are done without where a library lacks them; NULL there.
#define ASCEND_OPTIONAL(X) \
    X(nnopbase, aclSetAclOpExecutorRepeatable) \
    X(ascendcl, aclmdlRICaptureBegin) \
    X(ascendcl, aclmdlRICaptureEnd) \
    X(ascendcl, aclmdlRIExecuteAsync) \
    X(ascendcl, aclmdlRIDestroy)

// Operators; each is two functions, NAME and NAMEGetWorkspaceSize. chips: the families whose documentation lists it (chip.h). An
// operator that a library or chip lacks is NULL; what is done instead stands in docs/ascend.md.
#define ASCEND_OPERATORS(X) \
    X(aclnnAdd, CHIPS_ALL) \
    X(aclnnAddRmsNorm, CHIPS_310P_UP) \
    X(aclnnAddmm, CHIPS_ALL) \
    X(aclnnApplyRotaryPosEmb, CHIPS_ALL) \
    X(aclnnApplyRotaryPosEmbV2, CHIPS_310P_UP) \
    X(aclnnCast, CHIPS_ALL) \
    X(aclnnDiv, CHIPS_ALL) \
    X(aclnnEqTensor, CHIPS_ALL) \
    X(aclnnFusedInferAttentionScoreV2, CHIPS_A2_A3) \
    X(aclnnFusedInferAttentionScoreV3, CHIPS_A2_A3) \
    X(aclnnFusedInferAttentionScoreV4, CHIPS_A2_A3) \
    X(aclnnFusedInferAttentionScoreV5, CHIPS_950) \
    X(aclnnGroupedMatmulV4, CHIPS_310P_UP) \
    X(aclnnGroupedMatmulV5, CHIPS_310P_UP) \
    X(aclnnIndexPutImpl, CHIPS_INDEX_PUT) \
    X(aclnnIndexSelect, CHIPS_ALL) \
    X(aclnnInplaceAdd, CHIPS_ALL) \
    X(aclnnInplaceCopy, CHIPS_ALL) \
    X(aclnnInplaceIndexCopy, CHIPS_A2_UP) \
    X(aclnnInplaceMaskedFillScalar, CHIPS_ALL) \
    X(aclnnInplaceMul, CHIPS_ALL) \
    X(aclnnInplaceMuls, CHIPS_ALL) \
    X(aclnnMatmul, CHIPS_ALL) \
    X(aclnnMm, CHIPS_ALL) \
    X(aclnnMoeFinalizeRoutingV2, CHIPS_310P_UP) \
    X(aclnnMoeGatingTopKSoftmaxV2, CHIPS_A2_UP) \
    X(aclnnMoeInitRoutingV2, CHIPS_310P_UP) \
    X(aclnnMul, CHIPS_ALL) \
    X(aclnnReduceSum, CHIPS_ALL) \
    X(aclnnRmsNorm, CHIPS_ALL) \
    X(aclnnRotaryPositionEmbedding, CHIPS_310P_UP) \
    X(aclnnSWhere, CHIPS_ALL) \
    X(aclnnScatterPaKvCache, CHIPS_A2_UP) \
    X(aclnnSilu, CHIPS_ALL) \
    X(aclnnSoftmax, CHIPS_ALL) \
    X(aclnnSub, CHIPS_ALL) \
    X(aclnnSwiGlu, CHIPS_310P_UP) \
    X(aclnnTopk, CHIPS_ALL) \
    X(aclnnTransMatmulWeight, CHIPS_310P_UP)

#endif
