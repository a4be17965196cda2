// The C ABI of libnnopbase: descriptors of tensors, scalars and arrays, and executors. What every operator takes.
//
// Lifetimes: scalars and arrays copy what they are given; a tensor list keeps pointers, and destroying the list destroys its tensors.
// Descriptors must live until phase 2 has returned, buffers and workspaces until the work has run on its stream.
#ifndef TALLY_CANN_ACLNN_BASE_H
#define TALLY_CANN_ACLNN_BASE_H

#include "cann/acl_errors.h"
#include "cann/acl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

aclnnStatus aclnnInit(const char *configPath);
aclnnStatus aclnnFinalize(void);

// view_dims, stride: n entries; stride NULL: contiguous. offset in elements. storage_dims: the buffer's own shape, a flat length
// will do for ND.
aclTensor *aclCreateTensor(const int64_t *view_dims, uint64_t n, aclDataType dtype, const int64_t *stride,
                           int64_t offset, aclFormat format, const int64_t *storage_dims, uint64_t storage_n,
                           void *data);
aclnnStatus aclInitTensor(aclTensor *tensor, const int64_t *view_dims, uint64_t n, aclDataType dtype,
                          const int64_t *stride, int64_t offset, aclFormat format, const int64_t *storage_dims,
                          uint64_t storage_n, void *data);
aclScalar *aclCreateScalar(void *value, aclDataType dtype);
aclIntArray *aclCreateIntArray(const int64_t *value, uint64_t n);
aclFloatArray *aclCreateFloatArray(const float *value, uint64_t n);
aclBoolArray *aclCreateBoolArray(const bool *value, uint64_t n);
aclTensorList *aclCreateTensorList(const aclTensor *const *tensors, uint64_t n);
aclScalarList *aclCreateScalarList(const aclScalar *const *scalars, uint64_t n);
aclnnStatus aclDestroyTensor(const aclTensor *tensor);
aclnnStatus aclDestroyScalar(const aclScalar *scalar);
aclnnStatus aclDestroyIntArray(const aclIntArray *array);
aclnnStatus aclDestroyFloatArray(const aclFloatArray *array);
aclnnStatus aclDestroyBoolArray(const aclBoolArray *array);
aclnnStatus aclDestroyTensorList(const aclTensorList *list);
aclnnStatus aclDestroyScalarList(const aclScalarList *list);

// *dims of the shape getters belongs to the caller, who frees it with C++ delete[] in the vendor's library (here: free).
aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **dims, uint64_t *n);
aclnnStatus aclGetStorageShape(const aclTensor *tensor, int64_t **dims, uint64_t *n);
aclnnStatus aclGetViewStrides(const aclTensor *tensor, int64_t **strides, uint64_t *n);
aclnnStatus aclGetViewOffset(const aclTensor *tensor, int64_t *offset);
aclnnStatus aclGetFormat(const aclTensor *tensor, aclFormat *format);
aclnnStatus aclGetDataType(const aclTensor *tensor, aclDataType *dtype);
aclnnStatus aclGetIntArraySize(const aclIntArray *array, uint64_t *n);
aclnnStatus aclGetFloatArraySize(const aclFloatArray *array, uint64_t *n);
aclnnStatus aclGetBoolArraySize(const aclBoolArray *array, uint64_t *n);
aclnnStatus aclGetTensorListSize(const aclTensorList *list, uint64_t *n);
aclnnStatus aclGetScalarListSize(const aclScalarList *list, uint64_t *n);
aclnnStatus aclSetRawTensorAddr(aclTensor *tensor, void *address);
aclnnStatus aclGetRawTensorAddr(const aclTensor *tensor, void **address);

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *executor); // directly after phase 1
aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor);
aclnnStatus aclSetInputTensorAddr(aclOpExecutor *executor, size_t index, aclTensor *tensor, void *address);
aclnnStatus aclSetOutputTensorAddr(aclOpExecutor *executor, size_t index, aclTensor *tensor, void *address);
aclnnStatus aclSetTensorAddr(aclOpExecutor *executor, size_t index, aclTensor *tensor, void *address);
aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor *executor, size_t ir_index, size_t relative_index,
                                         aclTensorList *list, void *address);
aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor *executor, size_t ir_index, size_t relative_index,
                                          aclTensorList *list, void *address);
aclnnStatus aclSetDynamicTensorAddr(aclOpExecutor *executor, size_t ir_index, size_t relative_index,
                                    aclTensorList *list, void *address);

// The older spelling of the same calls, kept by the vendor as aliases.
aclnnStatus AclSetInputTensorAddr(aclOpExecutor *executor, size_t index, aclTensor *tensor, void *address);
aclnnStatus AclSetOutputTensorAddr(aclOpExecutor *executor, size_t index, aclTensor *tensor, void *address);
aclnnStatus AclSetTensorAddr(aclOpExecutor *executor, size_t index, aclTensor *tensor, void *address);
aclnnStatus AclSetDynamicInputTensorAddr(aclOpExecutor *executor, size_t ir_index, size_t relative_index,
                                         aclTensorList *list, void *address);
aclnnStatus AclSetDynamicOutputTensorAddr(aclOpExecutor *executor, size_t ir_index, size_t relative_index,
                                          aclTensorList *list, void *address);
aclnnStatus AclSetDynamicTensorAddr(aclOpExecutor *executor, size_t ir_index, size_t relative_index,
                                    aclTensorList *list, void *address);

#ifdef __cplusplus
}
#endif

#endif
