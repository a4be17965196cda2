// Phase 1 of each operator that the emulator has; phase 2 of all of them is
//
//     aclnnStatus aclnnX(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);
//
// and is declared by ACLNN_PHASE_2(aclnnX). Names, orders and types of parameters are facts of the vendor's ABI: those in CANN 8.1
// were compared with its Apache-2.0 headers, the newer ones with the documentation of 9.1. What an operator accepts:
// emulator/OPERATORS.md.
#ifndef TALLY_CANN_ACLNN_OPS_H
#define TALLY_CANN_ACLNN_OPS_H

#include "cann/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif
// clang-format off

#define ACLNN_PHASE_2(name) \
    aclnnStatus name(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream)
#define ACLNN_OP(name, ...) \
    ACLNN_PHASE_2(name); \
    aclnnStatus name##GetWorkspaceSize(__VA_ARGS__, uint64_t *workspaceSize, aclOpExecutor **executor)

// ---- Products of matrices, NZ weights ----
ACLNN_OP(aclnnAddmm, const aclTensor *self, const aclTensor *mat1, const aclTensor *mat2, const aclScalar *beta, const
         aclScalar *alpha, aclTensor *out, int8_t cubeMathType);
ACLNN_OP(aclnnBatchMatMul, const aclTensor *self, const aclTensor *mat2, aclTensor *out, int8_t cubeMathType);
ACLNN_OP(aclnnBatchMatMulWeightNz, const aclTensor *self, const aclTensor *mat2, aclTensor *out, int8_t cubeMathType);
ACLNN_OP(aclnnGroupedMatmul, const aclTensorList *x, const aclTensorList *weight, const aclTensorList *biasOptional,
         const aclTensorList *scaleOptional, const aclTensorList *offsetOptional, const aclTensorList
         *antiquantScaleOptional, const aclTensorList *antiquantOffsetOptional, const aclIntArray *groupListOptional,
         int64_t splitItem, const aclTensorList *y);
ACLNN_OP(aclnnGroupedMatmulV2, const aclTensorList *x, const aclTensorList *weight, const aclTensorList *biasOptional,
         const aclTensorList *scaleOptional, const aclTensorList *offsetOptional, const aclTensorList
         *antiquantScaleOptional, const aclTensorList *antiquantOffsetOptional, const aclIntArray *groupListOptional,
         int64_t splitItem, int64_t groupType, const aclTensorList *y);
ACLNN_OP(aclnnGroupedMatmulV3, const aclTensorList *x, const aclTensorList *weight, const aclTensorList *biasOptional,
         const aclTensorList *scaleOptional, const aclTensorList *offsetOptional, const aclTensorList
         *antiquantScaleOptional, const aclTensorList *antiquantOffsetOptional, const aclTensor *groupListOptional,
         int64_t splitItem, int64_t groupType, const aclTensorList *y);
ACLNN_OP(aclnnGroupedMatmulV4, const aclTensorList *x, const aclTensorList *weight, const aclTensorList *biasOptional,
         const aclTensorList *scaleOptional, const aclTensorList *offsetOptional, const aclTensorList
         *antiquantScaleOptional, const aclTensorList *antiquantOffsetOptional, const aclTensorList
         *perTokenScaleOptional, const aclTensor *groupListOptional, const aclTensorList *activationInputOptional, const
         aclTensorList *activationQuantScaleOptional, const aclTensorList *activationQuantOffsetOptional, int64_t
         splitItem, int64_t groupType, int64_t groupListType, int64_t actType, aclTensorList *out, aclTensorList
         *activationFeatureOutOptional, aclTensorList *dynQuantScaleOutOptional);
ACLNN_OP(aclnnGroupedMatmulV5, const aclTensorList *x, const aclTensorList *weight, const aclTensorList *biasOptional,
         const aclTensorList *scaleOptional, const aclTensorList *offsetOptional, const aclTensorList
         *antiquantScaleOptional, const aclTensorList *antiquantOffsetOptional, const aclTensorList
         *perTokenScaleOptional, const aclTensor *groupListOptional, const aclTensorList *activationInputOptional, const
         aclTensorList *activationQuantScaleOptional, const aclTensorList *activationQuantOffsetOptional, int64_t
         splitItem, int64_t groupType, int64_t groupListType, int64_t actType, const aclIntArray *tuningConfigOptional,
         aclTensorList *out, aclTensorList *activationFeatureOutOptional, aclTensorList *dynQuantScaleOutOptional);
