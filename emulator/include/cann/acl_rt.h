// The C ABI of libascendcl: initialisation, devices, contexts, streams, events, memory. Every function returns an aclError unless
// shown otherwise. "new": not in CANN 8.1.
#ifndef TALLY_CANN_ACL_RT_H
#define TALLY_CANN_ACL_RT_H

#include "cann/acl_errors.h"
#include "cann/acl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

aclError aclInit(const char *configPath); // NULL is valid
aclError aclFinalize(void);
aclError aclFinalizeReference(uint64_t *refCount); // new
const char *aclGetRecentErrMsg(void);              // of this thread; reading clears it
const char *aclrtGetSocName(void);
aclError aclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch);

aclError aclrtSetDevice(int32_t device);
aclError aclrtResetDevice(int32_t device);
aclError aclrtResetDeviceForce(int32_t device);
aclError aclrtGetDevice(int32_t *device);
aclError aclrtGetDeviceCount(uint32_t *count);
aclError aclrtSynchronizeDevice(void);
aclError aclrtSynchronizeDeviceWithTimeout(int32_t ms);
aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr attr, int64_t *value); // new
aclError aclrtGetRunMode(aclrtRunMode *mode);
aclError aclrtSetDeviceResLimit(int32_t device, aclrtDevResLimitType type, uint32_t value); // new
aclError aclrtDeviceCanAccessPeer(int32_t *can, int32_t device, int32_t peer);
aclError aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags);
aclError aclrtDeviceDisablePeerAccess(int32_t peer);

aclError aclrtCreateContext(aclrtContext *context, int32_t device);
aclError aclrtDestroyContext(aclrtContext context);
aclError aclrtSetCurrentContext(aclrtContext context);
aclError aclrtGetCurrentContext(aclrtContext *context);
aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value);
aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value);
aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value);
aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value);
aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream); // new

aclError aclrtCreateStream(aclrtStream *stream);
aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag);
aclError aclrtDestroyStream(aclrtStream stream);
aclError aclrtDestroyStreamForce(aclrtStream stream);
aclError aclrtSynchronizeStream(aclrtStream stream);
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t ms); // -1: forever
aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status);
aclError aclrtStreamAbort(aclrtStream stream);
aclError aclrtStreamGetId(aclrtStream stream, int32_t *id);
aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode);
aclError aclrtGetStreamAvailableNum(uint32_t *count); // new
aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);

aclError aclrtCreateEvent(aclrtEvent *event);
aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag);
aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag);
aclError aclrtDestroyEvent(aclrtEvent event);
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);
aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);
aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status);
aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status);
aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status);
aclError aclrtSynchronizeEvent(aclrtEvent event);
aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t ms);
aclError aclrtEventElapsedTime(float *ms, aclrtEvent start, aclrtEvent end);
aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *us);

aclError aclrtMalloc(void **device, size_t size, aclrtMemMallocPolicy policy);
aclError aclrtMallocAlign32(void **device, size_t size, aclrtMemMallocPolicy policy);
aclError aclrtFree(void *device);
aclError aclrtFreeWithDevSync(void *device);
aclError aclrtMallocHost(void **host, size_t size);
aclError aclrtFreeHost(void *host);
aclError aclrtHostRegister(void *host, uint64_t size, aclrtHostRegisterType type, void **device); // not on 910A, 310P
aclError aclrtHostUnregister(void *host);
aclError aclrtMemcpy(void *dst, size_t dst_max, const void *src, size_t count, aclrtMemcpyKind kind);
aclError aclrtMemcpyAsync(void *dst, size_t dst_max, const void *src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream);
aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind);
aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                            aclrtMemcpyKind kind, aclrtStream stream);
aclError aclrtMemset(void *device, size_t max, int32_t value, size_t count);
aclError aclrtMemsetAsync(void *device, size_t max, int32_t value, size_t count, aclrtStream stream);
aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total);

aclError aclrtReserveMemAddress(void **address, size_t size, size_t alignment, void *expected, uint64_t flags);
aclError aclrtReleaseMemAddress(void *address);
aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp *prop, uint64_t flags);
aclError aclrtFreePhysical(aclrtDrvMemHandle handle);
aclError aclrtMapMem(void *address, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags);
aclError aclrtUnmapMem(void *address);
aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop, aclrtMemGranularityOptions option,
                                          size_t *granularity);

aclError aclrtLaunchCallback(aclrtCallback fn, void *user, aclrtCallbackBlockType block, aclrtStream stream);
aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args); // new
aclError aclrtSubscribeReport(uint64_t thread, aclrtStream stream);
aclError aclrtUnSubscribeReport(uint64_t thread, aclrtStream stream);
aclError aclrtProcessReport(int32_t ms);

#ifdef __cplusplus
}
#endif

#endif