ACLNN_OP(aclnnGroupedMatmulWeightNz, const aclTensorList *x, const aclTensorList *weight, const aclTensorList
         *biasOptional, const aclTensorList *scaleOptional, const aclTensorList *offsetOptional, const aclTensorList
         *antiquantScaleOptional, const aclTensorList *antiquantOffsetOptional, const aclTensorList
         *perTokenScaleOptional, const aclTensor *groupListOptional, const aclTensorList *activationInputOptional, const
         aclTensorList *activationQuantScaleOptional, const aclTensorList *activationQuantOffsetOptional, int64_t
         splitItem, int64_t groupType, int64_t groupListType, int64_t actType, const aclIntArray *tuningConfigOptional,
         int64_t quantGroupSize, aclTensorList *out, aclTensorList *activationFeatureOutOptional, aclTensorList
         *dynQuantScaleOutOptional);
ACLNN_OP(aclnnInplaceAddmm, const aclTensor *selfRef, const aclTensor *mat1, const aclTensor *mat2, const aclScalar
         *beta, const aclScalar *alpha, int8_t cubeMathType);
ACLNN_OP(aclnnMatmul, const aclTensor *self, const aclTensor *mat2, aclTensor *out, int8_t cubeMathType);
ACLNN_OP(aclnnMatmulWeightNz, const aclTensor *self, const aclTensor *mat2, aclTensor *out, int8_t cubeMathType);
ACLNN_OP(aclnnMm, const aclTensor *self, const aclTensor *mat2, aclTensor *out, int8_t cubeMathType);
ACLNN_OP(aclnnMv, const aclTensor *self, const aclTensor *vec, aclTensor *out, int8_t cubeMathType);
ACLNN_OP(aclnnNpuFormatCast, const aclTensor *src, aclTensor *dst);
ACLNN_OP(aclnnTransMatmulWeight, aclTensor *mmWeightRef);
ACLNN_OP(aclnnWeightQuantBatchMatmulV2, const aclTensor *x, const aclTensor *weight, const aclTensor *antiquantScale,
         const aclTensor *antiquantOffsetOptional, const aclTensor *quantScaleOptional, const aclTensor
         *quantOffsetOptional, const aclTensor *biasOptional, int antiquantGroupSize, const aclTensor *y);

// ---- Norms, activations with a gate ----
ACLNN_OP(aclnnAddRmsNorm, const aclTensor *x1, const aclTensor *x2, const aclTensor *gamma, double epsilon, const
         aclTensor *yOut, const aclTensor *rstdOut, const aclTensor *xOut);
ACLNN_OP(aclnnGeGluV3, const aclTensor *self, int64_t dim, int64_t approximate, bool activateLeft, aclTensor *out,
         aclTensor *outGelu);
ACLNN_OP(aclnnGroupNorm, const aclTensor *self, const aclTensor *gamma, const aclTensor *beta, int64_t N, int64_t C,
         int64_t HxW, int64_t group, double eps, aclTensor *out, aclTensor *meanOut, aclTensor *rstdOut);
ACLNN_OP(aclnnInplaceAddRmsNorm, aclTensor *x1Ref, aclTensor *x2Ref, const aclTensor *gamma, double epsilon, const
         aclTensor *rstdOut);
ACLNN_OP(aclnnLayerNorm, const aclTensor *input, const aclIntArray *normalizedShape, const aclTensor *weightOptional,
         const aclTensor *biasOptional, double eps, aclTensor *out, aclTensor *meanOutOptional, aclTensor
         *rstdOutOptional);
ACLNN_OP(aclnnLogSoftmax, const aclTensor *self, int64_t dim, aclTensor *out);
ACLNN_OP(aclnnNorm, const aclTensor *self, const aclScalar *pScalar, const aclIntArray *dim, bool keepdim, aclTensor
         *out);
ACLNN_OP(aclnnRmsNorm, const aclTensor *x, const aclTensor *gamma, double epsilon, const aclTensor *yOut, const
         aclTensor *rstdOut);
ACLNN_OP(aclnnSoftmax, const aclTensor *self, int64_t dim, aclTensor *out);
ACLNN_OP(aclnnSwiGlu, const aclTensor *x, int64_t dim, const aclTensor *out);

// ---- Rotary embedding ----
ACLNN_OP(aclnnApplyRotaryPosEmb, aclTensor *queryRef, aclTensor *keyRef, const aclTensor *cos, const aclTensor *sin,
         int64_t layout);
ACLNN_OP(aclnnApplyRotaryPosEmbV2, aclTensor *queryRef, aclTensor *keyRef, const aclTensor *cos, const aclTensor *sin,
         int64_t layout, char *rotaryMode);
ACLNN_OP(aclnnRotaryPositionEmbedding, const aclTensor *x, const aclTensor *cos, const aclTensor *sin, int64_t mode,
         aclTensor *out);

// ---- Attention ----
ACLNN_OP(aclnnFusedInferAttentionScoreV2, const aclTensor *query, const aclTensorList *key, const aclTensorList *value,
         const aclTensor *pseShiftOptional, const aclTensor *attenMaskOptional, const aclIntArray
         *actualSeqLengthsOptional, const aclIntArray *actualSeqLengthsKvOptional, const aclTensor *deqScale1Optional,
         const aclTensor *quantScale1Optional, const aclTensor *deqScale2Optional, const aclTensor *quantScale2Optional,
         const aclTensor *quantOffset2Optional, const aclTensor *antiquantScaleOptional, const aclTensor
         *antiquantOffsetOptional, const aclTensor *blockTableOptional, const aclTensor *queryPaddingSizeOptional, const
         aclTensor *kvPaddingSizeOptional, const aclTensor *keyAntiquantScaleOptional, const aclTensor
         *keyAntiquantOffsetOptional, const aclTensor *valueAntiquantScaleOptional, const aclTensor
         *valueAntiquantOffsetOptional, const aclTensor *keySharedPrefixOptional, const aclTensor
         *valueSharedPrefixOptional, const aclIntArray *actualSharedPrefixLenOptional, int64_t numHeads, double
         scaleValue, int64_t preTokens, int64_t nextTokens, char *inputLayout, int64_t numKeyValueHeads, int64_t
         sparseMode, int64_t innerPrecise, int64_t blockSize, int64_t antiquantMode, bool softmaxLseFlag, int64_t
         keyAntiquantMode, int64_t valueAntiquantMode, const aclTensor *attentionOut, const aclTensor *softmaxLse);
ACLNN_OP(aclnnFusedInferAttentionScoreV3, const aclTensor *query, const aclTensorList *key, const aclTensorList *value,
         const aclTensor *pseShiftOptional, const aclTensor *attenMaskOptional, const aclIntArray
         *actualSeqLengthsOptional, const aclIntArray *actualSeqLengthsKvOptional, const aclTensor *deqScale1Optional,
         const aclTensor *quantScale1Optional, const aclTensor *deqScale2Optional, const aclTensor *quantScale2Optional,
         const aclTensor *quantOffset2Optional, const aclTensor *antiquantScaleOptional, const aclTensor
         *antiquantOffsetOptional, const aclTensor *blockTableOptional, const aclTensor *queryPaddingSizeOptional, const
         aclTensor *kvPaddingSizeOptional, const aclTensor *keyAntiquantScaleOptional, const aclTensor
         *keyAntiquantOffsetOptional, const aclTensor *valueAntiquantScaleOptional, const aclTensor
         *valueAntiquantOffsetOptional, const aclTensor *keySharedPrefixOptional, const aclTensor
         *valueSharedPrefixOptional, const aclIntArray *actualSharedPrefixLenOptional, const aclTensor
         *queryRopeOptional, const aclTensor *keyRopeOptional, const aclTensor *keyRopeAntiquantScaleOptional, int64_t
         numHeads, double scaleValue, int64_t preTokens, int64_t nextTokens, char *inputLayout, int64_t
         numKeyValueHeads, int64_t sparseMode, int64_t innerPrecise, int64_t blockSize, int64_t antiquantMode, bool
         softmaxLseFlag, int64_t keyAntiquantMode, int64_t valueAntiquantMode, const aclTensor *attentionOut, const
         aclTensor *softmaxLse);
ACLNN_OP(aclnnFusedInferAttentionScoreV4, const aclTensor *query, const aclTensorList *key, const aclTensorList *value,
         const aclTensor *pseShiftOptional, const aclTensor *attenMaskOptional, const aclIntArray
         *actualSeqLengthsOptional, const aclIntArray *actualSeqLengthsKvOptional, const aclTensor *deqScale1Optional,
         const aclTensor *quantScale1Optional, const aclTensor *deqScale2Optional, const aclTensor *quantScale2Optional,
         const aclTensor *quantOffset2Optional, const aclTensor *antiquantScaleOptional, const aclTensor
         *antiquantOffsetOptional, const aclTensor *blockTableOptional, const aclTensor *queryPaddingSizeOptional, const
         aclTensor *kvPaddingSizeOptional, const aclTensor *keyAntiquantScaleOptional, const aclTensor
         *keyAntiquantOffsetOptional, const aclTensor *valueAntiquantScaleOptional, const aclTensor
         *valueAntiquantOffsetOptional, const aclTensor *keySharedPrefixOptional, const aclTensor
         *valueSharedPrefixOptional, const aclIntArray *actualSharedPrefixLenOptional, const aclTensor
         *queryRopeOptional, const aclTensor *keyRopeOptional, const aclTensor *keyRopeAntiquantScaleOptional, const
         aclTensor *dequantScaleQueryOptional, const aclTensor *learnableSinkOptional, int64_t numHeads, double
         scaleValue, int64_t preTokens, int64_t nextTokens, char *inputLayout, int64_t numKeyValueHeads, int64_t
         sparseMode, int64_t innerPrecise, int64_t blockSize, int64_t antiquantMode, bool softmaxLseFlag, int64_t
         keyAntiquantMode, int64_t valueAntiquantMode, int64_t queryQuantMode, const aclTensor *attentionOut, const
         aclTensor *softmaxLse);
ACLNN_OP(aclnnFusedInferAttentionScoreV5, const aclTensor *query, const aclTensorList *key, const aclTensorList *value,
         const aclTensor *pseShiftOptional, const aclTensor *attenMaskOptional, const aclIntArray
         *actualSeqLengthsOptional, const aclIntArray *actualSeqLengthsKvOptional, const aclTensor *deqScale1Optional,
         const aclTensor *quantScale1Optional, const aclTensor *deqScale2Optional, const aclTensor *quantScale2Optional,
         const aclTensor *quantOffset2Optional, const aclTensor *antiquantScaleOptional, const aclTensor
         *antiquantOffsetOptional, const aclTensor *blockTableOptional, const aclTensor *queryPaddingSizeOptional, const
         aclTensor *kvPaddingSizeOptional, const aclTensor *keyAntiquantScaleOptional, const aclTensor
         *keyAntiquantOffsetOptional, const aclTensor *valueAntiquantScaleOptional, const aclTensor
         *valueAntiquantOffsetOptional, const aclTensor *keySharedPrefixOptional, const aclTensor
         *valueSharedPrefixOptional, const aclIntArray *actualSharedPrefixLenOptional, const aclTensor
         *queryRopeOptional, const aclTensor *keyRopeOptional, const aclTensor *keyRopeAntiquantScaleOptional, const
         aclTensor *dequantScaleQueryOptional, const aclTensor *learnableSinkOptional, const aclIntArray
         *qStartIdxOptional, const aclIntArray *kvStartIdxOptional, int64_t numHeads, double scaleValue, int64_t
         preTokens, int64_t nextTokens, char *inputLayout, int64_t numKeyValueHeads, int64_t sparseMode, int64_t
         innerPrecise, int64_t blockSize, int64_t antiquantMode, bool softmaxLseFlag, int64_t keyAntiquantMode, int64_t
         valueAntiquantMode, int64_t queryQuantMode, int64_t pseType, const aclTensor *attentionOut, const aclTensor
         *softmaxLse);
ACLNN_OP(aclnnIncreFlashAttentionV4, const aclTensor *query, const aclTensorList *key, const aclTensorList *value, const
         aclTensor *pseShift, const aclTensor *attenMask, const aclIntArray *actualSeqLengths, const aclTensor
         *dequantScale1, const aclTensor *quantScale1, const aclTensor *dequantScale2, const aclTensor *quantScale2,
         const aclTensor *quantOffset2, const aclTensor *antiquantScale, const aclTensor *antiquantOffset, const
         aclTensor *blocktable, const aclTensor *kvPaddingSize, int64_t numHeads, double scaleValue, char *inputLayout,
         int64_t numKeyValueHeads, int64_t blockSize, int64_t innerPrecise, const aclTensor *attentionOut);
ACLNN_OP(aclnnPromptFlashAttentionV3, const aclTensor *query, const aclTensor *key, const aclTensor *value, const
         aclTensor *pseShift, const aclTensor *attenMask, const aclIntArray *actualSeqLengths, const aclIntArray
         *actualSeqLengthsKv, const aclTensor *deqScale1, const aclTensor *quantScale1, const aclTensor *deqScale2,
         const aclTensor *quantScale2, const aclTensor *quantOffset2, int64_t numHeads, double scaleValue, int64_t
         preTokens, int64_t nextTokens, char *inputLayout, int64_t numKeyValueHeads, int64_t sparseMode, int64_t
         innerPrecise, const aclTensor *attentionOut);
ACLNN_OP(aclnnScatterPaKvCache, const aclTensor *key, aclTensor *keyCacheRef, const aclTensor *slotMapping, const
         aclTensor *value, aclTensor *valueCacheRef, const aclTensor *compressLensOptional, const aclTensor
         *compressSeqOffsetOptional, const aclTensor *seqLensOptional, char *cacheModeOptional, char
         *scatterModeOptional, const aclIntArray *stridesOptional, const aclIntArray *offsetsOptional);

// ---- Mixture of experts ----
ACLNN_OP(aclnnMoeFinalizeRoutingV2, const aclTensor *expandedX, const aclTensor *expandedRowIdx, const aclTensor
         *x1Optional, const aclTensor *x2Optional, const aclTensor *biasOptional, const aclTensor *scalesOptional, const
         aclTensor *expertIdxOptional, int64_t dropPadMode, const aclTensor *out);
ACLNN_OP(aclnnMoeGatingTopK, const aclTensor *x, const aclTensor *biasOptional, int64_t k, int64_t kGroup, int64_t
         groupCount, int64_t groupSelectMode, int64_t renorm, int64_t normType, bool outFlag, double
         routedScalingFactor, double eps, const aclTensor *yOut, const aclTensor *expertIdxOut, const aclTensor
         *outOut);
ACLNN_OP(aclnnMoeGatingTopKSoftmax, const aclTensor *x, const aclTensor *finishedOptional, int64_t k, const aclTensor
         *yOut, const aclTensor *expertIdxOut, const aclTensor *rowIdxOut);
ACLNN_OP(aclnnMoeGatingTopKSoftmaxV2, const aclTensor *x, const aclTensor *finishedOptional, int64_t k, int64_t renorm,
         bool outputSoftmaxResultFlag, const aclTensor *yOut, const aclTensor *expertIdxOut, const aclTensor
         *softmaxResultOutOptional);
ACLNN_OP(aclnnMoeInitRoutingV2, const aclTensor *x, const aclTensor *expertIdx, int64_t activeNumOptional, int64_t
         expertCapacityOptional, int64_t expertNumOptional, int64_t dropPadModeOptional, int64_t
         expertTokensCountOrCumsumFlagOptional, bool expertTokensBeforeCapacityFlagOptional, const aclTensor
         *expandedXOut, const aclTensor *expandedRowIdxOut, const aclTensor *expertTokensCountOrCumsumOutOptional, const
         aclTensor *expertTokensBeforeCapacityOutOptional);
ACLNN_OP(aclnnMoeInitRoutingV3, const aclTensor *x, const aclTensor *expertIdx, const aclTensor *scaleOptional, const
         aclTensor *offsetOptional, int64_t activeNum, int64_t expertCapacity, int64_t expertNum, int64_t dropPadMode,
         int64_t expertTokensNumType, bool expertTokensNumFlag, int64_t quantMode, const aclIntArray
         *activeExpertRangeOptional, int64_t rowIdxType, const aclTensor *expandedXOut, const aclTensor
         *expandedRowIdxOut, const aclTensor *expertTokensCountOrCumsumOut, const aclTensor *expandedScaleOut);

// ---- Elementwise, indexing, sorting, reducing, filling ----
ACLNN_OP(aclnnAbs, const aclTensor *self, aclTensor *out);
ACLNN_OP(aclnnAdd, const aclTensor *self, const aclTensor *other, const aclScalar *alpha, aclTensor *out);
ACLNN_OP(aclnnAdds, const aclTensor *self, const aclScalar *other, const aclScalar *alpha, aclTensor *out);
ACLNN_OP(aclnnAmax, const aclTensor *self, const aclIntArray *dim, bool keepDim, aclTensor *out);
ACLNN_OP(aclnnArange, const aclScalar *start, const aclScalar *end, const aclScalar *step, aclTensor *out);
ACLNN_OP(aclnnArgMax, const aclTensor *self, int64_t dim, bool keepdim, aclTensor *out);
ACLNN_OP(aclnnArgsort, const aclTensor *self, int64_t dim, bool descending, aclTensor *out);
ACLNN_OP(aclnnAvgPool2d, const aclTensor *self, const aclIntArray *kernelSize, const aclIntArray *strides, const
         aclIntArray *paddings, bool ceilMode, bool countIncludePad, int64_t divisorOverride, int8_t cubeMathType,
         aclTensor *out);
ACLNN_OP(aclnnCast, const aclTensor *self, aclDataType dtype, aclTensor *out);
ACLNN_OP(aclnnCat, const aclTensorList *tensors, int64_t dim, aclTensor *out);
ACLNN_OP(aclnnClamp, const aclTensor *self, const aclScalar *clipValueMin, const aclScalar *clipValueMax, aclTensor
         *out);
ACLNN_OP(aclnnClampMin, const aclTensor *self, const aclScalar *clipValueMin, aclTensor *out);
ACLNN_OP(aclnnConstantPadNd, const aclTensor *self, const aclIntArray *pad, const aclScalar *value, aclTensor *out);
ACLNN_OP(aclnnConvolution, const aclTensor *input, const aclTensor *weight, const aclTensor *bias, const aclIntArray
         *stride, const aclIntArray *padding, const aclIntArray *dilation, bool transposed, const aclIntArray
         *outputPadding, int64_t groups, aclTensor *output, int8_t cubeMathType);
ACLNN_OP(aclnnCos, const aclTensor *input, aclTensor *out);
ACLNN_OP(aclnnCumsum, const aclTensor *self, int64_t dim, aclDataType dtype, aclTensor *out);
ACLNN_OP(aclnnDiv, const aclTensor *self, const aclTensor *other, aclTensor *out);
ACLNN_OP(aclnnDivs, const aclTensor *self, const aclScalar *other, aclTensor *out);
ACLNN_OP(aclnnElu, const aclTensor *self, const aclScalar *alpha, const aclScalar *scale, const aclScalar *inputScale,
         aclTensor *out);
ACLNN_OP(aclnnEmbedding, const aclTensor *weight, const aclTensor *indices, const aclTensor *out);
ACLNN_OP(aclnnEqTensor, const aclTensor *self, const aclTensor *other, aclTensor *out);
ACLNN_OP(aclnnExp, const aclTensor *self, aclTensor *out);
ACLNN_OP(aclnnGatherV2, const aclTensor *self, int64_t dim, const aclTensor *index, aclTensor *out);
ACLNN_OP(aclnnGelu, const aclTensor *self, aclTensor *out);
ACLNN_OP(aclnnGeluV2, const aclTensor *x, int64_t approximate, aclTensor *y);
ACLNN_OP(aclnnGtScalar, const aclTensor *self, const aclScalar *other, aclTensor *out);
ACLNN_OP(aclnnHardsigmoid, const aclTensor *self, aclTensor *out);
ACLNN_OP(aclnnHardswish, const aclTensor *self, const aclTensor *out);
ACLNN_OP(aclnnIm2col, const aclTensor *self, const aclIntArray *kernelSize, const aclIntArray *dilation, const
         aclIntArray *padding, const aclIntArray *stride, const aclTensor *out);
ACLNN_OP(aclnnIndexCopy, aclTensor *selfRef, int64_t dim, const aclTensor *index, const aclTensor *source, aclTensor
         *outRef);
ACLNN_OP(aclnnIndexPutImpl, aclTensor *selfRef, const aclTensorList *indices, const aclTensor *values, bool accumulate,
         bool unsafe);
ACLNN_OP(aclnnIndexSelect, const aclTensor *self, int64_t dim, const aclTensor *index, aclTensor *out);
ACLNN_OP(aclnnInplaceAdd, const aclTensor *selfRef, const aclTensor *other, const aclScalar *alpha);
ACLNN_OP(aclnnInplaceAdds, const aclTensor *selfRef, const aclScalar *other, const aclScalar *alpha);
ACLNN_OP(aclnnInplaceClampMax, const aclTensor *selfRef, const aclScalar *clipValueMax);
ACLNN_OP(aclnnInplaceCopy, aclTensor *selfRef, const aclTensor *src);
ACLNN_OP(aclnnInplaceCos, aclTensor *inputRef);
ACLNN_OP(aclnnInplaceDiv, aclTensor *selfRef, const aclTensor *other);
ACLNN_OP(aclnnInplaceDivs, aclTensor *selfRef, const aclScalar *other);
ACLNN_OP(aclnnInplaceExp, aclTensor *selfRef);
ACLNN_OP(aclnnInplaceFillScalar, aclTensor *selfRef, const aclScalar *value);
ACLNN_OP(aclnnInplaceIndexCopy, aclTensor *selfRef, int64_t dim, const aclTensor *index, const aclTensor *source);
ACLNN_OP(aclnnInplaceIndexFillTensor, aclTensor *selfRef, int64_t dim, const aclIntArray *index, const aclScalar
         *value);
ACLNN_OP(aclnnInplaceMaskedFillScalar, aclTensor *selfRef, const aclTensor *mask, const aclScalar *value);
ACLNN_OP(aclnnInplaceMul, aclTensor *selfRef, const aclTensor *other);
ACLNN_OP(aclnnInplaceMuls, aclTensor *selfRef, const aclScalar *other);
ACLNN_OP(aclnnInplaceNeg, aclTensor *selfRef);
ACLNN_OP(aclnnInplacePowTensorTensor, const aclTensor *self, const aclTensor *exponent);
ACLNN_OP(aclnnInplaceSin, aclTensor *selfRef);
ACLNN_OP(aclnnInplaceSub, aclTensor *selfRef, const aclTensor *other, const aclScalar *alpha);
ACLNN_OP(aclnnInplaceSubs, aclTensor *selfRef, const aclScalar *other, const aclScalar *alpha);
ACLNN_OP(aclnnInplaceThreshold, aclTensor *selfRef, const aclScalar *threshold, const aclScalar *value);
ACLNN_OP(aclnnInplaceTriu, aclTensor *selfRef, int64_t diagonal);
ACLNN_OP(aclnnInplaceZero, aclTensor *selfRef);
ACLNN_OP(aclnnLeakyRelu, const aclTensor *self, const aclScalar *negativeSlope, aclTensor *out);
ACLNN_OP(aclnnLog, const aclTensor *self, aclTensor *out);
ACLNN_OP(aclnnMaxDim, const aclTensor *self, int64_t dim, bool keepdim, aclTensor *out, aclTensor *indices);
ACLNN_OP(aclnnMaxPool, const aclTensor *self, const aclIntArray *kernelShape, const aclIntArray *strides, int64_t
         autoPad, const aclIntArray *pads, const aclIntArray *dilations, int64_t ceilMode, aclTensor *out);
ACLNN_OP(aclnnMean, const aclTensor *self, const aclIntArray *dim, bool keepDim, aclDataType dtype, aclTensor *out);
ACLNN_OP(aclnnMul, const aclTensor *self, const aclTensor *other, aclTensor *out);
ACLNN_OP(aclnnMuls, const aclTensor *self, const aclScalar *other, aclTensor *out);
ACLNN_OP(aclnnNeg, const aclTensor *self, aclTensor *out);
ACLNN_OP(aclnnPermute, const aclTensor *self, const aclIntArray *dims, aclTensor *out);
ACLNN_OP(aclnnPowScalarTensor, const aclScalar *self, const aclTensor *exponent, const aclTensor *out);
ACLNN_OP(aclnnReciprocal, const aclTensor *self, aclTensor *out);
ACLNN_OP(aclnnReduceSum, const aclTensor *self, const aclIntArray *dims, bool keepDims, aclDataType dtype, aclTensor
         *out);
ACLNN_OP(aclnnReflectionPad1d, const aclTensor *self, const aclIntArray *padding, aclTensor *out);
ACLNN_OP(aclnnRelu, const aclTensor *self, const aclTensor *out);
ACLNN_OP(aclnnRepeat, const aclTensor *self, const aclIntArray *repeats, aclTensor *out);
ACLNN_OP(aclnnRepeatInterleaveIntWithDim, const aclTensor *self, int64_t repeats, int64_t dim, int64_t outputSize,
         aclTensor *out);
ACLNN_OP(aclnnRoll, const aclTensor *x, const aclIntArray *shifts, const aclIntArray *dims, aclTensor *out);
ACLNN_OP(aclnnRsqrt, const aclTensor *self, aclTensor *out);
ACLNN_OP(aclnnSWhere, const aclTensor *condition, const aclTensor *self, const aclTensor *other, aclTensor *out);
ACLNN_OP(aclnnSigmoid, const aclTensor *self, aclTensor *out);
ACLNN_OP(aclnnSign, const aclTensor *self, aclTensor *result);
ACLNN_OP(aclnnSilu, const aclTensor *self, aclTensor *out);
ACLNN_OP(aclnnSin, const aclTensor *self, aclTensor *out);
ACLNN_OP(aclnnSlice, const aclTensor *self, int64_t dim, int64_t start, int64_t end, int64_t step, aclTensor *out);
ACLNN_OP(aclnnSoftmaxCrossEntropyWithLogits, const aclTensor *features, const aclTensor *labels, aclTensor *loss,
         aclTensor *backprop);
ACLNN_OP(aclnnSoftplus, const aclTensor *self, const aclScalar *beta, const aclScalar *threshold, aclTensor *out);
ACLNN_OP(aclnnSort, const aclTensor *self, bool stable, int64_t dim, bool descending, aclTensor *valuesOut, aclTensor
         *indicesOut);
ACLNN_OP(aclnnSqrt, const aclTensor *self, aclTensor *out);
ACLNN_OP(aclnnSub, const aclTensor *self, const aclTensor *other, const aclScalar *alpha, aclTensor *out);
ACLNN_OP(aclnnSubs, const aclTensor *self, const aclScalar *other, const aclScalar *alpha, aclTensor *out);
ACLNN_OP(aclnnSwish, const aclTensor *self, const aclScalar *betaOptional, aclTensor *out);
ACLNN_OP(aclnnTanh, const aclTensor *self, aclTensor *out);
ACLNN_OP(aclnnTopk, const aclTensor *self, int64_t k, int64_t dim, bool largest, bool sorted, aclTensor *valuesOut,
         aclTensor *indicesOut);
ACLNN_OP(aclnnTriangularSolve, const aclTensor *self, const aclTensor *A, bool upper, bool transpose, bool
         unitriangular, aclTensor *xOut, aclTensor *mOut);
ACLNN_OP(aclnnTril, const aclTensor *self, int64_t diagonal, aclTensor *out);
ACLNN_OP(aclnnTriu, const aclTensor *self, int64_t diagonal, aclTensor *out);
ACLNN_OP(aclnnUpsampleNearest2d, const aclTensor *self, const aclIntArray *outputSize, aclTensor *out);

// ---- functions beside the operators ----
aclnnStatus aclnnCalculateMatmulWeightSize(const aclIntArray *tensorShape, uint64_t *weightTensorSize);
aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray *tensorShape, aclDataType dataType, uint64_t *weightTensorSize);
// *dstShape belongs to the caller, as in aclGetViewShape.
aclnnStatus aclnnNpuFormatCastCalculateSizeAndFormat(const aclTensor *srcTensor, int dstFormat, int additionalDtype,
                                                     int64_t **dstShape, uint64_t *dstShapeSize, int *actualFormat);

// clang-format on
#ifdef __cplusplus
}
#endif

#endif
